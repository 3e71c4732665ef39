"""Table 7: the hyper-parameters of the paper's method, the paper's and those our runs are made with now."""

from __future__ import annotations

from mnemon.experiments.spec import Spec
from mnemon.paper import numbers
from mnemon.paper.plan import Scope, TargetPlan
from mnemon.paper.results import Results
from mnemon.paper.targets.target import TableTarget
from mnemon.render import names
from mnemon.render.tables import Heading, Part, Table

STREAMS = tuple(dict.fromkeys(stream for stream, _ in numbers.CHOSEN))


class Hyperparameters(TableTarget):
    name = "table7"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        return TargetPlan(self.name, "streams", len(STREAMS), len(STREAMS))

    def table(self, results: Results) -> Table:
        rows = []
        for stream in STREAMS:
            now = Spec("hybrid", stream).choice().options()
            pairs = [(numbers.CHOSEN[stream, key], now[key]) for key in ("gamma", "lr")]
            rows.append([names.stream(stream), *(names.number(v) for pair in pairs for v in pair), str(now["divisor"])])
        both = [Heading(whose, symbol) for symbol in ("γ", "η") for whose in ("paper", "ours")]
        columns = [Heading("stream"), *both, Heading("divisor of MS")]
        notes = ["Split CIFAR-100 and miniImageNet: for both numbers of tasks. The paper does not name the divisor."]
        title = "Weight γ of PNCA and learning rate η of the paper's method"
        return Table(self.name, title, [Part(columns, rows)], notes)


TARGETS = (Hyperparameters(),)
