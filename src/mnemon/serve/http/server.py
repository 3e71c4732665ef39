"""The server as a process: uvicorn around the app, stopped by a signal with everything saved."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn

from mnemon.errors import MnemonError
from mnemon.serve.http.app import app
from mnemon.serve.http.connection import LimitedConnection
from mnemon.serve.http.gate import RATE, Token, host_name
from mnemon.serve.http.models import Models

BACKLOG, CONNECTIONS = 128, 512  # connections not yet accepted; open connections
IDLE, PATIENCE = 30, 5  # seconds: until an idle connection is closed; for running requests at shutdown


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port."""
    if not 0 <= port <= 65535:  # some systems take the number modulo 65536
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


def check_tls(certificate: Path, key: Path) -> None:
    """Refuse a certificate or key that cannot be loaded."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise MnemonError(f"--tls-cert {certificate} and --tls-key {key} cannot be used ({error}).") from None


class Bound(NamedTuple):
    """The names of a listening socket."""

    hosts: tuple[str, ...]  # names allowed in the Host header, in addition to localhost
    shown: str  # the name in printed links
    only_here: bool  # whether only this computer can connect


def bound(at: socket.socket, host: str, allowed: Iterable[str]) -> Bound:
    """Return the names of the socket `at`. `host` is the --host option, `allowed` the --allow-host options.

    An unspecified address (0.0.0.0, ::) is no name that a client could use."""
    names = tuple(map(host_name, allowed))
    address = ipaddress.ip_address(at.getsockname()[0].partition("%")[0])
    if address.is_unspecified:
        return Bound(names, names[0] if names else "localhost", only_here=False)
    own = (host_name(host), host_name(str(address)))
    return Bound((*names, *own), own[0], only_here=address.is_loopback)


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
    """Serve until `stop()` returns a number other than 0; then close the models, each with a snapshot."""
    config = uvicorn.Config(
        app(models, tokens, hosts=hosts, rate=rate),
        http=LimitedConnection,
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
