"""Tables and commands on stdout.

On a terminal they fit its width; COLUMNS, where it is set, is the width. Piped, tables fit 80 columns, as help does, and a
command or sentence is one line, however long: a script reads commands, a person reads tables. Nothing is ever cut off.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from mnemon.experiments.record import Record

WHAT = "what it is"  # the heading of a column that needs none beside its text
GAP = 2  # blanks between columns
MOST_LINES = 3  # of a row; a table with longer rows is printed as a list


def width() -> int | None:
    """The columns that commands and sentences have to fit; None: as wide as they need."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def table_width() -> int:
    """The columns that tables and help have to fit: 80 where they are piped, as tyro's boxes."""
    return shutil.get_terminal_size().columns


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], right: int | None = None) -> None:
    """Print a table, the columns from `right` on as numbers.

    Where it does not fit, text is wrapped in its column, and where that makes rows of many lines, each row becomes an entry
    of a list. All of it is text as it stands: names that people give may look like rich's markup.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    numbers = range(len(head) if right is None else right, len(head))
    console = Console(highlight=False, width=table_width())
    if widths := _widths(head, rows, numbers):
        made = _columns(head, rows, widths, numbers)
    else:
        made = _entries(head, rows, min(max(cell_len(row[0]) for row in rows), console.width // 2))
    with console.capture() as printed:
        console.print(*[Text(title, "bold")] * bool(title), made, sep="\n")
    print(*(line.rstrip() for line in printed.get().splitlines()), "", sep="\n")


def _widths(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: range) -> list[int] | None:
    """The widths of the columns; None where the table does not fit, or only with rows of many lines."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    columns = list(zip(head, *rows, strict=True))
    natural = [max(map(cell_len, column)) for column in columns]
    least = [  # the longest word; names and numbers are not broken
        max(map(cell_len, (*name.split(), *(cells if i == 0 or i in numbers else " ".join(cells).split()))), default=0)
        for i, (name, *cells) in enumerate(columns)
    ]
    console = Console(width=table_width())
    widths = _fit(natural, least, console.width - GAP * (len(head) - 1))
    cells = [(cell, n) for row in rows for cell, n in zip(row, widths or (), strict=bool(widths))]
    return widths if all(len(Text(cell).wrap(console, n)) <= MOST_LINES for cell, n in cells) else None


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], numbers: range) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for i, name in enumerate(head):
        justify: Literal["left", "right"] = "right" if i in numbers else "left"
        made.add_column(Text(name), justify=justify, width=widths[i], overflow="fold", header_style="dim")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def _entries(head: Sequence[str], rows: Sequence[Sequence[str]], indent: int) -> Table:
    """Each row as an entry: its first cell, and beside it the others with their headings."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    made.add_column(width=indent, overflow="fold")
    made.add_column(overflow="fold")
    for first, *others in rows:
        cells = [(name, cell) for name, cell in zip(head[1:], others, strict=True) if cell not in ("", "-")]
        texts = [Text(cell) for name, cell in cells if name == WHAT]
        rest = "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells if name != WHAT)
        made.add_row(Text(first), Text("\n").join([*texts, *[Text(rest, "dim")] * bool(rest)]))
    return made


def _fit(widths: Sequence[int], least: Sequence[int], limit: int) -> list[int] | None:
    """Take from the widest columns until all fit, and from none more than it can spare; None if they cannot fit."""
    fitted = list(widths)
    while sum(fitted) > limit:
        spare = [i for i in range(len(fitted)) if fitted[i] > least[i]]
        if not spare:
            return None
        fitted[max(spare, key=fitted.__getitem__)] -= 1
    return fitted


def sentences(lines: Sequence[str]) -> None:
    """Print lines of text, wrapped between words where they do not fit."""
    limit = width()
    for line in lines:
        wrapped = limit and textwrap.fill(line, limit, break_long_words=False, break_on_hyphens=False)
        print(wrapped or line)


def shell_commands(lines: Sequence[str]) -> None:
    """Print shell commands; those that do not fit are broken between options, as the shell reads them."""
    limit = width()
    for line in lines:
        if limit is None or len(line) <= limit or line.startswith("#"):
            print(line)
            continue
        options: list[str] = []  # each with its values, after the words before the first
        for word in map(shlex.quote, shlex.split(line)):
            options += [word] if word.startswith("--") or not options else [f"{options.pop()} {word}"]
        broken = options[:1]
        for option in options[1:]:
            fits = len(f"{broken[-1]} {option} \\") <= limit
            broken += [f"{broken.pop()} {option}" if fits else f"    {option}"]
        print(*broken, sep=" \\\n")


def results(found: Sequence[Record]) -> None:
    """Print the final table: a line for each method and classifier, means with their 95 % intervals."""
    from mnemon.experiments.summary import summarise

    title = "percent, mean ± half-width of the 95 % interval"
    head = ["method", "stream", "split", "runs", "Average Accuracy", "Average Forgetting", "s / run"]
    rows = [
        [s.name, s.stream, s.split, str(s.runs), s.accuracy, s.forgetting, f"{s.seconds:.1f}"] for s in summarise(found)
    ]
    right = 3
    if _widths(head, rows, range(right, len(head))) is None:  # what is the same in every row goes into the title
        for i in (2, 1):
            if len({row[i] for row in rows}) == 1:
                title = f"{head[i]} {rows[0][i]}; {title}"
                right -= 1
                for row in (head, *rows):
                    del row[i]
    table(title, head, rows, right=right)


def printable(value: object) -> str:
    """A name as one line that any terminal can show."""
    return "".join(c if c.isprintable() else "·" for c in str(value))


def count(n: int, thing: str) -> str:
    """How many, in words: 1 class, 2 classes, 1 row."""
    many = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{n:,} {thing if n == 1 else many}"
