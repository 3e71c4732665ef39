"""A tabular stream, one sample at a time: features of any unit, scaled as they come, in River's or scikit-learn's way."""

from sklearn.datasets import load_wine

import mnemon


def main():
    frame = load_wine(as_frame=True)
    table = frame.data.assign(wine=frame.target_names[frame.target]).sample(frac=1, random_state=0)
    clf = mnemon.OnlineClassifier()
    right = asked = 0
    for sample in table.to_dict("records"):
        wine = sample.pop("wine")
        guess = clf.predict_one(sample)  # None before the first sample
        if guess is not None:
            right, asked = right + (guess == wine), asked + 1
        clf.learn_one(sample, wine)
    print(f"{clf.n_seen_} wines of {', '.join(clf.classes_)}; test-then-train accuracy {right / asked:.1%}")
    return right / asked


if __name__ == "__main__":
    main()
