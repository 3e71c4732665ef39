"""The command line: `mnemon COMMAND …`. Each command is a function; its signature and text are its --help.

Exit codes: 0 done, 2 bad input (one sentence on stderr), 130/143 stopped by SIGINT/SIGTERM with everything saved.
"""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional, arg

from mnemon.errors import MnemonError, unknown

if TYPE_CHECKING:
    from mnemon.experiments.records import Record

# Heavy parts (torch, matplotlib) are imported by the command that needs them: `mnemon --help` answers at once.


def demo(
    out: Annotated[Path, arg(help="folder for the records and the report")] = Path("out/demo"),
    seeds: Annotated[str, arg(help="how many runs of each method, or which seeds (0-4, 1,3)")] = "5",
) -> None:
    """Show the paper's claim on real handwritten digits: softmax forgets, the generative classifier does not.

    Runs fine-tune, ER (softmax and NCM) and the paper's hybrid on Split Digits, and writes a report.
    """
    from mnemon import report as report_room
    from mnemon.experiments.progress import Progress
    from mnemon.experiments.runner import run_all
    from mnemon.experiments.spec import Spec

    rows = (("fine-tune", ()), ("er", ("softmax", "ncm")), ("hybrid", ("ncm",)))
    specs = [
        Spec(method, "split-digits", seed, classifiers=classifiers)
        for method, classifiers in rows
        for seed in _seeds(seeds)
    ]
    found = run_all(specs, out, progress=Progress())
    _print_results(found)
    print(f"report: {report_room.write(out)}")


def _run_command() -> Callable[..., None]:
    """Run a method on a stream with one or many seeds; print the result with its 95 % interval."""
    Options = _options()  # an option for each hyper-parameter of any method or loss

    def run(
        method: Annotated[str, arg(metavar="NAME", help="the method; `mnemon list methods` has them all")],
        stream: Annotated[
            str,
            arg(
                metavar="NAME", help="the stream; `mnemon list streams`, or KIND-DATASET[-TASKS] with your own dataset"
            ),
        ],
        loss: Annotated[
            str | None, arg(help="another loss", metavar="NAME", help_behavior_hint="(default: the method's own)")
        ] = None,
        classifier: Annotated[
            str | None,
            arg(
                help="another classifier, or several with commas: one training, a record each",
                metavar="NAME",
                help_behavior_hint="(default: the method's own)",
            ),
        ] = None,
        seeds: Annotated[str, arg(help="how many seeds (15 means 0 to 14), or which: 100-102, 7-7, 3,5")] = "1",
        split: Annotated[str, arg(help="evaluate on test, or on valid to choose hyper-parameters")] = "test",
        order: Annotated[str, arg(help="class order of a Split stream: natural (the paper's) or random")] = "natural",
        backbone: Annotated[
            str | None,
            arg(
                help="mlp, resnet18, identity (no network) or auto",
                metavar="NAME",
                help_behavior_hint="(default: the dataset's own)",
            ),
        ] = None,
        device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
        jobs: Annotated[
            int | None,
            arg(
                help="runs side by side: on a GPU in one process, on a CPU in as many processes",
                metavar="N",
                help_behavior_hint="(default: 32 on a GPU, one per core on a CPU)",
            ),
        ] = None,
        precision: Annotated[
            str, arg(help="of a GPU: tf32, fp32, or bf16 (fastest; in the network's body alone)")
        ] = "tf32",
        deterministic: Annotated[
            bool, arg(help="the same bits at each repetition, whatever runs beside; slower, see --precision fp32")
        ] = False,
        out: Annotated[Path, arg(help="folder for records and checkpoints; the same command goes on there")] = Path(
            "out/runs"
        ),
        checkpoint_every: Annotated[float, arg(help="seconds between checkpoints")] = 30.0,
        cell: Annotated[
            str | None,
            arg(
                help="a word for the new records: which table or study they belong to",
                metavar="WORD",
                help_behavior_hint="",
            ),
        ] = None,
        quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
        hyper_parameters: tyro.conf.OmitArgPrefixes[Any] = Options(),  # noqa: B008
    ) -> None:
        """Run a method on a stream with one or many seeds; print the result with its 95 % interval.

        Each finished run is one JSON line in OUT/records.jsonl. Interrupted runs go on where they stopped, finished ones
        are not repeated. A dataset that is not here yet is fetched first.
        """
        from mnemon.experiments.progress import Progress
        from mnemon.experiments.runner import run_all
        from mnemon.experiments.spec import Spec

        given = {name: value for name, value in dataclasses.asdict(hyper_parameters).items() if value is not None}
        classifiers = () if classifier is None else tuple(classifier.split(","))
        specs = [
            Spec(method, stream, seed, loss, classifiers, split, order, given, cell, backbone) for seed in _seeds(seeds)
        ]
        found = run_all(
            specs,
            out,
            device=device,
            jobs=jobs,
            precision=precision,
            deterministic=deterministic,
            checkpoint_every=checkpoint_every,
            progress=Progress(quiet=quiet),
        )
        _print_results(found)
        print(f"records: {out / 'records.jsonl'}")

    run.__annotations__["hyper_parameters"] = tyro.conf.OmitArgPrefixes[Options]  # type: ignore[misc,valid-type]
    return run


