"""Readers: every format has the same rows, any position can be gone on from, and what is no row is named."""

import json
import zipfile
from decimal import Decimal
from io import BytesIO

import numpy as np
import pytest

import tables
from mnemon import MnemonError
from mnemon.own_data.readers import open_reader
from mnemon.own_data.readers.reader import START, Changed, holds
from mnemon.readers.columns import NONE, Columns

BIRDS = Columns("bird")
SUFFIXES = [".csv", ".tsv", ".ndjson", ".jsonl", ".parquet", ".npz"]


def opened(path):
    return open_reader(path, NONE if path.suffix == ".npz" else BIRDS)


def read(path, start=START, length=7, reader=None):
    """All chunks, and (number, sentence) of each row that was refused."""
    refused = []
    chunks = (reader or opened(path)).chunks(start, lambda: length, lambda *why: refused.append(why), labelled=True)
    return list(chunks), refused


def values(chunks):
    return [
        ([float(v) for v in (x.values() if isinstance(x, dict) else x)], str(y))
        for chunk in chunks
        for x, y in zip(chunk.x, chunk.y, strict=True)
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_format_has_the_rows_that_were_written(suffix, tmp_path):
    found = tables.rows(20)
    chunks, refused = read(tables.write(tmp_path / f"t{suffix}", found))
    assert values(chunks) == [([row[name] for name in tables.FEATURES], row["bird"]) for row in found]
    assert [len(chunk) for chunk in chunks] == [7, 7, 6]
    first = 1 if suffix in (".parquet", ".npz", ".ndjson", ".jsonl") else 2  # the header is a line
    assert [n for chunk in chunks for n in chunk.numbers] == list(range(first, first + 20))
    assert refused == []
    assert chunks[-1].done == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reading_goes_on_from_any_position_even_in_a_file_that_grew(suffix, tmp_path):
    path = tables.write(tmp_path / f"t{suffix}", tables.rows(20))
    chunks, _ = read(path)
    for k, chunk in enumerate(chunks):
        rest, _ = read(path, chunk.position)
        assert values(rest) == values(chunks[k + 1 :])
        assert [each.position for each in rest] == [each.position for each in chunks[k + 1 :]]
    assert {c.position for c in read(path, length=1)[0]} >= {c.position for c in chunks}  # however it is cut
    tables.write(path, tables.rows(25))
    grown, _ = read(path, chunks[-1].position)
    assert values(grown) == values(read(path)[0])[20:]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_changed_before_the_position_is_refused(suffix, tmp_path):
    found = tables.rows(20)
    path = tables.write(tmp_path / f"t{suffix}", found)
    position = read(path)[0][1].position
    for changed in (
        [found[0] | {"a": 9.0}, *found[1:]],
        found[:10],
        [*found[:13], found[0] | {"bird": "owl"}, *found[14:]],
    ):
        tables.write(path, changed)
        assert not holds(opened(path), position)
        with pytest.raises(Changed, match="no longer begins with the 14 rows"):
            read(path, position)
    tables.write(path, [*found[:14], found[0]])  # what comes behind may be anything
    assert holds(opened(path), position)


def test_a_row_that_was_read_before_its_end_was_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,bird\n1,wren\n2,tit")
    chunks, _ = read(path)
    assert values(chunks) == [([1.0], "wren"), ([2.0], "tit")]
    path.write_text("a,bird\n1,wren\n2,tit\n3,owl\n")
    assert values(read(path, chunks[-1].position)[0]) == [([3.0], "owl")]
    path.write_text("a,bird\n1,wren\n2,titmouse\n")
    with pytest.raises(Changed, match=r"row 2 of .* was read before it was written to its end"):
        read(path, chunks[-1].position)


def test_cells_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffa,"b ""x""",bird\r\n1e3,,007\r\n\r\n-2,"two\nlines",1\r\n1_000,nan,x\r\n'.encode())
    (chunk,), refused = read(path)
    assert refused == []
    assert chunk.y == ["007", "1", "x"]
    assert chunk.x == [{"a": "1e3", 'b "x"': ""}, {"a": "-2", 'b "x"': "two\nlines"}, {"a": "1_000", 'b "x"': "nan"}]
    assert chunk.numbers == [2, 4, 6]


@pytest.mark.parametrize(
    ("suffix", "content", "number", "sentence"),
    [
        (".csv", "a,bird\n1,x\n1,2,3\n2,y\n", 3, "there are 3 cells, and the header has 2"),
        (".csv", "a,bird\n1,x\n1,\n2,y\n", 3, "there is no label in 'bird'"),
        (".csv", 'a,bird\n1,x\n"1"2,z\n2,y\n', 3, "',' expected after '\"'"),
        (".csv", b"a,bird\n1,x\n\xff,z\n2,y\n", 3, "the line is not text in UTF-8"),
        (".ndjson", '{"a":1,"bird":"x"}\n{"a":\n{"a":2,"bird":"y"}\n', 2, "the line is not JSON"),
        (
            ".ndjson",
            '{"a":1,"bird":"x"}\n[1]\n{"a":2,"bird":"y"}\n',
            2,
            "the line is a JSON list, and a row is an object",
        ),
        (".ndjson", '{"a":1,"bird":"x"}\n{"a":[1],"bird":"x"}\n{"a":2,"bird":"y"}\n', 2, "'a' is nested"),
        (".ndjson", '{"a":1,"bird":"x"}\n{"a":1}\n{"a":2,"bird":"y"}\n', 2, "there is no label in 'bird'"),
        (".ndjson", '{"a":1,"bird":"x"}\n' + "[" * 99999 + '\n{"a":2,"bird":"y"}\n', 2, "nested too deep"),
        (
            ".ndjson",
            f'{{"a":1,"bird":"x"}}\n{{"a":{9**999},"bird":"x"}}\n{{"a":2,"bird":"y"}}\n',
            2,
            "a feature is a number",
        ),
    ],
)
def test_a_row_that_is_none_is_named_and_passed_over(suffix, content, number, sentence, tmp_path):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (chunk,), ((at, why),) = read(path)
    assert chunk.y == ["x", "y"]
    assert at == number
    assert sentence in why
    assert chunk.position.rows == 3


def test_columns_that_are_no_features(tmp_path):
    path = tables.write(tmp_path / "t.csv", [{"n": 7, "when": "may", **row} for row in tables.rows(3)])
    reader = open_reader(path, Columns("bird", "n", ("when", "a")))
    (chunk,), _ = read(path, reader=reader)
    assert list(chunk.x[0]) == ["b", "c", "d"]
    assert chunk.ids == ["7", "7", "7"]
    (unlabelled,) = reader.chunks(START, lambda: 9, lambda *why: None, labelled=False)
    assert (unlabelled.y, unlabelled.x) == (None, chunk.x)


def test_types_of_json_and_parquet_are_kept(tmp_path):
    found = [{"a": 1, "b": None, "c": "x", "d": True, "bird": 3}, {"a": 2, "b": 0.5, "c": "y", "d": False, "bird": 4}]
    for suffix in (".ndjson", ".parquet"):
        (chunk,), _ = read(tables.write(tmp_path / f"t{suffix}", found))
        assert chunk.y == [3, 4]
        assert [json.dumps(x) for x in chunk.x] == [
            json.dumps({k: v for k, v in r.items() if k != "bird"}) for r in found
        ]


def test_decimals_of_a_database_are_numbers(tmp_path):
    rows = [{"price": Decimal("1.25"), "bird": Decimal(3)}, {"price": None, "bird": Decimal(4)}]
    (chunk,), _ = read(tables.write(tmp_path / "t.parquet", rows))
    assert ([x["price"] for x in chunk.x], chunk.y) == ([1.25, None], [3, 4])


def test_labels_of_an_array_in_a_file_of_their_own(tmp_path):
    x = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", [1, 2] * 3)
    reader = open_reader(tmp_path / "x.npy", NONE, tmp_path / "y.npy")
    chunks, _ = read(None, length=4, reader=reader)
    assert np.array_equal(np.concatenate([chunk.x for chunk in chunks]), x)
    assert [y for chunk in chunks for y in chunk.y] == [1, 2] * 3


def claiming(path):
    """An array that says it has 80 TB, and has none."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**10, 1000)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    return path


def forged(path):
    np.save(path, np.array([print], object), allow_pickle=True)


@pytest.mark.parametrize(
    ("make", "columns", "sentence"),
    [
        (lambda p: p / "gone.csv", BIRDS, "there is no file"),
        (
            lambda p: write(p / "t.txt", b"a"),
            BIRDS,
            "neither a folder of class folders nor a file of a known kind (.csv",
        ),
        (lambda p: write(p / "t.csv", b""), BIRDS, "is empty; it needs a header"),
        (lambda p: write(p / "t.csv", b"\na,bird\n"), BIRDS, "begins with an empty line; it needs a header"),
        (lambda p: write(p / "t.csv", b"a,a,bird\n"), BIRDS, "two columns of .* are called 'a'"),
        (lambda p: write(p / "t.csv", b",a,bird\n0,1,x\n"), BIRDS, "column 1 of .* has no name"),
        (lambda p: write(p / "t.csv", b"a,brid\n1,x\n"), BIRDS, "'bird'; did you mean 'brid'?"),
        (lambda p: write(p / "t.csv", b"a,b\n1,x\n"), NONE, "which column of .* has the labels.*there are: a, b"),
        (lambda p: write(p / "t.csv", b"a,bird\n1,x\n"), Columns("bird", "key"), "unknown column of .*'key'"),
        (lambda p: write(p / "t.parquet", b"PAR1"), BIRDS, "is not a readable Parquet file"),
        (lambda p: write(p / "t.npz", b"PK"), NONE, "is not a readable .npz file of plain arrays"),
        (lambda p: claiming(p / "t.npz"), NONE, "t.npz is not a readable .npz file of plain arrays"),
        (lambda p: write(p / "t.npy", b"\x93NUMPY"), NONE, "is not a readable .npy file of plain numbers"),
        (lambda p: forged(p / "t.npy") or p / "t.npy", NONE, "is not a readable .npy file of plain numbers"),
        (
            lambda p: np.save(p / "t.npy", np.eye(3)) or p / "t.npy",
            NONE,
            "has no labels: give an .npz file with x and y",
        ),
        (lambda p: np.savez(p / "t.npz", a=np.eye(3)) or p / "t.npz", NONE, "holds no array x"),
        (
            lambda p: np.savez(p / "t.npz", x=np.eye(2), y=np.array(["a", "b"], object)) or p / "t.npz",
            NONE,
            "y.astype(str) makes texts of labels",
        ),
        (lambda p: np.savez(p / "t.npz", x=np.eye(3), y=[1]) or p / "t.npz", NONE, "3 samples and labels of shape"),
        (lambda p: np.savez(p / "t.npz", x=np.eye(3), y=[1] * 3) or p / "t.npz", BIRDS, "columns have no names"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(make, columns, sentence, tmp_path):
    path = make(tmp_path)
    pattern = sentence if ".*" in sentence else "".join(f"\\{c}" if c in "().?+" else c for c in sentence)
    with pytest.raises(MnemonError, match=pattern) as error:
        read(path, reader=open_reader(path, columns))
    assert "\n" not in str(error.value)


def write(path, content):
    path.write_bytes(content)
    return path


def test_without_the_extra_parquet_has_a_sentence(tmp_path, monkeypatch):
    path = tables.write(tmp_path / "t.parquet", tables.rows(2))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MnemonError, match=r"reading Parquet needs the extra: pip install 'mnemon\[parquet\]'"):
        opened(path)
