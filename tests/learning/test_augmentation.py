"""Images shifted and mirrored in training: which ones, by which numbers, and what is never touched."""

import numpy as np
import pytest
import torch

import by_hand
from mnemon import MnemonError, rng
from mnemon.learning.augmentation import SHIFT, repeated_border, zero_border
from mnemon.learning.build import choose
from mnemon.learning.captured import members
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods

STILL = (SHIFT + 0.5) / (2 * SHIFT + 1)  # the middle of the range: no shift


def make(method="er", seed=3, inputs=by_hand.SHAPE, **options):
    memory = {"memory_size": 60} if choose(method).method.replays else {}
    choice = choose(method, given={"lr": 0.02} | memory | options)
    body = by_hand.body if len(inputs) == 3 else "identity"
    return Learner(choice.method, choice.objective, Inputs(inputs), backbone=body, dtype=torch.float64, seed=seed)


def rows(steps, start=0):
    return np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)


def test_beyond_the_border_there_are_zeros():
    x = torch.randn(3, 2, 7, 9, generator=torch.Generator().manual_seed(0)) + 10
    u = torch.tensor([[STILL, STILL, 0.9], [0.0, 0.999, 0.9], [0.999, STILL, 0.1]])
    moved = zero_border(x, u)
    assert torch.equal(moved[0], x[0])
    expected = torch.zeros(2, 7, 9)
    expected[:, SHIFT:, : 9 - SHIFT] = x[1, :, : 7 - SHIFT, SHIFT:]
    assert torch.equal(moved[1], expected)
    expected = torch.zeros(2, 7, 9)
    expected[:, : 7 - SHIFT] = x[2, :, SHIFT:].flip(2)
    assert torch.equal(moved[2], expected)
    inside = moved != 0
    assert torch.equal(moved[inside], repeated_border(x, u)[inside])


def passed(learner, steps):
    """The images that each step's pass saw, in order."""
    seen, original = [], learner.loss_and_gradient
    learner.loss_and_gradient = lambda batch, new: seen.append(batch.x.clone()) or original(batch, new)
    learner.learn(by_hand.X, by_hand.Y, rows(steps))
    return seen


@pytest.mark.parametrize("augment", ["all", "replay"])
def test_which_images_are_augmented(augment):
    plain, moved = make(lr=1e-9), make(lr=1e-9, augment=augment)
    for step, (x, other) in enumerate(zip(passed(plain, 6), passed(moved, 6), strict=True)):
        u = torch.from_numpy(rng.uniform(3, "augment", step * 20 * 3, 20 * 3).reshape(20, 3))[: len(x)]
        expected = zero_border(x, u)
        if augment == "replay":
            expected[:10] = x[:10]
        assert torch.equal(other, expected)
    for name in ("memory.x", "memory.y"):  # what is kept is the sample as it came
        assert torch.equal(plain.state()[name], moved.state()[name])


def test_numbers_do_not_repeat_and_do_not_depend_on_the_block():
    learner = make(augment="all")
    classes = by_hand.Y[rows(30)].numpy()
    learner.learn(by_hand.X, by_hand.Y, rows(6))
    span, _ = learner.next_span(classes[6:16])
    whole = learner.plan(span)["augment"]
    assert whole.shape == (10, 20, 3)
    assert len(np.unique(whole)) == whole.size
    later = span._replace(step=span.step + 4, sample=span.sample + 40, steps=6, classes=span.classes[4:])
    assert np.array_equal(learner.plan(later)["augment"], whole[4:])


@pytest.mark.parametrize("augment", ["all", "replay"])
@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.trains])
def test_every_method_learns_with_it_alone_and_in_a_stack(method, augment):
    if augment == "replay" and not choose(method).method.replays:
        with pytest.raises(MnemonError, match="replays nothing that augment=replay"):
            make(method, augment=augment)
        return
    stacked, alone, plain = (
        [make(method, seed, **given) for seed in range(2)] for given in ({"augment": augment}, {"augment": augment}, {})
    )
    mine = members(stacked, by_hand.X, [by_hand.Y] * 2)
    for member in mine:
        member.begin(rows(9))
    for member in mine:
        member.wait()
    for one, other, still in zip(stacked, alone, plain, strict=True):
        for learner in (other, still):
            learner.learn(by_hand.X, by_hand.Y, rows(9))
            learner.check()
        torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)
        assert not torch.allclose(other.state()["net.backbone.0.weight"], still.state()["net.backbone.0.weight"])


def test_what_it_refuses():
    with pytest.raises(MnemonError) as error:
        make(inputs=(6,), augment="all")
    assert str(error.value) == "augment=all needs images (channels, height, width), not samples of shape (6,)."
    with pytest.raises(MnemonError, match="with views=2, augment must be none"):
        make("scr", views=2, augment="all")
    learner = make(augment="all")
    learner.learn(by_hand.X, by_hand.Y, rows(2))
    object.__setattr__(learner.method, "most_replayed", lambda: 3)
    with pytest.raises(MnemonError, match="er replays 10 samples, and its most_replayed"):
        learner.learn(by_hand.X, by_hand.Y, rows(2, 2))


def test_the_record_says_it():
    assert choose("er").method.augmentation() == "none"
    for augment, which in (("all", "all samples"), ("replay", "replayed samples")):
        said = choose("er", given={"augment": augment}).method.augmentation()
        assert said == f"shift by up to 4 pixels with zeros beyond the border, mirror; {which}"
    assert choose("scr", given={"augment": "all"}).method.augmentation().endswith("all samples")
    assert choose("scr", given={"views": 2}).method.augmentation() == "shift by up to 4 pixels, mirror"


def test_a_reference_batch_larger_than_a_replayed_one_is_augmented_whole():
    learner = make("a-gem", reference_size=30, augment="all")
    g = np.random.default_rng(0)
    x = torch.from_numpy(g.integers(0, 256, (80, *by_hand.SHAPE), dtype=np.uint8))
    assert learner.learn(x, torch.arange(80) % 4, rows(8)) == 8
