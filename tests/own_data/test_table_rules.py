"""What cells of a table mean on the command line, and that a model goes on by the rules it was begun with."""

import json

import numpy as np
import pytest
import torch

import tables
from command_line import run
from mnemon import MnemonError, OnlineClassifier
from mnemon.own_data.fit import fit
from mnemon.own_data.journal import Journal
from mnemon.readers.columns import UNTIL_0_2, Columns


def flags(n, suffix, path, start=0):
    """Rows whose bool says the class."""
    rng = np.random.default_rng([3, start])
    rows = [{"on": bool(rng.integers(2)), "x": float(rng.normal())} for _ in range(n)]
    return tables.write(path.with_suffix(suffix), [row | {"bird": "wren" if row["on"] else "tit"} for row in rows])


@pytest.mark.parametrize(("learned", "asked"), [(".parquet", ".csv"), (".csv", ".parquet"), (".csv", ".ndjson")])
def test_a_bool_is_the_same_category_in_every_format(learned, asked, tmp_path, capsys):
    out = tmp_path / "model"
    fit(flags(60, learned, tmp_path / "t"), out, columns=Columns("bird"), method="slda")
    test = flags(40, asked, tmp_path / "test", start=9)
    words = ("evaluate", str(out), str(test), "--json", "--out", str(tmp_path / "page"), "--quiet")
    assert json.loads(run(*words, capsys=capsys)[0])["accuracy"] == 100


def test_a_feature_whose_values_were_never_learned_is_said_once_for_a_chunk(tmp_path, caplog, capsys):
    rows = [row | {"where": "north"} for row in tables.rows(40)]
    fit(tables.write(tmp_path / "t.csv", rows), tmp_path / "model", columns=Columns("bird"), method="slda")
    assert caplog.messages == []
    path = tables.write(tmp_path / "new.csv", [row | {"where": "NORTH"} for row in rows])
    run("predict", str(tmp_path / "model"), str(path), "--reject", "0.1", capsys=capsys)
    (said,) = [each for each in caplog.messages if "'where'" in each]
    assert "no value of the feature 'where' in these samples was ever learned" in said


def test_a_misspelled_column_is_said_once_for_a_table(tmp_path, caplog, capsys):
    fit(tables.write(tmp_path / "t.csv", tables.rows(40)), tmp_path / "model", columns=Columns("bird"), method="slda")
    name = next(name for name in tables.rows(1)[0] if name != "bird")
    rows = [{each.upper() if each == name else each: value for each, value in row.items()} for row in tables.rows(40)]
    path = tables.write(tmp_path / "new.csv", rows * 40)  # more than are read at once
    run("predict", str(tmp_path / "model"), str(path), capsys=capsys)
    (said,) = [each for each in caplog.messages if "are the names right?" in each]
    assert repr(name) in said
    assert repr(name.upper()) in said


def test_a_column_that_held_the_labels_before_and_is_a_feature_now_is_said(tmp_path, caplog):
    fit(tables.write(tmp_path / "t.csv", tables.rows(40)), tmp_path / "model", columns=Columns("bird"), method="slda")
    rows = [row | {"name": row["bird"]} for row in tables.rows(10, start=40)]
    both = tables.write(tmp_path / "both.csv", rows)
    fit(both, tmp_path / "model", columns=Columns("name", ignore=("bird",)))
    assert not caplog.messages
    fit(tables.write(tmp_path / "again.csv", rows), tmp_path / "model", columns=Columns("name"))
    assert not caplog.messages  # what is ignored is kept with the model, too
    fit(tables.write(tmp_path / "t.csv", tables.rows(40)), tmp_path / "other", columns=Columns("bird"), method="slda")
    fit(both, tmp_path / "other", columns=Columns("name"))
    (said,) = caplog.messages
    assert said.endswith(
        "'bird' held the labels of the tables before, and is a feature here, since the labels are in 'name'; "
        "--ignore bird leaves it out."
    )


def test_na_is_missing_and_the_list_is_kept_with_the_model(tmp_path):
    lines = [f"{'NA' if i % 5 == 0 else i * 0.5},{'?' if i % 3 == 0 else 'b'},{'uv'[i % 2]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,c,bird", *lines]) + "\n")
    fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird", missing=("NA", "?")), method="slda")
    table = OnlineClassifier.load(tmp_path / "model")._model.table
    assert [(feature.name, feature.kind) for feature in table.features] == [("a", "number"), ("c", "category")]
    (tmp_path / "u.csv").write_text("a,c,bird\n?,?,u\nNA,NA,v\nnan,nan,v\n")
    fit(tmp_path / "u.csv", tmp_path / "model")  # the list is not named again; here nan is a category
    (feature,) = [f for f in OnlineClassifier.load(tmp_path / "model")._model.table.features if f.name == "c"]
    assert [category for _, category in feature.categories] == ["b", "nan"]


def test_a_label_that_is_missing_is_said_to_be(tmp_path):
    (tmp_path / "t.csv").write_text("a,bird\n1,u\n2,NA\n")
    with pytest.raises(MnemonError, match="line 3: there is no label in 'bird', where 'NA' is a missing value"):
        fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird"), method="slda")
    fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird", missing=("?",)), method="slda")
    assert sorted(OnlineClassifier.load(tmp_path / "model").classes_) == ["NA", "u"]


