"""`mnemon fit --on ray`: shards learned elsewhere and merged give the model of all samples."""

import contextlib
import json
import pickle
import threading

import numpy as np
import pandas as pd
import pytest

import folder_images
import tables
from mnemon import MnemonError, OnlineClassifier
from mnemon.own_data import sharded
from mnemon.own_data.fit import fit
from mnemon.readers.columns import Columns
from mnemon.runtime import ray_cluster
from processes import wait_for
from ray_machines import short_folder, two_machines

BIRD = Columns("bird", None, ())


class Here:
    """Ray's few functions, in this process; what crosses is pickled as there."""

    class exceptions:
        class RayError(Exception):
            pass

    def __init__(self):
        self.tasks = 0
        self.chunks = []  # of all tasks: how many samples each chunk has

    def put(self, thing):
        return pickle.dumps(thing)

    def get(self, reference):
        return pickle.loads(reference)

    def wait(self, references, timeout):
        return references, []

    def cancel(self, reference):
        pass

    def cluster_resources(self):
        return {"CPU": 1}

    def remote(self, **options):
        class Function:
            def __init__(this, function):
                this.function = function

            def remote(this, driver, blank, samples):
                self.tasks += 1
                self.chunks += [len(y) for _, y in samples]
                return pickle.dumps(this.function(driver, pickle.loads(blank), pickle.loads(pickle.dumps(samples))))

        return Function


@pytest.fixture
def short(monkeypatch):
    yield from short_folder(monkeypatch)


@pytest.fixture
def here(monkeypatch):
    found = Here()
    monkeypatch.setattr(ray_cluster, "connected", lambda: contextlib.nullcontext(found))
    monkeypatch.setattr(sharded, "SHARD", 40)
    return found


def same(a, b, x):
    one, other = OnlineClassifier.load(a), OnlineClassifier.load(b)
    assert one.n_seen_ == other.n_seen_
    assert sorted(one.classes_) == sorted(other.classes_)
    places = [list(other.classes_).index(label) for label in one.classes_]
    np.testing.assert_allclose(one.decision_function(x), other.decision_function(x)[:, places], rtol=1e-3, atol=1e-3)


def test_a_table(tmp_path, here):
    path = tables.write(tmp_path / "birds.csv", tables.rows(300))
    for name, on in (("ray", "ray"), ("here", None)):
        done = fit(path, tmp_path / name, columns=BIRD, method="slda", exam=0, on=on)
        assert (done.learned, done.samples) == (300, 300)
    assert here.tasks >= 4
    assert here.chunks == [40] * (len(here.chunks) - 1) + here.chunks[-1:]  # small chunks cost a cluster its speed
    x = [{name: row[name] for name in tables.FEATURES} for row in tables.rows(50, 1000)]
    one, other = (OnlineClassifier.load(tmp_path / name) for name in ("ray", "here"))
    assert sorted(one.classes_) == sorted(other.classes_)
    for row in x:
        a, b = one.predict_proba_one(row), other.predict_proba_one(row)
        assert all(abs(a[label] - b[label]) < 1e-6 for label in b)
    log = json.loads((tmp_path / "ray" / "log.json").read_bytes())
    assert "300" in json.dumps(log)
    again = fit(path, tmp_path / "ray", columns=BIRD, on="ray")
    assert (again.learned, again.known) == (0, 300)


def test_images_wait_for_their_dictionary_first(tmp_path, here):
    folder = folder_images.make(tmp_path / "images", each=120)
    for name, on in (("ray", "ray"), ("here", None)):
        fit(folder, tmp_path / name, method="slda", backbone="patches", exam=0, size=14, on=on)
    assert here.tasks >= 1
    x = np.stack([folder_images.pixels(label, 500 + i) for i in range(5) for label in ("red", "green", "blue")])
    same(tmp_path / "ray", tmp_path / "here", x)


def test_a_row_that_cannot_be_learned_is_named_and_what_was_before_it_kept(tmp_path, here):
    found = tables.rows(200)
    found[150]["a"] = "1e999"
    path = tables.write(tmp_path / "birds.csv", found)
    with pytest.raises(MnemonError, match=r"birds.csv, line 152"):
        fit(path, tmp_path / "stop", columns=BIRD, method="slda", exam=0, on="ray")
    assert 100 < OnlineClassifier.load(tmp_path / "stop").n_seen_ <= 150
    done = fit(path, tmp_path / "skip", columns=BIRD, method="slda", exam=0, bad="skip", on="ray")
    assert (done.learned, done.skipped) == (199, 1)


