"""Other people's systems, from local clones: each learns the batches of a run of ours in its own training loop.

Nothing of their code is here. A class imports a system's modules from the directory it is given, has the system's own
parser make its options, builds learner, network and buffer as the system's main program does, and calls its loop.
Their packages have the same names (`utils`, `models`), so a process holds one system (peer_worker.py).
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.bench.training import network_input
from mnemon.experiments.run import Run


class System(Protocol):
    """A learner of another system on the batches of a run."""

    def steps(self, count: int) -> None:
        """Learn the next batches."""

    def next_task(self) -> None:
        """Say that another task begins."""

    def scores(self, x: Tensor) -> Tensor:
        """Scores of all classes for uint8 images."""


class RaptorMai:
    """RaptorMai/online-continual-learning: each call of `steps` is one task of its `train_learner`, which shuffles it."""

    METHODS = ("er", "mir", "gss", "a-gem", "aser")

    def __init__(self, run: Run, directory: Path) -> None:
        values = run.choice.options()
        words = {
            "data": "mini_imagenet" if run.scenario.x.shape[-1] == 84 else "cifar10",
            "num_tasks": 5,
            "batch": values["batch_size"],
            "eps_mem_batch": values["replay_size"],
            "mem_size": values["memory_size"],
            "learning_rate": values["lr"],
            "seed": run.seed,
            "verbose": False,
        } | raptormai_options(run.choice.method.name, values)
        _enter(directory)
        experiment = importlib.import_module("experiment.run")
        command = ["general_main.py", *(word for name, value in words.items() for word in (f"--{name}", str(value)))]
        with patch.object(sys, "argv", command), patch.object(experiment, "multiple_run") as main:
            runpy.run_path(str(directory / "general_main.py"), run_name="__main__")  # their parser, seeds and switches
        params = main.call_args.args[0]
        setup, names = (importlib.import_module(f"utils.{name}") for name in ("setup_elements", "name_match"))
        if params.cuda:
            indices_on_gpu()
        model = setup.setup_architecture(params)
        model = model.cuda() if params.cuda else model
        opt = setup.setup_opt(params.optimizer, model, params.learning_rate, params.weight_decay)
        self.agent = names.agents[params.agent](model, opt, params)
        self.transform, self.cuda = setup.transforms_match[params.data], params.cuda
        self.x, self.y = _pictures(run.scenario.x), run.scenario.y
        self.batches, self.made = run.batches, 0

    def steps(self, count: int) -> None:
        rows = self.batches[self.made : self.made + count].ravel()
        self.agent.train_learner(self.x[rows], self.y[rows])
        self.made += count

    def next_task(self) -> None:
        pass

    def scores(self, x: Tensor) -> Tensor:
        self.agent.model.eval()
        images = torch.stack([self.transform(picture) for picture in _pictures(x)])
        found: Tensor = self.agent.forward(images.cuda() if self.cuda else images)
        return found


def raptormai_options(method: str, values: dict[str, Any]) -> dict[str, Any]:
    """The options of general_main.py for a method of ours, as its README has them."""
    words: dict[str, dict[str, Any]] = {
        "er": {"agent": "ER"},
        "mir": {"agent": "ER", "retrieve": "MIR", "subsample": values.get("candidates")},
        "gss": {
            "agent": "ER",
            "update": "GSS",
            "gss_mem_strength": values.get("references"),
            "gss_batch_size": values.get("reference_size"),
        },
        "a-gem": {"agent": "AGEM"},
        "aser": {
            "agent": "ER",
            "update": "ASER",
            "retrieve": "ASER",
            "aser_type": "asvm",
            "n_smp_cls": values.get("per_class"),
            "k": values.get("neighbours"),
        },
    }
    return words[method]


def indices_on_gpu() -> None:
    """The updates of GSS and ASER index tensors on the CPU with tensors on the GPU, which torch refuses since 1.13. What they
    draw on the CPU and index so is put on the GPU; the rest of their steps is as it was."""

    def moved(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *args, **options: make(*args, **options).cuda()

    gss, aser = (importlib.import_module(f"utils.buffer.{name}") for name in ("gss_greedy_update", "aser_update"))
    on_gpu = {name: moved(getattr(torch, name)) for name in ("multinomial", "arange")}
    gss.torch = types.SimpleNamespace(**vars(torch) | on_gpu)  # type: ignore[attr-defined]
    draw = aser.random_retrieve

    def retrieve(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        x, y, rows = draw(*args, **options)
        return x, y, rows.cuda()

    aser.random_retrieve = retrieve  # type: ignore[attr-defined]


class Mammoth:
    """aimagelab/mammoth: its `train_single_epoch` over batches that are already on the device, without augmentation."""

    METHODS = ("er", "er-ace", "der++")

    def __init__(self, run: Run, directory: Path) -> None:
        values = run.choice.options()
        words = {
            "model": {"er": "er", "er-ace": "er-ace", "der++": "derpp"}[run.choice.method.name],
            "dataset": "seq-cifar10",
            "backbone": "reduced-resnet18",
            "batch_size": values["batch_size"],  # its buffer's batches are then of this size too
            "buffer_size": values["memory_size"],
            "lr": values["lr"],
            "n_epochs": 1,
            "seed": run.seed,
            "num_workers": 0,
            "base_path": tempfile.gettempdir(),
        }
        if run.choice.method.name == "der++":
            words |= {"alpha": values["logit_weight"], "beta": values["label_weight"]}
        assert values["replay_size"] == values["batch_size"]
        _enter(directory)
        main: Any = importlib.import_module("main")
        self.args = main.parse_args([f"--{name}={value}" for name, value in words.items()])
        self.model, self.dataset, self.args = main.initialize(self.args)
        self.model.transform = None  # no augmentation: ours makes none either
        self.model.net.to(self.model.device)
        self.model.net.train()
        self.model.meta_begin_task(self.dataset)
        self.epoch = importlib.import_module("utils.training").train_single_epoch
        self.bar = importlib.import_module("tqdm").tqdm(disable=True)
        self.scenario, self.batches, self.made = run.scenario, run.batches, 0
        rows = torch.from_numpy(run.batches)
        self.x = network_input(run.scenario, run.scenario.x).to(self.model.device)
        self.y = torch.from_numpy(run.scenario.y).to(self.model.device)
        self.rows = rows.to(self.model.device)

    def steps(self, count: int) -> None:
        loader = Batches(self.x, self.y, self.rows[self.made : self.made + count])
        self.epoch(self.model, loader, self.args, epoch=0, pbar=self.bar, system_tracker=lambda: None)
        self.made += count

    def next_task(self) -> None:
        self.model.meta_end_task(self.dataset)
        self.model.meta_begin_task(self.dataset)

    def scores(self, x: Tensor) -> Tensor:
        self.model.net.eval()
        found: Tensor = self.model(network_input(self.scenario, x).to(self.model.device))
        return found


class Batches:
    """What Mammoth's loop expects of a loader: (inputs, labels, inputs without augmentation)."""

    extra_return_fields: tuple[str, ...] = ()

    def __init__(self, x: Tensor, y: Tensor, rows: Tensor) -> None:
        self.x, self.y, self.rows, self.dataset = x, y, rows, self

    def __iter__(self) -> Any:
        return ((x := self.x[rows], self.y[rows], x) for rows in self.rows)


