"""Which method for which stream, the claims about the baselines, and the device time: what the records say, and no more."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch

from cell_records import HYBRID, committed, fifteen, made, put, results, row, runs, timed
from mnemon import cli
from mnemon.experiments.spec import Spec
from mnemon.learning.build import choose
from mnemon.learning.memory import Memory
from mnemon.metrics import confidence_interval
from mnemon.paper import cells, device_time, plan, ranking, reproduce, times
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.paper.targets.ranking import Ranking, without_crowding
from mnemon.render import markup, names, svg
from mnemon.render.tables import Bold

TEN, TWENTY = "split-cifar100-10", "split-cifar100-20"
ACCURACY = "average_accuracy"


def lines_of(table):
    """Row name → column → text."""
    heads = [column.name for column in table.parts[0].columns]
    return {line[0]: dict(zip(heads, line, strict=True)) for line in table.parts[0].rows}


# --- the table


def test_a_method_gets_no_rank_for_streams_it_was_not_run_on():
    found = runs({"ER": 85, HYBRID: 88, "CoPE": 95, "ER + NCM": 88}, "split-mnist")
    found += runs({"ER": 40, HYBRID: 50, "ER + NCM": 45}, "split-cifar10")
    found += fifteen(Cell(1, row("CoPE"), "split-cifar10"), 99)[:2]  # too few to judge by
    known = ranking.ranks(results(found), "Split")
    assert {way.name: rank for way, rank in known.of.items()} == {"ER": 3.0, HYBRID: 1.25, "ER + NCM": 1.75}
    shown = lines_of(Ranking().table(results(found)))
    assert shown["CoPE"]["mean rank on Split (of 3)"] == "– (1 of 2 run)"
    assert shown["ER"]["mean rank on Split (of 3)"] == "3.0"
    assert not [head for head in shown["ER"] if "Smooth" in head or "CIFAR-100" in head]  # nothing is known of them


def test_a_stream_whose_runs_have_only_begun_leaves_the_ranks_as_they_are():
    found = runs({"ER": 85, HYBRID: 88, "CoPE": 95, "ER + NCM": 88}, "split-mnist")
    before = ranking.ranks(results(found), "Split")
    begun = found + runs({"ER": 10, HYBRID: 16}, "split-mini_imagenet-10")
    assert ranking.ranks(results(begun), "Split") == before
    assert lines_of(Ranking().table(results(begun)))["ER"]["Split miniImageNet, 10 tasks"].startswith("10.00")
    most = begun + runs({"CoPE": 11}, "split-mini_imagenet-10")
    assert len(ranking.ranks(results(most), "Split").of) == 3


def test_the_ranking_has_the_best_in_bold_and_says_who_is_not_told_from_it():
    near = [made(Cell(4, row("hybrid-ACE"), "smooth-cifar10"), s, 50 + (-1) ** s) for s in range(14)]
    found = runs({"ER + NCM": 50.2, "ER": 40}, "smooth-cifar10", 4) + near
    shown = {name: line["Smooth CIFAR-10"] for name, line in lines_of(Ranking().table(results(found))).items()}
    assert [name for name, text in shown.items() if isinstance(text, Bold)] == ["ER + NCM †"]
    assert shown["hybrid-ACE †"].startswith("50.00 ± ")
    assert shown["hybrid-ACE †"].endswith("(n = 14) ≈")
    assert shown["ER"] == "40.00 ± 0.25"
    assert {shown[name] for name in ("GSS", "SCR †", HYBRID)} == {"not run"}
    assert markup.latex(Ranking().table(results(found)), "mnemon").isascii()


def test_costs_are_beside_ers_and_only_what_was_measured():
    found = runs({"ER": 40, "ER + NCM": 50, HYBRID: 49}, TEN)
    step, test = "step, × ER's", "test pass, × ER's"
    shown = lines_of(Ranking().table(results(found, lines=timed({"er": 2.0, "hybrid": 2.5, "mir": 5.0}))))
    assert (shown["ER"][step], shown["ER"][test]) == ("1.00", "1.00")
    assert (shown["ER + NCM †"][step], shown["ER + NCM †"][test]) == ("1.00", "1.04")  # trains as ER does
    assert (shown[HYBRID][step], shown[HYBRID][test]) == ("1.25", "1.04")
    assert shown["MIR"][step] == "2.50"
    assert (shown["GSS"][step], shown["GSS"][test]) == ("not measured", "not measured")
    few = lines_of(Ranking().table(results(found, lines=timed({"er": 2.0, "hybrid": 2.5}, tested=1000))))
    assert (few[HYBRID][step], few[HYBRID][test]) == ("1.25", "not measured")
    assert ranking.cost(results([], lines=timed({"er": 2.0, "hybrid": 2.5})), row(HYBRID), "split-mnist").step is None


@pytest.mark.parametrize("way", cells.online_rows(), ids=lambda way: way.name)
def test_what_is_kept_beside_an_image_is_what_the_memory_holds(way):
    method = choose(way.method).method
    if not method.replays:
        assert ranking.extra_bytes(way) is None
        return
    pixels = torch.float32 if method.edits_memory else torch.uint8
    memory = Memory(4, (3, 32, 32), pixels, torch.device("cpu"), method.columns, capacity=100)
    held = sum(part[0].nbytes for part in (memory.x, *memory.extra.values()))
    assert ranking.extra_bytes(way) == held - 3 * 32 * 32


# --- the picture


def test_the_picture_marks_whom_nobody_beats_at_its_cost():
    found = runs({"ER": 40, "ER + NCM": 50, HYBRID: 49, "MIR": 42, "GSS": 60, "A-GEM": 50}, "split-cifar10")
    lines = timed({"er": 2.0, "hybrid": 2.5, "mir": 4.0, "gss": 20.0, "a-gem": 2.0, "fine-tune": 1.0})
    shown = ranking.points(results(found, lines=lines), "split-cifar10")
    assert {p.row.name for p in shown if p.best} == {"ER + NCM", "GSS", "A-GEM"}
    assert {p.row.name: p.cost for p in shown}["GSS"] == 10.0
    assert shown[0].accuracy.half == pytest.approx(0.2477, abs=1e-3)
    assert len(shown) == 6  # fine-tune was timed, not run
    assert len(without_crowding(shown)) == 6  # five of them keep A-GEM among them
    more = [p._replace(row=row("CoPE")) for p in shown[:1]]
    assert "A-GEM" not in {p.row.name for p in without_crowding(shown + more)}


def test_names_in_the_picture_stay_apart_and_in_order():
    values = [50.0, 50.1, 49.9, 10.0, 53.0, 52.9]
    heights = svg.apart(values, 2.0, 5.0, 53.0)
    by_value = [heights[i] for i in sorted(range(6), key=lambda i: values[i])]
    assert all(b - a >= 2.0 - 1e-9 for a, b in pairwise(by_value))
    assert 5.0 <= by_value[0] == 10.0
    assert by_value[-1] <= 53.0
    assert svg.apart([1.0, 1.0, 9.0], 2.0).tolist() == [0.0, 2.0, 9.0]  # each gives way by half


def test_without_times_the_picture_is_not_drawn_and_the_page_says_so(tmp_path, capsys):
    out, page = put(tmp_path / "out", runs({"ER": 40, HYBRID: 50}, "split-cifar10")), tmp_path / "page.md"
    page.write_text("<!-- mnemon: ranking -->\n<!-- /mnemon -->\n<!-- mnemon: ranking-figure -->\n<!-- /mnemon -->\n")
    words = ["reproduce", "ranking", "--records-only", "--out", str(out), "--fill", str(page)]
    cli.main(words)
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("ranking: not drawn, no stream has two methods that were run and timed beside ER")
    assert "Not drawn: what it needs is not measured yet." in page.read_text()
    assert "| ER | 40.00 ± 0.25 | 2.0 | not measured | not measured | – |" in page.read_text()
    (out / "times.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timed({"er": 2.0, "hybrid": 2.5})))
    cli.main(words)
    assert "](out/figures/ranking.png)" in page.read_text()
    assert "| 1.25 | 1.04 | – |" in page.read_text()
    assert "Split CIFAR-10" in (out / "figures/ranking.svg").read_text()


def test_the_target_asks_for_runs_and_times(tmp_path):
    work = reproduce.Reproduction(["ranking"], tmp_path, seeds=[0], methods=["er"], streams=["split-mnist", TEN])
    (planned,) = work.plans("a device")
    assert [(spec.method, spec.stream) for spec in planned.runs] == [("er", TEN), ("er", "split-mnist")]
    assert planned.measurements == [("er", TEN)]
    assert not [
        spec
        for spec in reproduce.Reproduction(["ranking"], tmp_path).plans()[0].runs
        if spec.method in names.UPPER_BOUNDS
    ]


def test_a_method_is_timed_once_for_two_targets(tmp_path, monkeypatch):
    asked = []

    def measure(method, setting, device):
        asked.append((method, setting.stream))
        return timed({method: 1.0}, setting.stream, device="cpu")[0]

    monkeypatch.setattr(times, "measure", measure)
    monkeypatch.setattr(plan, "can_run", lambda stream: False)
    work = reproduce.Reproduction(["fig4", "ranking"], tmp_path, methods=["er"])
    work.make("cpu")
    assert asked == [("er", stream) for stream in times.SHAPES]
    assert not [planned for planned in work.plans("cpu") if planned.measurements]


# --- what the tables took


def test_device_time_divides_only_what_says_how_many_shared_it():
    cell, gpu = Cell(1, row("MIR"), "split-cifar10"), {"device": "a GPU", "precision": "tf32"}
    took = {"train": 570.0, "evaluate": 30.0}
    found = [made(cell, seed, at_once=30, seconds=took, **gpu) for seed in range(3)]
    found += [made(cell, 3, seconds=took, **gpu), made(cell, 4, at_once=1, seconds=took, **gpu)]
    found += [made(Cell(1, row("MIR"), "split-mnist"), 0, at_once=2, seconds=took)]
    said = device_time.sentence(results(found))
    assert "6 of them are there." in said
    assert "**a GPU**: 3 runs that shared the device took 1.0 minutes of it" in said
    assert "2 runs that name none beside them took 20.0 minutes by their own clocks" in said
    assert "**cpu**: 1 run, 10.0 minutes by their own clocks" in said


def test_device_time_counts_a_training_once_and_leaves_mini_imagenet_out():
    er = [made(Cell(1, row(name), "split-mnist"), seed) for name in ("ER", "ER + NCM") for seed in range(15)]
    wanted, there = device_time.runs(results([*er, made(Cell(1, row("ER"), "split-mini_imagenet-10"))]))
    assert len(there) == 15
    split = (len(cells.rows(1)) - 1) * 4 - 2  # ER and ER + NCM are one training; i.i.d. runs know no tasks
    assert wanted == 15 * (split + (len(cells.rows(4)) - 1) * 2)


# --- what is written by hand


def pages_of(method):
    """A method's own page, and the page of advice."""
    return [committed().parent / "docs" / name for name in (f"methods/{method}.md", "choosing.md")]


