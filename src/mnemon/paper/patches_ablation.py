"""The ablation of the patches, on validation samples: one thing is changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.experiments.spec import Spec
from mnemon.paper.beyond import BOTH_VIEWS, GAUSSIAN, patches
from mnemon.paper.results import Results

STREAMS = ("split-cifar10", "split-cifar100-20")
SEEDS = (100, 101, 102)
FILTERS = 256  # where nothing else is said


class Ablation(NamedTuple):
    """One line: what is changed, and how."""

    changed: str
    label: str
    backbone: str = patches(FILTERS)
    options: Mapping[str, Any] = BOTH_VIEWS
    classifier: str = GAUSSIAN

    def spec(self, stream: str, seed: int) -> Spec:
        about = ("slda", stream, seed, "none", (self.classifier,), "valid")
        return Spec(*about, options=dict(self.options), cell="ablation", backbone=self.backbone)


LINES = (
    Ablation("filters", "patches of the first images"),
    Ablation("filters", "noise", patches(FILTERS, source="noise")),
    Ablation("covariance", "shared by all classes"),
    Ablation("covariance", "the identity: nearest class mean", classifier="gaussian:covariance=identity"),
    Ablation("views", "the image and its mirror image"),
    Ablation("views", "the image", options={"views": 1}),
    *(Ablation("power of the features", str(p), patches(FILTERS, power=p)) for p in (0.5, 1.0)),
    *(Ablation("soft threshold α", str(t), patches(FILTERS, threshold=t)) for t in (0.25, 0.5)),
    *(Ablation("shrinkage λ", lam, classifier=f"gaussian:lam={lam}") for lam in ("0.0001", "0.001", "0.01")),
    *(Ablation("filters K", str(k), patches(k)) for k in (64, 128, 256, 512, 1024)),
    *(Ablation("images of the dictionary", str(n), patches(FILTERS, images=n)) for n in (10, 100, 1000)),
)

# Many filters on a short stream, and the shrinkages that the same trainings are read with; the first is that of the rows.
SHORT_STREAM = "smooth-cifar10"
SHRINKAGE = {
    f"K {k}": [
        Ablation("shrinkage λ", lam, patches(k), classifier=f"gaussian:lam={lam}")
        for lam in ("0.0001", "0.001", "0.01", "0.1")
    ]
    for k in (512, 1024)
}


def known_lines() -> list[Ablation]:
    """The lines that this version can make."""
    found = []
    for each in LINES:
        try:
            each.spec(STREAMS[0], SEEDS[0]).choice()
        except MnemonError:
            continue
        found.append(each)
    return found


def validated(results: Results, each: Ablation, stream: str) -> dict[int, float]:
    """Validation accuracy of a line by seed."""
    spec = each.spec(stream, SEEDS[0])
    return results.runs(spec, spec.classifiers[0], SEEDS).values
