"""Where `mnemon learn` reads from: each source goes on behind its own count."""

import io
import itertools
import json
import os
import tarfile
import time

import numpy as np
import pytest
from PIL import Image

from mnemon.errors import MnemonError
from mnemon.estimator.cells import CATEGORY, NUMBER
from mnemon.estimator.table import Feature
from mnemon.readers.columns import Columns
from mnemon.sources.lines import Lines
from mnemon.sources.parquet import Parquet
from mnemon.sources.pictures import Pictures, Tar
from mnemon.sources.prefix import byte
from mnemon.sources.row import BadRow, Row
from mnemon.sources.table import Rules


def png(colour):
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(stream, "PNG")
    return stream.getvalue()


def pixels(stream, name):
    return np.asarray(Image.open(stream))


def written(path, text):
    path.write_text(text)
    return path


CSV = 'a,label,b\n1,x,2\n"3",y,4e1\n5,"two\nlines",6\n7,z,8'
NDJSON = '{"x": [1, 2], "y": "x"}\n\n{"a": 1, "label": 7}\n{"y": true, "b": "2.5"}\n'


@pytest.mark.parametrize(
    ("text", "format", "samples"),
    [
        (CSV, "csv", [({"a": a, "b": b}, y) for a, b, y in ((1, 2, "x"), (3, 40, "y"), (5, 6, "two\nlines"), (7, 8, "z"))]),
        (NDJSON, "ndjson", [([1, 2], "x"), ({"a": 1}, 7), ({"b": 2.5}, True)]),
    ],
    ids=["csv", "ndjson"],
)  # fmt: skip
def test_lines_go_on_behind_any_row(tmp_path, text, format, samples):
    path = written(tmp_path / "file", text)
    rows = list(Lines(path, format=format).rows(0))
    assert [(row.x, row.y) for row in rows] == samples
    assert byte(rows[-1].number) == len(text)
    for i, row in enumerate(rows):
        later = Lines(path, format=format).rows(row.number)
        assert [(each.number, each.x, each.y) for each in later] == [
            (each.number, each.x, each.y) for each in rows[i + 1 :]
        ]
    from_stdin = Lines(path, format=format, stream=io.BytesIO(text.encode()))
    assert from_stdin.name is None
    assert [(row.x, row.y, row.number) for row in from_stdin.rows(0)] == [(row.x, row.y, row.number) for row in rows]


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_a_file_that_grows_is_followed_line_by_line(tmp_path, format, monkeypatch):
    monkeypatch.setattr("mnemon.sources.line_reader.LOOK", 0)
    path = written(tmp_path / "file", "a,y\n1,u\n2" if format == "csv" else '{"a": 1, "y": "u"}\n{"a": 2')
    rows = Lines(path, format=format, follow=True).rows(0)
    assert [row.x for row in itertools.islice(filter(None, rows), 1)] == [{"a": 1}]
    assert next(rows) is None  # half a line
    with path.open("a") as file:
        file.write(",v\n" if format == "csv" else ', "y": "v"}\n')
    found = next(filter(None, rows))
    assert (found.x, found.y, byte(found.number)) == ({"a": 2}, "v", path.stat().st_size)


def test_a_bad_row_says_where_it_is_and_those_behind_it_are_read(tmp_path):
    path = written(tmp_path / "file.csv", "a,y\n1,u\nx,u\n2\nnan,v\n3,w\n")
    rows = list(Lines(path, format="csv").rows(0))
    assert [type(row) for row in rows] == [Row, BadRow, BadRow, BadRow, Row]
    assert "line 3" in rows[1].where
    assert "'a' is 'x'" in rows[1].why
    path.write_bytes(b"a,y\n1,\xff\n2,v\n")
    assert [type(row) for row in Lines(path, format="csv").rows(0)] == [BadRow, Row]
    path = written(tmp_path / "file.ndjson", '[1]\n{"x": \n{"a": 1}\n{"x": [1], "y": 1}\n')
    assert [type(row) for row in Lines(path, format="ndjson").rows(0)] == [BadRow, BadRow, BadRow, Row]
    with pytest.raises(MnemonError, match="--label"):
        list(Lines(written(tmp_path / "no", "a,b\n1,2\n"), format="csv").rows(0))
    with pytest.raises(MnemonError, match="was replaced"):
        list(Lines(path, format="csv").rows(10**6))
    with pytest.raises(MnemonError, match="cannot be read"):
        list(Lines(tmp_path / "nothing", format="csv").rows(0))


def test_parquet_goes_on_behind_any_row(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": [1.0, 2.0, None, 4.0, 5.0], "kind": ["u", "v", "u", "v", "u"]})
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=2)
    source = Parquet(tmp_path / "file.parquet", rules=Rules(Columns(label="kind")))
    rows = list(source.rows(0))
    assert [row.number for row in rows] == [1, 2, 3, 4, 5]
    assert [type(row) for row in rows] == [Row, Row, BadRow, Row, Row]
    assert (rows[4].x, rows[4].y) == ({"a": 5.0}, "u")
    for after in range(6):
        assert list(source.rows(after)) == rows[after:]
    assert source.name == Parquet(tmp_path / "file.parquet").name
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    with pytest.raises(MnemonError, match="not a readable Parquet"):
        list(Parquet(tmp_path / "no.parquet").rows(0))


