"""Randomness as a function of (seed, purpose, position): the same numbers on every device, with no state to save.

Each purpose owns an endless table of 64-bit words, the raw output of NumPy's counter-based Philox generator; a draw names
its place in the table. So a step's draws can be made ahead of time, in blocks of any size, and a run that is resumed at
step t reads exactly the words it would have read. (NumPy promises Philox's raw words across versions, but not the
algorithms of its Generator; shuffles and integers are therefore made here.)
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError

# One table per purpose. Append only: a changed number would change every result.
PURPOSES = {
    "pool": 0,  # which training images a run uses, which validate
    "class order": 1,
    "stream order": 2,
    "smooth class": 3,
    "network": 4,
    "head": 5,
    "proxies": 6,
    "replay": 7,
    "write": 8,
    "candidates": 9,  # memory rows that are looked at before some are replayed
    "edit": 10,  # memory rows that are edited without being replayed
    "prototypes": 11,
    "rows": 12,  # a key for each memory row, by which a step chooses among them
    "accept": 13,  # whether a sample may take a row
    "views": 14,  # how a second view of a sample is shifted and mirrored
    "patches": 15,  # which patches of the first images whiten and make the dictionary
    "augment": 16,  # how a sample is shifted and mirrored in training
    "iteration": 17,  # seeds for the further iterations over a batch
    "age": 18,  # which memory rows of its class a sample replaces
    "sketch": 19,  # signs and places of the features in the detector of drift
    "blur": 20,  # which samples of a Blurry stream come outside their task, and where
    "pairs": 21,  # which samples a new one is compared with
}


def check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise MnemonError(f"a seed is an integer from 0 to 2^63 - 1, not {seed!r}.")


def words(seed: int, purpose: str, start: int, count: int) -> NDArray[np.uint64]:
    """Words start … start+count−1 of the table (seed, purpose)."""
    check_seed(seed)
    block, skip = divmod(start, 4)  # Philox makes four words per counter value
    key = np.array([int(seed), _table(purpose)], np.uint64)
    philox = np.random.Philox(key=key, counter=[block, 0, 0, 0])
    return np.asarray(philox.random_raw(skip + count))[skip:]


def _table(purpose: str) -> int:
    """The number of a purpose. One with a colon, "METHOD:PURPOSE", belongs to code outside the package: its number is a digest
    of its name, beyond all of ours."""
    if purpose in PURPOSES:
        return PURPOSES[purpose]
    if ":" not in purpose:
        raise MnemonError(f"unknown purpose {purpose!r} of random numbers; one of your own is METHOD:PURPOSE.")
    number = 2**63 | int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8]) >> 1
    # Rounded as in 0.2, where NumPy took both words of the key for floats.
    return min(int(float(number)), 2**64 - 2**11)


def uniform(seed: int, purpose: str, start: int, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), 53 bits each."""
    return np.asarray((words(seed, purpose, start, count) >> np.uint64(11)) * 2.0**-53)


def normal(seed: int, purpose: str, start: int, count: int) -> NDArray[np.float64]:
    """Standard normal numbers (Box-Muller); each takes two words, so `start` counts pairs."""
    u = uniform(seed, purpose, 2 * start, 2 * count).reshape(count, 2)
    return np.asarray(np.sqrt(-2 * np.log1p(-u[:, 0])) * np.cos(2 * np.pi * u[:, 1]))


def permutation(seed: int, purpose: str, start: int, count: int) -> NDArray[np.int64]:
    """A shuffle of 0 … count−1: the order of `count` random keys."""
    return np.argsort(words(seed, purpose, start, count), kind="stable").astype(np.int64)


def distinct(u: NDArray[np.float64], below: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row s of the result: u.shape[1] different integers from 0 … below[s]−1, uniformly; u in [0, 1) is [S, r].

    Draw i picks one of the below−i numbers not taken yet, by rank; stepping over the taken ones in rising order turns the
    rank into the number.
    """
    steps, r = u.shape
    taken = np.empty((steps, r), np.int64)
    for i in range(r):
        pick = np.floor(u[:, i] * (below - i)).astype(np.int64)
        for earlier in np.sort(taken[:, :i], axis=1).T:
            pick += pick >= earlier
        taken[:, i] = pick
    return taken
