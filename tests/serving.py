"""Servers for tests: what they are made with, and one that is killed and started again and again.

A process imports everything once and forks a server whenever it is told to: starting one takes no time then.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np

from mnemon.errors import MnemonError
from processes import alive, send, wait_for

TOKEN = "a-token-of-the-tests"
SMALL = {"backbone": "mlp:width=16", "memory_size": 40}

FORGETS = {"method": "fine-tune", "backbone": "mlp:width=16", "lr": 0.2}  # it replays nothing


def taught_in_turn(learn, rounds=12):
    """Teach two classes, then two others alone; `learn(x, y)` returns when it is published. A class has ten samples of each
    round, of which one is held out of learning."""
    rng = np.random.default_rng(0)
    for labels, middle in ((("a", "b"), 0.0), (("c", "d"), 5.0)):
        for _ in range(rounds):
            y = np.arange(20) % 2
            x = np.where(y[:, None] == 0, [0.0, 3.0], [3.0, 0.0]) + middle + 0.3 * rng.normal(size=(20, 2))
            learn(x.tolist(), [labels[c] for c in y])


FORKS = """
import json, os, sys
from pathlib import Path
from mnemon.runtime.signals import watched
from mnemon.serve import schedule
from mnemon.serve.http import gate
from mnemon.serve.journal import Journal
from mnemon.serve.http.models import Models
from mnemon.serve.http.server import listening, serve

told = json.loads(sys.argv[1])
schedule.SAVE_SHARE = told["save_share"]
if told["whole_journal"]:
    Journal.prune = lambda self, seq: None
pid = 0
for line in sys.stdin:
    if pid:
        os.waitpid(pid, 0)  # its port is free then
    pid = os.fork()
    if pid == 0:
        with watched() as stop, listening("127.0.0.1", told["port"]) as at:
            models = Models(Path(told["folder"]), options=told["options"], device="cpu", recovery=told["recovery"])
            serve(models, at, [gate.token_of(told["token"])], rate=1e9, stop=stop)
        os._exit(0)
    print(pid, flush=True)
"""


class Served:
    """A server that may die."""

    def __init__(self, process, port):
        self._process, self.port, self.pid = process, port, None
        self.url = f"http://127.0.0.1:{port}"

    def start(self):
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        self.pid = int(self._process.stdout.readline())
        wait_for(lambda: self.is_up() or not alive(self.pid))
        assert alive(self.pid), "the server did not start"

    def is_up(self):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{self.url}/healthz", timeout=10).read()
            return True
        return False

    def end(self, how=signal.SIGKILL):
        if self.pid is not None:
            send(self.pid, how)
            wait_for(lambda: not alive(self.pid))


def free_port(listening):
    """One that no outgoing connection is given while the server is down: below the range these are taken from."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with contextlib.suppress(MnemonError), listening("127.0.0.1", port):
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def served(folder: Path, **more):
    """A `Served` that is not started yet, and does not outlive the block."""
    from mnemon.serve.http.server import listening

    port = free_port(listening)
    told = {"folder": str(folder), "port": port, "token": TOKEN, "options": SMALL, "recovery": 0.2, "save_share": 0.5}
    told |= {"whole_journal": True} | more
    command = [sys.executable, "-c", FORKS, json.dumps(told)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        found = Served(process, port)
        try:
            yield found
        finally:
            found.end()
            process.stdin.close()
