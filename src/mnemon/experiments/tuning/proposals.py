"""What to try next: Optuna's samplers, asked for a batch at a time.

Nothing is kept between two batches. Each is a function of the space, the seed and what the trials before it gave, so a search
that is started again proposes the same as long as its records are there, and needs no database.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mnemon.errors import MnemonError
from mnemon.experiments.tuning.space import Range, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

SAMPLERS = ("tpe", "random")


class Told(NamedTuple):
    """A trial that is over: its values and, after each of its seeds, the mean accuracy so far."""

    values: dict[str, Any]
    means: list[float]  # empty: it diverged
    pruned: bool  # or diverged


def sampler_version() -> str:
    """Optuna's version; refuses to begin without it."""
    try:
        import optuna
    except ImportError:
        raise MnemonError("--search tpe and random need Optuna: pip install 'mnemon[tune]'.") from None
    return str(optuna.__version__)


def propose(space: Space, sampler: str, seed: int, told: Sequence[Told], count: int) -> list[dict[str, Any]]:
    """The next `count` candidates after those told, which stand in the order in which they were proposed.

    TPE takes the ones proposed before in the same batch for bad ones ("constant liar"), so that a batch spreads out. A batch
    begins as a longer one would.
    """
    import optuna

    distributions = {name: _distribution(tried) for name, tried in space.items()}
    draws = int(np.random.SeedSequence([seed, len(told)]).generate_state(1)[0])
    with _silent():
        study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, draws))
        study.add_trials([_trial(each, distributions) for each in told])
        return [_rounded(space, study.ask(distributions).params) for _ in range(count)]


def _sampler(name: str, seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler, TPESampler

    return RandomSampler(seed=seed) if name == "random" else TPESampler(seed=seed, constant_liar=True)


def _distribution(tried: Range | tuple[Any, ...]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(tried, Range):
        return CategoricalDistribution(tried)
    if tried.whole:
        return IntDistribution(int(tried.low), int(tried.high), log=tried.log)
    return FloatDistribution(tried.low, tried.high, log=tried.log)


def _trial(told: Told, distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    """Of pruned trials TPE ranks those with more steps first, and one without a step, which diverged, last of all."""
    from optuna.trial import TrialState, create_trial

    return create_trial(
        state=TrialState.PRUNED if told.pruned else TrialState.COMPLETE,
        params=told.values,
        distributions=distributions,
        intermediate_values=dict(enumerate(told.means, 1)),
        value=None if told.pruned else told.means[-1],
    )


def _rounded(space: Space, values: dict[str, Any]) -> dict[str, Any]:
    """In the order of the space."""
    return {
        name: tried.rounded(values[name]) if isinstance(tried, Range) else values[name] for name, tried in space.items()
    }


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Within, Optuna prints no messages of the course of its work."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
