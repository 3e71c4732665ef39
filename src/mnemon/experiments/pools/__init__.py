"""Where jobs run, one small file each. Every Pool class in a module of this folder is found by its name: no registry."""

from __future__ import annotations

from functools import cache

from mnemon import discovery
from mnemon.errors import check_known
from mnemon.experiments.pools.pool import Pool
from mnemon.runtime.device import choose_device


@cache
def pools() -> dict[str, type[Pool]]:
    """All pools by name, in alphabetical order."""
    return discovery.classes(__name__, Pool)  # type: ignore[type-abstract]


def choose_pool(given: str | Pool | None, device: str) -> Pool:
    """The pool of a name, or a Pool as it is; None: a GPU is best used by one process, the cores of a CPU by several."""
    if isinstance(given, Pool):
        return given
    name = given or ("worker-processes" if choose_device(device).type == "cpu" else "this-process")
    check_known("pool", name, pools())
    return pools()[name]()
