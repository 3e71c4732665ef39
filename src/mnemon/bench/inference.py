"""A pass over the test images: the softmax head, the nearest class mean, and the mean kept from an unchanged model."""

from __future__ import annotations

from typing import Any

import torch

from mnemon.bench import timing
from mnemon.bench.shapes import make_run, make_scenario
from mnemon.learning.plugins import classifier
from mnemon.runtime.device import Engine

SHARE = 10  # test images for each row of the memory, as in the paper: 10,000 and 1,000


def measure(net: str, engine: Engine, *, rounds: int, images: int) -> dict[str, Any]:
    """Seconds for `images` test images, the memory full; ratios to softmax."""
    scenario = make_scenario(net, engine.device)
    bf16 = engine.precision == "bf16"
    run = make_run(net, "er", 0, scenario, engine.device, bf16=bf16, memory_size=images // SHARE)
    learner = run.learner
    learner.learn(scenario.x, run.y, run.batches[:2])
    # What fills the memory does not matter here, only that it is full.
    learner.memory.x[: learner.memory.size] = scenario.x[: learner.memory.size]
    learner.memory.y[: learner.memory.size] = run.y[: learner.memory.size]
    learner.seen[: len(run.table)] = True
    x = scenario.x[:images]
    with learner.evaluating():
        kept = classifier("ncm").prepare(learner)

    def whole(*names: str) -> None:
        learner.scores(x, [classifier(name) for name in names])
        _wait(engine)

    def with_kept() -> None:
        with learner.evaluating():
            for part in torch.split(x, learner.eval_batch_size):
                kept(learner.net(learner.normalise(part)))
        _wait(engine)

    works = {
        "softmax": lambda: whole("softmax"),
        "ncm": lambda: whole("ncm"),
        "ncm, means kept": with_kept,
        "softmax and ncm in one pass": lambda: whole("softmax", "ncm"),
    }
    taken = timing.interleaved(works, rounds)
    return {
        "net": net,
        "images": images,
        "memory": learner.memory.size,
        "seconds": {name: timing.median(values) for name, values in taken.items()},
        "times_softmax": {name: timing.ratio(values, taken["softmax"]) for name, values in taken.items()},
    }


def _wait(engine: Engine) -> None:
    if engine.device.type == "cuda":
        torch.cuda.synchronize()
