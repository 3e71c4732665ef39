"""The learner of a method that trains nothing: features of fixed functions, and statistics of them that are exact.

Order and chunks of the stream do not matter (but for rounding): a block of batches is learned as one matrix product. Where
the features are patches, the dictionary is made of exactly the first N images; until then these wait, and the nearest class
mean of their pixels predicts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemon.errors import Diverged, MnemonError
from mnemon.learning.backbones import PatchFeatures
from mnemon.learning.discriminant import Discriminant, nearest_mean, shrinkage
from mnemon.learning.gaussian import CHUNK, Gaussian
from mnemon.learning.learner import Learner, Snapshot
from mnemon.learning.memory import sample_keys
from mnemon.learning.network import Output

MOST_FEATURES = 32_768  # D: the covariance then has 4 GiB
# Responses of the dictionary held at once, in a few copies: as much as a processor's caches hold, or a part of a GPU's memory.
MAPS = {"cpu": 2**20, "cuda": 2**28}


class StreamingLearner(Learner):
    """A learner without gradients. Its network is the backbone alone, which stays as it is once a dictionary is made."""

    half_life: float | None = None  # samples of a class, each view of one counted

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named | {"bf16": False})  # statistics are never of shortened numbers
        body = self.net.eval().backbone
        if self.net.dim > MOST_FEATURES:
            raise MnemonError(
                f"{self.method.name} keeps a covariance of all features, and {self.net.dim:,} are too many for that: at most "
                f"{MOST_FEATURES:,}."
            )
        if isinstance(body, PatchFeatures):
            most = MAPS.get(self.device.type, MAPS["cpu"]) // body.responses
            self.eval_batch_size = max(1, min(self.eval_batch_size, most))
        elif self._is_flat:  # a pass costs nothing but its call
            self.eval_batch_size = max(self.eval_batch_size, CHUNK)
        self.views: int = getattr(self.method, "views", 1)
        self.statistics: Gaussian | None = None  # from the first sample on that features are known of
        self.fitted = not isinstance(body, PatchFeatures)  # whether the features are fixed
        self.waiting_x = torch.zeros(0, *self.inputs.shape, dtype=self.inputs.dtype, device=self.device)
        self.waiting_y = torch.zeros(0, dtype=torch.int64, device=self.device)

    # --- learning

    def learn(self, x: Tensor, y: Tensor, rows: NDArray[np.int64], proceed: Callable[[], bool] = lambda: True) -> int:
        """Learn batches: rows [S, b] of the raw samples x and class indices y, which stay on the device. They are learned at
        once, so a run stops only between two calls and resumes with the same sums."""
        index = torch.from_numpy(rows).to(self.device).flatten()
        samples, classes = x.index_select(0, index), y.index_select(0, index)
        self.seen[classes] = True
        finite = self._take(samples, classes)
        self.steps += len(rows)
        # No loss is computed; what is not finite shows as one of the first step.
        losses = torch.where(finite, 0.0, torch.nan).expand(len(rows))
        self.record_steps(classes.reshape(rows.shape).cpu().numpy(), losses)
        proceed()
        return len(rows)

    def _take(self, x: Tensor, y: Tensor) -> Tensor:
        """Learn samples, or let them wait for the dictionary. Returns whether all were finite, as a tensor."""
        finite = _all_finite(x)
        if not self.fitted:
            x, y = torch.cat([self.waiting_x, x]), torch.cat([self.waiting_y, y])
            self.waiting_x, self.waiting_y = x, y
            body = self._patches()
            if len(x) < body.waits_for or not bool(finite):  # then `check` stops it
                return finite
            body.fit(x[: body.waits_for], self.seed)
            self.fitted = True
            self.waiting_x, self.waiting_y = x[:0].clone(), y[:0].clone()
        for part, classes in zip(torch.split(x, CHUNK), torch.split(y, CHUNK), strict=True):
            f = self.learned_features(part)
            if not self._is_flat:
                finite &= _all_finite(f)
            classes = classes.repeat(self.views)
            if self.half_life is not None and self.views > 1:  # the views of a sample are of one age
                order = torch.arange(len(f), device=f.device).reshape(self.views, -1).T.flatten()
                f, classes = f[order], classes[order]
            self._statistics().add(f, classes)
        return finite

    def _statistics(self) -> Gaussian:
        if self.statistics is None:
            self.statistics = Gaussian(
                self.net.dim, self.net.capacity, half_life=self.half_life, device=self.device, dtype=self.dtype
            )
        return self.statistics

    @property
    def _is_flat(self) -> bool:
        """Whether the samples are their own features."""
        return isinstance(self.net.backbone, nn.Flatten)

    def _patches(self) -> PatchFeatures:
        body = self.net.backbone
        assert isinstance(body, PatchFeatures)
        return body

    def grow(self, classes: int) -> None:
        super().grow(classes)
        if self.statistics is not None:
            self.statistics.grow(self.net.capacity)

    def check(self) -> None:
        """Stop with a sentence if a sample was not finite, or its square was not."""
        if int(self.bad_step) >= 0:
            raise Diverged(
                f"the features {self.method.name} learns from were not finite: an input of the steps from "
                f"{int(self.bad_step)} on was not."
            )
        if self.statistics is not None and not bool(_all_finite(self.statistics.scatter.diagonal())):
            raise Diverged("a feature is too large for its variance to be a number (above 1e18); divide it first.")

    # --- features

    def normalise(self, x: Tensor) -> Tensor:
        """Patches take samples as they came."""
        return x if isinstance(self.net.backbone, PatchFeatures) else super().normalise(x)

    def learned_features(self, x: Tensor) -> Tensor:
        """Features of samples as they came, and with two views behind them those of their mirror images [views·n, D]."""
        with torch.no_grad():
            parts = [self._views(part) for part in torch.split(x, self.eval_batch_size)]
        return torch.cat([f for view in zip(*parts, strict=True) for f in view])

    def _views(self, x: Tensor) -> list[Tensor]:
        """Features of each view of samples [n, D], in one pass each."""
        views = (x,) if self.views == 1 else (x, x.flip(-1))
        return [self.net(self.normalise(view)).features for view in views]

    def output(self, x: Tensor) -> Output:
        """Features of samples as they came: the average over the views; before there are any, the pixels."""
        if not self.fitted:
            return Output(x.flatten(1).to(self.dtype))
        views = self._views(x)
        return Output(torch.stack(views).mean(0) if len(views) > 1 else views[0])

    def discriminant(self, lam: float | str | None, shrink: str = "identity") -> Discriminant:
        """The classifier of the samples so far, with the weight λ of what the covariance is drawn towards; "auto": by their
        number; None: with the identity as covariance."""
        if not self.fitted:
            counts, means = self._waiting_means()
            return nearest_mean(counts, means)
        if lam is None:
            return self._statistics().nearest_mean()
        return self._statistics().discriminant(self.shrinkage() if lam == "auto" else float(lam), shrink)

    def shrinkage(self) -> float:
        """λ = "auto", each view of a sample counted. Where samples fade they count as much as they still weigh; a class that
        drifted has few samples left, but the covariance stays that of all."""
        fades = self.half_life is not None
        samples = float(self._statistics().counts.sum()) if fades else self.samples * self.views
        return shrinkage(int(self.seen.sum()), samples)

    def _waiting_means(self) -> tuple[Tensor, Tensor]:
        """How many samples of each class wait for the dictionary [C], and their mean [C, D], float64."""
        member = (self.waiting_y == torch.arange(self.net.capacity, device=self.device)[:, None]).double()
        counts = member.sum(1)
        return counts, member @ self.output(self.waiting_x).features.double() / counts.clamp(min=1)[:, None]

    def class_means(self) -> Tensor:
        """The mean features of each class with samples [c, D]; what `output` gives for a sample like it."""
        if not self.fitted:
            counts, means = self._waiting_means()
            return means[counts > 0].to(self.dtype)
        return self._statistics().means[self._statistics().counts > 0]

    # --- what sufficient statistics allow

    def forget(self, x: Tensor, y: Tensor) -> None:
        """Take samples back that were learned: afterwards the statistics are those of the others. Patches that the dictionary
        has from them stay there; before there is one, they do not wait for it any more."""
        if bool((torch.bincount(y.cpu(), minlength=len(self.counts)) > self.counts).any()):
            raise MnemonError("more samples of a class are to be removed than were learned.")
        if self.fitted:
            ever = max(self.samples, self.steps * self.method.batch_size) * self.views  # at least: steps only grow
            for part, classes in zip(torch.split(x, CHUNK), torch.split(y, CHUNK), strict=True):
                f = self.learned_features(part.to(self.device))
                self._statistics().remove(f, classes.to(self.device).repeat(self.views), ever)
        else:
            self._forget_waiting(x, y)
        self.samples -= len(y)
        self.counts -= torch.bincount(y.cpu(), minlength=len(self.counts))
        self.seen = (self.counts > 0).to(self.device)

    def _forget_waiting(self, x: Tensor, y: Tensor) -> None:
        """Each sample takes one that equals it from those that wait."""
        gone = Counter(sample_keys(x, y))
        kept = []
        for i, key in enumerate(sample_keys(self.waiting_x, self.waiting_y)):
            if gone[key] > 0:
                gone[key] -= 1
            else:
                kept.append(i)
        if +gone:
            raise MnemonError(
                "a sample to be taken back is not among those that were learned so far and wait for the dictionary."
            )
        self.waiting_x, self.waiting_y = self.waiting_x[kept], self.waiting_y[kept]

    def regroup(self, source: list[int], to: list[int]) -> None:
        """As any learner's; of classes that become one the statistics are joined. What the samples of a class that goes gave to
        the covariance stays there."""
        if self.statistics is not None:
            for c, new in enumerate(to):
                if new < 0:
                    self.statistics.forget(c)
                elif source[new] != c:
                    self.statistics.join(source[new], c)
            self.statistics.regroup(torch.tensor(source, dtype=torch.int64, device=self.device), len(to))
        classes = torch.tensor(to, dtype=torch.int64, device=self.device)[self.waiting_y]
        self.waiting_x, self.waiting_y = self.waiting_x[classes >= 0], classes[classes >= 0]
        super().regroup(source, to)

    def merge(self, other: StreamingLearner, classes: Tensor | None = None) -> None:
        """Take in what another learned from other samples, with the same features; classes[c]: this one's index of the other's
        class c (None: the same)."""
        for learner in (self, other):
            learner._need_fitted("it cannot be merged")
        if self.views != other.views:
            raise MnemonError("a learner that learns mirror images too cannot be merged with one that does not.")
        if self.digest() != other.digest():
            raise MnemonError(
                "only learners with the same features can be merged, and these have different dictionaries: "
                "let both begin with fresh() of one model."
            )
        index = torch.arange(len(other.counts))
        if classes is not None:
            index[: len(classes)] = classes.cpu()
        index[other.counts == 0] = 0  # no room is needed for a class it never saw
        self.grow(int(index.max()) + 1)
        self._statistics().merge(other._statistics(), index.to(self.device))
        self.counts.index_add_(0, index, other.counts)
        self.seen = (self.counts > 0).to(self.device)
        self.samples, self.steps = self.samples + other.samples, self.steps + other.steps

    def take_dictionary(self, other: StreamingLearner) -> None:
        """Begin with the features of another learner instead of waiting for images."""
        other._need_fitted("its dictionary cannot be taken")
        if self.samples:
            raise MnemonError("a learner takes the dictionary of another before it learns, not after.")
        self.net.backbone.load_state_dict(other.net.backbone.state_dict())
        self.fitted = True

    def digest(self) -> str:
        """Equal where the features are, and as many views of a sample."""
        body = self.net.backbone
        about = f"{self.net.dim} {self.inputs} {self.views} "
        if isinstance(body, PatchFeatures):
            return hashlib.sha256((about + body.digest()).encode()).hexdigest()
        tensors = b"".join(tensor.cpu().numpy().tobytes() for tensor in body.state_dict().values())
        return hashlib.sha256(f"{about}{body}".encode() + tensors).hexdigest()

    def _need_fitted(self, otherwise: str) -> None:
        if not self.fitted:
            images = self._patches().waits_for
            raise MnemonError(f"before {images} images were seen there is no dictionary, and {otherwise}.")

    # --- state

    def state(self) -> dict[str, Tensor]:
        """As any learner's, with the waiting samples and the statistics of the classes seen."""
        used = int(self.counts.nonzero().max()) + 1 if bool(self.counts.any()) else 0
        if self.statistics is None:
            sums = Gaussian(0, 0, dtype=self.dtype, device=self.device).state()
        else:
            sums = self.statistics.state(used)
        return self._small_state() | {f"statistics.{name}": tensor for name, tensor in sums.items()}

    def _small_state(self) -> dict[str, Tensor]:
        """All of `state` but the statistics, whose scatter is by far the largest part."""
        waiting = {"waiting.x": self.waiting_x, "waiting.y": self.waiting_y}
        return {**super().state(), "fitted": torch.tensor(self.fitted), **waiting}

    def snapshot(self) -> Snapshot:
        """The statistics are not copied until they change, and not packed: for a single sample that would take longer than
        learning it."""
        small = {name: tensor.clone() for name, tensor in self._small_state().items()}
        sums = None if self.statistics is None else self.statistics.snapshot()
        return Snapshot(small, self.steps, self.samples, sums)

    def rollback(self, to: Snapshot) -> None:
        self.grow(len(to.state["seen"]))
        self._restore_small(to.state)
        self.statistics = None if to.statistics is None else to.statistics.snapshot()
        self.steps, self.samples = to.steps, to.samples

    def _restore_small(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in super().state().items():
                tensor.copy_(state[name])
        self.fitted = bool(state["fitted"])
        self.waiting_x, self.waiting_y = (state[f"waiting.{name}"].to(self.device).clone() for name in ("x", "y"))

    def restore(self, state: dict[str, Tensor], *, steps: int, samples: int) -> None:
        """Go on from a saved state, bit for bit; a state of another shape is refused."""
        self.grow(len(state["seen"]) if "seen" in state else 0)
        own = self.state()
        sums = {name.removeprefix("statistics."): t for name, t in state.items() if name.startswith("statistics.")}
        if own.keys() != state.keys() or not self._belongs(own, state, sums):
            raise MnemonError("the saved state does not belong to this network, memory and loss.")
        self._restore_small(state)
        self.statistics = None
        if sums["scatter"].numel():
            self._statistics().restore(sums)
        self.steps, self.samples = steps, samples

    def _belongs(self, own: dict[str, Tensor], state: dict[str, Tensor], sums: dict[str, Tensor]) -> bool:
        """Whether all types and shapes fit; before anything is allocated."""
        if any(own[name].dtype != tensor.dtype for name, tensor in state.items()):
            return False
        free = {"waiting.x", "waiting.y", *(f"statistics.{name}" for name in sums if name != "weight")}
        if any(own[name].shape != tensor.shape for name, tensor in state.items() if name not in free):
            return False
        waiting, d, classes = len(state["waiting.y"]), self.net.dim, sums["counts"].numel()
        if sums["scatter"].numel():
            shapes = {"counts": (classes,), "means": (classes, d), "scatter": (d * (d + 1) // 2,), "rounding": (d,)}
        else:
            shapes = {"counts": (0,), "means": (0, 0), "scatter": (0,), "rounding": (0,)}
        return (
            state["waiting.y"].shape == (waiting,)
            and state["waiting.x"].shape == (waiting, *self.inputs.shape)
            and classes <= self.net.capacity
            and all(tuple(sums[name].shape) == shape for name, shape in shapes.items())
        )


def _all_finite(x: Tensor) -> Tensor:
    """Whether all values are finite, as a tensor. The least and the largest tell, which are found in a fraction of the time."""
    low, high = x.aminmax()
    return torch.isfinite(low) & torch.isfinite(high)
