"""The claims of the paper's text as a target: written whenever all tables are."""

from __future__ import annotations

from mnemon.paper.claims.entries import CLAIMS, check
from mnemon.paper.plan import Scope, TargetPlan
from mnemon.paper.results import Results
from mnemon.paper.targets.target import TableTarget
from mnemon.render.tables import Table


class Claims(TableTarget):
    name = "claims"
    named = False

    @property
    def command(self) -> str:
        return "mnemon reproduce all"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        """What the claims need is planned by the tables and figures they are about."""
        return TargetPlan(self.name, "claims", len(CLAIMS), len(CLAIMS))

    def table(self, results: Results) -> Table:
        return check(results)


TARGETS = (Claims(),)