def _options() -> type[Any]:
    """A dataclass with every hyper-parameter of the methods and losses; None means: not given."""
    from mnemon.experiments.recipes.recipes import cells
    from mnemon.learning.methods import methods
    from mnemon.learning.objectives import OBJECTIVES

    by_stream = {"memory_size", *(name for cell in cells().values() for name in cell.values)}
    found: dict[str, dict[str, dataclasses.Field[Any]]] = {}  # option → who has it → as which field
    holders: list[Any] = [*methods().values(), *OBJECTIVES.values()]
    for holder in holders:
        for field in dataclasses.fields(holder):
            found.setdefault(field.name, {})[holder.name] = field
    fields = []
    for name, owners in found.items():
        field = next(iter(owners.values()))
        default = f"{'by stream, else ' if name in by_stream else ''}{field.default}"
        others = [f"; {other.default} for {who}" for who, other in owners.items() if other.default != field.default]
        text = arg(
            help=field.metadata["doc"],
            help_behavior_hint=f"(default: {default}{''.join(others)})",
            metavar="|".join(field.metadata["choices"]) or type(field.default).__name__.upper(),
        )
        fields.append((name, Annotated[type(field.default) | None, text], dataclasses.field(default=None)))
    return dataclasses.make_dataclass("hyper-parameters", fields)


def tune(
    method: Annotated[str, arg(metavar="NAME", help="the method; `mnemon list methods` has them all")],
    stream: Annotated[str, arg(metavar="NAME", help="the stream; `mnemon list streams`")],
    loss: Annotated[
        str | None, arg(help="another loss", metavar="NAME", help_behavior_hint="(default: the method's own)")
    ] = None,
    grid: Annotated[
        tuple[str, ...],
        arg(
            help="options and the values to try: lr=0.05,0.1 gamma=0,0.5; the others stay at the recipe",
            metavar="OPTION=VALUE,… …",
            help_behavior_hint="(default: the paper's grid for the method)",
        ),
    ] = (),
    seeds: Annotated[str, arg(help="which seeds, from 100 on: the smaller ones are the tables'")] = "100-102",
    best: Annotated[int, arg(help="candidates that go on from the first seed to all seeds")] = 15,
    out: Annotated[Path, arg(help="folder for records and the log; the same command goes on there")] = Path("out/runs"),
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
    keep: Annotated[bool, arg(help="make the chosen values the recipe, which `mnemon run` takes by itself")] = False,
    quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
) -> None:
    """Choose hyper-parameters as the paper does: a grid on the validation split, the best mean accuracy wins.

    All candidates run on the first seed, the best 15 of them on all seeds; a grid of no more than that runs on all seeds
    at once. Test images and the seeds of the tables take no part. Finished runs are taken from OUT/records.jsonl, whichever
    device made them; a candidate that diverges counts as the worst. The log in OUT/tuning has the whole search.
    """
    from mnemon.experiments import protocol
    from mnemon.experiments.stats import estimate
    from mnemon.experiments.tuning import search

    if keep and protocol.parse(stream).spread != protocol.SPREAD:
        raise MnemonError(f"the recipes are for the paper's Smooth streams, and {stream} has another spread.")
    words = ["mnemon", "tune", "--method", method, "--stream", stream, *(["--loss", loss] if loss else [])]
    words += [*(["--grid", *grid] if grid else []), "--seeds", seeds, *(["--best", str(best)] if best != 15 else [])]
    found = search(
        method,
        stream,
        out,
        loss=loss,
        grid=grid,
        seeds=_seeds(seeds),
        best=best,
        device=device,
        quiet=quiet,
        command=shlex.join(words),
    )
    shown = [c for i, c in enumerate(found.candidates) if i < 10 or c.values == found.recipe]
    rows = [
        (
            str(found.candidates.index(c) + 1),
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in c.values.values()),
            "diverged" if c.diverged else str(estimate(c.accuracies)),
            str(len(c.records)),
            ", ".join(["chosen"] * (c is found.chosen) + ["the recipe"] * (c.values == found.recipe)),
        )
        for c in shown
    ]
    print(f"{method} on {found.stream}: {len(found.candidates)} candidates, validation accuracy in percent")
    _table("", ("", *found.grid, "Average Accuracy", "runs", ""), rows)

    print(*found.sentences(), f"log: {found.log}", sep="\n")
    if keep:
        print(f"kept: {found.keep()}")
    elif found.chosen.values != found.recipe:
        again = [*words, "--out", str(out), "--keep"]
        print(f"to make the chosen values the recipe: {shlex.join(again)}")


