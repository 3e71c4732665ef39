"""Runs in a folder: never twice, never lost, shared by several processes, stopped and gone on with."""

import errno
import itertools
import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from mnemon import MnemonError, checkpoint
from mnemon.experiments import active, protocol, runner, store
from mnemon.experiments.active import ActiveRun, JobLock
from mnemon.experiments.executor import AsyncExecutor, Executor
from mnemon.experiments.job import resolve
from mnemon.experiments.run import Run
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning.captured import GraphExecutor, Member
from mnemon.learning.methods import methods
from mnemon.render import names
from mnemon.runtime.device import Engine
from mnemon.runtime.signals import Stopped
from processes import PATIENCE, midway, resume, stand, started, under_way, wait_for

COMMAND = [sys.executable, "-m", "mnemon", "run", "--stream", "split-digits", "--device", "cpu"]


def spec(seed=0, method="hybrid", **more):
    return Spec(method, "split-digits", seed, **more)


def result(record):
    """A record without what differs from one run to the next."""
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


def test_a_finished_run_is_never_run_again(tmp_path, monkeypatch):
    first = runner.run_all([spec(0), spec(1)], tmp_path)
    assert [r["seed"] for r in first] == [0, 1]
    monkeypatch.setattr(Executor, "settle", lambda *_: pytest.fail("ran again"))
    assert runner.run_all([spec(1), spec(0)], tmp_path) == [first[1], first[0]]
    assert len(ResultFolder(tmp_path).read()) == 2
    assert list((tmp_path / "checkpoints").glob("*/")) == []


def test_another_option_is_another_run(tmp_path):
    keys = {
        r["run"]
        for s in (spec(), spec(options={"lr": 0.3}), spec(split="valid"), spec(order="random"), spec(loss="ms"))
        for r in runner.run_all([s], tmp_path)
    }
    assert len(keys) == 5


def test_several_classifiers_read_one_training(tmp_path):
    together = runner.run_all([spec(method="er", classifiers=("softmax", "ncm", "ncm-raw"))], tmp_path)
    assert [r["classifier"] for r in together] == ["softmax", "ncm", "ncm-raw"]
    assert len({r["run"] for r in together}) == 1
    alone = runner.run_all([spec(method="er", classifiers=("ncm",))], tmp_path / "alone")
    assert alone[0]["accuracy_matrix"] == together[1]["accuracy_matrix"]
    details = json.loads((tmp_path / "details" / f"{together[0]['run']}.json").read_text())
    assert details["classifiers"].keys() == {"softmax", "ncm", "ncm-raw"}
    total = sum(map(sum, details["classifiers"]["ncm"]["confusion"]))
    diagonal = sum(row[i] for i, row in enumerate(details["classifiers"]["ncm"]["confusion"]))
    assert 100 * diagonal / total == pytest.approx(together[1]["average_accuracy"], abs=1.5)


def test_the_runner_and_the_function_agree(tmp_path):
    import mnemon

    assert result(runner.run_all([spec(2)], tmp_path)[0]) == result(mnemon.run("hybrid", "split-digits", seed=2))


def test_a_line_cut_short_was_never_acknowledged(tmp_path):
    runner.run_all([spec(0)], tmp_path)
    path = tmp_path / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"run": "half a rec')
    assert len(ResultFolder(tmp_path).read()) == 1
    runner.run_all([spec(0), spec(1)], tmp_path)
    assert path.read_bytes().startswith(whole)
    assert [r["seed"] for r in ResultFolder(tmp_path).read()] == [0, 1]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    (tmp_path / "records.jsonl").write_text('{"run": "a", "classifier": "ncm"}\nnonsense\n')
    with pytest.raises(MnemonError, match=r"line 2 of .*records.jsonl"):
        ResultFolder(tmp_path).read()


