"""Blurry streams: what Koh et al. define, counted."""

import numpy as np
import pytest

import mnemon
import mnemon.report as report
from mnemon import MnemonError, streams
from mnemon.experiments import protocol
from mnemon.experiments.metrics import area_under_curve
from mnemon.render import names
from mnemon.streams.kinds.blurry import Blurry

LABELS = np.repeat(np.arange(20), 100)


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize(
    ("tasks", "disjoint", "blur"), [(5, 50, 10), (4, 25, 30), (5, 100, 10), (5, 0, 100), (1, 50, 10)]
)
def test_every_sample_comes_once(seed, tasks, disjoint, blur):
    stream = streams.blurry(LABELS, tasks=tasks, disjoint=disjoint, blur=blur, seed=seed)
    assert sorted(stream.indices) == list(range(len(LABELS)))
    assert (stream.kind, stream.boundaries, len(stream.tasks)) == ("blurry", (2000,), 1)


def test_disjoint_classes_stay_in_their_task_and_the_others_send_their_share_to_all():
    """20 classes of 100, 4 tasks, half of them disjoint, 20 % blur: 200 samples are pooled and dealt to 4 tasks of 50 each."""
    stream = streams.blurry(LABELS, tasks=4, disjoint=50, blur=20, seed=3)
    y = LABELS[stream.indices]
    place = {c: np.flatnonzero(y == c) for c in range(20)}
    spans = {c: np.ptp(where) for c, where in place.items()}
    disjoint = [c for c in range(20) if spans[c] < 700]
    assert len(disjoint) == 10  # the others are spread over the whole stream
    # Classes at home in a task: 3 + 2, 3 + 2, 2 + 3, 2 + 3, disjoint and blurry; 50 of the pool in each.
    ends = np.cumsum([3 * 100 + 2 * 80 + 50] * 2 + [2 * 100 + 3 * 80 + 50] * 2)
    assert ends[-1] == 2000
    counts = np.stack([np.bincount(part, minlength=20) for part in np.split(y, ends[:-1])])  # [task, class]
    assert sorted(np.count_nonzero(counts[:, disjoint], axis=0)) == [1] * 10  # in one task, all 100
    blurry = [c for c in range(20) if c not in disjoint]
    home = counts[:, blurry].max(0)
    assert (home >= 80).all()  # what is not pooled is at home
    outside = counts[:, blurry].sum() - home.sum()
    assert 100 <= outside <= 200  # of 200 that are pooled, about three quarters fall outside
    assert (counts[:, blurry].sum(0) == 100).all()
    assert [int(counts[k, blurry][counts[k, blurry] < 80].sum()) for k in range(4)] == pytest.approx([38] * 4, abs=20)


def test_seeds_deal_the_classes_anew_and_the_same_seed_does_not():
    a, b, c = (streams.blurry(LABELS, seed=seed).indices for seed in (0, 0, 1))
    assert np.array_equal(a, b)
    assert set(LABELS[a[:200]]) != set(LABELS[c[:200]])


def test_without_blur_and_with_all_classes_disjoint_it_is_a_split_stream():
    stream = streams.blurry(LABELS, tasks=5, disjoint=100, blur=50, seed=0)
    groups = [set(part) for part in np.split(LABELS[stream.indices], 5)]
    assert [len(group) for group in groups] == [4] * 5
    assert not set.intersection(*groups)


def test_evaluations_come_every_thousand_samples_and_ten_times_on_a_short_stream():
    assert streams.blurry(np.arange(12_500) % 10, seed=0).evaluations == tuple(range(1000, 12_001, 1000))
    short = streams.blurry(LABELS, seed=0)
    assert short.evaluations == tuple(range(200, 2001, 200))
    batches, ends = short.batches(64)  # none is lost at an evaluation, but for the incomplete last one
    assert (batches.size, ends) == (1984, (3, 6, 9, 12, 15, 18, 21, 25, 28, 31))


@pytest.mark.parametrize(
    ("name", "canonical"),
    [("blurry-cifar100-5-50-10", "blurry-cifar100-5-50-10"), ("blurry-mnist", "blurry-mnist-5-50-10")],
)
def test_names(name, canonical):
    assert str(protocol.parse(name)) == canonical
    assert names.stream("blurry-mnist-4-0-30") == "Blurry MNIST, 4 tasks, 0 % of the classes disjoint, 30 % blur"
    assert any(str(each) == "blurry-digits-5-50-10" for each in protocol.listing())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: protocol.parse("blurry-digits-5-101-10"), "two percentages"),
        (lambda: protocol.parse("blurry-digits-5-50"), "unknown stream"),
        (lambda: streams.blurry(LABELS, tasks=21, seed=0), "20 classes cannot be dealt to 21 tasks"),
        (lambda: streams.blurry(LABELS, blur=-1, seed=0), "blur is a percentage from 0 to 100, not -1"),
        (lambda: mnemon.run("er", "blurry-digits", order="random"), "deals its classes at random for each seed"),
    ],
)
def test_mistakes_are_one_sentence(call, sentence):
    with pytest.raises(MnemonError, match=sentence):
        call()


def test_probabilities_add_up_and_have_the_shares_of_a_stream():
    p = Blurry(4, 50, 20).probabilities(20, 2000)
    assert p.sum(1) == pytest.approx(1)
    assert p.sum(0) == pytest.approx(100, abs=1)  # samples of each class


def test_a_run_is_tested_on_the_classes_seen_and_has_its_area_and_no_forgetting(tmp_path):
    record = mnemon.run("hybrid", "blurry-digits", seed=2, out=tmp_path)
    matrix, evaluated = record["accuracy_matrix"], record["protocol"]["evaluated"]
    assert (len(matrix), {len(row) for row in matrix}) == (10, {1})
    assert evaluated == [120, 250, 370, 500, 620, 750, 870, 1000, 1120, 1250]
    assert record["average_accuracy"] == matrix[-1][0] > 60
    assert record["area_under_curve"] == area_under_curve(matrix, evaluated)
    assert min(row[0] for row in matrix) < record["area_under_curve"] < max(row[0] for row in matrix)
    assert record["average_forgetting"] is record["learning_accuracy"] is record["anytime_accuracy"] is None
    mnemon.run("iid-online", "blurry-digits", seed=2, out=tmp_path)
    page = report.write(tmp_path).read_text(encoding="utf-8")
    assert "Area under the curve" in page
    assert "samples learned" in page
    assert "Each seed of a Blurry stream deals the classes anew." in page


def test_the_area_weighs_each_accuracy_by_the_samples_before_it():
    assert area_under_curve([[10.0], [20.0], [40.0]], [100, 200, 250]) == pytest.approx((1000 + 2000 + 2000) / 250)
    assert area_under_curve([[10.0], [20.0]], [5, 10]) == 15.0
