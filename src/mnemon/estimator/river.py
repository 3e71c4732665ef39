"""What River's own checks ask of an estimator beside its protocol; River itself is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from mnemon.errors import MnemonError

# Features that come and go are refused by fixed features; open ones take them.
OPEN_ALONE = {"check_emerging_features", "check_disappearing_features", "check_radically_disappearing_features"}

# The one compares pickles byte by byte, and those of one tensor differ each time; the other compares dir(),
# to which copyreg adds a name when a class is first copied.
OF_PICKLES = {"check_no_state_aliasing_with_input", "check_clone_changes_memory_addresses"}


class RiverEstimator:
    """The part of an OnlineClassifier by which `river.checks` and River's ensembles know it as one of theirs."""

    _supervised: ClassVar[bool] = True
    _multiclass: ClassVar[bool] = True
    features: str

    @property
    def _tags(self) -> set[str]:
        return set()

    def _get_params(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))  # type: ignore[attr-defined]

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
        model = self._model_or_none()  # type: ignore[attr-defined]
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
        return OF_PICKLES if self.features == "open" else OF_PICKLES | OPEN_ALONE
