"""The datasets, one file each. Every `Definition` in a module of this folder is found by its name: no registry."""

from __future__ import annotations

import math
from functools import cache

from mnemon import discovery
from mnemon.data.definition import Definition, Rules


@cache
def definitions() -> dict[str, Definition]:
    """All datasets by name, the smallest first."""
    things = [thing for module in discovery.modules(__name__) for thing in vars(module).values()]
    found = [thing for thing in things if isinstance(thing, Definition)]
    found.sort(key=lambda each: (each.train * math.prod(each.shape), each.class_count, each.name))
    return {each.name: each for each in found}


def rules(name: str) -> Rules:
    """What the paper fixes for a dataset; the defaults for an imported one."""
    known = definitions().get(name)
    return known.rules if known else Rules()


def title(name: str) -> str:
    """A dataset as people write it; an imported one by its name."""
    known = definitions().get(name)
    return known.title if known else name


def repair_hint(name: str) -> str:
    """The command that replaces a bad copy of a dataset."""
    known = definitions().get(name)
    return f"`mnemon data get {name}`" if known and known.sources else f"`mnemon data import {name} PATH`"
