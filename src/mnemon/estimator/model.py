"""What an OnlineClassifier has learned: the learner and its labels, changed whole chunks at a time, read by any thread."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import Diverged, MnemonError
from mnemon.estimator import threads
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.values import class_array
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import Choice, check_backbone
from mnemon.learning.classifier import Classifier
from mnemon.learning.gaussian import CHUNK
from mnemon.learning.labels import Label, LabelTable
from mnemon.learning.learner import BLOCK, Inputs
from mnemon.learning.learners import backbone_for
from mnemon.learning.network import Output
from mnemon.learning.streaming import StreamingLearner

FAR = 30  # standard deviations from the mean so far, which no new class is on most features
MAX_CLASSES = 65_536  # every step touches a row of the network for each class


class Frozen:
    """The model between two chunks; nothing in it changes any more, so threads need no lock to predict with it."""

    def __init__(self, learner: OnlineLearner | OnlineStatistics, classifier: Classifier, labels: list[Label]) -> None:
        own = copy.copy(learner)
        own.net = copy.deepcopy(learner.net).eval().requires_grad_(False)
        if learner.average is not None:  # it is what predicts
            own.net.load_state_dict(learner.average.tensors(), strict=False)
            own.average = None
        own.seen, own.scaling = learner.seen.clone(), copy.deepcopy(learner.scaling)
        self.labels, self.classes = labels, class_array(labels)
        # p(c | z) ∝ exp(−‖z − μ_c‖² / 2), the paper's §3.2: half the score
        self.twice_log_density = classifier.twice_log_density
        with torch.no_grad():
            self._classify = classifier.prepare(own)  # NCM's class means are computed here, once
        self._learner = own
        self.inputs, self.net = own.inputs, own.net

    def scores(self, x: Tensor) -> Tensor:
        """Scores [n, classes] of raw samples; −inf for a class that cannot be predicted."""
        return self._in_parts(x, lambda out: self.classify(out))

    def features(self, x: Tensor) -> Tensor:
        """What the classifier reads of raw samples [n, width]."""
        return self._in_parts(x, lambda out: out.features)

    @property
    def width(self) -> int:
        return self.features(torch.zeros(1, *self.inputs.shape, dtype=self.inputs.dtype)).shape[1]

    def _in_parts(self, x: Tensor, take: Callable[[Output], Tensor]) -> Tensor:
        learner = self._learner
        with torch.no_grad():
            parts = [take(self.forward(part.to(learner.device))) for part in torch.split(x, learner.eval_batch_size)]
            return torch.cat(parts).cpu()

    def forward(self, x: Tensor) -> Output:
        """What the network makes of samples on the device, in one pass."""
        return self._learner.output(x)

    def classify(self, out: Output) -> Tensor:
        return self._classify(out)[:, : len(self.classes)]

    def probabilities(self, x: Tensor) -> NDArray[np.float64]:
        """[n, classes]; each row sums to 1."""
        return np.asarray(torch.softmax(self.logits(x).double(), 1).numpy())

    def logits(self, x: Tensor) -> Tensor:
        """The scores as log-densities: their softmax is the posterior. In the precision they were computed in."""
        scores = self.scores(x)
        return scores / 2 if self.twice_log_density else scores


class Model:
    """`n_seen` and `n_classes` are those of the last whole chunk; a chunk that fails leaves everything as it was."""

    def __init__(
        self,
        choice: Choice,
        inputs: Inputs,
        *,
        scaled: bool,
        backbone: Backbone,
        seed: int,
        device: torch.device,
        names: list[Any] | None = None,
    ) -> None:
        self.choice, self.inputs, self.scaled = choice, inputs, scaled and choice.method.trains
        self.seed, self.device = seed, device
        self.names = names  # of the features, where they have some
        self.learner = self._learner(backbone)
        self.labels = LabelTable()
        self.n_seen = self.n_classes = 0
        self.lock = threading.RLock()  # held while a chunk is learned, and by whoever reads the learner itself
        self._frozen: Frozen | None = None
        self._warned = False  # of another scale, once

    def _learner(self, backbone: Backbone) -> OnlineLearner | OnlineStatistics:
        method, objective, _ = self.choice
        check_backbone(type(method), backbone)
        if isinstance(backbone, str):  # what is given may be anything
            backbone = backbone_for(method, backbone, self.inputs.shape)
        if not method.trains:
            return OnlineStatistics(
                method, objective, self.inputs, backbone=backbone, seed=self.seed, device=self.device
            )
        return OnlineLearner(
            method, objective, self.inputs, backbone=backbone, seed=self.seed, device=self.device, scaled=self.scaled
        )

    def classes(self) -> NDArray[Any]:
        while True:  # no lock, which whoever learns holds long
            table, n = self.labels, self.n_classes
            if self.labels is table:  # else `replace` came between the two
                return class_array(table.labels[:n])

    def begin_with(self, dictionary: StreamingLearner) -> None:
        """Before anything is learned: have the features of another learner."""
        learner = self.learner
        mine, theirs = (
            {name: tensor.shape for name, tensor in each.net.backbone.state_dict().items()}
            for each in (learner, dictionary)
        )
        if isinstance(learner, OnlineStatistics) and self.inputs == dictionary.inputs and mine == theirs:
            learner.take_dictionary(dictionary)
            if learner.digest() == dictionary.digest():
                return
        raise MnemonError(
            "the dictionary that fresh() handed over does not fit these samples or these parameters: they are to be those of "
            "the model it came from."
        )

    def dictionary(self) -> OnlineStatistics | None:
        """A learner with the same features that has learned nothing; None for a network."""
        with self.lock:
            if not isinstance(self.learner, OnlineStatistics):
                return None
            made = self._learner(self.learner.net.backbone)
            assert isinstance(made, OnlineStatistics)
            made.take_dictionary(self.learner)
            return made

    def fork(self) -> OnlineLearner | OnlineStatistics:
        """A copy of the learner as the last whole chunk left it; to be called with the lock held."""
        made = self._learner(self.learner.net.backbone)
        made.restore(self.learner.state(), steps=self.learner.steps, samples=self.learner.samples)
        return made

    def replace(self, learner: OnlineLearner | OnlineStatistics, labels: Iterable[Label]) -> None:
        """Go on with another learner and its labels; to be called with the lock held. One update, so that no thread and no
        interrupt finds half of it."""
        table = LabelTable(labels)
        before = dict(
            vars(self)
        )  # lives on until the update is done: nothing is freed, hence nothing else runs, within
        vars(self).update(learner=learner, labels=table, n_seen=learner.samples, n_classes=len(table), _frozen=None)
        before.clear()

    def learn(self, x: Tensor, y: list[Label], classes: Iterable[Label] = ()) -> None:
        """Learn each sample once, in order, in batches of batch_size of which the last may be smaller: all, or nothing."""
        classes = list(classes)
        with self.lock:
            self.check_classes([*classes, *y])
            if not self._warned and self.n_classes > 1:  # before, another scale may be another class
                self._warned = _warn_of_another_scale(x, self.learner.over_all())
            before = {name: tensor.clone() for name, tensor in self.learner.state().items()}
            steps, known = self.learner.steps, len(self.labels)
            try:
                self.labels.add(classes)
                index = torch.from_numpy(self.labels.add(y))
                self.learner.grow(len(self.labels))
                with threads.for_steps(self.learner):
                    self._learn(x.to(self.device), index.to(self.device))
            except BaseException:  # an interrupt in the middle of a chunk, too
                self.learner = self._learner(self.learner.net.backbone)
                self.learner.restore(before, steps=steps, samples=self.n_seen)
                self.labels = LabelTable(self.labels.labels[:known])
                raise
            self._frozen = None
            self.n_seen, self.n_classes = self.learner.samples, len(self.labels)

    def check_classes(self, labels: list[Label]) -> None:
        """Refuse more classes than there can be."""
        classes = len(self.labels) + len(labels)  # more there cannot be
        if classes > MAX_CLASSES:
            classes = len(self.labels) + self.labels.count_new(labels)
        if classes > MAX_CLASSES:
            raise MnemonError(
                f"with these there are {classes:,} different labels, and at most {MAX_CLASSES:,} can "
                "be learned; is y an identifier or a measurement instead of a class?"
            )

    def _learn(self, x: Tensor, y: Tensor) -> None:
        batch = self.choice.method.batch_size
        rows = np.arange(len(x))
        whole = rows[: len(x) // batch * batch].reshape(-1, batch)
        # Batches mean nothing to sums: they are handed over in as large blocks as are added at once.
        block = BLOCK if self.choice.method.trains else max(BLOCK, CHUNK // batch)
        for start in range(0, len(whole), block):
            self.learner.learn(x, y, whole[start : start + block])
            self.learner.check()
        if whole.size < len(x):
            self.learner.learn(x, y, rows[None, whole.size :])
        self._check_finite()

    def _check_finite(self) -> None:
        """A loss is looked at before its step; what the last step did shows in the parameters only."""
        self.learner.check()
        sums = [p.detach().sum() for p in self.learner.parameters]  # one value that is not finite makes its sum so
        if sums and not bool(torch.stack(sums).isfinite().all()):
            raise Diverged(f"training diverged (learning rate {self.choice.method.lr}): a parameter is not finite.")

    def frozen(self) -> Frozen:
        """The model as the last whole chunk left it. While nobody learns, and while a chunk is being learned of which the
        state before is at hand, this costs nothing; else the first one to ask makes it."""
        frozen = self._frozen
        if frozen is None:
            with self.lock:
                frozen = self._frozen
                if frozen is None:
                    labels = self.labels.labels[: self.n_classes]
                    frozen = self._frozen = Frozen(self.learner, self.choice.classifiers[0], labels)
        return frozen

    # --- copies: a lock cannot be one, and a copy must not be half a chunk

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            kept = {name: value for name, value in vars(self).items() if name not in ("lock", "_frozen")}
            return copy.deepcopy(kept)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock(), _frozen=None)


def _warn_of_another_scale(x: Tensor, so_far: tuple[Tensor, Tensor] | None) -> bool:
    """Say it if most features of a chunk are where none of them ever was: pixels in 0 … 255 after those in 0 … 1."""
    if x.ndim != 2 or so_far is None:
        return False
    mean, std = so_far[0].cpu(), so_far[1].sqrt().cpu()
    varies = std > 1e-6 * mean.abs()  # a constant may become anything
    away = (x.mean(0, dtype=torch.float64) - mean).abs() > FAR * std
    if int((away & varies).sum()) <= int(varies.sum()) / 2:
        return False
    warnings.warn(
        f"on more than half of the features these samples are over {FAR} standard deviations away from the mean of "
        "those before; were they scaled in another way?",
        stacklevel=6,  # the user's line, above partial_fit, _learn, _take and learn; or learn_many, _learn_rows, …
    )
    return True
