"""A server in a process of its own, and connections to it that cost the machine as little as they can."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOKEN = "a-token-of-the-benchmark"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """`mnemon serve`, or any other command that listens on `port` and has /healthz."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command, self.port = command, port
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, as long as this is

    def start(self) -> float:
        """Start it and wait until it answers; seconds that took."""
        began = time.perf_counter()
        environment = os.environ | {"MNEMON_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(self._command, env=environment, stdout=subprocess.DEVNULL, stderr=self._said)
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=60).read()
                return time.perf_counter() - began
            if self._process.poll() is not None:
                self._said.seek(0)
                raise SystemExit(f"{' '.join(self._command)} did not start:\n{self._said.read().decode()}")
            time.sleep(0.01)

    def end(self, how: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within, it takes no processor."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @property
    def resident_mib(self) -> float:
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def get(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self.port}{path}"
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        found: bytes = urllib.request.urlopen(asked, timeout=120).read()
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/v1/models/model"))
        return found

    def metric(self, name: str) -> float:
        lines = self.get("/metrics").decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))

    def wait_until_learned(self) -> None:
        while (now := self.status())["published"] < now["acknowledged"]:
            time.sleep(0.05)


@contextlib.contextmanager
def mnemon_server(folder: Path, *options: str) -> Iterator[Server]:
    """Not started yet; it does not outlive the block."""
    port = free_port()
    command = [sys.executable, "-m", "mnemon", "serve", str(folder), "--port", str(port), "--device", "cpu"]
    found = Server([*command, "--rate", "1e9", *options], port)
    try:
        yield found
    finally:
        found.end()


class Connection:
    """Kept open. A request is written with one call; of an answer only what is needed is read."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def post(self, path: str, kind: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\n"
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"{head}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int(self._line().split()[1])
        length = 0
        while line := self._line().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return status, self._file.read(length)

    def _line(self) -> bytes:
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the server went away")
        return line

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def npy(x: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, x, allow_pickle=False)
    return stream.getvalue()


def in_threads(n: int, work: Any) -> None:
    """work(0) … work(n - 1) at once."""
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
