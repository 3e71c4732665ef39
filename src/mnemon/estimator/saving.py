"""An OnlineClassifier on disk: a folder with one checkpoint, from which learning goes on bit for bit.

Nothing in it can run code, so what is code (a network or a method of one's own) is handed over again when loading. A model
may come from an untrusted source: each value and each shape is checked before anything is built from it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from torch import Tensor

import mnemon
from mnemon import checkpoint
from mnemon.errors import MnemonError
from mnemon.estimator import values as value
from mnemon.estimator.auto import AUTO
from mnemon.estimator.model import MAX_CLASSES, Model, exam_of
from mnemon.estimator.parameters import ADDED, FLOAT32, check_half_life, exam, same
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.table import Table
from mnemon.files import is_clutter
from mnemon.learning import methods
from mnemon.learning.backbones import PatchFeatures
from mnemon.learning.build import choose, meaningless
from mnemon.learning.labels import LabelTable
from mnemon.learning.learner import Inputs
from mnemon.learning.method import Method
from mnemon.runtime import modes
from mnemon.runtime.device import choose_device

KIND, VERSION = "online-classifier", 1
DTYPES = {"uint8": (torch.uint8, "U8"), "float32": (torch.float32, "F32")}
ELSEWHERE = ("method", "backbone", "average")  # parameters that are stated apart, the last one among the options
COUNTS = 2**53  # samples, steps: any whole number JSON holds exactly
LARGEST_WEIGHT = 1e30  # of a network: beyond it the next product is not finite
PART = "part."  # tensors of what the model keeps beside its learner
BESIDE = "beside."  # tensors that are not the model's, but were saved in the same breath
LOCK = ".saving.lock"  # two that save at once would write into each other's files; `mnemon fit` holds a lock of its own
# What else the folder of a model may hold.
OTHERS = re.compile(r"log\.json|\.(saving\.)?lock|\.log\.json\..*\.part|\.?journal\.sqlite.*")
DAMAGE = (  # what reading a file that is not as it was written can raise
    OSError,
    safetensors.SafetensorError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    OverflowError,
    UnicodeError,
)


class Loaded(NamedTuple):
    params: dict[str, Any]  # what the constructor takes
    model: Model
    beside: dict[str, Tensor]  # whatever `save` was given


def check_folder(folder: Path) -> None:
    """Refuse a folder with files of somebody else: saving removes old checkpoints, and nothing else must be near."""
    if folder.exists() and not folder.is_dir():
        raise MnemonError(f"{folder} is a file; a model is saved as a folder.")
    names = [path.name for path in folder.iterdir() if not is_clutter(path.name)] if folder.is_dir() else []
    foreign = [name for name in names if not checkpoint.belongs(name) and not OTHERS.fullmatch(name)]
    if foreign:
        raise MnemonError(f"{folder} holds other files ({foreign[0]} …); save the model in a folder of its own.")


@modes.usual
def save(
    path: str | os.PathLike[str],
    params: dict[str, Any],
    model: Model,
    beside: dict[str, Tensor] | None = None,
    number: int | None = None,
    mode: int = 0o666,
) -> None:
    """Write the model into the folder `path`: whole, or not at all; what was there before stays until then. `beside` is
    saved with it and given back by `load`: what somebody knows about this very state of the model. `number` is that of the
    checkpoint, which replaces those from there on; None: the next one. `mode` is that of the files, less the umask."""
    folder = Path(path)
    check_folder(folder)
    with checkpoint.alone(folder, LOCK), model.lock:  # a chunk is in it wholly or not
        method = model.choice.method
        values = {
            "kind": KIND,
            "version": VERSION,
            "mnemon": mnemon.__version__,
            "params": {name: _plain(given) for name, given in params.items() if _is_stated(name, given)},
            "method": method.name,
            "own method": methods.methods().get(method.name) is not type(method),
            "backbone": _named(params["backbone"], model),
            "loss": model.choice.objective.name,
            "classifier": model.choice.classifiers[0].name,
            "options": model.choice.options() | _average(method),
            "shape": list(model.inputs.shape),
            "dtype": str(model.inputs.dtype).removeprefix("torch."),
            "scaled": model.scaled,
            "names": model.names,
            "labels": model.labels.labels,
            "guarded": model.guarded,
            "steps": model.learner.steps,
            "samples": model.learner.samples,
        }
        if same(params["method"], AUTO):  # what it stood for is stated above; this is what was given
            values[AUTO] = {"backbone": params["backbone"] if isinstance(params["backbone"], str) else None}
        if model.table is not None:
            values["table"] = model.table.as_json()
        kept = {f"{PART}{name}.{key}": t for name, part in model.parts.items() for key, t in part.state().items()}
        tensors = model.learner.state() | kept | {f"{BESIDE}{name}": tensor for name, tensor in (beside or {}).items()}
        checkpoint.save(folder, number or checkpoint.newest(folder) + 1, tensors, values, mode=mode)


@modes.usual
def load(
    path: str | os.PathLike[str],
    names: list[str],
    *,
    backbone: Any = None,
    method: Any = None,
    device: Any = None,
    number: int | None = None,
) -> Loaded:
    """The model in the folder `path`; anything that is not exactly a saved model is a MnemonError. `names` are those of the
    constructor's parameters, `number` that of the checkpoint (None: the newest)."""
    folder = Path(path)
    asked, number = number, number or checkpoint.newest(folder)
    if number == 0:
        raise MnemonError(f"{folder} holds no saved model.")
    found = None
    try:
        found = checkpoint.read(folder, number, _check)
        loaded = _restored(found, backbone, method, device)
        _need(sorted(loaded.params) == sorted(names), "its parameters are others")
        return loaded
    except (MnemonError, MemoryError, PermissionError) as error:
        raise MnemonError(f"the model {folder} cannot be loaded: {error}") from None
    except DAMAGE as error:
        replaced = isinstance(error, FileNotFoundError) and checkpoint.newest(folder) != number
        if replaced and asked is None:  # as we read
            return load(path, names, backbone=backbone, method=method, device=device)
        back = "" if found else _way_back(folder, number)  # what could be read may be right, and what was given wrong
        raise MnemonError(f"the model {folder} cannot be loaded, it is damaged: {error}{back}") from None


