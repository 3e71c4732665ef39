"""`mnemon serve` beside what bounds it: SQLite, an idle server, a loop over partial_fit, a plain start; and beside River.

    python benchmarks/serve.py                                        # a few minutes
    python benchmarks/serve.py --parts flat --samples 1000000         # the long one

Vectors of 784 numbers in ten classes, the default method (hybrid on the MLP). All that is compared runs in turn, in short
blocks; while one side runs, the server of the other is stopped (SIGSTOP), so that neither takes the other's processor.

burst     acknowledged samples per second, npy, 32 a request, 8 connections; beside SQLite, which writes the same bytes in
          transactions as large as the server's were, with the same settings
predict   latency of single predictions, 50 per second, sent when they are due (a late answer delays none), while nothing is
          learned and while the learner is busy
learn     samples learned per second from a backlog, beside partial_fit in a loop
recovery  start after SIGKILL at the worst moment, beside a start with nothing to learn
flat      memory of the process and bytes on the disk as samples come and go
kills     acknowledged samples that are not in the model after SIGKILLs; beside River behind FastAPI (`river_server.py`)
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common import header, options, quartiles, write
from mnemon import Client, OnlineClassifier
from mnemon.serve import database
from server_process import TOKEN, Connection, Server, free_port, in_threads, mnemon_server, npy

FEATURES, CLASSES, EACH, CONNECTIONS = 784, 10, 32, 8
LEARN, PREDICT = "/v1/models/model/learn", "/v1/models/model/predict"


class Source:
    """Vectors around a mean for each class, drawn once: making them is no part of what is measured."""

    def __init__(self, seed: int, features: int = FEATURES) -> None:
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(CLASSES, features))
        self.y = rng.integers(0, CLASSES, (64, EACH))
        self.x: NDArray[np.float32] = (means[self.y] + 2 * rng.normal(size=(64, EACH, features))).astype(np.float32)
        self.bodies = [npy(x) for x in self.x]
        self.labels = [json.dumps([f"class {c}" for c in y]) for y in self.y]
        self._numbers = itertools.count()

    def send(self, connection: Connection) -> int:
        """One request of 32 samples with a key of its own; its status."""
        n = next(self._numbers)
        more = {"Mnemon_Labels": self.labels[n % 64], "Idempotency_Key": f"burst-{n}"}
        return connection.post(LEARN, "application/x-npy", self.bodies[n % 64], **more)[0]


def burst(source: Source, folder: Path, rounds: int, requests: int) -> dict[str, Any]:
    """All of one round fits in the backlog, and so do all rounds together."""
    ours, theirs, groups = [], [], []
    with mnemon_server(folder / "model") as server:
        server.start()
        connections = [Connection(server.port) for _ in range(CONNECTIONS)]
        assert source.send(connections[0]) == 202
        server.wait_until_learned()
        for _ in range(rounds):
            commits = server.metric("mnemon_commits_total")

            def work(i: int) -> None:
                for _ in range(requests // CONNECTIONS):
                    assert source.send(connections[i]) == 202

            began = time.perf_counter()
            in_threads(CONNECTIONS, work)
            ours.append(requests * EACH / (time.perf_counter() - began))
            groups.append(requests / (server.metric("mnemon_commits_total") - commits))
            with server.paused():
                theirs.append(sqlite_rate(folder / "sqlite", source, requests, max(round(groups[-1]), 1)))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = quartiles(ratios)
    print(
        f"burst      {np.median(ours):,.0f} acknowledged samples per second, SQLite {np.median(theirs):,.0f}: "
        f"{middle:.0%} ({low:.0%} … {high:.0%}), {np.median(groups):.1f} requests a transaction",
        flush=True,
    )
    return {"acknowledged_per_second": ours, "sqlite_per_second": theirs, "requests_per_transaction": groups}


def sqlite_rate(folder: Path, source: Source, requests: int, group: int) -> float:
    """Samples per second that SQLite itself writes: a table with a payload for each request, in transactions of `group`."""
    folder.mkdir(exist_ok=True)
    path = folder / "journal.sqlite"
    for old in folder.iterdir():
        old.unlink()
    database.create(path, {})
    db = database.opened(path)
    began = time.perf_counter()
    for start in range(0, requests, group):
        db.execute("BEGIN IMMEDIATE")
        rows = [
            (n + 1, "samples", n, EACH, source.bodies[n % 64], 0) for n in range(start, min(start + group, requests))
        ]
        db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")
    seconds = time.perf_counter() - began
    db.close()
    return requests * EACH / seconds


class Feeding:
    """Within, the learner always has something to learn."""

    def __init__(self, server: Server, source: Source, waiting: int = 2000) -> None:
        self._server, self._source, self._waiting = server, source, waiting
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def _feed(self) -> None:
        connection = Connection(self._server.port)
        with contextlib.suppress(OSError):  # a server that is killed
            while not self._stop.wait(0.1):
                for _ in range((self._waiting - self._server.status()["rates"]["waiting"]) // EACH):
                    self._source.send(connection)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def latencies(server: Server, body: bytes, seconds: float, rate: float) -> list[float]:
    """Milliseconds from when each request was due to its answer."""
    due: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    found: list[float] = []

    def work(_: int) -> None:
        connection = Connection(server.port)
        while (at := due.get()) is not None:
            status, _answer = connection.post(PREDICT, "application/json", body)
            assert status == 200
            found.append(1e3 * (time.perf_counter() - at))
        connection.close()

    def clock() -> None:
        began = time.perf_counter()
        for i in range(int(seconds * rate)):
            at = began + i / rate
            time.sleep(max(at - time.perf_counter(), 0))
            due.put(at)
        for _ in range(4):
            due.put(None)

    threading.Thread(target=clock, daemon=True).start()
    in_threads(4, work)
    return found


def predict(source: Source, folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    idle: list[list[float]] = []
    busy: list[list[float]] = []
    body = json.dumps({"x": source.x[0][:1].tolist()}).encode()
    with mnemon_server(folder / "model") as server:
        server.start()
        connection = Connection(server.port)
        for _ in range(64):
            source.send(connection)
        server.wait_until_learned()
        latencies(server, body, 1, 50)
        for _ in range(rounds):
            server.wait_until_learned()
            idle.append(latencies(server, body, seconds, 50))
            with Feeding(server, source):
                time.sleep(0.5)
                busy.append(latencies(server, body, seconds, 50))
    quiet, loaded = (np.percentile(np.concatenate(each), [50, 99]) for each in (idle, busy))
    ratios = [float(np.percentile(b, 99) / np.percentile(i, 99)) for i, b in zip(idle, busy, strict=True)]
    print(
        f"predict    idle p50 {quiet[0]:.1f} ms, p99 {quiet[1]:.1f}; while learning p50 {loaded[0]:.1f}, p99 {loaded[1]:.1f}: "
        f"p99 × {loaded[1] / quiet[1]:.2f}; round by round × {quartiles(ratios)[1]:.2f}",
        flush=True,
    )
    return {"idle_ms": quiet.tolist(), "learning_ms": loaded.tolist(), "p99_ratios": ratios}


def learn(source: Source, folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    ours, theirs = [], []
    loop = OnlineClassifier(device="cpu")
    numbers = itertools.count()

    def chunk() -> None:
        parts = [next(numbers) % 64 for _ in range(4)]
        y = [f"class {c}" for part in parts for c in source.y[part]]
        loop.partial_fit(np.concatenate([source.x[part] for part in parts]), y)

    with mnemon_server(folder / "model") as server:
        server.start()
        with Feeding(server, source, 20_000):
            while server.status()["learned"] < 2000:
                time.sleep(0.1)
            while loop.__dict__.get("_model") is None or loop.n_seen_ < 2000:
                chunk()
            for _ in range(rounds):
                began, before = time.perf_counter(), server.status()["learned"]
                time.sleep(seconds)
                ours.append((server.status()["learned"] - before) / (time.perf_counter() - began))
                with server.paused():
                    began, seen = time.perf_counter(), loop.n_seen_
                    while time.perf_counter() < began + seconds:
                        chunk()
                    theirs.append((loop.n_seen_ - seen) / (time.perf_counter() - began))
    low, middle, high = quartiles([a / b for a, b in zip(ours, theirs, strict=True)])
    print(
        f"learn      {np.median(ours):,.0f} samples per second, partial_fit of 128 in a loop {np.median(theirs):,.0f}: "
        f"{middle:.0%} ({low:.0%} … {high:.0%})",
        flush=True,
    )
    return {"learned_per_second": ours, "loop_per_second": theirs}


def saved(server: Server) -> list[dict[str, Any]]:
    """The snapshots since its start."""
    blocks = server.get("/v1/models/model/events?follow=false").decode().split("\n\n")
    found = [block.partition("event: saved\ndata: ")[2] for block in blocks]
    return [json.loads(each) for each in found if each]


def recovery(source: Source, folder: Path, rounds: int) -> dict[str, Any]:
    """The worst moment is just before a snapshot: two of them tell when the third would come."""
    starts, recovered, replayed = [], [], []
    with mnemon_server(folder / "model") as server:
        server.start()
        with Feeding(server, source):
            time.sleep(3)
        server.wait_until_learned()
        server.end(signal.SIGTERM)
        for _ in range(rounds):
            starts.append(server.start())
            with Feeding(server, source, 4000):
                while len(found := saved(server)) < 2:
                    time.sleep(0.1)
                due = 2 * found[-1]["time"] - found[-2]["time"]
                time.sleep(max(due - 0.3 - time.time(), 0))
                replayed.append(server.status()["learned"] - saved(server)[-1]["learned"])
                server.end(signal.SIGKILL)
            recovered.append(server.start())
            server.wait_until_learned()
            server.end(signal.SIGTERM)
    more = max(b - a for a, b in zip(starts, recovered, strict=True))
    print(
        f"recovery   start {np.median(starts):.1f} s; after SIGKILL {np.median(recovered):.1f} s (worst {max(recovered):.1f}), "
        f"with {np.median(replayed):,.0f} samples learned again: at most start + {more:.1f} s",
        flush=True,
    )
    return {"start_seconds": starts, "recovery_seconds": recovered, "learned_again": replayed}


def flat(folder: Path, seed: int, samples: int, method: str) -> dict[str, Any]:
    source, marks = Source(seed, features=20), []
    print(f"flat       {method}, 20 numbers a sample\n           {'samples':>10} {'resident MiB':>13} {'disk MiB':>9}")
    with mnemon_server(folder / "model", "--method", method) as server:
        server.start()
        for mark in [samples * tenth // 10 for tenth in range(1, 11)]:

            def work(_: int, to: int = mark) -> None:
                connection = Connection(
                    server.port
                )  # the server closes one that says nothing while samples are learned
                while server.status()["acknowledged"] < to:
                    for _ in range(50):
                        while source.send(connection) == 503:
                            time.sleep(0.5)
                connection.close()

            in_threads(2, work)
            server.wait_until_learned()
            disk = sum(path.stat().st_size for path in (folder / "model").iterdir()) / 2**20
            marks.append((server.status()["learned"], server.resident_mib, disk))
            print(f"           {marks[-1][0]:10,} {marks[-1][1]:13.1f} {disk:9.1f}", flush=True)
    return {"method": method, "marks": marks}


def under_kills(server: Server, client: Callable[[int, threading.Event], None], kills: int, seed: int) -> None:
    """Clients that go on while the server is killed again and again."""
    chance, stop = random.Random(seed), threading.Event()
    server.start()
    clients = [threading.Thread(target=client, args=(number, stop), daemon=True) for number in range(4)]
    for each in clients:
        each.start()
    for _ in range(kills):
        time.sleep(chance.uniform(0.2, 2.0))
        server.end(signal.SIGKILL)
        server.start()
    time.sleep(1)
    stop.set()
    for each in clients:
        each.join()


def kills(folder: Path, seed: int, kills: int) -> dict[str, Any]:
    """One sample a request; a client sends the next one when it has an answer."""
    acknowledged: set[str] = set()
    with mnemon_server(folder / "model", "--backbone", "mlp:width=16", "--memory-size", "100") as server:

        def ours(number: int, stop: threading.Event) -> None:
            rng = np.random.default_rng(number)
            with Client(f"http://127.0.0.1:{server.port}", "model", token=TOKEN, patience=300) as client:
                for n in itertools.count():
                    if stop.is_set():
                        return
                    client.learn(rng.normal(size=(1, 5)), [f"class {n % 5}"], id=f"{number}-{n}")
                    acknowledged.add(f"{number}-{n}")

        under_kills(server, ours, kills, seed)
        server.wait_until_learned()
        server.end(signal.SIGTERM)
    found = OnlineClassifier.load(folder / "model").n_seen_
    print(
        f"kills      {kills} SIGKILLs: mnemon acknowledged {len(acknowledged):,} samples and has learned {found:,}: "
        f"lost {max(len(acknowledged) - found, 0)}, twice {max(found - len(acknowledged), 0)}",
        flush=True,
    )
    return {
        "kills": kills,
        "mnemon": {"acknowledged": len(acknowledged), "learned": found},
        "river": river(folder, seed, kills),
    }


def river(folder: Path, seed: int, kills: int) -> dict[str, int]:
    """Its label names a sample, so that the model's own counts of classes tell which ones it has."""
    import pickle

    acknowledged: set[str] = set()
    port, file = free_port(), folder / "river.pkl"
    server = Server([sys.executable, str(Path(__file__).with_name("river_server.py")), str(file), str(port)], port)

    def client(number: int, stop: threading.Event) -> None:
        rng, connection = np.random.default_rng(number), None
        for n in itertools.count():
            body = json.dumps({"x": dict(zip("abcde", rng.normal(size=5).tolist(), strict=True)), "y": f"{number}-{n}"})
            while True:
                if stop.is_set():
                    return
                try:
                    connection = connection or Connection(port)
                    if connection.post("/learn", "application/json", body.encode())[0] == 200:
                        acknowledged.add(f"{number}-{n}")
                        break
                except OSError:
                    connection = None
                    time.sleep(0.02)

    try:
        under_kills(server, client, kills, seed)
        server.end(signal.SIGINT)
    finally:
        server.end()
    counts = pickle.loads(file.read_bytes()).class_counts  # written by the server above
    lost, twice = len(acknowledged - counts.keys()), sum(n > 1 for n in counts.values())
    print(
        f"           River behind FastAPI acknowledged {len(acknowledged):,} samples: lost {lost:,}, twice {twice}",
        flush=True,
    )
    return {"acknowledged": len(acknowledged), "lost": lost, "twice": twice}


