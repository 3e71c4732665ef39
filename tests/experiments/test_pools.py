"""Pools: places where jobs run. A new one is a file, or an object, and needs no change elsewhere."""

import logging
import os
import signal
import threading

import pytest
import torch
from filelock import FileLock, Timeout

from mnemon import MnemonError
from mnemon.experiments import events, pools
from mnemon.experiments.active import ActiveRun, JobLock
from mnemon.experiments.events import Finished, Message, RunDiverged, Started, from_json, to_json
from mnemon.experiments.job import Assignment, resolve, resolve_all
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.runner import run_all
from mnemon.experiments.scheduler import Scheduler
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.runtime.device import Engine
from mnemon.runtime.signals import Stopped

CPU = Engine(torch.device("cpu"))
OTHER_POOL = '''
import threading

from mnemon.experiments.events import from_json, to_json
from mnemon.experiments.job import Assignment
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.scheduler import Scheduler


class Remote(Pool):
    """Hands over nothing but text, as a pool on other machines would."""

    name = "remote"

    def run(self, work, emit, stop):
        line, failed = work.to_json(), []

        def make():
            try:
                Scheduler(Assignment.from_json(line), lambda event: emit(from_json(to_json(event)))).run(stop)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        for error in failed:
            raise error
'''


def specs(count, **more):
    return [Spec("er", "split-digits", seed, **more) for seed in range(count)]


