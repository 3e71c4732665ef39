"""`mnemon learn`: each row once, however often it is started."""

import io
import itertools
import json
import os
import signal
import sqlite3
import sys
import threading
import time

import numpy as np
import pytest
from PIL import Image

from command_line import run
from mnemon import OnlineClassifier
from mnemon.serve import journal as journals
from mnemon.serve import learning
from mnemon.serve.events import SAMPLES
from mnemon.serve.feeding import Feeder
from mnemon.serve.transaction import Transaction
from mnemon.sources.pictures import Pictures

SMALL = ("--backbone", "mlp:width=16", "--memory-size", "40", "--device", "cpu")


def lines(n, start=0):
    rng = np.random.default_rng(start)
    return "".join(
        json.dumps({"a": float(rng.normal() + 4 * (i % 2)), "b": float(i), "y": f"class {i % 2}"}) + "\n"
        for i in range(n)
    )


def test_files_are_learned_once_and_go_on_as_they_grow(tmp_path, capsys):
    path, model = tmp_path / "rows.ndjson", tmp_path / "model"
    path.write_text(lines(120))
    out, _ = run("learn", str(model), str(path), *SMALL, capsys=capsys)
    assert "read 120 samples" in out
    assert "120 of 120 samples learned" in out
    out, _ = run("learn", str(model), str(path), "--device", "cpu", capsys=capsys)
    assert "read 0 samples" in out
    with path.open("a") as file:
        file.write(lines(30, 1))
    other = tmp_path / "more.csv"
    other.write_text("b,a,label\n1,2,new\n3,4,new\n")
    out, _ = run("learn", str(model), str(path), str(other), capsys=capsys)
    assert "read 32 samples" in out
    loaded = OnlineClassifier.load(model)
    assert loaded.n_seen_ == 152
    assert loaded.classes_.tolist() == ["class 0", "class 1", "new"]


def test_a_new_model_may_follow_drift(tmp_path, capsys):
    path, model = tmp_path / "rows.ndjson", tmp_path / "model"
    path.write_text(lines(40))
    for wrong in ("soon", "-1"):
        _, err = run("learn", str(model), str(path), "--half-life", wrong, code=2, capsys=capsys)
        assert "number of samples of a class" in err
    assert not model.exists()
    run("learn", str(model), str(path), "--half-life", "auto", *SMALL, capsys=capsys)
    assert OnlineClassifier.load(model).half_life == "auto"
    run("learn", str(model), str(path), "--half-life", "auto", capsys=capsys)
    run("learn", str(tmp_path / "fading"), str(path), "--half-life", "500", *SMALL, capsys=capsys)
    assert OnlineClassifier.load(tmp_path / "fading").half_life == 500


def test_stopped_in_the_middle_the_same_command_goes_on(tmp_path, capsys, monkeypatch):
    path, model = tmp_path / "rows.ndjson", tmp_path / "model"
    path.write_text(lines(350))
    seen, send = [], Feeder._send

    def interrupted(self):
        send(self)
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Feeder, "_send", interrupted)
    monkeypatch.setattr(learning.Learning, "_save", lambda self: None)  # nor is there a snapshot
    run("learn", str(model), str(path), *SMALL, code=130, capsys=capsys)
    monkeypatch.undo()
    out, _ = run("learn", str(model), str(path), capsys=capsys)
    assert "read 150 samples" in out
    assert OnlineClassifier.load(model).n_seen_ == 350


@pytest.mark.parametrize("skip", [(), ("--skip-bad",)], ids=["strict", "skip bad"])
def test_a_disk_that_is_full_for_a_moment_loses_no_row(tmp_path, capsys, monkeypatch, skip):
    """The requests behind the one that was rolled back are not taken either: their count would pass over its rows."""
    path, model = tmp_path / "rows.ndjson", tmp_path / "model"
    path.write_text(lines(1000))
    write, transactions = Transaction.write, itertools.count()

    def full(self, db):
        if any(event.kind == SAMPLES for event in self.events) and next(transactions) == 2:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        write(self, db)

    monkeypatch.setattr(Transaction, "write", full)
    monkeypatch.setattr(journals, "GROUP_REQUESTS", 1)
    _, err = run("learn", str(model), str(path), *SMALL, *skip, code=2, capsys=capsys)
    assert "no space left" in err
    assert "skipped" not in err
    monkeypatch.undo()
    run("learn", str(model), str(path), "--device", "cpu", capsys=capsys)
    assert OnlineClassifier.load(model).n_seen_ == 1000


