"""`mnemon bench`: what is compared does the same work, in turn, and the record says what was printed."""

import json

import pytest
import torch

from mnemon import MnemonError, cli
from mnemon.bench import eager, shapes, startup, timing
from mnemon.bench.shapes import make_run, make_scenario
from mnemon.bench.training import Ours, Plain, plain_loop
from mnemon.bench.workers import BenchWorkers
from mnemon.runtime.device import Engine

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scenario():
    return make_scenario("mlp", CPU)


def test_each_round_begins_with_another_and_the_first_does_not_count():
    order = []
    taken = timing.interleaved({name: lambda name=name: order.append(name) for name in "abc"}, 3)
    assert "".join(order) == "abcbcacababc"
    assert {name: len(values) for name, values in taken.items()} == {"a": 3, "b": 3, "c": 3}


def test_ratios_are_taken_round_by_round():
    assert timing.ratio([2.0, 8.0, 3.0], [1.0, 2.0, 1.0]) == (3.0, 2.5, 3.5)


@pytest.mark.parametrize("method", eager.LOOPS)
def test_the_plain_loop_learns_what_ours_learns(scenario, method):
    """The same samples in the same order, to the same fit of the last ones."""
    run = make_run("mlp", method, 0, scenario, CPU)
    plain, ours = Plain(run, 1), Ours([make_run("mlp", method, 0, scenario, CPU)], Engine(CPU))
    for one in (plain, ours):
        one.steps(30)
    mine = ours.list[0].learner
    assert mine.steps == plain.position == 30
    if run.choice.method.replays:
        assert plain.loop.buffer.offered == 300
        assert len(plain.loop.buffer) == int((mine.memory.y >= 0).sum()) == 300
    assert plain.loop.seen.tolist() == mine.seen[:10].tolist()
    rows = torch.from_numpy(run.batches[29])
    x = (scenario.x[rows].float() - 127.5) / 127.5
    with torch.no_grad():
        theirs, own = plain.loop.features(x), mine.net(mine.normalise(scenario.x[rows])).features
    assert theirs.shape == own.shape
    assert theirs.norm(dim=1).mean().item() == pytest.approx(own.norm(dim=1).mean().item(), rel=0.5)


def test_both_loops_take_the_shapes_of_mini_imagenet(monkeypatch):
    monkeypatch.setattr(shapes, "IMAGES", 200)
    large = make_scenario("resnet18-84", CPU)
    plain = Plain(make_run("resnet18-84", "er", 0, large, CPU), 1)
    ours = Ours([make_run("resnet18-84", "er", 0, large, CPU)], Engine(CPU))
    for one in (plain, ours):
        one.steps(1)
    assert len(plain.loop.seen) == 100
    assert plain.loop.seen.tolist() == ours.list[0].learner.seen[:100].tolist()


def test_looking_ahead_does_not_move_the_statistics_of_the_plain_loop():
    """MIR's two looks at its candidates leave BatchNorm's running statistics to the step itself."""
    small = make_scenario("resnet18", CPU)
    loop = plain_loop(make_run("resnet18", "mir", 0, small, CPU))
    x, y = (small.x[:10].float() - 127.5) / 127.5, torch.arange(10)
    loop.buffer.add(x, y)
    before = {name: value.clone() for name, value in loop.model.named_buffers()}
    loop.seen[:] = True
    assert len(loop.retrieve(x, y)) == 10
    after = dict(loop.model.named_buffers())
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_the_plain_loop_of_agem_compares_with_as_many_samples_as_ours(scenario):
    ours = make_run("mlp", "a-gem", 0, scenario, CPU)
    x, y = torch.rand(300, 1, 28, 28), torch.arange(300) % 10
    loop = plain_loop(ours)
    loop.buffer.add(x, y)
    assert len(loop.retrieve(x, y)) == ours.choice.method.most_replayed() > 10


def test_agem_keeps_the_gradient_from_opposing_the_memory(scenario):
    loop = plain_loop(make_run("mlp", "a-gem", 0, scenario, CPU))
    x, y = (scenario.x[:10].float() - 127.5) / 127.5, torch.arange(10)
    loop.step(x, y)
    parameters = [*loop.features.parameters(), *loop.head.parameters()]
    memory = torch.autograd.grad(loop.loss(x, y), parameters)  # all ten are replayed, in some order
    new = torch.autograd.grad(loop.loss(x, y.flip(0)), parameters)
    assert sum((a * b).sum() for a, b in zip(new, memory, strict=True)) < 0  # the same samples with other labels
    before = [p.detach().clone() for p in parameters]
    loop.step(x, y.flip(0))
    against = sum(((b - p) * m).sum().item() for b, p, m in zip(before, parameters, memory, strict=True))
    assert against == pytest.approx(0, abs=1e-5)


def test_workers_make_steps_when_they_are_told():
    workers = BenchWorkers("mlp", "er", 3, 2)
    try:
        workers.steps(2)
        workers.steps(2)
        assert workers.resident > 100
        assert len(workers.workers) == 2
    finally:
        workers.close()
    assert [worker.returncode for worker in workers.workers] == [0, 0]


def test_the_command_prints_what_the_record_says(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(startup, "PROGRAMS", {"python": ["-c", "pass"]})
    options = ["--nets", "mlp", "--methods", "er,cope", "--runs", "1,2", "--rounds", "1", "--steps", "2"]
    cli.main(["bench", *options, "--device", "cpu", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    record = json.loads((tmp_path / "bench.json").read_text())
    er, cope = record["training"]
    assert (er["baseline"], cope["baseline"]) == ("plain loop", "own step, op by op")
    assert er["times_eager"]["eager"] == [1, 1, 1]
    for found in (er, cope):
        for name, (times, _, _) in found["times_eager"].items():
            assert times == pytest.approx(found["ms_per_run_step"]["eager"] / found["ms_per_run_step"][name])
            assert f"{1e3 / found['ms_per_run_step'][name]:,.0f}" in printed
    (costs,) = record["methods"]
    assert costs["times_er"]["er"] == [1, 1, 1]
    assert costs["times_er"].keys() == {"er", "cope"}
    assert f"{costs['times_er']['cope'][0]:.2f}×" in printed
    (passes,) = record["inference"]
    assert passes["memory"] == passes["images"] / 10
    assert passes["times_softmax"]["softmax"] == [1, 1, 1]
    assert passes["seconds"].keys() == {"softmax", "ncm", "ncm, means kept", "softmax and ncm in one pass"}
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in (tmp_path / "bench.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nets", "resnet"], "unknown network 'resnet'; did you mean 'resnet18'"),
        (["--methods", "err"], "unknown method 'err'; did you mean"),
        (["--runs", "many"], "runs are numbers separated by commas"),
        (["--runs", "0"], "numbers from 1 on"),
        (["--precision", "fp16"], "unknown precision 'fp16'"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, capsys, options, sentence):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["bench", *options, "--device", "cpu", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unknown_names_are_refused_in_python_too(tmp_path):
    with pytest.raises(MnemonError, match="unknown network"):
        make_scenario("vgg", CPU)
