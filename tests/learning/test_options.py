"""Options: numbers that may be words, options that came later, and sentences that name what there is."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

import mnemon
from command_line import run
from mnemon import MnemonError
from mnemon.experiments import tuning
from mnemon.experiments.job import _kind
from mnemon.experiments.recipes import recipes
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.experiments.tuning.grid import parse_grid
from mnemon.learning import options
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods
from mnemon.learning.methods.er import ER
from mnemon.learning.objectives import OBJECTIVES
from mnemon.learning.options import option
from mnemon.learning.stacked.stack import Stack
from mnemon.report import groups

LATER = {
    "average": 0.0,
    "sgd_momentum": 0.0,
    "weight_decay": 0.0,
    "iterations": 1,
    "augment": "none",
}  # options of every method that came after 0.1
HAS = ", ".join(sorted(["batch_size", "forward", "lr", "memory_size", "replay_classes", "replay_size", *LATER]))


@dataclass(frozen=True)
class Averaging(ER):
    """A decay that may also be "auto", and came later."""

    name: ClassVar[str] = "averaging"
    decay: float | str = option(
        0.0, "decay of the averaged weights", least=0, below=1, words=("auto", "half"), since="0.2"
    )
    warm_up: float | str = option("none", "steps before it", above=0, words=("none", "auto"), since="0.2")


@pytest.fixture(autouse=True)
def averaging(monkeypatch):
    monkeypatch.setitem(methods(), "averaging", Averaging)


@pytest.mark.parametrize("value", ["auto", "half", 0.99, 0.0, 0])
def test_a_number_may_be_a_word(value):
    found = choose("averaging", given={"decay": value}).method.decay
    assert found == value
    assert type(found) is (str if isinstance(value, str) else float)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("atuo", "decay must be of type float or 'auto' or 'half', not 'atuo'."),
        ("", "decay must be of type float or 'auto' or 'half', not ''."),
        (None, "decay must be of type float or 'auto' or 'half', not None."),
        (True, "decay must be of type float or 'auto' or 'half', not True."),
        (1.0, "decay must be below 1, not 1.0."),
        (-0.5, "decay must be at least 0, not -0.5."),
        (float("nan"), "decay must be a finite number, not nan."),
    ],
)
def test_neither_a_number_nor_one_of_the_words(value, sentence):
    with pytest.raises(MnemonError) as error:
        choose("averaging", given={"decay": value})
    assert str(error.value) == sentence


def test_the_default_may_be_the_word():
    assert choose("averaging").method.warm_up == "none"
    assert choose("averaging", given={"warm_up": 3}).method.warm_up == 3.0
    with pytest.raises(MnemonError, match="warm_up must be above 0"):
        choose("averaging", given={"warm_up": 0})


def test_words_and_numbers_on_the_command_line(tmp_path, capsys):
    command = ["run", "--method", "averaging", "--stream", "split-digits", "--device", "cpu", "--out"]
    for typed, value in (("auto", "auto"), ("0.5", 0.5), ("0", None)):
        run(*command, str(tmp_path / typed), "--decay", typed, capsys=capsys)
        (record,) = ResultFolder(tmp_path / typed).read()
        assert record["options"].get("decay") == value
        again = groups.spec(record).command()
        assert again[-2:] == (["--decay", typed] if value else ["--stream", "split-digits"])
    _, err = run(*command, str(tmp_path), "--decay", "often", code=2, capsys=capsys)
    assert "decay" in err
    out, _ = run("run", "--help", capsys=capsys)
    assert "--decay FLOAT|auto|half" in " ".join(out.replace("│", " ").split())


def test_a_grid_of_numbers_and_words(tmp_path):
    at_recipe = choose("averaging", given={"decay": "auto"})  # the type is the declaration's, not the recipe's
    grid = parse_grid(["decay=0,auto,0.99,0.0", "lr=0.1"], at_recipe)
    assert grid == {"decay": (0.0, "auto", 0.99), "lr": (0.1,)}
    with pytest.raises(MnemonError, match=r"decay must be of type float or 'auto' or 'half', not 'x'\."):
        parse_grid(["decay=0,x"], at_recipe)
    found = tuning.search("averaging", "split-digits", tmp_path, grid=["decay=0,auto,0.99"], seeds=[100])
    log = json.loads(found.log.read_text())
    assert log["grid"] == {"decay": [0.0, "auto", 0.99]}
    assert [c["values"]["decay"] for c in log["candidates"]] == [0.0, "auto", 0.99]  # ER all the same: no best
    assert found.at_the_edge() == ["decay 0.0 is the smallest of its grid"]


def test_a_recipe_holds_either(copied):
    for value in ("auto", 0.5):
        recipes.keep(("averaging", "ce", "split-digits"), recipes.Recipe({"decay": value}, "a test"))
        assert Spec("averaging", "split-digits").choice().method.decay == value


def test_runs_with_a_word_and_with_a_number_do_not_stack():
    kinds = [
        _kind(spec, spec.choice())
        for value in (0.5, 0.25, "auto", "half")
        for spec in [Spec("averaging", "split-digits", options={"decay": value})]
    ]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 3


def test_what_a_switch_turns_off_does_not_stack_with_what_it_turns_on():
    specs = [Spec("er", "split-digits", options={"average": value}) for value in (0.0, 0.5, 0.9, "auto")]
    off, on, too, word = (_kind(spec, spec.choice()) for spec in specs)
    assert on == too
    assert len({off, on, word}) == 3
    learners = [
        Learner(choice.method, choice.objective, Inputs((4,)), backbone="identity")
        for choice in (spec.choice() for spec in specs[:2])
    ]
    with pytest.raises(ValueError, match="only learners of one kind"):
        Stack(learners)


@pytest.mark.parametrize("other", [{"decay": "auto"}, {"decay": "auto", "warm_up": 0.5}])
def test_a_stack_refuses_a_word_beside_a_number(other):
    """Even where as many options have the same word."""
    learners = [
        Learner(choice.method, choice.objective, Inputs((4,)), backbone="identity")
        for given in ({"decay": 0.5, "warm_up": "auto"}, other)
        for choice in [choose("averaging", given=given)]
    ]
    with pytest.raises(ValueError, match="only learners of one kind"):
        Stack(learners)


def test_an_option_that_came_later_is_in_no_name_at_its_default():
    def name(**given):
        spec = Spec("averaging", "split-digits", options=given)
        return spec.key(spec.choice(), "split-digits", "-", {})

    assert "decay" not in choose("averaging").options()
    assert choose("averaging", given={"decay": 0.5}).options()["decay"] == 0.5
    assert name() == name(decay=0) == name(warm_up="none")
    assert len({name(), name(decay=0.5), name(decay="auto")}) == 3
    record = {"method": "averaging", "stream": "split-digits", "loss": "ce", "options": {"lr": 0.1}}
    assert groups.spec(record).options == {
        "forward": "joint",
        **LATER,
        "replay_classes": "all",
        "decay": 0.0,
        "warm_up": "none",
        "lr": 0.1,
    }


def test_the_options_that_came_later():
    """Marked once, where they are declared; runs recorded before them depend on it."""
    found = {name: list(options.omitted_at_default(method)) for name, method in methods().items()}
    del found["averaging"]
    mir = {"mir", "gmed-mir"}
    own = {name: ["reference_size"] if name == "a-gem" else [] for name in found}
    own |= {name: ["replay_classes"] for name in ("er", "gmed-er")} | {
        name: ["replay_classes", "statistics"] for name in mir
    }
    assert found == {name: ["forward", *LATER, *own[name]] for name in found}
    losses = {name: list(options.omitted_at_default(loss)) for name, loss in OBJECTIVES.items()}
    assert {name: later for name, later in losses.items() if later} == {"pnca": ["scale"], "hybrid": ["scale"]}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"gamma": 1.0},
            "er with the loss ce has no option 'gamma' (it is an option of the loss hybrid or hybrid-ace or hybrid-ce); "
            f"it has {HAS}.",
        ),
        (
            {"candidates": 10},
            "er with the loss ce has no option 'candidates' (it is an option of the method gmed-mir or mir); "
            f"it has {HAS}.",
        ),
        (
            {"width": 10},
            "er with the loss ce has no option 'width' (it is an option of the backbone mlp, written mlp:width=…); "
            f"it has {HAS}.",
        ),
        (
            {"speed": 10},
            f"er with the loss ce has no option 'speed'; it has {HAS}.",
        ),
        ({"lr": "fast"}, "lr must be of type float, not 'fast'."),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0."),
        ({"forward": "jiont"}, "unknown forward 'jiont'; did you mean 'joint'?"),
    ],
)
def test_an_option_that_is_refused_is_one_sentence_that_says_what_there_is(given, sentence):
    with pytest.raises(MnemonError) as error:
        mnemon.run("er", "split-digits", **given)
    assert str(error.value) == sentence


def test_an_option_without_meaning_is_not_said_to_belong_elsewhere():
    with pytest.raises(MnemonError) as error:
        choose("fine-tune", given={"memory_size": 10})
    left = ", ".join(sorted(["batch_size", "lr", *LATER]))
    assert str(error.value) == f"fine-tune with the loss ce has no option 'memory_size'; it has {left}."
