"""A thousand bad inputs, of every kind and to every call: each is one sentence, and the model is as it was, to the byte."""

import datetime
import json
import re
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon import Embedding, MnemonError, OnlineClassifier

NAMES = ("a", "b", "c")
LABELS = ["on", "off", "on", 3, "off", "on"]


def fussy(inputs):
    """Embeds texts; all else it answers with something that is no row of numbers."""
    kinds = {type(None): [np.nan, 1.0], int: [1e300, 1.0], float: [1.0], bytes: None}
    return [row for row in (kinds.get(type(x), [len(str(x)), 1.0]) for x in inputs) if row is not None]


def vectors():
    return np.random.default_rng(0).normal(size=(6, 3))


def rows(x):
    return [dict(zip(NAMES, row, strict=False)) for row in x.tolist()]


def of_vectors(method, **given):
    return OnlineClassifier(method, memory_size=5, **given).partial_fit(vectors(), LABELS)


def of_rows(**given):
    clf = OnlineClassifier("er", memory_size=5, backbone="mlp:width=8", **given)
    clf.learn_many(rows(vectors()), LABELS)
    return clf


def of_table(method):
    table = [row | {"c": word} for row, word in zip(rows(vectors()), ["u", "v", None, "u", "v", "w"], strict=True)]
    return OnlineClassifier(method, features="open", memory_size=5, exam=2).partial_fit(table, LABELS)


def of_images(method, dtype, backbone, n=12):
    x = (np.random.default_rng(0).random((n, 8, 8)) * 200).astype(dtype)
    return OnlineClassifier(method, memory_size=5, backbone=backbone, exam=2).partial_fit(x, (LABELS * 2)[:n])


def of_texts():
    return OnlineClassifier("slda", backbone=Embedding(fussy)).partial_fit(["x", "xx", "xxx", "x", "xx", "y"], LABELS)


# What has learned, by the kind of its samples; "new" has learned nothing, and its parameters say what it will take.
MAKE = {
    "slda": lambda: of_vectors("slda"),
    "network": lambda: of_vectors("hybrid", backbone="mlp:width=8"),
    "fading": lambda: of_vectors("slda", half_life=5),
    "names": of_rows,
    "table": lambda: of_table("slda"),
    "table, network": lambda: of_table("er"),
    "patches": lambda: of_images("slda", np.uint8, "patches:filters=2"),
    "patches that wait": lambda: of_images("slda", np.uint8, "patches:filters=2", n=4),
    "pictures": lambda: of_images("er", np.float32, "mlp:width=8"),
    "texts": of_texts,
    "new": lambda: OnlineClassifier("slda"),
    "new table": lambda: OnlineClassifier("slda", features="open"),
}
TABLES = ("table", "table, network", "new table")


def state(clf, folder):
    """The bytes that would be written, and what else it has."""
    if not clf.__sklearn_is_fitted__():
        return dict(vars(clf))
    written = []
    with mock.patch("mnemon.checkpoint.save", lambda *given, **more: written.append(given)):
        clf.save(folder)
    ((_, _, tensors, values),) = written
    return safetensors.torch.save({name: t.contiguous() for name, t in tensors.items()}), json.dumps(values)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("never written")
    made = {kind: make() for kind, make in MAKE.items()}
    return {kind: SimpleNamespace(clf=clf, before=state(clf, folder), folder=folder) for kind, clf in made.items()}


# --- samples


def good(kind):
    """Four samples as the model has learned them."""
    if kind in ("patches", "patches that wait", "pictures"):
        return (np.random.default_rng(1).random((4, 8, 8)) * 200).astype(np.float32 if kind == "pictures" else np.uint8)
    if kind == "texts":
        return np.array(["1", "22", "3", "44"], object)
    return np.random.default_rng(1).normal(size=(4, 3))


class Spoiled(NamedTuple):
    """One value among good ones."""

    value: Any
    dtype: Any = np.float64

    def __call__(self, x, data):
        x = x.astype(object if x.dtype.kind == "O" else self.dtype)
        x[tuple(data.draw(st.integers(0, side - 1)) for side in x.shape)] = self.value
        return x