def list_(
    what: Positional[
        Annotated[str, arg(help="methods, streams, losses, classifiers or datasets; all of them if left out")]
    ] = "",
) -> None:
    """List the methods, streams, losses, classifiers and datasets by name."""
    from mnemon.experiments.protocol import NAMES, RULES
    from mnemon.learning.classifiers import CLASSIFIERS
    from mnemon.learning.methods import methods
    from mnemon.learning.objectives import OBJECTIVES

    def first_line(thing: Any) -> str:
        return (inspect.getdoc(thing) or "").splitlines()[0]

    def show_methods() -> None:
        _table(
            "methods (computing: the multiplications of a step beside ER's; docs/choosing.md has times)",
            ("name", "what it is", "other than ER in", "computing", "source"),
            [(m.name, m.summary, ", ".join(m.changes()) or "-", m.cost, m.citation) for m in methods().values()],
        )

    def show_streams() -> None:
        rows = [(n, *_stream_words(n, RULES)) for n in NAMES]
        _table("streams (KIND-DATASET[-TASKS] works for every dataset)", ("name", "what it is", "memory"), rows)

    shows: dict[str, Callable[[], None]] = {
        "methods": show_methods,
        "streams": show_streams,
        "losses": lambda: _table("losses", ("name", "what it is"), [(n, first_line(o)) for n, o in OBJECTIVES.items()]),
        "classifiers": lambda: _table(
            "classifiers", ("name", "what it is", "needs"), [(c.name, c.doc, c.needs) for c in CLASSIFIERS.values()]
        ),
        "datasets": data_list,
    }
    if what and what not in shows:
        raise unknown("thing to list:", what, shows)
    for name in [what] if what else shows:
        shows[name]()


def _stream_words(name: str, rules: Any) -> tuple[str, str]:
    kind, dataset, *tasks = name.split("-")
    rule = rules[dataset]
    text = (
        f"{tasks[0] if tasks else rule.tasks} tasks of disjoint classes, one after the other"
        if kind == "split"
        else "every class comes and goes as a Gaussian over time; no tasks"
    )
    return text, str(rule.memory)


def report(
    folder: Positional[Annotated[Path, arg(help="a folder with records.jsonl")]],
    out: Annotated[
        Path | None,
        arg(help="where to write the page", metavar="FILE", help_behavior_hint="(default: FOLDER/report.html)"),
    ] = None,
    table: Annotated[
        Path | None,
        arg(
            help="write the results as a table too: FILE.md, FILE.tex or FILE.csv",
            metavar="FILE",
            help_behavior_hint="",
        ),
    ] = None,
    against: Annotated[
        str | None,
        arg(
            help="in that table: the difference from this method, seed by seed (er, or er+ncm)",
            metavar="METHOD",
            help_behavior_hint="",
        ),
    ] = None,
) -> None:
    """Make one self-contained HTML page from a folder of records: tables, curves, what was forgotten and why."""
    from mnemon import report as report_room

    if against is not None and table is None:
        raise MnemonError("--against is for the table: name its file with --table.")
    if table is not None:
        print(report_room.write_table(folder, table, against))
    print(report_room.write(folder, out))


