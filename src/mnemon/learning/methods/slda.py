"""SLDA: fixed features and a Gaussian for each class with one covariance; what is learned are sums, nothing is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.errors import MnemonError
from mnemon.learning.method import Method
from mnemon.learning.options import option
from mnemon.learning.views import VIEWS

SMALLEST = 8  # pixels along a side: with fewer, patches of 6 × 6 have no places to be averaged over
LARGEST, LEAST = 48, 7  # images are halved to the first; what then has two places for patches along its shorter side


def are_images(shape: tuple[int, ...]) -> bool:
    """Whether patches, at their defaults, fit into samples of a shape; long and narrow images are vectors."""
    if len(shape) != 3 or min(shape[1:]) < SMALLEST:
        return False
    short, longer = sorted(shape[1:])
    while longer > LARGEST:
        short, longer = short // 2, longer // 2
    return short >= LEAST


@dataclass(frozen=True)
class SLDA(Method):
    """No gradient, no loss, no memory: `learning/streaming.py` learns, `learning/gaussian.py` has the statistics and
    `classifiers/gaussian.py` reads them. With `views` = 2 the mirror image of each sample is learned too, and at test the
    features of both are averaged."""

    name: ClassVar[str] = "slda"
    summary: ClassVar[str] = "streaming linear discriminant analysis on untrained patch features, no memory"
    citation: ClassVar[str] = "Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming LDA"
    cost: ClassVar[str] = "0.07"
    default_objective: ClassVar[str] = "none"
    default_classifier: ClassVar[str] = "gaussian"
    trains: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    keeps_statistics: ClassVar[bool] = True

    views: int = option(1, VIEWS, least=1, most=2)

    @classmethod
    def default_backbone(cls, shape: tuple[int, ...]) -> str | None:
        """Patches for images; vectors are features already."""
        return "patches" if are_images(shape) else "identity"

    def augmentation(self) -> str:
        return "none" if self.views == 1 else "mirror"

    def accept(self, shape: tuple[int, ...]) -> None:
        if self.views > 1 and len(shape) != 3:
            raise MnemonError(f"a mirror image needs images (channels, height, width), not samples of shape {shape}.")
