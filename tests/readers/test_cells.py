"""The rules for cells and labels of a table, as `fit` and `learn` share them."""

import pytest

from mnemon import OnlineClassifier
from mnemon.readers.cells import features, texts, typed
from mnemon.readers.columns import NONE, Columns, separator
from mnemon.readers.labels import labels


def column(cells, columns=NONE, known=(), learning=True):
    """The values of one column, which rows are refused, and what is said."""
    found = texts([{"a": cell} for cell in cells], columns, dict(known), learning=learning)
    return [row["a"] for row in found.rows], found.refused, found.said


def learned(values):
    """What a model knows that learned these values of `a`."""
    model = OnlineClassifier("slda", features="open")
    return features(model.partial_fit([{"a": value} for value in values], [i % 2 for i in range(len(values))]))


def test_texts_that_are_missing_values_and_how_to_change_them():
    cells = ["", "NA", "N/A", "nan", "NaN", "null", "NULL", "None", "1.5"]
    assert column(cells) == ([None] * 8 + [1.5], {}, [])
    assert column(["?", "1", "-9", ""], Columns(missing=("?", "-9")))[0] == [None, 1.0, None, None]
    assert column(["NA", "x"], Columns(missing=("?",)))[0] == ["NA", "x"]


def test_all_cells_of_a_chunk_decide_what_a_column_is():
    values, refused, _ = column(["?", "1.5", "2"])
    assert values[1:] == [1.5, 2.0]
    assert list(refused) == [0]
    assert "holds numbers, and this is the text '?'; if it stands for a missing value: --missing '?'" in refused[0]
    assert column(["x", "7001", "y"]) == (["x", "7001", "y"], {}, [])
    assert column(["7001", "x", "7002"])[1].keys() == {1}
    assert column(["1_000", "2", "3"])[1].keys() == {0}


def test_a_decimal_among_categories_is_refused_with_the_value_that_made_them_categories():
    values, refused, _ = column(["y", "1.5"], known=learned(["none yet", "y"]))
    assert values[0] == "y"
    assert (
        "'a' holds categories, because the first value learned was 'none yet', and this is the number 1.5" in refused[1]
    )


def test_columns_of_categories_stay_text_in_every_format():
    zips = Columns(category=("a",))
    assert column(["07001", "1.5", "NA"], zips) == (["07001", "1.5", None], {}, [])
    rows = typed([{"a": 7001, "b": 1}, {"a": 7001.0, "b": 2}, {"a": None, "b": 3}], zips, {})
    assert [row["a"] for row in rows] == ["7001", "7001", None]
    assert [row["b"] for row in rows] == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "cells", "wanted"),
    [
        ([True, False], ["True", "false", "FALSE", "x"], [True, False, False, "x"]),
        (["x", 7, 10], ["7", "7.0", "07", "8", "x"], [7, 7, 7, "8", "x"]),
        (["True", "False"], ["True", "x"], ["True", "x"]),
    ],
)
def test_text_is_the_category_that_the_model_knows(values, cells, wanted):
    found = column(cells, known=learned(values), learning=False)[0]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in wanted]


def test_values_with_types_are_the_categories_that_a_model_of_texts_knows():
    rows = typed([{"a": True}, {"a": False}, {"a": None}], NONE, learned(["True", "False"]))
    assert [row["a"] for row in rows] == ["True", "False", None]


@pytest.mark.parametrize("cells", [["1,5", "2,25"], ["1,000", "20,000,000"], ["5%", "12.5 %"], ["€3", "$ 4.20"]])
def test_numbers_that_are_written_for_people_are_said(cells):
    (said,) = column(cells)[2]
    assert f"numbers with a comma or a unit, such as {cells[0]!r}" in said


def test_dates_are_said():
    assert column(["2026-01-02", "2026-01-03T10:00"])[2] == [
        "'a' holds dates, and each is a category of its own; leave it out: --ignore a"
    ]
    assert column(["A1", "B2"])[2] == []
    assert column(["2026-01-02", "soon"])[2] == []
    assert column(["2026-01-02"], known=learned(["2026-01-01", "2026-01-02"]))[2] == []  # once


def test_a_column_that_the_model_does_not_know_refuses_no_row_that_is_predicted():
    assert column(["1.5", "x"], learning=False) == ([1.5, "x"], {}, [])


def test_rows_without_a_feature_stay_rows():
    assert texts([{}, {}], NONE, {}, learning=True).rows == [{}, {}]


def test_separators():
    assert [separator(line, ",") for line in ("a,b;c", "a;b;c", "a\tb", "a")] == [",", ";", "\t", ","]
    assert separator("a,b", "\t") == ","


def test_labels_are_those_that_are_known():
    assert labels(["7", "07", "8", "x"], [7, "x"], numbers=True) == [7, "07", 8, "x"]
    assert labels(["7", "8"], ["7"], numbers=False) == ["7", "8"]
