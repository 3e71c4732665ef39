"""What a run learns from and is tested on: a dataset on a device, a stream over it, the test sets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mnemon import data, streams
from mnemon.data.arrays import samples
from mnemon.data.library import stamp
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.spec import Spec
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import Choice
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import backbone_for
from mnemon.runtime.warn import warn
from mnemon.streams.stream import digest

DARKEST, LARGEST = 64, 20.0  # of uint8 the least maximum, of floats the largest value that needs no notice


@dataclass(frozen=True)
class Scenario:
    """What one run learns from: samples on the device, their order, and the sets it is tested on."""

    name: str
    stream: streams.Stream  # indices point into x
    x: Tensor
    y: NDArray[Any]  # labels of x
    x_test: Tensor
    y_test: NDArray[Any]
    tested: tuple[tuple[Any, ...], ...]  # the labels of each evaluated task
    inputs: Inputs
    backbone: Backbone
    data: dict[str, str]  # name and checksum of the dataset


def named_scenario(
    stream: str, seed: int, *, epochs: int, split: str = "test", order: str = "natural", device: torch.device
) -> Scenario:
    """The paper's protocol for a stream's name; `epochs` above 0 shuffles the same samples (i.i.d.)."""
    name = protocol.parse(stream)
    dataset = _resident(name.dataset, device, stamp(name.dataset))
    labels = dataset.y_train.numpy()  # labels stay on the host, samples live on the device
    parts = protocol.partition(labels, name.rules, seed)
    made = protocol.make(name, labels[parts.train], seed, order)
    base = replace(made, indices=parts.train[made.indices])
    if split == "test":
        x_test, y_test = dataset.x_test, dataset.y_test.numpy()
    else:
        x_test, y_test = dataset.x_train[parts.valid], labels[parts.valid]
    return Scenario(
        name=str(name),
        stream=shuffled(base, labels, epochs, seed),
        x=dataset.x_train,
        y=labels,
        x_test=x_test,
        y_test=y_test,
        tested=base.tasks,
        inputs=Inputs(tuple(dataset.x_train.shape[1:]), dataset.x_train.dtype, dataset.mean, dataset.std),
        backbone=name.rules.backbone,
        data={"name": dataset.name, "checksum": dataset.checksum},
    )


def make_scenario(spec: Spec, choice: Choice, device: torch.device) -> Scenario:
    """The scenario that a spec names."""
    scenario = named_scenario(
        spec.stream, spec.seed, epochs=choice.method.epochs, split=spec.split, order=spec.order, device=device
    )
    return with_backbone(scenario, choice, spec.backbone)


def with_backbone(scenario: Scenario, choice: Choice, given: Backbone | None) -> Scenario:
    """The scenario with the backbone that is given, or else the method's own, or the dataset's."""
    return replace(
        scenario, backbone=backbone_for(choice.method, given, scenario.inputs.shape, usual=scenario.backbone)
    )


def dataset_checksum(stream: str, device: torch.device) -> str:
    """Of the dataset behind a stream's name."""
    name = protocol.parse(stream).dataset
    return _verified(name, device, stamp(name))


@lru_cache(maxsize=2)
def _resident(name: str, device: torch.device, stored: object) -> data.Dataset:
    """A dataset, moved to the device."""
    dataset = data.load(name)
    return replace(dataset, x_train=dataset.x_train.to(device), x_test=dataset.x_test.to(device))


@lru_cache
def _verified(name: str, device: torch.device, stored: object) -> str:
    """Read and verified once for all runs of a process, until another dataset is stored under the name."""
    return _resident(name, device, stored).checksum


def shuffled(base: streams.Stream, labels: NDArray[Any], epochs: int, seed: int) -> streams.Stream:
    """The same samples i.i.d., for the methods that want that; other methods get the stream as it is."""
    if epochs == 0:
        return base
    made = streams.iid(labels[base.indices], epochs=epochs, seed=seed)
    return replace(made, indices=base.indices[made.indices])


