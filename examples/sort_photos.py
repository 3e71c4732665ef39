"""Job 1, sorting photos: `mnemon fit` learns one folder per class, and later new ones; slda on patches, then a network."""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import mnemon
from mnemon.cli import main as command_line

SIZE = 16  # pixels per side
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def photos():
    """Return handwritten digits as grey photos of SIZE × SIZE pixels, with their names: 1,200 to learn, 597 to test."""
    x, y = load_digits(return_X_y=True)
    images = [Image.fromarray((row.reshape(8, 8) * 15.9).astype(np.uint8)) for row in x]
    return [image.resize((SIZE, SIZE), Image.Resampling.BICUBIC) for image in images], NAMES[y]


def write_folder(root, images, labels):
    """Write files such as photos/two/0007.png: a folder per class, as `mnemon fit` reads it."""
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = root / label
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{i:04d}.png")


def main():
    images, labels = photos()
    early = np.isin(labels, NAMES[:6])  # four classes appear later
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        for name, part in (("first", early), ("later", ~early)):
            rows = np.flatnonzero(part[:1200])
            write_folder(root / name, [images[i] for i in rows], labels[rows])
        model = root / "model"
        options = f"--method slda --backbone patches:filters=64 --size {SIZE}"  # fixed by the first fit
        for arguments in (f"fit {root}/first --out {model} {options}", f"fit {root}/later --out {model}"):
            print(f"$ mnemon {arguments.replace(f'{root}/', '')}")
            command_line([*arguments.split(), "--quiet"])
        sorter = mnemon.OnlineClassifier.load(model)

    x = np.stack(
        [np.asarray(image.convert("RGB")) for image in images]
    )  # [n, height, width, channels], as fit reads them
    accuracy = sorter.score(x[1200:], labels[1200:])
    print(f"slda on patches: {accuracy:.1%} of {len(x) - 1200} new photos")

    network = mnemon.OnlineClassifier("hybrid", memory_size=300)  # below 25 pixels an MLP, above a ResNet-18
    for part in (early, ~early):
        rows = np.flatnonzero(part[:1200])
        network.partial_fit(x[rows], labels[rows])
    print(f"a network that keeps 300 photos: {network.score(x[1200:], labels[1200:]):.1%}")
    return accuracy


if __name__ == "__main__":
    main()
