"""Reservoir sampling and replay, against the textbook loop and against the law they promise."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemon import rng
from mnemon.learning.memory import Memory, replay_rows, reservoir_slots


def textbook(seed, offered, size):
    """One item after the other: item number N takes a free row, or row j drawn from 1 … N if there is one."""
    rows = []
    for number in range(1, offered + 1):
        if len(rows) < size:
            rows.append(number)
        else:
            j = int(rng.uniform(seed, "write", number - 1, 1)[0] * number) + 1
            if j <= size:
                rows[j - 1] = number
    return rows


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 12), st.integers(1, 30), st.integers(0, 30))
def test_reservoir_equals_the_textbook_loop(seed, steps, batch, size, cut):
    """Cut into blocks anywhere; when two samples of a batch hit one row, the later one stays."""
    memory = Memory(size, (), torch.int64, torch.device("cpu"))
    cut = min(cut, steps)
    for start, count in ((0, cut), (cut, steps - cut)):
        for s, slots in enumerate(reservoir_slots(seed, start * batch, count, batch, size)):
            first = (start + s) * batch + 1
            items = torch.arange(first, first + batch)
            kept = slots[slots < size]
            assert len(set(kept)) == len(kept)
            memory.write(torch.from_numpy(slots), items, items)
    expected = textbook(seed, steps * batch, size)
    assert memory.x[: len(expected)].tolist() == expected
    assert memory.y[: len(expected)].tolist() == expected


def test_every_item_is_held_with_the_same_probability():
    """M = 100 of N = 1000: each third of the stream holds 10 % of its items, over 4000 repetitions."""
    held = np.zeros(1000)
    for seed in range(4000):
        slots = reservoir_slots(seed, 0, 100, 10, 100).ravel()
        last = np.full(101, -1)
        last[slots] = np.arange(1000)  # the later write wins
        held[last[:100]] += 1
    for third in np.array_split(held / 4000, 3):
        assert abs(third.mean() - 0.1) < 0.002


def test_replay_is_uniform_and_without_replacement():
    filled = np.full(20_000, 20)
    rows = replay_rows(5, 3, filled, 10)
    assert all(len(set(row)) == 10 for row in rows[:500].tolist())
    counts = np.bincount(rows.ravel(), minlength=20)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 43.8  # generous: replay without replacement varies less


def test_replay_draws_belong_to_the_step_not_to_the_block():
    filled = np.arange(10, 60)
    whole = replay_rows(1, 7, filled, 10)
    assert (replay_rows(1, 17, filled[10:], 10) == whole[10:]).all()


def test_few_rows_are_all_replayed():
    assert sorted(replay_rows(0, 1, np.array([4]), 10)[0].tolist()) == [0, 1, 2, 3]
    assert replay_rows(0, 0, np.array([0]), 10).shape == (1, 0)