def reproduce(
    targets: Positional[
        Annotated[
            tuple[str, ...],
            arg(
                help="table1 … table7, fig1 … fig5, ranking, sensitivity, or all",
                metavar="TARGET …",
                help_behavior_hint="",
            ),
        ]
    ],
    out: Annotated[Path, arg(help="folder of the records; tables/ and figures/ are written there")] = Path("results"),
    seeds: Annotated[str, arg(help="how many seeds a cell is to have (0 up to that), or which: 0-4")] = "15",
    methods: Annotated[
        str | None,
        arg(help="run only these, with commas", metavar="NAMES", help_behavior_hint="(default: all of the target)"),
    ] = None,
    streams: Annotated[
        str | None,
        arg(help="run only on these, with commas", metavar="NAMES", help_behavior_hint="(default: all of the target)"),
    ] = None,
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
    dry_run: Annotated[bool, arg(help="say what is there and what would be run; run and write nothing")] = False,
    records_only: Annotated[bool, arg(help="write from the records that are there; run nothing")] = False,
    fill: Annotated[
        tuple[Path, ...],
        arg(
            help="documents whose parts between <!-- mnemon: NAME --> and <!-- /mnemon --> are written from the records "
            "(NAME: table1 … table7, claims, figures, ranking, ranking-figure, device-time, sensitivity, searches, "
            "split-mnist …, method-er …)",
            metavar="FILE …",
            help_behavior_hint="",
        ),
    ] = (),
    steps: Annotated[
        int | None,
        arg(help="fig4: steps timed for each method", metavar="INT", help_behavior_hint="(default: 400; on a CPU 20)"),
    ] = None,
    quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
) -> None:
    """Make the paper's tables and figures: runs what is missing, takes the rest from the records.

    A record counts for a cell only if it was made with the hyper-parameters the cell has today. Finished runs are never
    repeated, an interrupted command goes on where it stopped, and several processes can share a folder. What cannot be run
    here is printed as "not run". Writes OUT/tables/*.md and *.tex, OUT/figures/*.png and *.svg.

      mnemon reproduce table1 --methods hybrid,er --streams split-mnist
      mnemon reproduce all --dry-run
    """
    from mnemon.experiments.progress import Progress
    from mnemon.paper import reproduce as room

    if dry_run and records_only:
        raise MnemonError("--dry-run writes nothing and --records-only only writes: choose one of them.")
    if steps is not None and steps < 1:
        raise MnemonError(f"steps is a number of steps, 1 or more, not {steps}.")
    work = room.Reproduction(list(targets), out, _seeds(seeds), _names(methods), _names(streams))
    room.check(fill)
    if not records_only:
        plans = work.plans(room.device_name(device))
        rows = [(plan.target, f"{plan.there} of {plan.of} {plan.what}", plan.to_make) for plan in plans]
        _table(f"in {out}", ("target", "there", "to make"), rows)
        if dry_run:
            print("\n".join(room.commands(plans, out)))
            return
        progress = Progress(quiet=quiet)
        work.make(device, steps=steps, progress=progress, say=progress.say)
    for line in [*work.write(), *room.fill(fill, out)]:
        print(line)


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(text.split(","))


def data_list() -> None:
    """List the datasets, and which of them are here."""
    from mnemon import data

    _table(
        f"datasets (cache: {data.cache_dir()})",
        ("name", "what it is", "classes", "train / test", "image", "state"),
        [
            (i.name, i.description, str(i.classes), f"{i.train:,} / {i.test:,}", "×".join(map(str, i.shape)), i.state)
            for i in data.listing()
        ],
    )


def data_get(name: Positional[Annotated[str, arg(help="the dataset")]]) -> None:
    """Download a dataset, verify it and store it in the cache."""
    from mnemon import data

    print(data.get(name))


def data_import(
    name: Positional[Annotated[str, arg(help="a built-in dataset, or a new name for an image folder of yours")]],
    path: Positional[Annotated[Path, arg(help="the local copy: archive, folder of files, or a folder per class")]],
    size: Annotated[
        int | None,
        arg(help="bring your own images to this size (short side, then crop)", metavar="PIXELS", help_behavior_hint=""),
    ] = None,
) -> None:
    """Take a dataset from a local copy: CIFAR's binary archive, MNIST's idx files, miniImageNet, or a folder per class."""
    from mnemon import data

    print(data.import_(name, path, size=size))