def masked(x, data):
    mask = np.zeros(x.shape, bool)
    mask[data.draw(st.integers(0, len(x) - 1))] = True
    return np.ma.array(x, mask=mask)


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2), st.binary(max_size=2), st.complex_numbers(),
    st.dates(), st.just(()), st.just({}), st.just([1.0]), st.just(object()), st.just(np.datetime64("NaT")),
)  # fmt: skip
KEYS = st.one_of(st.sampled_from(["a", "c", "z", 0]), st.none(), st.floats(), st.booleans(), st.tuples())
ROWS = st.one_of(
    st.lists(st.dictionaries(KEYS, CELLS, max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(["a", "c", "z"]), st.lists(CELLS, min_size=2, max_size=2), max_size=3).map(
        lambda columns: pd.DataFrame(columns, dtype=object)
    ),
    st.lists(st.lists(CELLS, max_size=3), max_size=3),
    st.lists(CELLS, max_size=4),
    CELLS,
)
CONTAINERS = st.sampled_from(
    [None, 3, 2.5, "text", b"bytes", {"a": "much"}, {1.0, 2.0}, object(), len, [None], [[]], [[[]]], {}]
)

# What is done to good samples.
SAMPLES = {
    "NaN": Spoiled(np.nan),
    "infinite": Spoiled(-np.inf, np.float32),
    "too large for float32": Spoiled(1e300),
    "a square too large": Spoiled(3e38),
    "complex": Spoiled(1j, complex),
    "text": lambda x, _: x.astype(str),
    "text among numbers": Spoiled("much", object),
    "objects": Spoiled(object(), object),
    "dates": lambda x, _: np.full(x.shape, "2024-05-01", "datetime64[D]"),
    "a date": Spoiled(datetime.date(2024, 5, 1), object),
    "masked": masked,
    "wider": lambda x, _: np.concatenate([x, x], -1),
    "narrower": lambda x, _: x[..., :-1],
    "one sample alone": lambda x, _: x[0],
    "five dimensions": lambda x, _: x.reshape(len(x), *[1] * (5 - x.ndim), *x.shape[1:]),
    "a number": lambda x, _: x.flat[0],
    "none": lambda x, _: x[:0],
    "of no value": lambda x, _: x[:, :0] if x.ndim > 1 else x[:0],
    "ragged": lambda x, _: [*x[:-1].tolist(), np.ravel(x[-1])[:1].tolist()],
    "images of two sizes": lambda x, _: [np.zeros((8, 8), np.uint8), np.zeros((9, 8), np.uint8)] * 2,
    "images of another size": lambda x, _: np.zeros((4, 9, 8), np.uint8),
    "images of another type": lambda x, _: x.astype(np.uint8 if x.dtype == np.float32 else np.int64),
    "images of three channels": lambda x, _: np.zeros((4, 8, 8, 3), np.uint8),
    "tensors of two shapes": lambda x, _: [torch.zeros(2), torch.zeros(3)] * 2,
    "a sparse tensor": lambda x, _: torch.eye(4).to_sparse(),
    "a sparse matrix": lambda x, _: scipy.sparse.csr_matrix(np.eye(4, 3)),
    "a sparse array": lambda x, _: scipy.sparse.coo_array(np.eye(4, 3)),
    "a sparse matrix of no rows": lambda x, _: scipy.sparse.coo_matrix(np.eye(4, 3)),
    "another container": lambda x, data: data.draw(CONTAINERS),
    "any rows": lambda x, data: data.draw(ROWS),
    "samples of others": lambda x, data: good(data.draw(st.sampled_from(["slda", "patches", "pictures", "texts"]))),
}
# Of these, what no model of numbers takes for good, and what none does that has learned others.
NEVER = {
    "NaN", "infinite", "too large for float32", "complex", "text among numbers", "objects", "a date", "masked", "none",
    "five dimensions", "a number", "of no value", "ragged", "images of two sizes",
    "tensors of two shapes", "a sparse tensor", "a sparse matrix", "a sparse array",
    "a sparse matrix of no rows", "another container",
}  # fmt: skip
NEVER_AGAIN = {"one sample alone", "wider", "narrower", "images of another size", "images of three channels"}
# What is wrong with labels.
LABELLED = {
    "floats": lambda n: [0.5] * n,
    "NaN": lambda n: np.full(n, np.nan),
    "None": lambda n: [None] * n,
    "no labels": lambda n: None,
    "dates": lambda n: np.full(n, "2024-05-01", "datetime64[D]"),
    "complex": lambda n: np.full(n, 1j),
    "objects": lambda n: [object()] * n,
    "bytes": lambda n: [b"on"] * n,
    "beyond 64 bits": lambda n: [2**64] * n,
    "pairs": lambda n: [["on", "off"]] * n,
    "ragged": lambda n: [["on"], ["on", "off"]] * n,
    "masked": lambda n: np.ma.array([1] * n, mask=[True] * n),
    "a word": lambda n: "on",
    "a dict": lambda n: {"on": 1},
    "too few": lambda n: ["on"] * (n - 1),
    "too many": lambda n: ["on"] * (n + 1),
}
ONE_LABEL = [0.5, np.nan, None, datetime.date(2024, 5, 1), 1j, object(), b"on", 2**64, ["on"], {"on": 1}]
RENAMED = [
    None, "on", 3, ["on", "off"], {"never learned": "x"}, {"on": 0.5}, {"on": None}, {"on": ["x"]}, {None: "on"},
    {0.5: "on"}, {"on": 2**64}, {("on",): "x"}, {"on": float("inf")},
]  # fmt: skip


def sample(x):
    """The first one as a dict where it can be one, else what is given."""
    table = isinstance(x, np.ndarray) and x.ndim == 2 and len(x) and x.shape[1]
    return dict(zip((*NAMES, "d", "e", "f"), x[0].tolist(), strict=False)) if table else x


MAY_BE_NEW = ("predict_many", "predict_one", "predict_proba_one")  # of River, which asks before anything was learned
ASK, ONE = ("predict", "predict_proba", "novelty", *MAY_BE_NEW), ("learn_one", "predict_one", "predict_proba_one")
CALLS = [*ASK, "fit", "partial_fit", "learn_many", "learn_one", "forget", "forget label", "rename", "merge"]


def bad_call(kind, call, models, data):
    """Arguments for a call, and whether there is no way to take them for good ones."""
    if call == "rename":
        return [data.draw(st.sampled_from(RENAMED))], True
    if call == "merge":
        others = [None, "on", 3, OnlineClassifier("slda"), models[kind].clf]
        if kind not in ("slda", "fading"):
            others += [models["slda"].clf, models["patches that wait"].clf]
        return [data.draw(st.sampled_from([*others, models["network"].clf, models["texts"].clf]))], True
    if call == "forget label":
        return [None, None, data.draw(st.sampled_from([each for each in ONE_LABEL if each is not None]))], True
    one, asked = call in ONE, call in ASK
    x = good(kind)[: 1 if one else None]
    if not asked and data.draw(st.booleans()):
        if one:
            return [sample(x), data.draw(st.sampled_from(ONE_LABEL))], True
        return [x, LABELLED[data.draw(st.sampled_from(sorted(LABELLED)))](len(x))], True
    wrong = data.draw(st.sampled_from(sorted(SAMPLES)))
    never = kind not in ("texts", *TABLES) and wrong in (
        NEVER if kind == "new" or call == "fit" else NEVER | NEVER_AGAIN
    )
    if kind == "texts" and data.draw(st.booleans()):
        x = good("slda")  # of texts there are no wrong values: what the function makes of them may be wrong
    x = SAMPLES[wrong](x, data)
    n = len(x) if isinstance(x, np.ndarray | list | pd.DataFrame) and np.shape(x[:0]) != () else 1
    x = sample(x) if one else x
    if asked:
        return [x], never and not (kind == "new" and call in MAY_BE_NEW)
    if never:
        return [x, "on" if one else ["on"] * n], True
    # To another kind of model these may be good samples; with a bad label nothing can be learned from them.
    return [x, data.draw(st.sampled_from(ONE_LABEL)) if one else LABELLED["floats"](n)], True


@settings(max_examples=1000)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_bad_input_is_one_sentence_and_changes_nothing(models, data):
    kind, call = data.draw(st.sampled_from(sorted(MAKE))), data.draw(st.sampled_from(CALLS))
    arguments, must = bad_call(kind, call, models, data)
    model = models[kind]
    named = {"label": arguments.pop()} if call == "forget label" else {}
    refusal = None
    try:
        getattr(model.clf, call.split()[0])(*([] if named else arguments), **named)
    except MnemonError as error:
        refusal = error
    unchanged = state(model.clf, model.folder) == model.before
    if not unchanged:
        model.clf = MAKE[kind]()  # the next case begins as this one did
    assert unchanged
    assert refusal is not None or not must
    if refusal is not None:
        assert re.fullmatch(r"\S.{10,700}[.)…]", str(refusal))
        assert refusal.__cause__ is None
        assert refusal.__context__ is None or refusal.__suppress_context__  # no traceback of NumPy's or torch's


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda clf: clf.learn_one({"a": 1.0, "b": None}, "x"), "the feature 'b' is None, a missing value"),
        (lambda clf: clf.partial_fit(np.array([[1, "a"]], object), ["x"]), "X holds text: .*'a'.*features='open'"),
        (lambda clf: clf.partial_fit({"a": [1, 2]}, [0, 1]), "X must hold samples, and is one dict"),
        (
            lambda clf: clf.partial_fit(np.zeros((2, 9, 9, 3), np.uint8), [0, 1]).predict(
                np.zeros((9, 9, 3), np.uint8)
            ),
            "One image is X\\[None\\]",
        ),
    ],
)
def test_the_sentence_names_what_is_wrong(call, sentence):
    with pytest.raises(MnemonError, match=sentence):
        call(OnlineClassifier())
