"""The examples run, and show what they are meant to show."""

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "least"),
    [("image_stream", 0.85), ("embeddings", 0.9), ("tabular_stream", 0.85), ("own_method", 0.8), ("plain_loop", 0.9)],
)
def test_example(name, least, capsys):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main() > least
    assert "%" in capsys.readouterr().out


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "image_stream",
        "embeddings",
        "tabular_stream",
        "own_method",
        "plain_loop",
    }


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_nothing_private(path):
    assert re.findall(r"\._\w+|import _\w+", path.read_text(encoding="utf-8")) == []
