"""Randomness is a function of (seed, purpose, position)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon import MnemonError, rng

PINNED = [213000021201967259, 4455796210202625458, 2055444239878205049]
OF_ONES_OWN = [5718730125159481595, 11898155189125276429, 11518672908290199480]
SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(0, 10**9), st.integers(0, 50), st.integers(0, 50))
def test_words_do_not_depend_on_how_they_are_cut_into_blocks(seed, start, first, second):
    whole = rng.words(seed, "replay", start, first + second)
    parts = [rng.words(seed, "replay", start, first), rng.words(seed, "replay", start + first, second)]
    assert (np.concatenate(parts) == whole).all()


def test_words_are_pinned():
    """These numbers may never change: every published result depends on them."""
    assert rng.words(0, "pool", 0, 3).tolist() == PINNED
    assert rng.words(0, "pool", 1, 2).tolist() == PINNED[1:]
    assert rng.words(3, "mine:rows", 5, 3).tolist() == OF_ONES_OWN


@pytest.mark.parametrize("purpose", ["rows", "mine:rows"])
def test_neighbouring_seeds_differ_however_large(purpose):
    drawn = [rng.words(seed, purpose, 0, 1)[0] for seed in (2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1)]
    assert len({*drawn}) == 4


def test_purposes_and_seeds_are_independent():
    tables = [rng.uniform(s, p, 0, 20_000) for s in (0, 1, 2**62) for p in ("pool", "replay", "write")]
    for i, a in enumerate(tables):
        assert abs(a.mean() - 0.5) < 0.01
        for b in tables[:i]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


@given(SEEDS, st.integers(1, 12), st.integers(0, 30), st.integers(1, 20))
def test_distinct_rows_are_distinct_and_in_range(seed, r, more, steps):
    below = np.full(steps, r + more)
    got = rng.distinct(rng.uniform(seed, "replay", 0, steps * r).reshape(steps, r), below)
    assert got.shape == (steps, r)
    assert ((got >= 0) & (got < below[:, None])).all()
    assert all(len(set(row)) == r for row in got.tolist())


def test_distinct_is_uniform_over_ordered_pairs():
    got = rng.distinct(rng.uniform(3, "replay", 0, 40_000).reshape(-1, 2), np.full(20_000, 5))
    counts = np.bincount(got[:, 0] * 5 + got[:, 1], minlength=25)
    off_diagonal = counts[~np.eye(5, dtype=bool).ravel()]
    assert counts[np.eye(5, dtype=bool).ravel()].sum() == 0
    assert ((off_diagonal - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees of freedom, p = 0.001


def test_normal_numbers_are_normal():
    g = rng.normal(1, "proxies", 0, 100_000)
    assert abs(g.mean()) < 0.01
    assert abs(g.std() - 1) < 0.01
    assert (rng.normal(1, "proxies", 7, 5) == g[7:12]).all()


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(MnemonError, match="seed"):
        rng.words(seed, "pool", 0, 1)