def test_a_folder_is_read_again_and_each_image_is_known_by_its_content(tmp_path, monkeypatch):
    for label, colour in (("red", "red"), ("blue", "blue")):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.png").write_bytes(png(colour))
    (tmp_path / "red" / "broken.png").write_bytes(b"x")
    known = set()
    rows = list(Pictures(tmp_path, pixels_or_error, known.__contains__).rows(0))
    assert [(type(row), row.where.rsplit("/", 2)[-2]) for row in rows] == [(Row, "blue"), (Row, "red"), (BadRow, "red")]
    known |= {row.key for row in rows if isinstance(row, Row)}
    monkeypatch.setattr("mnemon.sources.pictures.SETTLED", 0)
    watched = Pictures(tmp_path, pixels_or_error, known.__contains__, follow=True).rows(0)
    assert isinstance(next(watched), BadRow)
    assert next(watched) is None
    (tmp_path / "red" / "2.png").write_bytes(png("red"))
    assert next(watched).y == "red"
    assert next(watched) is None
    (tmp_path / "red" / "1.png").write_bytes(png("pink"))  # another image now
    assert next(watched).y == "red"


def test_a_watched_image_with_a_time_to_come_is_learned(tmp_path):
    (tmp_path / "red").mkdir()
    (tmp_path / "red" / "1.png").write_bytes(png("red"))
    tomorrow = time.time() + 86_400  # of a camera whose clock is wrong
    os.utime(tmp_path / "red" / "1.png", (tomorrow, tomorrow))
    assert next(Pictures(tmp_path, pixels_or_error, set().__contains__, follow=True).rows(0)).y == "red"


def pixels_or_error(stream, name):
    try:
        return pixels(stream, name)
    except OSError:
        raise MnemonError(f"{name} is no image.") from None


def test_a_tar_file_pairs_images_and_labels(tmp_path):
    path = tmp_path / "shard.tar"
    members = [("a/1.png", png("red")), ("a/1.cls", b"red\n"), ("readme.md", b"x"), ("2.json", b'{"label": 7}')]
    members += [("2.png", png("blue")), ("3.png", png("blue")), ("4.png", b"no"), ("4.cls", b"z")]
    members += [("5.cls", b"u"), ("5.png", png("red"))]
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    rows = list(Tar(path, pixels_or_error).rows(0))
    assert [type(row) for row in rows] == [Row, Row, BadRow, BadRow, Row]
    assert [row.y for row in rows if isinstance(row, Row)] == ["red", 7, "u"]
    for i, row in enumerate(rows):
        assert [each.number for each in Tar(path, pixels_or_error).rows(row.number)] == [
            e.number for e in rows[i + 1 :]
        ]
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(MnemonError, match="not a readable tar"):
        list(Tar(path, pixels_or_error).rows(0))


