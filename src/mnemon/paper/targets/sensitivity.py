"""The target of the studies in paper/sensitivity.py: OUT/tables/sensitivity.md."""

from __future__ import annotations

from mnemon import files
from mnemon.paper import sensitivity
from mnemon.paper.plan import Scope, TargetPlan
from mnemon.paper.results import Results
from mnemon.paper.targets.target import Block, Target


class Sensitivity(Target):
    name = "sensitivity"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        streams = [stream for stream in sensitivity.STREAMS if not scope.streams or stream in scope.streams]
        there, of = sensitivity.count(results, streams)
        missing = sensitivity.missing(results, streams)
        wanted = (spec for spec in missing if not scope.methods or spec.method in scope.methods)
        return TargetPlan(self.name, "numbers", of, there).need(wanted)

    def write(self, results: Results) -> list[str]:
        path = results.out / "tables" / "sensitivity.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"# What depends on the paper's open choices\n\n{sensitivity.markdown(results)}"
        files.write(path, text.encode())
        return [f"{self.name}: {path}"]

    def blocks(self) -> dict[str, Block]:
        return {self.name: lambda results, _: sensitivity.markdown(results)}


TARGETS = (Sensitivity(),)
