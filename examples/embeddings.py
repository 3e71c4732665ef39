"""Learn from ready-made embeddings: class means and one covariance (slda), no network to train, nothing to tune."""

import tempfile

import numpy as np

import mnemon


def embeddings(n, rng, topics):
    """Return n stand-ins for the vectors of a language or vision model (256 numbers each), and their topics."""
    y = rng.integers(len(topics), size=n)
    return (topics[y] + 1.5 * rng.normal(size=(n, 256))).astype(np.float32), y


def main():
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(30, 256))
    names = np.array([f"topic-{i}" for i in range(30)])
    clf = mnemon.OnlineClassifier(backbone="identity")
    for known in (10, 20, 30):  # ten new topics at a time
        x, y = embeddings(1000, rng, topics[:known])
        clf.partial_fit(x, names[y])

    with tempfile.TemporaryDirectory() as folder:  # safetensors and JSON: nothing that could run code
        clf.save(folder)
        clf = mnemon.OnlineClassifier.load(folder)
    x, y = embeddings(500, rng, topics)
    accuracy = clf.score(x, names[y])
    best = clf.classes_[clf.predict_proba(x[:1])[0].argsort()[::-1][:3]]
    print(
        f"{len(clf.classes_)} topics, accuracy {accuracy:.1%}; the first one is {names[y[0]]}, best guesses {', '.join(best)}"
    )
    return accuracy


if __name__ == "__main__":
    main()
