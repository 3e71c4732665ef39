"""Learners whose samples get further columns: they become what they would be had the columns been there from the start.

Statistics exactly so. Of a network the memory and the scaling exactly so; the weights of a new column are 0, so that at this
moment it predicts what it predicted, and training moves them from there.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.learning.memory import EMPTY

AnyLearner = OnlineLearner | OnlineStatistics


def check_widens(backbone: Any) -> None:
    """Refuse a backbone that is made for samples of one width."""
    if not isinstance(backbone, str):
        raise MnemonError(
            "features='open' lets the width of the samples grow, and a network of your own or an embedding function has one "
            "width: take backbone 'auto', 'mlp' or 'identity'."
        )


def widened(made: AnyLearner, old: AnyLearner, past: list[float]) -> AnyLearner:
    """`made`, a fresh learner of wider samples, goes on where `old` is; all samples so far have the values `past` in the new
    columns."""
    state = old.state()
    made.grow(len(state["seen"]))
    new = torch.tensor(past, dtype=torch.float32, device=made.device)
    fresh = made.state()
    wide = {name: _wider(name, tensor, fresh[name], new, state) for name, tensor in state.items()}
    if old.method.edits_memory:  # its rows are scaled: a column that never varied is 0
        wide["memory.x"][:, -len(past) :] = 0.0
    made.restore(wide, steps=old.steps, samples=old.samples)
    return made


def _wider(name: str, old: Tensor, fresh: Tensor, past: Tensor, state: dict[str, Tensor]) -> Tensor:
    """A tensor of a learner's state with the new columns."""
    more = len(past)
    if name in ("memory.x", "waiting.x"):
        filled = state[name.replace(".x", ".y")] != EMPTY
        return torch.cat([old, (filled[:, None] * past).to(old)], 1)
    if name == "statistics.means":
        return torch.cat([old, ((state["statistics.counts"] > 0)[:, None] * past).to(old)], 1)
    if name == "statistics.scatter":  # the lower triangle row by row: rows of zeros come behind it
        d = state["statistics.means"].shape[1]
        return torch.cat([old, old.new_zeros((d + more) * (d + more + 1) // 2 - len(old))])
    if name == "apart.means" and old.shape[1] < fresh.shape[1]:  # features that are the samples themselves
        return torch.cat([old, past.to(old).expand(len(old), more)], 1)
    if name == "scaling.mean":
        return torch.cat([old, past.to(old)])
    if name in ("scaling.squares", "statistics.rounding"):
        return torch.cat([old, old.new_zeros(more)])
    if name.startswith(("statistics.", "apart.")) or old.shape == fresh.shape:
        return old
    # Weights: what is new reads nothing of the old, and the old nothing of what is new. Units that are new begin as fresh.
    wide = fresh.clone()
    if old.ndim > 1:
        wide[: old.shape[0], old.shape[1] :] = 0.0
    wide[tuple(slice(side) for side in old.shape)] = old
    return wide


def mapped(made: OnlineStatistics, old: OnlineStatistics, a: NDArray[Any], b: NDArray[Any]) -> OnlineStatistics:
    """`made`, a fresh learner, as if it had learned a·x + b where `old` learned x."""
    made.grow(old.net.capacity)
    own, its = made.state(), old.state()
    if old.statistics is None:
        raise MnemonError("a model that has learned nothing cannot be merged.")
    wide = {name: tensor if name.startswith("statistics.") else own[name] for name, tensor in its.items()}
    wide |= {name: its[name] for name in ("seen", "counts", "bad_step")}
    old.statistics.grow(old.net.capacity)
    sums = old.statistics.mapped(torch.from_numpy(a), torch.from_numpy(b))
    wide |= {f"statistics.{name}": tensor for name, tensor in sums.state(len(its["statistics.counts"])).items()}
    made.restore(wide, steps=old.steps, samples=old.samples)
    return made
