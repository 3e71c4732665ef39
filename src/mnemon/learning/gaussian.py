"""The streaming Gaussian classifier: p(f | c) = N(μ_c, Σ) with one covariance for all classes.

Its state is a set of sufficient statistics, so nothing is forgotten and the order of the stream does not matter:

    n_c   samples of class c
    μ_c   their mean
    W     Σ_c Σ_{i in c} (f_i − μ_c)(f_i − μ_c)ᵀ, the scatter within classes

Two states merge by addition, and a sample is removed by subtraction. W is updated in centred form (Chan et al.), never as
a difference of two large sums, so float32 is enough to store it: `tests/learning/test_gaussian.py` states the tolerances.

The paper's classifier is the case Σ = I.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.learning.discriminant import Discriminant, nearest_mean, solved
from mnemon.runtime.precision import full_float32

# Of a feature's scatter: if a removal leaves less than nothing by more than this, it is not rounding …
IMPOSSIBLE = 1e-2
# … for each sample ever added, parts of its square (scatter) and of its size (mean) more
PER_SAMPLE = (1e-3, 1e-6)
MOST_CHECKED = 4096  # features whose covariances are looked at after a removal; of more only the variances
CHUNK = 4096  # samples added at once: bounds the copies
SHRINK = ("identity", "diagonal")  # what the covariance is drawn towards
ROUNDING = 3e-7  # of its mean: a feature that deviates by less is constant, as far as float32 can tell
LARGEST_FLOOR = 0.1  # of the variance over all samples: a larger λ shrinks no further what tells classes apart
LEFT = 1e-5  # of its mean and deviation: what remains of a feature below this, once samples were removed, is rounding


class NeverLearned(MnemonError):
    """Samples that are to be removed cannot all have been learned."""

    def __init__(self, why: str) -> None:
        super().__init__(f"these samples cannot all have been learned under these labels: {why}")


class Moments(NamedTuple):
    """Of some samples, by class."""

    classes: Tensor  # [c], those that are there
    counts: Tensor  # [c], float64
    means: Tensor  # [c, D], float64
    rows: Tensor  # [n, D]: the samples minus the mean of their class; rowsᵀrows is their scatter


class Gaussian:
    """Counts, means and within-class scatter of `classes` classes over `features` features.

    `half_life`: after so many further samples of its class a sample counts half. A class that is not shown does not fade.
    """

    _shared = False  # whether a snapshot has the same tensors, so that they must be copied before they change

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        half_life: float | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if half_life is not None and not half_life > 0:
            raise MnemonError(f"half_life is a number of samples above 0, not {half_life}.")
        self.half_life = half_life
        self.counts = torch.zeros(classes, dtype=torch.float64, device=device)
        self.means = torch.zeros(classes, features, dtype=dtype, device=device)
        self.scatter = torch.zeros(features, features, dtype=dtype, device=device)
        self.weight = torch.zeros((), dtype=torch.float64, device=device)  # of the samples in the scatter
        # what removals left uncertain of each feature
        self.rounding = torch.zeros(features, dtype=dtype, device=device)

    @property
    def features(self) -> int:
        return self.means.shape[1]

    def snapshot(self) -> Gaussian:
        """The statistics as they are now. No number is copied until one of the two changes: the scatter has D² of them."""
        twin = copy.copy(self)
        self._shared = twin._shared = True
        return twin

    def _own(self) -> None:
        """Have tensors that no snapshot shares, before they are changed in place."""
        if self._shared:
            self.counts, self.means, self.scatter = self.counts.clone(), self.means.clone(), self.scatter.clone()
            self.weight, self.rounding = self.weight.clone(), self.rounding.clone()
            self._shared = False

    def grow(self, classes: int) -> None:
        """Hold room for at least `classes` classes."""
        more = classes - len(self.counts)
        if more > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(more)])
            self.means = torch.cat([self.means, self.means.new_zeros(more, self.features)])

    def add(self, f: Tensor, y: Tensor) -> None:
        """Learn samples: features f [n, D] of the classes y [n]. The result does not depend on how they are cut into calls."""
        self._own()
        for part, classes in zip(torch.split(f, CHUNK), torch.split(y, CHUNK), strict=True):
            if self.half_life is None:
                self._merge(_moments(part.to(self.means.dtype), classes))
            else:
                self._add_aging(part, classes)

    def remove(self, f: Tensor, y: Tensor, ever: float = 0.0) -> None:
        """Take samples back that were added: afterwards the statistics are those of the others.

        Sums do not know what they are of. An error says so where these samples cannot all have been among them; if it comes,
        the statistics are of no use any more, so they are to be a copy. `ever`: samples that were ever added, removed ones
        too, whose rounding is still there.
        """
        if self.half_life is not None:
            raise MnemonError("samples cannot be taken back exactly while older ones fade (half_life).")
        gone = _moments(f.to(self.means.dtype), y)
        c = gone.classes
        n = self.counts[c]
        if (gone.counts > n).any():
            raise MnemonError("more samples of a class are to be removed than were learned.")
        self._own()
        left = n - gone.counts
        centre, total = self.over_all()
        self.rounding = torch.maximum(self.rounding, (LEFT * (centre.abs() + total.sqrt())).to(self.rounding.dtype))
        gap = gone.means - self.means[c].double()  # [c, D]
        size, ever = self.rounding.double() / LEFT, max(ever, float(self.weight))
        scatter, mean = (part * ever for part in PER_SAMPLE)
        if bool((gap[left == 0].abs() > (IMPOSSIBLE + mean) * size).any()):
            raise NeverLearned("all samples of a class are given, but their mean is not the one that was learned.")
        most = self.scatter.diagonal().double().clamp(min=0) + scatter / IMPOSSIBLE * size.square()
        # μ' = μ − n_b/n' · (m_b − μ); W' = W − S_b − n_b·n/n' · (m_b − μ)(m_b − μ)ᵀ
        share = torch.where(left > 0, gone.counts / left.clamp(min=1), 0.0)
        lost = (share * n).sqrt()[:, None] * gap
        self.means[c] -= (share[:, None] * gap).to(self.means.dtype)
        self.means[c[left == 0]] = 0.0
        self._add_rows(torch.cat([gone.rows, lost.to(gone.rows.dtype)]), sign=-1)
        self.counts[c] = left
        self.weight -= gone.counts.sum()
        single = bool((self.counts <= 1).all() & (self.weight == self.counts.sum()))
        self._check_left(most, nothing=single)
        if single:
            self.scatter.zero_()  # no class has two samples: what is left is rounding

    def _check_left(self, most: Tensor, *, nothing: bool) -> None:
        """Refuse a scatter that no samples have, after one whose diagonal was `most` [D]; `nothing`: none should be left."""
        left = self.scatter.diagonal().double()
        wrong = (left < -IMPOSSIBLE * most) | (nothing & (left > IMPOSSIBLE * most))
        if not bool(wrong.any()) and not nothing and len(left) <= MOST_CHECKED:
            scale = torch.where(most > 0, 1 / most.clamp(min=1e-300).sqrt(), 0.0)
            correlation = self.scatter.double() * scale * scale[:, None]
            correlation.diagonal().add_(IMPOSSIBLE)
            wrong = torch.linalg.cholesky_ex(correlation).info > 0
        if bool(wrong.any()):
            raise NeverLearned("without them the variation within classes would be less than nothing.")

    def merge(self, other: Gaussian, classes: Tensor | None = None) -> None:
        """Take in what another learned on other samples; classes[c]: this one's index of the other's class c (None: the
        same)."""
        if other.features != self.features:
            raise MnemonError(f"{other.features} features cannot be merged with {self.features}.")
        if self.half_life is not None or other.half_life is not None:
            raise MnemonError("statistics that fade (half_life) cannot be merged: their samples have no common order.")
        if classes is None:
            classes = torch.arange(len(other.counts), device=self.counts.device)
        self._own()
        self.grow(int(classes.max()) + 1 if len(classes) else 0)
        there = other.counts.to(self.counts.device) > 0
        means = other.means.to(self.means.device)[there].double()
        none = self.means.new_zeros(0, self.features)
        counts = other.counts.to(self.counts)[there]
        self._merge(Moments(classes[there], counts, means, none))
        self.scatter += other.scatter.to(self.scatter)
        self.weight += other.weight.to(self.weight) - counts.sum()  # what classes it forgot left in its covariance
        self.rounding = torch.maximum(self.rounding, other.rounding.to(self.rounding))

    def mapped(self, a: Tensor, b: Tensor) -> Gaussian:
        """The statistics that A·f + b would have, of the same samples; A [E, D], b [E]."""
        a, b = a.to(self.counts), b.to(self.counts)
        made = Gaussian(
            len(a), len(self.counts), half_life=self.half_life, device=self.counts.device, dtype=self.means.dtype
        )
        made.counts.copy_(self.counts)
        made.means.copy_((self.counts > 0)[:, None] * (self.means.double() @ a.T + b))
        made.scatter.copy_(a @ self.scatter.double() @ a.T)
        made.weight.copy_(self.weight)
        made.rounding.copy_(a.abs() @ self.rounding.double())
        return made

    def forget(self, c: int) -> None:
        """Remove a class's count and mean: it is never predicted again. What its samples gave to the shared covariance stays;
        `remove` takes that back too, where the samples are at hand."""
        self._own()
        self.counts[c] = 0.0
        self.means[c] = 0.0

    def discount(self, c: int, to: float = 1.0) -> None:
        """Let all samples of a class so far count like `to` samples together: those that come next soon outweigh them. W
        shrinks with the weight, so the covariance stays as it is."""
        lost = (self.counts[c] - to).clamp(min=0)
        self._own()
        self.scatter.mul_((1 - lost / self.weight.clamp(min=1)).clamp(min=0).to(self.scatter.dtype))
        self.weight -= lost
        self.counts[c] -= lost

    def join(self, a: int, b: int) -> None:
        """Make one class, a, of the classes a and b: afterwards the statistics are those of samples that were all learned as
        a, and b has none."""
        if self.half_life is not None:
            raise MnemonError("classes cannot be joined exactly while older samples fade (half_life).")
        self._own()
        self.weight -= self.counts[b]  # they are in it already
        if self.counts[b] > 0:
            moments = Moments(torch.tensor([a]), self.counts[[b]], self.means[[b]].double(), self.means[:0])
            self._merge(moments._replace(classes=moments.classes.to(self.counts.device)))
        self.forget(b)

    def regroup(self, source: Tensor, used: int) -> None:
        """Give class i what class source[i] has; the others of the first `used` ones have nothing afterwards."""
        self._own()
        for table in (self.counts, self.means):
            table[:used] = torch.cat([table[source], torch.zeros_like(table[: used - len(source)])])

    def covariance(self) -> Tensor:
        """Σ_w = W / n [D, D], float64."""
        return self.scatter.double() / self.weight.clamp(min=1)

    def over_all(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of each feature over the samples of all classes [D], [D], float64."""
        within = self.scatter.diagonal().double().clamp(min=0) / self.weight.clamp(min=1)  # less than 0 is rounding
        share, means = self.counts / self.counts.sum().clamp(min=1), self.means.double()
        centre = share @ means
        return centre, within + share @ (means - centre).square()

    def nearest_mean(self) -> Discriminant:
        """The classifier with Σ = I: the paper's."""
        return nearest_mean(self.counts, self.means)

    def discriminant(self, lam: float, shrink: str = "identity") -> Discriminant:
        """The classifier with Σ = Σ_w + λ·tr(Σ_w)/D·I, or with the diagonal of Σ_w in place of the identity, which does not
        depend on the units of the features; one Cholesky decomposition in float64, of the lower triangle."""
        if shrink == "diagonal":
            return self._unit_free(lam)
        sigma = self.covariance()
        trace = sigma.diagonal().mean()
        # Before any class has two different samples Σ_w is 0, or what removals left of it: then the identity takes its place,
        # which is NCM.
        ridge = torch.where(trace > self.rounding.double().square().mean(), lam * trace, 1.0)
        sigma.diagonal().add_(ridge)
        means = self.means.double()
        weight = solved(sigma, means, lam, removed=self._removed)
        return Discriminant(weight, self._bias(weight, means))

    def _unit_free(self, lam: float) -> Discriminant:
        """Σ = Σ_w + λ·diag(Σ_w), in which the variance of a feature is at least λ times its variance over all samples (λ up to
        a tenth): one that is constant within classes tells them apart by at most 1/√λ deviations (√10 from there on). One
        that is constant over all tells nothing.

        Solved in units of Σ's own deviations, where no feature is larger than another.
        """
        sigma, means = self.covariance(), self.means.double()
        within = sigma.diagonal().clamp(min=0)
        centre, total = self.over_all()
        uncertain = self.rounding.double()
        varies = total > torch.maximum(ROUNDING * centre.abs(), uncertain).square()
        known = within > uncertain.square()  # within classes; where nothing is, the variance over all is what there is
        within = within * known
        sigma.mul_(known[:, None]).mul_(known)
        unit = torch.where(varies, torch.maximum((1 + lam) * within, min(lam, LARGEST_FLOOR) * total).sqrt(), 1.0)
        sigma.div_(unit[:, None]).div_(unit).mul_(varies[:, None]).mul_(varies)
        sigma.diagonal().fill_(1.0)
        away = (means - centre) / unit * varies
        weight = solved(sigma, away, lam, removed=self._removed)  # of the features minus `centre`, in units of `unit`
        weight = weight / unit
        # The centre is common to all classes, so it drops out of the softmax; it stays in the bias.
        return Discriminant(weight, self._bias(weight, means - centre) - weight @ centre)

    @property
    def _removed(self) -> bool:
        """Whether samples were taken back, so that Σ_w holds the rounding of a difference."""
        return bool(self.rounding.any())

    def _bias(self, weight: Tensor, means: Tensor) -> Tensor:
        """−½ μ_cᵀΣ⁻¹μ_c [C]; a class without samples cannot be predicted."""
        return torch.where(self.counts > 0, -0.5 * (weight * means).sum(1), -torch.inf)

    def state(self, classes: int | None = None) -> dict[str, Tensor]:
        """All tensors that change, of the first `classes` classes. W is symmetric: of it the lower triangle, row by row,
        D(D + 1)/2 numbers."""
        packed = self.scatter.masked_select(_lower(self.scatter))
        return {
            "counts": self.counts[:classes],
            "means": self.means[:classes],
            "scatter": packed,
            "weight": self.weight,
            "rounding": self.rounding,
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state, which may have fewer classes: what depends on the lower triangle is the same to the bit."""
        self._own()
        classes = len(state["counts"])
        for mine, saved in ((self.counts, state["counts"]), (self.means, state["means"])):
            mine.zero_()[:classes] = saved.to(mine)
        lower = _lower(self.scatter)
        self.scatter.masked_scatter_(lower, state["scatter"].to(self.scatter))
        self.scatter.T.masked_scatter_(lower, state["scatter"].to(self.scatter))
        self.weight.copy_(state["weight"])
        self.rounding.copy_(state["rounding"])

    # --- updates

    def _merge(self, new: Moments) -> None:
        """Join class moments with those so far."""
        c = new.classes
        n = self.counts[c]
        share = new.counts / (n + new.counts)
        gap = new.means - self.means[c].double()
        # n·n_b/(n + n_b) · (m_b − μ)(m_b − μ)ᵀ, as a row of its own for each class
        between = (n * share).sqrt()[:, None] * gap
        self.means[c] += (share[:, None] * gap).to(self.means.dtype)
        self.counts[c] += new.counts
        self.weight += new.counts.sum()
        self._add_rows(torch.cat([new.rows, between.to(new.rows.dtype)]))

    def _add_rows(self, rows: Tensor, sign: int = 1) -> None:
        """W ← W ± rowsᵀrows."""
        rows = rows.to(self.scatter.dtype)
        with full_float32():
            self.scatter.addmm_(rows.T, rows, alpha=sign)

    def _add_aging(self, f: Tensor, y: Tensor) -> None:
        """As if sample by sample: a sample of class c first ages the class. W is moved once, by one matrix product.

        The covariance is shared, so a class's part of W is taken to be its part of the weight: when a class loses weight, W
        shrinks by the same amount, and Σ_w = W / n stays as it is.
        """
        assert self.half_life is not None
        keep = 0.5 ** (1 / self.half_life)
        classes, index = torch.unique(y, return_inverse=True)
        rows, places = f.double().cpu().numpy(), index.tolist()
        means, counts = self.means[classes].double().cpu().numpy(), self.counts[classes].tolist()
        weight = float(self.weight)
        kept = np.empty(len(rows))  # the part of W that a sample leaves of what was there before
        for i, c in enumerate(places):
            n = counts[c] * keep
            lost = counts[c] - n
            kept[i] = 1 - lost / max(weight, 1e-300)
            gap = rows[i] - means[c]
            means[c] += gap / (n + 1)
            rows[i] = (n / (n + 1)) ** 0.5 * gap  # of a class's first sample: 0, so a new class moves no covariance
            counts[c], weight = n + 1, weight - lost + 1
        left = np.cumprod(kept[::-1])[::-1]  # what is left at the end of W before sample i
        rows *= np.sqrt(np.append(left[1:], 1.0))[:, None]
        self.scatter.mul_(float(left[0]))
        self._add_rows(torch.from_numpy(rows).to(self.scatter))
        self.means[classes] = torch.from_numpy(means).to(self.means)
        self.counts[classes] = torch.tensor(counts, dtype=torch.float64, device=self.counts.device)
        self.weight.fill_(weight)


def _moments(f: Tensor, y: Tensor) -> Moments:
    """The moments of samples, by class.

    Sums are products with the table of who is in which class: on a GPU, unlike a scattered sum, the same to the bit each
    time. Features are shifted by their common mean first, so that float32 is enough.
    """
    classes, index = torch.unique(y, return_inverse=True)
    member = (index == torch.arange(len(classes), device=y.device)[:, None]).to(f.dtype)  # [c, n]
    counts = member.sum(1)
    shift = f.mean(0)
    away = f - shift
    with full_float32():
        mean = member @ away / counts[:, None]  # of each class, from the shift on
    return Moments(classes, counts.double(), shift.double() + mean.double(), away.sub_(mean.index_select(0, index)))


def _lower(square: Tensor) -> Tensor:
    """Which entries are of the lower triangle [D, D]."""
    return torch.ones_like(square, dtype=torch.bool).tril_()
