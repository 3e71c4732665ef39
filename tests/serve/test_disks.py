"""Real disks that are full, read-only or damaged, under a server of its own process."""

import contextlib
import os
import signal
import subprocess

import numpy as np
import pytest

from mnemon import Client, OnlineClassifier, checkpoint
from mnemon.estimator.served import JOURNAL
from mnemon.serve.client import ClientError
from serving import TOKEN, served

pytestmark = pytest.mark.slow
ROWS = 100


def samples(i):
    rng = np.random.default_rng(i)
    return rng.normal(size=(ROWS, 50)).astype(np.float32), [f"class {c}" for c in rng.integers(0, 3, ROWS)]


@contextlib.contextmanager
def disk(folder, size):
    """A file system in memory; `remount(option)` changes it."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a disk")
    try:
        yield lambda option: subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def client_of(server, **more):
    return Client(server.url, "model", token=TOKEN, patience=0.5, **more)


def test_a_full_disk_refuses_and_loses_nothing(tmp_path):
    with disk(tmp_path / "disk", "6m") as remount, served(tmp_path / "disk" / "model", recovery=1e9) as server:
        server.start()
        acknowledged = 0
        with client_of(server) as client:
            status = 0
            for i in range(1000):
                try:
                    acknowledged = client.learn(*samples(i))["position"]
                except ClientError as error:
                    status = error.status
                    break
            assert status == 507
            assert acknowledged > ROWS
            assert client.predict(samples(0)[0])["predictions"]
            server.end(signal.SIGKILL)
            remount("size=60m")
            server.start()
            assert client.status()["acknowledged"] == acknowledged
            assert client.learn(*samples(1), wait="published")["position"] == acknowledged + ROWS
        server.end(signal.SIGTERM)
        assert OnlineClassifier.load(tmp_path / "disk" / "model").n_seen_ == acknowledged + ROWS


def test_a_read_only_disk_stops_the_start_and_loses_nothing(tmp_path):
    with disk(tmp_path / "disk", "60m") as remount, served(tmp_path / "disk" / "model", recovery=1e9) as server:
        server.start()
        with client_of(server) as client:
            acknowledged = client.learn(*samples(0), wait="published")["position"]
            server.end(signal.SIGKILL)
            remount("ro")
            with pytest.raises(AssertionError, match="did not start"):
                server.start()
            remount("rw")
            server.start()
            assert client.status()["acknowledged"] == acknowledged
            assert client.predict(samples(1)[0], after=acknowledged)["learned"] == acknowledged


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_journal_stops_the_start(tmp_path, damage):
    folder = tmp_path / "model"
    with served(folder, recovery=1e9) as server:
        server.start()
        with client_of(server) as client:
            for i in range(5):
                client.learn(*samples(i), wait="learned")
        server.end(signal.SIGTERM)
        content = bytearray((folder / JOURNAL).read_bytes())
        if damage == "truncated":
            del content[len(content) // 2 :]
        else:
            content[len(content) // 2] ^= 0xFF
        (folder / JOURNAL).write_bytes(content)
        for path in folder.glob("0*"):  # so that the samples are needed
            path.unlink()
        with pytest.raises(AssertionError, match="did not start"):
            server.start()


def test_a_damaged_snapshot_is_passed_over(tmp_path):
    folder = tmp_path / "model"
    with served(folder, recovery=0.0, save_share=1.0, whole_journal=False) as server:
        server.start()
        with client_of(server) as client:
            for i in range(6):
                acknowledged = client.learn(*samples(i), wait="published")["position"]
            server.end(signal.SIGKILL)
            path = folder / f"{checkpoint.newest(folder):010d}.safetensors"
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
            server.start()
            assert client.predict(samples(1)[0], after=acknowledged)["learned"] == acknowledged
        server.end(signal.SIGTERM)
        assert OnlineClassifier.load(folder).n_seen_ == acknowledged