def test_an_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "out").write_text("a file in its place")
    with pytest.raises(MnemonError, match=r"the output folder .*out cannot be written"):
        runner.run_all([spec()], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "a file in its place"


def test_an_output_folder_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(MnemonError, match=r"the output folder .*out cannot be written \(No locks available\)"):
        runner.run_all([spec()], tmp_path / "out")


def test_mistakes_are_found_before_anything_is_written(tmp_path):
    with pytest.raises(MnemonError, match="did you mean 'hybrid'"):
        runner.run_all([spec(), spec(method="hybrd")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))  # a checkpoint has more bytes


def test_no_room_for_a_checkpoint(tmp_path):
    """The kernel refuses the write: exit code 2, one sentence; with room again the same command finishes."""
    command = [*COMMAND, "--method", "hybrid", "--out", str(tmp_path), "--checkpoint-every", "0"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_files, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "could not be written (File too large)" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "hybrid + ncm" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, number, code):
    command = [*COMMAND, "--method", "hybrid", "--out", str(tmp_path)]
    with started([*command, "--seeds", "300", "--checkpoint-every", "0"], stderr=subprocess.PIPE) as process:
        assert stand(process.pid, lambda: midway(tmp_path))
        (seed,) = midway(tmp_path)
        process.send_signal(number)
        resume([process.pid])
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert (
        f"everything is saved, and the same command continues: {shlex.join(['mnemon', *process.args[3:]])}\n" in errors
    )
    assert list(under_way(tmp_path)) == [seed]
    seeds = range(seed, seed + 2)
    # Fewer of the 300 runs, which is all the same to the one that was stopped.
    done = subprocess.run([*command, "--seeds", names.seeds(seeds)], capture_output=True, text=True, check=True)
    assert f"hybrid on split-digits, seed {seed}: going on at step" in done.stderr
    assert not under_way(tmp_path)
    expected = [result(r) for r in runner.run_all([spec(s) for s in seeds], tmp_path / "undisturbed")]
    assert [result(r) for r in ResultFolder(tmp_path).read() if r["seed"] in seeds] == expected


def test_two_processes_share_a_folder(tmp_path):
    """Both ask for the same eight runs: each is made once, and both see all of them."""
    command = [*COMMAND, "--method", "hybrid", "--seeds", "8", "--out", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=PATIENCE) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    found = ResultFolder(tmp_path).read()
    assert sorted(r["seed"] for r in found) == list(range(8))
    assert os.listdir(tmp_path / "checkpoints") == []
    tables = [out.splitlines()[2].split()[:8] for out, _ in outputs]
    assert tables[0] == tables[1]


def kill_at_random(method, folder, kills, runs, seed):
    """SIGKILL a real `mnemon run` at random moments, `kills` times, then let it finish.

    Where it was done before it was killed so often, because it was fast or we were slow, it begins anew.
    """
    out, undisturbed = folder / "out", folder / "undisturbed"
    command = [*COMMAND, "--method", method, "--seeds", str(runs), "--out", str(out), "--checkpoint-every", "0.01"]
    expected = runner.run_all([spec(s, method) for s in range(runs)], undisturbed)

    def compare():
        assert [result(r) for r in ResultFolder(out).read()] == [result(r) for r in expected]
        for r in expected:
            name = f"details/{r['run']}.json"
            assert (out / name).read_bytes() == (undisturbed / name).read_bytes()

    rng = random.Random(seed)
    for _ in range(kills):
        with started(command, stderr=subprocess.DEVNULL) as process:
            before = under_way(out)
            wait_for(lambda process=process, before=before: under_way(out) != before or process.poll() is not None)
            time.sleep(rng.uniform(0, 0.15))
            process.kill()
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0
            compare()
            shutil.rmtree(out)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compare()


def test_killed_at_random_moments_a_run_ends_with_the_same_record(tmp_path):
    kill_at_random("hybrid", tmp_path, kills=20, runs=12, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods())
def test_killed_at_random_moments_every_method(tmp_path, method):
    kill_at_random(method, tmp_path, kills=25, runs=10 if method in ("iid-offline", "gss", "slda") else 40, seed=2)


def test_killed_between_the_last_checkpoint_and_the_record(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ActiveRun, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            runner.run_all([spec()], tmp_path, checkpoint_every=0)
    (folder,) = tmp_path.glob("checkpoints/*/")
    saved = checkpoint.load(folder)
    assert saved is not None
    assert len(saved.values["rows"]) == 5  # all tasks were evaluated
    expected = runner.run_all([spec()], tmp_path / "undisturbed")
    assert [result(r) for r in runner.run_all([spec()], tmp_path)] == [result(r) for r in expected]


@pytest.mark.parametrize("damage", ["truncated", "bit-flipped", "missing"])
def test_a_damaged_newest_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path, damage, caplog):
    """A real run is killed, its newest checkpoint damaged; the record is the undisturbed one all the same."""
    command = [*COMMAND, "--method", "hybrid", "--out", str(tmp_path)]
    with started([*command, "--seeds", "300", "--checkpoint-every", "0"], stderr=subprocess.DEVNULL) as process:
        assert stand(process.pid, lambda: midway(tmp_path, least=2))
        process.kill()
    (seed,) = under_way(tmp_path)
    (folder,) = tmp_path.glob("checkpoints/*/")
    newest = max(folder.glob("*.json")).with_suffix(".safetensors")
    content = newest.read_bytes()
    if damage == "truncated":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "bit-flipped":
        newest.write_bytes(content[:-100] + bytes([content[-100] ^ 4]) + content[-99:])
    else:
        newest.unlink()
    assert checkpoint.load(folder) is not None
    assert len(caplog.messages) == 1
    done = subprocess.run([*command, "--seeds", names.seeds([seed])], capture_output=True, text=True, check=True)
    assert "is damaged" in done.stderr
    assert "going on at step" in done.stderr
    expected = runner.run_all([spec(seed)], tmp_path / "undisturbed")
    assert [result(r) for r in ResultFolder(tmp_path).read() if r["seed"] == seed] == [result(r) for r in expected]


def test_in_a_thread_signals_are_left_alone(tmp_path):
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.extend(runner.run_all([spec()], tmp_path)))
    thread.start()
    thread.join()
    assert len(found) == 1
    assert os.path.exists(tmp_path / "records.jsonl")


