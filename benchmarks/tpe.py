"""Proposals beside the paper's grid: what 32 trials of TPE choose on validation, and the grid's choice, on fresh seeds.

    mnemon data get mnist
    python benchmarks/tpe.py [--folder out/tpe] [--trials 32] [--batch 8] [--tune-seeds 100-102] [--fresh-seeds 200-209]

TPE searches what the grid spans. The choice of the grid is read from the log of its search (`--log`). Both choices then run on
validation with seeds that took part in neither search; runs with the same seed see the same stream, so the difference is
paired. The same command continues where it was stopped.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import torch

from common import header, options, write
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import estimate, fixed, paired_difference
from mnemon.experiments.tuning import search_space

TUNED = Path(__file__).parents[1] / "results" / "tuning"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--method", default="hybrid")
    parser.add_argument("--stream", default="split-mnist")
    parser.add_argument(
        "--log", type=Path, default=TUNED / "hybrid-hybrid-split-mnist.json", help="of the grid's search"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("out/tpe"), help="for records; the same command continues there"
    )
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tune-seeds", default="100-102")
    parser.add_argument("--fresh-seeds", default="200-209")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    torch.set_num_threads(args.threads)
    header()

    log = json.loads(args.log.read_text())
    tune_seeds, fresh_seeds = read_seeds(args.tune_seeds), read_seeds(args.fresh_seeds)
    if set(fresh_seeds) & {*tune_seeds, *log["seeds"]}:
        raise SystemExit("--fresh-seeds must take part in neither search.")
    found = search_space(
        args.method,
        args.stream,
        args.folder,
        trials=args.trials,
        batch=args.batch,
        search_seed=args.seed,
        seeds=tune_seeds,
        device="cpu",
    )
    runs = sum(len(c.records) for c in found.candidates)
    grid_runs = sum(len(c["accuracies"]) for c in log["candidates"])
    print(f"tpe:  {found.size}, {runs} runs: {found.chosen.values}, {estimate(found.chosen.accuracies)}")
    print(
        f"grid: {len(log['candidates'])} candidates, {grid_runs} runs: {log['chosen']}, {log['candidates'][0]['mean']:.2f}"
    )

    choices = {"tpe": found.chosen.values, "grid": log["chosen"]}
    accuracies: dict[str, dict[int, float]] = {}
    for name, values in choices.items():
        specs = [
            Spec(args.method, args.stream, seed, split="valid", options=values, cell="tune") for seed in fresh_seeds
        ]
        records = run_all(specs, args.folder, device="cpu")
        accuracies[name] = {record["seed"]: record["average_accuracy"] for record in records}
        print(f"{name:4}  on {len(fresh_seeds)} fresh seeds: {estimate(accuracies[name].values())}")
    gap = paired_difference(accuracies["tpe"], accuracies["grid"])
    assert gap is not None  # they have all seeds in common
    print(f"tpe minus grid, seed by seed: {gap.text(signed=True)}; within 0.5 points or above: {gap.mean >= -0.5}")
    write(args.out, {"choices": choices, "runs": runs, "accuracies": accuracies, "difference": fixed(gap.mean)})


if __name__ == "__main__":
    main()
