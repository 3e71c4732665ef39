"""Runs on a Ray cluster: a head and two raylets on this machine, killed as machines are."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tables
from command_line import run
from mnemon import MnemonError, checkpoint
from mnemon.data import store
from mnemon.errors import Diverged
from mnemon.experiments.events import Finished, Saved, Started
from mnemon.experiments.job import resolve
from mnemon.experiments.pools import ray_pool, ray_task
from mnemon.experiments.pools.ray_pool import Ray
from mnemon.experiments.recording import versions
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning import plugins
from mnemon.runtime import ray_cluster
from mnemon.runtime.device import Engine
from processes import midway, started, wait_for
from ray_machines import STORE, short_folder, two_machines

ray = pytest.importorskip("ray")


def specs(count, method="er", **more):
    return [Spec(method, "split-digits", seed, **more) for seed in range(count)]


def result(record):
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


def details(folder):
    return {path.name: json.loads(path.read_bytes()) for path in (folder / "details").iterdir()}


# ER that takes its time until the file `gate` is there, and says in which process it runs.
SLOW = """
import os
import time
from pathlib import Path

from mnemon.learning.methods.er import ER

HERE = Path(__file__).parent


def tell(name, text):
    part = HERE / f"{name} {os.getpid()}"
    part.write_text(text)
    part.replace(HERE / name)  # who reads it never finds half of it


