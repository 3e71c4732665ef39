"""Options that say what a new model is: `fit`, `learn` and `serve` share them. A model that is there has its own."""

from __future__ import annotations

from typing import Annotated, Any

from tyro.conf import arg

from mnemon.errors import MnemonError


def of_new_model(text: str, default: str, metavar: str = "NAME") -> Any:
    """Describe an option that is fixed once the model is made."""
    return arg(help=text, metavar=metavar, help_behavior_hint=f"(for a new model: {default})")


NewMethod = Annotated[
    str | None, of_new_model("how it learns; `mnemon list methods`", "auto, by the kind of the samples")
]
NewBackbone = Annotated[str | None, of_new_model("what computes the features of a sample", "auto")]
NewMemorySize = Annotated[int | None, of_new_model("samples kept for replay and class means", "1000", "INT")]
NewBatchSize = Annotated[int | None, of_new_model("new samples per step", "10", "INT")]
NewRate = Annotated[float | None, of_new_model("learning rate", "one that works without tuning", "FLOAT")]
NewHalfLife = Annotated[
    str | None,
    of_new_model(
        "samples of a class after which an older one counts half; auto: what was learned before a drift counts little",
        "nothing ages",
        "N|auto",
    ),
]
NewViews = Annotated[
    int | None,
    of_new_model(
        "2: slda learns the mirror image of each image too; for photos, not for letters or digits", "1", "1|2"
    ),
]
NewExam = Annotated[
    int | None,
    of_new_model(
        "samples of a class held out of learning, to calibrate confidence and to measure what was forgotten",
        "20",
        "INT",
    ),
]
NewSeed = Annotated[int | None, of_new_model("seed of the network and the replay", "0", "INT")]
NewSize = Annotated[int | None, of_new_model("bring images to this many pixels per side", "32", "PIXELS")]


def aging(text: str | None) -> float | str | None:
    """The value of --half-life."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise MnemonError(f"--half-life is a number of samples of a class, or auto, not {text!r}.") from None
