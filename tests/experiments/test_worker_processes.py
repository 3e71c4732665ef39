"""Worker processes share the runs of a command: the same records, none left running, nothing lost."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys

import pytest
import torch

from mnemon import MnemonError
from mnemon.experiments import runner
from mnemon.experiments.active import ActiveRun
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.render import names
from mnemon.runtime.progress import Bar, Progress
from processes import PATIENCE, alive, children, midway, resume, stand, started, under_way, wait_for

COMMAND = [sys.executable, "-m", "mnemon", "run", "--stream", "split-digits", "--device", "cpu", "--jobs", "2"]


def specs(count, method="hybrid", **more):
    return [Spec(method, "split-digits", seed, **more) for seed in range(count)]


def result(record):
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


class Shown(Progress):
    """Bars as they would be shown."""

    def __init__(self):
        super().__init__()
        self.state = {}

    def bars(self):
        return contextlib.nullcontext(self.add)

    def add(self, text, total=None, **more):
        state = self.state[text] = {"total": total, "completed": 0}
        return Bar(lambda n: state.update(completed=state["completed"] + n), lambda **changes: state.update(changes))


@pytest.fixture
def heard(caplog):
    """The messages."""
    caplog.set_level(logging.INFO, "mnemon")
    return caplog


@pytest.fixture
def patient(monkeypatch, heard):
    """The first run is ours, and waits until the worker has made so many others."""

    def until(count):
        def advance(self, *more, original=ActiveRun.advance):
            if self.job.number == 0:
                wait_for(lambda: len(heard.messages) >= count)
            return original(self, *more)

        monkeypatch.setattr(ActiveRun, "advance", advance)

    return until


def test_two_processes_make_the_runs_one_would_make(tmp_path, patient, heard):
    before = children(os.getpid())
    alone = runner.run_all(specs(8), tmp_path / "alone", jobs=1)
    heard.clear()
    patient(3)
    shown = Shown()
    together = runner.run_all(specs(8), tmp_path / "together", jobs=2, progress=shown)
    assert [result(r) for r in together] == [result(r) for r in alone]
    assert {r["at_once"] for r in together} == {2}
    assert sorted(line.split(":")[0] for line in heard.messages) == sorted(
        f"hybrid + ncm on split-digits, seed {s}" for s in range(8)
    )
    assert shown.state["runs"] == {"total": 8, "completed": 8}
    assert shown.state["steps"]["completed"] == shown.state["steps"]["total"] > 0
    assert children(os.getpid()) == before
    assert torch.get_num_threads() == 1


def test_a_run_that_goes_on_has_the_threads_it_began_with(tmp_path, monkeypatch):
    """However many runs are left of those that were asked for: another number of threads is other arithmetic."""
    used = []

    def advance(self, *more, original=ActiveRun.advance):
        used.append(torch.get_num_threads())
        return original(self, *more)

    monkeypatch.setattr(ActiveRun, "advance", advance)
    torch.set_num_threads(2)
    try:
        runner.run_all(specs(1), tmp_path)
        assert set(used) == {2}  # alone it has all
        used.clear()
        runner.run_all(specs(2), tmp_path)  # one of the two is left
        assert set(used) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_run_that_diverges_in_a_worker_ends_alone(tmp_path, patient, heard):
    asked = [Spec("er", "split-digits", s, options={"lr": 1e30} if s % 2 else {}) for s in range(6)]
    patient(5)
    with pytest.raises(MnemonError, match=r"3 of 6 runs diverged and have no record .* the first with seed 1"):
        runner.run_all(asked, tmp_path, jobs=2)
    assert sorted(r["seed"] for r in ResultFolder(tmp_path).read()) == [0, 2, 4]
    assert len(heard.messages) == 6


def test_a_worker_that_dies_is_left_behind(tmp_path, monkeypatch, heard):
    """Its runs are made by the others, from their checkpoints."""
    before, lost = children(os.getpid()), []

    def advance(self, *more, original=ActiveRun.advance):
        if not lost:  # we have a run, and wait with it until the worker has one too
            (worker,) = set(children(os.getpid())) - set(before)
            assert stand(worker, lambda: midway(tmp_path)), "the worker made all the runs"
            lost.extend(midway(tmp_path))
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: any(line.startswith("a worker process ended early (") for line in heard.messages))
            self.clock.every = 30  # checkpoints at every step are slow, and no longer needed
        return original(self, *more)

    monkeypatch.setattr(ActiveRun, "advance", advance)
    found = runner.run_all(specs(30), tmp_path, jobs=2, checkpoint_every=0)
    assert [r["seed"] for r in found] == list(range(30))
    (going_on,) = [line for line in heard.messages if "going on at step" in line]
    (seed,) = lost
    assert going_on.startswith(f"hybrid on split-digits, seed {seed}: going on at step ")
    (expected,) = runner.run_all([Spec("hybrid", "split-digits", seed)], tmp_path / "undisturbed")
    assert result(found[seed]) == result(expected)


def test_a_worker_that_cannot_start_is_named(tmp_path, monkeypatch, patient, heard):
    broken = tmp_path / "broken" / "mnemon" / "experiments" / "pools"
    broken.mkdir(parents=True)
    for folder in (broken, broken.parent, broken.parent.parent):
        (folder / "__init__.py").touch()
    (broken / "worker.py").write_text("raise SystemExit('no such thing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    patient(1)
    found = runner.run_all(specs(3), tmp_path / "out", jobs=2)
    assert len(found) == 3
    assert heard.messages[0] == "a worker process ended early (no such thing); the others go on without it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_stopped_takes_its_workers_along(tmp_path, number):
    """And the runs that both had go on where they were."""
    command = [*COMMAND, "--method", "hybrid", "--out", str(tmp_path)]
    with started([*command, "--seeds", "300", "--checkpoint-every", "0"], stderr=subprocess.DEVNULL) as process:
        both = stand(process.pid, lambda: len(midway(tmp_path)) == 2)
        parent, worker = both
        seeds = midway(tmp_path)  # one each
        os.kill(parent, number)
        resume(both)
        assert process.wait(PATIENCE) == (143 if number == signal.SIGTERM else -9)
        wait_for(lambda: not alive(worker))
    left = under_way(tmp_path)  # until it heard of it, the worker may have come to its next
    seeds = sorted({*seeds, *left})
    done = subprocess.run([*command, "--seeds", names.seeds(seeds)], check=True, capture_output=True, text=True)
    assert all(f"seed {s}: going on at step" in done.stderr for s in left)
    expected = runner.run_all([Spec("hybrid", "split-digits", s) for s in seeds], tmp_path / "undisturbed", jobs=1)
    found = {r["seed"]: r for r in ResultFolder(tmp_path).read()}
    assert [result(found[s]) for s in seeds] == [result(r) for r in expected]
    assert not under_way(tmp_path)


def test_no_jobs_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(MnemonError, match="jobs is a number of runs, 1 or more, not 0"):
        runner.run_all(specs(1), tmp_path / "out", jobs=0)
    assert not (tmp_path / "out").exists()


def test_deterministic_runs_are_runs_of_their_own(tmp_path):
    """Another name, the same numbers (on a CPU with one thread), and torch's switches are as before."""
    usual, exact = (runner.run_all(specs(1), tmp_path, deterministic=d)[0] for d in (False, True))
    assert usual["run"] != exact["run"]
    assert (usual["deterministic"], exact["deterministic"]) == (False, True)
    assert usual["accuracy_matrix"] == exact["accuracy_matrix"]
    assert not torch.are_deterministic_algorithms_enabled()
    assert json.loads((tmp_path / "details" / f"{exact['run']}.json").read_text())
