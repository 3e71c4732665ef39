"""The server as a process: uvicorn around the app, stopped by a signal with everything saved."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import uvicorn

from mnemon.errors import MnemonError
from mnemon.serve.http.app import app
from mnemon.serve.http.gate import RATE, Token
from mnemon.serve.http.models import Models

BACKLOG, CONNECTIONS, IDLE, PATIENCE = 128, 512, 30, 5  # connections that wait, all of them; seconds


class _Server(uvicorn.Server):
    """Signals are the caller's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 stands for any free one."""
    if not 0 <= port <= 65535:  # some systems take it modulo that
        raise MnemonError(f"a port is a number from 0 to 65535, not {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        raise MnemonError(f"{host}:{port} cannot be listened on ({error}); give another --port.") from None
    return found


def serve(
    models: Models,
    at: socket.socket,
    tokens: Iterable[Token],
    *,
    hosts: Iterable[str] = (),
    rate: float = RATE,
    tls: tuple[Path, Path] | None = None,
    stop: Callable[[], int] = lambda: 0,
) -> None:
    """Serve until `stop()` is not 0; the models are closed then, each with a snapshot."""
    config = uvicorn.Config(
        app(models, tokens, hosts=hosts, rate=rate),
        http="httptools",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=PATIENCE,
        ssl_certfile=None if tls is None else tls[0],
        ssl_keyfile=None if tls is None else tls[1],
    )
    server = _Server(config)

    async def run() -> None:
        async def watch() -> None:
            while not stop():
                await asyncio.sleep(0.1)
            models.stopping = True
            server.should_exit = True

        watching = asyncio.create_task(watch())
        try:
            await server.serve([at])
        finally:
            watching.cancel()

    try:
        asyncio.run(run())
    finally:
        models.close()
