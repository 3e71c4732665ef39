"""A Ray cluster: the one that RAY_ADDRESS names, or one of this machine that begins and ends with the command.

Ray sends pickles between its machines, which can run any code: a cluster is trusted as a shell on its machines is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError

logger = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
# Nothing is sent home; tasks without a GPU see none, whatever Ray's default is; runs have the priority of the command, as
# worker processes have it. By default Ray's have the lowest but four, and stand still while others use the cores.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_worker_niceness": "0",
}
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MnemonError("--on ray needs the extra: pip install 'mnemon[ray]'.") from None
    return ray


def is_remote() -> bool:
    """Whether the cluster may have other machines than this one."""
    return bool(_address()) or import_ray().is_initialized()


def _address() -> str:
    """Of the cluster to join; empty: one of our own is started."""
    address = os.environ.get("RAY_ADDRESS", "")
    return "" if address == "local" else address


@contextlib.contextmanager
def connected() -> Iterator[Any]:
    """Within, this process is a driver of the cluster; yields the module `ray`. A connection that the program has made
    already is used, and left as it is."""
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = _address()
    if "://" in address:
        raise MnemonError(
            f"RAY_ADDRESS is {address}, Ray's client protocol, which cannot stream results; start the command on a machine "
            "of the cluster, with RAY_ADDRESS=HOST:PORT."
        )
    with contextlib.ExitStack() as stack:
        if address:
            _answers(address)
        else:
            stack.enter_context(_environment())
        stack.enter_context(_quiet(ray))
        try:
            with _handlers_kept():
                _connect(ray, address)
            yield ray
        finally:
            with _handlers_kept():
                ray.shutdown()


def _answers(address: str) -> None:
    """Refuse an address at which nothing answers; Ray would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():  # "auto": Ray looks for a cluster of this machine
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        raise MnemonError(
            f"no Ray cluster answers at RAY_ADDRESS={address} ({error.strerror or error}); start one with `ray start --head`."
        ) from None


def _connect(ray: Any, address: str) -> None:
    own = {} if address else {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster at {address} cannot be joined" if address else "no Ray cluster can be started here"
        why = " ".join(str(error).split())
        raise MnemonError(f"{where} ({why[:300]}).") from None


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Within, what a cluster of our own is started with; Ray asks for a token by itself, unless the user says otherwise."""
    if not any(name in os.environ for name in AUTHENTICATION):
        _private_token(Path.home() / ".ray" / "auth_token")
    ours = {*ENVIRONMENT, *AUTHENTICATION} - os.environ.keys()
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name in ours})
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _private_token(path: Path) -> None:
    """Make the token where Ray looks for it. Ray would make it readable for all."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            logger.warning(f"{path} opens your Ray clusters, and other users can read it; chmod 600 {path}")
        return
    except OSError as error:
        raise MnemonError(f"the token for Ray cannot be written to {path} ({error.strerror}).") from None
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32))


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; afterwards the handlers are as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread: nothing was taken
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Ray prints the log of a raylet that died on stdout, where our tables are. We say ourselves what became of the runs."""
    worker = ray._private.worker
    usual = getattr(worker, "print_to_stdstream", None)
    if usual is None:  # another version: it prints
        yield
        return
    worker.print_to_stdstream = lambda data, *_, **__: logger.debug("\n".join(map(str, data.get("lines", ()))))
    try:
        yield
    finally:
        worker.print_to_stdstream = usual


def mismatch(driver: dict[str, str], here: dict[str, str]) -> str | None:
    """A sentence if this machine has other versions of something than the driver. Builds of a version may differ: a driver
    without a GPU has torch 2.13.0+cpu, its machines 2.13.0+cu130."""
    others = [
        f"{name} {here.get(name)} instead of {value}"
        for name, value in driver.items()
        if here.get(name, "").partition("+")[0] != value.partition("+")[0]
    ]
    if not others:
        return None
    return (
        f"the machine {platform.node()} of the Ray cluster has {', '.join(others)}; install the same versions on all."
    )


def node_died(ray: Any, error: BaseException) -> bool:
    """Whether a task ended because its process or machine did, or what it returned was lost with them."""
    return isinstance(error, ray.exceptions.RayError) and not isinstance(error, ray.exceptions.RayTaskError)


def explained(error: BaseException) -> BaseException:
    """A task that could not be begun, as a sentence; other errors as they are."""
    if "failed to import" in str(error) or isinstance(getattr(error, "cause", None), ImportError):
        last = str(error).strip().splitlines()[-1]
        return MnemonError(
            f"a machine of the Ray cluster cannot import mnemon ({last[:200]}); install the version of this machine there."
        )
    return error
