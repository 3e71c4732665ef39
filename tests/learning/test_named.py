"""Classifiers and backbones with options: one canonical name each, which records and run names hold."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import mnemon
from mnemon import MnemonError, OnlineClassifier, cli
from mnemon.experiments import runner
from mnemon.experiments.executor import Executor
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning import backbones, named
from mnemon.learning.classifier import Classifier
from mnemon.learning.classifiers import CLASSIFIERS
from mnemon.learning.options import option
from mnemon.learning.plugins import classifier
from mnemon.report import groups, pairs
from mnemon.report.commands import commands

WEIGHTS = ("none", "class")


@dataclass(frozen=True)
class Regression(Classifier):
    """Least squares with a penalty: one-hot targets from the features of the memory."""

    name: ClassVar[str] = "regression"
    doc: ClassVar[str] = "least squares on the memory"
    needs: ClassVar[tuple[str, ...]] = ("memory",)
    lam: float = option(1.0, "weight of the penalty", above=0)
    weight: str = option("none", "what samples weigh", choices=WEIGHTS)
    degree: int = option(1, "of the features", least=1, most=3)
    origin: str = option("here", "any word")

    def prepare(self, learner):
        f, y = learner.memory_features()
        f = f**self.degree
        targets = nn.functional.one_hot(y, len(learner.seen)).to(f)
        w = torch.linalg.solve(f.T @ f + self.lam * torch.eye(f.shape[1], dtype=f.dtype), f.T @ targets)
        return lambda out: (out.features**self.degree @ w).masked_fill(~learner.seen, -torch.inf)


@pytest.fixture(autouse=True)
def regression(monkeypatch):
    monkeypatch.setitem(CLASSIFIERS, "regression", Regression)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ncm", "ncm"),
        ("regression", "regression"),
        ("regression:lam=1", "regression"),
        ("regression:lam=1.0:degree=1:weight=none", "regression"),
        ("regression:lam=10", "regression:lam=10"),
        ("regression:lam=1e1", "regression:lam=10"),
        ("regression:lam=0.50", "regression:lam=0.5"),
        ("regression:lam=1e-9", "regression:lam=1e-09"),
        ("regression:lam=1e+20", "regression:lam=1e20"),
        ("regression:weight=class:lam=10:degree=02", "regression:degree=2:lam=10:weight=class"),
        ("regression:origin=far-away_1.2", "regression:origin=far-away_1.2"),
    ],
)
def test_each_classifier_has_one_name(text, name):
    assert classifier(text).name == name
    assert classifier(name) == classifier(text)
    assert Regression.name == "regression"  # the class keeps its own


@pytest.mark.parametrize(
    ("text", "name"),
    [("resnet18:nf=20", "resnet18"), ("resnet18:nf=32", "resnet18:nf=32"), ("mlp:width=0100", "mlp:width=100")],
)
def test_each_backbone_has_one_name(text, name):
    assert backbones.architecture(text).name == name
    assert Spec("er", "split-digits", backbone=text).backbone == name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("regresion:lam=10", "unknown classifier 'regresion'; did you mean 'regression'?"),
        ("regression:lamda=1", "the classifier regression has no option 'lamda'; it has degree, lam, origin, weight."),
        (
            "ncm:lam=1",
            "the classifier ncm has no option 'lam' (it is an option of gaussian, lda, ridge, regression); it has none.",
        ),
        ("regression:lam=big", "the classifier regression: lam must be of type float, not 'big'."),
        ("regression:lam=0", "the classifier regression: lam must be above 0, not 0.0."),
        ("regression:lam=inf", "the classifier regression: lam must be a finite number, not inf."),
        ("regression:degree=1.5", "the classifier regression: degree must be of type int, not '1.5'."),
        ("regression:weight=clas", "the classifier regression: unknown weight 'clas'; did you mean 'class'?"),
        (
            "regression:origin=a/b",
            "the classifier regression: origin may hold letters, digits and . _ - signs, not 'a/b'.",
        ),
        ("regression:lam=1:lam=2", "lam is given twice in 'regression:lam=1:lam=2'."),
        (3, "classifier must be a name or a Classifier class, not 3."),
        *(
            (text, f"options of a classifier are written as regression:option=value:option=value, not {text!r}.")
            for text in (
                "regression:",
                "regression:10",
                "regression:lam=",
                "regression:=10",
                "regression:lam=1::weight=class",
            )
        ),
    ],
)
def test_a_classifier_that_is_refused_is_one_sentence_that_says_what_there_is(text, sentence):
    with pytest.raises(MnemonError) as error:
        mnemon.run("er", "split-digits", classifier=text)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("resnet:nf=3", "unknown backbone 'resnet'; did you mean 'resnet18'?"),
        ("mlp:nf=3", "the backbone mlp has no option 'nf' (it is an option of resnet18); it has width."),
        ("auto:width=3", "the backbone auto has no option 'width' (it is an option of mlp); it has none."),
        ("mlp:width=0", "the backbone mlp: width must be at least 1, not 0."),
        ("mlp:width=wide", "the backbone mlp: width must be of type int, not 'wide'."),
    ],
)
def test_a_backbone_that_is_refused_is_one_sentence_that_says_what_there_is(text, sentence):
    for ask in (
        lambda: mnemon.run("er", "split-digits", backbone=text),
        lambda: Spec("er", "split-digits", backbone=text).choice(),
        lambda: OnlineClassifier(backbone=text).fit(np.eye(4), [0, 1, 0, 1]),
    ):
        with pytest.raises(MnemonError) as error:
            ask()
        assert str(error.value) == sentence


def test_parameters_of_a_classifier_are_in_its_name_and_not_in_the_runs(tmp_path):
    wanted = ("ncm", "regression", "regression:lam=10", "regression:lam=1000:degree=2")
    made = runner.run_all([Spec("er", "split-digits", classifiers=wanted)], tmp_path)
    there = ["ncm", "regression", "regression:lam=10", "regression:degree=2:lam=1000"]
    assert [r["classifier"] for r in made] == there
    assert len({r["run"] for r in made}) == 1
    assert len({r["average_accuracy"] for r in made}) == 4
    details = json.loads((tmp_path / "details" / f"{made[0]['run']}.json").read_text())
    assert list(details["classifiers"]) == there
    (again,) = runner.run_all([Spec("er", "split-digits", classifiers=("regression:lam=10.0",))], tmp_path)
    assert again == made[2]  # it is there, under the same name
    alone = mnemon.run("er", "split-digits", classifier="regression:lam=10", device="cpu")
    assert (alone["run"], alone["average_accuracy"]) == (made[2]["run"], made[2]["average_accuracy"])
    (section,) = groups.read(tmp_path)
    assert len(section.groups) == 4
    (command,) = commands(section)
    assert f"--classifier {','.join(sorted(there))} " in command.replace("'", "")


def test_checkpoints_of_classifiers_with_options(tmp_path, monkeypatch):
    """The folder's name is allowed on every system, says what the classifier is, and is found again."""
    asked = Spec("er", "split-digits", classifiers=("regression:lam=10:weight=class", "ncm"))
    whole = runner.run_all([asked], tmp_path / "whole")
    settle = Executor.settle

    def stopped(executor, proceed):
        settle(executor, proceed)
        if executor.run.position > 60:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "settle", stopped)
        with suppress(KeyboardInterrupt):
            runner.run_all([asked], tmp_path, checkpoint_every=0)
    (folder,) = (path for path in (tmp_path / "checkpoints").iterdir() if path.is_dir())
    assert folder.name == f"{whole[0]['run']}+ncm+regression,lam=10,weight=class"
    resumed = runner.run_all([asked], tmp_path)
    assert [r["accuracy_matrix"] for r in resumed] == [r["accuracy_matrix"] for r in whole]
    assert not folder.exists()


