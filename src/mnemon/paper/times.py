"""Figure 4: the times of a training step and of a test pass, each method alone on the same device, kept in OUT/times.jsonl.

Measured on generated images of the shapes of 10-task CIFAR-100 and miniImageNet: a time does not depend on what an image shows.
The memory is filled first, so that a step and the class means cost what they cost for the rest of a stream.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import mnemon
from mnemon import streams
from mnemon.experiments.executor import AsyncExecutor, Executor, executor_for, threads
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario, array_scenario
from mnemon.experiments.spec import Spec
from mnemon.learning.build import choose
from mnemon.learning.classifier import Classifier
from mnemon.paper import cells
from mnemon.paper.json_lines import Line

FILE = "times.jsonl"
SAME = ("method", "stream", "device")  # fields of which a file holds one line each
SHAPES = {"split-cifar100-10": (3, 32, 32), "split-mini_imagenet-10": (3, 84, 84)}
STEPS = {"cuda": 400, "cpu": 20}  # timed, where no number is given
PASSES = 3  # of testing; the fastest counts


class Setting(NamedTuple):
    """What is timed."""

    stream: str = "split-cifar100-10"  # whose hyper-parameters the methods get
    shape: tuple[int, ...] = SHAPES["split-cifar100-10"]
    classes: int = 100
    tasks: int = 10
    memory: int = 1000
    steps: int = 400
    tested: int = 10_000


def methods() -> list[str]:
    """Those of Table 1 that learn from the stream."""
    return list(dict.fromkeys(row.method for row in cells.online_rows()))


def measure(method: str, setting: Setting, device: torch.device) -> Line:
    """Milliseconds a step, and seconds a test pass with each classifier that the tables ask of the method."""
    own = choose(method)
    given = {"memory_size": setting.memory} if own.method.replays else {}
    wanted = cells.CLASSIFIERS.get((method, own.objective.name), (own.classifiers[0].name,))
    choice = Spec(method, setting.stream, classifiers=wanted, options=given).choice()
    task = _task(setting, choice.method.batch_size, device)
    run = Run(choice, task, seed=0, device=device)
    filling = setting.memory // choice.method.batch_size + 20
    executor = executor_for(run)
    with threads(run):
        _learn(executor, run.batches[:filling], device)
        seconds = _learn(executor, run.batches[filling : filling + setting.steps], device)
        tests = {c.name: min(_test(run, c, device) for _ in range(PASSES)) for c in choice.classifiers}
        used = torch.get_num_threads()
    return {
        "method": method,
        "stream": setting.stream,
        "shape": list(setting.shape),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "step_ms": round(1000 * seconds / setting.steps, 4),
        "test_s": {name: round(value, 4) for name, value in tests.items()},
        "steps": setting.steps,
        "tested": setting.tested,
        "memory": setting.memory,
        "classes": setting.classes,
        "threads": used,
        "versions": {
            "mnemon": mnemon.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
    }


def _task(setting: Setting, batch: int, device: torch.device) -> Scenario:
    """Random images in the order of a Split stream, tested once, after the last step."""
    rng = np.random.default_rng(0)
    wanted = (setting.memory // batch + 20 + setting.steps) * batch
    n = -(-wanted // setting.classes) * setting.classes
    y, y_test = np.arange(n) % setting.classes, np.arange(setting.tested) % setting.classes
    x = rng.integers(0, 256, (n, *setting.shape), dtype=np.uint8)
    x_test = rng.integers(0, 256, (setting.tested, *setting.shape), dtype=np.uint8)
    made = streams.split(y, tasks=setting.tasks, seed=0)
    scenario = array_scenario(made, (x, y, x_test, y_test), 0, epochs=0, device=device)
    whole = tuple(label for labels in made.tasks for label in labels)
    stream = streams.Stream(made.kind, made.indices, (len(made.indices),), (whole,))
    return replace(scenario, stream=stream, tested=(whole,))


def _learn(executor: Executor, rows: NDArray[np.int64], device: torch.device) -> float:
    """Seconds for these batches."""
    run, start = executor.run, time.perf_counter()
    if isinstance(executor, AsyncExecutor):
        executor.member.begin(rows)
        executor.member.wait()
    else:
        run.learner.learn(run.scenario.x, run.y, rows)
    _wait(device)
    return time.perf_counter() - start


def _test(run: Run, classifier: Classifier, device: torch.device) -> float:
    """Seconds for a pass over the test images, class means included."""
    _wait(device)
    start = time.perf_counter()
    run.learner.scores(run.scenario.x_test, [classifier])[0].argmax(1)
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --- what was measured


def images(line: Line) -> str:
    """The size of the images of a measurement: 3×32×32."""
    return "×".join(str(side) for side in line["shape"])


def on_one_device(lines: Sequence[Line], stream: str) -> dict[str, Line]:
    """Method → its line, of the device on which most methods were timed (of equal ones the last): times of two devices say
    nothing side by side."""
    by_device: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line["stream"] == stream:
            by_device.setdefault(line["device"], {})[line["method"]] = line
    return max(reversed(by_device.values()), key=len) if by_device else {}