def _way_back(folder: Path, damaged: int) -> str:
    """How to go back to the model before a damaged one, if that one is there and whole; going back is the owner's choice,
    since what was learned between the two would be learned again or lost."""
    number = checkpoint.before(folder, damaged)
    if number == 0:
        return ""
    try:
        checkpoint.read(folder, number, _check)
    except (MnemonError, MemoryError, *DAMAGE):
        return ""
    return f"; the one before it is whole: delete {damaged:010d}.json to go back to it."


def _check(values: dict[str, Any], shapes: checkpoint.Shapes) -> None:
    """All that decides how much will be allocated: it must be what the tensor file has the bytes for."""
    _need(isinstance(values, dict) and values.get("kind") == KIND, "it is not a saved OnlineClassifier")
    version = values["version"]
    _need(type(version) is int and version >= 1, "its version is not a number")
    if version > VERSION:
        raise MnemonError(
            f"it was saved by a newer mnemon (format {version}; this one reads up to {VERSION}): update mnemon."
        )
    shape, labels = values["shape"], values["labels"]
    _need(_is_list(shape, int) and len(shape) in (1, 3) and min(shape) > 0, "its samples have no shape")
    _need(int(np.prod([float(side) for side in shape])) <= value.MOST_VALUES, "its samples are too large")
    _need(values["dtype"] in DTYPES, "its samples have no type")
    _need(_is_list(labels, str, int, bool) and 0 < len(labels) <= MAX_CLASSES, "its labels are none")
    _need(
        all(type(values[name]) is int and 0 < values[name] < COUNTS for name in ("steps", "samples")),
        "its counts are none",
    )
    capacity = _size(shapes, "seen")
    _need(
        len(labels) <= capacity <= 2 * MAX_CLASSES and _size(shapes, "counts") == capacity, "its classes do not match"
    )
    for name in ("net.head_weight", "net.proxies", "net.prototypes", "net.prior"):
        _need(name not in shapes or _size(shapes, name) == capacity, "its class rows do not match its classes")
    _need(isinstance(values["options"], dict) and isinstance(values["params"], dict), "its parameters are none")
    sizes = [given for given in values["options"].values() if type(given) in (int, float)]
    _need(all(abs(size) <= FLOAT32 for size in sizes), "an option is out of range")
    memory = values["options"].get("memory_size", 0)
    kept, sides = shapes["memory.x"]
    _need(
        sides == (memory, *shape) and kept in (DTYPES[values["dtype"]][1], "F32"),
        "its memory does not match its samples",
    )
    _need(
        type(memory) is int and all(_is_scalar(given) for given in values["params"].values()), "a parameter is no value"
    )


