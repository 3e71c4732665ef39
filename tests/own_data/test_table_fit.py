"""`mnemon fit` on tables and arrays: each row is learned once, whatever happens on the way."""

import json
import os
import random
import signal
import sys

import numpy as np
import pytest
from test_folder_fit import Killed, Watcher, killed, state

import tables
from command_line import run
from mnemon import MnemonError, OnlineClassifier
from mnemon.own_data.fit import fit
from mnemon.own_data.journal import Chunk, Journal
from mnemon.own_data.measuring import SHARE, Budget, Costs, costs
from mnemon.readers.columns import Columns

BIRDS = {"columns": Columns("bird")}
SLDA = {"method": "slda"}


def learn(path, out, **more):
    return fit(path, out, **({} if path.suffix == ".npz" else BIRDS) | SLDA | more)


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet", ".npz"])
def test_a_table_is_learned_once_and_goes_on_when_it_grows(suffix, tmp_path):
    path, out = tables.write(tmp_path / f"t{suffix}", tables.rows(120)), tmp_path / "model"
    first = learn(path, out)
    assert (first.unit, first.learned, first.known, first.samples) == ("rows", 120, 0, 120)
    assert sorted(first.labels) == sorted(tables.NAMES)
    assert first.journal.accuracy() > 80
    assert learn(path, out).learned == 0
    tables.write(path, tables.rows(150))
    grown = fit(path, out)  # the columns are those of before
    assert (grown.learned, grown.known, grown.samples) == (30, 120, 150)
    x = [{name: row[name] for name in tables.FEATURES} for row in tables.rows(50, start=900)]
    classifier = OnlineClassifier.load(out)
    said = [classifier.predict_one(dict(enumerate(r.values())) if suffix == ".npz" else r) for r in x]
    right = sum(a == row["bird"] for a, row in zip(said, tables.rows(50, start=900), strict=True))
    assert right >= 48


def test_a_changed_table_is_refused_and_another_name_is_another_table(tmp_path):
    path, out = tables.write(tmp_path / "t.csv", tables.rows(60)), tmp_path / "model"
    learn(path, out)
    before = state(out)
    tables.write(path, tables.rows(60, start=500))
    with pytest.raises(
        MnemonError, match=r"no longer begins with the 60 rows .* needs another name; nothing was learned"
    ):
        learn(path, out)
    assert state(out) == before
    assert learn(path.rename(tmp_path / "u.csv"), out).samples == 120
    (tmp_path / "elsewhere").mkdir()
    tables.write(tmp_path / "elsewhere" / "t.csv", tables.rows(60))
    assert learn(tmp_path / "elsewhere" / "t.csv", out).learned == 0  # where it lies does not matter
    log = json.loads((out / "log.json").read_text())
    assert (log["tables"], log["rows"], log["files"]) == (2, 120, 0)
    assert str(tmp_path) not in json.dumps(log)


def test_columns_are_kept_with_the_model_and_those_a_table_lacks_are_not_missed(tmp_path):
    found = [{"key": n, "note": "x", **row} for n, row in enumerate(tables.rows(60))]
    path, out = tables.write(tmp_path / "t.csv", found), tmp_path / "model"
    fit(path, out, columns=Columns("bird", "key", ("note",)), **SLDA)
    assert fit(tables.write(tmp_path / "u.csv", tables.rows(10, start=60)), out).learned == 10
    assert fit(tables.write(tmp_path / "v.parquet", found[:5]), out).learned == 5


def test_whole_numbers_as_floats_are_counted_as_right(tmp_path):
    found = [row | {"bird": float(tables.NAMES.index(row["bird"]))} for row in tables.rows(100)]
    done = learn(tables.write(tmp_path / "t.parquet", found), tmp_path / "model")
    assert sorted(done.labels) == [0, 1, 2]
    assert done.journal.accuracy() > 80


def test_labels_are_those_the_model_has(tmp_path):
    """In a CSV file all is text: numbers become numbers, and what the model knows under that text stays that."""
    out = tmp_path / "model"
    (tmp_path / "t.csv").write_text("a,bird\n" + "0,1\n5,02\n9,x\n" * 10)
    assert learn(tmp_path / "t.csv", out).labels == [1, "02", "x"]
    (tmp_path / "u.ndjson").write_text('{"a": 1, "bird": 1}\n{"a": 2, "bird": "1"}\n')
    assert learn(tmp_path / "u.ndjson", out).labels == [1, "02", "x", "1"]


