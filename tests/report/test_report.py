"""The report: what is on the page is what is in the records, and the page is one well-formed file on its own."""

from __future__ import annotations

import csv
import json
import re
import shlex
import xml.etree.ElementTree as ET
from contextlib import suppress
from html import unescape

import numpy as np
import pytest

import mnemon.report
from cell_records import committed
from mnemon import cli
from mnemon.errors import MnemonError
from mnemon.experiments import protocol, runner
from mnemon.experiments.recipes import recipes
from mnemon.experiments.spec import Spec
from mnemon.metrics import confidence_interval
from mnemon.render import names
from mnemon.report import groups, protocol_summary
from mnemon.report.commands import commands
from mnemon.report.figures import drawn_groups
from mnemon.report.headline import headline
from mnemon.report.page import _front
from mnemon.report.pairs import difference


def make(
    method="er",
    stream="split-digits",
    seed=0,
    *,
    loss=None,
    classifier=None,
    kind="split",
    tasks=5,
    labels=tuple(range(10)),
    level=80.0,
    loses=5.0,
    split="test",
    **options,
):
    """A record: task j has `level` + seed when learned, and loses `loses` points with each later task."""
    labels = list(labels)
    if kind == "split":
        matrix = [
            [max(level + seed - loses * (k - j), 0.0) if j <= k else None for j in range(tasks)] for k in range(tasks)
        ]
    else:
        matrix = [[level + seed] * (tasks if kind == "iid" else 1)]
    parts = [part.tolist() for part in np.array_split(np.array(labels, object), tasks)]
    last = [float(v) for v in matrix[-1]]
    several = len(matrix) > 1
    best = [max(row[j] for row in matrix[:-1] if row[j] is not None) for j in range(tasks - 1)] if several else []
    options = {"lr": 0.05, "batch_size": 10, "replay_size": 10, "memory_size": 200} | options
    if method == "fine-tune":
        del options["replay_size"], options["memory_size"]
    loss = loss or ("hybrid" if method == "hybrid" else "ce")
    return {
        "method": method,
        "stream": stream,
        "seed": seed,
        "loss": loss,
        "classifier": classifier or ("ncm" if method == "hybrid" else "softmax"),
        "memory_size": options.get("memory_size", 0),
        "divisor": None,
        "order": "natural",
        "split": split,
        "cell": None,
        "average_accuracy": sum(last) / len(last),
        "average_forgetting": sum(b - e for b, e in zip(best, last, strict=False)) / len(best) if best else None,
        "anytime_accuracy": float(np.mean([np.mean([v for v in row if v is not None]) for row in matrix])),
        "learning_accuracy": level + seed if kind == "split" else None,
        "accuracy_matrix": matrix,
        "options": options,
        "protocol": {
            "kind": kind,
            "tasks": parts if kind == "split" else [labels],
            "boundaries": [250 * (k + 1) for k in range(tasks)] if kind == "split" else [250 * tasks],
            "tested": parts if kind != "smooth" else [labels],
            "class_counts": [[label, 25] for label in labels],
            "samples": 250 * tasks,
            "batches": 25 * tasks,
            "passes": 1,
            "augmentation": "none",
            "memory": "none" if kind == "iid" else "reservoir",
            "forward": "joint",
            "backbone": "mlp",
            "parameters": 190410,
        },
        "seconds": {"train": 1.5, "evaluate": 0.5},
        "device": "cpu",
        "threads": 2,
        "versions": {"mnemon": "0.1.0", "torch": "2.13.0"},
        "data": {"name": "digits", "checksum": "ab" * 32},
        "run": f"{method}-{stream}-{loss}-{split}-{'-'.join(f'{k}{v}' for k, v in options.items())}-s{seed}",
        "finished": "2026-11-15T08:00:00+00:00",
    }


