"""OnlineClassifier: scikit-learn's conventions and River's protocol around one model that never stops learning."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.estimator import calibration, parameters, rows, saving, served, taking_back, values
from mnemon.estimator.auto import resolve
from mnemon.estimator.drift import Drift
from mnemon.estimator.embedding import Embedding
from mnemon.estimator.frozen import Frozen
from mnemon.estimator.model import Model
from mnemon.estimator.river import RiverEstimator
from mnemon.estimator.samples import SampleReader
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.table import Growth
from mnemon.learning.labels import Label, LabelTable
from mnemon.learning.learner import Inputs
from mnemon.learning.method import Method
from mnemon.learning.methods import given as method_given
from mnemon.rng import check_seed
from mnemon.runtime.device import choose_device
from mnemon.runtime.warn import warn


class NotFitted(MnemonError, NotFittedError):  # type: ignore[misc]
    """Nothing was learned yet."""


class OnlineClassifier(
    SampleReader,
    RiverEstimator,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A classifier that learns from a stream: every sample once, new labels at any time, old ones not forgotten.

    method        "auto", a name of `mnemon.methods()`, or a Method class of one's own. "auto" looks at the first samples, and
                  `resolved_` says what it took. Images of at least 8 × 8 pixels, not long and narrow: "slda" on patches
                  (backbone="patches:power=0.5:threshold=0.5", classifier="gaussian:lam=0.1"). Vectors, tables and smaller
                  images: "hybrid" with classifier="ridge", a network. Embeddings (backbone="identity", an Embedding, or a
                  module without a parameter to be trained): "slda", classifier="gaussian:lam=0.01". A network wherever
                  something is given that only a network has: loss, lr, gamma; average, memory_size, batch_size or
                  replay_size at another value than the default; a classifier that reads the memory or the network; "mlp",
                  "resnet18", or a module to be trained. A classifier of statistics ("gaussian:...") asks for "slda"
    backbone      "auto" (the method's own; for networks an MLP for vectors, a reduced ResNet-18 for images), "mlp",
                  "resnet18", "patches", "identity" (X holds features already), one of these with options
                  ("mlp:width=100"), any nn.Module, a function that makes one, or an `Embedding` of a function from raw
                  inputs to vectors
    memory_size   samples kept for replay and for the class means. With method="auto", another size, batch_size or
                  replay_size than the default asks for a network, for images too
    batch_size    new samples per step; a last, smaller batch is learned at once too
    replay_size   samples of the memory per step
    loss, classifier    other ones than the method's own, by name; a classifier may have options ("NAME:OPTION=VALUE")
    lr, gamma     learning rate and weight of the discriminative loss; None: values that work without tuning
    average       the weights that predict are averaged: "auto" over a third of the steps since a class last appeared, at
                  most 500; a number d below 1 over about 1/(1 - d) steps; 0: they are those of the last step
    half_life     after so many further samples of its class a sample counts half, in memory and statistics; a class that is
                  not shown does not fade. "auto": once drift of a class is noticed (`drift_`), what was learned of it before
                  counts little; until then it is None: nothing ages. What has aged cannot be taken back sample by sample
    features      "fixed": each sample has the features of the first one, all of them finite numbers. "open": tables (frames,
                  dicts, arrays) may have missing values and categories, and features that come later (docs/own-data.md)
    device        "auto" (the GPU where there is one), "cpu", "cuda", or a torch.device
    seed          same seed, device, versions and number of threads: same bytes
    exam          samples of a class that are held out of learning, every tenth one up to this many, to calibrate probabilities
                  and novelty; 0: none, and probabilities are the model's own
    """

    def __init__(
        self,
        method: str | type[Method] = "auto",
        *,
        backbone: Any = "auto",
        memory_size: int = 1000,
        batch_size: int = 10,
        replay_size: int = 10,
        loss: str | None = None,
        classifier: str | None = None,
        lr: float | None = None,
        gamma: float | None = None,
        average: float | str = "auto",
        half_life: float | str | None = None,
        features: str = "fixed",
        device: str | torch.device = "auto",
        seed: int = 0,
        exam: int = 20,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.memory_size = memory_size
        self.batch_size = batch_size
        self.replay_size = replay_size
        self.loss = loss
        self.classifier = classifier
        self.lr = lr
        self.gamma = gamma
        self.average = average
        self.half_life = half_life
        self.features = features
        self.device = device
        self.seed = seed
        self.exam = exam
        _tell_river()

    # --- learning

    def fit(self, X: Any, y: Any) -> Self:
        """Start afresh and learn X once, in its order; `classes_` begins with the labels of y, sorted."""
        return self._learn(X, y, fresh=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn these samples now, each once; labels never seen before are welcome. `classes` registers labels ahead."""
        if sample_weight is not None:
            raise MnemonError("sample_weight is not supported: every sample counts once; leave it out.")
        return self._learn(X, y, classes, fresh=False)

    def _learn(self, X: Any, y: Any, classes: Any = None, *, fresh: bool) -> Self:
        X, y = arrays.drained(X), arrays.drained(y)
        with self._one_begins():
            model = None if fresh else self._model_or_none()
            # scikit-learn notes the features on the copy: nothing of us changes before the chunk is learned.
            face = copy.copy(self)
            if self.features == "open":
                with contextlib.nullcontext() if model is None else model.lock:
                    growth = face._grown(X, None if model is None else model.table)
                    found, ahead = self._labels(y, classes, fresh)
                    return self._take(model, growth.tensor(), found, ahead, None, growth)
            x = face._samples(X, model, learned=True)
            named = model is None and "feature_names_in_" in vars(face)
            names = rows.plain(face.feature_names_in_) if named else None
            found, ahead = self._labels(y, classes, fresh)
            return self._take(model, x, found, ahead, names)

    @staticmethod
    def _labels(y: Any, classes: Any, fresh: bool) -> tuple[list[Label], list[Label]]:
        """The labels of the samples, and those to be registered before them."""
        found = values.labels(y)
        return found, values.in_order(found) if fresh else [] if classes is None else values.labels(classes, "classes")

    def _one_begins(self) -> contextlib.AbstractContextManager[Any]:
        """The first chunk makes the model: other threads wait for it. Later chunks wait at the model's lock."""
        if self.__sklearn_is_fitted__():
            return contextlib.nullcontext()
        with _BEGINNING:
            lock: contextlib.AbstractContextManager[Any] = _BEGINNINGS.setdefault(self, threading.RLock())
            return lock

    def _take(
        self,
        model: Model | None,
        x: Tensor,
        y: list[Label],
        ahead: list[Label],
        names: list[Any] | None,
        growth: Growth | None = None,
    ) -> Self:
        """Learn a checked chunk, with a new model if there is none."""
        _check_lengths(x, y)
        if model is None:
            given, model = self.get_params(deep=False), self._new_model(x, names, growth)
        else:
            given = self._given
            changed = [
                name for name, value in self.get_params(deep=False).items() if not parameters.same(value, given[name])
            ]
            if changed:
                raise MnemonError(
                    f"{', '.join(changed)} changed after learning began, which takes effect with the next fit(); set it "
                    "back to go on with partial_fit()."
                )
        with model.grown(growth):
            said = model.learn(x, y, ahead)
        self._adopt(model, given)
        for sentence in said:
            warn(sentence)
        return self

    def _adopt(self, model: Model, given: dict[str, Any]) -> None:
        """Be the face of this model; `given` are the parameters it was made with."""
        if self._model_or_none() is model:
            if model.table is not None:
                self._note_features(model)
            return
        self._given = given
        self._beside: dict[str, Tensor] = {}  # saved with the model: what `mnemon fit` notes about it
        self._note_features(model)
        self._model = model  # last: who finds it finds the rest

    def _note_features(self, model: Model) -> None:
        """How many features there are and what they are called, as scikit-learn wants it; those that come later are added."""
        noted: dict[str, Any] = {}
        names = model.names if model.table is None else model.table.names
        if names is not None:
            noted["n_features_in_"] = len(names)
            if all(isinstance(name, str) for name in names):
                noted["feature_names_in_"] = np.array(names, object)
        elif len(model.inputs.shape) == 1 and not isinstance(self._given["backbone"], Embedding):
            noted["n_features_in_"] = model.inputs.shape[0]
        for name in {"n_features_in_", "feature_names_in_"} - noted.keys():
            self.__dict__.pop(name, None)
        self.__dict__.update(noted)

    def _new_model(self, x: Tensor, names: list[Any] | None, growth: Growth | None = None) -> Model:
        check_seed(self.seed)
        shape, pixels = tuple(x.shape[1:]), x.dtype == torch.uint8
        given = resolve(self.get_params(deep=False), shape)
        model = Model(
            parameters.choice(given, shape),
            Inputs(shape, x.dtype) if pixels else Inputs(shape, x.dtype, 0.0, 1.0),
            scaled=not pixels and isinstance(given["backbone"], str) and given["backbone"] != "identity",
            backbone=given["backbone"],
            seed=self.seed,
            device=choose_device(self.device),
            names=names,
            exam=parameters.exam(self.exam),
            half_life=self.half_life,
            guarded=True,
            table=None if growth is None else growth.table,
        )
        dictionary = self._dictionary()
        if dictionary is not None:
            model.begin_with(dictionary)
        return model

    # --- taking back: all of it or nothing, as with a chunk that is learned

    def forget(self, X: Any = None, y: Any = None, *, label: Label | None = None) -> Self:
        """Take back samples, forget(X, y), or a class, forget(label=...).

        Samples. method="slda": exact, as if they had never been learned (the dictionary alone keeps patches of the first
        images); a class without samples has probability 0. A network: all rows of the memory that equal one of them go, and
        copies of others stand in; its weights keep what they learned, and `n_seen_` counts it. `classes_` stays as it is.

        A class: it leaves `classes_` and `predict_proba`, whose other columns keep their order, and is never predicted again;
        `n_seen_` is less by its samples. If it comes again it is a new class, behind the others. method="slda": its count and
        mean go exactly, its part of the covariance that all classes share stays; give its samples first to take that back
        too. A network: its memory rows and class rows go, all other weights keep what they learned.
        """
        if (label is None) == (X is None) or (X is None) != (y is None):
            raise MnemonError("forget takes the samples and their labels, forget(X, y), or a class, forget(label=...).")
        model = self._fitted()
        if label is not None:
            taking_back.forget_class(model, values.labels([label], "label")[0])
            return self
        X, found = arrays.drained(X), values.labels(y)
        named = isinstance(X, list) and len(X) > 0 and isinstance(X[0], Mapping)  # as River has them
        with model.lock:  # the table must not grow meanwhile
            x = self._read(X, model, model.table, named=named, learned=True)
            _check_lengths(x, found)
            taking_back.forget_samples(model, x, found)
        return self

    def rename(self, names: Mapping[Label, Label]) -> Self:
        """Give classes other labels, {old: new}, all at once: {"a": "b", "b": "a"} swaps two.

        A class that gets the label of another is joined with it, in the column of the one that keeps its label (if all are
        renamed: in the first one's); the columns of the others keep their order. method="slda": exact, as if the samples of
        both had been learned under one label. A network: the memory's samples get the other label, the old class is not
        predicted any more, the weights keep what they learned.
        """
        if not isinstance(names, Mapping):
            raise MnemonError(f"rename takes a dict of old and new labels, not {type(names).__name__}.")
        old, new = values.labels(list(names), "names"), values.labels(list(names.values()), "names")
        taking_back.rename(self._fitted(), list(zip(old, new, strict=True)))
        return self

    def merge(self, other: OnlineClassifier) -> Self:
        """Take in what another one learned from other samples, which itself stays as it is; method="slda" only.

        Exact: as if this one had learned the samples of both. Both must have the same features: of images, the same
        dictionary, which `fresh` hands over. Classes are one where their labels are; new ones come behind those there are.
        """
        if not isinstance(other, OnlineClassifier):
            raise MnemonError(f"only another OnlineClassifier can be merged, not {type(other).__name__}.")
        taking_back.merge(self._fitted(), other._fitted())
        self._note_features(self._fitted())
        return self

    def fresh(self) -> Self:
        """One with the same parameters that has learned nothing. With method="slda" it has the same dictionary too, so that
        what several learn, on several machines say, can be merged later: load a model there, and take its fresh()."""
        made = type(self)(**self.get_params(deep=False))
        model = self._model_or_none()
        dictionary = self._dictionary() if model is None else model.dictionary()
        if dictionary is not None:
            made._handed_over = dictionary
        return made

    def _dictionary(self) -> OnlineStatistics | None:
        """The features that `fresh` handed over, as a learner that has them; None: there are none."""
        return vars(self).get("_handed_over")

    # --- prediction

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
        come to the same probability. Before, and with exam=0: the paper's Gaussian posterior for NCM, else the softmax of the
        scores."""
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
        return np.asarray(frozen.features(x).float().numpy())

    @property
    def _n_features_out(self) -> int:  # for the names of what `transform` returns
        return self._learned("_n_features_out").frozen().width

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; a label that was never learned counts as wrong. (`True` and `1` differ, which sklearn.metrics ignores.)"""
        frozen, x = self._asked(X)
        found = values.labels(y)
        _check_lengths(x, found)
        weights = None if sample_weight is None else values.weights(sample_weight, len(x))
        right = frozen.scores(x).argmax(1).numpy() == LabelTable(frozen.labels).find(found)
        return float(np.average(right, weights=weights))

    def _asked(self, X: Any) -> tuple[Frozen, Tensor]:
        """What predicts, and the samples. A thread that learns meanwhile changes neither."""
        model = self._fitted()
        frozen = model.frozen()
        return frozen, self._read(X, model, frozen.table)

    # --- River: one sample is a dict of features

    def clone(self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """A fresh one with these parameters, of which `new_params` are others; what was learned comes along only with
        `include_attributes`. River's ensembles make their members so."""
        given = self.get_params(deep=False) | dict(new_params or {})
        strange = sorted(given.keys() - set(self._get_param_names()))
        if strange:
            raise MnemonError(f"there is no parameter {strange[0]!r}; there are {', '.join(self._get_param_names())}.")
        learned = {name: value for name, value in vars(self).items() if include_attributes and name not in given}
        given, learned = copy.deepcopy((given, learned))  # in one go: the model knows its parameters by identity
        made = type(self)(**given)
        made.__dict__.update(learned)
        return made

    def learn_one(self, x: Mapping[Any, Any], y: Label) -> None:
        """Learn one sample now."""
        self._learn_rows([x], [y])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a frame (its columns may come in any order) or a list of dicts now."""
        self._learn_rows(X, y)

    def predict_one(self, x: Mapping[Any, Any], reject: float | None = None) -> Label | None:
        """The label; None before anything was learned, and, as in `predict`, where the model is unsure."""
        model, least = self._model_or_none(), calibration.probability(reject)
        if model is None:
            return None
        frozen = model.frozen()
        row = self._read([x], model, frozen.table, named=True)
        if least is not None and frozen.unsure(row, least)[0]:
            return None
        return frozen.labels[int(frozen.scores(row).argmax())]

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """The probability of each label seen; {} before anything was learned. (A dict cannot tell `True` from `1`.)"""
        model = self._model_or_none()
        if model is None:
            return {}
        frozen = model.frozen()
        p = frozen.probabilities(self._read([x], model, frozen.table, named=True))[0]
        return dict(zip(frozen.labels, p.tolist(), strict=True))

    def predict_many(self, X: Any) -> Any:
        """The labels of a frame (or a list of dicts), as a series with its index; empty before anything was learned."""
        import pandas as pd

        model = self._model_or_none()
        if model is None:
            return pd.Series(dtype=object)
        frozen, X = model.frozen(), rows.listed(X)
        best = frozen.scores(self._read(X, model, frozen.table, named=True)).argmax(1).numpy()
        return pd.Series(frozen.classes[best], index=rows.index(X))

    def predict_proba_many(self, X: Any) -> Any:
        """The probabilities for a frame (or a list of dicts), as a frame with a column for each label."""
        import pandas as pd

        model, X = self._model_or_none(), rows.listed(X)
        if model is None:
            return pd.DataFrame(index=rows.index(X))
        frozen = model.frozen()
        p = frozen.probabilities(self._read(X, model, frozen.table, named=True))
        return pd.DataFrame(p, index=rows.index(X), columns=frozen.classes)

    def _learn_rows(self, X: Any, y: Any) -> None:
        X = rows.listed(X)
        if self.features == "open" or isinstance(self.backbone, Embedding):
            self._learn(X, y, fresh=False)
            return
        found = values.labels(y)
        with self._one_begins():
            model = self._model_or_none()
            names = rows.names(X) if model is None else model.names
            x = rows.tensor(X, names, None if model is None else model.inputs, learned=True)
            self._take(model, x, found, [], names)

    # --- on disk

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned into the folder `path`: whole or not at all, and nothing in it can run code."""
        if not self.__sklearn_is_fitted__():
            raise NotFitted("there is nothing to save before something was learned.")
        saving.save(path, self._given, self._model, self._beside)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        backbone: Any = None,
        method: type[Method] | None = None,
        device: str | torch.device | None = None,
    ) -> Self:
        """What `save` wrote; learning goes on as if it had never stopped. A network or method of one's own is given again."""
        if method is not None:
            method_given(method)
        found = saving.load(path, cls._get_param_names(), backbone=backbone, method=method, device=device)
        made = cls._restored(path, found)
        served.warn_of_unlearned(path, found.beside)
        return made

    @classmethod
    def _restored(cls, path: str | os.PathLike[str], found: saving.Loaded) -> Self:
        made = cls(**found.params)
        try:
            parameters.choice(found.params)
        except MnemonError as error:
            raise MnemonError(f"the model {path} cannot be loaded: {error}") from None
        made._adopt(found.model, made.get_params(deep=False))
        made._beside = found.beside
        return made

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


# A lock for each classifier that begins; outside of it, since a lock can neither be copied nor pickled.
_BEGINNINGS: WeakKeyDictionary[OnlineClassifier, Any] = WeakKeyDictionary()
_BEGINNING = threading.Lock()


def _check_lengths(x: Tensor, y: list[Label]) -> None:
    if len(x) != len(y):
        raise MnemonError(f"X has {len(x)} samples and y {len(y)} labels; there must be one label a sample.")


def _tell_river() -> None:
    """River's metrics ask for its own base class; where River is loaded, we are registered as one."""
    if "river.base" in sys.modules:
        sys.modules["river.base"].Classifier.register(OnlineClassifier)