def data_check(name: Positional[Annotated[str, arg(help="the dataset")]]) -> None:
    """Verify the stored copy of a dataset against its checksum."""
    from mnemon import data

    print(f"{name}: {data.check(name)}")


def bench(
    methods: Annotated[
        str | None,
        arg(
            help="with commas; `mnemon list methods`",
            metavar="NAMES",
            help_behavior_hint="(default: er,hybrid on a CPU, all on a GPU)",
        ),
    ] = None,
    nets: Annotated[str, arg(help="mlp (shapes of Split MNIST), resnet18 (of Split CIFAR-10)")] = "mlp,resnet18",
    runs: Annotated[str, arg(help="how many runs of ours side by side, with commas")] = "1,15,60",
    rounds: Annotated[int, arg(help="how often each is timed, in turn; medians count")] = 7,
    steps: Annotated[
        int | None,
        arg(help="steps of each run in a round", metavar="N", help_behavior_hint="(default: by network and device)"),
    ] = None,
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
    precision: Annotated[str, arg(help="of our runs on a GPU: tf32, fp32 or bf16")] = "tf32",
    out: Annotated[Path, arg(help="folder for bench.json, bench.png and bench.svg")] = Path("out/bench"),
    quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
) -> None:
    """Measure speed: the plain PyTorch loop, one run of ours, many runs of ours, in turn; also inference and start-up.

    The images are random, in the shapes of the paper's streams: nothing has to be there. Times on a busy machine mean
    little on their own; the ratios, taken round by round, do.
    """
    from mnemon.bench import bench as room  # the module
    from mnemon.learning.methods import methods as known
    from mnemon.runtime.device import Engine, choose_device

    try:
        many = [int(word) for word in runs.split(",")]
    except ValueError:
        raise MnemonError(f"runs are numbers with commas (1,15,60), not {runs!r}.") from None
    where = choose_device(device)
    chosen = methods.split(",") if methods else ["er", "hybrid"] if where.type == "cpu" else list(known())
    console = Console(stderr=True, quiet=quiet, highlight=False)
    record = room.bench(
        out,
        Engine(where, precision),
        nets=nets.split(","),
        methods=chosen,
        runs=many,
        rounds=rounds,
        steps=steps,
        say=lambda line: console.print(line, markup=False),
    )
    about = record["machine"]
    name = about["cpu"] if where.type == "cpu" else record["device"]
    print(f"{name}, {about['threads']} threads, torch {about['torch']}, {record['precision']}\n")
    head, rows = room.lines(record)
    _table("training: steps per second of all runs (times the faster eager loop: quartiles)", head, rows, right=3)
    _table("one run beside one of ER (quartiles)", *room.cost_lines(record), right=2)
    _table(
        "inference, a memory row for ten test images",
        *room.inference_lines(record),
        right=2,
    )
    _table("start-up", ("what", "seconds"), [(k, f"{v:.2f}") for k, v in record["startup_seconds"].items()], right=1)
    print(f"record: {out / 'bench.json'}, picture: {out / 'bench.png'}")


_OWN = "(for a new model: {})"


def _own(text: str, default: str, metavar: str = "NAME") -> Any:
    """The help of an option that a model, once made, has settled."""
    return arg(help=text, metavar=metavar, help_behavior_hint=_OWN.format(default))


