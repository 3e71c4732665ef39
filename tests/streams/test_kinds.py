"""Stream kinds are found by their files: a new one is one module."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import mnemon
import mnemon.report
from mnemon import MnemonError, cli, data
from mnemon.experiments import protocol
from mnemon.render import names
from mnemon.streams import kinds as package
from mnemon.streams.kinds import is_task_free, kinds, schedule
from mnemon.streams.kinds.smooth import Smooth
from mnemon.streams.kinds.split import Split

REVERSED = '''
"""Reversed: one class after the other, the last one first; reversed-DATASET-N keeps N samples of each."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mnemon.streams.schedule import Schedule
from mnemon.streams.stream import Stream


@dataclass(frozen=True)
class Reversed(Schedule):
    kind: ClassVar[str] = "reversed"
    title: ClassVar[str] = "Reversed"
    usage: ClassVar[str] = "reversed-DATASET[-SAMPLES]"
    has_tasks: ClassVar[bool] = False
    samples: int = 30

    @classmethod
    def parse(cls, parameters):
        if not parameters:
            return cls()
        return cls(int(parameters)) if re.fullmatch("[0-9]+", parameters) else None

    def parameters(self, rules):
        return "" if self.samples == 30 else str(self.samples)

    def words(self):
        return "" if self.samples == 30 else f"{self.samples} samples per class"

    def describe(self, rules, classes):
        return f"{classes} classes, the last one first"

    def make(self, labels, rules, seed, order):
        classes = np.unique(labels)
        indices = np.concatenate([np.flatnonzero(labels == c)[: self.samples] for c in classes[::-1]])
        return Stream("reversed", indices, (len(indices),), (tuple(classes.tolist()),))

    def probabilities(self, classes, length):
        return np.eye(classes)[::-1].repeat(length // classes, 0)
'''


@pytest.fixture
def reversed_kind(tmp_path, monkeypatch):
    """The package of kinds with one more file in it."""
    (tmp_path / "reversed.py").write_text(REVERSED)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    kinds.cache_clear()
    yield
    kinds.cache_clear()
    sys.modules.pop("mnemon.streams.kinds.reversed", None)


@pytest.mark.usefixtures("reversed_kind")
def test_a_kind_is_one_file(tmp_path, capsys):
    assert list(kinds()) == ["split", "blurry", "reversed", "smooth"]
    record = mnemon.run("er", "reversed-digits", lr=0.1, out=tmp_path)
    assert (record["stream"], record["protocol"]["kind"]) == ("reversed-digits", "reversed")
    assert record["protocol"]["samples"] == 300
    assert np.shape(record["accuracy_matrix"]) == (1, 1)
    assert record["average_forgetting"] is None
    assert mnemon.run("er", "reversed-digits-12", out=tmp_path)["protocol"]["samples"] == 120
    assert str(protocol.parse("reversed-digits-30")) == "reversed-digits"
    with pytest.raises(MnemonError, match=r"unknown stream 'reversed-digits-x'; did you mean 'reversed-digits'"):
        protocol.parse("reversed-digits-x")

    assert names.stream("reversed-cifar10-12") == "Reversed CIFAR-10, 12 samples per class"
    cli.main(["list", "streams"])
    out = capsys.readouterr().out
    assert "reversed-DATASET[-SAMPLES]" in out
    assert "reversed-cifar100" in out
    page = mnemon.report.write(tmp_path).read_text()
    for words in (
        "Reversed Digits",
        "Final accuracy",
        "Reversed stream: class probabilities",
        "at the end of the stream",
    ):
        assert words in page


def test_names_have_one_canonical_form():
    forms = {
        "split-digits-5": "split-digits",
        "split-digits-2": "split-digits-2",
        "split-cifar100": "split-cifar100-10",
        "split-cifar100-20": "split-cifar100-20",
        "smooth-cifar10-0.50": "smooth-cifar10",
        "smooth-cifar10-0.250": "smooth-cifar10-0.25",
    }
    assert {name: str(protocol.parse(name)) for name in forms} == forms
    for name in protocol.listing():
        assert protocol.parse(str(name)).schedule in (name.schedule, Split())
        assert str(protocol.parse(str(name))) == str(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "split",
            "split-",
            "split-digits-",
            "split-digits-0",
            "split-digits-05",
            "split-digits-5-5",
            "iid-digits",
        ),
        *("split-digits-0.5", "smooth-digits-x", "smooth-digits-1e3", "Split-digits", "split-digits\n", "split-birds"),
    ],
)
def test_what_is_no_stream_is_one_sentence(name):
    with pytest.raises(MnemonError, match="unknown stream"):
        protocol.parse(name)


def test_every_stream_is_listed_with_what_it_is():
    found = {str(name): name.describe() for name in protocol.listing()}
    assert {"smooth-mnist", "split-cifar100-20", "smooth-mini_imagenet"} <= found.keys()
    assert len(found) == 3 * len(data.definitions()) + 2  # two numbers of tasks for the datasets of 100 classes
    assert found["split-mnist"] == "5 tasks of disjoint classes, in turn"


def test_a_record_of_any_stream_is_understood():
    assert schedule("smooth") == Smooth()
    assert schedule("split-anything-4") == Split(4)
    assert [schedule(name) for name in ("iid", "x-y", "smooth-a-5", "split-a-b")] == [None] * 4
    assert [is_task_free(kind) for kind in ("smooth", "split", "iid", None, 3)] == [True, False, False, False, False]