@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_names_without_options_are_file_names_as_they_are(name):
    assert named.in_file_name(classifier(name).name) == name


def test_options_of_a_backbone_make_another_run(tmp_path):
    def key(backbone):
        spec = Spec("er", "split-digits", backbone=backbone)
        return spec.key(spec.choice(), "split-digits", "-", {})

    assert key("mlp") == key("mlp:width=400")
    assert len({key(None), key("mlp"), key("mlp:width=50"), key("mlp:width=60")}) == 4
    made = runner.run_all(
        [Spec("er", "split-digits", backbone=b) for b in (None, "mlp", "mlp:width=050", "mlp:width=60")], tmp_path
    )
    assert [r["backbone"] for r in made] == [None, "mlp", "mlp:width=50", "mlp:width=60"]
    assert [r["protocol"]["backbone"] for r in made] == ["MLP", "MLP", "MLP:width=50", "MLP:width=60"]
    sizes = [r["protocol"]["parameters"] for r in made]
    assert sizes[2] == (64 * 50 + 50) + (50 * 50 + 50) + 10 * (50 + 1)
    assert sizes[0] == sizes[1] > sizes[3] > sizes[2]
    (section,) = groups.read(tmp_path)
    assert len(section.groups) == 3  # the dataset's own network is the MLP: the same experiment
    narrow, wide = section.groups[-2:]
    assert not pairs.comparable(narrow, wide)


