"""Job 5, two sites, one model: each site learns locally, models are merged instead of samples, and samples are unlearned."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import mnemon


def main():
    x, y = load_digits(return_X_y=True)
    x = (15 * x).reshape(-1, 8, 8).astype(np.uint8)  # images [n, height, width]
    first, north, south, test = slice(0, 100), slice(100, 800), slice(800, 1400), slice(1400, None)

    with tempfile.TemporaryDirectory() as work:
        shared, there = Path(work) / "shared", Path(work) / "south"
        # For images both need the same features: a first model makes the dictionary of patches, fresh() passes it on.
        start = mnemon.OnlineClassifier("slda", backbone="patches:filters=64", exam=0).partial_fit(x[first], y[first])
        start.save(shared)

        at_south = mnemon.OnlineClassifier.load(
            shared
        ).fresh()  # on another machine: the dictionary, with nothing learned
        at_south.partial_fit(x[south], y[south]).save(there)
        at_north = start.fresh().partial_fit(x[north], y[north])

        both = start.merge(at_north).merge(mnemon.OnlineClassifier.load(there))
    accuracy = both.score(x[test], y[test])
    print(f"north alone {at_north.score(x[test], y[test]):.1%}, both {accuracy:.1%} of {len(x[test])} images")

    one = at_north.fresh().partial_fit(x[:1400], y[:1400])  # what a single machine would have learned
    difference = abs(both.predict_proba(x[test]) - one.predict_proba(x[test])).max()
    print(f"against one model that saw all samples: largest difference of a probability {difference:.0e}")

    leaving = slice(100, 300)  # a customer of the north withdraws 200 images
    both.forget(x[leaving], y[leaving])
    without = one.fresh().partial_fit(np.delete(x[:1400], leaving, 0), np.delete(y[:1400], leaving))
    difference = abs(both.predict_proba(x[test]) - without.predict_proba(x[test])).max()
    print(f"{both.n_seen_:,} samples left; against a model that never saw the others: {difference:.0e}")
    assert difference < 1e-3
    return accuracy


if __name__ == "__main__":
    main()
