"""Worker processes, not all of which can be started."""

import errno
import os
import subprocess
import threading

import pytest
import torch

from mnemon import MnemonError
from mnemon.experiments.job import Assignment
from mnemon.experiments.pools.worker_processes import Workers
from mnemon.runtime.device import Engine


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (subprocess, "Popen", OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))),
        (threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_those_that_were_started_are_ended(tmp_path, monkeypatch, place, name, error):
    work = Assignment((), tmp_path, Engine(torch.device("cpu")), 0, 1, 1)
    workers, original, calls = Workers(3, work, lambda event: None), getattr(place, name), []

    def third_fails(*given, **more):
        calls.append(name)
        if len(calls) == 3:
            raise error
        return original(*given, **more)

    monkeypatch.setattr(place, name, third_fails)
    with pytest.raises(MnemonError, match=r"no more worker processes can be started \(.*\); ask for fewer jobs\."):
        workers.__enter__()
    assert len(workers.workers) >= 2
    assert all(worker.process.returncode is not None for worker in workers.workers)
    assert not any(worker.reader.is_alive() for worker in workers.workers)
