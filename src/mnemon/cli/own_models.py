"""`mnemon merge` and `export`: what is done with whole models of one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import unset
from mnemon.cli.output import count


def merge(
    models: Positional[
        Annotated[tuple[Path, ...], unset("folders of models that learned from different samples", "MODEL …")]
    ],
    *,
    out: Annotated[Path, arg(help="the new model's folder", metavar="MODEL")],
) -> None:
    """Make one model of several that learned from different samples, as if it had learned all of them.

    Works with method slda, exactly up to rounding; weights of networks do not add up. All must have the same features: models
    of images the same dictionary, which OnlineClassifier.fresh passes on. A file that two of them learned is refused.
    """
    from mnemon.own_data.taking_back import merge as join

    done = join(models, out)
    print(
        f"merged {len(models)} models\nmodel: {out} ({done.samples:,} samples learned, {count(len(done.labels), 'class')})"
    )


def export(
    model: Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]],
    format: Annotated[
        str, arg(metavar="onnx|torch", help="onnx, or torch (a .pt2 file for torch.export.load)")
    ] = "onnx",
    out: Annotated[Path | None, unset("the file to write", "FILE", "MODEL.onnx or MODEL.pt2")] = None,
) -> None:
    """Write a model as one file that needs no mnemon: features, classifier and label table inside.

    Input x: what the model learned, in its original form: images (n, height, width, channels) uint8 or vectors
    (n, features) float32. Outputs: index (n) into the label table, probabilities (n, classes), features (n, d). The label
    table is in the metadata, as JSON. ONNX needs the extra: pip install 'mnemon[export]'.
    """
    from mnemon.own_data.export import export as write

    print(write(model, out, format=format))


COMMANDS = tuple(Command(each.__name__, each) for each in (merge, export))
