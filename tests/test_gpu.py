"""On a GPU: a captured step is the step, and a run among others is the run alone. Skipped where there is none.

pytest -n 8 tests/test_gpu.py    # several processes share the GPU; most of the time is the host's (148 s on an H200)

Where a command may not take long, in three parts. The tests of stacks compile kernels when they are first run:

pytest tests/test_gpu.py -k "not captured and not stack"
pytest tests/test_gpu.py -k stack
pytest tests/test_gpu.py -k captured
"""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from mnemon.bench.shapes import make_run, make_scenario
from mnemon.experiments import runner
from mnemon.experiments.executor import AsyncExecutor, stack
from mnemon.experiments.run import Run
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.learning.methods import methods
from mnemon.runtime.device import Engine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MEMORY, STEPS = 200, 30  # the memory is full before the last step
# The others have no step to capture or to stack, or that of fine-tune on a stream in another order.
TRAINED = [name for name, method in methods().items() if method.trains and not method.epochs]


@pytest.fixture(scope="module")
def exact():
    engine = Engine(torch.device("cuda"), "fp32", deterministic=True)
    with engine.in_use():
        yield engine


@pytest.fixture(scope="module")
def scenario():
    return make_scenario("resnet18", torch.device("cuda"))


def learned(executors, rows):
    """Their states after these batches, all runs side by side, in two blocks: the second replays the graphs of the first."""
    for part in np.split(np.arange(rows), [rows * 2 // 3]):
        for executor in executors:
            executor.member.begin(executor.run.batches[part])
        pushed = [executor.member for executor in executors]
        while pushed:
            pushed = [member for member in pushed if member.push()]
        for executor in executors:
            executor.member.wait()
            executor.run.learner.check()
    return [{name: t.clone() for name, t in executor.run.learner.state().items()} for executor in executors]


def same(one, other):
    return [name for name in one if not torch.equal(one[name], other[name])] == []


def test_garbage_of_an_earlier_run_does_not_break_a_capture(scenario):
    """A graph that is freed while another one is captured makes the capture invalid."""
    threshold = gc.get_threshold()
    for seed in (0, 1):  # the second one is captured while Python looks for garbage all the time
        run = make_run("resnet18", "er", seed, scenario, torch.device("cuda"), memory_size=MEMORY)
        executor = AsyncExecutor(run)
        try:
            if seed:
                gc.set_threshold(1, 1, 1)
            learned([executor], STEPS)
        finally:
            gc.set_threshold(*threshold)
        del run, executor  # not closed: its graphs are in a cycle of references


@pytest.mark.parametrize("method", TRAINED)
def test_captured_is_eager_and_beside_others_is_alone(exact, scenario, method):
    """Bit for bit, in float32 with deterministic kernels."""
    eager, *runs = (
        make_run("resnet18", method, seed, scenario, exact.device, memory_size=MEMORY) for seed in (3, 2, 3, 4)
    )
    eager.learner.learn(scenario.x, eager.y, eager.batches[:STEPS])
    among = learned([AsyncExecutor(run) for run in runs], STEPS)
    assert same(among[1], eager.learner.state())
    assert not same(among[0], among[1])


def apart(runs, others, start):
    """How far the weights of two lists of runs are from each other, as a share of how far they have come from the start."""
    gap = moved = 0.0
    with torch.no_grad():
        for run, other, first in zip(runs, others, start, strict=True):
            for a, b, c in zip(*(r.learner.net.parameters() for r in (run, other, first)), strict=True):
                gap, moved = gap + float((a - b).square().sum()), moved + float((a - c).square().sum())
    return (gap / moved) ** 0.5


@pytest.mark.parametrize("method", TRAINED)
def test_a_stack_learns_what_each_would_alone(scenario, method):
    """Our kernels against cuDNN's, in float32 with small steps, so that rounding stays rounding. Methods that choose samples by
    tiny differences of losses may choose others, and are only asked to go into the same direction."""
    engine = Engine(torch.device("cuda"), "fp32")

    def make():
        given = {"lr": 1e-4} | ({"memory_size": 60} if choose(method).method.replays else {})
        image = replace(scenario, backbone="resnet18")
        return [Run(choose(method, given=given), image, seed=seed, device=engine.device) for seed in range(3)]

    with engine.in_use():
        runs, alone, start = make(), make(), make()
        executors = [AsyncExecutor(run) for run in runs]
        stack(executors)
        learned(executors, 12)
        for run in alone:
            run.learner.learn(scenario.x, run.y, run.batches[:12])
    chooses = method in ("mir", "gmed-er", "gmed-mir", "gss", "aser")
    assert apart(runs, alone, start) < (0.5 if chooses else 0.1)
    assert [run.learner.steps for run in runs] == [12, 12, 12]


EVERY_OPTION = {"average": 0.9, "sgd_momentum": 0.5, "weight_decay": 1e-3, "iterations": 2, "augment": "all"}


def make_with(method, seed, scenario, **options):
    given = {"memory_size": MEMORY} | options
    image = replace(scenario, backbone="resnet18")
    return Run(choose(method, given=given), image, seed=seed, device=torch.device("cuda"))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("hybrid", EVERY_OPTION),
        ("hybrid", {"average": "auto"}),
        ("der++", {"augment": "replay", "average": 0.99}),
        ("gmed-mir", EVERY_OPTION),
    ],
)
def test_options_of_every_method_captured_are_eager(exact, scenario, method, options):
    """Bit for bit: no step touches a value of the host."""
    eager, run = (make_with(method, 3, scenario, **options) for _ in range(2))
    eager.learner.learn(scenario.x, eager.y, eager.batches[:STEPS])
    (captured,) = learned([AsyncExecutor(run)], STEPS)
    assert same(captured, eager.learner.state())
    assert int(captured["age"]) == int(eager.learner.average.age) > 0