def _restored(found: checkpoint.Checkpoint, backbone: Any, method: Any, device: Any) -> Loaded:
    _, tensors, values = found
    if values["backbone"] is None and backbone is None:
        raise MnemonError(
            "it was learned with a network of your own, which is code and not saved: load(path, backbone=...)."
        )
    if values["own method"] and method is None:
        raise MnemonError(
            f"its method {values['method']!r} is your own, which is code and not saved: load(path, method=...)."
        )
    if not values["own method"]:
        method = values["method"]
    given, as_given = backbone, values.get(AUTO)
    if backbone is None:
        given = backbone = values["backbone"]
    if as_given is not None:
        known = ({"backbone": AUTO}, {"backbone": values["backbone"]})
        _need(as_given in known and not values["own method"], "what auto stood for does not match")
        given = backbone if as_given["backbone"] is None else as_given["backbone"]
    options = dict(values["options"])
    if "average" not in meaningless(method if isinstance(method, type) else methods.method(method)):
        options.setdefault("average", "auto")  # mnemon 0.1 had no other, and did not state it
    params = (
        ADDED
        | values["params"]
        | {
            "method": method if as_given is None else AUTO,
            "backbone": given,
            "average": options.get("average", "auto"),
        }
    )
    if device is not None:
        params["device"] = device
    choice = choose(method, values["loss"], [values["classifier"]], options)
    dtype = DTYPES[values["dtype"]][0]
    shape = tuple(values["shape"])
    names = values["names"]
    _need(
        names is None or (_is_list(names, str, int) and shape == (len(names),)), "its features do not match their names"
    )
    table = Table.from_json(values["table"]) if "table" in values else None
    _need((table is not None) == (params["features"] == "open"), "its features are neither fixed nor open")
    _need(table is None or (shape == (table.width,) and names is None), "its features do not match its samples")
    _need(type(values["scaled"]) is bool, "its scaling is neither on nor off")
    _need(type(params["seed"]) is int, "its seed is none")
    guarded = values.get("guarded", False)  # as no model of mnemon 0.1 is
    _need(type(guarded) is bool, "it is neither guarded nor not")
    check_half_life(params["half_life"], type(choice.method))
    model = Model(
        choice,
        Inputs(shape, dtype) if dtype == torch.uint8 else Inputs(shape, dtype, 0.0, 1.0),
        scaled=values["scaled"],
        backbone=backbone,
        seed=params["seed"],
        device=choose_device(params["device"]),
        names=names,
        exam=exam(params["exam"]),
        half_life=params["half_life"],
        guarded=guarded,
        table=table,
    )
    beside = {name: tensors.pop(name) for name in list(tensors) if name.startswith(BESIDE)}
    kept = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PART)}
    model.learner.restore(tensors, steps=values["steps"], samples=values["samples"])
    model.labels = LabelTable(value.labels(values["labels"], "its list of labels"))
    _need(len(model.labels) == len(values["labels"]), "a label comes twice")
    model.n_classes = len(model.labels)
    for name, part in model.parts.items():
        prefix = f"{PART}{name}."
        own = {key.removeprefix(prefix): kept.pop(key) for key in list(kept) if key.startswith(prefix)}
        if own:
            part.restore(own, model.n_classes)
    model.n_seen = values["samples"] + len(exam_of(model.parts) or ())
    _need(not kept, "it keeps what its parameters do not ask for")
    _check_state(model)
    return Loaded(params, model, {name.removeprefix(BESIDE): tensor for name, tensor in beside.items()})


