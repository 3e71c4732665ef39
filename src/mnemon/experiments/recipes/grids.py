"""What `mnemon tune` tries: for each method and loss the values of each option; a candidate is one of each.

The paper: baselines η ∈ {0.05, 0.1, 0.15, 0.2}; its own method γ × η on finer and longer grids. To that we add the divisor
of Multi-Similarity, which the paper leaves open (docs/ambiguities.md). It prints no grid for what only one baseline has:
those are the values its authors searched or set. Options without a grid stay at the recipe of the cell.
"""

from __future__ import annotations

from typing import Any

from mnemon.learning import plugins
from mnemon.learning.losses import DIVISORS

Grid = dict[str, tuple[Any, ...]]

BASELINES = (0.05, 0.1, 0.15, 0.2)  # η
OURS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)  # η
GAMMA = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)

EDITS: Grid = {
    "lr": BASELINES,
    "edit_rate": (0.01, 0.05, 0.1, 0.5, 1.0, 5.0),  # α
    "edit_hold": (-0.01, 0.0, 0.001, 0.01, 0.1),  # β; GMED's text subtracts it, its code adds it: both signs
}

# of a loss, whatever the method
LOSSES: dict[str, Grid] = {
    "hybrid": {"gamma": GAMMA, "lr": OURS, "divisor": DIVISORS},
    "ms": {"lr": OURS, "divisor": DIVISORS},
    "pnca": {"lr": OURS},
    "hybrid-ace": {"lr": BASELINES, "divisor": DIVISORS},
    "cope": {"lr": (0.001, 0.005, 0.01, *BASELINES)},  # its loss is a sum over pairs, so larger: smaller η too
    "pcr": {"lr": (0.01, 0.02, *BASELINES)},
    "supcon": {"lr": (0.001, 0.002, 0.005, 0.01, 0.02, *BASELINES)},  # of the paper's the smallest was always the best
}

# of a method, with cross-entropy or without a loss
METHODS: dict[str, Grid] = {
    "gmed-er": EDITS,
    "gmed-mir": EDITS,
    "er-aml": {"lr": (0.01, 0.02, *BASELINES), "pair_weight": (0.35, 1.0)},  # γ; 0.35 takes its factor τ/0.07 away
    "slda": {"views": (1, 2)},
    "der++": {"lr": BASELINES, "logit_weight": (0.1, 0.2, 0.5)},  # a; b stays at 0.5
}


def grid(method: str, loss: str) -> Grid:
    """The options to be tried and their values; empty where there is nothing to search by itself."""
    known = plugins.known("method").get(method)
    usual: Grid = {"lr": BASELINES} if known is None or known.trains else {}
    return LOSSES.get(loss) or METHODS.get(method) or usual
