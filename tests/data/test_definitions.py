"""Datasets are found by their files: a new one is one module."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import mnemon
from mnemon import cli, data
from mnemon.data import datasets
from mnemon.data.canonical import Content, canonical, checksum
from mnemon.experiments import protocol
from mnemon.render import names

STRIPES = '''
"""Stripes: 8x8 images whose bright row is their class."""

from pathlib import Path

import numpy as np

from mnemon.data.canonical import Content, stratified_split
from mnemon.data.definition import Definition, Rules


def read():
    y = np.arange(240) % 6
    x = np.random.default_rng(0).integers(0, 100, (240, 1, 8, 8)).astype(np.uint8)
    x[np.arange(240), 0, y] = 255
    return stratified_split(x, y.astype(np.int64)), Path(__file__)


STRIPES = Definition(
    name="stripes",
    title="Stripes",
    description="bright rows",
    licence="public domain",
    classes=tuple("abcdef"),
    class_count=6,
    train=192,
    test=48,
    shape=(1, 8, 8),
    rules=Rules(tasks=(3,), valid=0.25, memory=20, backbone="mlp"),
    bundled=read,
)
'''


@pytest.fixture
def stripes(tmp_path, monkeypatch):
    """The package of datasets with one more file in it."""
    (tmp_path / "stripes.py").write_text(STRIPES)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    datasets.definitions.cache_clear()
    yield
    datasets.definitions.cache_clear()
    sys.modules.pop("mnemon.data.datasets.stripes", None)


@pytest.mark.usefixtures("stripes")
def test_a_dataset_is_one_file(capsys):
    stripes = data.load("stripes")
    assert (stripes.classes, len(stripes.x_train), len(stripes.x_test)) == (tuple("abcdef"), 192, 48)
    assert data.check("stripes") == stripes.checksum
    assert data.names()[0] == "stripes"  # the smallest
    assert {info.name: info.state for info in data.listing()}["stripes"] == "built in"
    assert names.stream("split-stripes") == "Split Stripes"
    assert "split-stripes" in map(str, protocol.listing())
    cli.main(["list", "streams"])
    assert "smooth-stripes" in capsys.readouterr().out

    record = mnemon.run("er", "split-stripes", lr=0.1)
    assert record["stream"] == "split-stripes"
    assert record["protocol"]["tasks"] == [[0, 1], [2, 3], [4, 5]]
    assert record["protocol"]["samples"] == 6 * 24
    assert record["options"]["memory_size"] == 20
    assert record["data"] == {"name": "stripes", "checksum": stripes.checksum}
    assert mnemon.run("er", "smooth-stripes")["protocol"]["samples"] == 6 * 20


def test_every_definition_is_whole():
    for name, known in data.definitions().items():
        assert name == known.name
        assert known.classes is None or len(known.classes) == known.class_count
        assert known.checksum is not None
        assert len(known.checksum) == 64
        assert known.title
        assert known.licence
        assert known.by_hand
        assert known.bundled or known.read
        assert known.rules.tasks


def test_another_copy_of_mini_imagenet_is_stored_and_said_to_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (8, 3, 4, 4)).astype(np.uint8)
    copy = Content(x[:6], np.arange(6) % 2, x[6:], np.arange(2), ("n01", "n02"))
    known = data.definitions()["mini_imagenet"]

    def imported(pinned: str | None) -> tuple[str, list[str]]:
        caplog.clear()
        changed = {"read": lambda path, progress: copy} | ({} if pinned is None else {"checksum": pinned})
        monkeypatch.setitem(data.definitions(), "mini_imagenet", known.__class__(**{**vars(known), **changed}))
        data.import_("mini_imagenet", tmp_path)
        return data.check("mini_imagenet"), caplog.messages

    found, said = imported(None)
    (line,) = (line for line in said if "reference copy" in line)
    assert found in line
    assert str(known.checksum) in line
    assert data.load("mini_imagenet").classes == ("n01", "n02")
    assert found == checksum(canonical(copy))
    assert imported(found)[1] == []