def _is_stated(name: str, given: Any) -> bool:
    """Whether a parameter is saved as one; at the meaning it has where it is absent, one that came later is not."""
    return name not in ELSEWHERE and not (name in ADDED and same(given, ADDED[name]))


def _named(given: Any, model: Model) -> str | None:
    """The name of the backbone that was built, where it has one: what "auto" stands for may change."""
    return model.backbone if isinstance(given, str) and isinstance(model.backbone, str) else None


def _average(method: Method) -> dict[str, Any]:
    """Always stated, off as well: a model that does not state it was saved by mnemon 0.1, and averages."""
    return {} if "average" in meaningless(type(method)) else {"average": method.average}


def _check_state(model: Model) -> None:
    """What learning and prediction rely on."""
    learner, classes, named = model.learner, model.n_classes, isinstance(model.backbone, str)
    for name, tensor in learner.state().items():
        if name.startswith("memory.") and name != "memory.x":
            continue  # what a method keeps beside a row may be infinite (DER++: logits of classes not seen then)
        if not tensor.is_floating_point():
            continue
        _need(bool(torch.isfinite(tensor).all()), f"{name} is not finite")
        if named and name.startswith(("net.", "average.", "velocity.")):  # a module of the user's may hold any number
            _need(not bool((tensor.abs() > LARGEST_WEIGHT).any()), f"{name} is out of range")
    rows = learner.memory.y[: learner.memory.size]
    _need(bool(((rows >= -1) & (rows < classes)).all()), "its memory holds a class without a label")
    _need(learner.memory.size == 0 or bool((rows >= 0).any()), "its memory is empty")
    _need(not bool(learner.seen[classes:].any()) and bool(learner.seen.any()), "its classes do not match")
    _need(
        bool((learner.counts >= 0).all()) and int(learner.counts.sum()) == learner.samples, "its counts do not add up"
    )
    if isinstance(learner, OnlineStatistics):
        waiting, sums = learner.waiting_y, learner.statistics
        _need(bool(((waiting >= 0) & (waiting < classes)).all()), "a sample that waits has no label")
        waits = 0 if learner.fitted else learner.samples
        _need(len(waiting) == waits and learner.fitted == (sums is not None), "what waits for features is out of range")
        _need(learner.fitted or isinstance(learner.net.backbone, PatchFeatures), "its features must be fixed")
        if sums is not None:
            counts = learner.counts.to(sums.counts)
            inside = (sums.counts.sign() == counts.sign()) & (sums.counts <= counts * learner.views + 0.5)
            inside = inside.all() & (sums.rounding >= 0).all() & (sums.weight >= 0) & (sums.weight <= COUNTS)
            _need(bool(inside), "its statistics are out of range")
    age = 0 if learner.average is None else int(learner.average.age)
    _need(int(learner.bad_step) == -1 and 0 <= age <= learner.steps, "its counters are out of range")
    if learner.scaling is not None:
        count, mean, squares = learner.scaling.count, learner.scaling.mean, learner.scaling.squares
        pixels = float(COUNTS) * value.MOST_VALUES  # they count one by one
        fine = (count >= 1) & (count <= pixels) & (mean.abs() <= FLOAT32).all()
        fine &= (squares >= 0).all() & (squares <= 4 * count * FLOAT32**2).all()
        _need(bool(fine), "its scaling is out of range")


def _need(fine: bool, otherwise: str) -> None:
    if not fine:
        raise ValueError(otherwise)


def _is_list(found: Any, *kinds: type) -> bool:
    return isinstance(found, list) and all(type(entry) in kinds for entry in found)


def _is_scalar(found: Any) -> bool:
    return found is None or type(found) in (str, int, float)


def _size(shapes: checkpoint.Shapes, name: str) -> int:
    shape = shapes[name][1]
    return shape[0] if shape else 0


def _plain(given: Any) -> Any:
    if isinstance(given, torch.device):
        return str(given)
    return given.item() if isinstance(given, np.generic) else given
