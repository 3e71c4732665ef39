"""Records as lines of a table."""

from __future__ import annotations

import mnemon
from mnemon.experiments.summary import summarise


def test_runs_that_differ_only_in_their_seed_are_one_experiment():
    runs = [mnemon.run("er", "split-digits", seed=seed) for seed in range(2)]
    assert runs[0].experiment == runs[1].experiment
    (line,) = summarise(runs)
    mean = sum(run["average_accuracy"] for run in runs) / 2
    assert (line.name, line.stream, line.split, line.runs) == ("er + softmax", "split-digits", "test", 2)
    assert line.accuracy.startswith(f"{mean:.2f} ± ")


def test_another_variant_option_split_data_or_network_is_another_experiment():
    run = mnemon.run("er", "split-digits")
    others = [
        run | {"classifier": "ncm"},
        run | {"options": run["options"] | {"lr": 0.3}},
        run | {"split": "valid"},
        run | {"order": "random"},
        run | {"data": run["data"] | {"checksum": "another"}},
        run | {"protocol": run["protocol"] | {"backbone": "another"}},
    ]
    assert run.variant == ("er", "ce", "softmax")
    assert len({each.experiment for each in (run, *others)}) == 1 + len(others)
    assert [line.runs for line in summarise([run, *others, run | {"seed": 1}])] == [2, *[1] * len(others)]


def test_what_is_not_defined_is_a_dash():
    (line,) = summarise([mnemon.run("er", "smooth-digits")])
    assert line.forgetting == "-"
    assert "±" not in line.accuracy