def test_bad_rows_stop_it_or_are_named_and_left_out(tmp_path, capsys):
    path, model = tmp_path / "rows.csv", tmp_path / "model"
    path.write_text("a,label\n1,u\n2,v\nthree,u\n4,v\n5," + "x" * 300 + "\n6,u\n")
    _, err = run("learn", str(model), str(path), *SMALL, code=2, capsys=capsys)
    assert "line 4: the feature 'a' is 'three'" in err
    out, err = run("learn", str(model), str(path), "--skip-bad", capsys=capsys)
    assert "2 could not be used" in out
    assert "200 characters" in err
    assert OnlineClassifier.load(model).n_seen_ == 4


def test_images_of_a_folder_and_rows_of_stdin(tmp_path, capsys, monkeypatch):
    for label in ("red", "blue"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (20, 10 + i), label).save(tmp_path / "images" / label / f"{i}.png")
    model = tmp_path / "model"
    for expected in (6, 0):
        out, _ = run("learn", str(model), str(tmp_path / "images"), "--size", "8", *SMALL[:4], capsys=capsys)
        assert f"read {expected} samples" in out
    assert OnlineClassifier.load(model)._model.inputs.shape == (3, 8, 8)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(20).encode())))
    out, _ = run("learn", str(tmp_path / "rows"), "-", *SMALL, capsys=capsys)
    assert "20 of 20 samples learned" in out


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def fed(monkeypatch):
    """How many samples were sent so far."""
    sent, accepted = [], Feeder._accepted
    monkeypatch.setattr(Feeder, "_accepted", lambda self, rows: (accepted(self, rows), sent.extend(rows))[0])
    return lambda: len(sent)


@pytest.mark.parametrize("error", [None, OSError(5, "Input/output error"), RuntimeError("a mistake")])
def test_the_first_source_that_fails_ends_all_with_a_sentence(tmp_path, capsys, monkeypatch, fed, error):
    path, folder = tmp_path / "rows.ndjson", tmp_path / "images"
    path.write_text(lines(20))
    folder.mkdir()
    files = Pictures._files

    def failing(self):
        if error is not None and fed() == 20:
            raise error
        return files(self)

    monkeypatch.setattr(Pictures, "_files", failing)
    if error is None:
        gone = threading.Thread(target=lambda: (until(lambda: fed() == 20), folder.rmdir()))
        gone.start()
    words = ("learn", str(tmp_path / "model"), str(path), str(folder), "--follow", *SMALL)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError):
            run(*words, capsys=capsys)
        assert "one failed: a mistake" in capsys.readouterr().err
    else:
        _, err = run(*words, code=2, capsys=capsys)
        assert "cannot be read" in err or f"there is no folder {folder}" in err  # by when it was removed
        assert "Traceback" not in err
    assert OnlineClassifier.load(tmp_path / "model").n_seen_ == 20  # the other one ended in order


def test_a_slow_pipe_is_learned_at_once_and_a_signal_is_heard(tmp_path, capsys, monkeypatch, fed):
    reading, writing = os.pipe()
    os.write(writing, lines(3).encode() + b'{"a": 1')
    stop = threading.Thread(target=lambda: (until(lambda: fed() == 3), os.kill(os.getpid(), signal.SIGTERM)))
    stop.start()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        out, _ = run("learn", str(tmp_path / "model"), "-", *SMALL, code=143, capsys=capsys)
    os.close(writing)
    assert "read 3 samples" in out


