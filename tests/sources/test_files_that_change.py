"""Files that grow, are rotated, cut off or replaced, and pipes: each row once, whatever happens to its file meanwhile."""

import os
import threading

import pytest

from mnemon.errors import MnemonError
from mnemon.sources.lines import Lines
from mnemon.sources.row import BadRow, Row


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr("mnemon.sources.line_reader.LOOK", 0)


class Reader:
    """Reads as `mnemon learn` does: what was taken is known to a reader that comes after it."""

    def __init__(self, path, *, format="ndjson", follow=True):
        self.path, self.format, self.follow = path, format, follow
        self.counts, self.learned = {}, []
        self.rows = None

    def start(self, **more):
        source = Lines(self.path, format=self.format, follow=self.follow, count=self.counts.get, **more)
        self.rows = source.rows(self.counts.get(source.name, 0))
        return self

    def read(self, looks=10):
        """What comes until nothing has come for so many looks: labels, and BadRow's sentences."""
        if self.rows is None:
            self.start()
        found = []
        for row in self.rows:
            looks = looks - 1 if row is None else looks
            if looks == 0:
                break
            if isinstance(row, Row):
                assert row.number > self.counts.get(row.producer, 0)
                self.counts[row.producer] = row.number
                found.append(row.y)
            elif row is not None:
                found.append(row.why)
        else:
            self.rows = None
        self.learned += [each for each in found if isinstance(each, int)]
        return found

    def restart(self):
        self.rows = None
        return self.read()


def json_lines(*labels):
    return "".join(f'{{"x": [{label}.5], "y": {label}}}\n' for label in labels)


def csv_lines(*labels):
    return "".join(f"{label}.5,{label}\n" for label in labels)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.ndjson"
    path.write_text(json_lines(1, 2))
    return path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one_from_its_start(log, restarts):
    reader = Reader(log)
    reader.read()
    for first in (3, 6):
        with log.open("a") as old:
            log.rename(log.with_name("log.ndjson.1"))  # what .1 was before is gone
            old.write(json_lines(first))  # the program writes on for a moment
        log.write_text(json_lines(first + 1, first + 2))  # as long as the old one had been, or longer
        reader.restart() if restarts else reader.read(30)
    append(log, json_lines(9))
    assert reader.restart() == [9]
    assert reader.learned == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_logs_that_were_rotated_unseen_are_named(log, caplog):
    reader = Reader(log)
    reader.read()
    for number, name in enumerate(("log.ndjson.1", "log.ndjson.2")):
        os.utime(log, (number, number))
        log.rename(log.with_name(name))
        log.write_text(json_lines(3 + number))
    assert reader.restart() == [4]
    assert "not read: log.ndjson.2, written after log.ndjson.1" in caplog.text


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("longer", [False, True])
def test_a_log_that_is_copied_and_emptied_is_read_from_its_start(log, restarts, longer, caplog):
    reader = Reader(log)
    reader.read()
    with log.open("r+") as file:  # the same file
        file.truncate(0)
        file.write(json_lines(3, 4, 5) if longer else json_lines(3))
    reader.restart() if restarts else reader.read(30)
    append(log, json_lines(6))
    reader.restart()
    assert reader.learned == ([1, 2, 3, 4, 5, 6] if longer else [1, 2, 3, 6])
    assert ("another file" in caplog.text) == restarts  # what was written before and not read is not there any more


def test_csv_that_is_rotated_has_its_header_again(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + csv_lines(1, 2))
    reader = Reader(path, format="csv")
    assert reader.read() == [1, 2]
    path.rename(tmp_path / "log.csv.1")
    assert reader.read() == []  # the new file is yet to be made
    path.write_text("y,a\n3,1\n")
    assert reader.read(30) == [3]
    assert reader.restart() == []


def test_half_a_line_of_a_file_that_is_gone_is_told(log, caplog):
    reader = Reader(log)
    append(log, '{"x": [')
    reader.read()
    log.rename(log.with_name("old"))
    log.write_text(json_lines(3))
    reader.read(30)
    assert "no whole row" in caplog.text
    append(log, '{"x": [')
    reader.read()
    with log.open("r+") as file:
        file.truncate(0)
    reader.read()
    assert "half written" in caplog.text
    append(log, json_lines(4))
    reader.read()
    assert reader.learned == [1, 2, 3, 4]


@pytest.mark.parametrize("text", [json_lines(7), json_lines(7, 8, 9)], ids=["shorter", "longer"])
def test_without_follow_a_replaced_file_is_refused(log, text):
    reader = Reader(log, follow=False)
    reader.read()
    log.write_text(text)
    with pytest.raises(MnemonError, match="was replaced"):
        reader.restart()


