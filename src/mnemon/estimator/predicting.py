"""What is asked of a model that has learned: predictions, features, and what it knows, by scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import calibration, values
from mnemon.estimator.drift import Drift
from mnemon.estimator.embedding import Embedding
from mnemon.estimator.frozen import Frozen
from mnemon.estimator.model import Model
from mnemon.estimator.samples import SampleReader
from mnemon.learning.labels import Label, LabelTable


class NotFitted(MnemonError, NotFittedError):  # type: ignore[misc]
    """Nothing was learned yet."""


class Predictor(
    SampleReader,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The part of an OnlineClassifier that is asked; it changes nothing."""

    features: str

    def predict(self, X: Any, reject: float | None = None) -> NDArray[Any]:
        """The likeliest labels [n]. `reject`, from 0 to 1: None (in an object array) where the probability of the likeliest one
        is below it, and where the sample is far from every class: its `novelty` is above 3."""
        least = calibration.probability(reject)
        frozen, x = self._asked(X)
        found = np.asarray(frozen.classes[frozen.scores(x).argmax(1).numpy()])
        if least is None:
            return found
        found = found.astype(object)
        found[frozen.unsure(x, least)] = None
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """[n, classes], columns as in `classes_`, for classes that are equally frequent. Calibrated by the exam once it has ten
        samples: of samples with a probability of 0.8 about 8 in 10 are right, and far from everything learned all classes
        come to the same probability. Before, slda leaves to the other classes what Laplace's rule does, about 1 in as many
        samples as it has learned, and ridge regression is calibrated by the rows of its memory, each left out. Other networks
        before, and all with exam=0: the paper's Gaussian posterior for NCM, else the softmax of the scores."""
        frozen, x = self._asked(X)
        return frozen.probabilities(x)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`, also where that is too small for a number; −inf for a class never seen."""
        frozen, x = self._asked(X)
        return np.asarray(torch.log_softmax(frozen.logits(x).double(), 1).numpy())

    def decision_function(self, X: Any) -> NDArray[np.floating[Any]]:
        """Of what `predict_proba` is the softmax [n, classes]; for two classes, as scikit-learn has it, how much the second one
        is ahead of the first [n]. A class that cannot be predicted has −inf."""
        frozen, x = self._asked(X)
        logits = frozen.logits(x).numpy()
        return np.asarray(logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """How far samples are from everything learned [n], the farther the larger: the distance to the nearest class mean in
        the space of the features, in deviations within classes. 1: as far as 19 of 20 samples of the exam are at most; above
        3 hardly any sample of a known class is. Without an exam, 1 is about what Gaussian classes have on average."""
        frozen, x = self._asked(X)
        return frozen.novelty(x)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The features the classifier works on [n, d]: what the network, with the weights that predict, makes of X."""
        frozen, x = self._asked(X)
        found = np.asarray(frozen.features(x).float().numpy())
        return found.copy() if np.may_share_memory(found, x.numpy()) else found  # x may be the array that was given

    @property
    def _n_features_out(self) -> int:  # for the names of what `transform` returns
        return self._learned("_n_features_out").frozen().width

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; a label that was never learned counts as wrong. (`True` and `1` differ, which sklearn.metrics ignores.)"""
        frozen, x = self._asked(X)
        found = values.label_column(y)
        check_lengths(x, found)
        weights = None if sample_weight is None else values.weights(sample_weight, len(x))
        right = frozen.scores(x).argmax(1).numpy() == LabelTable(frozen.labels).find(found)
        return float(np.average(right, weights=weights))

    def _asked(self, X: Any) -> tuple[Frozen, Tensor]:
        """What predicts, and the samples. A thread that learns meanwhile changes neither."""
        model = self._fitted()
        frozen = model.frozen()
        return frozen, self._read(X, model, frozen.table)

    # --- what was learned

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels in the order of their columns; partial_fit only ever appends, and forget and rename keep the order."""
        return self._learned("classes_").classes()

    @property
    def resolved_(self) -> dict[str, str]:
        """What learns, by name: method, loss, classifier and backbone, also where the parameters say "auto"."""
        model = self._learned("resolved_")
        method, objective, (classifier,) = model.choice
        return {
            "method": method.name,
            "loss": objective.name,
            "classifier": classifier.name,
            "backbone": model.backbone_name(),
        }

    @property
    def n_seen_(self) -> int:
        """Samples seen so far and not taken back, those held out for the exam too."""
        return self._learned("n_seen_").n_seen

    @property
    def drift_(self) -> list[Drift]:
        """What was noticed of classes whose samples are no longer what they were: when (samples learned by then), classes, and
        their samples by then. A new class is no drift. A model warns of each, whatever its half_life."""
        return self._learned("drift_").drifts()

    def _learned(self, name: str) -> Model:
        model = self._model_or_none()
        if model is None:
            raise AttributeError(f"this OnlineClassifier has no {name!r} before it has learned something.")
        return model

    def _fitted(self) -> Model:
        model = self._model_or_none()
        if model is None:
            raise NotFitted("this OnlineClassifier has learned nothing yet: call fit or partial_fit first.")
        return model

    def _model_or_none(self) -> Model | None:
        return vars(self).get("_model")

    # --- scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return self._model_or_none() is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_open = self.features == "open"
        tags.input_tags.three_d_array = not is_open
        tags.input_tags.allow_nan = tags.input_tags.categorical = is_open
        tags.input_tags.string = isinstance(self.backbone, Embedding)
        tags.transformer_tags.preserves_dtype = ["float32"]  # whatever comes is held as float32
        return tags


def check_lengths(x: Tensor, y: list[Label] | values.Numbers) -> None:
    if len(x) != len(y):
        raise MnemonError(f"X has {len(x)} samples and y {len(y)} labels; there must be one label a sample.")
