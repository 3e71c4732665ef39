"""Small images a model can learn at once: each class has its colour, each file its noise."""

import numpy as np
from PIL import Image

COLOURS = {
    "red": (200, 40, 40),
    "green": (40, 180, 60),
    "blue": (40, 60, 200),
    "grey": (128, 128, 128),
    "yellow": (220, 210, 40),
}


def pixels(label, number, size=14):
    rng = np.random.default_rng([list(COLOURS).index(label), number])
    noise = rng.integers(-40, 41, (size, size, 3))
    return (np.array(COLOURS[label]) + noise).clip(0, 255).astype(np.uint8)


def make(folder, classes=("red", "green", "blue"), each=20, start=0):
    """FOLDER/class/0000.png …"""
    for label in classes:
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(start, start + each):
            Image.fromarray(pixels(label, number)).save(folder / label / f"{number:04d}.png")
    return folder
