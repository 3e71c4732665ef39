"""`mnemon fit`, `predict` and `evaluate`: a model of one's own images, tables or arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.new_model import (
    NewBatchSize,
    NewHalfLife,
    NewMemorySize,
    NewMethod,
    NewRate,
    NewViews,
    aging,
    of_new_model,
)
from mnemon.cli.options import Device, Quiet, flag, unset
from mnemon.cli.output import count, printable, table
from mnemon.cli.table_options import (
    BEFORE,
    NAMES,
    Category,
    Id,
    Ignore,
    Label,
    Labels,
    Missing,
    Separator,
    columns,
)
from mnemon.errors import MnemonError

if TYPE_CHECKING:
    from mnemon.own_data.evaluate import Evaluation
    from mnemon.own_data.predict import Predicted
    from mnemon.readers.columns import Columns

SOURCE = (
    "a folder with one sub-folder of images per class, a table (.csv, .tsv, .ndjson, .parquet), or arrays (.npz, .npy)"
)
Model = Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]]
Source = Positional[Annotated[Path, arg(help=SOURCE, metavar="SOURCE")]]


def fit(
    source: Positional[Annotated[Path | None, unset(SOURCE, "SOURCE")]] = None,
    *,
    out: Annotated[Path, arg(help="the model's folder: a new one, or a model that is to learn more", metavar="MODEL")],
    label: Label = None,
    labels: Labels = None,
    id: Id = None,
    ignore: Ignore = (),
    category: Category = (),
    missing: Missing = (),
    separator: Separator = None,
    bad: Annotated[
        str | None,
        unset(
            "what a row that cannot be learned does: stop (the rows before it are learned and saved), skip",
            "stop|skip",
            "stop",
        ),
    ] = None,
    forget: Annotated[
        str | None,
        unset(
            "instead of learning, unlearn this class: it is never predicted again. slda removes its mean and count; a network "
            "its memory and class rows, while all other weights keep what they learned",
            "LABEL",
        ),
    ] = None,
    order: Annotated[
        str | None,
        unset(
            "of images: shuffled (by the seed), time (files as they were last modified), or by-class (one after the other)",
            "ORDER",
            "shuffled",
        ),
    ] = None,
    size: Annotated[
        int | None,
        of_new_model(
            "bring images to this many pixels per side: the short side is resized, the centre is cut out",
            "32",
            "PIXELS",
        ),
    ] = None,
    method: NewMethod = None,
    loss: Annotated[str | None, of_new_model("another loss; `mnemon list losses`", "the method's")] = None,
    classifier: Annotated[
        str | None, of_new_model("another classifier; `mnemon list classifiers`", "the method's")
    ] = None,
    backbone: Annotated[
        str | None,
        of_new_model(
            "what computes the features of a sample; `mnemon list backbones`",
            "auto, by the method: patches of images, an MLP for rows",
        ),
    ] = None,
    memory_size: NewMemorySize = None,
    batch_size: NewBatchSize = None,
    replay_size: Annotated[int | None, of_new_model("samples of the memory per step", "10", "INT")] = None,
    lr: NewRate = None,
    gamma: Annotated[
        float | None, of_new_model("weight of the discriminative loss", "one that works without tuning", "FLOAT")
    ] = None,
    half_life: NewHalfLife = None,
    views: NewViews = None,
    exam: Annotated[
        int | None, of_new_model("samples of a class held out of learning, to calibrate confidence", "20", "INT")
    ] = None,
    seed: Annotated[int | None, of_new_model("seed of the network, the replay and the shuffling", "0", "INT")] = None,
    device: Device = "auto",
    on: Annotated[
        str | None,
        unset("ray: learn shards on a Ray cluster and merge them, for slda (docs/scale.md)", "ray", "this machine"),
    ] = None,
    save_every: Annotated[float, arg(metavar="SECONDS", help="seconds between saves")] = 30.0,
    quiet: Quiet = False,
) -> None:
    """Learn a folder of images, a table or arrays, each sample once; later ones may bring new classes.

    Some samples are predicted before they are learned: this is the test-then-train accuracy, which MODEL/log.json has chunk
    by chunk. You can stop the command at any time: the same command continues, and each file and row is learned exactly once.
    Rows that are added to a table later are learned by the same command; a table whose learned rows changed is refused. A
    model that exists keeps its options. An image that cannot be read is named and left out.
    """
    from mnemon.own_data.fit import fit as learn
    from mnemon.own_data.journal import LATELY
    from mnemon.runtime.progress import Progress

    if forget is not None:
        _forget(source, out, forget)
        return
    if source is None:
        raise MnemonError("fit needs SOURCE; see `mnemon fit --help`.")
    done = learn(
        source,
        out,
        order=order,
        size=size,
        columns=columns(label, id, ignore, category, missing, separator),
        labels=labels,
        bad=bad,
        save_every=save_every,
        device=device,
        on=on,
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
        half_life=aging(half_life),
        views=views,
        exam=exam,
        seed=seed,
    )
    unit = done.unit
    aside = [f"{done.known:,} were known already"] * bool(done.known)
    aside += [f"{done.skipped:,} could not be {'read' if unit == 'images' else 'learned'}"] * bool(done.skipped)
    rate = f", {done.learned / max(done.seconds, 1e-3):,.0f} per second" if done.learned else ""
    print(f"learned {count(done.learned, unit[:-1])}" + (f" ({', '.join(aside)})" if aside else "") + rate)
    accuracy, lately = done.journal.accuracy(), done.journal.lately()
    if accuracy is not None:
        line = (
            f"test-then-train accuracy: {accuracy:.1f} % of {done.journal.predicted:,} {unit} predicted before learning"
        )
        print(line + (f"; of the last {LATELY:,}: {lately:.1f} %" if done.journal.predicted > LATELY else ""))
    print(f"model: {out} ({count(done.samples, unit[:-1])} learned, {count(len(done.labels), 'class')})")


def _forget(source: Path | None, out: Path, label: str) -> None:
    from mnemon.own_data.taking_back import forget

    if source is not None:
        raise MnemonError("--forget stands alone: give no SOURCE with it, and learn with another command.")
    print(f"forgot the class {printable(forget(out, label))}; model: {out}")


def predict(
    model: Model,
    sources: Positional[
        Annotated[tuple[str, ...], unset("image files, folders of images, patterns, or one table or array", "SOURCE …")]
    ],
    out: Annotated[
        Path | None, unset("write the predictions to this file: .csv, .ndjson or .parquet", "FILE", "print them")
    ] = None,
    label: Annotated[
        str | None,
        unset("a column of a table that holds labels and is left out", "COLUMN", BEFORE),
    ] = None,
    id: Annotated[
        str | None, unset("a column that names the row; not a feature, and written beside its prediction", "COLUMN")
    ] = None,
    ignore: Ignore = (),
    category: Category = (),
    missing: Missing = (),
    separator: Separator = None,
    top: Annotated[int, arg(metavar="N", help="how many labels to show, the likeliest first")] = 1,
    reject: Annotated[float | None, unset("no label where the model is less sure than this, 0 to 1", "P")] = None,
    json: Annotated[bool, flag("one JSON object per line instead")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Label images or the rows of a table: for each its class and how sure the model is.

    With --reject what the model is not sure enough of, or what is far from all it has learned, is "unsure"; in a file its
    label is empty, in JSON null.

    An image or row that cannot be read gets one sentence; the others are predicted, and the exit code is 2. A file is written
    whole or not at all.
    """
    import json as format_json

    from mnemon.own_data import scores
    from mnemon.own_data.places import check_no_model, check_no_source, check_there
    from mnemon.runtime.progress import Progress

    check_there(model)
    if not sources:
        raise MnemonError("name at least one image, folder, pattern or table to predict.")
    if out is not None:
        scores.check(out)
        check_no_model(out)
        check_no_source(out, sources)
    given = columns(label, id, ignore, category, missing, separator)
    key, total, predictions = _predictions(model, sources, given, top, reject, device)
    unread = read = 0

    def told() -> Iterator[Predicted]:
        nonlocal unread, read
        for found in predictions:
            read += 1
            if found.error is not None:
                unread += 1
                print(f"mnemon: {found.error}", file=sys.stderr)
            yield found

    if out is not None:
        unit = "images" if key == "image" else "rows"
        with Progress(quiet=quiet).stage(f"predict {unit}", total, unit=unit) as bar:

            def counted() -> Iterator[Predicted]:
                for found in told():
                    bar.advance(1)
                    yield found

            scores.write(counted(), out, key=key, top=top)
        print(f"predictions of {count(read, unit.removesuffix('s'))}: {out}")
    else:
        for found in told():
            if json:
                print(format_json.dumps(scores.as_json(found, key, top)), flush=True)
            elif found.error is None:
                best = "   ".join(f"{printable(each.label)} {100 * each.confidence:.1f} %" for each in found.guesses)
                name = found.name if found.id is None else found.id
                print(f"{printable(name)}   {'unsure: ' * found.unsure}{best}", flush=True)
    if unread:
        raise MnemonError(f"{unread:,} of {count(read, 'image' if key == 'image' else 'row')} could not be read.")


