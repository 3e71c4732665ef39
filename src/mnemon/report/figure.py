"""What a figure is made of."""

from __future__ import annotations

from typing import NamedTuple

from mnemon.report.groups import Group


class Panel(NamedTuple):
    """A plot under its heading; a group's panel shows the group's colour too."""

    heading: str
    svg: str
    group: Group | None = None


class Figure(NamedTuple):
    """A figure. `kind` says how the page lays it out; without panels the caption is why there is nothing to see."""

    kind: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = ()
    legend: tuple[tuple[Group, str], ...] = ()  # with a number for each
