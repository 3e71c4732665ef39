"""A stream of images in which new classes appear: each chunk is predicted, then learned."""

import numpy as np

import mnemon


def digits():
    """Return real handwritten digits, 8 × 8 pixels from 0 to 255: training images and labels, test images and labels."""
    data = mnemon.data.load("digits")
    x, x_test = (15 * images[:, 0].numpy() for images in (data.x_train, data.x_test))
    return x, data.y_train.numpy(), x_test, data.y_test.numpy()


def stream(seed=0):
    """Yield chunks of about 20 images; two new digits appear about every 300 images."""
    x, y, _, _ = digits()
    rng = np.random.default_rng(seed)
    for pair in range(5):
        rows = rng.permutation(np.flatnonzero(y // 2 == pair))
        for part in np.array_split(rows, len(rows) // 20):
            yield x[part], [f"digit {label}" for label in y[part]]


def main():
    clf = mnemon.OnlineClassifier("hybrid", memory_size=200)
    right = seen = 0
    for images, labels in stream():
        if seen:
            right += (clf.predict(images) == labels).sum()
        known = len(getattr(clf, "classes_", []))
        clf.partial_fit(images, labels)
        seen += len(labels)
        if len(clf.classes_) > known:
            print(f"after {seen:4} images: {', '.join(clf.classes_[known:])} arrived")

    _, _, test, truth = digits()
    accuracy = clf.score(test, [f"digit {label}" for label in truth])
    print(f"test-then-train accuracy {right / seen:.1%}, on test images of all ten digits at the end {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
