"""The recipes: which values a cell has, whose it takes where it has none, and the file they are kept in."""

import itertools
import json

import pytest

from mnemon import MnemonError, files
from mnemon.experiments.recipes import recipes
from mnemon.experiments.recipes.recipes import Recipe, recipe
from mnemon.experiments.spec import Spec
from mnemon.learning.methods import methods
from mnemon.learning.objectives import OBJECTIVES

# The cells as they were measured for the first tables. A cell that `mnemon tune --keep` has chosen since says so in its
# source and may differ; any other change moves results that are published, and must not slip in unseen.
FIRST = """
a-gem/ce/split-mnist lr=0.2
aser/ce/split-cifar10 lr=0.1 per_class=9
aser/ce/split-cifar100 lr=0.1 per_class=2
aser/ce/split-mini_imagenet lr=0.1 per_class=3
aser/ce/split-mnist lr=0.1
cope/cope/split-cifar10 lr=0.005 embedding_size=256
cope/cope/split-cifar100 lr=0.005 embedding_size=256 temperature=0.05 momentum=0.9
cope/cope/split-mini_imagenet lr=0.005 embedding_size=256 temperature=0.05 momentum=0.9
cope/cope/split-mnist lr=0.005
der++/ce/split-mnist lr=0.1 logit_weight=0.5
er-ace/ace/split-cifar10 lr=0.05
er-ace/ace/split-mnist lr=0.05
er/ce/smooth-cifar10 lr=0.1
er/ce/split-cifar10 lr=0.05
er/ce/split-digits lr=0.2
er/ce/split-mnist lr=0.15
fine-tune/ce/split-cifar10 lr=0.1
fine-tune/ce/split-mnist lr=0.05
gmed-er/ce/split-cifar10 edit_rate=0.05 edit_hold=0.001
gmed-er/ce/split-cifar100 edit_rate=0.01 edit_hold=0.001
gmed-er/ce/split-mini_imagenet edit_rate=1.0 edit_hold=0.1
gmed-er/ce/split-mnist lr=0.15 edit_rate=5.0 edit_hold=0.0
gmed-mir/ce/split-cifar10 edit_rate=0.05 edit_hold=0.001
gmed-mir/ce/split-cifar100 edit_rate=0.01 edit_hold=0.001
gmed-mir/ce/split-mini_imagenet edit_rate=1.0 edit_hold=0.1
gmed-mir/ce/split-mnist lr=0.05 edit_rate=5.0 edit_hold=0.001
gss/ce/split-mnist lr=0.2
hybrid-ace/hybrid-ace/split-cifar10 lr=0.05
hybrid-ace/hybrid-ace/split-mnist lr=0.1
hybrid/hybrid/smooth-cifar10 gamma=0.1 lr=0.25
hybrid/hybrid/smooth-cifar100 gamma=1.0 lr=0.5
hybrid/hybrid/smooth-mini_imagenet gamma=1.0 lr=0.2
hybrid/hybrid/split-cifar10 gamma=0.1 lr=0.2 divisor="batch"
hybrid/hybrid/split-cifar100 gamma=0.5 lr=0.35
hybrid/hybrid/split-digits gamma=0.1 lr=0.45 divisor="batch"
hybrid/hybrid/split-mini_imagenet gamma=1.0 lr=0.2
hybrid/hybrid/split-mnist gamma=0.1 lr=0.05 divisor="batch"
iid-offline/ce/split-cifar10 lr=0.1
iid-offline/ce/split-mnist lr=0.05
iid-online/ce/smooth-cifar10 lr=0.1
iid-online/ce/split-cifar10 lr=0.05
iid-online/ce/split-mnist lr=0.05
las/las/split-cifar10 lr=0.05
las/las/split-mnist lr=0.15
mir/ce/split-mnist lr=0.05
scr/supcon/split-cifar10 lr=0.05
scr/supcon/split-mnist lr=0.05
"""


def test_only_tuning_changes_a_cell():
    first = {}
    for line in FIRST.split("\n")[1:-1]:
        name, *values = line.split()
        first[tuple(name.split("/"))] = {k: json.loads(v) for k, v in (pair.split("=") for pair in values)}
    untouched = {name: cell for name, cell in recipes.cells().items() if not cell.source.startswith("mnemon tune")}
    assert {name: cell.values for name, cell in untouched.items() if name in first} == {
        name: values for name, values in first.items() if name in untouched
    }
    assert first.keys() <= recipes.cells().keys()
    assert untouched.keys() <= first.keys()


