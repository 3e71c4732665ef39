"""A stream of images in which new classes appear: predict, then learn, as in life."""

import numpy as np

import mnemon


def stream(seed=0):
    """Real handwritten digits as chunks of 20 images [20, 8, 8]; every 300 images two new digits arrive."""
    data = mnemon.data.load("digits")
    x, y = data.x_train[:, 0].numpy(), data.y_train.numpy()
    rng = np.random.default_rng(seed)
    for pair in range(5):
        rows = rng.permutation(np.flatnonzero(y // 2 == pair))
        for part in np.array_split(rows, len(rows) // 20):
            yield x[part], [f"digit {label}" for label in y[part]]


def main():
    clf = mnemon.OnlineClassifier(memory_size=200)
    right = seen = 0
    for images, labels in stream():
        if seen:
            right += (clf.predict(images) == labels).sum()
        known = len(getattr(clf, "classes_", []))
        clf.partial_fit(images, labels)
        seen += len(labels)
        if len(clf.classes_) > known:
            print(f"after {seen:4} images: {', '.join(clf.classes_[known:])} arrived")

    data = mnemon.data.load("digits")
    test, truth = data.x_test[:, 0].numpy(), [f"digit {label}" for label in data.y_test.tolist()]
    accuracy = clf.score(test, truth)
    print(f"test-then-train accuracy {right / seen:.1%}, on test images of all ten digits at the end {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
