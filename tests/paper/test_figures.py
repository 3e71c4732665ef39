"""The figures: drawn from the records, or a line on what is missing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from cell_records import fifteen, judged, made, put, row
from command_line import run
from mnemon.paper import bias, cells, drawing, json_lines, memory_sizes, reproduce, targets, times
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.paper.targets import fig1, fig2
from mnemon.paper.targets.target import FigureTarget
from mnemon.streams.kinds.smooth import class_weights

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


DRAWING = [t for t in targets.TARGETS if isinstance(t, FigureTarget) or t.name == "ranking"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return everything(tmp_path_factory.mktemp("figures") / "a")


@pytest.fixture(scope="module")
def drawn(folder, tmp_path_factory):
    """Every figure as matplotlib has it, by name; they are written to the folder, too."""
    found = {}

    def write(path, draw, original=drawing.write):
        def kept():
            found[path.stem] = draw()
            return found[path.stem]

        original(path, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNEMON_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setattr(drawing, "write", write)
        read = Results.read(folder)
        said = [line for target in DRAWING for line in target.write(read)]
    assert not [line for line in said if "not drawn" in line]
    return found


def curves(ax):
    """The data of the lines, as lists of y."""
    return [[round(float(y), 2) for y in line.get_ydata()] for line in ax.get_lines()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_figure_1_shows_the_mean_logits_and_what_is_left_of_each_task(drawn, folder):
    (ax,) = drawn["fig1a"].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tasks learned", "mean logit")
    assert ax.get_title() == "ER + softmax, Split CIFAR-10, 2 runs"
    *tasks, newest = curves(ax)
    assert tasks == [[4 - j, *[-j] * (4 - j)] for j in range(5)]  # from the task's own end on
    assert newest == [4 - j for j in range(5)]
    assert texts(ax) == [f"task {j}" for j in range(1, 6)]

    (ax,) = drawn["fig1b"].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("task", "accuracy, % (pale: forgotten)")
    assert ax.get_ylim() == (0, 100)
    assert [text.get_text() for text in drawn["fig1b"].legends[0].get_texts()] == list(fig1.ROWS)
    er = Results.read(folder).of(Cell(1, row("ER"), bias.STREAM)).matrices
    bars = [bar.get_height() for bar in ax.containers[0]]
    assert bars == pytest.approx(er[:, -1].mean(0))
    pale = [(bar.get_y(), bar.get_height()) for bar in ax.containers[1]]  # on top, for all tasks but the last
    assert pale == [
        (pytest.approx(y), pytest.approx(h)) for y, h in zip(bars, fig1.forgotten(er).mean(0), strict=False)
    ]


def test_figure_2_shows_both_kinds_of_stream(drawn):
    split, smooth = drawn["fig2"].axes
    assert [ax.get_title() for ax in (split, smooth)] == ["Split", "Smooth"]
    assert {ax.get_ylim() for ax in (split, smooth)} == {(0, 1)}
    assert split.get_ylabel() == "class probability"
    assert len(curves(split)) == len(curves(smooth)) == 10
    assert all(max(line) in (0.48, 0.5) for line in curves(split))  # two classes share a task
    weights = class_weights(10, fig2.LENGTH, 0.5)
    assert [max(line) for line in curves(smooth)] == pytest.approx(weights[::10].max(0), abs=0.01)
    assert texts(smooth) == [str(c) for c in range(10)]


def test_figure_3_shows_the_mean_accuracy_after_each_task(drawn, folder):
    (ax,) = [ax for ax in drawn["fig3"].axes if ax.get_visible()]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("Split CIFAR-10", "tasks learned", "accuracy, %")
    assert ax.get_ylim()[0] == 0
    assert set(texts(ax)) == {"ER", "ER + NCM", "hybrid"}
    er = Results.read(folder).of(Cell(1, row("ER"), bias.STREAM)).matrices
    assert [round(float(v), 2) for v in np.nanmean(er, axis=2).mean(0)] in curves(ax)


def test_figure_4_shows_times_and_their_ratio_to_er(drawn):
    left, right = drawn["fig4"].axes[:2]
    assert left.get_xlabel() == "training, ms a step\n(in brackets: times ER)"
    assert right.get_xlabel() == "test, s for 100 images\n(in brackets: times ER + softmax)"
    assert [label.get_text() for label in left.get_yticklabels()] == ["ER", "hybrid"]
    assert [bar.get_width() for bar in left.patches] == [5.0, 5.0]
    assert texts(left) == ["5.00  (1.00 ×)"] * 2


def test_figure_5_shows_accuracy_over_the_memory_on_a_log_scale(drawn):
    (ax,) = drawn["fig5"].axes
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "memory", "validation accuracy, %")
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(size) for size in memory_sizes.SIZES]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ER", "hybrid"]
    for container in ax.containers:
        assert list(container.lines[0].get_xdata()) == list(memory_sizes.SIZES)
        assert list(container.lines[0].get_ydata()) == pytest.approx([30.0] * len(memory_sizes.SIZES))


def test_the_ranking_shows_accuracy_over_the_time_of_a_step_on_a_log_scale(drawn):
    ax = next(ax for ax in drawn["ranking"].axes if ax.get_visible())
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == (
        "log",
        "time of a training step, × ER's",
        "accuracy, %",
    )
    assert any("hybrid" in text for text in texts(ax))


def test_the_same_records_give_the_same_bytes(drawn, folder, tmp_path):
    again = Results.read(everything(tmp_path / "b"))
    for target in DRAWING:
        target.write(again)
    assert sorted(drawn) == ["fig1a", "fig1b", "fig2", "fig3", "fig4", "fig5", "ranking"]
    for name in (f"figures/{figure}.{ending}" for figure in drawn for ending in ("svg", "png")):
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


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
