"""JSON that anybody may have written: nested deeper than Python can follow, it is bad input like any other."""

import ast
from pathlib import Path

import pytest

from command_line import run
from mnemon import MnemonError, checkpoint, data, files
from mnemon.data.datasets import cifar10
from mnemon.experiments import store
from mnemon.experiments.recipes import recipes
from mnemon.paper import json_lines, searches, times
from mnemon.report import groups

DEEP = "[" * 200_000
SOURCES = Path(files.__file__).parent


def test_only_messages_between_our_own_processes_are_parsed_without_care():
    """What is read from a file may be anything."""
    calls = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load")
    }
    assert calls == {"files.py", "experiments/events.py", "experiments/job.py"}


def test_records(tmp_path, capsys):
    (tmp_path / store.NAME).write_text(DEEP + "\n")
    assert run("report", str(tmp_path), code=2, capsys=capsys)[1].endswith(
        "is not a record; repair or remove that line.\n"
    )


def test_metadata_is_damaged_and_the_other_datasets_are_listed(capsys):
    metadata = data.cache_dir() / "birds" / "birds.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(DEEP)
    out, _ = run("data", "list", capsys=capsys)
    assert "digits" in out
    (line,) = (line for line in out.splitlines() if "birds" in line)
    assert "damaged" in line
    with pytest.raises(MnemonError, match=r"birds\.json is damaged"):
        data.load("birds")


def test_the_others(tmp_path, copied, caplog):
    (tmp_path / "tuning").mkdir()
    (tmp_path / "details").mkdir()
    for name in ("0000000001.json", "tuning/a.json", "details/a.json", times.FILE):
        (tmp_path / name).write_text(DEEP)
    copied.write_text(DEEP)
    record = {"run": "a", "classifier": "ncm"}
    for call in (
        lambda: searches.markdown(tmp_path),
        lambda: groups._details(tmp_path, [record]),
        lambda: json_lines.read(tmp_path / times.FILE),
        lambda: cifar10.read_labels(DEEP.encode(), "labels"),
        recipes.cells,
    ):
        with pytest.raises(MnemonError):
            call()
    assert checkpoint.load(tmp_path) is None
    assert "nested too deep" in caplog.messages[0]