class Avalanche:
    """ContinualAI/avalanche, installed: see avalanche_er.py; the network is its SlimResNet18."""

    METHODS = ("er",)

    def __init__(self, run: Run, directory: Path) -> None:
        beside: Any = importlib.import_module("avalanche_er")
        torch.manual_seed(run.seed)
        model = importlib.import_module("avalanche.models").SlimResNet18(10)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.scenario, self.device, self.model = run.scenario, device, model
        self.learner = beside.Avalanche(run, run.seed, model=model, device=device)

    def steps(self, count: int) -> None:
        self.learner.steps(count)

    def next_task(self) -> None:
        pass

    def scores(self, x: Tensor) -> Tensor:
        self.model.eval()
        found: Tensor = self.model(network_input(self.scenario, x).to(self.device))
        return found


SYSTEMS: dict[str, Any] = {"raptormai": RaptorMai, "mammoth": Mammoth, "avalanche": Avalanche}


def without_operators() -> bool:
    """Make torchvision importable beside a torch for CPUs, if it is not: its compiled operators (detection), which no step
    timed here calls, stay away. Returns whether that was necessary."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        registrations = "torchvision._meta_registrations"
        sys.modules[registrations] = types.ModuleType(registrations)
        importlib.import_module("torchvision")
        return True
    return False


def _enter(directory: Path) -> None:
    """Both systems expect to be run from their own directory; nothing is written there."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(directory))
    os.chdir(directory)


def _pictures(x: Tensor) -> NDArray[np.uint8]:
    """Images as files have them: rows, columns, channels."""
    return x.permute(0, 2, 3, 1).contiguous().cpu().numpy()