def put(folder, records, *, details=True):
    """Write a folder as the runner does."""
    (folder / "details").mkdir(parents=True, exist_ok=True)
    (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    runs = {}
    for r in records if details else []:
        labels = [label for label, _ in r["protocol"]["class_counts"]]
        rows = len(r["accuracy_matrix"])
        scores = [[float(j == k) if j <= k else None for j in range(len(r["accuracy_matrix"][0]))] for k in range(rows)]
        counts = (9 * np.eye(len(labels), dtype=int) + np.eye(len(labels), k=1, dtype=int)).tolist()
        whole = runs.setdefault(r["run"], {"labels": labels, "classifiers": {}})
        whole["classifiers"][r["classifier"]] = {"average_scores": scores, "confusion": counts}
    for run, whole in runs.items():
        (folder / "details" / f"{run}.json").write_text(json.dumps(whole))
    return folder


def demo(seeds=3):
    """What `mnemon demo` leaves behind, in small."""
    found = []
    for seed in range(seeds):
        found.append(make("fine-tune", seed=seed, level=95, loses=30))
        found.append(make("er", seed=seed, level=90, loses=12))
        found.append(make("er", seed=seed, level=90, loses=6, classifier="ncm"))
        found.append(make("hybrid", seed=seed, level=92, loses=1, gamma=0.1))
    return found


def page(folder):
    """The page's text and tree; parsing it as XML is a stricter test of its form than any browser's."""
    text = mnemon.report.write(folder).read_text(encoding="utf-8")
    return text, ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def rows(tree):
    """The results tables as lists of texts, row by row."""
    return [["".join(cell.itertext()).strip() for cell in row] for row in tree.iter("tr")]


def figures(tree):
    return [f.get("class") for f in tree.iter("figure")]


def test_the_page_is_well_formed_accessible_and_on_its_own(tmp_path):
    text, tree = page(put(tmp_path, demo()))
    assert tree.get("lang") == "en"
    assert tree.find("head/title").text == "Split Digits: mnemon report"
    assert "http" not in text
    assert not list(tree.iter("script"))
    assert not list(tree.iter("link"))
    for element in tree.iter():
        for name in ("src", "href"):
            assert element.get(name, "#").startswith(("#", "data:image/png;base64,")), element.attrib
    ids = [e.get("id") for e in tree.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert used <= set(ids)
    plots = [s for s in tree.iter("svg") if s.get("class") == "plot"]
    assert all(s.get("role") == "img" and s.get("aria-label") for s in plots)
    assert all(cell.get("scope") for cell in tree.iter("th"))
    assert tree.find(".//caption") is not None


def test_every_figure_is_there_with_a_panel_for_each_method(tmp_path):
    _, tree = page(put(tmp_path, demo()))
    assert figures(tree) == ["curves", "tasks", "scores", "confusion", "probability"]
    panels = {f.get("class"): len([s for s in f.iter("svg") if s.get("class") == "plot"]) for f in tree.iter("figure")}
    assert panels == {"curves": 1, "tasks": 4, "scores": 2, "confusion": 4, "probability": 2}
    assert all("".join(f.find("figcaption").itertext()).strip() for f in tree.iter("figure"))


def test_figures_take_their_colours_from_the_page(tmp_path):
    text, _ = page(put(tmp_path, demo()))
    plots = "".join(re.findall(r'<svg class="plot".*?</svg>', text, flags=re.DOTALL))
    assert not re.findall(r"(?:fill|stroke): #", plots)  # nothing a dark page could not follow
    assert "currentColor" in plots
    assert "var(--s0)" in plots


def test_means_and_intervals_are_those_of_the_records(tmp_path):
    found = demo()
    _, tree = page(put(tmp_path, found))
    head, *body = rows(tree)
    assert head[:3] == ["Method", "Average Accuracy", "Average Forgetting"]
    # ER + softmax ends at 90 + seed − 12·(4, 3, 2, 1, 0): mean 66 + seed, over seeds 0, 1, 2: 67 ± t(2)·1/√3
    er = next(row for row in body if row[0] == "ER + softmax")
    assert er[1] == "67.00 ± 2.48"
    assert confidence_interval([66.0, 67.0, 68.0]) == pytest.approx((67.0, 2.484), abs=1e-3)
    assert er[2] == "30.00 ± 0.00"  # 12, 24, 36, 48 points lost by tasks 4 … 1
    assert er[3] == "79.00 ± 2.48"  # the curve: 90, 84, 78, 72, 66, plus seed
    assert er[5:] == ["3", "2.00"]
    bold = ["".join(e.itertext()) for e in tree.iter("td") if e.get("class") == "best"]
    assert bold == ["96.00 ± 2.48", "91.00 ± 2.48", "2.50 ± 0.00", "92.00 ± 2.48"]  # fine-tune learns best, and forgets


def test_the_headline_states_the_finding_and_no_more(tmp_path):
    put(tmp_path, demo())
    (section,) = groups.read(tmp_path)
    assert headline(section).replace("\u00a0", " ") == (
        "On Split Digits, after five tasks, ER with a softmax classifier keeps 67.0 % and forgets 30.0 points; the "
        "paper’s hybrid with NCM keeps 91.0 % and forgets 2.5 points. Run against run, the hybrid is 24.0 ± 0.0 points "
        "ahead."
    )
    put(
        tmp_path,
        [make("er", seed=s, level=80 + s) for s in range(3)] + [make("mir", seed=s, level=81) for s in range(3)],
    )
    (section,) = groups.read(tmp_path)
    assert "do not differ significantly" in headline(section)
    put(tmp_path, [make("mir")])
    (section,) = groups.read(tmp_path)
    assert headline(section).replace("\u00a0", " ") == (
        "On Split Digits, after five tasks, MIR with a softmax classifier keeps 70.0 % and forgets 12.5 points."
    )


def test_the_headline_compares_what_was_run_on_the_same_stream_and_is_not_chosen_by_its_result(tmp_path):
    """A variant with lucky runs, another class order or a larger memory does not displace the cell itself."""
    cell = [make("er", seed=s, level=80) for s in range(5)] + [make("hybrid", seed=s, level=85) for s in range(5)]
    lucky = [make("er", seed=s, level=99, lr=0.3) for s in range(3)]
    shuffled = [make("er", seed=s, level=99, lr=0.4) | {"order": "random"} for s in range(5)]
    larger = [make("hybrid", seed=s, level=99, memory_size=500) for s in range(4)]
    put(tmp_path, cell + lucky + shuffled + larger)
    (section,) = groups.read(tmp_path)
    said = headline(section).replace("\u00a0", " ")
    assert "ER with a softmax classifier (lr 0.05, order natural) keeps 72.0 %" in said
    assert "the paper’s hybrid with NCM (memory 200) keeps 77.0 %" in said
    assert "the hybrid is 5.0 ± 0.0 points ahead" in said
    put(tmp_path, [r for r in cell if r["method"] == "hybrid"] + shuffled)  # nothing that could be compared
    (section,) = groups.read(tmp_path)
    assert "ER" not in headline(section)


def usual(method, loss, seed, **more):
    """A run at the settings `mnemon run` takes by itself."""
    options = Spec(method, "split-digits", loss=loss).choice().options()
    return make(method, seed=seed, loss=loss, **more) | {"options": options}


def test_the_settings_of_a_method_itself_speak_for_it(tmp_path):
    """In the headline, the figures, the rows in front and the table: not the luckiest of many, on as many seeds."""
    cell = [usual("er", "ce", s, level=60) for s in range(3)]
    lucky = [make("er", seed=s, level=70 + n, lr=0.01 * n + 0.001) for n in range(1, 61) for s in range(3)]
    own_network = [usual("er", "ce", s, level=99) | {"own": ["network"]} for s in range(3)]
    for record in own_network:
        record["protocol"] = record["protocol"] | {"backbone": "Mine"}
    put(tmp_path, cell + lucky + own_network + [usual("hybrid", "hybrid", s, level=80) for s in range(3)])
    (section,) = groups.read(tmp_path)
    (meant,) = (g for g in section.groups if g.variant.method == "er" and g.accuracy < 55)
    assert "ER with a softmax classifier (lr 0.2," in headline(section)
    assert [g for g in drawn_groups(section.groups) if g.variant.method == "er"] == [meant]
    assert id(meant) in _front(section.groups)
    rows = lines(mnemon.report.write_table(tmp_path, tmp_path / "t.md", "er"))
    (hybrid,) = (row for row in rows if row[0] == "hybrid + NCM")
    assert hybrid[3] == "+20.00 ± 0.00"
    (mine,) = (row for row in rows if "backbone Mine" in row[0])
    assert mine[3] == "reference"  # of that network; nothing else was run with it


def test_only_what_saw_the_same_stream_is_paired(tmp_path):
    """The same data and class order are not enough: where tasks end, and a stream of one's own, tell too."""
    er, hybrid = ([make(method, seed=s) for s in range(3)] for method in ("er", "hybrid"))
    for changed, same in (({}, True), ({"boundaries": [1, 2, 3, 4, 5]}, False)):
        put(tmp_path, er + [r | {"protocol": r["protocol"] | changed} for r in hybrid])
        (section,) = groups.read(tmp_path)
        assert (difference(*section.groups) is not None) is same
    put(tmp_path, er + [r | {"data": r["data"] | {"stream": "another"}} for r in hybrid])
    (section,) = groups.read(tmp_path)
    assert difference(*section.groups) is None


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [((2, 3, 4), "They share one seed only, a hint"), ((3, 4, 5), "They share no seed"), ((1, 2), "paired runs")],
)
def test_the_headline_says_how_many_seeds_are_shared(tmp_path, seeds, sentence):
    put(tmp_path, [make("er", seed=s) for s in range(3)] + [make("hybrid", seed=s) for s in seeds])
    (section,) = groups.read(tmp_path)
    assert sentence in headline(section)


def test_one_run_has_no_interval(tmp_path):
    text, tree = page(put(tmp_path, demo(seeds=1)))
    body = text[text.index("<main>") : text.index("<footer>")]
    assert "±" not in body
    assert all(row[5] == "1 run" for row in rows(tree)[1:])
    assert "a hint, not a finding" in body
    assert "fill-opacity: 0.14" not in body  # no bands either


def test_validation_is_kept_apart_and_labelled(tmp_path):
    found = demo() + [make("er", seed=100 + s, level=50, loses=1, split="valid") for s in range(2)]
    text, tree = page(put(tmp_path, found))
    sections = [s for s in tree.iter("section") if s.get("id")]
    assert len(sections) == 2
    assert "".join(sections[1].find("h2").itertext()) == "Split Digits validation samples"
    assert [row[0] for row in rows(sections[1])[1:]] == ["ER + softmax"]
    assert rows(sections[0])[2][5] == "3"
    assert "On the validation samples of Split Digits" in text
    assert "--split valid --seeds 100-101" in text


def test_other_hyper_parameters_are_other_groups_and_say_so(tmp_path):
    found = [make("hybrid", seed=s, lr=lr, gamma=0.1) for s in range(2) for lr in (0.05, 0.2)]
    found += [make("er", seed=s, loss="ms", classifier="ncm") for s in range(2)]
    _, tree = page(put(tmp_path, found))
    assert [row[0] for row in rows(tree)[1:]] == [
        "ER (MS loss) + NCM",
        "hybrid + NCM (lr 0.05)",
        "hybrid + NCM (lr 0.2)",
    ]


def test_of_two_records_with_one_seed_the_later_counts(tmp_path):
    old, new = make("er", level=10, loses=0), make("er", level=60, loses=0)
    text, tree = page(put(tmp_path, [old, new]))
    assert rows(tree)[1][1] == "60.00"
    assert "Left out: 1 earlier record" in text


def test_many_settings_are_all_in_the_table_and_the_best_in_the_figures(tmp_path):
    found = [make("hybrid", lr=0.05 * n, gamma=0.1, level=50 + n) for n in range(1, 11)] + [make("er")]
    text, tree = page(put(tmp_path, found))
    assert len(rows(tree)) == 1 + 11
    assert "Drawn: each method at its best settings, and the best of other losses and classifiers, 2 of 11" in text
    bars = next(f for f in tree.iter("figure") if f.get("class") == "tasks")
    assert ["".join(h.itertext()) for h in bars.iter("h4")] == ["ER + softmax", "hybrid + NCM (lr 0.5)"]


def test_of_many_ways_each_method_as_it_is_meant_is_drawn_before_better_mixtures(tmp_path):
    found = [make("er", classifier="softmax", level=10)]
    mixtures = [("er", loss, "ncm") for loss in ("ce", "ms", "pnca", "ace", "las", "hybrid")]
    mixtures += [
        (m, loss, "ncm-raw")
        for m in ("mir", "er")
        for loss in ("ce", "ms", "pnca", "ace", "las", "hybrid", "supcon", "cope")
    ]
    found += [make(method, loss=loss, classifier=classifier, level=60) for method, loss, classifier in mixtures]
    _, tree = page(put(tmp_path, found))
    bars = next(f for f in tree.iter("figure") if f.get("class") == "tasks")
    drawn = ["".join(h.itertext()) for h in bars.iter("h4")]
    assert len(drawn) == 20 < len(found)
    assert "ER + softmax" in drawn


def test_after_a_large_search_the_best_settings_stand_in_front_and_the_others_are_folded(tmp_path):
    found = [make("hybrid", lr=0.01 * n, gamma=0.1, level=20 + n) for n in range(1, 61)] + [make("er")]
    _, tree = page(put(tmp_path, found))
    folded = next(d for d in tree.iter("details") if "more settings" in "".join(d.itertext()))
    assert "".join(folded.find("summary").itertext()) == "55 more settings"
    hidden, every = list(folded.iter("tr")), list(tree.iter("tr"))
    names = ["".join(tr.find("th").itertext()) for tr in every if tr not in hidden][1:]
    assert names == ["ER + softmax", *(f"hybrid + NCM (lr 0.{n})" for n in (56, 57, 58, 59, 6))]
    assert len(hidden) == 1 + 55


def test_coordinates_are_rounded_and_labels_are_not(tmp_path):
    labels = ["0.12345", *"bcdefghij"]
    text, _ = page(put(tmp_path, [make("er", labels=labels)]))
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert ">0.12345" in drawn
    assert not re.search(r'(?: d| x| y)="[^"]*\.\d{3}', drawn)


def test_nothing_from_a_record_is_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    labels = [evil, "$a_b$", 'quo"te', "猫", "a&b", "nul\x00l", "fill: #fe0001", "x", "y", "z"]
    record = make(evil, "split-<i>x</i>-5", labels=labels, **{"<option>": "<value>"})
    record["run"] = "odd"  # the one thing that is a file name
    record["device"] = "<b>gpu</b>"
    text, tree = page(put(tmp_path, [record]))
    assert not list(tree.iter("script"))
    assert not list(tree.iter("i"))
    assert not [b for b in tree.iter("b") if b.text == "gpu"]
    assert "&lt;script&gt;" in text
    everything = "".join(tree.itertext())
    assert all(part in everything for part in ("$a_b$", "猫", "a&b", "nul·l", "fill: #fe…", "<value>"))


def test_without_details_two_figures_are_missing_and_the_page_says_so(tmp_path):
    text, tree = page(put(tmp_path, demo(), details=False))
    assert figures(tree) == ["curves", "tasks", "probability"]
    assert text.count("these runs have no details") == 2


def test_broken_details_are_named(tmp_path):
    put(tmp_path, [make()])
    (path,) = (tmp_path / "details").iterdir()
    path.write_text('{"labels": [')
    with pytest.raises(MnemonError, match=re.escape(str(path))):
        mnemon.report.write(tmp_path)


def test_smooth_streams_have_no_tasks(tmp_path):
    found = [make(m, "smooth-digits", s, kind="smooth", tasks=1, level=40) for m in ("er", "hybrid") for s in range(2)]
    text, tree = page(put(tmp_path, found))
    assert rows(tree)[0] == ["Method", "Final accuracy", "Runs", "Seconds a run"]
    assert figures(tree) == ["confusion", "probability"]
    assert "No curve" in text
    assert "On Smooth Digits, at the end of the stream, ER with a softmax classifier reaches 40.5" in text


def test_iid_runs_alone(tmp_path):
    text, tree = page(put(tmp_path, [make("iid-online", seed=s, kind="iid") for s in range(2)]))
    assert figures(tree) == ["tasks", "confusion"]
    assert rows(tree)[1][0] == "i.i.d. online"
    assert "The samples are shuffled" in text


def test_iid_runs_are_a_level_beside_the_others_and_never_bold(tmp_path):
    found = demo() + [make("iid-online", seed=s, kind="iid", level=99) for s in range(3)]
    text, tree = page(put(tmp_path, found))
    assert rows(tree)[-1][:3] == ["i.i.d. online", "100.00 ± 2.48", "–"]
    assert not [c for r in tree.iter("tr") if r.get("class") == "bound" for c in r if c.get("class") == "best"]
    assert "Level lines are runs on the shuffled samples" in text


def test_one_task(tmp_path):
    _, tree = page(put(tmp_path, [make("er", "split-digits-1", tasks=1)]))
    assert figures(tree) == ["confusion", "probability"]


def test_twenty_tasks_of_a_hundred_classes_stay_small(tmp_path):
    labels = [f"class {i:02}" for i in range(100)]
    kind = {"tasks": 20, "labels": labels, "memory_size": 1000, "loses": 4}
    found = [make(m, "split-cifar100-20", s, **kind) for m in ("er", "hybrid") for s in range(2)]
    text, tree = page(put(tmp_path, found))
    assert figures(tree) == ["curves", "tasks", "scores", "confusion", "probability"]
    assert len(text) < 700_000
    confusion = next(f for f in tree.iter("figure") if f.get("class") == "confusion")
    assert "class 07" not in "".join(confusion.itertext())
    assert len(list(confusion.iter("image"))) == 2  # not ten thousand rectangles each


def test_the_papers_numbers_stand_beside_ours_where_the_cell_is_the_same(tmp_path):
    kind = {"tasks": 5, "memory_size": 1000}
    found = [make(m, "split-cifar10", s, **kind) for m in ("er", "hybrid") for s in range(2)]
    found += [make("er", "split-cifar10", s, classifier=c, **kind) for c in ("ncm", "ncm-raw") for s in range(2)]
    found += [make("er", "split-cifar10", s, tasks=5, memory_size=500) for s in range(2)]
    text, tree = page(put(tmp_path, found))
    head, *body = rows(tree)
    assert head[-2:] == ["Paper: accuracy", "Paper: forgetting"]
    assert {row[0]: row[-2:] for row in body} == {
        "ER + softmax (memory 500)": ["–", "–"],  # the paper has 1000
        "ER + softmax (memory 1000)": ["39.88 ± 1.52", "52.72 ± 1.90"],
        "ER + NCM": ["–", "–"],
        "ER + NCM on raw features": ["44.46 ± 0.95", "–"],  # as we read the paper's row
        "hybrid + NCM": ["51.84 ± 0.91", "35.37 ± 1.35"],
    }
    assert "15 runs" in text


def test_commands_name_what_is_not_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr("mnemon.experiments.spec.recipe", lambda *_: {"lr": 0.05})
    found = demo() + [make("hybrid", seed=s, lr=0.2, gamma=0.1) for s in (3, 5, 6)] + [make("gone", seed=4, speed=3.5)]
    put(tmp_path, found)
    (section,) = groups.read(tmp_path)
    # `make` states only some of the options a real record has, all of them as `mnemon run` would set them.
    assert commands(section) == [
        "mnemon run --method fine-tune --stream split-digits --seeds 3 --device cpu",
        "mnemon run --method er --stream split-digits --classifier softmax,ncm --seeds 3 --device cpu",
        "mnemon run --method gone --stream split-digits --loss ce --classifier softmax --lr 0.05 --batch-size 10 "
        "--replay-size 10 --memory-size 200 --speed 3.5 --seeds 4-4 --device cpu",
        "mnemon run --method hybrid --stream split-digits --seeds 3 --device cpu",
        "mnemon run --method hybrid --stream split-digits --lr 0.2 --seeds 3,5-6 --device cpu",
    ]


def test_commands_tell_trainings_apart_by_network_and_by_how_they_were_computed(tmp_path):
    plain = mnemon.run("er", "split-digits")
    alike = [
        plain,
        mnemon.run("er", "split-digits", backbone="identity"),
        plain | {"device": "a GPU", "precision": "fp32", "deterministic": True},
        plain | {"device": "a GPU", "precision": "bf16"},
    ]
    (section,) = groups.read(put(tmp_path, alike))
    usual = "mnemon run --method er --stream split-digits"
    assert sorted(commands(section)) == [
        f"{usual} --backbone identity --seeds 1 --device cpu",
        f"{usual} --seeds 1 --device cpu",
        f"{usual} --seeds 1 --device cuda --precision bf16",
        f"{usual} --seeds 1 --device cuda --precision fp32 --deterministic",
    ]


def test_a_command_makes_the_runs_it_is_printed_for(monkeypatch):
    """Every 16th of the committed results is typed in again."""
    asked = []

    def instead(specs, *_, **__):
        asked.extend(specs)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_all", instead)
    for section in groups.read(committed()):
        there = {r["run"]: r for group in section.groups for r in group.records}
        for command in commands(section)[::16]:
            with suppress(KeyboardInterrupt, SystemExit):
                cli.main(shlex.split(command)[1:])
            assert asked, command
            while asked:
                spec = asked.pop()
                stream, choice = str(protocol.parse(spec.stream)), spec.choice()
                named = {
                    spec.key(choice, stream, r["data"]["checksum"], r.computed)
                    for r in there.values()
                    if (r["seed"], r["method"]) == (spec.seed, spec.method)
                }
                assert named & there.keys(), command


def test_a_command_names_what_it_does_not_take_by_itself(copied):
    spec = Spec("er", "split-digits", order="random", split="valid", options={"forward": "joint"})
    assert shlex.join(spec.command()) == "mnemon run --method er --stream split-digits --order random --split valid"
    record = mnemon.run("er", "split-digits")  # "forward" came later, and is not stated at its default
    recipes.keep(("er", "ce", "split-digits"), recipes.Recipe({"forward": "separate"}, "a test"))
    assert "--forward joint" in shlex.join(groups.spec(record).command())


def test_protocol(tmp_path):
    put(tmp_path, demo())
    (section,) = groups.read(tmp_path)
    terms = dict(protocol_summary.protocol(section))
    assert terms["Dataset"] == "digits, sha256 abababababab"
    assert terms["Stream"] == "5 tasks of 2 classes: 0 1 · 2 3 · 4 5 · 6 7 · 8 9"
    assert terms["Samples"] == "1,250 in the stream, 25 of each class"
    assert terms["Memory"] == "200 samples, reservoir"
    assert terms["Seeds"] == "0–2"
    assert terms["Device"] == "cpu, 2 threads"


def test_runs_from_arrays_have_no_command(tmp_path):
    record = make("er", "split")
    record["data"]["name"] = "arrays"
    text, _ = page(put(tmp_path, [record]))
    assert "mnemon run --" not in text
    assert "These runs were made with mnemon.run, from arrays" in text


def test_runs_with_code_of_ones_own_have_no_command(tmp_path):
    """No command knows it, and plain ER would be another run."""
    put(tmp_path, [make("er"), make("er", lr=0.3) | {"own": ["network"]}, make("mine") | {"own": ["method"]}])
    (section,) = groups.read(tmp_path)
    assert len(commands(section)) == 1
    assert "--method er" in commands(section)[0]


def test_streams_of_ones_own_that_differ_in_tasks_are_not_averaged(tmp_path):
    found = [make("er", "split", seed=s, tasks=tasks) for s, tasks in ((0, 2), (1, 2), (1, 5))]
    for record in found:
        record["data"]["name"] = "arrays"
    put(tmp_path, found)
    (section,) = groups.read(tmp_path)
    assert sorted(len(group.records) for group in section.groups) == [1, 2]


def test_the_same_records_give_the_same_bytes(tmp_path):
    first = mnemon.report.write(put(tmp_path / "a", demo())).read_bytes()
    again = mnemon.report.write(put(tmp_path / "b", demo()), tmp_path / "elsewhere.html")
    assert again == tmp_path / "elsewhere.html"
    assert again.read_bytes() == first
    assert not list(tmp_path.glob(".*"))  # nothing temporary is left


def test_a_folder_without_records_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(MnemonError, match=re.escape(f"{tmp_path} holds no records; make some with `mnemon run")):
        mnemon.report.write(tmp_path)
    file = put(tmp_path / "a", demo()) / "records.jsonl"
    with pytest.raises(MnemonError, match=re.escape(f"{file} is a file; name the folder that has records.jsonl.")):
        mnemon.report.write(file)


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy_matrix": []},
        {"accuracy_matrix": [[1.0], [1.0, 2.0]]},
        {"accuracy_matrix": "x"},
        {"options": None},
        {"protocol": []},
        {"seed": None},
        {"average_accuracy": "x"},
        {"versions": None},
    ],
)
def test_a_malformed_record_is_one_sentence(tmp_path, change):
    (tmp_path / "records.jsonl").write_text(json.dumps(make() | change) + "\n")
    with pytest.raises(MnemonError, match="has no proper"):
        mnemon.report.write(tmp_path)


