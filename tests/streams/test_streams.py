"""Streams: what a seed promises."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon import MnemonError, streams

LABELS = st.lists(st.integers(0, 9), min_size=30, max_size=200).filter(lambda y: len(set(y)) >= 3)


@given(LABELS, st.integers(1, 3), st.integers(0, 10**6), st.sampled_from(["natural", "random"]))
def test_split_deals_every_sample_to_the_task_of_its_class(labels, tasks, seed, order):
    y = np.array(labels)
    stream = streams.split(y, tasks=tasks, seed=seed, order=order)
    assert sorted(stream.indices.tolist()) == list(range(len(y)))
    assert len(stream.tasks) == len(stream.boundaries) == tasks
    assert sorted(c for task in stream.tasks for c in task) == sorted(set(labels))
    start = 0
    for task, end in zip(stream.tasks, stream.boundaries, strict=True):
        assert set(y[stream.indices[start:end]].tolist()) == set(task)
        start = end
    if order == "natural":
        assert [c for task in stream.tasks for c in task] == sorted(set(labels))
    again = streams.split(y, tasks=tasks, seed=seed, order=order)
    assert (again.indices == stream.indices).all()


def test_seeds_give_different_orders():
    y = np.arange(100) % 10
    a, b = (streams.split(y, tasks=5, seed=s) for s in (0, 1))
    assert (a.indices != b.indices).any()
    assert a.tasks == b.tasks
    orders = {streams.split(y, tasks=5, seed=s, order="random").tasks for s in range(5)}
    assert len(orders) == 5


def test_string_labels():
    stream = streams.split(["b", "a", "c", "a"], tasks=3, seed=0)
    assert stream.tasks == (("a",), ("b",), ("c",))
    assert stream.boundaries == (2, 3, 4)


@pytest.mark.parametrize("labels", [["b", "a", "c", "a"], [2, 0, 1, 0], [True, False, False, True]])
def test_labels_of_a_table_are_those_of_a_list(labels):
    want = streams.split(labels, tasks=2, seed=0)
    series = pd.Series(labels)
    for y in (
        series,
        series.astype(object),
        series.astype("category"),
        np.array(labels, object),
        pd.Categorical(labels),
    ):
        stream = streams.split(y, tasks=2, seed=0)
        assert stream.indices.tolist() == want.indices.tolist()
        assert stream.tasks == want.tasks
        assert {type(label) for task in stream.tasks for label in task} == {type(labels[0])}
    with pytest.raises(MnemonError, match="all of one type"):
        streams.split(pd.Series([*labels, None], dtype=object), tasks=2, seed=0)


@given(LABELS, st.integers(0, 10**6), st.integers(1, 3))
def test_iid_is_a_shuffle_for_each_epoch(labels, seed, epochs):
    stream = streams.iid(labels, epochs=epochs, seed=seed)
    for part in np.split(stream.indices, epochs):
        assert sorted(part.tolist()) == list(range(len(labels)))
    assert stream.boundaries == (len(labels) * epochs,)


def test_epochs_differ():
    first, second = np.split(streams.iid(np.arange(50), epochs=2, seed=0).indices, 2)
    assert (first != second).any()


@given(LABELS, st.integers(0, 10**6), st.sampled_from([1e-6, 1e-3, 0.05, 0.5, 3, 1e6]), st.floats(0, 1))
@settings(max_examples=60)
def test_smooth_never_repeats_a_sample(labels, seed, spread, share):
    """Whatever the length and spread, also where classes run out."""
    classes = len(set(labels))
    length = classes + int(share * (len(labels) - classes))
    stream = streams.smooth(labels, length=length, seed=seed, spread=spread)
    assert len(stream.indices) == length == stream.boundaries[0]
    assert len(set(stream.indices.tolist())) == length
    assert stream.indices.min() >= 0
    assert stream.indices.max() < len(labels)


@pytest.mark.parametrize(
    ("classes", "pool", "n0", "least", "most"),
    [(10, 4750, 500, (449, 471), (530, 554)), (100, 475, 400, (346, 363), (437, 454))],
    ids=["cifar10", "cifar100"],
)
def test_smooth_has_the_class_counts_of_the_paper(classes, pool, n0, least, most):
    """Over 15 streams the paper reports 464…536 (CIFAR-10) and 357…450 (CIFAR-100); σ = n0/2 gives these ranges."""
    y = np.repeat(np.arange(classes), pool)
    counts = [
        np.bincount(y[streams.smooth(y, length=n0 * classes, seed=seed).indices], minlength=classes)
        for seed in range(15)
    ]
    assert least[0] <= np.min(counts) <= least[1]
    assert most[0] <= np.max(counts) <= most[1]


def test_smooth_moves_through_the_classes_in_order():
    y = np.repeat(np.arange(10), 600)
    drawn = y[streams.smooth(y, length=5000, seed=1).indices]
    when = [np.flatnonzero(drawn == c).mean() for c in range(10)]
    assert when == sorted(when)
    assert np.std(np.flatnonzero(drawn == 5)) == pytest.approx(240, rel=0.15)
    distinct = [len(set(batch)) for batch in drawn.reshape(-1, 10).tolist()]
    assert np.mean(distinct) == pytest.approx(2.15, abs=0.15)


def test_batches_stay_inside_their_task_and_the_incomplete_last_one_is_left_out():
    y = np.array([0] * 25 + [1] * 31)
    stream = streams.split(y, tasks=2, seed=0)
    rows, ends = stream.batches(10)
    assert rows.shape == (5, 10)
    assert ends == (2, 5)
    assert (y[rows[:2]] == 0).all()
    assert (y[rows[2:]] == 1).all()
    assert (rows[:2].ravel() == stream.indices[:20]).all()
    with pytest.raises(MnemonError, match="task 1 has 25 samples"):
        stream.batches(30)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: streams.split([0, 1], tasks=3, seed=0), "2 classes cannot be split into 3 tasks"),
        (lambda: streams.split([0, 1], tasks=1.5, seed=0), "tasks must be a whole number, not 1.5"),
        (lambda: streams.blurry([0, 1], tasks="2", seed=0), "tasks must be a whole number, not '2'"),
        (lambda: streams.blurry([0, 1], tasks=1, blur=0.1, seed=0), "blur must be a whole number, not 0.1"),
        (lambda: streams.smooth([0, 1], length=1.5, seed=0), "length must be a whole number, not 1.5"),
        (lambda: streams.split([0, 1], tasks=2, seed=0, order="rnadom"), "did you mean 'random'"),
        (lambda: streams.split([0.5, 1.5], tasks=1, seed=0), "int, bool or str, not float64"),
        (lambda: streams.split(np.array([0, "a"], dtype=object), tasks=1, seed=0), "all of one type"),
        (lambda: streams.split([], tasks=1, seed=0), "non-empty"),
        (lambda: streams.split([[0], [1]], tasks=1, seed=0), "one label a sample"),
        (lambda: streams.smooth([0, 1], length=3, seed=0), "not 3"),
        (lambda: streams.smooth([0, 1, 1], length=2, seed=0, spread=0), "spread"),
        (lambda: streams.smooth([0, 1, 1], length=2, seed=0, spread=float("nan")), "spread"),
        (lambda: streams.iid([0, 1], epochs=0, seed=0), "at least one epoch"),
        (lambda: streams.Stream("own/one", [0], (1,), ((0,),)), "kind of a stream is a word .* not 'own/one'"),
        (lambda: streams.Stream("own", [0, -1], (2,), ((0,),)), "are a list of whole numbers from 0"),
        (lambda: streams.Stream("own", [0.0, 1.0], (2,), ((0,),)), "indices of a stream are a list of whole numbers"),
        (lambda: streams.Stream("own", [], (), ()), "at least one"),
        (lambda: streams.Stream("own", [0, 1], (1,), ((0,),)), r"the last 2, the number of its samples; not \[1\]"),
        (lambda: streams.Stream("own", [0, 1], (), ((0,),)), r"not \[\]"),
        (lambda: streams.Stream("own", [0, 1], (0, 2), ((0,), (1,))), r"each above the one before .* not \[0, 2\]"),
        (lambda: streams.Stream("own", [0, 1], (1.5, 2), ((0,), (1,))), "the end of a task must be a whole number"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(MnemonError, match=words):
        call()
