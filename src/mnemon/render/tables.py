"""A table of texts; `markup` writes it as Markdown and LaTeX."""

from __future__ import annotations

from typing import NamedTuple


class Bold(str):
    """A text that stands out."""


class Heading(NamedTuple):
    """The head of a column."""

    name: str
    over: str = ""  # the heading above it, which neighbours may share


def headings(*columns: str) -> list[Heading]:
    return [Heading(name) for name in columns]


class Part(NamedTuple):
    """One grid; the paper's wide tables are cut into several."""

    columns: list[Heading]
    rows: list[list[str]]


class Table(NamedTuple):
    name: str
    title: str
    parts: list[Part]
    notes: list[str]