def test_what_lies_behind_a_failure_is_read_again_and_learned_once(tmp_path, here, monkeypatch):
    found = tables.rows(600)
    found[150]["a"], whole = "1e999", found[150]["a"]
    path = tables.write(tmp_path / "birds.csv", found)
    with pytest.raises(MnemonError, match=r"line 152"):
        fit(path, tmp_path / "bad row", columns=BIRD, method="slda", exam=0, on="ray")
    found[150]["a"] = whole
    tables.write(path, found)
    assert fit(path, tmp_path / "bad row", columns=BIRD, on="ray").samples == 600

    get, calls = here.get, []

    def fails_once(reference):
        calls.append(reference)
        if len(calls) == 2:
            raise here.exceptions.RayError("a machine is gone")
        return get(reference)

    monkeypatch.setattr(here, "get", fails_once)
    with pytest.raises(MnemonError, match="the same command continues"):
        fit(path, tmp_path / "machine", columns=BIRD, method="slda", exam=0, on="ray")
    assert fit(path, tmp_path / "machine", columns=BIRD, on="ray").samples == 600


def test_only_sums_can_be_merged(tmp_path, here):
    path = tables.write(tmp_path / "birds.csv", tables.rows(30))
    with pytest.raises(MnemonError, match="needs --method slda"):
        fit(path, tmp_path / "model", columns=BIRD, on="ray")
    with pytest.raises(MnemonError, match="unknown place 'spark'"):
        fit(path, tmp_path / "model", columns=BIRD, method="slda", on="spark")
    assert not (tmp_path / "model").exists()


@pytest.fixture
def cluster(short, monkeypatch):
    pytest.importorskip("ray")
    yield from two_machines(monkeypatch)


@pytest.mark.slow
def test_a_machine_dies_while_it_learns_and_its_shard_is_learned_elsewhere(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(sharded, "SHARD", 100)
    learn, begun, gate = sharded._learn, tmp_path / "begun", tmp_path / "gate"
    begun.mkdir()

    def waits(*task):
        """Say which machine has a shard, and learn it once one of them is gone."""
        import time

        import ray

        (begun / ray.get_runtime_context().get_node_id()).touch()
        while not gate.exists():
            time.sleep(0.05)
        return learn(*task)

    def kill():
        wait_for(lambda: len(list(begun.iterdir())) == 2)
        cluster.machines[0].kill_raylet()
        gate.touch()

    monkeypatch.setattr(sharded, "_learn", waits)
    path = tables.write(tmp_path / "birds.csv", tables.rows(600))
    killing = threading.Thread(target=kill)
    killing.start()
    done = fit(path, tmp_path / "ray", columns=BIRD, method="slda", features="fixed", exam=0, on="ray")
    killing.join()
    assert done.learned == 600
    fit(path, tmp_path / "here", columns=BIRD, method="slda", features="fixed", exam=0)
    same(tmp_path / "ray", tmp_path / "here", pd.DataFrame(tables.rows(50, 1000))[list(tables.FEATURES)])


@pytest.mark.slow
def test_on_a_cluster(tmp_path, short, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(sharded, "SHARD", 100)
    path = tables.write(tmp_path / "birds.parquet", tables.rows(1000))
    folder = folder_images.make(tmp_path / "images", each=200)
    with ray_cluster.connected():
        fit(path, tmp_path / "ray rows", columns=BIRD, method="slda", features="fixed", on="ray")
        fit(folder, tmp_path / "ray images", method="slda", backbone="patches", exam=0, size=14, on="ray")
    fit(path, tmp_path / "rows", columns=BIRD, method="slda", features="fixed")
    fit(folder, tmp_path / "images here", method="slda", backbone="patches", exam=0, size=14)
    assert OnlineClassifier.load(tmp_path / "ray rows").n_seen_ == 1000
    x = np.stack([folder_images.pixels(label, 500 + i) for i in range(5) for label in ("red", "green", "blue")])
    same(tmp_path / "ray images", tmp_path / "images here", x)