def result(record):
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A third pool: a file beside the others, found by its name."""
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "a_third_pool.py").write_text(OTHER_POOL)
    monkeypatch.setattr(pools, "__path__", [*pools.__path__, str(tmp_path / "pools")])
    pools.pools.cache_clear()
    yield "remote"
    pools.pools.cache_clear()


def test_a_third_pool_is_one_file(tmp_path, remote):
    here = run_all(specs(3), tmp_path / "here", pool="this-process")
    there = run_all(specs(3), tmp_path / "there", pool=remote)
    assert [result(r) for r in there] == [result(r) for r in here]
    assert ResultFolder(tmp_path / "there").read() == there
    assert list(pools.pools()) == ["ray", "remote", "this-process", "worker-processes"]


def test_in_a_third_pool_a_diverged_run_ends_alone(tmp_path, remote):
    asked = [*specs(2), Spec("er", "split-digits", 2, options={"lr": 1e30})]
    with pytest.raises(MnemonError, match=r"1 of 3 runs diverged and have no record .* the first with seed 2"):
        run_all(asked, tmp_path, pool=remote)
    assert sorted(r["seed"] for r in ResultFolder(tmp_path).read()) == [0, 1]


def test_a_third_pool_stops_and_resumes(tmp_path, remote, monkeypatch):
    """The signal reaches the process that asked; the pool saves, wherever it runs."""
    undisturbed = run_all(specs(1), tmp_path / "undisturbed")
    original, turns = ActiveRun.advance, []

    def advance(self, stop):
        turns.append(self)
        if len(turns) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(0.1)  # the main thread takes it
        return original(self, stop)

    monkeypatch.setattr(ActiveRun, "advance", advance)
    with pytest.raises(Stopped):
        run_all(specs(1), tmp_path / "out", pool=remote)
    assert ResultFolder(tmp_path / "out").read() == []
    (found,) = run_all(specs(1), tmp_path / "out", pool=remote)
    assert result(found) == result(undisturbed[0])


def test_a_pool_object_is_taken_as_it_is(tmp_path):
    """One job at a time; the events of each arrive in order."""
    seen = []

    class OneByOne(Pool):
        name = "one-by-one"

        def run(self, work, emit, stop):
            for job in work.jobs:
                one = Assignment((job,), work.out, work.engine, work.checkpoint_every, 1, 1)
                Scheduler(one, lambda event: (seen.append(event), emit(event))).run(stop)

    run_all(specs(2), tmp_path, pool=OneByOne())
    kinds = [(type(event), event.number) for event in seen if isinstance(event, Started | Finished)]
    assert kinds == [(Started, 0), (Finished, 0), (Started, 1), (Finished, 1)]


def test_a_pool_that_loses_a_job(tmp_path):
    class Lossy(Pool):
        name = "lossy"

        def run(self, work, emit, stop):
            pass

    with pytest.raises(MnemonError, match="2 of 2 runs were not made, the first is er-split-digits-s0"):
        run_all(specs(2), tmp_path, pool=Lossy())


def test_an_unknown_pool(tmp_path):
    with pytest.raises(MnemonError, match="did you mean 'this-process'"):
        run_all(specs(1), tmp_path / "out", pool="this-proces")
    assert not (tmp_path / "out").exists()


def test_events_and_assignments_cross_processes(tmp_path):
    record = {"run": "a", "classifier": "ncm", "average_accuracy": 0.1 + 0.2}
    sent = [
        Started(1, "er on split-digits, seed 0", 0, 124),
        events.Stepped(1, 5),
        events.Evaluated(1, {"ncm": [50.0, None]}),
        Finished(1, [record]),
        RunDiverged(1, "er on split-digits", "seed 0: the loss is not finite"),
        events.Waiting(2),
        Message("mnemon.checkpoint", logging.WARNING, 'a line\n"quoted"'),
    ]
    assert [from_json(to_json(event)) for event in sent] == sent
    assert all("\n" not in to_json(event) for event in sent)
    for broken in ('["Finished", {"num', '["Nothing", {}]', '["Stepped", {"number": 1}]', "[]", "3"):
        with pytest.raises(ValueError):
            from_json(broken)
    jobs = resolve_all(specs(3, classifiers=("ncm", "softmax"), options={"lr": 0.3}), CPU)
    work = Assignment(tuple(jobs[1:]), tmp_path, CPU, 30.0, 2, 1, 2)
    assert Assignment.from_json(work.to_json()) == work


def test_a_diverged_run_is_reported_while_its_lock_is_held(tmp_path):
    """Another process that finds it unlocked before it is told would make it again."""
    (tmp_path / "checkpoints").mkdir()
    job = resolve(specs(1, options={"lr": 1e30})[0], CPU)
    free = []

    def emit(event):
        if isinstance(event, RunDiverged):
            free.append(JobLock.acquire(job, tmp_path))

    Scheduler(Assignment((job,), tmp_path, CPU, 30.0, 1, 1), emit).run(lambda: 0)
    assert free == [None]
    assert JobLock.acquire(job, tmp_path) is not None


def test_runs_that_cannot_be_launched_ahead_are_made_one_by_one_beside_the_others(tmp_path, monkeypatch):
    """On a GPU, thirty of them would take thirty times the memory, and none would finish before the last began."""
    monkeypatch.setattr(Engine, "stacks", property(lambda self: True))
    for folder in ("checkpoints", "details"):
        (tmp_path / folder).mkdir()
    asked = [Spec(method, "split-digits", seed) for seed in (0, 1) for method in ("slda", "fine-tune")]
    finished, beside = [], []
    advance = Scheduler._advance

    def watched(scheduler, active):
        methods = [active.job.spec.method, *(other.job.spec.method for other in scheduler.active)]
        beside.append((methods.count("slda"), methods.count("fine-tune")))
        advance(scheduler, active)

    monkeypatch.setattr(Scheduler, "_advance", watched)
    work = Assignment(tuple(resolve_all(asked, CPU)), tmp_path, CPU, 30.0, 32, 1)
    Scheduler(work, lambda event: finished.append(event) if isinstance(event, Finished) else None).run(lambda: 0)
    assert sorted(event.number for event in finished) == [0, 1, 2, 3]
    assert max(slda for slda, _ in beside) == 1
    assert (1, 2) in beside


def test_the_folder_of_checkpoints_is_empty_when_all_runs_are_done(tmp_path):
    """Lock files too, also one that a process left which was killed after it wrote the record."""
    (found,) = run_all(specs(1), tmp_path)
    assert os.listdir(tmp_path / "checkpoints") == []
    (tmp_path / "checkpoints" / f"{found['run']}.lock").touch()
    run_all(specs(1), tmp_path)
    assert os.listdir(tmp_path / "checkpoints") == []


def test_a_lock_file_that_is_removed_locks_nothing(tmp_path):
    """A process that has opened it does not take the old file for the lock, and two never hold it."""
    (tmp_path / "checkpoints").mkdir()
    job = resolve(specs(1)[0], CPU)
    first = JobLock.acquire(job, tmp_path)
    assert JobLock.acquire(job, tmp_path) is None
    late = FileLock(first.lock.lock_file, timeout=0)
    opened = late._open_lock_file

    def slow():  # opens the file before, and locks it after the holder has removed and released it
        late._open_lock_file = opened
        found = opened()
        first.clear()
        first.release()
        return found

    late._open_lock_file = slow
    with pytest.raises(Timeout):
        late.acquire()
    second = JobLock.acquire(job, tmp_path)
    assert second is not None
    assert JobLock.acquire(job, tmp_path) is None
    second.release()


def test_all_checkpoints_damaged(tmp_path, monkeypatch, caplog):
    """The run starts again, and the last message does not speak of a checkpoint before."""
    original = ActiveRun.advance

    def advance(self, stop):
        if self.run.position > 30:
            raise KeyboardInterrupt
        return original(self, stop)

    with monkeypatch.context() as patch:
        patch.setattr(ActiveRun, "advance", advance)
        with pytest.raises(KeyboardInterrupt):
            run_all(specs(1), tmp_path, checkpoint_every=0)
    (folder,) = (path for path in (tmp_path / "checkpoints").iterdir() if path.is_dir())
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"")
    (found,) = run_all(specs(1), tmp_path)
    assert result(found) == result(run_all(specs(1), tmp_path / "undisturbed")[0])
    told = [line.rpartition(";")[2] for line in caplog.messages if "is damaged" in line]
    assert told == [" falling back to the one before it.", " there is no other, starting from the beginning."]
