"""Rows beyond the paper: what is planned, what the tables mark, which learners are on the front, what the pictures show."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cell_records import HYBRID, committed, fifteen, named, put, results, row, runs
from command_line import run
from mnemon import cli, report
from mnemon.errors import MnemonError
from mnemon.experiments.recipes import recipes
from mnemon.experiments.spec import Spec
from mnemon.experiments.tuning import Protocol
from mnemon.paper import (
    beyond,
    beyond_readings,
    documents,
    pages,
    patches_ablation,
    plan,
    ranking,
    reproduce,
    row_settings,
)
from mnemon.paper.beyond import TrackRow
from mnemon.paper.pareto import Trade, front
from mnemon.paper.patches_ablation import Ablation
from mnemon.paper.plan import Scope
from mnemon.paper.results import Results
from mnemon.paper.row_settings import Chosen
from mnemon.paper.targets.beyond import Beyond, ablation, draw, general_notes, shrinkage, stream_table
from mnemon.render import markup
from mnemon.render.tables import Bold

ROOT = Path(__file__).parents[2]
STREAM, OTHER = "split-cifar10", "split-cifar100-20"

REAL = {"ROWS": beyond.ROWS, "ABLATION": patches_ablation.LINES, "spec": Ablation.spec, "PATH": row_settings.PATH}

# Rows of things that every version has, in the place of the real ones.
TWO_READ_OUTS = TrackRow(
    "trained", "hybrid-ACE, avg.", "A", "hybrid-ace", "hybrid-ace", ("ncm", "softmax"), {}, {"lr": (0.01, 0.3)}
)
PAPERS_OWN = TrackRow("own", "hybrid, avg.", "A", "hybrid", "hybrid", ("ncm",), {"lr": 0.011})
SMALL = TrackRow("small", "patches", "B", "er", "ms", ("ncm",), {"lr": 0.012}, backbone={"cifar10": "mlp"})
FREE = TrackRow("free", "patches, K 512", "C", "er", "pnca", ("ncm",), {"lr": 0.013}, backbone="mlp:width=50")
STRANGE = TrackRow("strange", "of tomorrow", "C", "tomorrow", "none", ("gaussian",))
LINES = (
    Ablation("views", "two", backbone="mlp", options={"lr": 0.02}, classifier="softmax"),
    Ablation("views", "one", backbone="mlp", options={"lr": 0.04}, classifier="softmax"),
    Ablation("filters", "none", backbone="unheard-of"),
)


@pytest.fixture(autouse=True)
def _rows(monkeypatch, tmp_path):
    """These rows, and a file of settings with one line: what was chosen for the trained row on Split CIFAR-10."""
    monkeypatch.setattr(beyond, "ROWS", (TWO_READ_OUTS, PAPERS_OWN, SMALL, FREE, STRANGE))
    monkeypatch.setattr(patches_ablation, "LINES", LINES)
    monkeypatch.setattr(patches_ablation, "SHORT_STREAM", STREAM)
    monkeypatch.setattr(patches_ablation, "SHRINKAGE", {"K 512": LINES[:2]})
    monkeypatch.setattr(Ablation, "spec", ablation_spec)
    monkeypatch.setattr(row_settings, "PATH", tmp_path / "settings" / "beyond.json")
    row_settings.PATH.parent.mkdir()
    row_settings.PATH.write_text("[]")
    row_settings.lines.cache_clear()
    row_settings.keep("trained", STREAM, Chosen({"lr": 0.3, "gamma": 0.5}, "softmax", "a search"))
    yield
    row_settings.lines.cache_clear()


def ablation_spec(self, stream, seed):
    about = ("er", stream, seed, "ce", (self.classifier,), "valid")
    return Spec(*about, options=dict(self.options), cell="ablation", backbone=self.backbone)


def of(row, classifier, stream=STREAM, mean=50.0, millions=None, megabytes=None, **change):
    """Fifteen records of a read-out, which state their costs where these are given."""
    spec = row.spec(stream)
    behind = SimpleNamespace(method=row.method, classifier=classifier)
    cell = SimpleNamespace(spec=lambda seed: row.spec(stream, seed), stream=stream, row=behind)
    costs = {"multiplications": millions and int(millions * 1e6), "state_bytes": megabytes and int(megabytes * 1e6)}
    if spec.backbone:
        change |= {"protocol": {"backbone": spec.backbone}}
    return fifteen(cell, mean, **change, **{name: value for name, value in costs.items() if value is not None})


def beside(name, mean, millions, megabytes, stream=STREAM):
    costs = {"multiplications": int(millions * 1e6), "state_bytes": int(megabytes * 1e6)}
    return runs({name: mean}, stream, **costs)


def everything():
    """Every row of Split CIFAR-10, with its costs."""
    return [
        *beside("ER", 40, 330, 7.4),
        *beside(HYBRID, 51, 331, 7.5),
        *runs({"hybrid-ACE": 53}, STREAM),  # old records, without costs
        *beside("i.i.d. online", 90, 1, 0.1),
        *of(TWO_READ_OUTS, "ncm", mean=60, millions=331, megabytes=11.9),
        *of(TWO_READ_OUTS, "softmax", mean=58, millions=331, megabytes=11.9),
        *of(PAPERS_OWN, "ncm", mean=56, millions=331, megabytes=11.9),
        *of(SMALL, "ncm", mean=73, millions=40, megabytes=7.3),
        *of(FREE, "ncm", mean=76, millions=90, megabytes=34, lost=3.0),
    ]


def lines_of(table):
    """Learner and read-out → column → text."""
    heads = [column.name for column in table.parts[0].columns]
    found = [dict(zip(heads, line, strict=True)) for line in table.parts[0].rows]
    return {(line["track"], line["learner"], line["read-out"]): line for line in found}


def table_of(found, stream=STREAM):
    return stream_table(stream, beyond_readings.readings(results(found), stream))


# --- what is planned


def planned(found=(), streams=(STREAM,), methods=(), **more):
    return Beyond().plan(Scope(methods, streams), results(found, **more), "cpu")


def test_missing_runs_are_planned_each_training_once(monkeypatch):
    monkeypatch.setattr(plan, "can_run", lambda stream: True)
    made = planned()
    rows = {(s.method, s.loss): s for s in made.runs if s.cell == "beyond"}
    assert rows.keys() == {("hybrid-ace", "hybrid-ace"), ("hybrid", "hybrid"), ("er", "ms"), ("er", "pnca")}
    trained = rows["hybrid-ace", "hybrid-ace"]
    assert (trained.classifiers, trained.options) == (("ncm", "softmax"), {"lr": 0.3, "gamma": 0.5})
    assert (rows["er", "ms"].backbone, rows["er", "pnca"].backbone) == ("mlp", "mlp:width=50")
    assert len([s for s in made.runs if s.cell == "beyond"]) == 4 * 15
    tried = [s for s in made.runs if s.cell == "ablation"]
    assert {(s.split, s.seed) for s in tried} == {("valid", seed) for seed in (100, 101, 102)}
    assert len(tried) == 6  # two lines; the third is not known here
    # five read-outs, the four rows beside them, two lines of the ablation
    assert (made.there, made.of) == (0, 5 + 4 + 2)
    assert len(made.runs) == 4 * 15 + 4 * 15 + 6


def test_what_is_there_is_not_planned_and_a_read_out_that_lacks_has_its_training_made(monkeypatch):
    monkeypatch.setattr(plan, "can_run", lambda stream: True)
    found = everything()
    assert [s.cell for s in planned(found).runs] == ["ablation"] * 6
    assert planned(found).there == 9
    less = [r for r in found if (r["method"], r["classifier"], r["seed"]) != ("hybrid-ace", "softmax", 3)]
    (again,) = (s for s in planned(less).runs if s.cell == "beyond")
    assert (again.seed, again.classifiers) == (3, ("ncm", "softmax"))


def test_a_row_that_was_not_searched_is_searched_first_and_once_for_both_numbers_of_tasks(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "can_run", lambda stream: True)
    streams = (OTHER, "split-cifar100-10", "smooth-cifar10")
    made = planned(streams=streams, methods=("hybrid-ace",))
    commands = [f"mnemon tune --method hybrid-ace --row trained --stream {s} --keep" for s in (OTHER, "smooth-cifar10")]
    assert made.searches == commands  # what was chosen on Split is not taken for Smooth
    assert made.to_make.startswith("2 searches on validation first")
    assert {s.stream for s in made.runs if s.cell == "beyond"} == set()
    assert reproduce.commands([made], tmp_path)[0] == f"{commands[0]} --out {tmp_path}"
    assert "not searched" in {line["accuracy"] for line in lines_of(table_of([], OTHER)).values()}


def test_a_dataset_that_is_not_here_breaks_nothing(monkeypatch):
    monkeypatch.setattr(plan, "can_run", lambda stream: "cifar10" in stream.split("-"))
    made = planned(streams=("split-mini_imagenet-20",))
    assert made.runs == [s for s in made.runs if s.cell == "ablation"]
    assert made.not_here == {"mini_imagenet"}


def test_all_targets_together_list_it(tmp_path, capsys):
    assert "beyond" in [target.name for target in reproduce.Reproduction(["all"], tmp_path).targets if target.named]
    out, _ = run("reproduce", "beyond", "--dry-run", "--methods", "er", "--out", str(tmp_path), capsys=capsys)
    assert "mnemon run --method er --stream split-cifar10 --loss ms --lr 0.012 --backbone mlp --seeds 15" in out


def test_a_row_that_this_version_cannot_make_is_left_out_and_named():
    assert [each.name for each in beyond.known_rows()] == ["trained", "own", "small", "free"]
    assert "This version cannot make: strange." in general_notes()
    assert "of tomorrow" not in {line["learner"] for line in lines_of(table_of([])).values()}


# --- the settings


def test_what_a_search_chose_is_kept_for_the_row_and_no_recipe_moves(tmp_path, monkeypatch, capsys, copied):
    digits = TrackRow("digits", "ER", "A", "er", "ce", ("softmax", "ncm"), {"replay_size": 5}, {"lr": (0.02, 0.2)})
    monkeypatch.setattr(beyond, "ROWS", (digits,))
    before, kept = recipes.cells(), row_settings.lines()
    words = ["tune", "--method", "er", "--row", "digits", "--stream", "split-digits", "--seeds", "100-100", "--quiet"]
    words.append("--out")
    cli.main([*words, str(tmp_path / "runs")])
    again = (
        f"mnemon tune --method er --stream split-digits --row digits --seeds 100-100 --out {tmp_path / 'runs'} --keep"
    )
    assert again in capsys.readouterr().out
    assert row_settings.lines() == kept
    cli.main([*words, str(tmp_path / "runs"), "--keep"])
    chosen = row_settings.chosen("digits", "split-digits")
    log = json.loads((tmp_path / "runs/tuning/digits-split-digits.json").read_text())
    assert (chosen.classifier, chosen.values["lr"]) == (log["classifier"], log["chosen"]["lr"])
    assert chosen.values["replay_size"] == 5
    assert chosen.source.startswith("mnemon tune, on validation: 2 candidates, seed 100, accuracy ")
    assert "kept: digits / split-digits: lr " in capsys.readouterr().out
    assert recipes.cells() == before
    assert row_settings.lines().keys() - kept.keys() == {("digits", "split-digits")}
    assert digits.spec("split-digits").options == chosen.values
    text = beyond_searches(tmp_path / "runs")
    assert f"| digits, Split Digits | η 0.02, 0.2 | 100–100 | η {chosen.values['lr']}, {chosen.classifier} |" in text


def beyond_searches(out):
    return reproduce.block("beyond-searches", Results.read(out), out)


def test_a_value_that_was_kept_does_not_move_with_a_recipe(copied):
    """Every option that the search had is written out with the row, but for what the protocol fixes."""
    found = SimpleNamespace(
        stream=STREAM,
        chosen=SimpleNamespace(values={"lr": 0.3}, classifier="ncm"),
        source="a search",
        held=Protocol(),
        choice=Spec("hybrid-ace", STREAM, options={"gamma": 0.5}).choice(),
    )
    beyond.keep(TWO_READ_OUTS, found)
    kept = row_settings.chosen("trained", STREAM).values
    similarity = {"alpha": 2.0, "beta": 50.0, "lam": 0.5, "eps": 0.1, "divisor": "active"}
    assert kept == similarity | {"gamma": 0.5, "lr": 0.3}


def test_a_damaged_file_of_settings_is_one_sentence():
    row_settings.PATH.write_text('[{"row": 3}]')
    row_settings.lines.cache_clear()
    with pytest.raises(MnemonError, match=r"the settings in .*beyond.json cannot be read"):
        row_settings.lines()


# --- the tables


def test_the_table_has_every_read_out_and_marks_the_one_that_validation_chose():
    shown = lines_of(table_of(everything()))
    assert list(shown) == [
        ("–", "ER", "softmax"),
        ("–", "hybrid", "NCM"),
        ("–", "hybrid-ACE", "NCM"),
        ("–", "i.i.d. online", "softmax"),
        ("A", "hybrid-ACE, avg.", "NCM"),
        ("A", "hybrid-ACE, avg.", "softmax *"),  # not the best on test images: validation chose it
        ("A", "hybrid, avg.", "NCM"),
        ("B", "patches", "NCM"),
        ("C", "patches, K 512", "NCM"),
    ]
    free = shown["C", "patches, K 512", "NCM"]
    assert list(free.values())[3:] == ["76.00 ± 0.25", "3.0", "90.0", "34.0", "3.00"]
    old = shown["–", "hybrid-ACE", "NCM"]
    assert (old["M mult."], old["MB"]) == ("327", "7.48")  # its records say neither: computed from method and options
    assert shown["–", "ER", "softmax"]["M mult."] == "330"
    bold = [key for key, line in shown.items() if isinstance(line["accuracy"], Bold)]
    assert bold == [("A", "hybrid-ACE, avg.", "softmax *")]  # of what was chosen, in a track with two rows
    assert markup.latex(table_of(everything()), "mnemon").isascii()


def test_fewer_runs_and_none_are_said():
    shown = lines_of(table_of(of(FREE, "ncm")[:4]))
    assert shown["C", "patches, K 512", "NCM"]["accuracy"].endswith("(n = 4)")
    assert shown["B", "patches", "NCM"]["accuracy"] == "not run"
    smooth = lines_of(table_of(of(FREE, "ncm", "smooth-cifar10"), "smooth-cifar10"))
    assert smooth["C", "patches, K 512", "NCM"]["forgotten"] == "–"
    assert ("B", "patches", "NCM") in smooth
    assert ("B", "patches", "NCM") not in lines_of(table_of([], OTHER))  # it names a backbone for CIFAR-10 alone


def test_only_records_at_the_rows_values_count():
    other = TrackRow(**{**vars(FREE), "options": {"lr": 0.014}})
    wider = TrackRow(**{**vars(FREE), "backbone": "mlp:width=60"})
    found = of(other, "ncm") + of(wider, "ncm") + of(FREE, "ncm", split="valid")
    assert lines_of(table_of(found))["C", "patches, K 512", "NCM"]["accuracy"] == "not run"
    cell = ranking.cell(row("hybrid-ACE"), STREAM)
    assert not results(of(TWO_READ_OUTS, "ncm")).of(cell).records  # a row counts for no cell of the paper's tables


def test_a_row_of_track_b_above_its_budget_is_named():
    found = [r for r in everything() if r["loss"] != "ms"]
    assert "Above" not in markup.markdown(table_of(found + of(SMALL, "ncm", millions=330, megabytes=7.5)))
    for over in ({"millions": 331, "megabytes": 7.3}, {"millions": 40, "megabytes": 7.6}):
        assert "Above the budget of track B: patches." in markup.markdown(table_of(found + of(SMALL, "ncm", **over)))


def test_every_line_of_the_tables_fits_80_columns():
    tables = Beyond().tables(results(everything()))
    assert len(tables) == len(beyond.STREAMS)
    text = "".join(map(markup.markdown, tables)).replace("\\", "").replace("**", "")
    assert max(len(line) for line in text.splitlines() if line.startswith("|")) <= 80


def tried(line, split, mean):
    """Three records of a line of the ablation."""
    spec = line.spec(STREAM, 100)
    behind = SimpleNamespace(method=spec.method, classifier=spec.classifiers[0])
    cell = SimpleNamespace(spec=lambda seed: line.spec(STREAM, seed), stream=STREAM, row=behind)
    found = fifteen(cell, mean, split=split, protocol={"backbone": "mlp"})[:3]
    found = [r | {"seed": 100 + r["seed"]} for r in found]
    return [r | {"run": named(r)} for r in found]


def test_the_ablation_is_from_validation_records_alone():
    found = tried(LINES[0], "valid", 70.6) + tried(LINES[1], "test", 60)
    table = ablation(results(found))
    assert table.parts[0].rows == [
        ["views", "two", "70.00 ± 0.25", "not run"],
        ["", "one", "not run", "not run"],
    ]


def test_shrinkage_has_what_each_gains_over_the_first():
    table = shrinkage(results(tried(LINES[0], "valid", 70.6) + tried(LINES[1], "valid", 73.6)))
    assert table.parts[0].rows == [["two", "70.00 ± 0.25", "–"], ["one", "73.00 ± 0.25", "+3.00 ± 0.00"]]


# --- the front and the pictures


def test_the_front_is_whom_nobody_beats():
    every = [Trade(1, 10), Trade(2, 20), Trade(2, 15), Trade(3, 20), Trade(4, 30), Trade(5, 5), Trade(4, 30)]
    assert front(every) == [True, True, False, False, True, False, True]
    assert front([]) == []


def test_points_are_what_validation_chose_and_the_bound_is_never_on_the_front():
    found = beyond_readings.points(beyond_readings.readings(results(everything()), STREAM), "multiplications")
    assert {p.reading.title: (p.cost / 1e6, p.accuracy.mean, p.best) for p in found} == {
        "ER": (330, pytest.approx(40), False),
        "hybrid": (331, pytest.approx(51), False),
        "hybrid-ACE": (326.6496, pytest.approx(53), False),
        "i.i.d. online": (1, pytest.approx(90), False),
        "A: hybrid-ACE, avg., softmax": (331, pytest.approx(58), False),
        "A: hybrid, avg.": (331, pytest.approx(56), False),
        "B: patches": (40, pytest.approx(73), True),
        "C: patches, K 512": (90, pytest.approx(76), True),
    }
    state = beyond_readings.points(beyond_readings.readings(results(everything()), STREAM), "state_bytes")
    assert [p.reading.title for p in state if p.best] == ["B: patches", "C: patches, K 512"]


@pytest.mark.parametrize(
    ("picture", "axis", "costs"),
    [
        ("beyond-cost", "multiplications per sample, millions", [40, 90]),
        ("beyond-state", "state, MB", [7.3, 34]),
    ],
)
def test_a_picture_shows_accuracy_against_a_cost(picture, axis, costs):
    figure = draw(picture, results(everything()))
    (ax,) = (ax for ax in figure.axes if ax.get_visible())
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("Split CIFAR-10", axis, "accuracy, %")
    assert ax.get_xscale() == "log"
    assert {text.get_text() for text in ax.texts} >= {"ER", "B: patches", "A: hybrid-ACE, avg., softmax"}
    (line,) = (line for line in ax.lines if line.get_drawstyle() == "steps-post")
    assert list(line.get_xdata()) == costs
    assert list(line.get_ydata()) == pytest.approx([73, 76])


def test_without_costs_nothing_is_drawn_and_an_old_picture_goes(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/beyond-cost.png").touch()
    said = Beyond().write(results([], tmp_path))
    assert "beyond-cost: not drawn, no stream has two learners whose records state multiplications" in said
    assert not list((tmp_path / "figures").iterdir())


# --- documents


def test_a_document_has_what_was_run(tmp_path):
    put(tmp_path, everything())
    Beyond().write(Results.read(tmp_path))
    page = tmp_path / "page.md"
    names = ("beyond", "beyond-figures", "beyond-ablation", "beyond-shrinkage", "beyond-searches")
    page.write_text("".join(f"<!-- mnemon: {name} -->\n<!-- /mnemon -->\n" for name in names))
    reproduce.fill([page], tmp_path)
    text = page.read_text()
    assert (tmp_path / "tables/beyond.md").read_text().count("\n## ") == len(beyond.STREAMS) + 1  # the ablation
    assert (tmp_path / "tables/beyond.tex").read_text().count("begin{table*}") == len(beyond.STREAMS) + 1
    assert text.count("\n### ") == 1  # of the streams, the one with records
    assert "| B | patches | NCM | 73.00 ± 0.25 | 20.0 | 40.0 | 7.30 | 3.00 |" in text
    assert "Split CIFAR-100, 20 tasks: every row" in text
    assert "](figures/beyond-cost.png)" in text
    assert "](figures/beyond-state.png)" in text
    assert "| views | two | not run | not run |" in text
    assert "| λ | accuracy, K 512 | difference, K 512 |\n| --- | --- | --- |\n| two | not run | – |\n" in text
    assert f"{page}: up to date" in reproduce.fill([page], tmp_path)


def test_a_method_without_a_cell_has_its_rows_on_its_page(monkeypatch):
    monkeypatch.setattr(pages.cells, "rows", lambda number: ())
    table = pages.one_method("er", results(of(FREE, "ncm")))
    assert table.parts[0].rows == [["Split CIFAR-10", "C", "patches, K 512", "50.00 ± 0.25", "20.00 ± 0.00"]]
    assert pages.one_method("er", results([])).notes == ["Not run yet."]


def test_the_page_has_no_number_that_was_written_by_hand():
    """Accuracies stand in the places that are written from the records, nowhere else."""
    text = (ROOT / "docs/beyond.md").read_text(encoding="utf-8")
    by_hand = documents.PLACE.sub("", text)
    assert "±" not in by_hand
    assert [name for name in ("beyond", "beyond-figures", "beyond-ablation", "beyond-shrinkage", "beyond-searches")
            if f"<!-- mnemon: {name} -->" not in text] == []  # fmt: skip


def test_the_report_reads_a_folder_with_such_rows(tmp_path):
    put(tmp_path, everything())
    assert report.write_table(tmp_path, tmp_path / "results.md", "er").exists()


# --- the real rows


def test_the_real_rows_are_known_and_keep_to_their_tracks():
    assert [(each.name, why) for each in REAL["ROWS"] if (why := each.unknown())] == []
    for line in REAL["ABLATION"]:
        REAL["spec"](line, STREAM, 100).choice()


def test_the_real_rows_have_names_of_their_own():
    assert len({each.name for each in REAL["ROWS"]}) == len(REAL["ROWS"])
    assert {each.track for each in REAL["ROWS"]} == set(beyond.TRACKS)
    assert all(each.options.get("augment", "none") == "none" for each in REAL["ROWS"] if each.track == "A")


def test_what_was_kept_is_what_the_committed_searches_chose():
    """When this fails: a line of beyond.json was not written by `mnemon tune --row ROW --keep`."""
    kept = json.loads(REAL["PATH"].read_bytes())
    logs = [json.loads(path.read_text()) for path in (committed() / "tuning").glob("*.json")]
    by_name = {}
    for log in (log for log in logs if "row" in log):
        by_name.setdefault((log["row"], "-".join(log["stream"].split("-")[:2])), []).append(log)
    for line in kept:
        found = by_name[line["row"], line["stream"]]
        assert any(
            log["classifier"] == line["classifier"] and log["chosen"].items() <= line["values"].items() for log in found
        )
