"""The tables of the paper say what the records say."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from cell_records import fifteen, made, results, row
from mnemon import data
from mnemon.paper import hybrid_readings, json_lines, pages, stream_facts, targets
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.paper.targets.target import compact
from mnemon.render import markup
from mnemon.render.tables import Bold


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
    assert grid(table)["CoPE"][:3] == ["9.51 ± 1.15", "10.00 ± 2.48 (n = 3)", "+0.49 ?"]
    assert grid(table)["CoPE"][3:] == ["40.01 ± 1.80", "not run", ""]
    assert grid(table_of(2, results([made(cell, lost=9.0)])))["CoPE"][1] == "9.00 (n = 1)"
    assert {cell for line in grid(table, 2).values() for cell in line[1::3]} == {"not run"}  # miniImageNet


@pytest.mark.parametrize(
    ("table", "name", "mean", "mark"),
    [
        (1, "ER", 40.5, "✓"),  # the paper: 39.88 ± 1.52
        (1, "ER", 45.0, "▲"),
        (1, "ER", 35.0, "▼"),
        (1, "CoPE", 46.7, "✓"),
        (2, "ER", 56.5, "+3.78 ▲"),  # 52.72 ± 1.90
        (2, "ER", 30.0, "−22.72 ▼"),
    ],
)
def test_the_mark_says_how_ours_stands_to_the_papers(table, name, mean, mark):
    cell = Cell(table, row(name, table), "split-cifar10")
    values = [mean + (seed - 7) / 10 for seed in range(15)]
    found = [made(cell, s, **({"lost": v} if table == 2 else {"value": v})) for s, v in enumerate(values)]
    assert grid(table_of(table, results(found)))[name][5].endswith(mark)
    alone = grid(table_of(table, results(found[:1])))[name][5]
    assert re.fullmatch(r"[+−]\d+\.\d\d \?", alone)  # too few runs to tell


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
    assert lines["hybrid + proxy"][:3] == ["48.16 ± 1.21", "45.00 ± 0.25", "−3.16 ▼"]
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


def test_the_page_of_a_method_has_its_numbers_on_every_stream():
    found = [*fifteen(Cell(1, row("CoPE"), "split-mnist"), 85), *fifteen(Cell(1, row("ER"), "split-cifar10"), 40)]
    part = pages.one_method("cope", results(found)).parts[0]
    assert part.rows == [
        ["Split MNIST", "87.58 ± 0.65", "85.00 ± 0.25", "9.51 ± 1.15", part.rows[0][4],
         "η 0.005"],
    ]  # fmt: skip
    (*_, absent) = pages.one_method("cope", results(found)).notes
    assert absent.startswith("Not run: Split CIFAR-10; Split CIFAR-100, 10 tasks;")


def test_a_scale_of_the_proxies_has_the_records_of_that_scale_and_of_no_other():
    cell = Cell(3, row("hybrid + proxy", 3), "split-cifar10")
    options = cell.spec().choice().options()
    found = [*fifteen(cell, 38), *fifteen(cell, 47, options=options | {"scale": 10.0})]
    found += [made(cell, seed, 46, split="valid", options=options | {"scale": 10.0}) for seed in (100, 101, 102)]
    rows = hybrid_readings.proxy_scales(results(found)).parts[0].rows
    shown = {line[1]: (line[4], line[7]) for line in rows if line[0] == "Split CIFAR-10"}
    assert shown["paper"] == ("–", "48.16 ± 1.21")
    assert shown["2"] == ("not run", "38.00 ± 0.25")
    assert shown["10"] == ("46.00 ± 0.00", "47.00 ± 0.25")
    assert shown["18"] == ("not run", "not run")
