"""Job 4, rare defects: learn a defect from ten samples among thousands, find doubtful parts, notice an unknown defect."""

import numpy as np

import mnemon

KINDS = ("good", "dent", "scratch", "crack")  # cracks are unknown at first
# Gaussian classes with one covariance, which is what slda assumes. Real parts are harder.
CENTRES = dict(zip(KINDS, 0.8 * np.random.default_rng(0).normal(size=(4, 32)), strict=True))


def parts(kind, n, rng):
    """Return measurements of n parts [n, 32], and their labels."""
    return (CENTRES[kind] + rng.normal(size=(n, 32))).astype(np.float32), [kind] * n


def main():
    recall = {}
    for method in ("slda", "hybrid"):
        rng = np.random.default_rng(1)
        clf = mnemon.OnlineClassifier(method, memory_size=100)
        clf.partial_fit(*parts("scratch", 10, rng))  # ten scratches on the first day, then none for a month
        for _ in range(30):
            clf.partial_fit(*parts("good", 90, rng))
            clf.partial_fit(*parts("dent", 10, rng))

        print(f"{method}, after {clf.n_seen_:,} parts:")
        for kind in KINDS:
            x, labels = parts(kind, 300, rng)
            recall[method, kind] = clf.score(x, labels)
            doubtful = np.mean([label is None for label in clf.predict(x, reject=0.9)])
            far = (clf.novelty(x) > 1).mean()  # true for about 1 in 20 samples of a known class
            print(
                f"  {kind:8} recognised {recall[method, kind]:6.1%}   unsure {doubtful:6.1%}   novelty > 1 {far:6.1%}"
            )

        clf.partial_fit(*parts("crack", 10, rng))  # once a person has named ten, it is a class like the others
        print(f"  crack, after ten of them: {clf.score(*parts('crack', 300, rng)):.1%}")
    return recall["slda", "scratch"]


if __name__ == "__main__":
    main()
