"""Tables 1 to 4: the paper's results, with ours beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnemon.paper import cells, comparison, numbers
from mnemon.paper.cells import Cell
from mnemon.paper.comparison import difference_text, legend, ours, theirs
from mnemon.paper.plan import Scope, TargetPlan, plan_cells
from mnemon.paper.results import CellRuns, Results
from mnemon.paper.targets.target import TableTarget
from mnemon.render import names
from mnemon.render.tables import Bold, Heading, Part, Table

TITLES = {
    1: "Average Accuracy on Split streams",
    2: "Average Forgetting on Split streams (lower is better)",
    3: "Average Accuracy by training loss and classifier, everything else as in ER",
    4: "Final accuracy on Smooth streams",
}


class ResultTable(TableTarget):
    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"table{number}"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        return plan_cells(self.name, cells.cells(self.number, scope.methods, scope.streams), results)

    def table(self, results: Results) -> Table:
        streams, side_by_side = cells.streams(self.number), 3 if self.number == 4 else 2
        groups = [streams[i : i + side_by_side] for i in range(0, len(streams), side_by_side)]
        parts = [self._part(results, group) for group in groups]
        return Table(self.name, TITLES[self.number], parts, self._notes(results))

    def verdicts(self, results: Results) -> str:
        """How ours compares with the paper's, in numbers of cells."""
        judged = self._judged(results)
        run = len(judged) - judged.count("")
        return f"{run} of the paper's {len(judged)} cells were run: {comparison.counts(judged)}; "

    def _judged(self, results: Results) -> list[str]:
        return [comparison.verdict(cell, results.of(cell)) for cell in cells.cells(self.number) if cell.paper]

    def _part(self, results: Results, streams: Sequence[str]) -> Part:
        rows = [row for row in cells.rows(self.number) if not (self.number == 2 and row.bound)]
        columns = [Heading("training + inference" if self.number == 3 else "method")]
        lines = [[row.label] for row in rows]
        for stream in streams:
            columns += [Heading(name, names.stream(stream)) for name in ("paper", "ours", "difference")]
            found = [(cell, results.of(cell)) for cell in (Cell(self.number, row, stream) for row in rows)]
            best = _best(found)
            for line, (cell, there) in zip(lines, found, strict=True):
                written = ours(there)
                if there.estimate and not cell.row.bound and names.fixed(there.estimate.mean) == best:
                    written = Bold(written)
                line += [theirs(cell), written, difference_text(cell, there)]
        return Part(columns, lines)

    def _notes(self, results: Results) -> list[str]:
        notes = [
            f"Percent, mean ± half-width of the 95 % interval over {numbers.RUNS} seeds (n = … where fewer). "
            f"{legend(self._judged(results))} Bold: the best of ours in a column"
            + ("." if self.number in (2, 3) else ", the i.i.d. bounds aside."),
            "† not in the paper."
            + (" * quoted by the paper from the method's own paper." if self.number in (1, 2) else ""),
        ]
        if self.number == 1:
            notes.append("i.i.d. runs know no tasks: both numbers of tasks share theirs.")
        if self.number == 3:
            notes.append(
                "NCM raw: class means of the features as they are. NCM normalised: of the features at unit length. The paper's "
                "row CE + NCM is read as raw, its other NCM rows as normalised."
            )
        return notes


def _best(found: Sequence[tuple[Cell, CellRuns]]) -> str | None:
    """The best mean of ours as it is written, the i.i.d. bounds aside; None where nothing is compared."""
    means = [there.estimate.mean for cell, there in found if there.estimate and not cell.row.bound]
    if len(means) < 2:
        return None
    choose: Callable[[list[float]], float] = min if found[0][0].table == 2 else max
    return names.fixed(choose(means))


TARGETS = tuple(ResultTable(number) for number in TITLES)