def test_the_advice_of_the_page_is_what_the_records_say():
    """When this fails, the records changed: read docs/choosing.md again and say what they say now."""
    known = Results.read(committed())
    mean = lambda name, stream: ranking.found(known, row(name), stream).estimate.mean  # noqa: E731
    here = ranking.streams(known)
    mini = [stream for stream in here if "mini_imagenet" in stream]
    best = {
        stream: max((way for way in cells.online_rows() if ranking.found(known, way, stream).values),
                    key=lambda way: ranking.found(known, way, stream).estimate.mean).name for stream in here
    }  # fmt: skip
    assert best == {
        "split-mnist": "PCR",
        "split-cifar10": "hybrid-ACE",
        TEN: "hybrid-ACE",
        TWENTY: "hybrid-ACE",
        "smooth-cifar10": "ER + NCM",
        "smooth-cifar100": "hybrid-ACE",
        "split-mini_imagenet-10": "hybrid-ACE",
        "split-mini_imagenet-20": "hybrid-ACE",
        "smooth-mini_imagenet": HYBRID,
    }
    assert {w.name for w in cells.online_rows() if ranking.found(known, w, mini[0]).values} == {
        "fine-tune",
        "ER",
        "A-GEM",
        "CoPE",
        "ER + NCM",
        "hybrid-ACE",
        HYBRID,
    }
    cope = {s: known.difference(row("CoPE"), row("ER"), s).sign for s in here if s.startswith("split")}
    assert cope == dict.fromkeys(cope, 1) | {"split-mini_imagenet-10": -1, "split-mini_imagenet-20": 0}
    shown = lines_of(Ranking().table(known))
    assert [name for name, line in shown.items() if line["Split MNIST"].endswith("≈")] == ["CoPE"]
    assert [name for name, line in shown.items() if line["Smooth CIFAR-100"].endswith("≈")] == ["ER + NCM †"]
    assert [name for name, line in shown.items() if line["Smooth miniImageNet"].endswith("≈")] == ["hybrid-ACE †"]
    assert not any(line[s].endswith("≈") for line in shown.values() for s in line if s.startswith("Split mini"))
    assert all(mean("ER + NCM", stream) > mean("ER", stream) for stream in here)
    ahead = known.difference(row("PCR"), row("ER + NCM"), "split-mnist")
    assert [stream for stream in here if ranking.found(known, row("PCR"), stream).values] == ["split-mnist"]
    assert all(f"{ahead} above ER + NCM" in page.read_text(encoding="utf-8") for page in pages_of("pcr"))
    apart = {s: known.difference(row(HYBRID), row("ER + NCM"), s, ranking.cell(row("ER"), s).table) for s in here}
    assert {s for s in here if apart[s].sign == 0} == {"split-cifar10", "smooth-cifar100", "split-mini_imagenet-10"}
    assert [s for s in here if apart[s].sign > 0] == ["smooth-mini_imagenet"]
    assert len(here) == 9
    assert "eight of nine streams" in " ".join((committed().parent / "README.md").read_text(encoding="utf-8").split())
    softmax = [way for way in cells.online_rows() if way.classifier == "softmax"]
    known_means = {
        (w.name, s): found.mean for s in here for w in softmax if (found := ranking.found(known, w, s).estimate)
    }
    above = [(name, stream) for (name, stream), value in known_means.items() if value > mean(HYBRID, stream)]
    assert above == [("ER-ACE", TEN), ("ER-ACE", TWENTY)]
    las = [known.difference(row(HYBRID), row("LAS"), s) for s in (TEN, TWENTY)]
    assert not any(gap.sign for gap in las)
    leading = {s: max((value, name) for (name, stream), value in known_means.items() if stream == s)[1] for s in here}
    assert [s for s, name in leading.items() if name == "ER-ACE"] == ["split-cifar10", TEN, TWENTY]
    dear = {"MIR", "GMED-ER", "GMED-MIR", "GSS", "ASER"}
    assert all(value < mean("ER + NCM", s) for (name, s), value in known_means.items() if name in dear)
    assert all(2.6 < float(shown[name]["step, × ER's"]) < 6.5 for name in dear)
    wide = known.index.like(
        Spec("scr", TEN, loss="supcon", options={"lr": 0.05, "replay_size": 100, "views": 2}), "ncm-unit"
    )
    of_scr, of_advice = (page.read_text(encoding="utf-8") for page in pages_of("scr"))
    for name in ("hybrid-ACE", "ER + NCM"):
        theirs = ranking.found(known, row(name), TEN).records
        more, half = confidence_interval([wide[seed][ACCURACY] - theirs[seed][ACCURACY] for seed in wide])
        assert more > half
        assert f"{more:.1f} ± {half:.1f}" in of_scr
    among, half = confidence_interval([record[ACCURACY] for record in wide.values()])
    assert all(
        among - half > mean(way.name, TEN) for way in cells.online_rows() if ranking.found(known, way, TEN).values
    )
    assert f"{among:.2f} ± {half:.2f}" in of_scr
    assert f"{among:.2f} ± {half:.2f}" in of_advice
