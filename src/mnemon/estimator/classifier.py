"""OnlineClassifier: scikit-learn's conventions and River's protocol around one model that never stops learning."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.estimator import parameters, rows, saving, served, taking_back, values
from mnemon.estimator.auto import resolve
from mnemon.estimator.embedding import Embedding
from mnemon.estimator.model import Model
from mnemon.estimator.predicting import NotFitted, check_lengths
from mnemon.estimator.river import RiverEstimator, register
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.table import Growth
from mnemon.learning.labels import Label
from mnemon.learning.learner import Inputs
from mnemon.learning.method import Method
from mnemon.learning.methods import given as method_given
from mnemon.rng import check_seed
from mnemon.runtime.device import choose_device
from mnemon.runtime.warn import warn


class OnlineClassifier(RiverEstimator):
    """A classifier that learns from a stream: every sample once, new labels at any time, old ones not forgotten.

    method        "auto", a name of `mnemon.methods()`, or a Method class of one's own. "auto" looks at the first samples, and
                  `resolved_` says what it took. Images of at least 8 × 8 pixels, not long and narrow: "slda" on patches
                  (backbone="patches:power=0.5:threshold=0.5", classifier="gaussian:lam=auto"). Vectors, tables and smaller
                  images: "hybrid" with classifier="ridge", a network. Embeddings (backbone="identity", an Embedding, or a
                  module without a parameter to be trained): "slda", classifier="gaussian:lam=auto". A network wherever
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
    views         2: "slda" also learns the mirror image of each image, and predicts by the average of both; for photos, not
                  for letters or digits. ("scr" and "pcr" learn a second view that is shifted and mirrored at random.) None:
                  the method's own number, 1
    features      "fixed": each sample has the features of the first one, all of them finite numbers. "open": tables (frames,
                  dicts, arrays) may have missing values and categories, and features that come later (docs/classifier.md)
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
        views: int | None = None,
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
        self.views = views
        self.features = features
        self.device = device
        self.seed = seed
        self.exam = exam
        register(OnlineClassifier)

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
    def _labels(y: Any, classes: Any, fresh: bool) -> tuple[list[Label] | values.Numbers, list[Label]]:
        """The labels of the samples, and those to be registered before them."""
        found = values.label_column(y)
        if fresh:
            return found, values.in_order(found)
        return found, [] if classes is None else values.labels(classes, "classes")

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
        y: list[Label] | values.Numbers,
        ahead: list[Label],
        names: list[Any] | None,
        growth: Growth | None = None,
    ) -> Self:
        """Learn a checked chunk, with a new model if there is none."""
        check_lengths(x, y)
        if model is None:
            given, model = self.get_params(deep=False), self._new_model(x, names, growth)
        else:
            given = self._given
            changed = [name for name, value in given.items() if not parameters.same(getattr(self, name), value)]
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
        try:
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
        except RuntimeError as error:
            if "allocate" not in str(error):  # as PyTorch says it
                raise
            raise MnemonError(
                f"the network for samples of {values.kind(shape, x.dtype)} does not fit into the memory of this machine."
            ) from None
        if pixels and model.choice.method.trains:
            values.warn_of_dark_pixels(x)
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
            taking_back.forget_class(model, values.label(label, "label"))
            return self
        X, found = arrays.drained(X), values.labels(y)
        named = isinstance(X, list) and len(X) > 0 and isinstance(X[0], Mapping)  # as River has them
        with model.lock:  # the table must not grow meanwhile
            x = self._read(X, model, model.table, named=named, learned=True)
            check_lengths(x, found)
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
        pairs = [(values.label(old, "names"), values.label(new, "names")) for old, new in names.items()]
        taking_back.rename(self._fitted(), pairs)
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


# A lock for each classifier that begins; outside of it, since a lock can neither be copied nor pickled.
_BEGINNINGS: WeakKeyDictionary[OnlineClassifier, Any] = WeakKeyDictionary()
_BEGINNING = threading.Lock()
