"""`mnemon serve`: a model that learns while it serves."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.new_model import (
    NewBackbone,
    NewBatchSize,
    NewExam,
    NewHalfLife,
    NewMemorySize,
    NewMethod,
    NewRate,
    NewSeed,
    NewSize,
    NewViews,
    aging,
)
from mnemon.cli.options import Device, unset
from mnemon.errors import MnemonError

logger = logging.getLogger(__name__)
Place = Positional[
    Annotated[Path, arg(help="a model's folder, made if it is not there, or a folder of models", metavar="MODEL")]
]


def serve(
    model: Place,
    port: Annotated[int, arg(metavar="PORT", help="the port to listen on; 0: any free one")] = 8765,
    host: Annotated[
        str, arg(metavar="ADDRESS", help="the address to listen on; 127.0.0.1: this computer alone")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        unset("a file with tokens, one per line, readable by you alone", "FILE", "MNEMON_TOKEN, else one is made"),
    ] = None,
    allow_host: Annotated[
        tuple[str, ...], unset("names by which clients may call this server, in addition to localhost", "NAME …")
    ] = (),
    tls_cert: Annotated[Path | None, unset("a certificate, for HTTPS", "FILE")] = None,
    tls_key: Annotated[Path | None, unset("its key", "FILE")] = None,
    rate: Annotated[float, arg(metavar="NUMBER", help="requests per second that a token may send")] = 2000.0,
    recovery: Annotated[
        float,
        arg(metavar="SECONDS", help="how long a restart after a crash may take, the start of the program not counted"),
    ] = 10.0,
    method: NewMethod = None,
    backbone: NewBackbone = None,
    memory_size: NewMemorySize = None,
    batch_size: NewBatchSize = None,
    lr: NewRate = None,
    half_life: NewHalfLife = None,
    views: NewViews = None,
    exam: NewExam = None,
    seed: NewSeed = None,
    size: NewSize = None,
    device: Device = "auto",
) -> None:
    """Serve a model over HTTP while it learns: each acknowledged sample survives any crash and is learned exactly once.

    The address it prints opens a page on which the model is taught in the browser. Clients need a token: of --token-file or
    the variable MNEMON_TOKEN, else one is made and printed once. docs/serve.md has the interface, a client in Python and
    examples with curl. Needs the extra: pip install 'mnemon[serve]'.
    """
    check_installed()
    from mnemon.data.images import check_size
    from mnemon.runtime.signals import Stopped, watched
    from mnemon.serve.http import gate
    from mnemon.serve.http.models import Models
    from mnemon.serve.http.server import bound, check_tls, listening
    from mnemon.serve.http.server import serve as run

    check_size(size)
    if (tls_cert is None) != (tls_key is None):
        raise MnemonError("HTTPS needs both --tls-cert and --tls-key.")
    tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    if tls is not None:
        check_tls(*tls)
    if not rate > 0 or not recovery >= 0:
        raise MnemonError("--rate is above 0, and --recovery 0 or more.")
    made, tokens = None, []
    if token_file is not None:
        tokens = gate.read_tokens(token_file)
    elif given := os.environ.pop("MNEMON_TOKEN", None):
        tokens = [gate.token_of(given)]
    else:
        made = gate.new_token()
        tokens = [gate.token_of(made)]
    options = {
        "method": method,
        "backbone": backbone,
        "memory_size": memory_size,
        "batch_size": batch_size,
        "lr": lr,
        "half_life": aging(half_life),
        "views": views,
        "exam": exam,
        "seed": seed,
    }
    with watched() as stop, listening(host, port) as at:
        called = bound(at, host, allow_host)
        models = Models(model, options=options, size=size, device=device, recovery=recovery)
        scheme = "http" if tls_cert is None else "https"
        address = f"{scheme}://{called.shown}:{at.getsockname()[1]}"
        print(f"serving {', '.join(models.names())} at {address}", flush=True)
        if made is not None:
            print(f"token, shown once: {made}\nthe page: {address}/#token={made}", flush=True)
        if tls is None and not called.only_here:
            logger.warning(
                "others in the network can read the token and what is sent: --tls-cert and --tls-key encrypt it."
            )
        run(models, at, tokens, hosts=called.hosts, rate=rate, tls=tls, stop=stop)
        if models.failed is not None:
            raise MnemonError(models.failed)
        if stop():
            raise Stopped(stop())


def check_installed() -> None:
    """One sentence where the extra is missing."""
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import msgspec  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MnemonError(f"mnemon serve needs {error.name}: pip install 'mnemon[serve]'.") from None


COMMANDS = (Command("serve", serve),)
