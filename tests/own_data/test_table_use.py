"""`mnemon predict` and `evaluate` on tables, and predictions written to a file."""

import csv
import errno
import json

import numpy as np
import pytest

import tables
from command_line import run
from folder_images import make
from mnemon import OnlineClassifier, files
from mnemon.own_data.fit import fit
from mnemon.readers.columns import Columns


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    path = tables.write(folder / "t.csv", tables.rows(200))
    fit(path, folder / "model", columns=Columns("bird"), method="slda")
    return folder / "model"


def probabilities(model, found):
    classifier = OnlineClassifier.load(model)
    x = [{name: row[name] for name in tables.FEATURES} for row in found]
    return classifier.classes_, classifier.predict_proba_many(x).to_numpy()


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
@pytest.mark.parametrize("out", [".csv", ".ndjson", ".parquet"])
def test_predictions_in_a_file_are_those_of_python(model, suffix, out, tmp_path, capsys):
    found = [{"key": f"k{n}", **row} for n, row in enumerate(tables.rows(30, start=400))]
    path = tables.write(tmp_path / f"new{suffix}", found)
    words = ("--id", "key", "--top", "2", "--out", str(tmp_path / f"scores{out}"))
    said, err = run("predict", str(model), str(path), *words, capsys=capsys)
    assert said == f"predictions of 30 rows: {tmp_path / f'scores{out}'}\n"
    assert err == "predict rows\n"
    classes, p = probabilities(model, found)
    best = [(labels[0], float(p[0]), labels[1], float(p[1])) for labels, p in (top_two(classes, each) for each in p)]
    scores = read(tmp_path / f"scores{out}")
    assert [row["id"] for row in scores] == [row["key"] for row in found]
    first = 2 if suffix == ".csv" else 1
    assert [int(row["line" if suffix != ".parquet" else "row"]) for row in scores] == list(range(first, first + 30))
    assert [
        (r["label"], float(r["confidence"]), r["label_2"], float(r["confidence_2"])) for r in map(flat, scores)
    ] == best


def top_two(classes, p):
    order = np.argsort(-p, kind="stable")[:2]
    return classes[order].tolist(), p[order]


def flat(row):
    """NDJSON has the likeliest as a list, the tables as columns."""
    if "top" in row:
        row |= {"label_2": row["top"][1]["label"], "confidence_2": row["top"][1]["confidence"]}
    return row


def read(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_row_that_cannot_be_predicted_has_its_sentence_and_the_others_their_label(model, tmp_path, capsys):
    path = tables.write(tmp_path / "t.csv", tables.rows(6))
    lines = path.read_text().splitlines()
    lines[2], lines[4] = "inf" + lines[2][lines[2].index(",") :], "1,2"
    path.write_text("\n".join(lines) + "\n")
    out, err = run("predict", str(model), str(path), "--json", code=2, capsys=capsys)
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["line"] for line in found] == [2, 3, 4, 5, 6, 7]
    assert ["error" in line for line in found] == [False, True, False, True, False, False]
    assert "line 5: there are 2 cells, and the header has 5." in err
    assert err.splitlines()[-1] == "mnemon: 2 of 6 rows could not be read."
    run("predict", str(model), str(path), "--out", str(tmp_path / "s.csv"), code=2, capsys=capsys)
    assert [bool(row["error"]) for row in read(tmp_path / "s.csv")] == [False, True, False, True, False, False]


def test_the_table_that_is_read_is_not_written_over(model, tmp_path, capsys):
    path = tables.write(tmp_path / "new.csv", tables.rows(5, start=400))
    before = path.read_bytes()
    (tmp_path / "link.csv").symlink_to(path)
    for out in (path, tmp_path / "link.csv"):
        said, err = run("predict", str(model), str(path), "--out", str(out), capsys=capsys, code=2)
        assert said == ""
        assert err == f"mnemon: {out} is read and would be replaced by the result; give another --out.\n"
    assert path.read_bytes() == before


def test_a_table_with_other_columns_than_a_fixed_model_is_one_sentence(tmp_path, capsys):
    """Not one for each row: the header says it."""
    rows = tables.rows(60)
    numbers = [{"long": float(n), "wide": float(n % 7)} for n in range(60)]
    classifier = OnlineClassifier("slda")
    classifier.learn_many(numbers, [row["bird"] for row in rows])
    classifier.save(tmp_path / "named")
    x = np.array([list(row.values()) for row in numbers])
    OnlineClassifier("slda").partial_fit(x, [row["bird"] for row in rows]).save(tmp_path / "unnamed")
    path = tables.write(tmp_path / "t.csv", [{"wide": 1.0, "kind": row["bird"], "long": 2.0} for row in rows])
    named = f"the model {tmp_path / 'named'}"

    def said(model, path, *words):
        return run("predict", str(tmp_path / model), str(path), *words, code=2, capsys=capsys)

    assert said("named", path) == (
        "",
        f"mnemon: {path} has columns that {named} did not learn from: kind; --label names the column of labels, and --ignore "
        "leaves columns out.\n",
    )
    assert run("predict", str(tmp_path / "named"), str(path), "--label", "kind", capsys=capsys)[0].count("\n") == 60
    assert run("predict", str(tmp_path / "named"), str(path), "--ignore", "kind", capsys=capsys)[0].count("\n") == 60
    lines = tables.write(tmp_path / "t.ndjson", numbers)  # each row has its own columns
    assert run("predict", str(tmp_path / "named"), str(lines), capsys=capsys)[0].count("\n") == 60
    short = tables.write(tmp_path / "short.csv", [{"wide": 1.0}])
    assert said("named", short)[1] == f"mnemon: {short} lacks columns that {named} learned from: long.\n"
    assert "unnamed learned rows of 2 numbers without names, not a table" in said("unnamed", path)[1]
    assert "unnamed learned rows of 2 numbers without names, not a table" in said("unnamed", lines)[1]