def test_a_diverged_run_ends_alone_and_the_others_go_on(tmp_path, monkeypatch):
    original = Executor.settle

    def settle(self, *more):
        whole = original(self, *more)
        if self.run.seed == 1:
            self.run.learner.bad_step.fill_(3)
            self.run.learner.check()
        return whole

    monkeypatch.setattr(Executor, "settle", settle)
    with pytest.raises(
        MnemonError, match=r"1 of 3 runs diverged and have no record \(the others do\), the first with seed 1: the loss"
    ):
        runner.run_all([spec(s) for s in range(3)], tmp_path)
    assert [r["seed"] for r in ResultFolder(tmp_path).read()] == [0, 2]


def test_a_memory_that_keeps_the_whole_stream_is_told(tmp_path, caplog):
    said = "keeps every sample of the stream (at most 1435)"
    for rows, heard in ((200, False), (1435, True)):
        caplog.clear()
        runner.run_all([Spec("er", "split-digits", seed, options={"memory_size": rows}) for seed in range(2)], tmp_path)
        assert [said in message for message in caplog.messages].count(True) == heard  # once for all seeds
    caplog.clear()
    runner.run_all([Spec("fine-tune", "split-digits")], tmp_path)  # it has no memory
    assert said not in caplog.text


def test_names_of_one_stream_are_one_run(tmp_path):
    short, long = (runner.run_all([Spec("er", name)], tmp_path)[0] for name in ("split-digits", "split-digits-5"))
    assert short == long
    assert short["stream"] == "split-digits"
    assert str(protocol.parse("split-cifar100")) == "split-cifar100-10"
    assert str(protocol.parse("split-digits-2")) == "split-digits-2"


def test_a_classifier_named_twice_is_one_record(tmp_path):
    assert len(runner.run_all([spec(method="er", classifiers=("ncm", "ncm"))], tmp_path)) == 1
    assert len(ResultFolder(tmp_path).read()) == 1


def test_damaged_details_do_not_keep_a_run_from_finishing(tmp_path):
    (found,) = runner.run_all([spec()], tmp_path)
    path = tmp_path / "details" / f"{found['run']}.json"
    whole = path.read_bytes()
    (tmp_path / "records.jsonl").unlink()
    for damage in (b"{", b"{}", b"[]"):
        path.write_bytes(damage)
        (tmp_path / "records.jsonl").unlink(missing_ok=True)
        runner.run_all([spec()], tmp_path)
        assert path.read_bytes() == whole


def test_a_record_whose_line_end_was_taken_away_stays(tmp_path):
    runner.run_all([spec(0)], tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    runner.run_all([spec(1)], tmp_path)
    assert [r["seed"] for r in ResultFolder(tmp_path).read()] == [0, 1]


def test_what_a_killed_process_left_is_cleared_when_its_record_is_there(tmp_path):
    (found,) = runner.run_all([spec()], tmp_path)
    left = tmp_path / "checkpoints" / f"{found['run']}+ncm"
    line = (tmp_path / "records.jsonl").read_bytes()
    (tmp_path / "records.jsonl").unlink()
    checkpoint.save(left, 1, {}, {})

    def late(*args, original=JobLock.acquire):  # the record appears between the look and the lock
        (tmp_path / "records.jsonl").write_bytes(line)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLock, "acquire", late)
        assert runner.run_all([spec()], tmp_path) == [found]
    assert not left.exists()
    checkpoint.save(left, 1, {}, {})
    assert runner.run_all([spec()], tmp_path) == [found]  # it was there from the start
    assert not left.exists()