def test_a_placeholder_in_the_first_row_does_not_make_categories_of_numbers(tmp_path, caplog):
    (tmp_path / "t.csv").write_text("a,bird\n?,u\n" + "".join(f"{i}.5,{'uv'[i % 2]}\n" for i in range(20)))
    with pytest.raises(
        MnemonError, match=r"line 2: 'a' holds numbers, and this is the text '\?'; if .* --missing '\?'"
    ):
        fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird"), method="slda")
    done = fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird"), method="slda", bad="skip")
    assert (done.learned, done.skipped) == (20, 1)
    assert fit(tmp_path / "t.csv", tmp_path / "model").known == 21


def test_a_model_begun_before_keeps_what_was_missing_then(tmp_path):
    """Its journal states neither the list nor how names are read."""
    rows = [f"{i % 7},{'NA' if i % 4 == 0 else 'b'},{'uv'[i % 2]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,c,bird", *rows[:20]]) + "\n")
    fit(tmp_path / "t.csv", tmp_path / "model", columns=Columns("bird", missing=UNTIL_0_2), method="slda")
    model = OnlineClassifier.load(tmp_path / "model")
    old = {"label": "bird", "id": None, "ignore": []}
    model._beside["columns"] = torch.frombuffer(bytearray(json.dumps(old).encode()), dtype=torch.uint8)
    assert Journal(model._beside).columns == Columns("bird", missing=UNTIL_0_2, strip=False)
    model.save(tmp_path / "model")
    (tmp_path / "t.csv").write_text("\n".join(["a,c,bird", *rows]) + "\n")
    done = fit(tmp_path / "t.csv", tmp_path / "model")
    assert (done.known, done.learned) == (20, 10)
    assert OnlineClassifier.load(tmp_path / "model")._model.table == model._model.table  # NA is a category still
    (tmp_path / "u.csv").write_text("a, d,bird\n1,2,u\n")
    fit(tmp_path / "u.csv", tmp_path / "model")
    assert OnlineClassifier.load(tmp_path / "model").feature_names_in_.tolist() == ["a", "c", " d"]


def test_cells_between_semicolons_are_found_and_said(tmp_path, capsys):
    text = tables.write(tmp_path / "t.csv", tables.rows(40)).read_text().replace(",", " ; ", 5).replace(",", ";")
    (tmp_path / "t.csv").write_text(text)
    words = ("fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), "--label", "bird", "--method", "slda")
    out, err = run(*words, capsys=capsys)
    assert "learned 40 rows" in out
    assert err.count("are separated by ';', as its header shows.") == 1
    names = OnlineClassifier.load(tmp_path / "model").feature_names_in_.tolist()
    assert names == list(tables.FEATURES)  # without blanks
    (tmp_path / "u.csv").write_text(text.replace(";", "|"))
    words = ("fit", str(tmp_path / "u.csv"), "--out", str(tmp_path / "model"))
    assert "learned 40 rows" in run(*words, "--separator", "|", capsys=capsys)[0]
    (tmp_path / "u.csv").write_text(text.replace(";", "|") + "1|2|3|4|tit\n")
    assert "learned 1 row " in run(*words, capsys=capsys)[0]  # as before
    assert "--separator is one character, or tab" in run(*words, "--separator", "||", code=2, capsys=capsys)[1]


def test_postal_codes_stay_text_and_dates_are_said(tmp_path, capsys, caplog):
    lines = [f"0700{i % 3},2026-01-{i + 1:02d},{'uvw'[i % 3]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["zip,when,bird", *lines]) + "\n")
    words = ("fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), "--label", "bird", "--method", "slda")
    run(*words, "--category", "zip", capsys=capsys)
    assert sum("'when' holds dates" in message and "--ignore when" in message for message in caplog.messages) == 1
    (tmp_path / "t.csv").write_text("\n".join(["zip,when,bird", *lines, "08000,2026-02-01,u"]) + "\n")
    run("fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), capsys=capsys)
    zips = OnlineClassifier.load(tmp_path / "model")._model.table.features[0]
    assert [category for _, category in zips.categories] == ["07000", "07001", "07002", "08000"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("fit empty.csv --out new --label bird", "empty.csv is empty; it needs a header"),
        ("fit header.csv --out new --label bird", "header.csv holds no rows, so there is nothing to learn."),
        ("evaluate model header.csv", "there are no rows, so there is nothing to evaluate."),
        ("predict nowhere t.csv", "there is no folder nowhere, and so no model."),
        ("predict nowhere", "there is no folder nowhere, and so no model."),
        ("evaluate nowhere t.csv", "there is no folder nowhere, and so no model."),
        ("fit --out model --forget u", "'u' is the only class of model, so nothing would be left; delete the folder"),
        ("fit t.csv --out new --label bird --category zip", "unknown column of t.csv: 'zip'"),
    ],
)
def test_sentences(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,bird\n1,u\n2,u\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,bird\n")
    said, _ = run("fit", "t.csv", "--out", "model", "--label", "bird", "--method", "slda", capsys=capsys)
    assert "model: model (2 rows learned, 1 class)" in said
    assert sentence in run(*words.split(), code=2, capsys=capsys)[1].splitlines()[-1]
