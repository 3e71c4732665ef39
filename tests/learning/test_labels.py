"""The label table: any label at any time, and none ever moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon import MnemonError
from mnemon.learning.labels import LabelTable

LABEL = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.booleans())


@given(st.lists(st.lists(LABEL, max_size=10), max_size=10))
def test_indices_follow_the_order_of_first_arrival_and_never_move(chunks):
    table, where = LabelTable(), {}
    for chunk in chunks:
        for label, index in zip(chunk, table.add(chunk).tolist(), strict=True):
            assert where.setdefault((type(label), label), index) == index
    assert list(where.values()) == list(range(len(table)))
    assert [(type(x), x) for x in table.labels] == list(where)
    again = LabelTable(table.labels)
    assert [(type(x), x) for x in again.labels] == list(where)


def test_true_and_one_are_different_labels():
    table = LabelTable()
    assert table.add([1, True, "1", 0, False]).tolist() == [0, 1, 2, 3, 4]
    assert table.find([True, 1, "True"]).tolist() == [1, 0, -1]
    assert len(table) == 5


@given(st.lists(LABEL, max_size=10), st.lists(LABEL, max_size=10))
def test_what_would_be_new_is_counted_and_not_added(first, then):
    table = LabelTable(first)
    known = len(table)
    new = table.count_new(then)
    assert len(table) == known
    table.add(then)
    assert len(table) == known + new


@given(st.lists(st.lists(st.integers(-5, 5), max_size=10), max_size=10))
def test_an_array_of_whole_numbers_is_read_as_the_list_of_them(chunks):
    tables = LabelTable(), LabelTable()
    for chunk in chunks:
        expected = tables[0].add(chunk).tolist()
        a = np.array(chunk, np.int16)
        assert tables[1].count_new(a) == len(tables[0]) - len(tables[1])
        assert tables[1].add(a).tolist() == tables[1].find(a).tolist() == expected
    assert tables[1].labels == tables[0].labels
    assert {type(label) for label in tables[1].labels} <= {int}


def test_numpy_labels_are_the_python_ones():
    table = LabelTable([3, "a", True])
    assert table.find(np.array([3, 4])).tolist() == [0, -1]
    assert table.find(np.array(["a"])).tolist() == [1]
    assert table.find(np.array([True])).tolist() == [2]


@pytest.mark.parametrize("label", [None, 1.5, (1,), b"a"])
def test_other_things_are_no_labels_and_a_bad_chunk_adds_nothing(label):
    table = LabelTable(["a"])
    with pytest.raises(MnemonError, match="a label is a str, an int or a bool"):
        table.add(["b", label])
    assert table.labels == ["a"]
