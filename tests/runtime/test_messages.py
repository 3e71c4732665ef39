"""Messages: logged under "mnemon", so that a library user silences or routes them; printed by the command line."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings

import pytest

from command_line import run
from folder_images import make
from mnemon.experiments.active import ActiveRun, JobLock
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.own_data.fit import fit
from mnemon.runtime import messages
from mnemon.runtime.signals import Stopped
from processes import wait_for

SPEC = Spec("er", "split-digits")
WORDS = ("run", "--method", "er", "--stream", "split-digits", "--device", "cpu", "--out")


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A folder with an unfinished run whose newest checkpoint is damaged."""

    def advance(self, stop, original=ActiveRun.advance):
        done = original(self, stop)
        if self.run.position > 10:
            self.save()
            raise Stopped(2)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(ActiveRun, "advance", advance)
        with pytest.raises(Stopped):
            run_all([SPEC], tmp_path, device="cpu", checkpoint_every=0)
    newest = max((tmp_path / "checkpoints").glob("*/*.safetensors"))
    newest.write_bytes(b"")
    return tmp_path


def test_a_library_user_gets_messages_by_level_and_by_module(damaged, caplog, capsys):
    caplog.set_level(logging.INFO, "mnemon")
    run_all([SPEC], damaged, device="cpu")
    (warning, *others) = caplog.records
    assert (warning.name, warning.levelname) == ("mnemon.checkpoint", "WARNING")
    assert warning.getMessage().endswith("falling back to the one before it.")
    assert {record.levelname for record in others} == {"INFO"}
    assert "going on at step" in others[0].getMessage()
    assert "accuracy" in others[1].getMessage()
    assert capsys.readouterr() == ("", "")


def test_a_library_user_can_silence_them(damaged, caplog):
    caplog.set_level(logging.ERROR, "mnemon")
    run_all([SPEC], damaged, device="cpu")
    assert caplog.messages == []


def test_messages_of_a_worker_process_are_logged_here(damaged, caplog, monkeypatch):
    """The damaged run is left to the worker: this process makes the other one, when the worker has said so."""

    def acquire(job, out, original=JobLock.acquire):
        if job.number == 0:
            return None
        wait_for(lambda: len(caplog.records) > 1)
        return original(job, out)

    monkeypatch.setattr(JobLock, "acquire", acquire)
    caplog.set_level(logging.INFO, "mnemon")
    run_all([SPEC, Spec("er", "split-digits", 1)], damaged, device="cpu", jobs=2)
    assert [(record.name, record.levelname) for record in caplog.records[:2]] == [
        ("mnemon.checkpoint", "WARNING"),
        ("mnemon.experiments.progress", "INFO"),
    ]
    assert "is damaged" in caplog.messages[0]
    assert "seed 0: going on at step" in caplog.messages[1]


def test_without_a_set_up_python_prints_warnings_alone(tmp_path):
    photos = make(tmp_path / "photos", each=5)
    (photos / "red" / "0000.png").write_bytes(b"no image")
    script = "import sys; from pathlib import Path; from mnemon.own_data.fit import fit\n"
    script += "fit(Path(sys.argv[1]), Path(sys.argv[2]), size=12)"
    words = [sys.executable, "-c", script, photos, tmp_path / "model"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.startswith("skipped: ")
    assert done.stderr.count("\n") == 1


def test_the_command_line_prints_the_text_alone_once_for_each_command(damaged, capsys):
    _, err = run(*WORDS, str(damaged), capsys=capsys)
    lines = err.splitlines()
    assert lines[0].startswith("checkpoint ")
    assert lines[1].startswith("er on split-digits, seed 0: going on at step ")
    assert lines[2].startswith("er + softmax on split-digits, seed 0: accuracy ")
    assert len(lines) == 3
    assert run(*WORDS, str(damaged), capsys=capsys)[1].count("\n") == 1  # the handler of the first command is gone
    assert messages.ROOT.handlers == []


def test_quiet_prints_nothing_not_even_warnings(damaged, tmp_path, capsys):
    assert run(*WORDS, str(damaged), "--quiet", capsys=capsys)[1] == ""
    photos = make(tmp_path / "photos", each=5)
    fit(photos, tmp_path / "model", size=12)
    (photos / "red" / "0000.png").write_bytes(b"no image")
    words = ("evaluate", str(tmp_path / "model"), str(photos), "--out", str(tmp_path / "evaluation"))
    assert "skipped: " in run(*words, capsys=capsys)[1]
    assert run(*words, "--quiet", capsys=capsys)[1] == ""


def test_the_command_line_prints_warnings_of_python_as_text_alone(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        before = warnings.showwarning
        with messages.printed():
            warnings.warn("this is odd.", stacklevel=1)
        assert warnings.showwarning is before
        with messages.printed(quiet=True):
            warnings.warn("this is odd, too.", stacklevel=1)
    assert capsys.readouterr().err == "this is odd.\n"
