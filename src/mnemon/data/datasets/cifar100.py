"""CIFAR-100: the binary archive."""

from __future__ import annotations

from functools import partial

from mnemon.data import cifar
from mnemon.data.definition import Definition, Rules
from mnemon.data.fetch import Remote

LAYOUT = cifar.Layout(
    name="cifar100",
    remote=Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        168513733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    folder="cifar-100-binary",
    train=("train.bin",),
    test=("test.bin",),
    rows=50000,
    label_bytes=2,  # coarse, fine
    pickles=frozenset({"train", "test", "meta", "cifar-100-python"}),
)

# fmt: off
CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver",
    "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly",
    "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach",
    "couch", "crab", "crocodile", "cup", "dinosaur",
    "dolphin", "elephant", "flatfish", "forest", "fox",
    "girl", "hamster", "house", "kangaroo", "keyboard",
    "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain",
    "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree",
    "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket",
    "rose", "sea", "seal", "shark", "shrew",
    "skunk", "skyscraper", "snail", "snake", "spider",
    "squirrel", "streetcar", "sunflower", "sweet_pepper", "table",
    "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe",
    "whale", "willow_tree", "wolf", "woman", "worm",
)
# fmt: on

CIFAR100 = Definition(
    name="cifar100",
    title="CIFAR-100",
    description="small photographs of 100 things (fine labels)",
    licence="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images; no licence stated",
    classes=CLASSES,
    class_count=100,
    train=50000,
    test=10000,
    shape=(3, 32, 32),
    checksum="04be86049ad79d372f9221ff2c358041e412195de85bb3c17d4ea97a57340835",
    by_hand=LAYOUT.remote.url,
    rules=Rules(tasks=(10, 20), smooth=400),
    sources=lambda progress: [cifar.source(LAYOUT, progress)],
    read=partial(cifar.read, LAYOUT),
)
