"""Replay of other classes than those of the new samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mnemon.errors import MnemonError
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner

METHODS = ("er", "mir", "gmed-er", "gmed-mir")


def make(name, seed=0, **given):
    method, objective, _ = choose(name, given={"memory_size": 40, "lr": 0.01, "replay_classes": "others"} | given)
    return make_learner(method, objective, Inputs((6,), torch.float32, 0.0, 1.0), seed=seed)


def stream(steps=60, batch=10):
    """Two classes at a time, as in a Split stream of three tasks."""
    made = torch.Generator().manual_seed(1)
    y = torch.arange(steps * batch) % 2 + 2 * (torch.arange(steps * batch) * 3 // (steps * batch))
    return torch.randn(len(y), 6, generator=made) + y[:, None], y, np.arange(len(y)).reshape(steps, batch)


def watched(learner, x, y, rows):
    """Learn, and note for each step the classes of the new and of the replayed samples."""
    seen, inner = [], learner.replay

    def replay(chosen):
        batch = inner(chosen)
        seen[-1][1].append((batch.y.tolist(), chosen.tolist()))
        return batch

    learner.replay = replay
    for each in rows:
        seen.append((y[each].tolist(), []))
        learner.grow(int(y[: each.max() + 1].max()) + 1)
        learner.learn(x, y, each[None])
    return seen


@pytest.mark.parametrize("name", METHODS)
def test_no_sample_of_the_new_classes_is_replayed_while_there_are_enough_others(name):
    x, y, rows = stream()
    steps = watched(make(name, candidates=12) if "mir" in name else make(name), x, y, rows)
    for new, replayed in steps[25:]:  # from the second task on; 12 rows and more of the memory are of the first
        for classes, chosen in replayed:
            assert not set(classes) & set(new)
            assert len(set(chosen)) == len(chosen) >= 10


def test_in_the_first_task_the_rows_of_its_own_classes_stand_in():
    x, y, rows = stream()
    steps = watched(make("er"), x, y, rows)
    assert steps[0][1] == []
    assert [len(classes) for _, replayed in steps[1:5] for classes, _ in replayed] == [10] * 4


def test_each_row_of_the_other_classes_is_drawn_equally_often():
    learner = make("er", memory_size=20)
    learner.grow(2)
    learner.memory.y[:20] = torch.tensor([0] * 15 + [1] * 5)
    new = type("New", (), {"y": torch.tensor([1])})
    drawn = torch.from_numpy(np.random.default_rng(0).random((4000, 20)))
    counts = torch.bincount(torch.cat([learner.method.chosen(learner, new, u) for u in drawn]), minlength=20)
    assert counts[15:].sum() == 0
    share = counts[:15] / 4000  # 10 of 15 rows each time
    assert torch.allclose(share, torch.full((15,), 2 / 3), atol=0.04)


@pytest.mark.parametrize("name", METHODS)
def test_it_does_not_depend_on_how_steps_are_cut_into_calls(name):
    x, y, rows = stream()
    one, other = make(name), make(name)
    for learner, parts in ((one, [rows]), (other, [rows[:7], rows[7:33], rows[33:]])):
        learner.grow(6)
        for part in parts:
            learner.learn(x, y, part)
    for a, b in zip(one.parameters, other.parameters, strict=True):
        assert torch.equal(a, b)


def test_methods_with_a_choice_of_their_own_do_not_have_it():
    with pytest.raises(MnemonError, match="replay_classes"):
        choose("aser", given={"replay_classes": "others"})
