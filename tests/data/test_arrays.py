"""Arrays of users: one set of rules for `mnemon.run` and `OnlineClassifier`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import mnemon
from mnemon import MnemonError, OnlineClassifier, streams
from mnemon.data import channels_first, channels_last
from mnemon.data.arrays import samples
from mnemon.data.layout import is_last


def pictures(n: int, shape: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise [n, channels, height, width] with a bright row that says the class."""
    y = np.arange(n) % 4
    x = np.random.default_rng(seed).integers(0, 100, (n, *shape)).astype(np.uint8)
    x[np.arange(n), :, y] = 250
    return x, y


def turned(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1)


def run(x, y, x_test, y_test):
    return mnemon.run("er", streams.split(y, tasks=2, seed=0), data=(x, y, x_test, y_test), lr=0.1)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 5, 9), (4, 8, 5), (16, 8, 8), (2, 8, 8), (3, 5, 3), (4, 4, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_both_layouts_are_the_same_samples_through_both_doors(shape, dtype):
    x, y = pictures(120, shape)
    x = x.astype(dtype) / (1 if dtype == np.uint8 else 255)
    x = x.astype(dtype)
    tells = shape[0] in (1, 3, 4) and shape[1] > 4 and shape[2] > 4
    first, last = (lambda a: a, lambda a: a) if tells else (channels_first, channels_last)
    ways = [
        first(x),
        last(turned(x)),
        first(torch.from_numpy(x)),
        last(torch.from_numpy(x).permute(0, 2, 3, 1)),
        channels_first(x.tolist() if dtype == np.float64 else list(x)),
        channels_last(turned(x)),
    ]
    records = [run(way, y, way, y) for way in ways]
    for record in records[1:]:
        assert record["accuracy_matrix"] == records[0]["accuracy_matrix"]
        assert record["data"] == records[0]["data"]
    want = OnlineClassifier().partial_fit(ways[0], y)
    assert want._model.inputs.shape == shape
    for way in ways:
        assert (want.predict_proba(way) == want.predict_proba(ways[0])).all()
        other = OnlineClassifier().partial_fit(way, y)
        assert (other.predict_proba(ways[1]) == want.predict_proba(ways[0])).all()


def test_a_model_knows_the_layout_of_what_it_learned(tmp_path):
    x, y = pictures(40, (16, 8, 8))
    clf = OnlineClassifier().partial_fit(channels_last(turned(x)), y)
    want = clf.predict_proba(channels_first(x))
    clf.save(tmp_path / "model")
    for model in (clf, OnlineClassifier.load(tmp_path / "model")):
        for way in (x, turned(x)):  # one reading fits what was learned
            assert (model.predict_proba(way) == want).all()
    with pytest.raises(
        MnemonError, match="16 × 8 pixels and 8 channels as uint8, but those learned before were of 8 × 8"
    ):
        clf.predict(channels_last(x))
    high = OnlineClassifier().partial_fit(channels_last(np.zeros((2, 3, 8, 8), np.uint8)), [0, 1])
    assert high._model.inputs.shape == (8, 3, 8)
    high.predict(np.zeros((2, 3, 8, 8), np.uint8))  # the same shape is the same kind of sample
    cube = x[:, :4, :4, :4]  # both readings fit: the usual one
    clf = OnlineClassifier().partial_fit(cube, y)
    assert (clf.predict_proba(cube) == clf.predict_proba(channels_last(cube))).all()


@pytest.mark.parametrize("usual", [False, True])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (4, 5, 5), (3, 2, 9), (3, 1, 5)])
def test_a_side_of_1_3_or_4_beside_a_longer_one_is_the_channels(shape, usual):
    a, b, c = shape
    assert not is_last((9, a, b, c), usual=usual)
    assert is_last((9, c, b, a), usual=usual)


@pytest.mark.parametrize(
    "shape",
    [(3, 32, 3), (1, 28, 1), (16, 8, 8), (8, 8, 16), (2, 28, 28), (28, 28, 2), (1, 128, 2), (2, 50, 1), (1, 3, 4)],
)
def test_a_shape_with_two_readings_is_read_as_in_0_1(shape):
    """Channels first by `mnemon.run`, last by `OnlineClassifier`: scikit-learn's tools, which cut X, take no mark."""
    x, y = np.random.default_rng(0).integers(0, 256, (8, *shape), np.uint8), np.arange(8) % 2
    assert samples(x, "x").shape == x.shape
    assert OnlineClassifier().partial_fit(x, y)._model.inputs.shape == (shape[2], *shape[:2])