def test_every_recipe_can_be_run():
    streams = ("split-mnist", "split-cifar10", "smooth-cifar10", "split-cifar100-20", "smooth-mini_imagenet")
    tried = 0
    for method, loss, stream in itertools.product(methods(), OBJECTIVES, streams):
        try:
            Spec(method, stream, loss=loss).choice()
        except MnemonError as error:  # a choice that makes no sense, whatever the recipe
            assert "has no option" not in str(error)  # noqa: PT017
        else:
            tried += 1
    assert tried > 300


def test_a_cell_says_where_its_values_come_from():
    for name, cell in recipes.cells().items():
        assert cell.values, name
        assert cell.source.startswith(
            ("paper: Table 7", "authors of", "tuned on validation", "mnemon tune", "not tuned")
        )


def test_the_file_has_a_line_for_each_cell_in_order():
    lines = recipes.PATH.read_text().splitlines()
    cells = [json.loads(line.rstrip(",")) for line in lines[1:-1]]
    names = [(c["method"], c["loss"], c["stream"]) for c in cells]
    assert names == sorted(recipes.cells())


def test_whose_values_a_cell_without_a_line_takes(copied):
    copied.write_text("[]")
    for name, values in (
        (("er", "ce", "split-mnist"), {"lr": 0.3}),
        (("hybrid", "hybrid", "split-mnist"), {"gamma": 0.7, "lr": 0.4, "divisor": "batch"}),
        (("mir", "ce", "split-mnist"), {"lr": 0.2, "candidates": 20}),
    ):
        recipes.keep(name, Recipe(values, "-"))
    assert recipe("er", "ce", "smooth", "mnist") == {"lr": 0.3}
    assert recipe("gss", "ce", "split", "mnist") == {"lr": 0.3}
    assert recipes.source("gss", "ce", "split", "mnist") == "er's: -"  # whose search it was is not GSS's
    assert recipes.source("er", "ce", "split", "mnist") == "-"
    assert recipe("mir", "ce", "smooth", "mnist") == {"lr": 0.2, "candidates": 20}
    assert recipe("er", "ms", "split", "mnist") == {"lr": 0.4, "divisor": "batch"}
    assert recipe("mir", "pnca", "split", "mnist") == {"lr": 0.4}
    assert recipe("hybrid", "ce", "split", "mnist") == {"lr": 0.3}
    assert recipe("er-ace", "ace", "split", "mnist") == {}
    assert recipe("er", "ce", "split", "cifar10") == {}
    recipes.keep(("hybrid", "ms", "split-mnist"), Recipe({"lr": 0.1}, "-"))  # its own comes before the hybrid's
    assert recipe("hybrid", "ms", "split", "mnist") == {"lr": 0.1}
    assert recipe("er", "ms", "split", "mnist") == {"lr": 0.4, "divisor": "batch"}


def test_what_another_process_kept_meanwhile_stays(copied):
    recipes.cells()  # read, as at the start of a long search
    text = copied.read_text()
    copied.write_text(text.replace('"lr": 0.15', '"lr": 0.16'))
    recipes.keep(("er", "ce", "split-cifar10"), Recipe({"lr": 0.07}, "-"))
    assert recipes.recipe("er", "ce", "split", "cifar10") == {"lr": 0.07}
    assert recipes.recipe("er", "ce", "split", "mnist") == {"lr": 0.16}


def test_keeping_a_cell_changes_that_line_alone(copied):
    before = copied.read_text().splitlines()
    recipes.keep(("er", "ce", "split-mnist"), Recipe({"lr": 0.07}, "mnemon tune: …"))
    after = copied.read_text().splitlines()
    assert len(before) == len(after)
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
    assert Spec("er", "split-mnist").choice().method.lr == 0.07


def test_recipes_that_cannot_be_written_or_read(copied, monkeypatch):
    before = copied.read_bytes()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "write", refuse)
    with pytest.raises(MnemonError, match="cannot be written"):
        recipes.keep(("er", "ce", "split-mnist"), Recipe({"lr": 0.07}, "-"))
    assert copied.read_bytes() == before
    copied.write_text('[{"method": "er"}]')
    recipes.cells.cache_clear()
    with pytest.raises(MnemonError, match="cannot be read"):
        recipe("er", "ce", "split", "mnist")
