"""Worker processes share the runs of a command: the same records, nobody left behind, nothing lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from mnemon import MnemonError
from mnemon.experiments import records, runner
from mnemon.experiments.lane import Lane
from mnemon.experiments.progress import Progress
from mnemon.experiments.spec import Spec
from mnemon.report import names

COMMAND = [sys.executable, "-m", "mnemon", "run", "--stream", "split-digits", "--device", "cpu", "--jobs", "2"]


def specs(count, method="hybrid", **more):
    return [Spec(method, "split-digits", seed, **more) for seed in range(count)]


def result(record):
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


def children(process):
    """Of a process, all of their numbers."""
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def alive(number):
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def under_way(folder):
    """Seeds of the runs that have a checkpoint."""
    folders = [path for path, _, names in os.walk(folder / "checkpoints") if any(n.endswith(".json") for n in names)]
    return sorted(int(re.search(r"-s(\d+)-", path)[1]) for path in folders)


class Heard(Progress):
    def __init__(self):
        super().__init__(quiet=True)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def patient(monkeypatch):
    """The first run is ours, and waits until the worker has made so many others."""

    def until(heard, count):
        def go_on(self, *more, original=Lane.go_on):
            if self.number == 0:
                wait_for(lambda: len(heard.lines) >= count)
            return original(self, *more)

        monkeypatch.setattr(Lane, "go_on", go_on)

    return until


def test_two_processes_make_the_runs_one_would_make(tmp_path, patient):
    before = children(os.getpid())
    alone = runner.run_all(specs(8), tmp_path / "alone", jobs=1)
    heard = Heard()
    patient(heard, 3)
    together = runner.run_all(specs(8), tmp_path / "together", jobs=2, progress=heard)
    assert [result(r) for r in together] == [result(r) for r in alone]
    assert {r["at_once"] for r in together} == {2}
    assert sorted(line.split(":")[0] for line in heard.lines) == sorted(
        f"hybrid + ncm on split-digits, seed {s}" for s in range(8)
    )
    assert heard.made == sum(heard.lengths.values())  # the bar over steps is full
    assert children(os.getpid()) == before
    assert torch.get_num_threads() == 1


def test_a_run_that_goes_on_has_the_threads_it_began_with(tmp_path, monkeypatch):
    """However many runs are left of those that were asked for: another number of threads is other arithmetic."""
    used = []

    def go_on(self, *more, original=Lane.go_on):
        used.append(torch.get_num_threads())
        return original(self, *more)

    monkeypatch.setattr(Lane, "go_on", go_on)
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


def test_a_run_that_diverges_in_a_worker_ends_alone(tmp_path, patient):
    asked = [Spec("er", "split-digits", s, options={"lr": 1e30} if s % 2 else {}) for s in range(6)]
    heard = Heard()
    patient(heard, 5)
    with pytest.raises(MnemonError, match=r"3 of 6 runs diverged and have no record .* the first with seed 1"):
        runner.run_all(asked, tmp_path, jobs=2, progress=heard)
    assert sorted(r["seed"] for r in records.read(tmp_path)) == [0, 2, 4]
    assert len(heard.lines) == 6


def test_a_worker_that_dies_is_left_behind(tmp_path):
    """Its runs are made by the others, from their checkpoints."""
    process = subprocess.Popen(
        [*COMMAND, "--method", "gss", "--seeds", "4", "--out", str(tmp_path), "--checkpoint-every", "0.05"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(under_way(tmp_path)) == 2)  # the worker has a run in hand
    (worker,) = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    _, words = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "going on at step" in words
    assert sorted(r["seed"] for r in records.read(tmp_path)) == [0, 1, 2, 3]


def test_a_worker_that_cannot_start_is_named(tmp_path, monkeypatch):
    broken = tmp_path / "broken" / "mnemon" / "experiments"
    broken.mkdir(parents=True)
    for folder in (broken, broken.parent):
        (folder / "__init__.py").touch()
    (broken / "worker.py").write_text("raise SystemExit('no such thing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    heard = Heard()
    found = runner.run_all(specs(15), tmp_path / "out", jobs=2, progress=heard)
    assert len(found) == 15
    assert "a worker process ended early (no such thing); the others go on without it" in heard.lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_stopped_takes_its_workers_along(tmp_path, number):
    """And the runs that both had in hand go on where they were."""
    command = [*COMMAND, "--method", "hybrid", "--out", str(tmp_path), "--checkpoint-every", "0.05"]
    process = subprocess.Popen([*command, "--seeds", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(under_way(tmp_path)) == 2)
    (worker,) = children(process.pid)
    process.send_signal(number)
    assert process.wait(60) == (143 if number == signal.SIGTERM else -9)
    wait_for(lambda: not alive(worker))
    seeds = under_way(tmp_path) or [0]
    subprocess.run([*command, "--seeds", names.seeds(seeds)], check=True, capture_output=True)  # one may be left: 6-6
    expected = runner.run_all([Spec("hybrid", "split-digits", s) for s in seeds], tmp_path / "undisturbed", jobs=1)
    found = {r["seed"]: r for r in records.read(tmp_path)}
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
