"""The figures: drawn from the records, or a line on what is missing."""

from __future__ import annotations

import json

import torch
from PIL import Image

from cell_records import fifteen, judged, made, put, row
from command_line import run
from mnemon.paper import bias, cells, json_lines, memory_sizes, reproduce, targets, times
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.paper.targets.target import FigureTarget

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
