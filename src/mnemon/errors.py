"""The one error type of mnemon: a sentence for the person who asked, with nothing changed behind it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MnemonError(ValueError):
    """Bad input or a broken file. The command line prints the sentence and exits with code 2."""


class Diverged(MnemonError):
    """A loss was not finite."""


def unknown(kind: str, name: str, known: Iterable[str]) -> MnemonError:
    """The error for an unknown name, with the nearest known one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)  # from Python it may be anything
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}."
    return MnemonError(f"unknown {kind} {name!r}; {hint}")


def check_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not among those known."""
    if name not in known:
        raise unknown(kind, name, known)