class Slow(ER):
    name = "slow"
    summary = "waits"

    def write(self, learner, x, y, draws, done):
        tell("pid", str(os.getpid()))
        tell("gpu", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        if not (HERE / "gate").exists():
            time.sleep(0.05)
        return super().write(learner, x, y, draws, done)
"""


@pytest.fixture
def short(monkeypatch):
    yield from short_folder(monkeypatch)


@pytest.fixture
def cluster(short, monkeypatch):
    yield from two_machines(monkeypatch)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """The file with the slow method, which is known as "slow"."""
    for name in ("_added", "_failed"):
        monkeypatch.setattr(plugins, name, {kind: {} for kind in plugins.BASES})
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "plugin" / "slow.py"
    path.parent.mkdir()
    path.write_text(SLOW)
    plugins.use("method", f"{path}:Slow")
    return path


def here(asked, folder, slow):
    """The same runs in this process, with nothing to wait for."""
    (slow.parent / "gate").touch()
    return run_all(asked, folder, pool="this-process")


class Watched(Ray):
    """A pool whose events the test sees, and acts on."""

    def __init__(self, act=lambda seen: None):
        super().__init__()
        self.act, self.seen = act, []

    def run(self, work, emit, stop):
        def watch(event):
            emit(event)
            self.seen.append(event)
            self.act(self.seen)

        super().run(work, watch, stop)

    def of(self, kind):
        return [event for event in self.seen if isinstance(event, kind)]


class OnGPUs(Watched):
    """Its tasks take the GPUs of the cluster, which are made up, and compute on the cores beside them."""

    def resource(self, engine):
        return "GPU"


def test_records_are_those_of_a_local_run_and_a_diverging_run_ends_alone(tmp_path, cluster):
    bad = Spec("er", "split-digits", 7, options={"lr": 1e30})
    good = [*specs(2), *specs(1, "hybrid", classifiers=("ncm", "proxy"))]
    with pytest.raises(Diverged, match=r"1 of 4 runs diverged and have no record .* the first with seed 7"):
        run_all([good[0], bad, *good[1:]], tmp_path / "ray", pool="ray")
    expected = run_all(good, tmp_path / "here", pool="this-process")
    found = {(r["run"], r["classifier"]): result(r) for r in ResultFolder(tmp_path / "ray").read()}
    assert found == {(r["run"], r["classifier"]): result(r) for r in expected}
    assert details(tmp_path / "ray") == details(tmp_path / "here")
    assert [path for path in (tmp_path / "ray" / "checkpoints").iterdir() if path.is_dir()] == []
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_machine_dies_and_its_run_goes_on_elsewhere(tmp_path, cluster, slow):
    gate = slow.parent / "gate"

    def act(seen):
        """Once both machines have sent a checkpoint, one of them is gone."""
        if not gate.exists() and {e.number for e in seen if isinstance(e, Saved)} == {0, 1}:
            cluster.machines[0].kill_raylet()
            gate.touch()

    pool = Watched(act)
    found = run_all(specs(2, "slow"), tmp_path / "ray", pool=pool, checkpoint_every=0.2)
    expected = here(specs(2, "slow"), tmp_path / "here", slow)
    assert [result(r) for r in found] == [result(r) for r in expected]
    begun = [(event.number, event.position > 0) for event in pool.of(Started)]
    assert sorted(begun[:2]) == [(0, False), (1, False)]
    assert [resumed for _, resumed in begun[2:]] == [True]  # one run, from its checkpoint


@pytest.mark.slow
def test_a_process_on_a_gpu_dies_and_nothing_it_finished_is_run_again(tmp_path, cluster, slow):
    """One GPU makes three runs in one task; the short one has ended when the process is killed."""
    cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    gate = slow.parent / "gate"
    asked = [Spec("slow", "split-digits", 0, options={"batch_size": 100}), *specs(3, "slow")[1:]]

    def act(seen):
        if not gate.exists() and isinstance(seen[-1], Finished):
            assert (slow.parent / "gpu").read_text() == "0"
            os.kill(int((slow.parent / "pid").read_text()), signal.SIGKILL)
            gate.touch()

    pool = OnGPUs(act)
    found = run_all(asked, tmp_path / "ray", device="cpu", pool=pool, checkpoint_every=0.2)
    expected = here(asked, tmp_path / "here", slow)
    assert [result(r) for r in found] == [result(r) for r in expected]
    assert pool.of(Finished)[0].number == 0
    assert sorted(event.number for event in pool.of(Finished)) == [0, 1, 2]
    assert sorted(event.number for event in pool.of(Started)) == [0, 1, 1, 2, 2]
    assert all(event.position > 0 for event in pool.of(Started)[3:])
    assert {record["at_once"] for record in found} == {3}


@pytest.mark.slow
def test_a_gpu_that_torch_cannot_use_is_named_with_its_machine(tmp_path, cluster):
    cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    with pytest.raises(MnemonError, match=r"the machine \S+ of the Ray cluster has a GPU that its torch cannot use"):
        run_all(specs(1), tmp_path / "out", pool="ray")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_whose_process_always_dies_is_given_up_and_the_others_are_made(tmp_path, cluster, slow, monkeypatch):
    monkeypatch.setattr(ray_pool, "DEATHS", 3)  # five take longer
    (slow.parent / "gate").touch()
    dies = "if self.batch_size == 7:\n            os._exit(1)\n        return"
    slow.write_text(SLOW.replace("return", dies))
    plugins.use("method", f"{slow}:Slow")
    deadly = Spec("slow", "split-digits", 0, options={"batch_size": 7})
    with pytest.raises(MnemonError, match=r"1 of 3 runs have no record, because their processes on Ray died 3 times"):
        run_all([deadly, *specs(2)], tmp_path / "out", pool="ray")
    assert sorted(record["seed"] for record in ResultFolder(tmp_path / "out").read()) == [0, 1]
    assert {record["options"]["batch_size"] for record in ResultFolder(tmp_path / "out").read()} == {10}


@pytest.mark.slow
def test_the_driver_is_killed_and_the_command_repeated_without_ray(tmp_path, cluster, slow):
    command = [sys.executable, "-m", "mnemon", "run", "--method", f"{slow}:Slow", "--stream", "split-digits"]
    command += [
        "--seeds",
        "2",
        "--device",
        "cpu",
        "--checkpoint-every",
        "0.2",
        "--quiet",
        "--out",
        str(tmp_path / "out"),
    ]
    with started([*command, "--on", "ray"]) as process:
        wait_for(lambda: len(midway(tmp_path / "out")) == 2 or process.poll() is not None)
        process.kill()
    assert ResultFolder(tmp_path / "out").read() == []
    assert len(midway(tmp_path / "out")) == 2
    (slow.parent / "gate").touch()
    told = subprocess.run(
        [word for word in command if word != "--quiet"], check=True, capture_output=True, text=True
    ).stderr
    assert len(re.findall("going on at step", told)) == 2
    expected = here(specs(2, "slow"), tmp_path / "here", slow)
    by_seed = sorted(ResultFolder(tmp_path / "out").read(), key=lambda r: r["seed"])
    assert [result(r) for r in by_seed] == [result(r) for r in expected]
    assert details(tmp_path / "out") == details(tmp_path / "here")


@pytest.mark.slow
def test_a_signal_saves_and_a_cluster_of_our_own_is_private_and_ends_with_the_command(
    tmp_path, short, slow, monkeypatch
):
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setenv("HOME", str(tmp_path))
    command = [sys.executable, "-m", "mnemon", "run", "--method", f"{slow}:Slow", "--stream", "split-digits"]
    command += ["--seeds", "3", "--device", "cpu", "--checkpoint-every", "0.2", "--out", str(tmp_path / "out")]
    with started([*command, "--on", "ray", "--jobs", "2"], stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: midway(tmp_path / "out") or process.poll() is not None)
        before = midway(tmp_path / "out")
        wait_for((slow.parent / "pid").exists)
        priority = os.getpriority(os.PRIO_PROCESS, int((slow.parent / "pid").read_text()))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert before
    assert priority == os.getpriority(os.PRIO_PROCESS, 0)  # Ray's own choice would let runs wait for all other work
    assert set(before) <= set(midway(tmp_path / "out"))
    token = tmp_path / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    wait_for(lambda: not _processes_of(short))
    (slow.parent / "gate").touch()
    again = subprocess.run([*command, "--on", "ray"], check=True, capture_output=True, text=True)
    assert "going on at step" in again.stderr
    expected = here(specs(3, "slow"), tmp_path / "here", slow)
    by_seed = sorted(ResultFolder(tmp_path / "out").read(), key=lambda r: r["seed"])
    assert [result(r) for r in by_seed] == [result(r) for r in expected]


def _processes_of(folder):
    """Those with this folder in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{folder}/".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


@pytest.mark.slow
def test_a_machine_without_the_dataset_gets_it_from_the_driver(tmp_path, cluster, monkeypatch):
    """Its own cache folder is another one, as on another machine."""
    for machine in cluster.machines:
        cluster.remove_node(machine)
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "cache"))
    _import_a_dataset(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("MNEMON_DATA", str(tmp_path / "its cache"))
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
    (found,) = run_all([Spec("er", "split-dots-2")], tmp_path / "ray", pool="ray")
    (expected,) = run_all([Spec("er", "split-dots-2")], tmp_path / "here", pool="this-process")
    assert result(found) == result(expected)
    assert (tmp_path / "its cache" / "dots" / "dots.safetensors").is_file()


def _import_a_dataset(folder):
    from PIL import Image

    from mnemon.data import library

    for label in range(4):
        (folder / "dots" / f"c{label}").mkdir(parents=True)
        for number in range(40):
            colour = (60 * label + number % 20, number * 5, 255 - 50 * label)
            Image.new("RGB", (8, 8), colour).save(folder / "dots" / f"c{label}" / f"{number}.png")
    library.import_("dots", folder / "dots", size=8, quiet=True)


# --- without a cluster


def test_other_versions_are_refused_with_a_sentence():
    (item,) = ray_task.make_runs(versions() | {"torch": "1.0", "mnemon": "9"}, "of another version")
    kind, sentence = item
    assert kind == "refused"
    assert re.search(r"has mnemon \S+ instead of 9, torch \S+ instead of 1.0; install the same", sentence)


def test_another_build_of_the_same_version_is_accepted():
    """The driver has no GPU, and a torch without CUDA."""
    assert ray_cluster.mismatch({"torch": "2.13.0+cpu"}, {"torch": "2.13.0+cu130"}) is None


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("ray://there:10001", "Ray's client protocol"),
        ("127.0.0.1:1", "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:1"),
    ],
)
def test_an_address_that_cannot_be_used(tmp_path, monkeypatch, address, sentence):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(MnemonError, match=sentence):
        run_all(specs(1), tmp_path / "out", pool="ray")