def fit(
    folder: Positional[Annotated[Path, arg(help="a folder with one sub-folder of images per class", metavar="FOLDER")]],
    out: Annotated[Path, arg(help="the model's folder: a new one, or a model that goes on learning", metavar="MODEL")],
    order: Annotated[
        str,
        arg(help="shuffled (by the seed), time (files as they were last modified), or by-class (one after the other)"),
    ] = "shuffled",
    size: Annotated[
        int | None, _own("bring images to this many pixels a side: short side, then crop", "32", "PIXELS")
    ] = None,
    method: Annotated[str | None, _own("how it learns; `mnemon list methods`", "hybrid")] = None,
    loss: Annotated[str | None, _own("another loss; `mnemon list losses`", "the method's")] = None,
    classifier: Annotated[str | None, _own("another classifier; `mnemon list classifiers`", "the method's")] = None,
    backbone: Annotated[
        str | None, _own("the network: auto, mlp or resnet18", "auto, a small ResNet-18; an MLP below 25 pixels a side")
    ] = None,
    memory_size: Annotated[int | None, _own("images kept for replay and class means", "1000", "INT")] = None,
    batch_size: Annotated[int | None, _own("new images per step", "10", "INT")] = None,
    replay_size: Annotated[int | None, _own("images of the memory per step", "10", "INT")] = None,
    lr: Annotated[float | None, _own("learning rate", "one that works without tuning", "FLOAT")] = None,
    gamma: Annotated[
        float | None, _own("weight of the discriminative loss", "one that works without tuning", "FLOAT")
    ] = None,
    seed: Annotated[int | None, _own("of the network, the replay and the shuffling", "0", "INT")] = None,
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
    save_every: Annotated[float, arg(help="seconds between saves")] = 30.0,
    quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
) -> None:
    """Learn a folder of images, a sub-folder per class, each image once; later folders may bring new classes.

    Each image is predicted before it is learned, which gives the running test-then-train accuracy (MODEL/log.json has its
    course). Stop it whenever you like: the same command goes on, and each file is learned exactly once. Later, other folders
    can bring more images and new classes; options left out are then the model's. A file that cannot be read is named and
    left out.
    """
    from mnemon.image_folder.fit import fit as learn
    from mnemon.image_folder.journal import LATELY
    from mnemon.image_folder.progress import Progress

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
    model: Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]],
    images: Positional[
        Annotated[
            tuple[str, ...],
            arg(help="image files, folders of images, or patterns", metavar="IMAGE …", help_behavior_hint=""),
        ]
    ],
    top: Annotated[int, arg(help="how many labels to show, the likeliest first")] = 1,
    json: Annotated[bool, arg(help="one JSON object a line instead")] = False,
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
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
            labels = "   ".join(f"{_text(each.label)} {100 * each.confidence:.1f} %" for each in found.guesses)
            print(f"{_text(found.path)}   {labels}", flush=True)
        if found.error is not None:
            unread += 1
            print(f"mnemon: {found.error}", file=sys.stderr)
    if unread:
        raise MnemonError(f"{unread:,} of {len(paths):,} images could not be read.")


def evaluate(
    model: Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]],
    folder: Positional[Annotated[Path, arg(help="a folder with one sub-folder of images per class", metavar="FOLDER")]],
    out: Annotated[Path, arg(help="folder for evaluation.html and confusion.png")] = Path("out/evaluation"),
    json: Annotated[bool, arg(help="one JSON object instead of the table")] = False,
    device: Annotated[str, arg(help="cpu, cuda or auto")] = "auto",
    quiet: Annotated[bool, arg(help="no progress on stderr")] = False,
) -> None:
    """Test a model on a folder of images it has not learned: accuracy, per class, and who is taken for whom.

    Writes one self-contained HTML page and the confusion matrix as a picture. A class the model never met counts as wrong;
    a file that cannot be read is named and does not count.
    """
    import json as format_json

    from mnemon.data.progress import Report
    from mnemon.image_folder import page
    from mnemon.image_folder.evaluate import evaluate as judge
    from mnemon.image_folder.images import ImageModel
    from mnemon.image_folder.places import check_no_model, check_outside

    check_no_model(out)
    check_outside(out, folder)
    found = judge(
        ImageModel.load(model, device),
        folder,
        report=Report(quiet=quiet),
        say=lambda line: print(line, file=sys.stderr),
    )
    html, picture = page.write(found, out, model=model.name, data=folder.name)
    if json:
        print(format_json.dumps(found.as_json() | {"page": str(html), "picture": str(picture)}))
        return
    rows = [
        (
            _text(c.label),
            f"{c.images:,}",
            f"{c.accuracy:.1f}",
            "–" if c.precision is None else f"{c.precision:.1f}",
            _text(c.taken_for or "–") if c.learned else "never learned",
        )
        for c in found.classes()
    ]
    head = ("class", "images", "accuracy, %", "precision, %", "most often taken for")
    _table(f"{found.accuracy:.1f} % right: {found.right:,} of {found.images:,} images", head, rows, right=1)
    print(f"page: {html}\npicture: {picture}")


