"""The paper's numbers as data: some cells by hand, and what the paper claims about them."""

from __future__ import annotations

import pytest

from mnemon.experiments.stats import Estimate
from mnemon.paper import numbers
from mnemon.paper.numbers import ABLATION, ACCURACY, FORGETTING, SMOOTH, reported

SPLIT = [
    "split-mnist",
    "split-cifar10",
    "split-cifar100-10",
    "split-cifar100-20",
    "split-mini_imagenet-10",
    "split-mini_imagenet-20",
]


@pytest.mark.parametrize(
    ("method", "stream", "expected"),
    [
        ("er", "split-mnist", (82.34, 2.48, 18.33, 1.77, 1)),
        ("hybrid", "split-cifar10", (51.84, 0.91, 35.37, 1.35, 1)),
        ("cope", "split-mini_imagenet-20", (9.92, 0.61, 40.99, 1.02, 1)),
        ("aser", "split-cifar100-10", (14.00, 0.40, 45.00, 0.70, 1)),
        ("gmed-mir", "split-cifar100-20", (8.48, 0.37, 58.14, 0.55, 1)),
        ("iid-offline", "split-cifar10", (79.90, 0.51, None, None, 1)),
        ("mir", "smooth-mini_imagenet", (6.09, 1.04, None, None, 4)),
        ("hybrid", "smooth-cifar100", (10.54, 0.38, None, None, 4)),
    ],
)
def test_cells_by_hand(method, stream, expected):
    accuracy, half, forgetting, forgetting_half, table = expected
    lost = None if forgetting is None else Estimate(forgetting, forgetting_half, 15)
    assert reported(method, stream) == (Estimate(accuracy, half, 15), lost, table)


@pytest.mark.parametrize("method", ["er", "hybrid"])
@pytest.mark.parametrize(
    ("loss", "classifier", "accuracy", "table"),
    [
        ("ce", "softmax", 8.95, 1),
        ("ce", "ncm-raw", 8.96, 3),
        ("ms", "ncm", 9.99, 3),
        ("pnca", "ncm", 9.31, 3),
        ("hybrid", "proxy", 7.02, 3),
        ("hybrid", "ncm", 13.65, 1),
    ],
)
def test_the_ablation_is_found_by_loss_and_classifier(method, loss, classifier, accuracy, table):
    found = reported(method, "split-cifar100-20", loss, classifier)
    assert (found.accuracy.mean, found.table) == (accuracy, table)


def test_what_the_paper_does_not_report_is_none():
    assert reported("er", "split-digits") is None
    assert reported("aser", "split-mnist") is None
    assert reported("cope", "smooth-cifar10") is None
    assert reported("er", "split-mnist", "ce", "ncm") is None  # Table 3 has CIFAR only
    assert reported("er", "split-cifar10", "ce", "ncm") is None  # its NCM row of cross-entropy is read as raw features
    assert reported("mir", "split-cifar10", "ce", "ncm") is None
    assert reported("mir", "split-cifar10", "ce", "softmax").accuracy.mean == 42.10


def test_the_tables_are_whole():
    assert [len(t) for t in (ACCURACY, FORGETTING, ABLATION, SMOOTH)] == [12 * 6 - 3, 10 * 6 - 3, 12, 21]
    assert list(dict.fromkeys(stream for _, stream in ACCURACY)) == SPLIT
    for cells in (ACCURACY, FORGETTING, ABLATION, SMOOTH):
        assert all(0 < c.half < 3 and 0 < c.mean < 100 for c in cells.values())


def test_table_1_and_table_3_agree_where_they_overlap():
    for stream in ("split-cifar10", "split-cifar100-20"):
        assert ACCURACY["er", stream] == ABLATION["ce+softmax", stream]
        assert ACCURACY["hybrid", stream] == ABLATION["hybrid+ncm", stream]


@pytest.mark.parametrize(("table", "best"), [(ACCURACY, max), (FORGETTING, min), (SMOOTH, max)])
def test_the_papers_method_is_the_best_online_method_of_every_column(table, best):
    for stream in {column for _, column in table}:
        online = {m: c.mean for (m, s), c in table.items() if s == stream and not m.startswith("iid")}
        assert best(online, key=online.get) == "hybrid", stream


def test_memory_sizes():
    assert numbers.memory_size("split-mnist") == 500
    assert numbers.memory_size("smooth-cifar100") == 1000


def test_streams_and_hyper_parameters_by_hand():
    assert numbers.SPLIT_STREAMS["split-cifar100-20", "per_task"] == "5"
    assert numbers.SPLIT_STREAMS["split-mini_imagenet-10", "test"] == "12000"
    assert numbers.SMOOTH_STREAMS["smooth-cifar10", "smallest"] == "464"
    assert numbers.SMOOTH_STREAMS["smooth-mini_imagenet", "largest"] == "446"
    assert numbers.CHOSEN["split-cifar100", "lr"] == 0.35
    assert numbers.CHOSEN["smooth-cifar100", "gamma"] == 1.0
    for stream in SPLIT:
        fact = {key: int(numbers.SPLIT_STREAMS[stream, key]) for key in ("classes", "tasks", "per_task")}
        assert fact["tasks"] * fact["per_task"] == fact["classes"]