def tar_of(path, *labels):
    with tarfile.open(path, "w") as tar:
        for i, label in enumerate(labels):
            for name, content in ((f"{i}.png", png(label)), (f"{i}.cls", label.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def test_a_tar_file_is_known_by_its_members_whatever_it_is_called(tmp_path, caplog):
    counts = {}

    def read(path, most=100):
        source = Tar(path, pixels, counts.get)
        rows = list(itertools.islice(source.rows(counts.get(source.name, 0)), most))
        if rows:
            counts[source.name] = rows[-1].number
        return [row.y for row in rows]

    first = tar_of(tmp_path / "shard.tar", "red", "blue", "red")
    size = first.stat().st_size
    assert read(first, most=1) == ["red"]  # and then it is killed
    other = tar_of(tmp_path / "other.tar", "blue", "red")
    assert other.stat().st_size == size  # tar files are padded
    other = other.rename(tmp_path / "moved")
    first = first.rename(tmp_path / "renamed.tar")
    assert read(other.rename(tmp_path / "shard.tar")) == ["blue", "red"]
    assert read(first) == ["blue", "red"]
    assert read(tar_of(first, "red", "blue", "red", "pink")) == ["pink"]  # appended to
    assert read(first) == []
    assert not caplog.text

    counts = {f"tar:shard.tar:{size}": 2}  # of a version that knew a name and a size alone
    assert read(tar_of(tmp_path / "shard.tar", "red", "blue")) == ["blue"]
    assert "older version" in caplog.text
    assert read(tar_of(tmp_path / "shard.tar", "red", "blue")) == []


def test_stdin_reads_json(tmp_path):
    lines = b"".join(json.dumps({"x": [i], "y": i % 2}).encode() + b"\n" for i in range(5))
    source = Lines(tmp_path, format="ndjson", stream=io.BytesIO(lines))
    assert [row.y for row in source.rows(0)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("a,b,a,y\n1,2,3,u\n", "two columns of .* are called 'a'"), (",a,y\n0,1,u\n", "column 1 of .* has no name")],
)
def test_a_header_that_fit_refuses_is_refused(tmp_path, text, sentence):
    with pytest.raises(MnemonError, match=sentence):
        list(Lines(written(tmp_path / "file.csv", text), format="csv").rows(0))


def test_blanks_of_a_header_are_no_part_of_it_and_a_row_needs_a_label(tmp_path):
    path = written(tmp_path / "file.csv", "a , y\n1,u\n2,\n3,NA\n")
    row, empty, missing = Lines(path, format="csv").rows(0)
    assert (row.x, row.y) == ({"a": 1.0}, "u")
    assert empty.why == "there is no label in 'y'."
    assert "'NA' is a missing value" in missing.why
    row, *_ = Lines(path, format="csv", rules=Rules(Columns(strip=False, label=" y"))).rows(0)
    assert row.x == {"a ": 1.0}
    path = written(tmp_path / "file.ndjson", '{"a": 1, "label": null}\n')
    (row,) = Lines(path, format="ndjson").rows(0)
    assert row.why == "there is no label in 'label'."


def test_a_model_of_fixed_features_refuses_gaps_and_texts_and_names_fit(tmp_path):
    path = written(tmp_path / "file.csv", "a,b,y\n1,,u\nNA,1,u\nred,1,u\n1_0,1,u\n")
    rows = list(Lines(path, format="csv").rows(0))
    assert ["is missing" in row.why for row in rows] == [True, True, False, False]
    assert all("`mnemon fit` makes models of tables with gaps and categories" in row.why for row in rows)
    text = '{"a": null, "y": 1}\n{"a": "red", "y": 1}\n{"a": %s, "y": 1}\n' % ("9" * 400)
    path = written(tmp_path / "file.ndjson", text)
    assert all("`mnemon fit`" in row.why for row in Lines(path, format="ndjson").rows(0))


def test_an_open_model_says_what_the_cells_are(tmp_path):
    known = {"size": Feature("size", NUMBER), "code": Feature("code", CATEGORY, categories={(int, 7): 0})}
    rules = Rules(Columns(ignore=("day",), missing=("-",)), features=lambda: known)
    text = "size,code,new,day,y\n1,7,3,mon,u\n-,x,,tue,v\nbig,7,4,wed,u\n2,7,red,wed,u\n"
    rows = list(Lines(written(tmp_path / "file.csv", text), format="csv", rules=rules).rows(0))
    assert rows[0].x == {"size": 1.0, "code": 7, "new": 3.0}
    assert rows[1].x == {"size": None, "code": "x", "new": None}
    assert "'size' holds numbers, and this is the text 'big'" in rows[2].why
    assert "'new' holds numbers, and this is the text 'red'" in rows[3].why  # as the source itself began it
    text = '{"size": null, "code": "7", "y": "u"}\n{"size": [1], "y": "u"}\n{"x": {"code": "7"}, "y": "v"}\n'
    rows = list(Lines(written(tmp_path / "file.ndjson", text), format="ndjson", rules=rules).rows(0))
    assert rows[0].x == {"size": None, "code": 7}
    assert "'size' is nested" in rows[1].why
    assert (rows[2].x, rows[2].y) == ({"code": 7}, "v")


@pytest.mark.parametrize(
    ("name", "between", "given", "told"),
    [("rows.tsv", "\t", None, ""), ("rows.csv", ";", None, "separated by ';'"), ("rows.csv", "\t", None, "separated by a tab"),
     ("rows.csv", "|", "|", "")],
)  # fmt: skip
def test_the_separator_is_found_as_fit_finds_it(tmp_path, caplog, name, between, given, told):
    text = '"a",b,y\n1,2,"one\nbird, say"\n3,4,v\n'.replace(",", between)
    rules = Rules(Columns(separator=given))
    rows = list(Lines(written(tmp_path / name, text), format="csv", rules=rules).rows(0))
    assert [(row.x, row.y) for row in rows] == [
        ({"a": 1.0, "b": 2.0}, f"one\nbird{between} say"),
        ({"a": 3.0, "b": 4.0}, "v"),
    ]
    assert told in caplog.text
    assert bool(caplog.text) == bool(told)
    (last,) = Lines(tmp_path / name, format="csv", rules=rules).rows(rows[0].number)
    assert (last.number, last.x, last.y) == (rows[1].number, rows[1].x, rows[1].y)


def test_parquet_of_an_open_model_may_have_gaps_and_texts(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [1.0, None], "c": ["x", "z"], "y": ["1", None]}), tmp_path / "file.parquet")
    row, bad = Parquet(tmp_path / "file.parquet", rules=Rules(features=dict)).rows(0)
    assert (row.x, row.y) == ({"a": 1.0, "c": "x"}, "1")  # a type is a type
    assert bad.why == "there is no label in 'y'."
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["y", "y"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(MnemonError, match="same name"):
        list(Parquet(tmp_path / "twice.parquet").rows(0))
