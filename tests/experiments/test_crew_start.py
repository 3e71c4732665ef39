"""A crew that cannot be started as a whole."""

import errno
import os
import subprocess
import threading

import pytest
import torch

from mnemon import MnemonError
from mnemon.experiments.crew import Crew
from mnemon.experiments.progress import Progress
from mnemon.experiments.work import Work
from mnemon.runtime.device import Engine


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (subprocess, "Popen", OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))),
        (threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_those_that_were_started_are_ended(tmp_path, monkeypatch, place, name, error):
    work = Work([], tmp_path, Engine(torch.device("cpu")), 0, Progress(quiet=True))
    crew, original, calls = Crew(3, work, 1), getattr(place, name), []

    def third_fails(*given, **more):
        calls.append(name)
        if len(calls) == 3:
            raise error
        return original(*given, **more)

    monkeypatch.setattr(place, name, third_fails)
    with pytest.raises(MnemonError, match=r"no more worker processes can be started \(.*\); ask for fewer jobs\."):
        crew.__enter__()
    assert len(crew.members) >= 2
    assert all(process.returncode is not None for process, _, _ in crew.members)
    assert not any(reader.is_alive() for _, _, reader in crew.members)
