"""What every target of `mnemon reproduce` has: a plan, the making of what is missing, files, and blocks of documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mnemon import files
from mnemon.paper import drawing
from mnemon.paper.comparison import NOT_RUN
from mnemon.paper.plan import Maker, Scope, TargetPlan
from mnemon.paper.results import Absent, Results
from mnemon.render import markup
from mnemon.render.tables import Part, Table

Block = Callable[[Results, Path], str]  # results, folder of the document → Markdown


class Target(ABC):
    """One output of `mnemon reproduce`."""

    name: str
    named = True  # on the command line; one that is not is written when all of the paper's tables are

    @abstractmethod
    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        """What is there and what is missing; `device` is the name of the one that times would be measured on."""

    def make(self, plan: TargetPlan, out: Path, maker: Maker) -> None:
        """Make the measurements of the plan. Runs are made before, those of all targets together, since targets share them."""
        assert not plan.measurements, self.name

    @abstractmethod
    def write(self, results: Results) -> list[str]:
        """Write the files; a line on each."""

    def blocks(self) -> dict[str, Block]:
        """What documents can ask for, by the name they ask with."""
        return {}


class TableTarget(Target):
    """A table: OUT/tables/NAME.md and .tex."""

    @abstractmethod
    def table(self, results: Results) -> Table: ...

    @property
    def command(self) -> str:
        return f"mnemon reproduce {self.name}"

    def verdicts(self, results: Results) -> str:
        """How the table compares with the paper's, for the line on it."""
        return ""

    def markdown(self, table: Table) -> str:
        heading = f"{self.name.replace('table', 'Table ')}: " if self.name.startswith("table") else ""
        return f"# {heading}{table.title}\n\n{markup.markdown(table)}"

    def write(self, results: Results) -> list[str]:
        table, path = self.table(results), results.out / "tables" / f"{self.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, self.markdown(table).encode())
        files.write(path.with_suffix(".tex"), markup.latex(table, self.command).encode())
        return [f"{self.name}: {self.verdicts(results)}{path} and .tex"]

    def blocks(self) -> dict[str, Block]:
        return {self.name: lambda results, _: markup.markdown(compact(self.table(results)))}


class FigureTarget(Target):
    """Figures: OUT/figures/NAME.png and .svg of each."""

    captions: ClassVar[dict[str, str]]  # of each figure

    @abstractmethod
    def draw(self, figure: str, results: Results) -> Any:
        """The matplotlib figure. Raises `Absent` where the runs are missing."""

    def write(self, results: Results) -> list[str]:
        return [write_figure(results.out, name, partial(self.draw, name, results)) for name in self.captions]


def write_figure(out: Path, name: str, draw: Callable[[], Any]) -> str:
    """Write a figure, or remove one that was drawn from records that are gone."""
    path = out / "figures" / f"{name}.png"
    try:
        drawing.write(path, draw)
        return f"{name}: {path} and .svg"
    except Absent as why:
        for ending in (".png", ".svg"):
            path.with_suffix(ending).unlink(missing_ok=True)
        return f"{name}: not drawn, {why}"


def compact(table: Table) -> Table:
    """Without the rows that were not run at all; a note names them."""
    parts, notes = [], []
    for part in table.parts:
        ours_at = [place for place, head in enumerate(part.columns) if head.name == "ours"]
        run = [row for row in part.rows if not ours_at or any(row[place] != NOT_RUN for place in ours_at)]
        parts += [Part(part.columns, run)] if run else []
        if left_out := [row[0].removesuffix(" †") for row in part.rows if row not in run]:
            where = " and ".join(dict.fromkeys(head.over for head in part.columns if head.over))
            notes.append(f"{where}: {'every row' if not run else ', '.join(left_out)}")
    if not notes:
        return table
    return table._replace(parts=parts, notes=[*table.notes, f"Not run: {'; '.join(notes)}."])