def test_a_full_disk_leaves_no_half_written_predictions(model, tmp_path, capsys, monkeypatch):
    path = tables.write(tmp_path / "t.csv", tables.rows(6))

    def full(part):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "flush", full)
    _, err = run("predict", str(model), str(path), "--out", str(tmp_path / "s.csv"), code=2, capsys=capsys)
    assert f"{tmp_path / 's.csv'} could not be written (No space left on device)." in err
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_images_can_be_scored_to_a_file_too(tmp_path, capsys):
    fit(make(tmp_path / "photos", each=10), tmp_path / "model", size=12)
    words = ("predict", str(tmp_path / "model"), str(tmp_path / "photos"), "--out", str(tmp_path / "s.csv"))
    assert run(*words, capsys=capsys)[0] == f"predictions of 30 images: {tmp_path / 's.csv'}\n"
    found = read(tmp_path / "s.csv")
    assert [row["image"] for row in found] == sorted(str(p) for p in (tmp_path / "photos").rglob("*.png"))
    assert sum(row["label"] in row["image"] for row in found) >= 28


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_evaluate_counts_every_row(model, suffix, tmp_path, capsys):
    found = tables.rows(60, start=700)
    found[3] |= {"bird": "owl"}
    path = tables.write(tmp_path / f"t{suffix}", found)
    classes, p = probabilities(model, found)
    right = sum(classes[p.argmax(1)] == [row["bird"] for row in found])
    words = ("evaluate", str(model), str(path), "--out", str(tmp_path / "page"))
    said, _ = run(*words, capsys=capsys)
    assert f"{100 * right / 60:.1f} % right: {right} of 60 rows" in said
    assert "never learned" in said
    data = json.loads(run(*words, "--json", capsys=capsys)[0])
    assert (data["rows"], data["right"], data["skipped"]) == (60, right, 0)
    assert sum(map(sum, data["confusion"]["true_by_predicted"])) == 60
    assert f"{right} of 60" in (tmp_path / "page" / "evaluation.html").read_text()


def test_evaluate_says_how_many_rows_the_model_was_fitted_with(model, tmp_path, capsys):
    words = ("--json", "--out", str(tmp_path / "page"))
    grown = tables.write(tmp_path / "t.csv", tables.rows(250))  # 200 of them are the model's t.csv
    out, err = run("evaluate", str(model), str(grown), *words, capsys=capsys)
    assert "the model was fitted with 200 of these 250 rows: its accuracy on them says little about new ones." in err
    assert json.loads(out)["known"] == 200
    other = tables.write(tmp_path / "t.csv", tables.rows(60, start=700))  # of the same name
    out, err = run("evaluate", str(model), str(other), *words, capsys=capsys)
    assert (json.loads(out)["known"], "fitted with" in err) == (0, False)


def test_evaluate_on_arrays_with_labels_as_floats(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    x = rng.normal(size=(90, 4)) + 6 * np.eye(4)[y]
    np.savez(tmp_path / "train.npz", x=x[:60], y=y[:60])
    np.save(tmp_path / "x.npy", x[60:])
    np.save(tmp_path / "y.npy", y[60:].astype(float))
    run("fit", str(tmp_path / "train.npz"), "--out", str(tmp_path / "model"), "--method", "slda", capsys=capsys)
    words = (
        "evaluate",
        str(tmp_path / "model"),
        str(tmp_path / "x.npy"),
        "--labels",
        str(tmp_path / "y.npy"),
        "--json",
    )
    data = json.loads(run(*words, "--out", str(tmp_path / "page"), capsys=capsys)[0])
    assert data["confusion"]["labels"] == ["0", "1", "2"]
    assert data["right"] >= 29
    out, _ = run("predict", str(tmp_path / "model"), str(tmp_path / "x.npy"), capsys=capsys)
    assert len(out.splitlines()) == 30


def test_on_a_full_disk_evaluate_prints_what_it_found(model, tmp_path, capsys, monkeypatch):
    path = tables.write(tmp_path / "t.csv", tables.rows(20, start=700))

    def full(part, content, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    words = ("evaluate", str(model), str(path), "--out", str(tmp_path / "page"))
    out, err = run(*words, code=2, capsys=capsys)
    assert " of 20 rows" in out
    assert "the evaluation could not be written to" in err.splitlines()[-1]
    out, _ = run(*words, "--json", code=2, capsys=capsys)
    assert json.loads(out)["rows"] == 20


def test_the_sentence_of_a_first_save_that_failed_names_no_earlier_one(tmp_path, capsys, monkeypatch):
    path, original = tables.write(tmp_path / "t.csv", tables.rows(20)), files.write

    def full(part, content, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    words = ("fit", str(path), "--out", str(tmp_path / "model"), "--label", "bird", "--method", "slda")
    monkeypatch.setattr(files, "write", full)
    _, err = run(*words, code=2, capsys=capsys)
    assert "(No space left on device); it would have been the first, so nothing is saved" in err
    assert not (tmp_path / "model").exists()
    monkeypatch.setattr(files, "write", original)
    run(*words, capsys=capsys)
    tables.write(path, tables.rows(30))
    monkeypatch.setattr(files, "write", full)
    _, err = run(*words, code=2, capsys=capsys)
    assert "the one before it is untouched" in err