@pytest.mark.parametrize("options", [EVERY_OPTION, {"average": "auto"}])
def test_options_of_every_method_in_a_stack(scenario, options):
    """Each run with a decay, a momentum and a weight decay of its own."""

    def make():
        each = [
            {name: value * factor if isinstance(value, float) else value for name, value in options.items()}
            for factor in (1.0, 0.9, 1.0)
        ]
        return [make_with("er", seed, scenario, **given | {"lr": 1e-4}) for seed, given in enumerate(each)]

    with Engine(torch.device("cuda"), "fp32").in_use():
        runs, alone, start = make(), make(), make()
        executors = [AsyncExecutor(run) for run in runs]
        stack(executors)
        learned(executors, 12)
        for run in alone:
            run.learner.learn(scenario.x, run.y, run.batches[:12])
    assert apart(runs, alone, start) < 0.1
    for run, other, first in zip(runs, alone, start, strict=True):
        mine, its, before = (each.learner.average for each in (run, other, first))
        assert torch.equal(mine.age, its.age)
        assert float((mine.flat - its.flat).norm() / (its.flat - before.flat).norm()) < 0.1
    asked = [each[0].learner.scores(scenario.x[:100], each[0].choice.classifiers)[0] for each in (runs, alone)]
    torch.testing.assert_close(*asked, rtol=0.01, atol=0.01)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_inference_of_a_stack_is_the_networks(scenario, precision, tolerance):
    """Without gradients a layer is one kernel, which no step but ASER's uses."""
    from mnemon.learning.stacked import resnet

    with Engine(torch.device("cuda"), "fp32").in_use():
        run = make_run("resnet18", "er", 0, scenario, torch.device("cuda"), memory_size=MEMORY)
        run.learner.learn(scenario.x, run.y, run.batches[:12])  # BatchNorm's statistics have moved
        net = run.learner.net.backbone.eval()
        x = run.learner.normalise(scenario.x[:200])
        with torch.no_grad():
            expected = net.blocks(net.stem(x))
            found = resnet.blocks(net, x, False, precision)
    assert float((found - expected).norm() / expected.norm()) < tolerance


@pytest.mark.parametrize("stacked", [False, True], ids=["alone", "stack"])
@pytest.mark.parametrize("method", ["er", "hybrid", "cope"])
def test_every_precision_learns(scenario, method, stacked):
    """The features after a few steps are those of the float32 run, to some per cent (after forty, rounding has grown
    to half of them, as it does between any two correct computations)."""
    features = []
    for name in ("fp32", "tf32", "bf16"):
        with Engine(torch.device("cuda"), name).in_use():
            runs = [
                make_run("resnet18", method, seed, scenario, torch.device("cuda"), bf16=name == "bf16")
                for seed in range(2)
            ]
            executors = [AsyncExecutor(run) for run in runs]
            if stacked:
                stack(executors)
            learned(executors, 3)
            run = runs[0]
            with run.learner.evaluating():
                features.append(run.learner.net(run.learner.normalise(scenario.x[:200])).features)
    exact, *others = features
    assert [float((one - exact).norm() / exact.norm()) < 0.1 for one in others] == [True, True]


def test_a_folder_of_runs_side_by_side_is_the_runs_alone(tmp_path):
    specs = [Spec(method, "split-digits", seed) for method in ("hybrid", "mir", "aser") for seed in range(2)]
    how = {"device": "cuda", "precision": "fp32", "deterministic": True}
    alone = runner.run_all(specs, tmp_path / "alone", jobs=1, **how)
    beside = runner.run_all(specs, tmp_path / "beside", jobs=6, **how)
    assert [r["accuracy_matrix"] for r in beside] == [r["accuracy_matrix"] for r in alone]
    assert {r["precision"] for r in ResultFolder(tmp_path / "beside").read()} == {"fp32"}
    assert np.isfinite([r["average_accuracy"] for r in beside]).all()


def test_a_method_that_trains_nothing_runs_beside_others(tmp_path):
    """By products, without graphs; the statistics are those of the CPU, in full float32 though the engine has TF32."""
    backbone = "patches:filters=16:side=4"
    specs = [Spec("slda", "split-digits", seed, backbone=backbone) for seed in range(3)] + [Spec("er", "split-digits")]
    found = runner.run_all(specs, tmp_path / "gpu", device="cuda")
    expected = runner.run_all(specs[:3], tmp_path / "cpu", device="cpu")
    for one, other in zip(found[:3], expected, strict=True):
        assert one["average_accuracy"] == pytest.approx(other["average_accuracy"], abs=1.0)


def test_statistics_on_a_gpu_are_the_same_bits_each_time():
    x = torch.randint(0, 256, (300, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).cuda()
    y = torch.arange(300, device="cuda") % 7
    states, choice = [], choose("slda")
    for _ in range(2):
        learner = make_learner(*choice[:2], Inputs((3, 12, 12)), backbone="patches:filters=8", device="cuda")
        for part in np.split(np.arange(300).reshape(30, 10), [13]):
            learner.learn(x, y, part)
        states.append(learner.state())
    assert same(*states)