def test_a_printed_command_makes_the_run_again(tmp_path, monkeypatch):
    given = {"options": {"lr": 0.33}, "order": "random"}
    asked = [
        Spec(
            "er", "split-digits", 0, None, ("regression:weight=class:lam=0.5", "ncm"), backbone="mlp:width=64", **given
        ),
        Spec("hybrid", "split-digits", 0, None, ("regression:lam=3",), backbone="identity"),
    ]
    found = []
    monkeypatch.setattr(runner, "run_all", lambda specs, *_, **__: found.extend(specs) or sys.exit())
    for spec in asked:
        line = shlex.join(spec.command())
        with suppress(SystemExit):
            cli.main(shlex.split(line)[1:])
        assert "'" not in line  # nothing in it needs quoting
        assert found.pop() == spec


def test_a_record_of_a_backbone_or_classifier_that_is_not_known_is_still_read():
    """A newer version's, or that of code of one's own."""
    spec = Spec("er", "split-digits", classifiers=("forest:trees=3",), backbone="patches:filters=256:size=6")
    assert (spec.classifiers, spec.backbone) == (("forest:trees=3",), "patches:filters=256:size=6")
    assert spec.usual() is None
    assert replace(spec, backbone=None).usual() is not None
    assert "--backbone patches:filters=256:size=6" in shlex.join(spec.command())


def test_the_estimator_takes_saves_and_loads_them(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 6)).astype(np.float32), np.arange(80) % 4
    clf = OnlineClassifier(classifier="regression:lam=10.0", backbone="mlp:width=16", memory_size=40).fit(x, y)
    other = OnlineClassifier(classifier="regression:lam=0.01", backbone="mlp:width=16", memory_size=40).fit(x, y)
    assert not np.array_equal(clf.predict_proba(x), other.predict_proba(x))
    assert clf._model.learner.net.dim == 16
    clf.save(tmp_path / "model")
    loaded = OnlineClassifier.load(tmp_path / "model")
    assert loaded.get_params() == clf.get_params()
    assert loaded._model.choice.classifiers == [Regression(lam=10.0)]
    assert np.array_equal(loaded.predict_proba(x), clf.predict_proba(x))
    assert np.allclose(clf.predict_proba(x).sum(1), 1)
    on_features = OnlineClassifier(classifier="regression", backbone="identity").fit(x, y)
    assert on_features._model.choice.objective.name == "ms"  # nothing to train


REGRESSION = """
from dataclasses import dataclass
from typing import ClassVar

import torch

from mnemon.learning.classifier import Classifier
from mnemon.learning.options import option


@dataclass(frozen=True)
class Regression(Classifier):
    name: ClassVar[str] = "regression"
    doc: ClassVar[str] = "least squares on the memory"
    needs: ClassVar[tuple[str, ...]] = ("memory",)
    lam: float = option(1.0, "weight of the penalty", above=0)

    def prepare(self, learner):
        f, y = learner.memory_features()
        targets = torch.nn.functional.one_hot(y, len(learner.seen)).to(f)
        w = torch.linalg.solve(f.T @ f + self.lam * torch.eye(f.shape[1]), f.T @ targets)
        return lambda out: (out.features @ w).masked_fill(~learner.seen, -torch.inf)
"""

LINEAR = """
import math
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mnemon.learning.backbone import Architecture
from mnemon.learning.options import option


@dataclass(frozen=True)
class Linear(Architecture):
    name: ClassVar[str] = "linear"
    doc: ClassVar[str] = "one linear layer"
    size: int = option(32, "features", least=1)

    def build(self, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), self.size))
"""


def test_a_classifier_and_a_backbone_are_one_file_each(tmp_path):
    """Put into the package, they are listed, run (by workers too) and recorded."""
    copied = tmp_path / "src" / "mnemon"
    shutil.copytree(Path(mnemon.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "learning" / "classifiers" / "regression.py").write_text(REGRESSION)
    (copied / "learning" / "backbones" / "linear.py").write_text(LINEAR)

    def run(words):
        command = [sys.executable, "-m", "mnemon", *words.split()]
        env = os.environ | {"PYTHONPATH": str(copied.parent)}
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = " ".join(run("list").split())
    for words in ("least squares on the memory", "regression:lam", "one linear layer", "linear:size"):
        assert words in listed
    given = "--classifier ncm,regression:lam=10 --backbone linear:size=16 --seeds 2 --jobs 2 --device cpu --out runs"
    run(f"run --method er --stream split-digits {given}")
    found = ResultFolder(tmp_path / "runs").read()
    assert sorted((r["seed"], r["classifier"]) for r in found) == [
        (seed, name) for seed in (0, 1) for name in ("ncm", "regression:lam=10")
    ]
    assert {(r["backbone"], r["protocol"]["backbone"]) for r in found} == {("linear:size=16", "Sequential:size=16")}
    assert len({r["average_accuracy"] for r in found}) == 4