def test_a_log_is_followed_through_a_rotation(tmp_path, capsys, fed):
    path, model = tmp_path / "log.ndjson", tmp_path / "model"
    path.write_text(lines(5))

    def rotate():
        until(lambda: fed() == 5)
        path.rename(tmp_path / "log.ndjson.1")
        path.write_text(lines(7, 1))
        until(lambda: fed() == 12)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=rotate)
    other.start()
    run("learn", str(model), str(path), "--follow", *SMALL, code=143, capsys=capsys)
    out, _ = run("learn", str(model), str(path), capsys=capsys)
    assert "12 of 12 samples learned" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "at least one source"),
        (("nothing.csv",), "no file or folder"),
        (("README",), "--format"),
        (("rows.csv", "--format", "xml"), "unknown format"),
        (("rows.csv", "--method", "err"), "unknown method"),
        (("rows.csv", "--size", "0"), "size must be"),
    ],
)
def test_mistakes_are_one_sentence_and_make_no_model(tmp_path, capsys, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README").write_text("x")
    (tmp_path / "rows.csv").write_text("a,label\n1,u\n")
    _, err = run("learn", "model", *words, code=2, capsys=capsys)
    assert sentence in err
    assert not (tmp_path / "model").exists()


def numbered(path, *labels):
    path.write_text("a,b,label\n" + "".join(f"{i % 7},{i % 3},{label}\n" for i, label in enumerate(labels * 10)))
    return str(path)


def test_labels_of_csv_are_those_that_fit_made(tmp_path, capsys):
    model = tmp_path / "model"
    slda = ("--method", "slda", "--device", "cpu")
    run("fit", numbered(tmp_path / "1.csv", 1, 2), "--label", "label", "--out", str(model), *slda, capsys=capsys)
    run("learn", str(model), numbered(tmp_path / "2.csv", 1, 2, 3, "07"), "--label", "label", capsys=capsys)
    assert OnlineClassifier.load(model).classes_.tolist() == [1, 2, 3, "07"]


@pytest.mark.parametrize("label", ["1", "None"])
def test_labels_that_are_known_as_texts_stay_texts(tmp_path, capsys, label):
    """0.2.0 took all labels of CSV for texts."""
    old, model = tmp_path / "old.ndjson", tmp_path / "model"
    old.write_text("".join(json.dumps({"a": i, "b": i, "y": label}) + "\n" for i in range(5)))
    run("learn", str(model), str(old), *SMALL, capsys=capsys)
    run("learn", str(model), numbered(tmp_path / "new.csv", label, "x"), capsys=capsys)
    loaded = OnlineClassifier.load(model)
    assert loaded.classes_.tolist() == [label, "x"]
    assert loaded.n_seen_ == 25


def test_a_table_that_fit_began_goes_on_with_its_gaps_and_categories(tmp_path, capsys):
    model, first, second = tmp_path / "model", tmp_path / "first.csv", tmp_path / "second.csv"
    rows = [f"{i},{'red' if i % 2 else 'blue'},{i % 5 or ''},{i % 2}\n" for i in range(40)]
    first.write_text("id,colour,size,kind\n" + "".join(rows))
    second.write_text("id,colour,size,kind\n" + "".join(rows).replace("blue", "green"))
    words = ("--label", "kind", "--id", "id", "--method", "slda", "--device", "cpu")
    run("fit", str(first), "--out", str(model), *words, capsys=capsys)
    out, _ = run("learn", str(model), str(second), capsys=capsys)  # the model knows which column is what
    assert "read 40 samples" in out
    loaded = OnlineClassifier.load(model)
    assert loaded.n_seen_ == 80
    assert loaded.classes_.tolist() == [0, 1]
    assert loaded._model.table.names == ["colour", "size"]
    assert {category for _, category in loaded._model.table.features[0].categories} == {"red", "blue", "green"}


def test_tables_with_tabs_and_other_separators_and_texts_for_gaps(tmp_path, capsys):
    tabs, bars, model = tmp_path / "rows.tsv", tmp_path / "rows.csv", str(tmp_path / "model")
    tabs.write_text("a\tlabel\n1\tu\n2\tNone\n")
    bars.write_text("a|label\n1|u\n2|v\n")
    out, _ = run("learn", model, str(tabs), "--missing", "?", *SMALL, capsys=capsys)
    assert "read 2 samples" in out
    out, _ = run("learn", model, str(bars), "--separator", "|", capsys=capsys)
    assert "read 2 samples" in out
    assert OnlineClassifier.load(model).classes_.tolist() == ["u", "None", "v"]
    _, err = run("learn", model, str(bars), "--separator", "||", code=2, capsys=capsys)
    assert "one character" in err


def test_a_model_whose_names_have_blanks_goes_on_with_them(tmp_path, capsys):
    """0.2.0 left the blanks of a header in the names."""
    old, new, model = tmp_path / "old.ndjson", tmp_path / "new.csv", str(tmp_path / "model")
    old.write_text("".join(json.dumps({"a": i, " b": i, " label": "u"}) + "\n" for i in range(5)))
    new.write_text("a, b, label\n1,2,v\n")
    run("learn", model, str(old), "--label", " label", *SMALL, capsys=capsys)
    out, _ = run("learn", model, str(new), "--label", " label", capsys=capsys)
    assert "6 of 6 samples learned" in out
