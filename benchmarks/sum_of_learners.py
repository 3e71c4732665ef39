"""A network and patches together: is the sum of their log-posteriors better than the best of the two?

    python benchmarks/sum_of_learners.py --stream split-cifar10 [--device cuda]

Both learn the same stream, with the values that validation chose for their rows (docs/beyond.md). Of the validation
samples, which neither learns, twenty of each class (an exam) choose the weight of the sum; the rest tells how good it is.
Test images are not looked at.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from common import header, options, write
from mnemon.experiments.executor import executor_for
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import make_scenario
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import paired_difference
from mnemon.paper import beyond

EXAM = 20  # samples of a class
WEIGHTS = np.linspace(0, 1, 21)  # of the network
TEMPERATURES = np.geomspace(0.05, 50, 61)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--stream", default="split-cifar10")
    parser.add_argument("--network", default="averaged-hybrid-ace", help="a row of docs/beyond.md")
    parser.add_argument("--patches", default="patches-same-bytes", help="another one")
    parser.add_argument("--seeds", default="100-104", help="A-B, from 100 on")
    args = parser.parse_args()
    header()
    first, last = map(int, args.seeds.split("-"))
    rows = [beyond.row(args.network), beyond.row(args.patches)]
    found: dict[str, dict[int, float]] = {"network": {}, "patches": {}, "sum": {}}
    chosen: list[float] = []
    for seed in range(first, last + 1):
        (network, y), (patches, _) = (log_scores(row, args.stream, seed, args.device) for row in rows)
        exam = first_of_each_class(y, EXAM)
        network, patches = (calibrated(part, y, exam) for part in (network, patches))
        mixtures = [w * network + (1 - w) * patches for w in WEIGHTS]
        best = int(np.argmax([percent(mixture[exam], y[exam]) for mixture in mixtures]))
        chosen.append(float(WEIGHTS[best]))
        for name, scores in (("network", network), ("patches", patches), ("sum", mixtures[best])):
            found[name][seed] = percent(scores[~exam], y[~exam])
        figures = ", ".join(f"{name} {values[seed]:.2f}" for name, values in found.items())
        print(f"seed {seed}: weight of the network {chosen[-1]:.2f}; {figures}", flush=True)
    means = {name: float(np.mean(list(values.values()))) for name, values in found.items()}
    best_part = max(("network", "patches"), key=lambda name: means[name])
    gain = paired_difference(found["sum"], found[best_part])
    assert gain is not None
    print(f"{args.stream}: sum {means['sum']:.2f}, {best_part} {means[best_part]:.2f}, gain {gain.text(signed=True)}")
    about = {"stream": args.stream, "network": args.network, "patches": args.patches}
    write(args.out, {**about, "weights": chosen, "accuracy": found, "gain": gain._asdict()})


def log_scores(row: beyond.TrackRow, stream: str, seed: int, device: str) -> tuple[Tensor, Tensor]:
    """What the row's classifier says of the validation samples [n, classes], on its own scale, and their classes [n]."""
    chosen = row.chosen(stream)
    assert chosen is not None, "the row was not chosen on this stream"
    made = row.spec(stream, seed)
    spec = Spec(
        made.method,
        stream,
        seed,
        made.loss,
        (chosen.classifier,),
        "valid",
        options=made.options,
        backbone=made.backbone,
    )
    choice = spec.choice()
    run = Run(choice, make_scenario(spec, choice, torch.device(device)), seed=seed, device=torch.device(device))
    executor = executor_for(run)
    while not run.finished:
        executor.advance()
    (scores,) = run.learner.scores(run.scenario.x_test, choice.classifiers)
    executor.close()
    order = torch.from_numpy(np.argsort(run.table.labels)).to(scores.device)  # the same columns for both learners
    labels = np.unique(run.scenario.y_test, return_inverse=True)[1]
    return scores[:, order].double().cpu(), torch.from_numpy(labels)


def first_of_each_class(y: Tensor, count: int) -> Tensor:
    """True for so many samples of each class [n]."""
    exam = torch.zeros(len(y), dtype=torch.bool)
    for c in range(int(y.max()) + 1):
        exam[torch.nonzero(y == c).flatten()[:count]] = True
    return exam


def calibrated(scores: Tensor, y: Tensor, exam: Tensor) -> Tensor:
    """Log-probabilities, with the temperature under which the exam is likeliest."""

    def loss(temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(scores[exam] / temperature, y[exam]))

    return torch.log_softmax(scores / min(TEMPERATURES, key=loss), 1)


def percent(scores: Tensor, y: Tensor) -> float:
    return 100 * float((scores.argmax(1) == y).double().mean())


if __name__ == "__main__":
    main()
