"""A model that has learned a few handwritten digits, to be taught the others in the browser."""

from __future__ import annotations

import numpy as np

from mnemon.data.layout import channels_last
from mnemon.data.library import load
from mnemon.serve.service import Service

CLASSES = 5  # 0 to 4; the others are the user's
EACH = 60  # samples of a class
PART = 10  # samples in a request: the learning curve has a point for each
OPTIONS = {"memory_size": 300}  # a network, whose memory the page shows as thumbnails
GREY = 255 / 16  # the values are 0 to 16, a drawing's 0 to 255


def teach(service: Service) -> int:
    """Teach the digits 0 to 4, mixed; how many samples these are. Returns when they are published."""
    digits = load("digits")
    y = digits.y_train.numpy()
    rng = np.random.default_rng(0)
    found = np.stack([np.flatnonzero(y == c)[:EACH] for c in range(CLASSES)])  # [classes, EACH]
    chosen = np.concatenate([found[:, 0], rng.permutation(found[:, 1:].ravel())])  # the classes come in order
    pixels = np.rint(digits.x_train.numpy()[chosen] * GREY).astype(np.uint8)  # [n, 1, 8, 8]
    for start in range(0, len(chosen), PART):
        part = slice(start, start + PART)
        labels = [str(label) for label in y[chosen[part]]]
        ack = service.learn(channels_last(pixels[part].transpose(0, 2, 3, 1)), labels)
        service.learning.wait(ack.position, published=True).result()
    return len(chosen)
