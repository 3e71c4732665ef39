"""River's protocol, by which one sample is a dict of features, and what its own checks ask; River itself is not needed."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from mnemon.errors import MnemonError
from mnemon.estimator import calibration, rows, values
from mnemon.estimator.auto import resolve
from mnemon.estimator.predicting import Predictor
from mnemon.learning.labels import Label
from mnemon.learning.methods import given as method_given

# Features that come and go are refused by fixed features; open ones take them.
OPEN_ALONE = {"check_emerging_features", "check_disappearing_features", "check_radically_disappearing_features"}

# The one compares pickles byte by byte, and those of one tensor differ each time; the other compares dir(),
# to which copyreg adds a name when a class is first copied.
OF_PICKLES = {"check_no_state_aliasing_with_input", "check_clone_changes_memory_addresses"}

# Fixed features are the keys of the first sample in their order, by which arrays are read later; a network depends on it.
OF_ORDER = {"check_shuffle_features_no_impact"}


class RiverEstimator(Predictor):
    """The part of an OnlineClassifier by which `river.checks` and River's ensembles know it as one of theirs."""

    _supervised: ClassVar[bool] = True
    _multiclass: ClassVar[bool] = True

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
        self._learn_rows([x], [values.label(y)])

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
        raise NotImplementedError

    # --- what its checks and ensembles ask

    @property
    def _tags(self) -> set[str]:
        return set()

    def _get_params(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()

    @property
    def _is_stochastic(self) -> bool:
        """Same seed, same bytes: nothing is left to chance."""
        return False

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes of the learner's state: all that grows."""
        model = self._model_or_none()
        return 0 if model is None else sum(tensor.nbytes for tensor in model.learner.state().values())

    def mutate(self, new_attrs: Mapping[str, Any]) -> None:
        """River's way to change parameters of a model that has learned; none of ours can be."""
        if new_attrs:
            raise MnemonError(
                f"{', '.join(map(str, new_attrs))} cannot be changed after learning began; clone({{...}}) makes another one."
            )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    def _unit_test_skips(self) -> set[str]:
        if self.features == "open":
            return OF_PICKLES
        chosen = resolve(self.get_params(deep=False), (1,))["method"]  # of vectors, which dicts are
        return OF_PICKLES | OPEN_ALONE | (set() if method_given(chosen).keeps_statistics else OF_ORDER)


def register(kind: type) -> None:
    """River's metrics ask for its own base class; where River is loaded, `kind` is registered as one."""
    if "river.base" in sys.modules:
        sys.modules["river.base"].Classifier.register(kind)
