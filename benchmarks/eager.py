"""That the loop mnemon is measured against (mnemon.bench.eager) learns what mnemon learns: accuracy on the same streams.

python benchmarks/eager.py --seeds 5
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from common import describe, header, options, write
from mnemon.bench.training import network_input, plain_loop
from mnemon.experiments.executor import Executor
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import named_scenario
from mnemon.experiments.spec import Spec

CPU = torch.device("cpu")


def average_accuracy(method: str, seed: int) -> tuple[float, float]:
    """Average accuracy on Split MNIST after the last task: of the eager loop, of mnemon."""
    scenario = named_scenario("split-mnist", seed, epochs=0, device=CPU)
    ours = Run(Spec(method, "split-mnist", seed).choice(), scenario, seed=seed, device=CPU)
    executor = Executor(ours)
    while not ours.finished:
        executor.advance()
    (last,) = ours.rows[-1].values()

    np.random.seed(seed)  # noqa: NPY002
    eager = plain_loop(ours)
    assert eager is not None
    x, y = network_input(scenario, scenario.x), torch.from_numpy(scenario.y)
    for rows in torch.from_numpy(ours.batches):
        eager.step(x[rows], y[rows])
    right = (eager.predict(network_input(scenario, scenario.x_test)) == torch.from_numpy(scenario.y_test)).double()
    tasks = [right[torch.from_numpy(np.isin(scenario.y_test, labels))].mean() for labels in scenario.tested]
    return 100 * float(torch.stack(tasks).mean()), float(np.mean(last["accuracy"]))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="streams 0 … N−1 (default 5)")
    parser.add_argument("--methods", default="fine-tune,er,hybrid,a-gem,mir", help="with commas")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    print(f"Split MNIST, average accuracy over {args.seeds} streams (standard deviation)")
    record: dict[str, Any] = {}
    for method in args.methods.split(","):
        pairs = np.array([average_accuracy(method, args.seed + i) for i in range(args.seeds)])
        values = Spec(method, "split-mnist").choice().options()
        (eager, ours), (eager_sd, ours_sd) = pairs.mean(0), pairs.std(0, ddof=1)
        print(f"{method:9} eager {eager:.2f} ({eager_sd:.2f})   mnemon {ours:.2f} ({ours_sd:.2f})   {describe(values)}")
        record[method] = {"options": values, "eager": pairs[:, 0].tolist(), "mnemon": pairs[:, 1].tolist()}
    write(args.out, {"benchmark": "eager", "average_accuracy": record})


if __name__ == "__main__":
    main()
