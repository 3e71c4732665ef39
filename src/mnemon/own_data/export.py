"""A model as one file that needs no mnemon: ONNX, or PyTorch's own format.

In it: normalisation, features, the classifier (class means, class rows or a discriminant) and the label table. Its input is
what `predict` takes: images [n, height, width, channels] as uint8, or vectors [n, features] as float32; n is any number. Its
outputs: `index` [n], the row of the label table; `probabilities` [n, classes] as predict_proba gives them; `features` [n, d].
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mnemon
from mnemon import files
from mnemon.errors import MnemonError, check_known
from mnemon.estimator import OnlineClassifier
from mnemon.estimator.frozen import Frozen
from mnemon.estimator.predicting import NotFitted
from mnemon.own_data.places import check_no_model

OUTPUTS = ("index", "probabilities", "features")


class Face(nn.Module):
    """What the exported model computes, raw samples to answers."""

    def __init__(self, frozen: Frozen) -> None:
        super().__init__()
        self.net = frozen.net  # as a part of this module, so that its weights are exported as weights
        self.frozen = frozen

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.ndim == 4:
            x = x.permute(0, 3, 1, 2)
        out = self.frozen.forward(x)
        scores = self.frozen.classify(out)
        probabilities = torch.softmax(self.frozen.calibrated(x, out), 1).to(scores.dtype)
        return scores.argmax(1), probabilities, out.features


def export(model: Path, out: Path | None = None, *, format: str = "onnx") -> Path:
    """Write the model in the folder `model` to `out` (MODEL.onnx or MODEL.pt2 beside the folder)."""
    _check(format)
    path = out or _beside(model, FORMATS[format][0])
    write(OnlineClassifier.load(model, device="cpu"), path, format=format)
    return path


def write(classifier: OnlineClassifier, path: str | os.PathLike[str], *, format: str = "onnx") -> None:
    """Write what a classifier has learned to the file `path`: whole or not at all. It must be on the CPU."""
    fill, path = _check(format), Path(path)
    if not classifier.__sklearn_is_fitted__():
        raise NotFitted("there is nothing to export before something was learned.")
    if path.is_dir() or not path.parent.is_dir():
        raise MnemonError(f"{path} cannot be written: it is a folder, or its folder is not there.")
    check_no_model(path)
    frozen = classifier._model.frozen()
    program = _program(frozen)
    with files.explained(f"{path} could not be written"):
        files.replace(path, lambda part: fill(program, part, _about(frozen)))


def _check(format: str) -> Fill:
    """What writes the format, if all it needs is here."""
    check_known("format", format, FORMATS)
    _, needs, fill = FORMATS[format]
    for name in needs:
        try:
            importlib.import_module(name)
        except ImportError:
            raise MnemonError(f"exporting to {format} needs the extra: pip install 'mnemon[export]'.") from None
    return fill


def _beside(model: Path, suffix: str) -> Path:
    """models/birds → models/birds.onnx"""
    folder = model if model.name else model.resolve()  # "." has no name
    return folder.with_name(folder.name + suffix)


def _program(frozen: Frozen) -> torch.export.ExportedProgram:
    shape, dtype, *_ = frozen.inputs
    if len(shape) == 3:
        shape = (*shape[1:], shape[0])
    example = torch.zeros((2, *shape), dtype=dtype)
    # The temperature is computed now, so that what is exported holds its numbers only.
    frozen.probabilities(torch.zeros(1, *frozen.inputs.shape, dtype=dtype))
    return torch.export.export(Face(frozen).eval(), (example,), dynamic_shapes=({0: torch.export.Dim("n")},))


def _about(frozen: Frozen) -> dict[str, str]:
    """The label table, as JSON: output `index` is a position in it; and of an open table what its columns hold."""
    about = {"labels": json.dumps(frozen.labels), "mnemon": mnemon.__version__}
    return about if frozen.table is None else about | {"table": json.dumps(frozen.table.as_json())}


def _onnx(program: torch.export.ExportedProgram, path: Path, about: dict[str, str]) -> None:
    import onnx

    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = [f"output_{name}" for name in OUTPUTS]
            made = torch.onnx.export(
                program, dynamo=True, input_names=["x"], output_names=names, verbose=False, external_data=False
            )
    finally:
        logger.setLevel(level)
    assert made is not None
    proto = made.model_proto
    for name, value in about.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = name, value
    _name_the_outputs(proto)
    _name_the_rows(proto)
    onnx.checker.check_model(proto)
    path.write_bytes(proto.SerializeToString())


def _name_the_outputs(proto: Any) -> None:
    """Not left to the exporter, which does not see that a value inside, named after its operation, has such a name already."""
    graph = proto.graph
    new = {name: f"{name}_inside" for name in OUTPUTS}
    new |= {output.name: name for output, name in zip(graph.output, OUTPUTS, strict=True)}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
    for value in (*graph.output, *graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)


def _name_the_rows(proto: Any) -> None:
    """The free dimension is called n, not by the tracer's symbol."""
    old = proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == old:
                dim.dim_param = "n"


def _torch(program: torch.export.ExportedProgram, path: Path, about: dict[str, str]) -> None:
    program.example_inputs = None  # the only thing PyTorch would pickle into the file
    file = BytesIO()  # PyTorch's own writer ends the whole process where a disk is full
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, file, extra_files={f"{name}.json": value for name, value in about.items()})
    path.write_bytes(file.getbuffer())


Fill = Callable[[torch.export.ExportedProgram, Path, dict[str, str]], None]
FORMATS: dict[str, tuple[str, tuple[str, ...], Fill]] = {
    "onnx": (".onnx", ("onnx", "onnxscript"), _onnx),
    "torch": (".pt2", (), _torch),
}
