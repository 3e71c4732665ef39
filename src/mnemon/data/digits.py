"""The 8x8 digits inside scikit-learn: the dataset that is always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mnemon.data.canonical import Content, cut_fifth


def read() -> Content:
    """1797 images with values 0..16, cut into train and test."""
    from sklearn.datasets import load_digits  # slow to import, and only this dataset needs it

    images, labels = load_digits(return_X_y=True)  # [n, 64] float, [n]
    return cut_fifth(images.astype(np.uint8).reshape(-1, 1, 8, 8), labels.astype(np.int64))


def path() -> Path:
    """The file inside scikit-learn that holds them."""
    import sklearn

    return Path(sklearn.__file__).parent / "datasets" / "data" / "digits.csv.gz"
