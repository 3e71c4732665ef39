"""`mnemon reproduce`: a table says what the records say and nothing else, and only what is missing is run."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from cell_records import committed, fifteen, made, put, results, row, values
from command_line import run
from mnemon import cli, data, report
from mnemon.errors import Diverged, MnemonError
from mnemon.experiments import protocol, records, runner
from mnemon.experiments.found import Found
from mnemon.experiments.progress import Progress
from mnemon.experiments.spec import Spec
from mnemon.learning.methods import methods
from mnemon.metrics import confidence_interval
from mnemon.paper import (
    bias,
    cells,
    documents,
    json_lines,
    memory_sizes,
    numbers,
    pages,
    plan,
    reproduce,
    stream_facts,
    targets,
    times,
)
from mnemon.paper.cells import Cell
from mnemon.paper.claims import entries, verdicts
from mnemon.paper.results import Results
from mnemon.paper.targets.target import FigureTarget, TableTarget, compact
from mnemon.render import markup
from mnemon.render.tables import Bold
from mnemon.report.paper_comparison import paper_comparison

ROOT = Path(__file__).parents[2]


# --- which records count


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"lr": 0.3}},
        {"options": {"memory_size": 500}},
        {"options": {"made_up": 1}},
        {"split": "valid"},
        {"order": "random"},
        {"classifier": "proxy"},
        {"loss": "ms"},
        {"stream": "split-mnist"},
        {"protocol": {"backbone": "MLP"}},
        {"device": "NVIDIA H200", "precision": "bf16"},
    ],
)
def test_a_cell_refuses_records_made_otherwise(change):
    cell = Cell(1, row("hybrid (the paper's own)"), "split-cifar10")
    good = made(cell)
    other = made(cell, **change | {"options": good["options"] | change.get("options", {})})
    assert values([good], cell) == (50.0,)
    assert values([other], cell) == ()


def test_a_record_counts_wherever_it_was_made():
    cell = Cell(1, row("ER"), "split-cifar10")
    here, elsewhere = made(cell), made(cell, device="NVIDIA H200", precision="tf32")
    assert here["run"] != elsewhere["run"]
    assert values([elsewhere], cell) == (50.0,)


def test_of_two_records_with_one_seed_the_later_counts():
    cell = Cell(1, row("ER"), "split-mnist")
    assert values([made(cell, value=1.0), made(cell, value=2.0)], cell) == (2.0,)


def test_every_cell_of_the_paper_has_a_run_behind_it():
    for number, table in ((1, numbers.ACCURACY), (2, numbers.FORGETTING), (3, numbers.ABLATION), (4, numbers.SMOOTH)):
        every = cells.cells(number)
        assert {(c.row.paper, c.stream): c.paper for c in every if c.paper} == table
        for cell in every:
            names = [c.name for c in cell.spec().choice().classifiers]
            assert cell.row.classifier in names
    assert any("mini_imagenet" in cell.stream for cell in cells.cells(4))


def test_what_is_missing_is_asked_for_once():
    softmax, means = (Cell(1, row(name), "split-mnist") for name in ("ER", "ER + NCM"))
    (spec,) = plan.missing([softmax, means], results([], seeds=[3]))
    assert (spec.seed, spec.classifiers) == (3, ("softmax", "ncm", "ncm-raw"))
    there = [made(softmax, 3)]
    assert [s.seed for s in plan.missing([softmax], results(there, seeds=[3, 4]))] == [4]
    assert plan.missing([softmax, means], results(there, seeds=[3])) == [spec]  # the class means were not read off yet


def test_both_numbers_of_tasks_share_the_runs_that_know_no_tasks():
    ten, twenty = (Cell(1, row("i.i.d. online"), f"split-cifar100-{n}") for n in (10, 20))
    assert values([made(ten)], twenty) == (50.0,)
    assert len(plan.missing([ten, twenty], results([], seeds=[0]))) == 1


# --- tables


def table_of(number, found):
    return named(f"table{number}").table(found)


def named(name):
    return next(target for target in targets.TARGETS if target.name == name)


def grid(table, part=0):
    """Row name → the rest of the row."""
    return {line[0]: line[1:] for line in table.parts[part].rows}


def test_the_numbers_of_a_table_are_those_of_the_records():
    cell = Cell(1, row("ER"), "split-cifar10")
    values = np.random.default_rng(0).normal(40, 3, 15)
    table = table_of(1, results([made(cell, s, v) for s, v in enumerate(values)]))
    half = stats.t.ppf(0.975, 14) * values.std(ddof=1) / np.sqrt(15)
    paper, ours, by = grid(table)["ER"][3:6]
    assert paper == "39.88 ± 1.52"
    assert ours == f"{values.mean():.2f} ± {half:.2f}"
    assert by == f"{values.mean() - 39.88:+.2f} ✓".replace("-", "−")


def test_what_has_no_record_was_not_run_and_fewer_runs_are_counted():
    cell = Cell(2, row("CoPE"), "split-mnist")
    table = table_of(2, results([made(cell, s, lost=9.0 + s) for s in range(3)]))
    assert grid(table)["CoPE"][:3] == ["9.51 ± 1.15", "10.00 ± 2.48 (n = 3)", "+0.49 ✓"]
    assert grid(table)["CoPE"][3:] == ["40.01 ± 1.80", "not run", ""]
    assert grid(table_of(2, results([made(cell, lost=9.0)])))["CoPE"][1] == "9.00 (n = 1)"
    assert {cell for line in grid(table, 2).values() for cell in line[1::3]} == {"not run"}  # miniImageNet


@pytest.mark.parametrize(
    ("table", "name", "mean", "mark"),
    [
        (1, "ER", 40.5, "✓"),  # the paper: 39.88 ± 1.52
        (1, "ER", 45.0, "≥"),
        (1, "ER", 35.0, "✗"),
        (1, "CoPE", 46.7, "✓"),
        (2, "ER", 56.5, "+3.78 ≤4"),  # 52.72 ± 1.90: within four points
        (2, "ER", 30.0, "−22.72 ≤"),
        (2, "ER", 60.0, "✗"),
    ],
)
def test_the_mark_says_how_ours_stands_to_the_papers(table, name, mean, mark):
    cell = Cell(table, row(name, table), "split-cifar10")
    values = [mean + (seed - 7) / 10 for seed in range(15)]
    found = [made(cell, s, **({"lost": v} if table == 2 else {"value": v})) for s, v in enumerate(values)]
    assert grid(table_of(table, results(found)))[name][5].endswith(mark)
    alone = grid(table_of(table, results(found[:1])))[name][5]
    assert re.fullmatch(r"[+−]\d+\.\d\d ?", alone)  # a single run has no interval, and gets no mark


def test_the_best_of_ours_is_bold_and_the_bounds_take_no_part():
    ways = {"ER": 40, "hybrid (the paper's own)": 50, "hybrid-ACE": 52, "i.i.d. offline": 80}
    found = [r for name, mean in ways.items() for r in fifteen(Cell(1, row(name), "split-cifar10"), mean)]
    ours = {name: line[4] for name, line in grid(table_of(1, results(found))).items()}
    assert [name for name, text in ours.items() if isinstance(text, Bold)] == ["hybrid-ACE †"]
    assert "**52.00 ± 0.25**" in markup.markdown(table_of(1, results(found)))


def test_the_ablation_has_raw_and_normalised_means():
    found = [r for name in ("CE + NCM (raw)", "CE + NCM (normalised)", "hybrid + proxy")
             for r in fifteen(Cell(3, row(name, 3), "split-cifar10"), 45)]  # fmt: skip
    lines = grid(table_of(3, results(found)))
    assert lines["CE + NCM (raw)"][0] == "44.46 ± 0.95"
    assert lines["CE + NCM (normalised) †"][:2] == ["–", "45.00 ± 0.25"]
    assert lines["hybrid + proxy"][:3] == ["48.16 ± 1.21", "45.00 ± 0.25", "−3.16 ✗"]
    assert lines["MS + NCM (normalised)"][:2] == ["51.72 ± 1.02", "not run"]


def test_a_document_leaves_out_what_was_not_run_and_says_so():
    found = fifteen(Cell(1, row("ER"), "split-cifar10"))
    short = compact(table_of(1, results(found)))
    assert [list(grid(short, part)) for part in range(len(short.parts))] == [["ER"]]
    assert "Split miniImageNet, 10 tasks and Split miniImageNet, 20 tasks: every row" in short.notes[-1]


def test_facts_of_streams_are_counted_from_the_streams(tmp_path):
    fact = stream_facts.stream_facts("split-digits", range(2))
    labels = data.load("digits").y_train.numpy()
    assert (fact["classes"], fact["tasks"], fact["per_task"], fact["memory"]) == (10, 5, 2, 200)
    assert fact["train"] + fact["valid"] == len(labels)
    assert 0 < fact["smallest"] <= fact["mean"] <= fact["largest"] <= np.bincount(labels).max()
    smooth = stream_facts.stream_facts("smooth-digits", range(3))
    assert smooth["smallest"] < smooth["mean"] < smooth["largest"]

    for line in (smooth | {"stream": "smooth-cifar10"}, smooth | {"stream": "smooth-cifar10", "smallest": 7}):
        json_lines.add(tmp_path / stream_facts.FILE, line, stream_facts.SAME)
    lines = table_of(6, Results.read(tmp_path)).parts[0].rows
    assert lines[0][:4] == ["Smooth CIFAR-10", "paper", "10", "5,000"]
    assert lines[1][1:3] == ["ours", "10"]
    assert lines[1][7] == "7"
    assert lines[3][1:3] == ["ours", "not available"]


def test_table_7_has_the_values_our_runs_are_made_with():
    line = grid(table_of(7, results([])))["Split CIFAR-10"]
    now = Cell(1, row("hybrid (the paper's own)"), "split-cifar10").spec().choice().options()
    assert line[::2] == ["0.1", "0.2", now["divisor"]]
    assert [float(line[1]), float(line[3])] == [now["gamma"], now["lr"]]


@pytest.mark.parametrize("number", range(1, 8))
def test_latex_is_whole(number):
    found = fifteen(Cell(1, row("ER"), "split-cifar10"))
    text = markup.latex(table_of(number, results(found)), "mnemon")
    assert text.isascii()
    for environment in re.findall(r"\\begin\{([^}]*)\}", text):
        assert text.count(f"\\begin{{{environment}}}") == text.count(f"\\end{{{environment}}}")
    body = text.partition("\n")[2]  # the first line is a comment
    assert re.sub(r"\\[{}]", "", body).count("{") == re.sub(r"\\[{}]", "", body).count("}")
    assert not re.search(r"(?<!\\)[%#_]", body.replace("\\label{tab:mnemon-", ""))
    assert body.replace(r"\$", "").count("$") % 2 == 0
    for tabular in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        rows = [line for line in tabular[1].splitlines() if line.endswith(r"\\")]
        spans = [sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line)) for line in rows]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 + more for line, more in zip(rows, spans, strict=True)} == {
            len(tabular[0])
        }


def test_escape():
    assert markup.escape("a_b & 5 % ± γ {x} \\") == r"a\_b \& 5 \% $\pm$ $\gamma$ \{x\} \textbackslash{}"


# --- claims


def judged(found, lines=()):
    return {line[0]: line[1:] for line in entries.check(results(found, lines=lines)).parts[0].rows}


def test_claims_without_records_were_not_run():
    assert {verdict for verdict, _ in judged([]).values()} == {"not run"}


def test_claims_follow_the_records():
    def ablation(name, stream, mean):
        return fifteen(Cell(3, row(name, 3), stream), mean)

    found = []
    for stream, softmax, raw in (("split-cifar10", 40, 44), ("split-cifar100-20", 9, 8.9)):
        found += ablation("CE + softmax", stream, softmax) + ablation("CE + NCM (raw)", stream, raw)
        found += ablation("CE + NCM (normalised)", stream, raw + 1)
        found += ablation("hybrid + NCM (normalised)", stream, 50) + ablation("hybrid + proxy", stream, 51)
    found += ablation("MS + NCM (normalised)", "split-cifar10", 49.5)
    found += ablation("MS + NCM (normalised)", "split-cifar100-20", 40)
    found += fifteen(Cell(4, row("fine-tune", 4), "smooth-cifar10"), 10.02)
    said = judged(found)
    assert said["NCM instead of softmax helps cross-entropy on CIFAR-10"][0] == "confirmed"
    assert said["NCM does not help cross-entropy on CIFAR-100"][0] == "confirmed"
    assert said["NCM does not help cross-entropy on CIFAR-100"][1].startswith("−0.10 ± 0.00 points raw")
    assert said["With the hybrid loss, NCM beats its own proxies"][0] == "contradicted"
    assert said["MS alone degrades as the classes of a batch grow"][0] == "confirmed"
    assert said["On Smooth streams fine-tune knows only the last class"][0] == "confirmed"
    better = [r | {"average_accuracy": 14.0} if r["classifier"] == "ncm-raw" else r for r in found]
    assert judged(better)["NCM does not help cross-entropy on CIFAR-100"][0] == "contradicted"


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([True, True], "confirmed"),
        ([True, False], "depends"),
        ([True, None], "depends"),
        ([False, None], "contradicted"),
        ([None, None], "undecided"),
    ],
)
def test_what_cannot_be_told_is_neither_confirmed_nor_contradicted(cases, verdict):
    assert verdicts.verdict(cases) == verdict
    assert verdicts.verdict(cases, whole=False) == verdict + " so far" * (verdict == "confirmed")


def test_a_difference_within_its_interval_is_undecided():
    claim = "It forgets far less than ER"
    found = [
        made(Cell(2, row("hybrid (the paper's own)"), "split-mnist"), seed, lost=10 + seed % 2) for seed in range(15)
    ]
    found += [made(Cell(2, row("ER"), "split-mnist"), seed, lost=11 - seed % 2) for seed in range(15)]
    assert judged(found)[claim][0] == "undecided"


def test_claims_about_memory_and_learning_rates_come_from_validation_runs():
    def at(spec, classifier, value):
        cell = Cell(1, cells.row(spec.method), spec.stream)
        options = spec.choice().options()
        return made(cell, spec.seed, value, split="valid", classifier=classifier, options=options)

    found = []
    for seed in memory_sizes.SEEDS:
        for size, gain in ((500, 1), (1000, 3), (2000, 4)):
            er, hybrid = (memory_sizes.spec(m, "split-cifar100-10", size, seed) for m in ("er", "hybrid"))
            found += [at(er, "softmax", 10.0 + seed / 100), at(hybrid, "ncm", 10.0 + seed / 100 + gain)]
        for rate, level in ((0.05, 40), (0.2, 30 + 3 * (seed % 3))):
            spec = Cell(1, row("ER"), "split-cifar10").spec(seed)
            spec = type(spec)(spec.method, spec.stream, seed, spec.loss, (), "valid", options={"lr": rate})
            found.append(at(spec, "softmax", level + (seed % 2) / 10))
    said = judged(found)
    assert said["The gain is small at memory 500 on CIFAR-100"] == [
        "confirmed",
        "hybrid less ER, validation: +1.00 ± 0.00 (n = 5) points at 500, +3.00 ± 0.00 (n = 5) points at 1000, "
        "+4.00 ± 0.00 (n = 5) points at 2000; the gain at 500 less that at 1000: −2.00 ± 0.00 (n = 5), "
        "at 2000: −3.00 ± 0.00 (n = 5)",
    ]
    assert said["It is better than ER at every size of the memory"] == [
        "confirmed",
        "hybrid less ER, points on validation, by memory: Split CIFAR-100, 10 tasks: +1.00 ± 0.00 (n = 5) at 500, "
        "+3.00 ± 0.00 (n = 5) at 1000, +4.00 ± 0.00 (n = 5) at 2000",
    ]
    assert said["Cross-entropy is unstable at η = 0.2"][0] == "confirmed"


# --- figures

TINY = times.Setting("split-digits", (1, 8, 8), classes=10, tasks=5, memory=60, steps=5, tested=100)


def test_times_are_measured_with_a_full_memory_and_compared_on_one_device():
    lines = [times.measure(method, TINY, torch.device("cpu")) for method in ("fine-tune", "er", "hybrid")]
    assert all(line["step_ms"] > 0 for line in lines)
    assert lines[1]["test_s"].keys() == {"softmax", "ncm", "ncm-raw"}
    lines = [line | {"stream": "split-cifar100-10"} for line in lines]
    shown = times.on_one_device([*lines, lines[1] | {"device": "another"}], "split-cifar100-10")
    assert shown == {line["method"]: line for line in lines}
    assert judged([], lines)["NCM costs about 3 % of test time"][0] == "not run"  # not on so few images
    lines[1] |= {"step_ms": 10.0, "test_s": {"softmax": 1.0, "ncm": 1.03}, "tested": 10_000}
    lines[2] |= {"step_ms": 10.5}
    said = judged([], lines)
    assert said["NCM costs about 3 % of test time"] == ["confirmed", "1×8×8: 3.0 % more than softmax (cpu)"]
    assert said["Training takes only a bit longer than ER"] == ["confirmed", "1×8×8: 1.05 × ER (cpu)"]


def test_what_was_timed_on_another_device_is_not_timed_again(tmp_path):
    every = [(m, s) for s in times.SHAPES for m in times.methods()]
    lines = [{"method": m, "stream": s, "device": "elsewhere"} for m, s in every]
    for line in lines:
        json_lines.add(tmp_path / times.FILE, line, times.SAME)
    (plan,) = reproduce.Reproduction(["fig4"], tmp_path).plans("cpu")
    assert (plan.there, plan.measurements) == (len(every), [])
    (tmp_path / times.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines[1:]))
    (plan,) = reproduce.Reproduction(["fig4"], tmp_path).plans("cpu")  # not whole there: all of them here, side by side
    assert (plan.there, plan.measurements) == (0, every)
    assert reproduce.commands([plan], tmp_path) == [f"mnemon reproduce fig4 --out {tmp_path}"]


def everything(folder):
    """A folder from which every figure can be drawn."""
    stream = bias.STREAM
    found = [r for name in ("ER", "ER + NCM", "hybrid (the paper's own)") for r in fifteen(Cell(1, row(name), stream))]
    found += [
        made(Cell(1, cells.row(m), s), seed, 30.0, split="valid", options=spec.choice().options())
        for s in memory_sizes.STREAMS[:1]
        for m in ("er", "hybrid")
        for size in memory_sizes.SIZES
        for seed in memory_sizes.SEEDS[:2]
        if (spec := memory_sizes.spec(m, s, size, seed))
    ]
    put(folder, found)
    scores = [[float(j == k) * 4 - j if j <= k else None for j in range(5)] for k in range(5)]
    (folder / "details").mkdir()
    for record in found[:2]:
        text = json.dumps({"labels": [], "classifiers": {"softmax": {"average_scores": scores}}})
        (folder / "details" / f"{record['run']}.json").write_text(text)
    lines = [
        {"method": m, "stream": s, "shape": [3, 32, 32], "device": "cpu", "step_ms": 5.0, "test_s": {"softmax": 1.0},
         "tested": 100} for m in ("er", "hybrid") for s in times.SHAPES
    ]  # fmt: skip
    for line in lines:
        json_lines.add(folder / times.FILE, line, times.SAME)
    return folder


def test_figures_are_drawn_and_the_same_records_give_the_same_bytes(tmp_path):
    drawing = [t for t in targets.TARGETS if isinstance(t, FigureTarget) or t.name == "ranking"]
    for folder in ("a", "b"):
        found = Results.read(everything(tmp_path / folder))
        said = [line for target in drawing for line in target.write(found)]
        assert not [line for line in said if "not drawn" in line]
    figures = [path.stem for path in sorted((tmp_path / "a/figures").glob("*.png"))]
    assert figures == ["fig1a", "fig1b", "fig2", "fig3", "fig4", "fig5", "ranking"]
    for name in figures:
        picture = Image.open(tmp_path / f"a/figures/{name}.png")
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20, name
        drawn = (tmp_path / f"a/figures/{name}.svg").read_text()
        assert "<path" in drawn
        assert "accuracy" in drawn or "logit" in drawn or "probability" in drawn or "training" in drawn
        assert (tmp_path / f"b/figures/{name}.svg").read_text() == drawn


def test_a_figure_without_runs_says_what_is_missing(tmp_path, capsys):
    out, _ = run("reproduce", "fig1", "fig4", "fig5", "--records-only", "--out", str(tmp_path), capsys=capsys)
    lines = out.splitlines()
    assert lines[0] == "fig1a: not drawn, no run of ER on split-cifar10 has its scores (details/RUN.json)"
    assert lines[1] == "fig1b: not drawn, no record of ER + softmax, ER + NCM, hybrid + NCM on split-cifar10"
    assert lines[2] == "fig4: not drawn, nothing was timed yet (times.jsonl)"
    assert not list(tmp_path.glob("figures/*"))


def test_a_figure_of_records_that_are_gone_goes_too(tmp_path):
    work = reproduce.Reproduction(["fig3"], put(tmp_path, fifteen(Cell(1, row("ER"), "split-mnist"))))
    assert work.write() == [f"fig3: {tmp_path / 'figures/fig3.png'} and .svg"]
    drawn = (tmp_path / "figures/fig3.svg").read_bytes()
    reproduce.Reproduction(["fig3"], tmp_path, seeds=[0]).write()  # fewer are asked for, not shown
    assert (tmp_path / "figures/fig3.svg").read_bytes() == drawn
    put(tmp_path, [])
    assert work.write() == ["fig3: not drawn, no record on any Split stream"]
    assert not list(tmp_path.glob("figures/*"))


def test_runs_whose_scores_are_gone_are_made_again_elsewhere(tmp_path):
    everything(tmp_path)
    (plan,) = reproduce.Reproduction(["fig1"], tmp_path, seeds=range(4)).plans()
    assert (plan.runs, [spec.seed for spec in plan.measurements]) == ([], [2, 3])
    again = made(Cell(1, row("ER"), bias.STREAM), 2)
    put(tmp_path / "fig1", [again])
    (tmp_path / "fig1/details").mkdir()
    scores = {"softmax": {"average_scores": [[1.0, None], [0.0, 2.0]]}}
    (tmp_path / f"fig1/details/{again['run']}.json").write_text(json.dumps({"classifiers": scores}))
    assert [s.seed for s in reproduce.Reproduction(["fig1"], tmp_path, seeds=range(4)).plans()[0].measurements] == [3]


# --- the command


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name what to reproduce: table1, table2"),
        (("tabel1",), "unknown target 'tabel1'; did you mean 'table1'?"),
        (("table1", "--methods", "hybird"), "unknown method 'hybird'; did you mean 'hybrid'?"),
        (
            ("table1", "--streams", "split-mnst"),
            "unknown stream of the paper: 'split-mnst'; did you mean 'split-mnist'?",
        ),
        (("table1", "--seeds", "20"), "the seeds of the tables are 0 to 14."),
        (("fig4", "--steps", "0"), "steps is a number of steps, 1 or more, not 0."),
        (("table7", "--records-only", "--fill", "nowhere.md"), "nowhere.md cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, err = run("reproduce", *words, code=2, capsys=capsys)
    assert err.startswith(f"mnemon: {sentence}")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_what_is_missing_and_changes_nothing(tmp_path, capsys):
    put(tmp_path, fifteen(Cell(1, row("fine-tune"), "split-mnist")))
    words = (
        "reproduce",
        "table1",
        "fig3",
        "--streams",
        "split-mnist,split-mini_imagenet-10",
        "--methods",
        "fine-tune,er",
    )
    out, _ = run(*words, "--dry-run", "--out", str(tmp_path), capsys=capsys)
    assert "1 of 6 cells" in out
    assert "15 runs; not run: the dataset mini_imagenet is not here" in out
    assert out.splitlines()[-2:] == [
        f"mnemon run --method er --stream split-mnist --classifier softmax,ncm,ncm-raw --seeds 15 --out {tmp_path}",
        "# 15 runs in all, each made once",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.jsonl"]


def test_the_page_of_a_method_has_its_numbers_on_every_stream():
    found = [*fifteen(Cell(1, row("CoPE"), "split-mnist"), 85), *fifteen(Cell(1, row("ER"), "split-cifar10"), 40)]
    part = pages.one_method("cope", results(found)).parts[0]
    assert part.rows == [
        ["Split MNIST", "87.58 ± 0.65", "85.00 ± 0.25", "9.51 ± 1.15", part.rows[0][4],
         "η 0.005"],
    ]  # fmt: skip
    (*_, absent) = pages.one_method("cope", results(found)).notes
    assert absent.startswith("Not run: Split CIFAR-10; Split CIFAR-100, 10 tasks;")


def test_from_the_records_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "run_all", lambda *_, **__: pytest.fail("ran"))
    put(tmp_path, fifteen(Cell(1, row("ER"), "split-mnist"), 85))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mnemon: split-mnist -->\nold\n<!-- /mnemon -->\nafter\n")
    words = ("reproduce", "all", "--records-only", "--out", str(tmp_path), "--fill", str(page))
    out, _ = run(*words, capsys=capsys)
    assert "table1: 1 of the paper's 69 cells were run: 1 overlap, 0 at least 98.5 %, 0 off; " in out
    assert len(list(tmp_path.glob("tables/*.md"))) == 10  # the seven, the claims, the ranking, the sensitivity
    assert len(list(tmp_path.glob("tables/*.tex"))) == 9
    assert (
        "| ER | 82.34 ± 2.48 | **85.00 ± 0.25**" not in (tmp_path / "tables/table1.md").read_text()
    )  # nothing to beat
    assert "| ER | 82.34 ± 2.48 | 85.00 ± 0.25 | +2.66 ✓ |" in (tmp_path / "tables/table1.md").read_text()
    text = page.read_text()
    assert text.startswith("before\n<!-- mnemon: split-mnist -->\n\n| method |")
    assert text.endswith("<!-- /mnemon -->\nafter\n")
    assert "| ER | 85.00 ± 0.25 | 82.34 ± 2.48 | 20.00 ± 0.00 | 18.33 ± 1.77 | 3.0 |" in text
    assert "old" not in text
    assert f"{page}: up to date" in run(*words, capsys=capsys)[0]


def test_a_document_shows_the_figures_that_are_there(tmp_path):
    (tmp_path / "out/figures").mkdir(parents=True)
    (tmp_path / "out/figures/fig2.png").touch()
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/page.md"
    page.write_text("<!-- mnemon: figures -->\n<!-- /mnemon -->\n")
    reproduce.fill([page], tmp_path / "out")
    assert "](../out/figures/fig2.png)" in page.read_text()
    assert "Not drawn, since their runs are missing: Figure 1a, 1b, 3, 4, 5." in page.read_text()


def test_documents_are_refused_before_they_are_touched():
    with pytest.raises(MnemonError, match="no <!-- /mnemon -->"):
        documents.filled("<!-- mnemon: table1 -->\nopen", str)
    with pytest.raises(MnemonError, match="unknown table 'tabel1'; did you mean 'table1'"):
        documents.filled(
            "<!-- mnemon: tabel1 -->\n<!-- /mnemon -->", lambda name: reproduce.block(name, results([]), Path())
        )


def test_a_run_that_diverges_does_not_keep_the_others_from_the_table(tmp_path, monkeypatch):
    def diverges(specs, out, **_):
        put(out, [made(Cell(1, row("fine-tune"), "split-mnist"), s.seed) for s in specs if s.seed])
        raise Diverged("1 of 2 runs diverged")

    monkeypatch.setattr(runner, "run_all", diverges)
    said = []
    work = reproduce.Reproduction(["table1"], tmp_path, seeds=[0, 1], methods=["fine-tune"], streams=["split-mnist"])
    work.make("cpu", progress=Progress(quiet=True), say=said.append)
    assert said == ["1 of 2 runs diverged"]
    work.write()
    assert "50.00 (n = 1)" in (tmp_path / "tables/table1.md").read_text()


def test_mini_imagenet_runs_as_soon_as_its_images_are_here_and_never_twice(tmp_path, monkeypatch, capsys):
    """Small generated images in the layout of the real ones: a folder per class."""
    rng = np.random.default_rng(0)
    for label in range(20):
        folder = tmp_path / f"images/n{label:02}"
        folder.mkdir(parents=True)
        for place in range(10):
            pixels = rng.integers(0, 60, (84, 84, 3)) + 9 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place}.png", compress_level=0)
    words = ("reproduce", "table1", "table2", "table5", "--methods", "fine-tune", "--streams", "split-mini_imagenet-10")
    words = (*words, "--seeds", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path / "out"))
    assert "not run: the dataset mini_imagenet is not here" in run(*words, "--dry-run", capsys=capsys)[0]
    data.import_("mini_imagenet", tmp_path / "images", quiet=True)
    monkeypatch.setattr(plan, "can_run", lambda stream: "mini_imagenet" in stream)  # nothing is downloaded
    assert "0 of 1 cells" in run(*words, capsys=capsys)[0]
    (record,) = records.read(tmp_path / "out")
    lines = (tmp_path / "out/tables/table1.md").read_text()
    assert f"| fine-tune | 4.43 ± 0.19 | {record['average_accuracy']:.2f} (n = 1) |" in lines
    forgotten = f"{record['average_forgetting']:.2f}".replace("-", "−")
    assert f"| fine-tune | 41.12 ± 0.82 | {forgotten} (n = 1) |" in (tmp_path / "out/tables/table2.md").read_text()
    assert "|  | ours | 3×84×84 | 20 | 140 | 20 | 40 | 10 | 2 |" in (tmp_path / "out/tables/table5.md").read_text()
    monkeypatch.setattr(runner, "run_all", lambda *_, **__: pytest.fail("ran again"))
    assert "1 of 1 cells" in run(*words, capsys=capsys)[0]


# --- the report


def test_the_report_shows_what_is_behind_each_cell():
    cell = Cell(1, row("hybrid (the paper's own)"), "split-mnist")
    these = fifteen(cell, 88.0)
    other = fifteen(cell, options=these[0]["options"] | {"lr": 0.3})
    text = paper_comparison(results([*these, *other]))
    assert "1 of the 102 accuracies the paper prints were run here" in text
    assert '<td class="theirs">88.79 <span class="pm">± 0.26</span></td>' in text
    assert '−0.79 <span class="good"' in text
    assert "<td>15</td><td>3.00</td><td>cpu</td>" in text
    assert (
        "mnemon run --method hybrid --stream split-mnist --classifier ncm,ncm-raw,proxy --seeds 15 --device cpu" in text
    )
    assert all(r["run"] in text for r in these)
    assert not any(r["run"] in text for r in other)
    assert paper_comparison(results([r | {"stream": "split-digits"} for r in fifteen(cell)])) == ""
    assert "What the paper’s text claims" not in text
    last = Cell(4, row("fine-tune", 4), "smooth-cifar10")
    text = paper_comparison(results(fifteen(last, 10.0)))
    assert "<td>confirmed</td><td>Smooth CIFAR-10: 10.00 ± 0.25 %, one class of 10 is 10 %</td>" in text
    assert escape(entries.RULES) in text  # what the verdicts mean
    assert "not run" not in text


# --- what is committed


def test_committed_tables_and_documents_say_what_the_records_say():
    """When this fails: `make results`."""
    folder = committed()
    found = Results.read(folder)
    written = ("README.md", "docs/reproduction.md", "docs/choosing.md", "docs/ambiguities.md")
    for path in (*(ROOT / name for name in written), *(ROOT / f"docs/methods/{name}.md" for name in methods())):
        text = path.read_text(encoding="utf-8")
        assert "<!-- mnemon: " in text
        assert documents.filled(text, lambda name: reproduce.block(name, found, path.parent)) == text  # noqa: B023, path
    for target in (target for target in targets.TARGETS if isinstance(target, TableTarget)):
        made, written = target.table(found), folder / f"tables/{target.name}"
        assert written.with_suffix(".md").read_text(encoding="utf-8") == target.markdown(made), target.name
        assert written.with_suffix(".tex").read_text(encoding="utf-8") == markup.latex(made, target.command), (
            target.name
        )


@pytest.mark.slow
@pytest.mark.parametrize("line", json_lines.read(ROOT / "results" / stream_facts.FILE), ids=lambda line: line["stream"])
def test_the_committed_facts_of_the_streams_are_counted_again(line):
    data.load(protocol.parse(line["stream"]).dataset)
    assert stream_facts.stream_facts(line["stream"]) == line


def test_to_write_nothing_and_to_write_only_exclude_each_other(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["reproduce", "all", "--dry-run", "--records-only", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "choose one of them" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_method_that_is_no_row_is_refused_with_the_way_to_compare_it(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "all_methods", lambda: {**methods(), "mine": methods()["er"]})
    with pytest.raises(MnemonError, match=r"mine is no row of the paper's tables; .* `mnemon report --table`"):
        reproduce.Reproduction(["table1"], tmp_path, methods=["mine"])


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


# --- differences that the text states, seed by seed

TWO_PASSES = ({"options": {"forward": "separate"}}, {})


def rates(one, other):
    return tuple({"split": "valid", "options": {"lr": lr}} for lr in (one, other))


HIGHEST_RATE = rates(0.4, 0.05)


@pytest.mark.parametrize(
    ("pair", "method", "stream", "metric", "said"),
    [
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
    ],
)
def test_the_differences_in_the_text_are_those_of_the_records(pair, method, stream, metric, said):
    index = Found(records.read(committed()))
    specs = [Spec(method, stream, **given) for given in pair]
    one, other = (index.like(spec, spec.choice().classifiers[0].name) for spec in specs)
    differences = [one[seed][metric] - other[seed][metric] for seed in sorted(one.keys() & other.keys())]
    mean, half = confidence_interval(differences)
    assert said.lstrip("+−") == f"{abs(mean):.1f} ± {half:.1f}"
    assert (mean > 0) == said.startswith("+")
    assert said in (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