def _predictions(
    model: Path,
    sources: tuple[str, ...],
    given: Columns,
    top: int,
    reject: float | None,
    device: str,
) -> tuple[str, int | None, Iterator[Predicted]]:
    """What a prediction is named by, how many there are if that is known, and the predictions."""
    from mnemon.own_data import predict as predicting
    from mnemon.own_data.images import ImageModel
    from mnemon.own_data.readers import is_table
    from mnemon.own_data.tables import open_table
    from mnemon.readers.columns import NONE

    tables = [Path(word) for word in sources if is_table(Path(word)) and not Path(word).is_dir()]
    if not tables:
        if given != NONE:
            raise MnemonError(f"{NAMES} are for tables.")
        paths = predicting.images(sources)
        return "image", len(paths), predicting.predict(ImageModel.load(model, device), paths, top, reject)
    if len(sources) > 1:
        raise MnemonError("tables and arrays are predicted one at a time, and not beside images.")
    classifier, reader = open_table(model, tables[0], given, device=device)
    return reader.key, None, predicting.predict_rows(classifier, reader, top, reject)


def evaluate(
    model: Model,
    source: Source,
    label: Label = None,
    labels: Labels = None,
    id: Id = None,
    ignore: Ignore = (),
    category: Category = (),
    missing: Missing = (),
    separator: Separator = None,
    out: Annotated[Path, arg(help="folder for evaluation.html and confusion.png")] = Path("out/evaluation"),
    json: Annotated[bool, flag("one JSON object instead of the table")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Test a model on labelled samples: accuracy, overall and per class, and which class is taken for which.

    Writes one self-contained HTML page and the confusion matrix as a picture. A class that the model never learned counts
    as wrong; an image or row that cannot be read is named and does not count.
    """
    import json as format_json

    from mnemon.own_data import page
    from mnemon.own_data.evaluate import evaluate as judge
    from mnemon.own_data.evaluate import evaluate_rows
    from mnemon.own_data.images import ImageModel
    from mnemon.own_data.places import check_no_model, check_outside, check_there
    from mnemon.own_data.readers import is_table
    from mnemon.own_data.tables import open_table
    from mnemon.readers.columns import NONE
    from mnemon.runtime.progress import Progress

    check_there(model)
    check_no_model(out)
    progress, given = Progress(quiet=quiet), columns(label, id, ignore, category, missing, separator)
    if source.is_file() or is_table(source):
        classifier, reader = open_table(model, source, given, labels, device=device)
        found = evaluate_rows(classifier, reader, source.name, progress=progress)
    else:
        if given != NONE or labels is not None:
            raise MnemonError(f"{NAMES} are for tables and arrays.")
        check_outside(out, source)
        found = judge(ImageModel.load(model, device), source, progress=progress)
    unwritten, pages = None, {}
    try:
        html, picture = page.write(found, out, model=model.name, data=source.name)
        pages = {"page": str(html), "picture": str(picture)}
    except MnemonError as error:  # what was found is printed all the same
        unwritten = error
    if json:
        print(format_json.dumps(found.as_json() | pages))
    else:
        _print(found)
        print(*(f"{name}: {path}" for name, path in pages.items()), sep="\n")
    if unwritten is not None:
        raise unwritten


def _print(found: Evaluation) -> None:
    rows = [
        (
            printable(c.label),
            f"{c.samples:,}",
            f"{c.accuracy:.1f}",
            "–" if c.precision is None else f"{c.precision:.1f}",
            printable(c.taken_for or "–") if c.learned else "never learned",
        )
        for c in found.classes()
    ]
    head = ("class", f"{found.unit}s", "accuracy, %", "precision, %", "most often taken for")
    title = f"{found.accuracy:.1f} % right: {found.right:,} of {found.samples:,} {found.unit}s"
    table(title, head, rows, right=1)


COMMANDS = tuple(Command(each.__name__, each) for each in (fit, predict, evaluate))
