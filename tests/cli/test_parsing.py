"""Mistakes in the arguments, and help, as a person meets them."""

import sys

import pytest

from command_line import run
from mnemon.cli import parsing
from mnemon.cli.command import commands

RUN = "run --method er --stream split-digits"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{RUN} --lr abc", "--lr takes a number, not 'abc'."),
        (f"{RUN} --lr 0.1 --lr=abc", "--lr takes a number, not 'abc'."),
        (f"{RUN} --jobs 1.5", "--jobs takes a whole number, not '1.5'."),
        (f"{RUN} --checkpoint_every soon", "--checkpoint-every takes a number, not 'soon'."),
        ("bench --rounds many", "--rounds takes a whole number, not 'many'."),
        (f"{RUN} --sedes 3", "run has no option --sedes; did you mean --seeds?"),
        (f"{RUN} --memorysize=3", "run has no option --memorysize; did you mean --memory-size?"),
        (f"{RUN} --leaning-rate 3", "run has no option --leaning-rate; see `mnemon run --help`."),
        ("run --mehtod er --stream split-digits", "run has no option --mehtod; did you mean --method?"),
        ("tune --lr 0.1", "tune has no option --lr; name the values to try with --grid lr=0.1."),
        (
            "tune --weight-decay=3",
            "tune has no option --weight-decay; name the values to try with --grid weight_decay=3.",
        ),
        ("tune --lr", "tune has no option --lr; name the values to try with --grid lr=VALUE,VALUE."),
        ("tune --sedes 3", "tune has no option --sedes; did you mean --seeds?"),
        ("run --method er", "run needs --stream NAME; see `mnemon run --help`."),
        ("run er", "run needs --method NAME and --stream NAME; see `mnemon run --help`."),
        ("report", "report needs FOLDER; see `mnemon report --help`."),
        ("data import birds", "data import needs PATH; see `mnemon data import --help`."),
        ("run --method er --stream", "--stream needs a value: --stream NAME."),
        ("list methods streams", "'streams' is one argument too many for list; see `mnemon list --help`."),
        (f"{RUN} --quiet 3", "'3' is one argument too many for run; see `mnemon run --help`."),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*words.split(), code=2, capsys=capsys) == ("", f"mnemon: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


def test_without_a_sentence_of_ours_tyro_speaks(capsys, monkeypatch):
    words = f"{RUN} --lr abc".split()
    with monkeypatch.context() as patch:
        patch.setattr(parsing, "_value", lambda *_: 1 / 0)  # an event we do not understand
        assert "could not convert string to float: 'abc'" in run(*words, code=2, capsys=capsys)[1]
    monkeypatch.setitem(sys.modules, "tyro._errors", None)  # a tyro without the hook
    assert "could not convert string to float: 'abc'" in run(*words, code=2, capsys=capsys)[1]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["", "data", *commands()])
def test_help_fits_the_terminal(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out, _ = run(*command.split(), "--help", capsys=capsys)
    assert max(len(line) for line in out.splitlines()) <= columns
    assert "\n\n\n" not in out


def test_help_is_for_80_columns_when_piped(capsys):
    out, _ = run("evaluate", "--help", capsys=capsys)
    assert max(len(line) for line in out.splitlines()) == 80
