"""Which records count for a cell, and which runs are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from cell_records import made, results, row, values
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate
from mnemon.paper import agreement, cells, numbers, plan
from mnemon.paper.cells import Cell


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"lr": 0.3}},
        {"options": {"memory_size": 500}},
        {"options": {"made_up": 1}},
        {"split": "valid"},
        {"order": "random"},
        {"classifier": "proxy"},
        {"loss": "ms"},
        {"stream": "split-mnist"},
        {"protocol": {"backbone": "MLP"}},
        {"device": "NVIDIA H200", "precision": "bf16"},
    ],
)
def test_a_cell_refuses_records_made_otherwise(change):
    cell = Cell(1, row("hybrid (the paper's own)"), "split-cifar10")
    good = made(cell)
    other = made(cell, **change | {"options": good["options"] | change.get("options", {})})
    assert values([good], cell) == (50.0,)
    assert values([other], cell) == ()


def test_a_record_counts_wherever_it_was_made():
    cell = Cell(1, row("ER"), "split-cifar10")
    here, elsewhere = made(cell), made(cell, device="NVIDIA H200", precision="tf32")
    assert here["run"] != elsewhere["run"]
    assert values([elsewhere], cell) == (50.0,)


def test_of_two_records_with_one_seed_the_later_counts():
    cell = Cell(1, row("ER"), "split-mnist")
    assert values([made(cell, value=1.0), made(cell, value=2.0)], cell) == (2.0,)


@pytest.mark.parametrize(("mean", "half"), [(52.0, 0.9), (52.8, 0.9), (52.8, 3.0), (53.9, 2.2)])
def test_of_two_means_with_intervals_it_is_known_whether_welchs_test_tells_them_apart(mean, half):
    paper = Estimate(51.84, 0.91, 15)
    quantile = stats.t.ppf(0.975, 14)
    of = [number for each in (paper, (mean, half)) for number in (each[0], each[1] / quantile * 15**0.5, 15)]
    assert agreement.apart(Estimate(mean, half, 15), paper) == (
        stats.ttest_ind_from_stats(*of, equal_var=False).pvalue < 0.05
    )


def test_the_agreement_counts_the_cells_that_only_overlap():
    cell = Cell(1, row("hybrid (the paper's own)"), "split-mnist")  # the paper has 88.79 ± 0.26
    found = [made(cell, seed, 89.25 + (seed % 2) / 2) for seed in range(15)]  # 89.48 ± 0.14 overlaps nothing
    assert agreement.table(results(found)).parts[0].rows[0] == ["Table 1", "69", "1", "0", "1", "0", "0"]
    near = [made(cell, seed, 88.8 + (seed % 2)) for seed in range(15)]  # 89.27 ± 0.29: the intervals overlap, t = 2.6
    assert agreement.table(results(near)).parts[0].rows[0] == ["Table 1", "69", "1", "1", "0", "0", "1"]


def test_every_cell_of_the_paper_has_a_run_behind_it():
    for number, table in ((1, numbers.ACCURACY), (2, numbers.FORGETTING), (3, numbers.ABLATION), (4, numbers.SMOOTH)):
        every = cells.cells(number)
        assert {(c.row.paper, c.stream): c.paper for c in every if c.paper} == table
        for cell in every:
            names = [c.name for c in cell.spec().choice().classifiers]
            assert cell.row.classifier in names
    assert any("mini_imagenet" in cell.stream for cell in cells.cells(4))


def test_what_is_missing_is_asked_for_once():
    softmax, means = (Cell(1, row(name), "split-mnist") for name in ("ER", "ER + NCM"))
    (spec,) = plan.missing([softmax, means], results([], seeds=[3]))
    assert (spec.seed, spec.classifiers) == (3, ("softmax", "ncm", "ncm-raw"))
    there = [made(softmax, 3)]
    assert [s.seed for s in plan.missing([softmax], results(there, seeds=[3, 4]))] == [4]
    assert plan.missing([softmax, means], results(there, seeds=[3])) == [spec]  # the class means were not read off yet


def test_both_numbers_of_tasks_share_the_runs_that_know_no_tasks():
    ten, twenty = (Cell(1, row("i.i.d. online"), f"split-cifar100-{n}") for n in (10, 20))
    assert values([made(ten)], twenty) == (50.0,)
    assert len(plan.missing([ten, twenty], results([], seeds=[0]))) == 1


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 3}, True),
        ({"classifiers": ("ncm",)}, True),
        ({"loss": "ce"}, True),  # the method's own
        ({"loss": "ms"}, False),
        ({"options": {"lr": 0.3}}, False),
        ({"order": "random"}, False),
        ({"split": "valid"}, False),
        ({"stream": "split-cifar10"}, False),
        ({"backbone": "identity"}, False),
    ],
)
def test_what_makes_a_training_another(change, same):
    spec = Spec("er", "split-mnist")
    assert (plan.training(spec) == plan.training(replace(spec, **change))) is same


def test_a_training_is_made_once_with_the_classifiers_of_all_who_ask():
    softmax = Spec("er", "split-mnist", classifiers=("softmax",))
    asked = [softmax, replace(softmax, seed=1), replace(softmax, classifiers=("ncm", "softmax"), loss="ce")]
    assert [(spec.seed, spec.classifiers) for spec in plan.each_training_once(asked)] == [
        (0, ("softmax", "ncm")),
        (1, ("softmax",)),
    ]
