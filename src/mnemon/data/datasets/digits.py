"""The 8x8 digits inside scikit-learn: the dataset that is always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mnemon.data.canonical import Content, stratified_split
from mnemon.data.definition import Definition, Rules


def read() -> tuple[Content, Path]:
    """1797 images with values 0..16, cut into train and test, and the file that holds them."""
    import sklearn
    from sklearn.datasets import load_digits  # slow to import, and only this dataset needs it

    images, labels = load_digits(return_X_y=True)  # [n, 64] float, [n]
    content = stratified_split(images.astype(np.uint8).reshape(-1, 1, 8, 8), labels.astype(np.int64))
    return content, Path(sklearn.__file__).parent / "datasets" / "data" / "digits.csv.gz"


DIGITS = Definition(
    name="digits",
    title="Digits",
    description="handwritten digits, small (inside scikit-learn)",
    licence="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI; CC BY 4.0",
    classes=tuple("0123456789"),
    class_count=10,
    train=1435,
    test=362,
    shape=(1, 8, 8),
    mean=0.0,
    std=16.0,
    checksum="929f7f527eebd7ad4ec06630591de3ffd2e54fa8584058c6f3312ec1d57b15ca",
    by_hand="scikit-learn",
    rules=Rules(tasks=(5,), valid=0.125, memory=200, backbone="mlp"),
    bundled=read,
)