@pytest.mark.parametrize(
    "words",
    [
        "run --method er --stream split-digits",
        "tune --method er --stream split-digits",
        "tune --method er --stream split-digits --search random",
        "reproduce table1 --methods er --streams split-mnist",
        "fit birds.csv --label bird --method slda",
    ],
)
def test_without_the_extra_each_command_says_what_to_install(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    tables.write(tmp_path / "birds.csv", tables.rows(30))
    _, err = run(*words.split(), "--on", "ray", "--out", "out", code=2, capsys=capsys)
    assert "--on ray needs the extra: pip install 'mnemon[ray]'." in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_a_run_is_named_by_a_device_that_only_other_machines_have():
    spec = specs(1)[0]
    there = resolve(spec, Engine(torch.device("cuda"), elsewhere="NVIDIA H200"))
    assert there.key == spec.key(there.choice, there.stream, there.checksum, {"device": "NVIDIA H200"})
    assert there.key != resolve(spec, Engine(torch.device("cpu"))).key


def test_checkpoints_and_datasets_cross_machines_whole(tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "a", 3, {"w": torch.arange(4.0)}, {"position": 1})
    checkpoint.unpack(tmp_path / "b", checkpoint.Packed(*tuple(checkpoint.pack(tmp_path / "a"))))
    found = checkpoint.load(tmp_path / "b")
    assert (found.number, found.tensors["w"].tolist(), found.values) == (3, [0, 1, 2, 3], {"position": 1})
    assert checkpoint.pack(tmp_path / "nothing") is None
    _import_a_dataset(tmp_path)
    packed, metadata = store.pack("dots"), store.read_metadata("dots")
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "other"))
    assert store.pack("dots") is None
    store.unpack("dots", *packed)
    assert store.read_metadata("dots") == metadata
    assert len(store.read("dots", expected=metadata.checksum).y_train) == metadata.train
