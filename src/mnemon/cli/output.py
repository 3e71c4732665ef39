"""Tables and results on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnemon.experiments.records import Record


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], right: int | None = None) -> None:
    """A table on stdout, whole even where stdout is not a terminal. All of it is text as it stands: names that people give
    may look like rich's markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table(title=Text(title, "bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, name in enumerate(head):
        number = right is not None and i >= right
        table.add_column(
            Text(name), justify="right" if number else "left", no_wrap=number or i == 0, header_style="dim"
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def results(found: list[Record]) -> None:
    """The final table: a line for each method and classifier, means with their 95 % intervals."""
    from mnemon.experiments.summary import summarise

    rows = [
        (s.name, s.stream, s.split, str(s.runs), s.accuracy, s.forgetting, f"{s.seconds:.1f}") for s in summarise(found)
    ]
    table(
        "percent, mean ± half-width of the 95 % interval",
        ("method", "stream", "split", "runs", "Average Accuracy", "Average Forgetting", "s / run"),
        rows,
        right=3,
    )


def printable(value: object) -> str:
    """A name as one line that any terminal can show."""
    return "".join(c if c.isprintable() else "·" for c in str(value))
