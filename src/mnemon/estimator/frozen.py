"""What predicts: a model between two chunks, with its probabilities calibrated by the exam."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import calibration, threads
from mnemon.estimator.exam import Exam
from mnemon.estimator.novelty import Space, distance, space, spaces_of
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.table import Table
from mnemon.estimator.values import class_array
from mnemon.learning.classifier import Classifier
from mnemon.learning.labels import Label
from mnemon.learning.network import Output
from mnemon.runtime import modes

ASKED = 1000  # samples of the exam at most, all classes together
CELLS = 2**20  # of their scores: with very many classes fewer samples are asked
NEAR = 0.95  # part of the exam that is as near as a novelty of 1
MARGIN = 2  # by the number of its samples: few of them may all be near
FADES = 2.0  # novelty from which on scores tell less
FAR = 3.0  # novelty beyond which no class is likely, whatever the probabilities among them


class Calibration(NamedTuple):
    """What the exam tells of a model."""

    temperature: float
    reach: float  # distance that NEAR of the exam's samples do not exceed
    predicted: Tensor  # class of each of the exam's samples [n]


class Frozen:
    """The model between two chunks; nothing in it changes any more, so threads need no lock to predict with it.

    What only probabilities and novelty need is computed when one of them is first asked for.
    """

    table: Table | None = None  # how the features of its samples are written, where that may change

    @modes.usual
    def __init__(
        self,
        learner: OnlineLearner | OnlineStatistics,
        classifier: Classifier,
        labels: list[Label],
        exam: Exam | None = None,
    ) -> None:
        own = copy.copy(learner)
        own.net = copy.deepcopy(learner.net).eval().requires_grad_(False)
        if learner.average is not None:  # it is what predicts
            own.net.load_state_dict(learner.average.tensors(), strict=False)
            own.average = None
        own.seen = learner.seen.clone()
        own.scaling = None if learner.scaling is None else learner.scaling.fixed()
        if isinstance(own, OnlineStatistics):
            own.statistics = None if own.statistics is None else own.statistics.snapshot()
        else:
            if "memory" not in classifier.needs:  # else its features are computed here and now
                own.memory = copy.deepcopy(learner.memory)
            own.memory_features = cache(own.memory_features)  # type: ignore[method-assign]
        self.labels, self.classes = labels, class_array(labels)
        # p(c | z) ∝ exp(−‖z − μ_c‖² / 2), the paper's §3.2: half the score
        self.twice_log_density = classifier.twice_log_density
        with torch.no_grad():
            self._classify = classifier.prepare(own)  # NCM's class means are computed here, once
        self._learner, self._exam, self._classifier = own, exam, classifier
        self.inputs, self.net = own.inputs, own.net
        self.column_means = cache(lambda: _means(own))  # a method would make a cycle of this and its table

    # --- one pass: samples on the device

    def forward(self, x: Tensor) -> Output:
        """What the network makes of samples on the device, in one pass."""
        return self._learner.output(x)

    def classify(self, out: Output) -> Tensor:
        return self._classify(out)[:, : len(self.classes)]

    def calibrated(self, x: Tensor, out: Output) -> Tensor:
        """What the probabilities are the softmax of [n, classes], for raw samples and what the network makes of them."""
        logits = self._uncalibrated(out)
        if self.calibration is None:
            return logits if self._caution == 1.0 else logits.double() / self._caution
        temperature, reach, _ = self.calibration
        # Beyond what is known, scores tell less and less: far from everything all classes are equally likely.
        return logits.double() / (temperature * _fade(self.distance(x, out), reach)[:, None])

    def _uncalibrated(self, out: Output) -> Tensor:
        """The scores as log-densities: their softmax is the model's own posterior."""
        scores = self.classify(out)
        return scores / 2 if self.twice_log_density else scores

    def distance(self, x: Tensor, out: Output) -> Tensor:
        """Of raw samples to everything learned [n]; about 1 for samples as they were learned."""
        found = distance(self._spaces, out.features)
        scaling = self._learner.scaling
        return found if scaling is None else found * scaling.beyond(x)

    # --- any number of raw samples

    def scores(self, x: Tensor) -> Tensor:
        """Scores [n, classes] of raw samples; −inf for a class that cannot be predicted."""
        return self._in_parts(x, lambda _, out: self.classify(out))

    def features(self, x: Tensor) -> Tensor:
        """What the classifier reads of raw samples [n, width]."""
        return self._in_parts(x, lambda _, out: out.features)

    @property
    def width(self) -> int:
        return self.features(torch.zeros(1, *self.inputs.shape, dtype=self.inputs.dtype)).shape[1]

    def logits(self, x: Tensor) -> Tensor:
        """Of what the probabilities are the softmax [n, classes]."""
        return self._in_parts(x, self.calibrated)

    def probabilities(self, x: Tensor) -> NDArray[np.float64]:
        """[n, classes]; each row sums to 1."""
        return np.asarray(torch.softmax(self.logits(x).double(), 1).numpy())

    def novelty(self, x: Tensor) -> NDArray[np.float64]:
        """How far samples are from everything learned [n]: 1 is as far as 19 of 20 samples of the exam are at most."""
        reach = 1.0 if self.calibration is None else self.calibration.reach
        return np.asarray((self._in_parts(x, self.distance) / reach).numpy())

    def unsure(self, x: Tensor, least: float) -> NDArray[np.bool_]:
        """Where the likeliest class has a probability below `least`, or the sample is far from every class [n]."""
        near = self.calibration is None or self.novelty(x) <= FAR
        return np.asarray((self.probabilities(x).max(1) < least) | ~np.asarray(near))

    @modes.usual
    def _in_parts(self, x: Tensor, take: Callable[[Tensor, Output], Tensor]) -> Tensor:
        learner = self._learner
        with torch.no_grad():
            if len(x) <= learner.eval_batch_size:
                x = x.to(learner.device)
                return take(x, self.forward(x)).cpu()
            parts = (part.to(learner.device) for part in torch.split(x, learner.eval_batch_size))
            return torch.cat([take(part, self.forward(part)) for part in parts]).cpu()

    # --- the exam, when it is first needed

    @cached_property
    def calibration(self) -> Calibration | None:
        """None without an exam, and while nothing is in it."""
        x, y = self.held_out
        if len(y) == 0:
            return None
        with threads.for_steps(self._learner):
            return self._calibrated_by(x, y)

    def _calibrated_by(self, x: Tensor, y: Tensor) -> Calibration:
        logits = self._in_parts(x, lambda _, out: self._uncalibrated(out)).double()
        away = self._in_parts(x, self.distance)
        held_out = away[1::2] if self._spaces_from_exam and len(away) > 1 else away
        reach = float(held_out.quantile(NEAR)) * (1 + MARGIN / len(held_out))
        reach = max(reach, 1e-12)
        with threads.one_thread():
            temperature = calibration.temperature(logits / _fade(away, reach)[:, None], y)
        return Calibration(self._caution if temperature is None else temperature, reach, logits.argmax(1))

    @cached_property
    def _caution(self) -> float:
        """The temperature until the exam gives one. Where there is to be none, the model's own posterior was asked for."""
        learner = self._learner
        if self._exam is None:
            return 1.0
        if not isinstance(learner, OnlineStatistics):
            with torch.no_grad(), threads.for_steps(learner):
                left_out = self._classifier.left_out(learner)
            if left_out is None:
                return 1.0
            scores, y = (tensor.cpu() for tensor in left_out)
            return calibration.temperature(scores[:, : len(self.classes)], y) or 1.0
        with torch.no_grad():
            logits = self._uncalibrated(Output(learner.class_means()))
        return calibration.caution(logits[:, torch.isfinite(logits).any(0)].cpu(), float(learner.counts.sum()))

    def exam_results(self) -> NDArray[np.int64]:
        """How many samples of each class the exam asked about, and how many of them were predicted right [classes, 2]."""
        counts = np.zeros((len(self.classes), 2), np.int64)
        if self.calibration is not None:
            y = self.held_out[1]
            counts[:, 0] = np.bincount(y.numpy(), minlength=len(counts))
            counts[:, 1] = np.bincount(y[self.calibration.predicted == y].numpy(), minlength=len(counts))
        return counts

    @cached_property
    def held_out(self) -> tuple[Tensor, Tensor]:
        """Samples of the exam and their classes."""
        if self._exam is None:
            return torch.zeros(0, *self.inputs.shape, dtype=self.inputs.dtype), torch.zeros(0, dtype=torch.int64)
        return self._exam.sample(max(min(ASKED, CELLS // len(self.classes)), calibration.LEAST))

    @property
    def _spaces_from_exam(self) -> bool:
        """Where nothing that was learned is kept, half of the exam stands for it, and the other half is asked."""
        return not isinstance(self._learner, OnlineStatistics) and not self._learner.method.replays

    @cached_property
    def _spaces(self) -> list[Space]:
        learner = self._learner
        if isinstance(learner, OnlineStatistics) and learner.statistics is not None:
            return [space(learner.statistics)]
        if isinstance(learner, OnlineStatistics):  # images wait for the dictionary
            f, y = self.features(learner.waiting_x), learner.waiting_y.cpu()
        elif learner.method.replays:
            f, y = learner.memory_features()
        else:
            x, y = (each[::2] for each in self.held_out)
            if len(y) == 0:
                raise MnemonError(
                    f"{learner.method.name} keeps no sample to compare with: novelty needs an exam, and ten samples of a class."
                )
            f = self.features(x)
        return spaces_of(f.to(learner.device), y.to(learner.device), learner.net.capacity)


def _means(learner: OnlineLearner | OnlineStatistics) -> NDArray[np.float64] | None:
    """Of each feature of the samples, over all that was learned; None where the learner does not know."""
    moments = learner.over_all()
    return None if moments is None else np.asarray(moments[0].double().cpu().numpy())


def _fade(distance: Tensor, reach: float) -> Tensor:
    """What logits are divided by [n]: 1 at first, then the square of the distance, which grows faster than any score that is
    linear in the features."""
    return (distance / (FADES * reach)).clamp(min=1.0).square()
