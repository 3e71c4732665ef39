"""The committed tables, documents and sentences say what the committed records say."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from cell_records import committed, put, row
from mnemon import data, report
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import paired_difference
from mnemon.experiments.store import ResultFolder
from mnemon.learning.methods import methods
from mnemon.metrics import confidence_interval
from mnemon.paper import beyond, beyond_readings, cells, documents, json_lines, reproduce, stream_facts, targets
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.paper.targets.beyond import Beyond
from mnemon.paper.targets.target import TableTarget
from mnemon.render import markup

ROOT = Path(__file__).parents[2]


def test_committed_tables_and_documents_say_what_the_records_say():
    """When this fails: `make results`."""
    folder = committed()
    found = Results.read(folder)
    pages = (
        "reproduction",
        "choosing",
        "ambiguities",
        "beyond",
        "performance",
        *(f"methods/{name}" for name in methods()),
    )
    for path in (ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in pages)):
        text = path.read_text(encoding="utf-8")
        assert "<!-- mnemon: " in text
        assert documents.filled(text, lambda name: reproduce.block(name, found, path.parent)) == text  # noqa: B023, path
    for target in (target for target in targets.TARGETS if isinstance(target, TableTarget)):
        made, written = target.table(found), folder / f"tables/{target.name}"
        assert written.with_suffix(".md").read_text(encoding="utf-8") == target.markdown(made), target.name
        assert written.with_suffix(".tex").read_text(encoding="utf-8") == markup.latex(made, target.command), (
            target.name
        )


def test_the_committed_tables_beyond_the_paper_say_what_the_records_say(tmp_path):
    folder = committed()
    Beyond().write_tables(replace(Results.read(folder), out=tmp_path))
    for name in ("beyond.md", "beyond.tex"):
        assert (tmp_path / "tables" / name).read_bytes() == (folder / "tables" / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("line", json_lines.read(ROOT / "results" / stream_facts.FILE), ids=lambda line: line["stream"])
def test_the_committed_facts_of_the_streams_are_counted_again(line):
    dataset = protocol.parse(line["stream"]).dataset
    try:
        data.load(dataset)
    except MnemonError:
        # Package registries have these two; the others must be brought by hand where nothing else is reached.
        if dataset in ("mnist", "cifar10"):
            raise
        pytest.skip(f"{dataset} is neither here nor can it be downloaded here")
    assert stream_facts.stream_facts(line["stream"]) == line


def test_latex_names_the_command_that_makes_it_and_breaks_sentences():
    folder = committed() / "tables"
    written = {name: (folder / f"{name}.tex").read_text(encoding="utf-8") for name in ("claims", "table1")}
    assert written["claims"].startswith("% made by `mnemon reproduce all`")
    assert written["table1"].startswith("% made by `mnemon reproduce table1`")
    assert "linewidth" in written["claims"]
    assert "linewidth" not in written["table1"]


def test_the_table_on_the_page_about_records_is_what_the_command_writes(tmp_path):
    kept = [Cell(1, row(name), "split-mnist") for name in ("ER", "ER + NCM", "hybrid (the paper's own)")]
    found = Results.read(committed())
    put(tmp_path, [record for cell in kept for record in found.of(cell).records.values()])
    table = report.write_table(tmp_path, tmp_path / "results.md", "er").read_text().split("\n\n")[0]
    assert table in (ROOT / "docs/records.md").read_text(encoding="utf-8")


def test_what_the_text_says_of_patches_is_what_the_records_say():
    found = Results.read(committed())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for stream, ours, theirs in (
        ("split-cifar10", "{:.1f} % on Split CIFAR-10", "{:.1f} %)"),
        ("split-cifar100-20", "{:.1f} % on Split CIFAR-100 in 20 tasks", "({:.1f} %)"),
    ):
        assert ours.format(_patches(found, "patches-same-bytes", stream)[0].mean) in readme
        assert theirs.format(found.of(Cell(1, row("hybrid (the paper's own)"), stream)).estimate.mean) in readme
    on_smooth = {
        name: _patches(found, name, "smooth-cifar10")[1]
        for name in ("patches-same-bytes", "patches-128", "patches-512")
    }
    few, most = (
        paired_difference(on_smooth["patches-512"], on_smooth[name]) for name in ("patches-128", "patches-same-bytes")
    )
    assert (few.sign, most.sign) == (0, -1)  # "512 filters are worse than 237, and not better than 128"


CIFAR = ("split-cifar10", "split-cifar100-10", "split-cifar100-20", "smooth-cifar10", "smooth-cifar100")
MINI = ("split-mini_imagenet-10", "split-mini_imagenet-20", "smooth-mini_imagenet")
RUN_BEFORE = {
    ("er", "ce"): CIFAR,
    ("fine-tune", "ce"): CIFAR,
    ("iid-online", "ce"): ("split-cifar10", "split-cifar100-10", "smooth-cifar10", "smooth-cifar100"),
    ("scr", "supcon"): ("split-mnist", *CIFAR[:3]),
    ("er", "ms"): ("split-cifar100-20",),
    ("er", "pnca"): ("split-cifar100-20",),
    ("a-gem", "ce"): ("split-mnist",),
    ("hybrid", "hybrid"): ("split-cifar10", "smooth-cifar10", "smooth-cifar100", *MINI),
}
STUDIES = {"scale", "replay_classes", "forward", "average"}  # of options, which have tables and texts of their own


def test_the_cells_that_were_run_on_test_images_at_other_values_are_those_that_the_text_names():
    """When this fails: docs/reproduction.md, "Cells that were run on test images before"."""
    found, records = Results.read(committed()), defaultdict(list)
    for r in ResultFolder(committed()).read():
        if (r["split"], r["order"]) == ("test", "natural") and not STUDIES & r["options"].keys():
            records[r["method"], r["loss"], r["classifier"], r["stream"]].append(r)
    other = set()
    for cell in (cell for number in (1, 3, 4) for cell in cells.cells(number)):
        variant = (cell.row.method, cell.row.loss, cell.row.classifier, cell.runs_on)
        mine = [r["options"] for r in found.of(cell).records.values()]
        before = [r for r in records[variant] if mine and r["options"] != mine[0]]
        if len({r["seed"] for r in before}) >= 15:
            other.add((cell.row.method, cell.row.loss, cell.runs_on))
    assert other == {(*pair, stream) for pair, streams in RUN_BEFORE.items() for stream in streams}


def test_normalised_means_are_better_wherever_both_were_read():
    """As the text below the table of both readings says, of each stream there."""
    found = Results.read(committed())
    hybrid = row("hybrid (the paper's own)")
    for stream in (*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS):
        table = 4 if stream in cells.SMOOTH_STREAMS else 1
        raw = found.of(Cell(table, hybrid._replace(classifier="ncm-raw"), stream)).values
        better = paired_difference(found.of(Cell(table, hybrid, stream)).values, raw)
        assert better is None or better.sign == 1, stream


def _patches(found, name, stream):
    runs = beyond_readings.of_row(found, beyond.row(name), stream)[0].runs
    return runs.estimate, runs.values


# --- differences that the text states, seed by seed

TWO_PASSES = ({"options": {"forward": "separate"}}, {})
OTHER_CLASSES = ({"options": {"replay_classes": "others"}}, {})


def rates(one, other):
    return tuple({"split": "valid", "options": {"lr": lr}} for lr in (one, other))


HIGHEST_RATE = rates(0.4, 0.05)


def scales(one, other, **more):
    return tuple({"options": {"scale": scale}} | more for scale in (one, other))


def printed(best, paper):
    """The best of the hybrid's search minus the values that the paper prints: γ, η and divisor of each."""
    names = ("gamma", "lr", "divisor")
    return tuple({"split": "valid", "options": dict(zip(names, values, strict=True))} for values in (best, paper))