def main() -> None:
    parts = ("burst", "predict", "learn", "recovery", "flat", "kills")
    parser = options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--rounds", type=int, default=5, help="blocks of each side (default 5)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a block (default 6)")
    parser.add_argument("--requests", type=int, default=320, help="in a burst (default 320)")
    parser.add_argument("--samples", type=int, default=100_000, help="of flat (default 100,000)")
    parser.add_argument("--method", default="hybrid", help="of flat (default hybrid)")
    parser.add_argument("--kills", type=int, default=10, help="SIGKILLs of each server (default 10)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    source = Source(args.seed)
    calls: dict[str, Callable[[Path], dict[str, Any]]] = {
        "burst": lambda folder: burst(source, folder, args.rounds, args.requests),
        "predict": lambda folder: predict(source, folder, args.rounds, args.seconds),
        "learn": lambda folder: learn(source, folder, args.rounds, args.seconds),
        "recovery": lambda folder: recovery(source, folder, min(args.rounds, 3)),
        "flat": lambda folder: flat(folder, args.seed, args.samples, args.method),
        "kills": lambda folder: kills(folder, args.seed, args.kills),
    }
    results = {}
    for part in args.parts:
        with tempfile.TemporaryDirectory(prefix="mnemon-serve-", ignore_cleanup_errors=True) as folder:
            results[part] = calls[part](Path(folder))
    write(args.out, {"benchmark": "serve", **results})


if __name__ == "__main__":
    main()