def spoiled(path, place):
    """100 rows, of which the one in this line cannot be learned."""
    lines = tables.write(path, tables.rows(100)).read_text().splitlines()
    lines[place - 1] = "inf" + lines[place - 1][lines[place - 1].index(",") :]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_row_that_cannot_be_learned_stops_and_once_repaired_nothing_is_lost(tmp_path):
    learn(tables.write(tmp_path / "t.csv", tables.rows(100)), tmp_path / "undisturbed")
    path, out = spoiled(tmp_path / "t.csv", 58), tmp_path / "model"
    with pytest.raises(
        MnemonError, match=r"t.csv, line 58: .*not finite.*repair it, or leave such rows out with --bad skip"
    ):
        learn(path, out)
    assert OnlineClassifier.load(out).n_seen_ == 56  # all rows before it
    tables.write(path, tables.rows(100))
    done = learn(path, out)
    assert (done.known, done.learned) == (56, 44)
    x = [{name: row[name] for name in tables.FEATURES} for row in tables.rows(50, start=900)]
    a, b = (OnlineClassifier.load(tmp_path / name).predict_proba_many(x) for name in ("model", "undisturbed"))
    np.testing.assert_allclose(a, b[a.columns], atol=1e-4)  # in other chunks, so not to the bit


@pytest.mark.parametrize("spoil", ["inf,1,1,1,wren", "1,1,wren", "1,1,1,1,"], ids=["value", "cells", "label"])
@pytest.mark.parametrize("line", [14, 12, 37])
def test_all_rows_before_the_one_that_stops_are_learned_and_the_sentence_says_how_many(spoil, line, tmp_path):
    path, out = tables.write(tmp_path / "t.csv", tables.rows(60)), tmp_path / "model"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: line - 1], spoil, *lines[line:]]) + "\n")
    with pytest.raises(MnemonError, match=rf"line {line}: .* The {line - 2} rows before it are learned and saved\.$"):
        learn(path, out)
    assert OnlineClassifier.load(out).n_seen_ == line - 2
    with pytest.raises(MnemonError, match=rf"Nothing was learned beyond the {line - 2} rows known already\.$"):
        learn(path, out)
    path.write_text("\n".join(lines) + "\n")
    assert learn(path, out).samples == 60


def test_a_row_that_is_refused_only_beside_others_is_found(tmp_path, caplog):
    path = tmp_path / "t.csv"
    path.write_text("x,bird\n1,a\n2,b\n1.1,a\n2.1,b\n1e22,c\n,a\n")
    done = learn(path, tmp_path / "model", bad="skip")
    assert (done.learned, done.skipped) == (5, 1)
    assert "t.csv, line 7: together with the rows before it, a feature is too large" in caplog.text
    with pytest.raises(MnemonError, match=r"t.csv, line 7: .* Nothing was learned\.$"):
        learn(path, tmp_path / "other")


def test_a_bad_option_is_not_blamed_on_a_row(tmp_path):
    with pytest.raises(MnemonError, match=r"^lr must be above 0, not -1.0\.$"):
        learn(tables.write(tmp_path / "t.csv", tables.rows(9)), tmp_path / "model", method="er", lr=-1.0)


def test_rows_that_cannot_be_learned_are_named_and_left_out_if_asked(tmp_path, caplog):
    path = spoiled(tmp_path / "t.csv", 58)
    path.write_text(path.read_text() + "1,2\n")
    done = learn(path, tmp_path / "model", bad="skip")
    assert (done.learned, done.skipped) == (99, 2)
    assert [message[:40].split("/")[0] for message in caplog.messages] == ["skipped: "] * 2
    assert "t.csv, line 58: " in caplog.messages[0]
    assert "t.csv, line 102: there are 2 cells, and the header has 5" in caplog.messages[1]
    again = learn(path, tmp_path / "model", bad="skip")
    assert (again.learned, again.known) == (0, 101)


