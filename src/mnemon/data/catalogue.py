"""The built-in datasets: what they are, how they are normalised, and the checksum of their true content."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.data import labels

# The normalisation of every RGB dataset: pixels 0..255 to [-1, 1].
RGB_MEAN = 127.5
RGB_STD = 127.5


@dataclass(frozen=True)
class Entry:
    """A built-in dataset."""

    name: str
    description: str
    classes: tuple[str, ...] | None  # None: the names come from the imported copy
    class_count: int
    train: int
    test: int
    shape: tuple[int, int, int]  # channels, height, width
    mean: float
    std: float
    checksum: str | None  # of the canonical content; None where decoders may differ by a bit (JPEG)
    by_hand: str  # where a person finds it without us
    licence: str


BUILT_IN: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="digits",
            description="handwritten digits, small (inside scikit-learn)",
            classes=labels.DIGITS,
            class_count=10,
            train=1435,
            test=362,
            shape=(1, 8, 8),
            mean=0.0,
            std=16.0,
            checksum="929f7f527eebd7ad4ec06630591de3ffd2e54fa8584058c6f3312ec1d57b15ca",
            by_hand="scikit-learn",
            licence="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI; CC BY 4.0",
        ),
        Entry(
            name="mnist",
            description="handwritten digits",
            classes=labels.DIGITS,
            class_count=10,
            train=60000,
            test=10000,
            shape=(1, 28, 28),
            mean=0.1307 * 255,
            std=0.3081 * 255,
            checksum="3ab77f3bc7d9dfb791a50a085247bf294d855f18c89ac647c8ac982e5ff8c6e4",
            by_hand="https://storage.googleapis.com/cvdf-datasets/mnist/ (four .gz files)",
            licence="LeCun, Cortes and Burges 1998, The MNIST database of handwritten digits; CC BY-SA 3.0",
        ),
        Entry(
            name="cifar10",
            description="small photographs of 10 things",
            classes=labels.CIFAR10,
            class_count=10,
            train=50000,
            test=10000,
            shape=(3, 32, 32),
            mean=RGB_MEAN,
            std=RGB_STD,
            checksum="e0712b0d43db59fbfa495727bdb6028e6016105e86222268d64eaed8beb1bd74",
            by_hand="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            licence="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images; no licence stated",
        ),
        Entry(
            name="cifar100",
            description="small photographs of 100 things (fine labels)",
            classes=labels.CIFAR100,
            class_count=100,
            train=50000,
            test=10000,
            shape=(3, 32, 32),
            mean=RGB_MEAN,
            std=RGB_STD,
            checksum="04be86049ad79d372f9221ff2c358041e412195de85bb3c17d4ea97a57340835",
            by_hand="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            licence="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images; no licence stated",
        ),
        Entry(
            name="mini_imagenet",
            description="photographs of 100 things, 600 each (import only)",
            classes=None,
            class_count=100,
            train=48000,
            test=12000,
            shape=(3, 84, 84),
            mean=RGB_MEAN,
            std=RGB_STD,
            checksum=None,
            by_hand="https://image-net.org (ILSVRC 2012), as images/ with train.csv, val.csv and test.csv "
            "or as a folder per class",
            licence="Vinyals et al. 2016, Matching Networks for One Shot Learning; ImageNet's terms (research only)",
        ),
    )
}


def mend(name: str) -> str:
    """The command that puts a good copy of a dataset in place of a bad one."""
    gettable = name in BUILT_IN and name != "mini_imagenet"
    return f"`mnemon data get {name}`" if gettable else f"`mnemon data import {name} PATH`"
