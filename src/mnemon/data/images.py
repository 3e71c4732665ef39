"""Reading image files: any common format to uint8 RGB of one size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mnemon.data.canonical import Pixels
from mnemon.errors import MnemonError
from mnemon.runtime.progress import SILENT, Progress

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".webp", ".gif", ".ppm", ".tif", ".tiff"})
KINDS = "png, jpg, bmp, webp, gif, ppm or tiff"  # as a person calls them
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "PPM", "TIFF")  # what Pillow may take a file for
MAX_SIZE = 1024  # pixels a side
MAX_BYTES = 1 << 33  # of all images together, in memory


def is_image(path: Path) -> bool:
    """By its name. A broken link counts, so that reading it names it instead of passing over it in silence."""
    named = path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")
    return named and (path.is_file() or path.is_symlink())


def read_image(path: Path, size: int | None = None) -> NDArray[np.uint8]:
    """One image as [3, height, width]; with `size`, its short side resized to `size` and the centre square cut out."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return decode_image(path, str(path), size)


def decode_image(
    source: Path | BinaryIO,
    name: str,
    size: int | None = None,
    *,
    formats: tuple[str, ...] = FORMATS,
    most: int | None = None,
    spend: Callable[[int], None] = lambda pixels: None,
    draft: bool = False,
) -> NDArray[np.uint8]:
    """`read_image` of a file or a stream of bytes that errors call `name`; `most` pixels are decoded, as its header says, and
    `spend` hears before how many. `draft`: a JPEG is read at a scale that still has twice the pixels of `size`."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(source, formats=formats) as file:
            if most is not None and file.width * file.height > most:
                raise MnemonError(f"{name} has {file.width * file.height:,} pixels, and {most:,} are the limit.")
            if file.mode.startswith(("I", "F")):
                raise MnemonError(f"{name} has pixels of more than 8 bits; convert it to 8 bits a channel first.")
            if draft and size is not None:
                file.draft(None, (2 * size, 2 * size))
            spend(file.width * file.height)
            image = _square(_rgb(ImageOps.exif_transpose(file)), size)
            pixels: NDArray[np.uint8] = np.asarray(image)  # [height, width, 3]
    except MnemonError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MnemonError(f"{name} has more pixels than is safe to decode ({Image.MAX_IMAGE_PIXELS}).") from error
    except UnidentifiedImageError as error:  # its own words are the name again
        raise MnemonError(f"{name} is not a readable image (its format is not known).") from error
    except Exception as error:  # decoders raise whatever broken bytes lead them to
        raise MnemonError(f"{name} is not a readable image ({error}).") from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _rgb(image: Image) -> Image:
    """What is transparent is white, as on paper; the colour stored below it, mostly black, is not meant to be seen."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    from PIL import Image as images

    seen = image.convert("LA" if image.mode == "La" else "RGBA").convert("RGBA")  # Pillow knows no other way from La
    return images.alpha_composite(images.new("RGBA", seen.size, "white"), seen).convert("RGB")


def _square(image: Image, size: int | None) -> Image:
    from PIL.Image import Resampling

    if size is None or image.size == (size, size):
        return image
    short = min(image.size)
    width, height = (max(size, side * size // short) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    resized = image.resize((width, height), Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))


def check_size(size: int | None) -> None:
    if size is not None and not 1 <= size <= MAX_SIZE:
        raise MnemonError(f"size must be between 1 and {MAX_SIZE} pixels, not {size}.")


def read_images(
    files: Sequence[Path], size: int | None, progress: Progress = SILENT, *, text: str = "decode"
) -> Pixels:
    """Images as [n, 3, height, width], all of the first one's size or of `size`."""
    check_size(size)
    first = read_image(files[0], size)
    if len(files) * first.nbytes > MAX_BYTES:
        raise MnemonError(
            f"{len(files)} images of {_extent(first)} pixels do not fit in memory; give a smaller --size, say 84."
        )
    x = np.empty((len(files), *first.shape), dtype=np.uint8)
    with progress.stage(text, len(files)) as bar:
        for row, file in enumerate(files):
            image = read_image(file, size)
            if image.shape != first.shape:
                raise MnemonError(
                    f"{files[0]} has {_extent(first)} pixels and {file} has {_extent(image)}; "
                    "give --size (say 32) to bring all images to one size."
                )
            x[row] = image
            bar.advance(1)
    return x


def _extent(image: Pixels) -> str:
    _, height, width = image.shape
    return f"{width}x{height}"
