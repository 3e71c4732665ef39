"""`mnemon learn`: a model that learns from files and folders that may still grow."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.new_model import (
    NewBackbone,
    NewBatchSize,
    NewExam,
    NewHalfLife,
    NewMemorySize,
    NewMethod,
    NewRate,
    NewSeed,
    NewSize,
    NewViews,
    aging,
)
from mnemon.cli.options import Device, Quiet, flag, unset
from mnemon.cli.table_options import Missing, Separator, columns
from mnemon.errors import MnemonError, check_known
from mnemon.files import explained

if TYPE_CHECKING:
    from mnemon.readers.columns import Columns
    from mnemon.serve.service import Service
    from mnemon.sources.table import Rules

logger = logging.getLogger(__name__)
Model = Positional[
    Annotated[Path, arg(help="the model's folder: a new one, or a model that is to learn more", metavar="MODEL")]
]
Sources = Positional[
    Annotated[
        tuple[str, ...],
        unset("files (.ndjson, .csv, .tsv, .parquet, .tar), folders of class folders, or - for stdin", "SOURCE …"),
    ]
]
FORMATS = {".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".tar": "tar"}


def learn(
    model: Model,
    sources: Sources,
    label: Annotated[
        str | None,
        unset("the column with the label", "NAME", "as `mnemon fit` had it; else label, y, class or target"),
    ] = None,
    format: Annotated[
        str | None, unset("ndjson, csv, parquet or tar", "NAME", "by the name of the file; stdin: ndjson")
    ] = None,
    missing: Missing = (),
    separator: Separator = None,
    follow: Annotated[bool, flag("continue as files grow and images are added, until the command is stopped")] = False,
    skip_bad: Annotated[bool, flag("name rows that cannot be learned, leave them out and continue")] = False,
    method: NewMethod = None,
    backbone: NewBackbone = None,
    memory_size: NewMemorySize = None,
    batch_size: NewBatchSize = None,
    lr: NewRate = None,
    half_life: NewHalfLife = None,
    views: NewViews = None,
    exam: NewExam = None,
    seed: NewSeed = None,
    size: NewSize = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Learn from files, folders and stdin, each row exactly once: the same command continues where it stopped or was killed.

    A row of NDJSON is {"x": …, "y": …} or an object of features with the label among them; CSV and Parquet have columns. A tar
    file holds NAME.png beside NAME.cls. With --follow files are read as they grow. stdin cannot be read again: after a crash,
    what was acknowledged is learned, and the rest must be sent again.
    """
    from mnemon.data.images import check_size
    from mnemon.runtime.signals import Stopped, watched
    from mnemon.serve.feeding import Feeder
    from mnemon.serve.service import Service

    if not sources:
        raise MnemonError("name at least one source: a file, a folder, or - for stdin.")
    check_size(size)
    given = columns(label, None, (), (), missing, separator)
    options = {
        "method": method,
        "backbone": backbone,
        "memory_size": memory_size,
        "batch_size": batch_size,
        "lr": lr,
        "half_life": aging(half_life),
        "views": views,
        "exam": exam,
        "seed": seed,
    }
    for word in sources:
        _check(word, format)
    with watched() as stop:
        service = Service(model, options=options, size=size, device=device, name="mnemon learn")
        try:
            opened = [_source(word, service, format, given, follow) for word in sources]
            halted = threading.Event()  # one source failed: the others stop

            def ends() -> int:
                return stop() or int(halted.is_set())

            feeders = [Feeder(service, source.name, skip=skip_bad, stop=ends) for source in opened]
            _feed(list(zip(feeders, opened, strict=True)), halted, together=follow)
            done = service.learning.wait(service.journal.position, published=False)
            while not done.done() and not stop() and service.learning.failed is None:
                threading.Event().wait(0.1)
        finally:
            service.close()
        if service.learning.failed is not None:
            raise MnemonError(service.learning.failed)
    learned, acknowledged = service.learning.state.learned, service.journal.position
    if not quiet:
        skipped = sum(feeder.skipped for feeder in feeders)
        aside = f" ({skipped:,} could not be used)" if skipped else ""
        print(f"read {sum(feeder.sent for feeder in feeders):,} samples{aside}")
        accuracy = service.learning.curve.accuracy()
        if accuracy is not None:
            print(f"test-then-train accuracy: {100 * accuracy:.1f} %")
        print(f"model: {model} ({learned:,} of {acknowledged:,} samples learned)")
    if stop():
        raise Stopped(stop())


def _check(word: str, format: str | None) -> None:
    """Refuse a source before the model is opened."""
    if format is not None:
        check_known("format", format, set(FORMATS.values()))
    path = Path(word)
    if word == "-" or path.is_dir():
        return
    if not path.is_file():
        raise MnemonError(f"there is no file or folder {word}.")
    if format is None and path.suffix.lower() not in FORMATS:
        raise MnemonError(f"{word} has no name by which its format is known ({', '.join(FORMATS)}); say it: --format.")


def _source(word: str, service: Any, format: str | None, given: Columns, follow: bool) -> Any:
    from mnemon.serve import pixels
    from mnemon.sources.lines import Lines
    from mnemon.sources.parquet import Parquet
    from mnemon.sources.pictures import Pictures, Tar

    def decoded(content: Any, name: str) -> Any:
        return pixels.decoded(content, name, service.kind, service.size)

    path = Path(word)
    if word == "-":
        return Lines(Path("stdin"), format=format or "ndjson", rules=_rules(service, given), stream=sys.stdin.buffer)
    if path.is_dir():
        return Pictures(path, decoded, service.journal.knows, follow=follow)
    kind = format or FORMATS[path.suffix.lower()]
    if kind == "parquet":
        return Parquet(path, rules=_rules(service, given))
    if kind == "tar":
        return Tar(path, decoded, service.journal.producer)
    return Lines(path, format=kind, rules=_rules(service, given), follow=follow, count=service.journal.producer)


def _rules(service: Service, given: Columns) -> Rules:
    """How tables are read for this model: with what `mnemon fit` keeps of their columns, where it made the model."""
    from mnemon.own_data.journal import Journal
    from mnemon.own_data.sources import kept_with
    from mnemon.readers import cells
    from mnemon.sources.table import Rules

    classifier, kind = service.learning.state.classifier, service.kind
    found = kept_with(given, Journal(classifier._beside if classifier.__sklearn_is_fitted__() else {}))
    if any(name != name.strip() for name in (kind and kind.names) or () if isinstance(name, str)):
        found = found._replace(strip=False)  # 0.2.0 left the blanks around names
    is_open = classifier.features == "open"
    features = (lambda: cells.features(service.learning.state.classifier)) if is_open else None
    return Rules(found, known=lambda: service.labels, features=features)


def _feed(pairs: list[tuple[Any, Any]], halted: threading.Event, *, together: bool) -> None:
    """One source after the other; sources that never end, side by side. The first error ends all of them."""
    if not together or len(pairs) == 1:
        for feeder, source in pairs:
            with explained("a source cannot be read"):
                feeder.feed(source.rows(feeder.after))
        return
    errors: list[BaseException] = []

    def run(feeder: Any, source: Any) -> None:
        try:
            with explained("a source cannot be read"):
                feeder.feed(source.rows(feeder.after))
        except BaseException as error:  # whatever it is: a source that ends unseen is worse
            if not halted.is_set():
                logger.error(f"all sources stop, since one failed: {error}")
            halted.set()
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


COMMANDS = (Command("learn", learn),)