def test_a_record_that_lacks_something_is_named(tmp_path):
    record = make()
    del record["accuracy_matrix"]
    (tmp_path / "records.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(MnemonError, match="has no 'accuracy_matrix'; repair or remove its line"):
        mnemon.report.write(tmp_path)


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path):
    put(tmp_path, [make()])
    with pytest.raises(MnemonError, match="could not be written"):
        mnemon.report.write(tmp_path, tmp_path / "no" / "such" / "folder.html")


def test_numbers_as_they_are_written():
    assert names.ranges([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"
    assert names.fixed(-1.234) == "−1.23"
    assert names.fixed(-0.001) == "0.00"
    assert names.stream("split-mini_imagenet-20") == "Split miniImageNet, 20 tasks"
    assert unescape(names.text("a\nb")) == "a·b"


def test_runs_of_another_precision_are_another_group(tmp_path):
    gpu = make() | {"device": "NVIDIA H200"}
    lines = [gpu, gpu | {"precision": "tf32", "seed": 1}, gpu | {"precision": "bf16"}]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
    (section,) = groups.read(tmp_path)
    assert {(len(g.records), "bf16" in g.name) for g in section.groups} == {(2, False), (1, True)}


# --- the table for one's own paper


def lines(path):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text().splitlines()]


def test_the_table_has_every_group_and_its_difference_seed_by_seed(tmp_path):
    found = [make("er", seed=s, level=80 + 3 * (s % 2)) for s in range(4)]
    found += [make("hybrid", seed=s, level=85 + 3 * (s % 2)) for s in range(1, 4)]  # of three seeds both know
    found += [make("mir", seed=s, level=85, memory_size=500) for s in range(4)]  # no rival with as large a memory
    found += [make("er", seed=s, level=90) | {"order": "random"} for s in range(2)]
    found += [make("der++", seed=s, level=85) for s in range(9, 11)]
    small = make("gss", level=85)
    found += [
        small | {"protocol": small["protocol"] | {"backbone": "Small"}},
        make("a-gem", level=80) | {"order": "odd"},
    ]
    put(tmp_path, found)
    table = lines(mnemon.report.write_table(tmp_path, tmp_path / "t.md", "er"))
    assert table[0] == ["Split Digits", "Average Accuracy", "Average Forgetting", "against er", "pairs", "runs"]
    by_name = {row[0]: row for row in table[2:9]}
    assert by_name["DER++ + softmax"][3:] == ["no shared seed", "", "2"]
    assert by_name["GSS + softmax"][3:] == ["other network", "", "1"]
    assert by_name["A-GEM + softmax"][3:] == ["other stream", "", "1"]
    assert "with the same network and the same memory; where not, what differs." in (tmp_path / "t.md").read_text()
    assert by_name["ER + softmax (order natural)"][3:] == ["reference", "", "4"]
    assert by_name["hybrid + NCM"][3:] == ["+5.00 ± 0.00", "3", "3"]
    assert by_name["MIR + softmax"][3:] == ["other memory", "", "4"]
    assert by_name["ER + softmax (order random)"][3:] == ["reference", "", "2"]  # for those of that order

    with open(mnemon.report.write_table(tmp_path, tmp_path / "t.csv", "er+softmax"), newline="") as file:
        rows = {(r["method"], r["order"]): r for r in csv.DictReader(file)}
    hybrid = rows["hybrid", "natural"]
    ours = [r["average_accuracy"] for r in found if r["method"] == "hybrid"]
    assert (float(hybrid["average_accuracy"]), float(hybrid["average_accuracy_half"])) == pytest.approx(
        confidence_interval(ours), abs=1e-4
    )
    assert (hybrid["runs"], hybrid["seeds"], hybrid["pairs"], hybrid["difference"]) == ("3", "1-3", "3", "5.0")
    assert json.loads(hybrid["options"])["memory_size"] == 200
    assert rows["er", "random"]["difference"] == ""
    assert [rows[name, "natural"]["not_compared"] for name in ("er", "mir", "hybrid")] == [
        "reference",
        "other memory",
        "",
    ]

    text = mnemon.report.write_table(tmp_path, tmp_path / "t.tex").read_text()
    assert text.isascii()
    assert "hybrid + NCM & " in text
    assert "against" not in text.lower()


def test_a_table_is_set_against_the_method_with_its_own_loss(tmp_path):
    """And where it is not clear which is meant, against none."""
    found = [make("er", seed=s, level=70, classifier="ncm") for s in range(2)]
    found += [make("er", seed=s, level=90, loss="ms", classifier="ncm") for s in range(2)]
    found += [make("mine", seed=s, level=80, classifier=c) for c in ("softmax", "ncm") for s in range(2)]
    put(tmp_path, found)
    for name in ("er+ncm", "er"):  # ER's own classifier was not run, so the one that was
        table = {row[0]: row for row in lines(mnemon.report.write_table(tmp_path, tmp_path / "t.md", name))}
        assert table["ER (MS loss) + NCM"][3] == "+20.00 ± 0.00"
        assert table["ER + NCM"][3] == "reference"
    with open(mnemon.report.write_table(tmp_path, tmp_path / "t.csv", "er"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["against_name"] for row in rows} == {"", "ER + NCM"}
    assert {float(row["seconds"]) for row in rows} == {2.0}
    with pytest.raises(MnemonError, match=r"mine does not say which .* name one of mine:ce\+ncm, mine:ce\+softmax\."):
        mnemon.report.write_table(tmp_path, tmp_path / "t.md", "mine")
    assert "against mine+ncm" in mnemon.report.write_table(tmp_path, tmp_path / "t.md", "mine+ncm").read_text()
    for name in ("er:ms+ncm", "er:ms"):  # a loss that is not the method's own
        table = {row[0]: row for row in lines(mnemon.report.write_table(tmp_path, tmp_path / "t.md", name))}
        assert table["ER (MS loss) + NCM"][3] == "reference"
        assert table["ER + NCM"][3] == "−20.00 ± 0.00"


def test_a_table_that_cannot_be_made_is_refused_and_nothing_is_written(tmp_path):
    put(tmp_path, [make("der++"), make("er")])
    with pytest.raises(MnemonError, match=r"written as .md, .tex or .csv, not as 't.xlsx'"):
        mnemon.report.write_table(tmp_path, tmp_path / "t.xlsx")
    with pytest.raises(MnemonError, match="unknown method to compare with 'derr'"):
        mnemon.report.write_table(tmp_path, tmp_path / "t.md", "derr")
    assert not list(tmp_path.glob("t.*"))
    for name in ("der++", "der++:ce", "der++:ce+softmax"):
        assert f"| against {name} |" in mnemon.report.write_table(tmp_path, tmp_path / "t.md", name).read_text()
