"""A server under retrying clients, killed again and again: nothing acknowledged is lost, nothing is learned twice, and the
model is, byte for byte, the one that never crashed."""

import itertools
import json
import random
import signal
import threading
import time

import numpy as np
import pytest

from mnemon import Client, OnlineClassifier
from mnemon.errors import MnemonError
from mnemon.estimator.served import JOURNAL
from mnemon.serve.events import CUT, SAMPLES
from mnemon.serve.journal import Journal
from mnemon.serve.samples import decode
from processes import wait_for
from serving import SMALL, TOKEN, served

CLIENTS = 3


class History(threading.Thread):
    """One client: it sends requests of 1 to 5 samples, each until it is acknowledged, and asks for predictions in between.

    A sample says who sent it: its first features are the client, the request and the place in it."""

    def __init__(self, number, url):
        super().__init__(daemon=True)
        self.number, self.client = number, Client(url, "model", token=TOKEN, timeout=20, patience=120)
        self.acknowledged, self.learned, self.errors = {}, [], []
        self.stop = threading.Event()

    def run(self):
        rng = np.random.default_rng(self.number)
        try:
            for n in itertools.count():
                if self.stop.is_set():
                    return
                size = int(rng.integers(1, 6))
                y = rng.integers(0, min(2 + n // 10, 30), size)  # new classes come, fewer than the memory has rows
                x = np.concatenate(
                    [np.array([[self.number, n, k] for k in range(size)]), rng.normal(size=(size, 3))], 1
                )
                ack = self.client.learn(x.astype(np.float32), [f"class {c}" for c in y], id=f"{self.number}-{n}")
                self.acknowledged[n] = (ack["position"], size)
                if n % 3 == 0:
                    try:
                        self.learned.append(self.client.predict(x.tolist())["learned"])
                    except MnemonError as error:
                        if getattr(error, "status", 0) != 409:  # nothing was learned yet
                            raise
        except Exception as error:
            self.errors.append(error)


def check(histories, folder):
    """As Jepsen does: what the clients were told, against what is there in the end."""
    journal = Journal(folder / JOURNAL)
    events = list(journal.events(kind=SAMPLES))
    cuts = [json.loads(event.payload)["to"] for event in journal.events(kind=CUT)]
    journal.close()
    there, end = {}, 0
    for event in events:
        client, n, first = decode(event.payload).x[0][:3].astype(int).tolist()
        assert first == 0
        assert (client, n) not in there, "twice"
        there[client, n] = (event.position, event.samples)
        assert event.position == end + event.samples
        end = event.position
    for history in histories:
        assert not history.errors
        for n, told in history.acknowledged.items():
            assert there[history.number, n] == told
        positions = [position for position, _ in history.acknowledged.values()]
        assert positions == sorted(positions)
        assert history.learned == sorted(history.learned)
    assert cuts == sorted(cuts)
    assert cuts[-1] == end
    x = np.concatenate([decode(event.payload).x for event in events])
    y = [label for event in events for label in decode(event.payload).y]
    never_crashed = OnlineClassifier(**SMALL, device="cpu")
    for start, stop in itertools.pairwise([0, *cuts]):
        never_crashed.partial_fit(x[start:stop], y[start:stop])
    found = OnlineClassifier.load(folder)
    assert found.n_seen_ == end
    assert found.classes_.tolist() == never_crashed.classes_.tolist()
    for name, tensor in never_crashed._model.learner.state().items():
        assert found._model.learner.state()[name].numpy().tobytes() == tensor.numpy().tobytes(), name


def killed(folder, kills, least, longest=0.5):
    """Kill the server so often, and go on until so many requests were acknowledged."""
    chance = random.Random(kills)
    with served(folder) as server:
        server.start()
        histories = [History(number, server.url) for number in range(CLIENTS)]
        for history in histories:
            history.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, longest))
            server.end(signal.SIGKILL)
            server.start()
        wait_for(lambda: sum(len(h.acknowledged) for h in histories) >= least or any(h.errors for h in histories))
        for history in histories:
            history.stop.set()
        for history in histories:
            history.join(120)
            assert not history.is_alive()
            history.client.close()
        with Client(f"{server.url}/#token={TOKEN}") as client:
            client.predict([[0.0] * 6], after=client.status()["acknowledged"])
        server.end(signal.SIGTERM)
    check(histories, folder)


def test_ten_kills_lose_nothing_and_change_no_byte(tmp_path):
    killed(tmp_path / "model", 10, least=30)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    killed(tmp_path / "model", 200, least=1000, longest=1.5)