def test_a_file_read_by_an_older_version_goes_on_behind_its_byte(log):
    reader = Reader(log, follow=False)
    reader.counts[f"lines:{log.resolve()}"] = len(json_lines(1))
    assert reader.read() == [2]
    append(log, json_lines(3))
    assert reader.read() == [3]
    reader.counts = {f"lines:{log.resolve()}": 10**6}
    with pytest.raises(MnemonError, match="was replaced"):
        reader.restart()


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_a_last_line_without_an_end_is_learned_if_it_is_a_whole_row(tmp_path, format, caplog):
    path = tmp_path / "file"
    head, row, half, rest = (
        ("a,y\n", "1.5,1", "2.5", ",2\n") if format == "csv" else ("", json_lines(1)[:-1], '{"x": [2]', ', "y": 2}\n')
    )
    path.write_text(head + row)
    reader = Reader(path, format=format, follow=False)
    assert reader.read() == [1]
    append(path, "\n" + half)  # it had no end, which is common; now it has one, and a line behind it is half written
    assert reader.read() == []
    assert "left for the next time" in caplog.text
    append(path, rest)
    assert reader.read() == [2]
    assert reader.read() == []


@pytest.mark.parametrize("follow", [False, True])
def test_a_line_that_was_learned_half_written_is_told(tmp_path, follow):
    path = tmp_path / "file.csv"
    path.write_text("a,y\n1,wren\n2,ja")
    reader = Reader(path, format="csv", follow=False)
    assert reader.read() == ["wren", "ja"]
    reader.follow = follow
    assert reader.read() == []
    append(path, "y\n3,jay\n")
    sentence, label = reader.read()
    assert "learned when it had no end yet" in sentence
    assert label == "jay"
    assert reader.restart() == []


def test_an_open_quote_holds_back_no_row_before_it_and_few_behind_it(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('a,y\n1,u\n2,"two\n')
    reader = Reader(path, format="csv")
    assert reader.read() == ["u"]
    append(path, 'lines"\n3,"v\n')
    assert reader.read() == ["two\nlines"]
    append(path, "".join(f"{i},w\n" for i in range(200)))
    found = reader.read()
    assert "not closed" in found[0]
    assert found[1:] == ["w"] * 200
    once = Reader(path, format="csv", follow=False)
    assert once.read() == ["u", "two\nlines", *found]
    path = tmp_path / "other.csv"
    path.write_text('a,y\n1,5" disk\n2,"v ""x"", w"\n3,"z\n4,u\n')
    labels = Reader(path, format="csv", follow=False).read()
    assert labels[:2] == ['5" disk', 'v "x", w']
    assert "not closed" in labels[2]
    assert labels[3:] == ["u"]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "excel.csv"
    for text in ("\ufefflabel,a\r\nu,1\r\n", '\ufeff"label","a"\r\nu,1\r\n'):
        path.write_text(text, encoding="utf-8", newline="")
        (row,) = Lines(path, format="csv").rows(0)
        assert (row.x, row.y) == ({"a": 1}, "u")
        assert list(Lines(path, format="csv").rows(row.number)) == []
    path.write_text("\ufeff" + json_lines(1), encoding="utf-8")
    assert [row.y for row in Lines(path, format="ndjson").rows(0)] == [1]


def test_a_slow_pipe_hands_on_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr("mnemon.sources.line_reader.LOOK", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        rows = Lines(tmp_path, format="ndjson", stream=stream).rows(0)
        assert next(rows) is None  # it does not wait for the first line
        os.write(writing, json_lines(1, 2).encode() + b'{"x": [3')
        assert [row.y for row in (next(r for r in rows if r), next(r for r in rows if r))] == [1, 2]
        assert next(rows) is None  # nor for the next
        end = threading.Timer(0.05, lambda: (os.write(writing, b'], "y": 3}'), os.close(writing)))
        end.start()
        assert [row.y for row in rows if row] == [3]
        end.join()


def test_a_line_that_never_ends_is_refused(log, monkeypatch):
    monkeypatch.setattr("mnemon.sources.line_reader.LONGEST", 1000)
    append(log, "x" * 2000)
    with pytest.raises(MnemonError, match="more than 1,000 bytes"):
        Reader(log).read()


def test_bad_rows_are_told_once_each(log):
    append(log, "[]\n" + json_lines(3))
    rows = list(Lines(log, format="ndjson").rows(0))
    assert [type(row) for row in rows] == [Row, Row, BadRow, Row]
