"""Embedding functions: any input the user's code makes vectors of, each embedded once, checked, never saved."""

import copy
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from test_estimator import everything, same
from torch import nn

import mnemon
from mnemon import Embedding, MnemonError, OnlineClassifier

PAGE = Path(__file__).parents[2] / "docs" / "embeddings.md"
TEXTS = ["aab", "bba", "abab", "", "bbbb", "aaaa", "ab", "ba"]
LABELS = [text.count("a") > text.count("b") for text in TEXTS]


class Counting:
    """Embeds texts by their letters, as sentence-transformers would be asked to, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked.append(list(texts))
        return np.array([[text.count("a"), text.count("b"), 1.0] for text in texts])


def trained(embedding, **given):
    return OnlineClassifier(backbone=embedding, **given).partial_fit(TEXTS, LABELS)


@pytest.mark.parametrize("method", ["hybrid", "slda", "er"])
def test_texts_are_learned_as_their_vectors_are(method):
    model = Counting()
    clf = trained(Embedding(model), method=method)
    vectors = model.encode(TEXTS).astype(np.float32)
    by_hand = OnlineClassifier(method, backbone="identity").partial_fit(vectors, LABELS)
    assert same(everything(clf)[:-1], everything(by_hand)[:-1])
    assert (clf.predict_proba(TEXTS) == by_hand.predict_proba(vectors)).all()
    assert clf.predict(pd.Series(["aaa", "b"])).tolist() == by_hand.predict(model.encode(["aaa", "b"])).tolist()
    assert clf.score(np.array(TEXTS, object), LABELS) == by_hand.score(vectors, LABELS)
    assert clf.transform(["aab"]).tolist() == [[2, 1, 1]]
    clf.forget(TEXTS[:2], LABELS[:2])
    by_hand.forget(vectors[:2], LABELS[:2])
    assert same(everything(clf)[:-1], everything(by_hand)[:-1])


def test_one_text_at_a_time():
    one, many = OnlineClassifier("slda", backbone=Embedding(Counting())), trained(Embedding(Counting()), method="slda")
    for text, label in zip(TEXTS, LABELS, strict=True):
        one.learn_one(text, label)
    assert one.n_seen_ == many.n_seen_ == 8
    assert one.predict_one("aaa") is True
    assert list(one.predict_proba_one("b")) == one.classes_.tolist()
    assert one.predict_many(TEXTS).tolist() == many.predict(TEXTS).tolist()
    assert not hasattr(many, "n_features_in_")  # a text has none


def test_pictures_arrays_and_tensors():
    def brightness(pictures):
        return np.array([[np.mean(picture), np.max(picture)] for picture in pictures])

    grey = [np.full((3 + i, 4), 30 * i, np.uint8) for i in range(6)]  # of different sizes: the function takes them
    pictures, y = [Image.fromarray(a) for a in grey], [0, 0, 0, 1, 1, 1]
    for X in (pictures, grey):
        assert OnlineClassifier("slda", backbone=Embedding(brightness)).fit(X, y).predict(X).tolist() == y
    stacked = torch.arange(6.0)[:, None, None].expand(6, 2, 2)
    embedding = Embedding(lambda x: x.flatten(1))  # gets the tensor itself, not a list
    assert OnlineClassifier("slda", backbone=embedding).fit(stacked, y).predict(stacked[[0, 5]]).tolist() == [0, 1]
    assert OnlineClassifier("slda", backbone=Embedding(lambda x: x[:, 0])).fit(stacked.numpy(), y).n_seen_ == 6


# --- the cache


def test_each_input_is_embedded_once_while_it_is_kept():
    model = Counting()
    embedding = Embedding(model, cache=3)
    assert embedding(["a", "b", "a"]).tolist() == [[1, 0, 1], [0, 1, 1], [1, 0, 1]]
    assert model.asked == [["a", "b"]]
    embedding(["a", "c"])  # asks for c alone; b was not asked for longest
    embedding(["d"])  # b goes
    embedding(["a", "c", "d"])
    assert model.asked == [["a", "b"], ["c"], ["d"]]
    embedding(["b"])  # a goes
    embedding(["c", "d", "b"])
    assert model.asked[3:] == [["b"]]
    assert embedding(["a", "b", "c", "d", "e"]).shape == (5, 3)  # more than can be kept
    assert model.asked[4:] == [["a", "e"]]


def test_the_cache_can_be_off_and_what_it_returns_is_not_its_own():
    model = Counting()
    off = Embedding(model, cache=0)
    for _ in range(2):
        off(["a", "a"])
    assert model.asked == [["a", "a"]] * 2
    on = Embedding(model)
    on(["a"])[:] = 7
    assert on(["a"]).tolist() == [[1, 0, 1]]
    shared = np.zeros((1, 2))
    reused = Embedding(lambda x: shared)  # a function that hands out its own buffer
    first = reused(["x"])
    shared[:] = 1
    assert first.tolist() == reused(["x"]).tolist() == [[0, 0]]


def test_different_content_is_never_one_entry():
    embedding = Embedding(lambda x: np.arange(len(x))[:, None] + 0.0)
    palette = Image.new("P", (2, 2))
    palette.putpalette([9, 9, 9])
    different = [
        "1", b"1", 1, True, 1.0, None, "", [], [[]], ["1"], ("1",), ["1", ""], ["", "1"], {"1": ""}, ["ab", "c"], ["a", "bc"],
        np.zeros(4), np.zeros(4, np.float32), np.zeros((2, 2)), np.array("1"), Image.new("L", (2, 2)), Image.new("P", (2, 2)),
        Image.new("L", (4, 1)), palette, 0.0, -0.0, "\ud800",
    ]  # fmt: skip
    assert embedding(different)[:, 0].tolist() == list(range(len(different)))
    equal = [torch.zeros(4, dtype=torch.float64), np.zeros(8)[::2], np.asfortranarray(np.zeros((2, 2)))]
    assert embedding(equal)[:, 0].tolist() == [16.0, 16.0, 18.0]


def test_what_has_no_known_content_is_embedded_every_time():
    asked = []

    def function(inputs):
        asked.append(len(inputs))
        return np.ones((len(inputs), 2))

    embedding = Embedding(function)
    thing = object()
    for _ in range(2):
        embedding([thing, thing, "a", np.array([thing])])
    assert asked == [4, 3]


def test_threads_share_one_embedding():
    embedding = Embedding(Counting(), cache=5)
    wrong = []

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            counts = rng.integers(9, size=3)
            if embedding(["a" * n for n in counts])[:, 0].tolist() != counts.tolist():
                wrong.append(counts)

    threads = [threading.Thread(target=ask, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(embedding._kept) == 5


# --- what is refused


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (np.zeros(2), r"numbers of shape \(n, d\), not ndarray of float64 and shape \(2,\)"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((2, 0)), "shape"),
        (np.zeros((3, 2)), "got 2 inputs and returned 3 vectors"),
        (np.array([[0, np.nan]] * 2), "not finite"),
        (np.full((2, 2), 1e300), "not finite"),
        (np.zeros((2, 5)), "vectors of 5 numbers, and of 2 before"),
        ([[1.0, 2.0], [3.0]], "one array of numbers"),
        ([["a", "b"]] * 2, "numbers"),
        (None, "not NoneType"),
        (np.zeros((2, 2), complex), "numbers"),
    ],
)
def test_what_a_function_returns_is_checked(returns, why, tmp_path):
    answers = {"good": np.eye(2)}
    clf = OnlineClassifier(backbone=Embedding(lambda x: answers["good"], cache=0)).partial_fit(["u", "v"], [0, 1])
    before = everything(clf)
    answers["good"] = returns
    for act in (clf.predict, lambda X: clf.partial_fit(X, [0, 1])):
        with pytest.raises(MnemonError, match=why):
            act(["p", "q"])
    assert same(everything(clf), before)
    assert clf.backbone._width == 2


def test_inputs_that_are_no_list_are_refused():
    clf = trained(Embedding(Counting()))
    for bad in ("text", b"text", {"a": 1}, 3, None, pd.DataFrame({"text": TEXTS}), np.array("text")):
        with pytest.raises(MnemonError, match=r"a list or an array of what the embedding function takes|at least one"):
            clf.predict(bad)
    with pytest.raises(MnemonError, match="at least one sample"):
        clf.predict([])
    with pytest.raises(MnemonError, match="8 samples and y 7 labels"):
        clf.partial_fit(TEXTS, LABELS[1:])
    with pytest.raises(MnemonError, match="masked"):
        clf.predict(np.ma.masked_equal([1, 2], 1))


def test_what_is_no_embedding_function_is_refused():
    for bad in (3, None, "encode", Counting, nn.Linear(2, 2)):
        with pytest.raises(MnemonError, match=r"an embedding is made of|an nn.Module takes tensors"):
            Embedding(bad)
    for cache in (-1, 1.5, True, None, 2**60):
        with pytest.raises(MnemonError, match="cache is a number"):
            Embedding(len, cache=cache)
    with pytest.raises(MnemonError, match=r"backbone=mnemon\.Embedding\(model\)"):
        OnlineClassifier(backbone=Counting()).fit(TEXTS, LABELS)
    with pytest.raises(MnemonError, match="embedding function has one width"):
        OnlineClassifier(backbone=Embedding(Counting()), features="open").fit([{"a": 1}], [1])


def test_an_error_of_the_function_stays_its_own():
    def broken(texts):
        raise OSError("no model here")

    with pytest.raises(OSError, match="no model here"):
        OnlineClassifier(backbone=Embedding(broken)).fit(TEXTS, LABELS)


# --- copies and files


def test_saving_keeps_neither_function_nor_cache(tmp_path):
    clf = trained(Embedding(Counting()), method="slda")
    clf.save(tmp_path / "model")
    assert b"aab" not in b"".join(path.read_bytes() for path in (tmp_path / "model").iterdir() if path.is_file())
    with pytest.raises(MnemonError, match=r"load\(path, backbone=\.\.\.\)"):
        OnlineClassifier.load(tmp_path / "model")
    again = OnlineClassifier.load(tmp_path / "model", backbone=Embedding(Counting()))
    assert same(everything(again), everything(clf))
    for each in (clf, again):
        each.partial_fit(["aaab"], ["new"])
    assert (again.predict_proba(TEXTS) == clf.predict_proba(TEXTS)).all()
    ready = OnlineClassifier.load(tmp_path / "model", backbone="identity")  # for vectors made elsewhere
    assert ready.predict(Counting().encode(TEXTS)).shape == (8,)
    with pytest.raises(MnemonError, match="4 features"):
        OnlineClassifier.load(tmp_path / "model", backbone=Embedding(lambda x: np.ones((len(x), 4)))).predict(TEXTS)


def test_clones_share_the_function_and_a_pickle_has_no_cache():
    embedding = Embedding(Counting())
    clf = trained(embedding)
    assert clone(clf).backbone is clf.clone().backbone is copy.deepcopy(clf).backbone is embedding
    assert clf.clone(include_attributes=True).partial_fit(TEXTS, LABELS).n_seen_ == 16
    other = pickle.loads(pickle.dumps(embedding))
    assert len(other._kept) == 0
    assert other(["a"]).tolist() == [[1, 0, 1]]
    assert clf.__sklearn_tags__().input_tags.string
    assert not OnlineClassifier().__sklearn_tags__().input_tags.string


def test_the_page_runs_as_it_is_written(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    run = [block for block in blocks if "from sentence_transformers" not in block and "import timm" not in block]
    assert len(run) >= 3
    for block in run:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["accuracy"] > 0.9
    assert names["pictures_accuracy"] > 0.9
    assert mnemon.Embedding is Embedding
