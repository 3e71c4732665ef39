"""Tables 5 and 6: the Split and the Smooth streams, the paper's and ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnemon import data
from mnemon.experiments import protocol
from mnemon.paper import cells, json_lines, numbers, plan, stream_facts
from mnemon.paper.comparison import NOTHING
from mnemon.paper.plan import Maker, Scope, TargetPlan
from mnemon.paper.results import Results
from mnemon.paper.targets.target import TableTarget
from mnemon.render import names
from mnemon.render.tables import Part, Table, headings


@dataclass(frozen=True)
class StreamTable(TableTarget):
    """A line of the paper's and a line of ours for each stream."""

    name: str
    title: str
    streams: tuple[str, ...]
    paper: dict[tuple[str, str], str]
    heads: dict[str, str]  # fact → its column's head
    ours_only: tuple[str, ...]  # facts that the paper's table does not have
    note: str

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        known = {line["stream"] for line in results.streams}
        missing = [stream for stream in self.streams if stream not in known]
        found = TargetPlan(self.name, "streams", len(self.streams), len(self.streams) - len(missing))
        found.measurements = [stream for stream in missing if plan.can_run(stream)]
        found.measured_as = ("stream", "to count")
        found.not_here = {protocol.parse(stream).dataset for stream in missing if stream not in found.measurements}
        return found

    def make(self, plan: TargetPlan, out: Path, maker: Maker) -> None:
        for stream in plan.measurements:
            data.load(protocol.parse(stream).dataset)  # downloaded where it is not here yet
            json_lines.add(out / stream_facts.FILE, stream_facts.stream_facts(stream), stream_facts.SAME)

    def table(self, results: Results) -> Table:
        here = {line["stream"]: line for line in results.streams}
        rows = []
        for stream in self.streams:
            first = [NOTHING if fact in self.ours_only else _figure(self.paper[stream, fact]) for fact in self.heads]
            second = ["not available", *[NOTHING] * (len(self.heads) - 1)]
            if stream in here:
                second = [_figure(here[stream][fact]) for fact in self.heads]
            rows += [[names.stream(stream), "paper", *first], ["", "ours", *second]]
        part = Part(headings("stream", "", *self.heads.values()), rows)
        return Table(self.name, self.title, [part], [self.note])


def _figure(value: int | str) -> str:
    written = str(value)
    return names.thousands(int(written)) if written.isdecimal() else written


TARGETS = (
    StreamTable(
        "table5",
        "The Split streams",
        streams=cells.SPLIT_STREAMS,
        paper=numbers.SPLIT_STREAMS,
        heads={
            **{fact: fact for fact in ("image", "classes", "train", "valid", "test", "tasks")},
            "per_task": "classes a task",
            "smallest": "smallest class",
            "largest": "largest",
            "memory": "memory",
        },
        ours_only=("smallest", "largest", "memory"),
        note="Ours: made for seeds 0 to 14 and counted; the paper does not print the last three columns, except the memory, in "
        "its text (500 on MNIST, 1000 elsewhere). MNIST stays at 28×28: an MLP gains nothing from padding.",
    ),
    StreamTable(
        "table6",
        "The Smooth streams",
        streams=cells.SMOOTH_STREAMS,
        paper=numbers.SMOOTH_STREAMS,
        heads={
            **{fact: fact for fact in ("classes", "train", "valid", "test")},
            "mean": "mean of a class",
            "smallest": "smallest class",
            "largest": "largest",
            "memory": "memory",
        },
        ours_only=("memory",),
        note="Smallest and largest class over the streams of seeds 0 to 14.",
    ),
)
