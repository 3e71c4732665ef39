"""What the command line knows of hyper-parameters is what the classes declare, whether it is kept or not."""

import json

import pytest

from mnemon import MnemonError
from mnemon.cli import hyper_parameters
from mnemon.cli.hyper_parameters import collect_options, declared
from mnemon.learning.build import choose
from mnemon.learning.methods import methods
from mnemon.runtime.cache_folder import cache_dir


@pytest.fixture
def path():
    collect_options()
    return cache_dir() / ".hyper-parameters.json"


def counted(monkeypatch):
    calls = []
    monkeypatch.setattr(hyper_parameters, "declared", lambda: calls.append(1) or declared())
    return calls


def test_they_are_kept_and_the_same(path, monkeypatch):
    calls = counted(monkeypatch)
    assert collect_options().__annotations__ == collect_options().__annotations__
    assert not calls
    kept = json.loads(path.read_text())["rows"]
    assert kept == json.loads(json.dumps(declared()))
    assert {"lr", "gamma", "average", "memory_size"} <= {row[0] for row in kept}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"stamp": 1}', b'{"stamp": "STAMP", "rows": [["lr", "exec", [], "", "", ""]]}',
                b'{"stamp": "STAMP", "rows": [[1, "int", [], "", "", ""]]}', b'{"stamp": "STAMP", "rows": [[]]}'],
)  # fmt: skip
def test_what_is_damaged_or_of_other_classes_is_made_again(path, content, monkeypatch):
    stamp = json.loads(path.read_text())["stamp"]
    path.write_bytes(content.replace(b"STAMP", stamp.encode()))
    calls = counted(monkeypatch)
    assert "lr" in collect_options().__annotations__
    assert calls == [1]
    assert json.loads(path.read_text())["stamp"] == stamp


@pytest.mark.parametrize(
    ("words", "has", "lacks"),
    [
        ("--method er", {"lr", "memory_size", "replay_classes"}, {"gamma", "candidates", "edit_rate"}),
        ("--method hybrid", {"lr", "gamma", "alpha", "divisor"}, {"candidates"}),
        ("--method=hybrid --loss=pnca", {"lr", "scale"}, {"alpha", "divisor"}),
        ("--method er --loss ms", {"alpha", "divisor"}, {"gamma"}),
        ("--method fine-tune", {"lr", "batch_size"}, {"memory_size", "replay_size", "forward"}),
        ("--method hybird", {"lr", "gamma", "candidates"}, set()),
        ("", {"lr", "gamma", "candidates"}, set()),
    ],
)
def test_help_behind_a_method_shows_what_it_takes(words, has, lacks):
    shown = collect_options([*words.split(), "--help"]).__annotations__.keys()
    assert has <= shown
    assert not lacks & shown
    assert collect_options(words.split()).__annotations__ == collect_options().__annotations__  # a run takes them all


def test_help_shows_what_a_run_does_not_refuse():
    for name in methods():
        shown = collect_options(["--method", name, "--help"]).__annotations__.keys()
        with pytest.raises(MnemonError) as refused:
            choose(name, given={"nothing": 1})
        assert str(refused.value).endswith(f"; it has {', '.join(sorted(shown))}.")


def test_a_changed_class_is_noticed(path, monkeypatch):
    calls = counted(monkeypatch)
    monkeypatch.setattr(hyper_parameters.mnemon, "__version__", "another")
    collect_options()
    assert calls == [1]


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "file"))
    assert "lr" in collect_options().__annotations__