def test_runs_side_by_side_are_the_runs_alone(tmp_path):
    """The scheduling of a GPU, driven on the CPU: five runs of two methods, three active at once, in turn."""
    specs = [spec(s, method) for s in range(3) for method in ("er", "cope")][:5]
    alone = runner.run_all(specs, tmp_path / "alone")
    together = runner.run_all(specs, tmp_path / "together", jobs=3, pool="this-process")
    assert [result(r) for r in together] == [result(r) for r in alone]
    assert max(r["at_once"] for r in together) == 3
    assert not list((tmp_path / "together" / "checkpoints").glob("*/*.json"))


@pytest.fixture
def paced(monkeypatch):
    """Runs are driven as on a GPU: launched, pushed, settled, their evaluations collected later; and the device is busy, it
    says, now and then."""
    asked = itertools.count(1)
    monkeypatch.setattr(active, "executor_for", AsyncExecutor)
    monkeypatch.setattr(Member, "busy", lambda self: next(asked) % 3 != 0)


@pytest.fixture
def stacked(monkeypatch, paced):
    """As on a GPU that stacks runs of a kind."""
    monkeypatch.setattr(Engine, "stacks", True)


def test_launched_runs_are_the_runs_alone(tmp_path, request):
    specs = [spec(s, method) for s in range(3) for method in ("er", "cope", "fine-tune")]
    alone = runner.run_all(specs, tmp_path / "alone")
    request.getfixturevalue("paced")
    together = runner.run_all(specs, tmp_path / "together", jobs=4, pool="this-process")
    assert [result(r) for r in together] == [result(r) for r in alone]
    for r in alone:
        name = f"details/{r['run']}.json"
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "together" / name).read_bytes()


def stopped_often(specs, out, *, every, jobs):
    """The records of runs that get a signal at every so-many-th turn and are started again, and how often that was."""
    turns, stopped = itertools.count(1), 0

    def advance(self, stop, original=ActiveRun.advance):
        if next(turns) % every == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ActiveRun, "advance", advance)
        while True:
            try:
                return runner.run_all(specs, out, jobs=jobs, pool="this-process", checkpoint_every=0.01), stopped
            except Stopped:
                stopped += 1


def test_launched_runs_stop_and_go_on(tmp_path, request):
    """Signals come at many moments: while steps or an evaluation are on their way too."""
    specs = [spec(s, "er") for s in range(4)]
    alone = runner.run_all(specs, tmp_path / "alone")
    request.getfixturevalue("paced")
    found, stopped = stopped_often(specs, tmp_path / "together", every=23, jobs=3)
    assert stopped > 5
    assert [result(r) for r in found] == [result(r) for r in alone]


def test_stacked_runs_are_the_runs_alone(tmp_path, request):
    """Alike but for rounding: five seeds of two methods in any order, six at once, so a stack of five and one of five."""
    specs = [spec(s, method) for s in range(5) for method in ("er", "cope")]
    specs[8] = spec(4, "er", options={"lr": 0.1})  # another η
    alone = runner.run_all(specs, tmp_path / "alone")
    request.getfixturevalue("stacked")
    together = runner.run_all(specs, tmp_path / "together", jobs=6, pool="this-process")
    for one, other in zip(together, alone, strict=True):
        assert (one["run"], one["protocol"]) == (other["run"], other["protocol"])
        assert np.allclose(one["accuracy_matrix"][-1], other["accuracy_matrix"][-1], atol=3)
    assert {r["at_once"] for r in together} <= {5, 6}
    assert not list((tmp_path / "together" / "checkpoints").glob("*/*.json"))


def test_stacked_runs_stop_and_go_on(tmp_path, stacked):
    """Signals come at many moments; what was saved at different steps goes on as more than one stack."""
    specs = [spec(s, "er") for s in range(4)]
    found, stopped = stopped_often(specs, tmp_path / "often", every=13, jobs=4)
    assert stopped > 3
    once = runner.run_all(specs, tmp_path / "once", jobs=4, pool="this-process")
    for one, other in zip(found, once, strict=True):
        assert np.allclose(one["accuracy_matrix"][-1], other["accuracy_matrix"][-1], atol=3)


