"""What must be known of a dataset. Each one has a file in `datasets/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mnemon.data.canonical import Content
from mnemon.data.fetch import Source
from mnemon.runtime.progress import Progress


class Rules(NamedTuple):
    """What the paper fixes for a dataset (its Tables 5 and 6). The defaults are for imported image folders."""

    # Numbers of Split tasks, the default first; none: two classes each, from 100 classes on 10.
    tasks: tuple[int, ...] = ()
    train: int = 0  # training samples per class drawn for each run; 0: all that do not validate
    valid: float = 0.05  # share of the training samples that validate (their number per class, where `train` is set)
    smooth: int = 0  # Smooth: mean number of samples of one class, n0; 0: 5/6 of the smallest class
    memory: int = 1000
    backbone: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A dataset that is known by name. It is downloaded (`sources`), imported (`read`) or part of an installed package
    (`bundled`)."""

    name: str
    title: str  # as people write it
    description: str
    licence: str
    classes: tuple[str, ...] | None  # the name of each label; None: an imported copy brings them
    class_count: int
    train: int  # images
    test: int
    shape: tuple[int, int, int]  # channels, height, width
    mean: float = 127.5  # network input = (pixel - mean) / std, in pixel units; as here, 0..255 becomes [-1, 1]
    std: float = 127.5
    checksum: str | None = None  # of the canonical content; None: not pinned
    # In how they were resized or decoded: a copy with another checksum is reported, not refused.
    copies_differ: bool = False
    by_hand: str = ""  # where a person finds the files
    rules: Rules
    sources: Callable[[Progress], Sequence[Source]] | None = None  # tried in turn
    read: Callable[[Path, Progress], Content] | None = None  # from a local copy
    bundled: Callable[[], tuple[Content, Path]] | None = None  # the content, and the file that holds it
