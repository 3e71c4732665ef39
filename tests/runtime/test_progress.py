"""Progress: bars on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest

from mnemon.runtime import messages
from mnemon.runtime.progress import Progress


def be_a_terminal(monkeypatch, columns=60):
    """Make one of stderr. No fixture: while fixtures are set up, pytest has another stderr."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))


def shown(capsys):
    """The lines on stderr, those that were written over included."""
    out, err = capsys.readouterr()
    assert out == ""
    return [line.rstrip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err))]


def test_progress_is_a_line_a_stage_away_from_a_terminal_and_nothing_when_quiet(capsys):
    for quiet, said in ((False, ["download it", "saved", ""]), (True, [""])):
        progress = Progress(quiet=quiet)
        with progress.stage("download it", 10, unit="bytes") as bar:
            bar.advance(10)
        with progress.bars() as add:
            add("images", 3).update(note="50 %")
            progress.line("saved")
        assert shown(capsys) == said


@pytest.mark.parametrize("unit", ["bytes", "images"])
def test_progress_is_a_bar_on_a_terminal(unit, capsys, monkeypatch):
    be_a_terminal(monkeypatch)
    with Progress().stage("download [it]", 10, unit=unit) as bar:
        bar.advance(10)
    last = shown(capsys)[-2]  # it stays
    assert last.startswith("download [it] ━")
    assert "10/10" in last


def test_quiet_shows_no_bar_on_a_terminal(capsys, monkeypatch):
    be_a_terminal(monkeypatch)
    with Progress(quiet=True).stage("download it", 10) as bar:
        bar.advance(10)
    assert shown(capsys) == [""]


def test_several_bars_with_notes_and_the_speed_of_steps(capsys, monkeypatch):
    be_a_terminal(monkeypatch, columns=120)
    with Progress().bars() as add:
        runs, steps = add("runs", 2), add("steps", unit="steps", visible=False)
        runs.advance(1)
        steps.update(total=100, completed=40, visible=True, note="accuracy so far: ncm [50] %")
        steps.update(completed=60)
    lines = shown(capsys)
    assert any(line.startswith("runs") and "1/2" in line and "/s" not in line for line in lines)
    assert any(re.match(r"steps .* 60/100 [\d,.]+/s accuracy so far: ncm \[50\] %", line) for line in lines)


def test_messages_stand_above_the_bars_and_are_not_cut(capsys, monkeypatch):
    be_a_terminal(monkeypatch)
    long = "a message " + 20 * "that is longer than a line "
    with messages.printed(), Progress().bars() as add:
        bar = add("images", 3)
        for number in range(3):
            bar.advance(1)
            logging.getLogger("mnemon.test").info(f"[bold]message[/bold] :smile: {number}")
        logging.getLogger("mnemon.test").warning(long)
        Progress().line("only without a terminal")
    lines = shown(capsys)
    texts = [line for line in lines if "message" in line]
    assert texts == [*(f"[bold]message[/bold] :smile: {number}" for number in range(3)), long.rstrip()]
    assert any(line.startswith("images ━") and "3/3" in line for line in lines)
    assert "only without a terminal" not in lines


def test_rich_is_loaded_for_bars_only():
    script = (
        "import sys, mnemon.data\nwith mnemon.data.library.Progress().stage('a stage'): print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "a stage\n")
