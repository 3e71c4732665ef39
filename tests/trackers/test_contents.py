"""What is exported of a record: the numbers of its accuracy matrix, where they belong."""

import math
from pathlib import Path

import pytest

from mnemon.experiments import metrics
from mnemon.experiments.record import Record
from mnemon.experiments.store import ResultFolder
from mnemon.trackers.contents import Contents

OLD = Path(__file__).parents[1] / "fixtures/v0_1/folder"
OPTIONS = {"lr": 0.1, "divisor": "batch", "nested": [1, 2], "unset": None, "flag": True}


def record(matrix, **change):
    fields = {
        "run": "er-split-toy-s0-0123456789",
        "method": "er",
        "loss": "ce",
        "classifier": "ncm",
        "stream": "split-toy",
        "seed": 0,
        "split": "test",
        "average_accuracy": 70.0,
        "average_forgetting": None,
        "accuracy_matrix": matrix,
        "options": OPTIONS,
        "protocol": {},
        "data": {"checksum": "0" * 64},
        "seconds": {"train": 3.0, "evaluate": 1.0},
        "finished": "2026-11-16T14:39:47+00:00",
    }
    return Record(fields | change)


def test_curves_by_tasks_and_by_samples():
    matrix = [[90.0, None, None], [60.0, 80.0, None], [70.0, 50.0, 99.0]]
    found = Contents(record(matrix, protocol={"boundaries": [10, 20, 30]})).curves
    assert found.keys() == {
        *(f"over_{over}/{what}" for over in ("tasks", "samples") for what in ("accuracy", "forgetting")),
        *(f"task_accuracy/task_{j}" for j in (1, 2, 3)),
    }
    assert found["over_tasks/accuracy"] == [(1, 90.0), (2, 70.0), (3, 73.0)]
    assert found["over_samples/accuracy"] == [(10, 90.0), (20, 70.0), (30, 73.0)]
    # Forgetting needs two tasks; at the end it is the record's.
    assert found["over_tasks/forgetting"] == [(2, 30.0), (3, metrics.average_forgetting(matrix))]
    assert found["task_accuracy/task_2"] == [(2, 80.0), (3, 50.0)]


def test_curves_of_a_stream_that_is_evaluated_all_along():
    found = Contents(record([[10.0], [20.0], [40.0]], protocol={"evaluated": [100, 200, 250], "boundaries": [250]}))
    assert found.curves == {"over_samples/accuracy": [(100, 10.0), (200, 20.0), (250, 40.0)]}
    assert found.picture() is None


def test_a_run_that_is_evaluated_once():
    shuffled = Contents(record([[50.0, 70.0]], protocol={"boundaries": [5, 10], "learned": 10}))
    assert shuffled.curves == {
        "over_tasks/accuracy": [(2, 60.0)],
        "over_samples/accuracy": [(10, 60.0)],
        "task_accuracy/task_1": [(2, 50.0)],
        "task_accuracy/task_2": [(2, 70.0)],
    }
    assert Contents(record([[55.0]], protocol={"learned": 10})).curves == {"over_samples/accuracy": [(10, 55.0)]}


@pytest.mark.parametrize("protocol", [{}, {"boundaries": [1]}, {"boundaries": ["a", 2]}, {"boundaries": [1, 2**70]}])
def test_without_proper_sample_counts_curves_are_by_tasks_alone(protocol):
    found = Contents(record([[90.0, None], [60.0, 80.0]], protocol=protocol)).curves
    assert [tag for tag in found if tag.startswith("over_")] == ["over_tasks/accuracy", "over_tasks/forgetting"]


def test_results_and_hyper_parameters():
    found = Contents(record([[70.0]], prequential_accuracy=61.5, anytime_accuracy=math.nan))
    assert found.results == {"final/average_accuracy": 70.0, "final/prequential_accuracy": 61.5}
    assert found.hyper_parameters == {
        "method": "er",
        "loss": "ce",
        "classifier": "ncm",
        "stream": "split-toy",
        "split": "test",
        "lr": 0.1,
        "divisor": "batch",
        "nested": "[1, 2]",
        "flag": True,
    }


def test_runs_are_grouped_by_all_but_their_seed():
    first, second = record([[70.0]]), record([[60.0]], seed=1, run="er-split-toy-s1-0123456789")
    assert Contents(first).group == Contents(second).group
    assert Contents(first).group.startswith("er + ncm, split-toy (")
    other = record([[70.0]], options=OPTIONS | {"lr": 0.2})
    assert Contents(other).group != Contents(first).group


def test_times():
    found = Contents(record([[70.0]]))
    assert (found.finished, found.started) == (1794839987.0, 1794839983.0)
    for strange in (None, 5, "yesterday"):
        assert Contents(record([[70.0]], finished=strange)).finished == 0.0


def test_records_of_0_1():
    found = [Contents(each) for each in ResultFolder(OLD).read()]
    assert len({each.name for each in found}) == len(found) == 5
    for each in found:
        last = each.curves["over_samples/accuracy"][-1]
        assert last == (1256, pytest.approx(each.record["average_accuracy"]))
        forgetting = each.curves["over_tasks/forgetting"][-1]
        assert forgetting == (5, pytest.approx(each.record["average_forgetting"]))
        assert each.picture().startswith(b"\x89PNG")