def export(
    model: Positional[Annotated[Path, arg(help="a model's folder", metavar="MODEL")]],
    format: Annotated[str, arg(help="onnx, or torch (a .pt2 file for torch.export.load)")] = "onnx",
    out: Annotated[
        Path | None,
        arg(help="the file to write", metavar="FILE", help_behavior_hint="(default: MODEL.onnx or MODEL.pt2)"),
    ] = None,
) -> None:
    """Write a model as one file that needs no mnemon: features, class means and label table inside.

    Input x: what the model learned, as it came: images (n, height, width, channels) uint8 or vectors (n, features) float32.
    Outputs: index (n) into the label table, probabilities (n, classes), features (n, d). The label table is in the metadata,
    as JSON. ONNX needs the extra: pip install 'mnemon[export]'.
    """
    from mnemon.image_folder.export import export as write

    print(write(model, out, format=format))


def _text(value: object) -> str:
    """A name as one line that any terminal can show."""
    return "".join(c if c.isprintable() else "·" for c in str(value))


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "list": list_,
    "run": _run_command,  # made when asked for: its options come from the methods
    "tune": tune,
    "reproduce": reproduce,
    "report": report,
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "export": export,
    "bench": bench,
    "data list": data_list,
    "data get": data_get,
    "data import": data_import,
    "data check": data_check,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `mnemon`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _dispatch(given)
    except MnemonError as error:
        print(f"mnemon: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except (MemoryError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        print(f"mnemon: {str(error) or 'there is not enough memory for this'}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        sys.exit(141)


def _dispatch(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help"):
        _help()
        return
    if given[0] in ("-V", "--version"):
        from mnemon import __version__

        print(f"mnemon {__version__}")
        return
    width = 2 if given[0] == "data" else 1
    name = " ".join(given[:width])
    if name in ("data", "data -h", "data --help"):
        _help("data ")
        return
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    command = COMMANDS[name]
    if name == "run":
        command = command()
    from mnemon.runtime.signals import Stopped

    try:
        tyro.cli(command, prog=f"mnemon {name}", args=given[width:], config=(tyro.conf.FlagCreatePairsOff,))
    except Stopped as stopped:
        again = shlex.join(["mnemon", *given])
        print(f"stopped by {stopped}; everything is saved, and the same command goes on: {again}", file=sys.stderr)
        sys.exit(128 + stopped.signal_number)


def _help(start: str = "") -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print("mnemon: learn from a stream, class after class, without forgetting.\n")
    console.print(f"usage: mnemon {start}COMMAND …   (mnemon {start}COMMAND --help for its options)\n", markup=False)
    for name, command in COMMANDS.items():
        if name.startswith(start):
            console.print(f"  {name:<12}  {(inspect.getdoc(command) or '').splitlines()[0]}")
    if not start:
        console.print("\n  --version     Print the version.")


MOST_SEEDS = 100_000


def _seeds(text: str) -> list[int]:
    """15 → 0 … 14; 100-102 → 100, 101, 102; 3,5 → 3, 5."""
    found: list[int] = []
    try:
        for part in [f"0-{int(text) - 1}"] if text.isdecimal() else text.split(","):
            first, dash, last = part.partition("-")
            seeds = range(int(first), int(last if dash else first) + 1)
            if not 0 < len(seeds) <= MOST_SEEDS:
                raise ValueError
            found += seeds
    except (ValueError, OverflowError):
        raise MnemonError(
            f"seeds are a number of runs (15), a range (100-102) or a list (3,5), not {text!r}."
        ) from None
    return list(dict.fromkeys(found))


def _print_results(found: list[Record]) -> None:
    """The final table: a line for each method and classifier, means with their 95 % intervals."""
    from mnemon.experiments.summary import summarise

    rows = [
        (s.name, s.stream, s.split, str(s.runs), s.accuracy, s.forgetting, f"{s.seconds:.1f}") for s in summarise(found)
    ]
    _table(
        "percent, mean ± half-width of the 95 % interval",
        ("method", "stream", "split", "runs", "Average Accuracy", "Average Forgetting", "s / run"),
        rows,
        right=3,
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], right: int | None = None) -> None:
    """A table on stdout, whole even where stdout is not a terminal. All of it is text as it stands: names that people give
    may look like rich's markup."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table(title=Text(title, "bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, name in enumerate(head):
        number = right is not None and i >= right
        table.add_column(
            Text(name), justify="right" if number else "left", no_wrap=number or i == 0, header_style="dim"
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()