def array_scenario(
    stream: streams.Stream, arrays: tuple[ArrayLike, ...], seed: int, *, epochs: int, device: torch.device
) -> Scenario:
    """A stream object over the caller's own arrays (x, y, x_test, y_test)."""
    if not isinstance(arrays, list | tuple) or len(arrays) != 4:
        raise MnemonError("data is a tuple of four arrays: x, y, x_test, y_test.")
    x, x_test = samples(arrays[0], "x"), samples(arrays[2], "x_test")
    y, y_test = np.asarray(arrays[1]), np.asarray(arrays[3])
    for images, labels, what in ((x, y, "x and y"), (x_test, y_test, "x_test and y_test")):
        if labels.ndim != 1 or len(images) != len(labels):
            raise MnemonError(
                f"{what} must have one label a sample, not {len(images)} samples and labels {labels.shape}."
            )
    if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
        raise MnemonError(f"x holds {_what(x)} and x_test {_what(x_test)}; they must be of one kind.")
    if len(stream.indices) and int(stream.indices.max()) >= len(x):
        raise MnemonError(f"the stream points to sample {int(stream.indices.max())}, but x has only {len(x)}.")
    _check_arrivals(stream, y)
    _notice_scale(x)
    for number, classes in enumerate(stream.tasks, 1):
        for label in classes:
            if not (y_test == label).any():
                raise MnemonError(f"class {label!r} of task {number} is empty: x_test has no sample of it.")
    tested = [label for classes in stream.tasks for label in classes]
    if unseen := int((~np.isin(y_test, tested)).sum()):
        warn(f"{unseen} of {len(y_test)} test samples are of classes that the stream does not have; they are left out.")
    pixels = (
        Inputs(tuple(x.shape[1:]), x.dtype) if x.dtype == torch.uint8 else Inputs(tuple(x.shape[1:]), x.dtype, 0, 1)
    )
    return Scenario(
        name=stream.kind,
        stream=shuffled(stream, y, epochs, seed),
        x=x.to(device),
        y=y,
        x_test=x_test.to(device),
        y_test=y_test,
        tested=stream.tasks,
        inputs=pixels,
        backbone="auto",
        data={"name": "arrays", "checksum": _checksum(x, y, x_test, y_test), "stream": _checksum(stream.indices)},
    )


def _check_arrivals(stream: streams.Stream, y: NDArray[Any]) -> None:
    """Refuse a stream that was made from other labels than y."""
    remedy = (
        "the stream was made from other labels, or from these before they were shuffled; make it from the y of data."
    )
    arriving = y[stream.indices]
    if len(stream.boundaries) == len(stream.tasks):
        for number, (start, stop) in enumerate(zip((0, *stream.boundaries), stream.boundaries, strict=False), 1):
            foreign = np.flatnonzero(~np.isin(arriving[start:stop], stream.tasks[number - 1]))
            if len(foreign):
                label = arriving[start:stop][foreign[:1]].tolist()[0]
                raise MnemonError(f"task {number} has a sample of the class {label!r}, which is none of its: {remedy}")
    if stream.arrivals and stream.arrivals != digest(arriving):
        raise MnemonError(f"the samples do not have the classes in which the stream lets them arrive: {remedy}")


def _notice_scale(x: Tensor) -> None:
    """Warn of samples that the network would see in a small part of its range, or far beyond it: nothing scales them."""
    most = float(x.abs().max())
    if x.dtype == torch.uint8 and most < DARKEST:
        warn(
            f"x is uint8 and its largest value is {most:g}: uint8 is taken for pixels from 0 to 255, which become −1 to 1; "
            "pass numbers of another range as floats from about −1 to 1."
        )
    elif x.dtype != torch.uint8 and most > LARGEST:
        warn(
            f"x has floats as large as {most:g}, which are taken as they are; scale them to about −1 to 1 (x / 255 for "
            "pixels), or training may diverge."
        )


def _checksum(*arrays: Tensor | NDArray[Any]) -> str:
    """SHA-256 of the caller's arrays, so that a record says what it was made from."""
    digest = hashlib.sha256()
    for array in arrays:
        a = array.numpy() if isinstance(array, Tensor) else array.astype(str)  # labels may be of any type
        digest.update(f"{a.dtype.str} {a.shape}\n".encode() + a.tobytes())
    return digest.hexdigest()


def _what(x: Tensor) -> str:
    return f"samples of shape {tuple(x.shape[1:])} and type {str(x.dtype).removeprefix('torch.')}"
