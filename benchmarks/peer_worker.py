"""A process that holds one learner of another system and makes steps when it is told to.

Run as a program (`python benchmarks/peer_worker.py SYSTEM DIRECTORY METHOD SEED THREADS STEPS IMAGES`) this is such a
process: it says when it is ready, takes "steps N", "task" and "accuracy" from stdin and answers each with a line. IMAGES is the
shapes of random images (of `mnemon bench --nets`), or how many images of each class of CIFAR-10 it learns (0: all).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mnemon.bench.shapes import NETS, make_run, make_scenario
from mnemon.errors import MnemonError
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario, named_scenario
from mnemon.experiments.spec import Spec
from mnemon.streams import Stream
from peer_systems import SYSTEMS, System, without_operators

CPU = torch.device("cpu")
ENVIRONMENT = dict(os.environ)  # theirs too, before ours puts a variable of its own into it


class Worker:
    """`count` processes of one system, with seeds 0 … count − 1, that make their steps at the same time.

    They start in the background: `begin` tells them what to do once they can, `wait` returns when all is done.
    """

    def __init__(
        self, system: str, directory: Path, method: str, *, count: int = 1, seed: int = 0, threads: int, steps: int,
        images: str, device: torch.device,
    ) -> None:  # fmt: skip
        self.runs, self.what = count, f"{system}'s {method}"
        self.logs = [tempfile.TemporaryFile("w+") for _ in range(count)]  # noqa: SIM115
        self.asked, self.answers = 1, list[Any]()  # each says first that it is ready
        environment = ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}
        if device.type == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""  # they take a GPU wherever there is one
        place = [sys.executable, str(Path(__file__).resolve()), system, str(directory.resolve()), method]
        self.processes = [
            subprocess.Popen(
                [*place, str(seed + number), str(threads), str(steps), images],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
            for number, log in enumerate(self.logs)
        ]

    @property
    def ready(self) -> dict[str, Any]:
        """What it said when it had started."""
        return dict(self.answers[0])

    def steps(self, count: int) -> None:
        self.begin(f"steps {count}")
        self.wait()

    def next_task(self) -> None:
        self.begin("task")
        self.wait()

    def accuracy(self) -> float:
        self.begin("accuracy")
        self.wait()
        return float(self.answers[-1])

    def begin(self, *lines: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it ended: `wait` says why
                process.stdin.writelines(f"{line}\n" for line in lines)
                process.stdin.flush()
        self.asked += len(lines)

    def wait(self) -> None:
        """Until each has answered everything; the answers of the first are kept."""
        while len(self.answers) < self.asked:
            first, *_ = [self._answer(number) for number in range(self.runs)]
            self.answers.append(first)

    def _answer(self, number: int) -> Any:
        process, log = self.processes[number], self.logs[number]
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.wait()
            log.seek(0)
            said = log.read().strip().splitlines() or ["nothing"]
            raise MnemonError(f"{self.what} ended with status {process.returncode}; its last line was: {said[-1]}")
        return json.loads(line)

    def close(self) -> None:
        """End them, whatever they do: they have nothing to keep."""
        for process in self.processes:
            process.kill()
        for process, log in zip(self.processes, self.logs, strict=True):
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # a line that it did not read
                process.stdin.close()
            process.stdout.close()
            log.close()


def mixed(scenario: Scenario, steps: int) -> Scenario:
    """The first steps on the benchmark's images in random order, so that the memory holds all ten classes from the start: what
    ASER costs depends on how many there are. No more steps than needed: an adapter may lay out the whole stream."""
    order = np.resize(np.random.default_rng(0).permutation(len(scenario.y)), 10 * steps)
    return replace(scenario, stream=replace(scenario.stream, indices=order, boundaries=(10 * steps,)))


def random_run(net: str, method: str, seed: int, steps: int) -> Run:
    return make_run(net, method, seed, mixed(make_scenario(net, CPU), steps), CPU)


def cifar_run(method: str, seed: int, images: int, device: torch.device) -> Run:
    """A run on Split CIFAR-10, of the first `images` of each class alone; so are its test sets."""
    spec = Spec(method, "split-cifar10", seed)
    scenario = named_scenario("split-cifar10", seed, epochs=0, device=device)
    return Run(spec.choice(), fewer(scenario, images) if images else scenario, seed=seed, device=device)


def fewer(scenario: Scenario, images: int) -> Scenario:
    stream, y = scenario.stream, scenario.y
    indices, boundaries, start = [], [], 0
    for stop in stream.boundaries:
        task = stream.indices[start:stop]
        rank = np.zeros(len(task), int)
        for label in np.unique(y[task]):
            rank[y[task] == label] = np.arange((y[task] == label).sum())
        indices.append(task[rank < images])
        boundaries.append(sum(map(len, indices)))
        start = stop
    labels = np.unique(scenario.y_test)
    test = np.sort(np.concatenate([np.flatnonzero(scenario.y_test == label)[:images] for label in labels]))
    return replace(
        scenario,
        stream=Stream(stream.kind, np.concatenate(indices), tuple(boundaries), stream.tasks),
        x_test=scenario.x_test[torch.from_numpy(test).to(scenario.x_test.device)],
        y_test=scenario.y_test[test],
    )


@torch.no_grad()
def average_accuracy(system: System, scenario: Scenario) -> float:
    """Percent, averaged over the tasks, among all classes."""
    chunks = [system.scores(part).argmax(1).cpu() for part in torch.split(scenario.x_test, 500)]
    right = (torch.cat(chunks) == torch.from_numpy(scenario.y_test)).double()
    means = [right[torch.from_numpy(np.isin(scenario.y_test, labels))].mean() for labels in scenario.tested]
    return 100 * float(torch.stack(means).mean())


def main(name: str, directory: str, method: str, seed: str, threads: str, steps: str, images: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what they print is no answer
    warnings.showwarning = lambda *_, **__: None  # printing them would be timed
    incomplete = without_operators()
    random = images in NETS
    run = (
        random_run(images, method, int(seed), int(steps)) if random else cifar_run(method, int(seed), int(images), CPU)
    )
    system = SYSTEMS[name](run, Path(directory))
    torch.set_num_threads(int(threads))  # after the import: Mammoth sets two

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer({"torchvision_without_operators": incomplete})
    for line in sys.stdin:
        word, _, count = line.strip().partition(" ")
        if word == "steps":
            system.steps(int(count))
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            answer("made")
        elif word == "task":
            system.next_task()
            answer("begun")
        else:
            answer(average_accuracy(system, run.scenario))


if __name__ == "__main__":
    main(*sys.argv[1:])
