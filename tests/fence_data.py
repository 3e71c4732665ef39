"""What the fixtures of version 0.1 were made from: samples by whole-number arithmetic, the same on every machine, and a
method and a network of one's own. `fixtures/v0_1/make.py` and `test_fence.py` share them."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import safetensors.numpy
import torch

# The internal names this file needs; a rename changes these lines and no other.
from mnemon.learning.method import Method

WORDS = ("oak", "elm", "ash", "fir")
SIDES = {"dots": 2, "small": 6, "large": 25}  # pixels; from 25 on the network is a ResNet-18


class Few(Method):
    """ER that replays half of what it drew: somebody's own."""

    name = "few"

    def retrieve(self, learner, new, draws):
        rows = draws["replay"]
        return learner.replay(rows[: len(rows) // 2]) if len(rows) > 1 else None


def network():
    """A network of one's own, for `vectors`; with BatchNorm, which has buffers."""
    return torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU())


def image_network():
    """One for images of 2 × 2 pixels."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))


def vectors(start, n, classes=3):
    """Samples start … start+n−1 of 5 features around the centre of their class: (x, class numbers)."""
    i, j = np.arange(start, start + n)[:, None], np.arange(5)
    c = i % classes
    x = ((c * 37 + j * 53 + c * j * 5) % 17) / 4 + ((i * 31 + j * 17 + i * j * 3) % 23) / 8
    return x.astype(np.float32), c[:, 0]


def images(start, n, side, classes=3):
    """Square images (n, side, side, 3): each class its colour, each image brighter or darker blocks of 5 × 5 pixels."""
    i, channel = np.arange(start, start + n)[:, None, None, None], np.arange(3)
    row, column = np.arange(side)[:, None, None] // 5, np.arange(side)[:, None] // 5
    c = i % classes
    x = ((c * 83 + channel * 59) % 160) + ((i * 31 + row * 17 + column * 29) % 13) * 6
    return x.astype(np.uint8), c[:, 0, 0, 0]


def sizes(folder):
    """The mean absolute value of each tensor of a saved model: nothing it learned hides behind what it predicts."""
    newest = sorted(folder.glob("*.safetensors"))[-1]
    tensors = safetensors.numpy.load_file(newest).items()
    finite = {name: np.abs(t[np.isfinite(t)].astype(np.float64)) for name, t in tensors}
    return {name: float(f"{values.mean() if values.size else 0:.7g}") for name, values in sorted(finite.items())}


class Kind(NamedTuple):
    """A saved model: how it is made, and the samples it learns."""

    params: dict
    data: str = "vectors"  # vectors, frame, or images: dots, small or large
    labels: str = "int"  # int, word or bool

    def samples(self, start, n, classes=3):
        """Samples and labels as this model takes them."""
        if self.labels == "bool":
            classes = 2
        if self.data in SIDES:
            x, c = images(start, n, SIDES[self.data], classes)
        else:
            x, c = vectors(start, n, classes)
        if self.data == "frame":
            x = pd.DataFrame(x, columns=["a", "b", "c", "d", "e"])
        return x, {"int": lambda k: 10 * int(k), "word": lambda k: WORDS[k], "bool": bool}[self.labels], c

    def lesson(self, start, n, classes=3):
        """(x, y) for `partial_fit`."""
        x, name, c = self.samples(start, n, classes)
        return x, [name(k) for k in c]


def tiny(method="hybrid", **more):
    """A memory larger than what is replayed, so that the draws show."""
    made = {"method": method, "backbone": "identity", "memory_size": 8, "replay_size": 4, "device": "cpu", "seed": 3}
    return made | more


# One of each kind of input, network and label, then one of each method, and other losses and classifiers.
KINDS = {
    "vectors-mlp": Kind(tiny(backbone="mlp")),
    "images-mlp": Kind(tiny("er", backbone="auto", lr=0.1), "small", "word"),
    "images-resnet": Kind(tiny("er", backbone="auto", memory_size=6, batch_size=5), "large", "word"),
    "frame-identity-words": Kind(tiny(), "frame", "word"),
    "vectors-identity-bools": Kind(tiny("er"), labels="bool"),
    "own-network": Kind(tiny(backbone=network)),
    "own-method": Kind(tiny(Few)),
    "er-ms": Kind(tiny("er", loss="ms", classifier="ncm-raw")),
    "er-pnca-proxy": Kind(tiny("er", loss="pnca", classifier="proxy")),
    "hybrid-gamma-lr": Kind(tiny(classifier="proxy", gamma=0.5, lr=0.02, batch_size=4, replay_size=6)),
    "a-gem": Kind(tiny("a-gem")),
    "aser": Kind(tiny("aser")),
    "cope": Kind(tiny("cope")),
    "der++": Kind(tiny("der++"), labels="word"),
    "er-ace": Kind(tiny("er-ace")),
    "fine-tune": Kind({k: v for k, v in tiny("fine-tune").items() if k != "memory_size"}),
    "gmed-er": Kind(tiny("gmed-er")),
    "gmed-mir": Kind(tiny("gmed-mir")),
    "gss": Kind(tiny("gss")),
    "hybrid-ace": Kind(tiny("hybrid-ace", backbone=network)),
    "las": Kind(tiny("las")),
    "mir": Kind(tiny("mir")),
    "scr": Kind(tiny("scr", backbone=image_network), "dots"),
}
# Code is handed over again when a model is loaded.
CODE = {"own-network": {"backbone": network}, "own-method": {"method": Few}}
CODE |= {"hybrid-ace": {"backbone": network}, "scr": {"backbone": image_network}}
FITTED = Kind({}, "small", "word")  # the model of `mnemon fit`
FIRST, MORE, ASKED = (0, 40), (40, 30), (1000, 100)  # samples: learned before saving, learned on, predicted …
ANSWERS = 8  # … and how many of these are compared

FINISHED = ["--method", "er", "--stream", "split-digits", "--classifier", "softmax,ncm", "--backbone", "identity"]
FINISHED += ["--memory-size", "20", "--seeds", "2", "--device", "cpu", "--cell", "fence"]
UNFINISHED = ["--method", "hybrid", "--stream", "split-digits", "--classifier", "ncm,proxy", "--backbone", "identity"]
UNFINISHED += ["--memory-size", "20", "--seeds", "7-7", "--device", "cpu", "--cell", "fence"]
PRUNED = ["--method", "er", "--stream", "split-digits", "--classifier", "softmax,ncm", "--memory-size", "20"]
PRUNED += ["--lr", "0.1", "--seeds", "5-5", "--device", "cpu", "--cell", "fence"]