BY_SEARCH = {
    "split-mnist": printed((0.25, 0.45, "batch"), (0.1, 0.05, "batch")),
    "split-cifar10": printed((0.0, 0.5, "batch"), (0.1, 0.2, "batch")),
    "split-cifar100-10": printed((0.5, 0.15, "active"), (0.5, 0.35, "active")),
    "smooth-cifar10": printed((1.0, 0.1, "active"), (0.1, 0.25, "active")),
    "smooth-cifar100": printed((0.25, 0.2, "batch"), (1.0, 0.5, "active")),
}


@pytest.mark.parametrize(
    ("pair", "method", "stream", "metric", "said"),
    [
        (BY_SEARCH["split-mnist"], "hybrid", "split-mnist", "average_accuracy", "+0.3 ± 0.6"),
        (BY_SEARCH["split-cifar10"], "hybrid", "split-cifar10", "average_accuracy", "+2.6 ± 8.9"),
        (BY_SEARCH["split-cifar100-10"], "hybrid", "split-cifar100-10", "average_accuracy", "+0.6 ± 2.2"),
        (BY_SEARCH["smooth-cifar10"], "hybrid", "smooth-cifar10", "average_accuracy", "+6.9 ± 3.9"),
        (BY_SEARCH["smooth-cifar100"], "hybrid", "smooth-cifar100", "average_accuracy", "+6.2 ± 2.0"),
        (TWO_PASSES, "hybrid", "split-cifar10", "average_forgetting", "−7.1 ± 2.8"),
        (TWO_PASSES, "hybrid", "split-cifar100-20", "average_forgetting", "+1.6 ± 1.7"),
        (TWO_PASSES, "er", "split-cifar10", "average_forgetting", "−1.5 ± 5.6"),
        (TWO_PASSES, "mir", "split-cifar10", "average_forgetting", "+4.2 ± 7.8"),
        (TWO_PASSES, "mir", "split-cifar100-20", "average_forgetting", "−2.5 ± 0.8"),
        (HIGHEST_RATE, "mir", "split-cifar10", "average_accuracy", "−8.8 ± 6.0"),
        (HIGHEST_RATE, "mir", "split-cifar10", "average_forgetting", "+3.0 ± 11.4"),
        (HIGHEST_RATE, "mir", "split-cifar100-10", "average_accuracy", "+0.7 ± 2.2"),
        (HIGHEST_RATE, "mir", "split-cifar100-10", "average_forgetting", "−9.3 ± 5.9"),
        (HIGHEST_RATE, "mir", "split-cifar100-10", "learning_accuracy", "−7.6 ± 7.0"),
        (HIGHEST_RATE, "gmed-mir", "split-cifar10", "average_accuracy", "−4.5 ± 4.7"),
        (HIGHEST_RATE, "gmed-mir", "split-cifar10", "average_forgetting", "−2.7 ± 21.4"),
        (HIGHEST_RATE, "gmed-mir", "split-cifar100-10", "average_accuracy", "−0.5 ± 1.6"),
        (HIGHEST_RATE, "gmed-mir", "split-cifar100-10", "average_forgetting", "−7.5 ± 5.9"),
        (HIGHEST_RATE, "gmed-mir", "split-cifar100-10", "learning_accuracy", "−7.2 ± 3.7"),
        (rates(0.4, 0.1), "gmed-er", "split-cifar10", "average_forgetting", "−0.2 ± 3.4"),
        (rates(0.3, 0.15), "gmed-er", "split-cifar100-10", "average_forgetting", "−4.9 ± 1.7"),
        (OTHER_CLASSES, "mir", "split-cifar10", "average_accuracy", "+0.2 ± 1.4"),
        (OTHER_CLASSES, "mir", "split-cifar10", "average_forgetting", "+0.9 ± 2.9"),
        (OTHER_CLASSES, "er", "split-cifar10", "average_accuracy", "+0.5 ± 1.8"),
        (OTHER_CLASSES, "er", "split-cifar10", "average_forgetting", "+0.0 ± 3.0"),
        (scales(10.0, 2.0), "hybrid", "split-cifar10", "average_accuracy", "−0.1 ± 0.9"),
        (scales(10.0, 2.0), "hybrid", "split-cifar10", "average_forgetting", "+2.7 ± 1.4"),
        (scales(18.0, 2.0), "hybrid", "split-cifar100-20", "average_accuracy", "−0.1 ± 0.4"),
        (scales(18.0, 2.0), "hybrid", "split-cifar100-20", "average_forgetting", "+8.0 ± 1.1"),
        (
            scales(18.0, 2.0, classifiers=("ncm-raw",)),
            "hybrid",
            "split-cifar100-20",
            "average_accuracy",
            "−1.9 ± 0.5",
        ),
    ],
)
def test_the_differences_in_the_text_are_those_of_the_records(pair, method, stream, metric, said):
    index = RecordIndex(ResultFolder(committed()).read())
    specs = [Spec(method, stream, **given) for given in pair]
    one, other = (index.like(spec, spec.choice().classifiers[0].name) for spec in specs)
    differences = [one[seed][metric] - other[seed][metric] for seed in sorted(one.keys() & other.keys())]
    mean, half = confidence_interval(differences)
    assert said.lstrip("+−") == f"{abs(mean):.1f} ± {half:.1f}"
    assert (mean > 0) == said.startswith("+")
    assert said in (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