def test_in_a_stack_a_diverged_run_ends_alone(tmp_path, stacked, monkeypatch):
    original = Run.__init__

    def init(self, *args, **more):
        original(self, *args, **more)
        if self.seed == 1:
            with torch.no_grad():
                self.learner.parameters[0].fill_(torch.nan)

    monkeypatch.setattr(Run, "__init__", init)
    with pytest.raises(MnemonError, match="1 of 3 runs diverged"):
        runner.run_all([spec(s, "er") for s in range(3)], tmp_path, jobs=3, pool="this-process")
    assert sorted(r["seed"] for r in ResultFolder(tmp_path).read()) == [0, 2]


def test_a_stack_that_does_not_fit_becomes_two(tmp_path, stacked, monkeypatch, caplog):
    """Four do not fit at once, two do, with one line that says so."""
    original = GraphExecutor.__init__

    def init(self, learners, *more):
        if len(learners) > 2:
            raise torch.OutOfMemoryError
        original(self, learners, *more)

    monkeypatch.setattr(GraphExecutor, "__init__", init)
    found = runner.run_all([spec(s, "er") for s in range(4)], tmp_path, jobs=4, pool="this-process")
    assert len(found) == 4
    assert caplog.messages == ["the device's memory is full: going on with 2 runs at once"]


def test_a_full_device_while_the_next_kind_is_made_ready(tmp_path, stacked, monkeypatch):
    """The stack under way finds no room in the middle of that: nothing is stacked with what it is not like."""
    alone = {(m, s): runner.run_all([spec(s, m)], tmp_path / "alone")[0] for m in ("a-gem", "er") for s in range(3)}
    original, raised = ActiveRun.advance, []

    def advance(self, stop):
        if self.job.number < 3 and not raised and len(list((tmp_path / "out" / "checkpoints").glob("er*.lock"))) == 2:
            raised.append(self.job.number)
            raise torch.OutOfMemoryError
        return original(self, stop)

    monkeypatch.setattr(ActiveRun, "advance", advance)
    specs = [spec(s, m) for m in ("a-gem", "er") for s in range(3)]
    found = runner.run_all(specs, tmp_path / "out", jobs=6, pool="this-process")
    assert raised
    for r in found:
        assert r["average_accuracy"] == pytest.approx(alone[r["method"], r["seed"]]["average_accuracy"], abs=3)


def test_a_stop_while_the_next_kind_is_made_ready(tmp_path, stacked, monkeypatch):
    """No more runs are made ready, and the stack under way is saved at one step, so that it goes on as one."""
    begun, original = [], Run.__init__

    def init(self, *args, **more):
        begun.append(self)
        original(self, *args, **more)
        if len(begun) == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Run, "__init__", init)
    specs = [spec(s, m) for m in ("er", "cope") for s in range(4)]
    with pytest.raises(Stopped):
        runner.run_all(specs, tmp_path, jobs=8, pool="this-process")
    assert len(begun) == 6
    assert len({run.position for run in begun[:4]}) == 1
    assert begun[0].position > 0
    assert len(runner.run_all(specs, tmp_path, jobs=8, pool="this-process")) == 8


def test_runs_whose_tasks_end_elsewhere_are_not_stacked(tmp_path, stacked):
    """In a random order of classes of different sizes."""
    specs = [spec(s, "er", order="random") for s in range(3)]
    found = runner.run_all(specs, tmp_path / "together", jobs=3, pool="this-process")
    assert len({tuple(r["protocol"]["boundaries"]) for r in found}) > 1
    for one, r in zip(specs, found, strict=True):
        (alone,) = runner.run_all([one], tmp_path / "alone")
        assert r["accuracy_matrix"] == alone["accuracy_matrix"]


def test_what_is_of_one_kind():
    def kind(**more):
        return resolve(spec(**{"method": "hybrid"} | more), Engine(torch.device("cpu"))).kind

    assert kind() == kind(seed=3) == kind(options={"lr": 0.3, "gamma": 2.0}) == kind(cell="table1")
    others = [
        kind(method="er"),
        kind(loss="ms"),
        kind(classifiers=("ncm", "proxy")),
        kind(split="valid"),
        kind(order="random"),
        kind(options={"memory_size": 100}),
        kind(options={"divisor": "active"}),
        kind(options={"forward": "separate"}),
    ]
    assert len({kind(), *others}) == 9