def test_nothing_is_written_where_the_first_rows_cannot_be_learned(tmp_path):
    with pytest.raises(MnemonError, match="line 3"):
        learn(spoiled(tmp_path / "t.csv", 3), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_death_at_any_write_ends_with_the_same_bytes(suffix, tmp_path, monkeypatch):
    from mnemon import files

    path = tables.write(tmp_path / f"t{suffix}", tables.rows(130))
    original, left = files.replace, [0]

    def replace(part, fill, **more):
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        original(part, fill, **more)

    monkeypatch.setattr(files, "replace", replace)
    learn(path, tmp_path / "undisturbed", save_every=0, method="hybrid")
    for fuse in (1, 2, 3, 4, 5, 6, 3, 9):
        left[0] = fuse
        with pytest.raises(Killed):
            learn(path, tmp_path / "model", save_every=0, method="hybrid")
    left[0] = 0
    learn(path, tmp_path / "model", save_every=0, method="hybrid")
    assert state(tmp_path / "model") == state(tmp_path / "undisturbed")


def test_a_signal_saves_and_the_same_call_goes_on(tmp_path):
    path = tables.write(tmp_path / "t.csv", tables.rows(130))
    learn(path, tmp_path / "undisturbed")
    chunks = [0]

    def act(total):
        chunks[0] += 1
        if chunks[0] == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    class Counting(Watcher):
        def bars(self):
            import contextlib

            from mnemon.runtime.progress import Bar

            return contextlib.nullcontext(lambda text, total, unit: Bar(lambda n: None, lambda **changes: act(changes)))

    from mnemon.runtime.signals import Stopped

    with pytest.raises(Stopped):
        learn(path, tmp_path / "model", progress=Counting(act))
    assert 0 < OnlineClassifier.load(tmp_path / "model").n_seen_ < 130
    learn(path, tmp_path / "model")
    assert state(tmp_path / "model") == state(tmp_path / "undisturbed")


def table_command(path, out):
    words = ["fit", str(path), "--out", str(out), "--label", "bird", "--save-every", "0", "--quiet"]
    return [sys.executable, "-m", "mnemon", *words]


def test_killed_twice_it_ends_with_the_same_bytes(tmp_path):
    path = tables.write(tmp_path / "t.csv", tables.rows(800))
    fit(path, tmp_path / "undisturbed", **BIRDS)
    killed(path, tmp_path / "model", state(tmp_path / "undisturbed"), 2, random.Random(1), table_command)


@pytest.mark.slow
def test_killed_fifty_times_it_ends_with_the_same_bytes(tmp_path):
    path = tables.write(tmp_path / "t.csv", tables.rows(20_000))
    fit(path, tmp_path / "undisturbed", **BIRDS)
    killed(path, tmp_path / "model", state(tmp_path / "undisturbed"), 50, random.Random(2), table_command)


# --- what asking may cost


@pytest.mark.parametrize("method", ["hybrid", "slda", "er"])
def test_asking_stays_within_its_share_and_is_not_given_up(method, tmp_path):
    """By the estimate of what it costs: the benchmark compares that with the clock."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 5000)
    np.savez(tmp_path / "t.npz", x=rng.normal(size=(5000, 4)) + 4 * np.eye(4)[y], y=y)
    done = fit(tmp_path / "t.npz", tmp_path / "model", method=method, memory_size=None if method == "slda" else 200)
    model, journal = OnlineClassifier.load(tmp_path / "model")._model, done.journal
    price = costs(model)
    budget, spent = Budget(price), 0.0
    for chunk in journal.chunks:
        spent += budget.cost(chunk.predicted) if chunk.predicted else 0
        budget.note(chunk)
    assert spent <= price.allowance + SHARE * (done.samples + price.chunk * len(journal.chunks))
    assert journal.predicted >= 300
    assert any(chunk.predicted for chunk in journal.chunks[-8:])


@pytest.mark.parametrize("most", [250, 1000])
def test_a_network_that_is_dear_to_ask_is_asked_little_but_early_and_again(most):
    """A question costs a pass over the whole memory, a fifth of what learning as many samples costs."""
    price = Costs(0.0, 0.2, 0.0, 150.0, memory=1000, kept=0.2, fewest=50)
    budget, samples, spent, asked = Budget(price), 0, 0.0, {}
    while samples < 20_000:
        n = max(min(samples // 4, most), 10) // 10 * 10
        here = min(n, 250) if samples and budget.allows(min(n, 250)) else 0
        spent += budget.cost(here) if here else 0
        asked[samples] = here
        samples += n
        budget.note(Chunk(samples, here, 0, 3))
        assert samples < 2000 or spent <= 0.1 * samples
    assert sum(here for at, here in asked.items() if at < 900) >= 100
    assert sum(asked.values()) >= 1000


# --- forgetting and merging on disk


def test_a_class_is_forgotten_and_not_learned_again(tmp_path, capsys):
    path, out = tables.write(tmp_path / "t.csv", tables.rows(100)), tmp_path / "model"
    learn(path, out)
    said, _ = run("fit", "--out", str(out), "--forget", "wren", capsys=capsys)
    assert said == f"forgot the class wren; model: {out}\n"
    classifier = OnlineClassifier.load(out)
    assert sorted(classifier.classes_.tolist()) == ["robin", "tit"]
    assert learn(path, out).learned == 0
    assert json.loads((out / "log.json").read_text())["classes"] == classifier.classes_.tolist()


def test_merged_models_are_the_model_of_all_rows(tmp_path, capsys):
    paths = [tables.write(tmp_path / f"{n}.csv", tables.rows(100, start=100 * n)) for n in range(3)]
    for n, path in enumerate(paths):
        learn(path, tmp_path / f"m{n}", exam=0)
        learn(path, tmp_path / "whole", exam=0)
    said, _ = run("merge", *(str(tmp_path / f"m{n}") for n in range(3)), "--out", str(tmp_path / "all"), capsys=capsys)
    assert f"model: {tmp_path / 'all'} (300 samples learned, 3 classes)" in said
    merged, whole = (OnlineClassifier.load(tmp_path / name) for name in ("all", "whole"))
    x = [{name: row[name] for name in tables.FEATURES} for row in tables.rows(50, start=900)]
    a, b = (each.predict_proba_many(x) for each in (merged, whole))
    np.testing.assert_allclose(a[list(tables.NAMES)], b[list(tables.NAMES)], atol=1e-5)
    assert [learn(path, tmp_path / "all").learned for path in paths] == [0, 0, 0]
    assert Journal(merged._beside).predicted == Journal(merged._beside).predicted > 0


def test_tables_of_one_name_in_merged_models_each_go_on(tmp_path, caplog):
    for place, start in (("north", 0), ("south", 500)):
        (tmp_path / place).mkdir()
        learn(tables.write(tmp_path / place / "t.csv", tables.rows(50, start=start)), tmp_path / f"m-{place}")
    from mnemon.own_data.taking_back import merge

    merge([tmp_path / "m-north", tmp_path / "m-south"], tmp_path / "all")
    assert "learned tables of the same name; if it was one, its rows count twice." in caplog.messages[0]
    for place, start in (("north", 0), ("south", 500)):
        tables.write(tmp_path / place / "t.csv", tables.rows(60, start=start))
        done = learn(tmp_path / place / "t.csv", tmp_path / "all")
        assert (done.learned, done.known) == (10, 50)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("merge a --out new", "name at least two models to merge."),
        ("merge a a --out new", "a is named twice: its samples would count twice."),
        ("merge a b --out b", "b holds a model already; give a new --out."),
        ("merge a nowhere --out new", "nowhere holds no saved model."),
        ("merge a same --out new", "1 of the files that same learned were learned by a model before it too"),
        ("merge a net --out new", "net cannot be merged with a: networks cannot be merged exactly"),
        ("fit --out a --forget owl", "there is no class 'owl'"),
        ("fit --out nowhere --forget wren", "nowhere holds no saved model."),
        ("fit t.csv --out a --forget wren", "--forget stands alone"),
        ("fit --out a", "fit needs SOURCE"),
        (
            "fit t.csv --out new",
            "which column of t.csv has the labels? Give --label COLUMN; there are: a, b, c, d, bird.",
        ),
        ("fit t.csv --out new --label brid", "unknown column of t.csv: 'brid'; did you mean 'bird'?"),
        ("fit t.csv --out new --label bird --size 9", "--size is for folders of images"),
        ("fit t.csv --out new --label bird --bad ignore", "unknown --bad 'ignore'"),
        ("fit t.csv --out new --label bird --labels t.csv", "--labels is for arrays"),
        ("fit t.csv --out images --label bird", "the model images takes images, not the rows of a table."),
        ("fit . --out ../new --label bird", "whose sub-folders are the classes: --label, --labels, --id"),
        ("fit gone.csv --out new --label bird", "there is no file gone.csv."),
        ("predict a t.csv t.csv", "tables and arrays are predicted one at a time"),
        ("predict a gone.csv", "there is no file gone.csv."),
        ("predict a t.csv --out scores.xls", "scores.xls has no known kind; predictions are written as .csv, .ndjson"),
        ("predict a t.csv --out nowhere/s.csv", "nowhere/s.csv cannot be written"),
        ("predict a t.csv --out a/s.csv", "holds nothing else; give an --out elsewhere."),
        ("evaluate a t.csv --label brid", "unknown column of t.csv: 'brid'"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    learn(tables.write(tmp_path / "t.csv", tables.rows(30)), tmp_path / "a")
    learn(tables.write(tmp_path / "u.csv", tables.rows(30, start=50)), tmp_path / "b")
    learn(tmp_path / "t.csv", tmp_path / "same")
    learn(tables.write(tmp_path / "v.csv", tables.rows(30, start=90)), tmp_path / "net", method="er")
    x = np.zeros((4, 8, 8, 3), np.uint8)
    OnlineClassifier().partial_fit(x + np.arange(4, dtype=np.uint8)[:, None, None, None], [0, 1, 0, 1]).save("images")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file() and "lock" not in p.name}
    out, err = run(*words.split(), code=2, capsys=capsys)
    assert out == ""
    assert sentence in err.splitlines()[-1]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file() and "lock" not in p.name} == before
