"""`mnemon fit`, `predict`, `evaluate` and `export`: a model of a folder of images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import Device, Quiet, flag, unset
from mnemon.cli.output import printable, table
from mnemon.errors import MnemonError

Model = Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]]
Folder = Positional[Annotated[Path, arg(help="a folder with one sub-folder of images per class", metavar="FOLDER")]]


def _new(text: str, default: str, metavar: str = "NAME") -> Any:
    """Describe an option that is fixed once the model is made."""
    return arg(help=text, metavar=metavar, help_behavior_hint=f"(for a new model: {default})")


def fit(
    folder: Folder,
    out: Annotated[Path, arg(help="the model's folder: a new one, or a model that goes on learning", metavar="MODEL")],
    order: Annotated[
        str,
        arg(
            metavar="ORDER",
            help="shuffled (by the seed), time (files as they were last modified), or by-class (one after the other)",
        ),
    ] = "shuffled",
    size: Annotated[
        int | None, _new("bring images to this many pixels a side: short side, then crop", "32", "PIXELS")
    ] = None,
    method: Annotated[str | None, _new("how it learns; `mnemon list methods`", "hybrid")] = None,
    loss: Annotated[str | None, _new("another loss; `mnemon list losses`", "the method's")] = None,
    classifier: Annotated[str | None, _new("another classifier; `mnemon list classifiers`", "the method's")] = None,
    backbone: Annotated[
        str | None, _new("the network: auto, mlp or resnet18", "auto, a small ResNet-18; an MLP below 25 pixels a side")
    ] = None,
    memory_size: Annotated[int | None, _new("images kept for replay and class means", "1000", "INT")] = None,
    batch_size: Annotated[int | None, _new("new images per step", "10", "INT")] = None,
    replay_size: Annotated[int | None, _new("images of the memory per step", "10", "INT")] = None,
    lr: Annotated[float | None, _new("learning rate", "one that works without tuning", "FLOAT")] = None,
    gamma: Annotated[
        float | None, _new("weight of the discriminative loss", "one that works without tuning", "FLOAT")
    ] = None,
    seed: Annotated[int | None, _new("of the network, the replay and the shuffling", "0", "INT")] = None,
    device: Device = "auto",
    save_every: Annotated[float, arg(metavar="SECONDS", help="seconds between saves")] = 30.0,
    quiet: Quiet = False,
) -> None:
    """Learn a folder of images, a sub-folder per class, each image once; later folders may bring new classes.

    Each image is predicted before it is learned, which gives the running test-then-train accuracy (MODEL/log.json has its
    course). Stop it whenever you like: the same command goes on, and each file is learned exactly once. Later, other folders
    can bring more images and new classes; options left out are then the model's. A file that cannot be read is named and
    left out.
    """
    from mnemon.image_folder.fit import fit as learn
    from mnemon.image_folder.journal import LATELY
    from mnemon.runtime.progress import Progress

    done = learn(
        folder,
        out,
        order=order,
        size=size,
        save_every=save_every,
        device=device,
        progress=Progress(quiet=quiet),
        method=method,
        loss=loss,
        classifier=classifier,
        backbone=backbone,
        memory_size=memory_size,
        batch_size=batch_size,
        replay_size=replay_size,
        lr=lr,
        gamma=gamma,
        seed=seed,
    )
    aside = [f"{done.known:,} were known already"] * bool(done.known)
    aside += [f"{done.skipped:,} could not be read"] * bool(done.skipped)
    print(f"learned {done.learned:,} images" + (f" ({', '.join(aside)})" if aside else ""))
    accuracy, lately = done.journal.accuracy(), done.journal.lately()
    if accuracy is not None:
        line = f"test-then-train accuracy: {accuracy:.1f} % of {done.journal.predicted:,} images"
        print(line + (f"; of the last {LATELY:,}: {lately:.1f} %" if done.journal.predicted > LATELY else ""))
    print(f"model: {out} ({done.samples:,} images learned, {len(done.labels):,} classes)")


def predict(
    model: Model,
    images: Positional[Annotated[tuple[str, ...], unset("image files, folders of images, or patterns", "IMAGE …")]],
    top: Annotated[int, arg(metavar="N", help="how many labels to show, the likeliest first")] = 1,
    json: Annotated[bool, flag("one JSON object a line instead")] = False,
    device: Device = "auto",
) -> None:
    """Label images: for each file its class and how sure the model is.

    A file that cannot be read gets one sentence; the others are predicted, and the exit code is 2.
    """
    import json as format_json

    from mnemon.image_folder.images import ImageModel
    from mnemon.image_folder.predict import images as named
    from mnemon.image_folder.predict import predict as guess

    if not images:
        raise MnemonError("name at least one image, folder or pattern to predict.")
    paths = named(images)
    unread = 0
    for found in guess(ImageModel.load(model, device), paths, top):
        if json:
            line: dict[str, Any] = {"image": str(found.path)}
            if found.error is None:
                best = found.guesses[0]
                line |= {"label": best.label, "confidence": best.confidence}
                line |= {"top": [each._asdict() for each in found.guesses]} if top > 1 else {}
            else:
                line["error"] = found.error
            print(format_json.dumps(line), flush=True)
        elif found.error is None:
            labels = "   ".join(f"{printable(each.label)} {100 * each.confidence:.1f} %" for each in found.guesses)
            print(f"{printable(found.path)}   {labels}", flush=True)
        if found.error is not None:
            unread += 1
            print(f"mnemon: {found.error}", file=sys.stderr)
    if unread:
        raise MnemonError(f"{unread:,} of {len(paths):,} images could not be read.")


def evaluate(
    model: Model,
    folder: Folder,
    out: Annotated[Path, arg(help="folder for evaluation.html and confusion.png")] = Path("out/evaluation"),
    json: Annotated[bool, flag("one JSON object instead of the table")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Test a model on a folder of images it has not learned: accuracy, per class, and who is taken for whom.

    Writes one self-contained HTML page and the confusion matrix as a picture. A class the model never met counts as wrong;
    a file that cannot be read is named and does not count.
    """
    import json as format_json

    from mnemon.image_folder import page
    from mnemon.image_folder.evaluate import evaluate as judge
    from mnemon.image_folder.images import ImageModel
    from mnemon.image_folder.places import check_no_model, check_outside
    from mnemon.runtime.progress import Progress

    check_no_model(out)
    check_outside(out, folder)
    found = judge(ImageModel.load(model, device), folder, progress=Progress(quiet=quiet))
    html, picture = page.write(found, out, model=model.name, data=folder.name)
    if json:
        print(format_json.dumps(found.as_json() | {"page": str(html), "picture": str(picture)}))
        return
    rows = [
        (
            printable(c.label),
            f"{c.images:,}",
            f"{c.accuracy:.1f}",
            "–" if c.precision is None else f"{c.precision:.1f}",
            printable(c.taken_for or "–") if c.learned else "never learned",
        )
        for c in found.classes()
    ]
    head = ("class", "images", "accuracy, %", "precision, %", "most often taken for")
    table(f"{found.accuracy:.1f} % right: {found.right:,} of {found.images:,} images", head, rows, right=1)
    print(f"page: {html}\npicture: {picture}")


def export(
    model: Model,
    format: Annotated[
        str, arg(metavar="onnx|torch", help="onnx, or torch (a .pt2 file for torch.export.load)")
    ] = "onnx",
    out: Annotated[Path | None, unset("the file to write", "FILE", "MODEL.onnx or MODEL.pt2")] = None,
) -> None:
    """Write a model as one file that needs no mnemon: features, class means and label table inside.

    Input x: what the model learned, as it came: images (n, height, width, channels) uint8 or vectors (n, features) float32.
    Outputs: index (n) into the label table, probabilities (n, classes), features (n, d). The label table is in the metadata,
    as JSON. ONNX needs the extra: pip install 'mnemon[export]'.
    """
    from mnemon.image_folder.export import export as write

    print(write(model, out, format=format))


COMMANDS = (Command("fit", fit), Command("predict", predict), Command("evaluate", evaluate), Command("export", export))
