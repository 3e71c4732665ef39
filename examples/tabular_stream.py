"""A tabular stream, one sample at a time, through River's interface; features of any unit are scaled online."""

import numpy as np
import torch
from sklearn.datasets import load_wine

import mnemon


def main():
    torch.set_num_threads(1)  # a single sample is too small to share: on a busy machine threads wait for each other
    table = load_wine()
    clf = mnemon.OnlineClassifier()
    right = asked = 0
    for row in np.random.default_rng(0).permutation(len(table.data)):
        sample = dict(zip(table.feature_names, table.data[row], strict=True))
        wine = str(table.target_names[table.target[row]])
        guess = clf.predict_one(sample)  # None before the first sample
        if guess is not None:
            right, asked = right + (guess == wine), asked + 1
        clf.learn_one(sample, wine)
    print(f"{clf.n_seen_} wines of {', '.join(clf.classes_)}; test-then-train accuracy {right / asked:.1%}")
    return right / asked


if __name__ == "__main__":
    main()