DAYS = np.array(["2024-01-01", "2024-01-02"] * 4, "M8[D]")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([[1.0, 2.0], [3.0]] * 4, "X is not one array of numbers"),
        (
            [np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((3, 3))] * 4,
            "X holds images of different sizes: sample 0 is 2 × 2, sample 2 is 3 × 3 (rows × columns × channels); all must "
            "have one size, so resize or crop them first.",
        ),
        (
            [np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)] * 4,
            "X holds images of different channels: sample 0 is 8 × 8 × 3, sample 1 is 8 × 8 (rows × columns × channels); "
            "convert all to RGB or to grey first.",
        ),
        (
            np.ma.masked_greater(np.eye(8), 0.5),
            "X is a masked array with masked values; fill them first, such as X.filled",
        ),
        (
            [np.ma.masked_greater(row, 0.5) for row in np.eye(8)],
            "X is a masked array with masked values, the first one in",
        ),
        (np.array([["a", "b"]] * 8), "X holds text (<U1) and no plain numbers; turn it into numbers first."),
        (DAYS[:, None], "X holds dates or times; turn them into numbers first, such as days since the first one."),
        ((DAYS - DAYS[0])[:, None], "X holds dates or times; turn them into numbers first"),
        (pd.DataFrame({"a": 1.0, "b": DAYS}), "the column 'b' of X holds dates or times; turn them into numbers first"),
        (
            np.full((8, 2), np.nan),
            "X has a value that is not finite (NaN, infinite or too large for float32) in sample 0.",
        ),
        (
            np.full((8, 2), 1e300),
            "X has a value that is not finite (NaN, infinite or too large for float32) in sample 0.",
        ),
        (np.ones((8, 2), complex), "Complex data not supported: X is complex128 of shape (8, 2)."),
        (
            pd.DataFrame({"a": 1.0, "b": 1j * np.ones(8)}),
            "Complex data not supported: the column 'b' of X is complex128",
        ),
        (np.zeros((8, 5, 0)), "X must hold samples of at least one value, not an array of shape (8, 5, 0)."),
        (torch.zeros(8, 2).to_sparse(), "a tensor must hold plain numbers; one of torch.float32, torch.sparse_coo"),
        ([torch.zeros(2), torch.zeros(3)] * 4, "a list of tensors must hold tensors of one shape, not (2,) and (3,)."),
    ],
)
def test_a_refusal_is_the_same_sentence_at_both_doors(bad, words):
    y = np.arange(8) % 2
    good = np.zeros((8, 2), np.float32)
    doors = {"x": lambda: run(bad, y, good, y), "X": lambda: OnlineClassifier().partial_fit(bad, y)}
    for name, act in doors.items():
        with pytest.raises(MnemonError) as caught:
            act()
        assert str(caught.value).startswith(words.replace("X", name))
        assert "\n" not in str(caught.value)


def test_objects_that_are_numbers_are_numbers():
    x = np.array([[1, 2.5], [3, 4]], object)
    assert samples(x, "x").tolist() == [[1, 2.5], [3, 4]]
    assert samples(pd.DataFrame({"a": [1, 2]}, dtype="Float64"), "x").tolist() == [[1], [2]]
    assert samples(iter([[1.0], [2.0]]), "x").tolist() == [[1], [2]]
    assert samples(torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True), "x").dtype == torch.float32


@pytest.mark.parametrize("features", ["fixed", "open"])
def test_a_table_of_pyarrow_is_taken_as_a_frame(features):
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [4, 3, 2, 1]})
    y = ["u", "v", "u", "v"]
    found = [
        OnlineClassifier("slda", features=features).partial_fit(x, y).predict_proba(x)
        for x in (frame, pyarrow.Table.from_pandas(frame))
    ]
    assert (found[0] == found[1]).all()
    clf = OnlineClassifier("slda", features=features)
    clf.learn_many(pyarrow.Table.from_pandas(frame), y)
    assert (clf.predict_many(pyarrow.Table.from_pandas(frame)) == clf.predict_many(frame)).all()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            pd.DataFrame({"a": [1.0] * 8, "colour": ["x"] * 8}),
            "the column 'colour' of X holds something that is no number: could not convert string to float: 'x'. "
            "(OnlineClassifier(features='open') takes",
        ),
        (
            pd.DataFrame({"a": [1.0] * 8, "b": [1.0] * 7 + [np.nan]}),
            "the column 'b' of X has a missing value (NaN, so it is not finite) in sample 7; fill it first. "
            "(OnlineClassifier(features='open') takes",
        ),
        (["a text"] * 8, "X is a list of texts, and features are numbers; a function can make vectors of them: Onl"),
    ],
)
def test_what_a_table_of_numbers_cannot_hold_is_named_with_what_takes_it(bad, words):
    clf = OnlineClassifier()
    for act in (clf.partial_fit, clf.learn_many)[: 1 if isinstance(bad, list) else 2]:
        with pytest.raises(MnemonError) as caught:
            act(bad, np.arange(8) % 2)
        assert str(caught.value).startswith(words)
