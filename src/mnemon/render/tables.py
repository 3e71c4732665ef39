"""A table of texts; `markup` writes it as Markdown and LaTeX."""

from __future__ import annotations

from typing import NamedTuple


class Bold(str):
    """A text that stands out."""


class Column(NamedTuple):
    over: str  # the heading that neighbours may share
    name: str


class Part(NamedTuple):
    """One grid; the paper's wide tables are cut into several."""

    columns: list[Column]
    rows: list[list[str]]


class Table(NamedTuple):
    name: str
    title: str
    parts: list[Part]
    notes: list[str]
