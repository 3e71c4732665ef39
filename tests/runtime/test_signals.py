"""Wishes to stop: none is lost, whenever it comes."""

import io
import os
import signal
import threading

import pytest
import torch

from mnemon.experiments.job import Assignment
from mnemon.experiments.pools import worker
from mnemon.experiments.scheduler import Scheduler
from mnemon.runtime.device import Engine
from mnemon.runtime.signals import watched

KINDS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers():
    """A shell has its background commands ignore SIGINT: the tests may be one."""
    before = [signal.getsignal(number) for number in KINDS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in zip(KINDS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", KINDS)
def test_a_signal_that_comes_as_soon_as_we_listen_is_noted(number, monkeypatch):
    install = signal.signal

    def at_once(which, handler):
        before = install(which, handler)
        if which == number and callable(handler) and handler.__module__ == watched.__module__:
            os.kill(os.getpid(), number)
        return before

    monkeypatch.setattr(signal, "signal", at_once)
    with watched() as stop:
        assert stop() == number


def test_a_second_signal_acts_as_usual_or_changes_nothing():
    with watched(once=[signal.SIGTERM]) as stop:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop() == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_worker_whose_parent_is_gone_before_it_begins_stops(monkeypatch, tmp_path):
    """Its stdin holds the assignment and ends."""
    work = Assignment((), tmp_path, Engine(torch.device("cpu"), deterministic=True), 0, 1, 1, 2)
    monkeypatch.setattr("sys.stdin", io.StringIO(work.to_json() + "\n"))
    heard = []

    class AtOnce(threading.Thread):
        def start(self):
            self.run()

    def kill(pid, number):
        handler = signal.getsignal(number)
        if callable(handler):  # else the signal would end this process, or be lost
            handler(number, None)

    monkeypatch.setattr(worker.threading, "Thread", AtOnce)
    monkeypatch.setattr(worker.os, "kill", kill)
    monkeypatch.setattr(Scheduler, "run", lambda self, stop, wait: heard.append(stop()))
    worker.main()
    assert heard == [signal.SIGTERM]
