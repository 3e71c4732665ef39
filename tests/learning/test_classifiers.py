"""Classifiers against brute force."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from mnemon import MnemonError
from mnemon.learning import build
from mnemon.learning.build import choose
from mnemon.learning.classifier import Classifier
from mnemon.learning.classifiers import CLASSIFIERS, classifier
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods
from mnemon.learning.methods.er import ER
from mnemon.learning.objectives import CrossEntropy, ProxyNCA


def learner_with(memory_x, memory_y, objective=None):
    """A learner whose features are its inputs, and whose memory holds these rows."""
    x = torch.as_tensor(memory_x, dtype=torch.float64)
    learner = Learner(
        ER(memory_size=len(x)),
        objective or CrossEntropy(),
        Inputs(tuple(x.shape[1:]), torch.float64, 0, 1),
        backbone=nn.Identity(),
        dtype=torch.float64,
    )
    learner.memory.write(torch.arange(len(x)), x, torch.as_tensor(memory_y))
    learner.samples = len(x)
    learner.seen[: max(memory_y) + 1] = True
    return learner


def circle(degrees):
    a = torch.as_tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([a.cos(), a.sin()], 1)


POINTS, LABELS = circle([0, 35, 70, 40, 60, 80]), [0, 0, 0, 1, 1, 2]


def predictions(learner, name, x):
    return learner.scores(torch.as_tensor(x, dtype=torch.float64), [classifier(name)])[0].argmax(1)


def test_nearest_mean_equals_brute_force_and_the_means_are_not_renormalised():
    learner = learner_with(POINTS, LABELS)
    means = torch.stack([POINTS[torch.tensor(LABELS) == c].mean(0) for c in range(3)])
    assert means.norm(dim=1).tolist() == pytest.approx([0.8794, 0.9848, 1.0], abs=1e-4)
    queries = circle(range(360))
    got = predictions(learner, "ncm", queries)
    assert torch.equal(got, torch.cdist(queries, means).argmin(1))
    renormalised = (queries @ nn.functional.normalize(means, dim=1).T).argmax(1)
    assert (got != renormalised).sum() in (19, 20)  # at 65° the re-normalised rule has a tie


def test_raw_means_see_the_length_of_a_feature_and_normalised_ones_do_not():
    learner = learner_with([[10.0, 0.0], [1.0, 1.0]], [0, 1])
    assert predictions(learner, "ncm", [[0.5, 0.0]]).item() == 0
    assert predictions(learner, "ncm-raw", [[0.5, 0.0]]).item() == 1


def test_a_class_without_memory_rows_is_never_predicted():
    learner = learner_with([[1.0, 0.0], [0.0, 1.0]], [0, 2])
    scores = learner.scores(torch.randn(50, 2), [classifier("ncm")])[0]
    assert set(scores.argmax(1).tolist()) <= {0, 2}
    assert (scores[:, 1] == -math.inf).all()


@pytest.mark.parametrize("name", ["softmax", "proxy"])
def test_a_class_never_seen_is_never_predicted(name):
    objective = ProxyNCA() if name == "proxy" else CrossEntropy()
    learner = learner_with(torch.randn(3, 6), [0, 1, 2], objective)
    assert set(predictions(learner, name, torch.randn(500, 6)).tolist()) == {0, 1, 2}


def test_proxies_classify_by_distance():
    learner = learner_with(torch.randn(3, 6), [0, 1, 2], ProxyNCA())
    x = torch.randn(40, 6)
    distance = torch.cdist(nn.functional.normalize(x.double(), dim=1), learner.net.proxies[:3])
    assert torch.equal(predictions(learner, "proxy", x), distance.argmin(1))


def test_large_and_small_calls_agree():
    learner = learner_with(torch.randn(30, 4), [i % 3 for i in range(30)])
    x = torch.randn(2500, 4)
    whole = learner.scores(x, [classifier("ncm")])[0]
    parts = torch.cat([learner.scores(part, [classifier("ncm")])[0] for part in x.split(7)])
    assert torch.allclose(whole, parts, atol=1e-5)


def test_nothing_learned_nothing_predicted():
    learner = Learner(ER(memory_size=5), CrossEntropy(), Inputs((4,)))
    with pytest.raises(MnemonError, match="nothing was learned"):
        learner.scores(torch.zeros(1, 4, dtype=torch.uint8), [classifier("ncm")])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"method": "hybird"}, "did you mean 'hybrid'"),
        ({"method": "er", "loss": "hybird"}, "unknown loss 'hybird'; did you mean 'hybrid'"),
        ({"method": "er", "classifiers": ["ncn"]}, "unknown classifier 'ncn'; did you mean 'ncm'"),
        ({"method": "er", "classifiers": ["proxy"]}, "proxy needs proxies, which the loss ce does not train"),
        ({"method": "hybrid", "classifiers": ["softmax"]}, "softmax needs a softmax head, which the loss hybrid"),
        (
            {"method": "fine-tune", "classifiers": ["ncm"]},
            "ncm takes its features from the memory, and fine-tune keeps none",
        ),
        ({"method": "fine-tune", "loss": "ms"}, "trains features only, and fine-tune keeps no memory"),
        ({"method": "er", "given": {"gamma": 1.0}}, "er with the loss ce has no option 'gamma'"),
        ({"method": "er", "given": {"memory_size": 0}}, "memory_size must be at least 1"),
        ({"method": "er", "given": {"lr": 0.0}}, "lr must be above 0"),
        ({"method": "er", "given": {"lr": math.nan}}, "lr must be a finite number"),
        ({"method": "er", "given": {"batch_size": 2.5}}, "batch_size must be of type int"),
        ({"method": "hybrid", "given": {"divisor": "bach"}}, "did you mean 'batch'"),
        ({"method": "hybrid", "given": {"gamma": -1.0}}, "gamma must be at least 0"),
    ],
)
def test_choices_that_make_no_sense_are_refused_with_the_reason(call, words):
    with pytest.raises(MnemonError, match=words):
        choose(**call)


def test_a_classifier_may_need_several_things_and_each_is_looked_for(monkeypatch):
    @dataclass(frozen=True)
    class Both(Classifier):
        name: ClassVar[str] = "both"
        doc: ClassVar[str] = "-"
        needs: ClassVar[tuple[str, ...]] = ("memory", "head", "statistics")

    @dataclass(frozen=True)
    class Counting(ER):
        name: ClassVar[str] = "counting"
        keeps_statistics: ClassVar[bool] = True
        default_classifier: ClassVar[str] = "both"

    monkeypatch.setitem(CLASSIFIERS, "both", Both)
    known = methods() | {"counting": Counting}
    monkeypatch.setattr(build, "methods", lambda: known)
    assert choose(Counting).classifiers == [Both()]
    assert choose(Counting, "ms").classifiers[0].name == "ncm"  # its own needs a head, which this loss does not train
    for method, loss, sentence in (
        ("fine-tune", "ce", "both takes its features from the memory, and fine-tune keeps none."),
        ("er", "ms", "both needs a softmax head, which the loss ms does not train."),
        ("er", "ce", "both reads the statistics that counting keeps, and er keeps none."),
    ):
        with pytest.raises(MnemonError) as error:
            choose(method, loss, ["both"])
        assert str(error.value) == sentence


def test_any_loss_goes_with_any_method():
    assert choose("er", "ms").classifiers[0].name == "ncm"  # there is no softmax head to fall back on
    assert choose("er", "hybrid", ["ncm", "ncm-raw", "proxy"], {"gamma": 2}).objective.gamma == 2.0
    assert choose("hybrid", "ce", ["softmax", "ncm"]).objective.name == "ce"
    assert choose("fine-tune", "pnca").classifiers[0].name == "proxy"
    assert choose("fine-tune").options()["lr"] == 0.1