def test_a_file_of_records_that_was_changed_is_read_again(tmp_path):
    """And one that has grown is not read from its start; neither shows what a caller did to the records it got."""
    line = '{"run": "%s", "classifier": "ncm"}\n'
    path = tmp_path / store.NAME
    path.write_text(line % "a" + line % "b")
    ResultFolder(tmp_path).read()[0]["run"] = "changed"
    assert [r["run"] for r in ResultFolder(tmp_path).read()] == ["a", "b"]
    with path.open("a") as file:
        file.write(line % "c")
    assert [r["run"] for r in ResultFolder(tmp_path).read()] == ["a", "b", "c"]
    path.write_text(line % "x" + line % "b" + line % "c" + line % "d")
    assert [r["run"] for r in ResultFolder(tmp_path).read()] == ["x", "b", "c", "d"]
    path.write_text(line % "x" + "nonsense\n" + line % "c")
    with pytest.raises(MnemonError, match="line 2"):
        ResultFolder(tmp_path).read()
    path.write_text(line % "x")
    assert [r["run"] for r in ResultFolder(tmp_path).read()] == ["x"]


def test_packed_records_are_records(tmp_path):
    """They are found, kept when new ones come, and packed with these; a kill in between loses and doubles nothing."""
    first = runner.run_all([spec(0, "er"), spec(1, "er")], tmp_path)
    plain = (tmp_path / store.NAME).read_bytes()
    ResultFolder(tmp_path).pack()
    assert not (tmp_path / store.NAME).exists()
    assert ResultFolder(tmp_path).read() == first
    packed = (tmp_path / store.ARCHIVE).read_bytes()
    assert runner.run_all([spec(1, "er"), spec(2, "er")], tmp_path)[0] == first[1]
    assert len(ResultFolder(tmp_path).read()) == 3
    assert (tmp_path / store.ARCHIVE).read_bytes() == packed
    assert len((tmp_path / store.NAME).read_text().splitlines()) == 1
    with (tmp_path / store.NAME).open("ab") as file:  # as if packing had been killed before the file was removed
        file.write(plain)
    assert len(ResultFolder(tmp_path).read()) == 3
    ResultFolder(tmp_path).pack()
    assert [r["seed"] for r in ResultFolder(tmp_path).read()] == [0, 1, 2]
    (tmp_path / store.ARCHIVE).write_bytes(packed[:-20])
    with pytest.raises(MnemonError, match=r"records\.jsonl\.gz cannot be read"):
        ResultFolder(tmp_path).read()


def test_side_by_side_a_diverged_run_ends_alone(tmp_path):
    specs = [spec(0, "er"), spec(1, "er", options={"lr": 1e30}), spec(2, "er")]
    with pytest.raises(MnemonError, match="1 of 3 runs diverged"):
        runner.run_all(specs, tmp_path, jobs=3, pool="this-process")
    assert sorted(r["seed"] for r in ResultFolder(tmp_path).read()) == [0, 2]


def test_a_full_device_takes_fewer_runs_at_once(tmp_path, monkeypatch, caplog):
    """Two runs fit; the third has to wait, with one line that says so."""
    original, under_way = Executor.launch, set()

    def launch(self):
        under_way.add(self.run.seed)
        if len(under_way) > 2:
            under_way.discard(self.run.seed)
            raise torch.OutOfMemoryError
        original(self)

    def evaluate(self, evaluate=Run.evaluate):
        if len(self.rows) + 1 == len(self.ends):
            under_way.discard(self.seed)
        return evaluate(self)

    monkeypatch.setattr(Executor, "launch", launch)
    monkeypatch.setattr(Run, "evaluate", evaluate)
    found = runner.run_all([spec(s, "er") for s in range(4)], tmp_path, jobs=4, pool="this-process")
    assert [r["seed"] for r in found] == [0, 1, 2, 3]
    assert "the device's memory is full: going on with 2 runs at once" in caplog.messages


def test_a_run_that_does_not_fit_at_all(tmp_path, monkeypatch):
    def full(self):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Executor, "launch", full)
    with pytest.raises(MnemonError, match="not even one run of er fits"):
        runner.run_all([spec(0, "er")], tmp_path)


def test_unknown_precision(tmp_path):
    with pytest.raises(MnemonError, match="did you mean 'bf16'"):
        runner.run_all([spec()], tmp_path, precision="bf-16")
    with pytest.raises(MnemonError, match="bf16 is for GPUs"):
        runner.run_all([spec()], tmp_path, device="cpu", precision="bf16")
