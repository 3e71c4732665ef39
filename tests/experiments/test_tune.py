"""Tuning: the best of a grid on validation, by halving, stopped and gone on with, kept in the recipes."""

import dataclasses
import functools
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import mnemon
from mnemon import MnemonError, cli
from mnemon.errors import Diverged
from mnemon.experiments import tuning
from mnemon.experiments.executor import Executor
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.progress import RunProgress
from mnemon.experiments.recipes import grids, recipes
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import estimate
from mnemon.experiments.store import ResultFolder
from mnemon.experiments.tuning import rounds, search
from mnemon.experiments.tuning.grid import parse_grid
from mnemon.learning import options
from mnemon.learning.build import omitted_at_default
from mnemon.learning.methods import methods
from mnemon.learning.objectives import OBJECTIVES
from mnemon.paper import searches

ROOT = Path(__file__).parents[2]
STREAM = "split-digits"
RATES = (0.02, 0.1, 0.3, 0.2)
GRID = ["lr=" + ",".join(map(str, RATES))]
ENDLESS = "1e30"  # a learning rate with which training diverges


@functools.cache
def validated(lr, seed):
    return mnemon.run("er", STREAM, seed=seed, split="valid", lr=lr)["average_accuracy"]


def tune(out, grid=GRID, method="er", seeds=(100, 101), **more):
    return search(method, STREAM, out, grid=grid, seeds=seeds, device="cpu", **more)


def log(out, name="er-ce-split-digits"):
    return json.loads((out / "tuning" / f"{name}.json").read_text())


@pytest.fixture
def no_runs(monkeypatch):
    """From now on nothing may run."""
    return lambda: monkeypatch.setattr(Executor, "settle", lambda *_: pytest.fail("ran again"))


def test_the_best_mean_on_validation_is_chosen(tmp_path):
    found = tune(tmp_path)
    means = {lr: (validated(lr, 100) + validated(lr, 101)) / 2 for lr in RATES}
    order = sorted(RATES, key=means.get, reverse=True)
    assert [c.values["lr"] for c in found.candidates] == order
    written = log(tmp_path)
    assert written["chosen"] == found.chosen.values == {"lr": order[0]}
    assert [c["mean"] for c in written["candidates"]] == pytest.approx([means[lr] for lr in order])
    made = ResultFolder(tmp_path).read()
    assert {(r["split"], r["order"], r["cell"]) for r in made} == {("valid", "natural", "tune")}
    assert {r["seed"] for r in made} == {100, 101}
    assert (written["finished"], written["recipe"], len(written["data"]["checksum"])) == (True, {"lr": 0.2}, 64)


def test_halving_takes_the_best_of_the_first_seed_to_all_seeds(tmp_path):
    found = tune(tmp_path, seeds=(100, 101, 102), best=2)
    first = sorted(RATES, key=lambda lr: validated(lr, 100), reverse=True)
    seeds = {r["options"]["lr"]: set() for r in ResultFolder(tmp_path).read()}
    for r in ResultFolder(tmp_path).read():
        seeds[r["options"]["lr"]].add(r["seed"])
    assert seeds == {lr: {100, 101, 102} if lr in first[:2] else {100} for lr in RATES}
    assert {c.values["lr"] for c in found.finalists} == set(first[:2])
    means = {lr: sum(validated(lr, seed) for seed in (100, 101, 102)) for lr in first[:2]}
    assert found.chosen.values["lr"] == max(means, key=means.get)
    assert [c.values["lr"] for c in found.candidates[2:]] == first[2:]
    rounds = [{"seeds": [100], "candidates": 4}, {"seeds": [100, 101, 102], "candidates": 2}]
    assert log(tmp_path)["rounds"] == rounds


def test_a_second_search_runs_nothing_and_writes_the_same_log(tmp_path, no_runs):
    tune(tmp_path, best=2)
    before = (tmp_path / "tuning" / "er-ce-split-digits.json").read_bytes()
    no_runs()
    tune(tmp_path, best=2)
    assert (tmp_path / "tuning" / "er-ce-split-digits.json").read_bytes() == before


@pytest.mark.parametrize("after", [3, 5])  # in the first round, in the second
def test_a_killed_search_goes_on(tmp_path, monkeypatch, after):
    class Killed(BaseException):
        pass

    def kill(self, *_, **__):
        if len(ResultFolder(tmp_path / "b").read()) == after:
            raise Killed

    whole = tune(tmp_path / "a", best=2)
    with monkeypatch.context() as patch:
        patch.setattr(RunProgress, "_end", kill)
        with pytest.raises(Killed):
            tune(tmp_path / "b", best=2)
    assert (tmp_path / "b" / "tuning").exists() == (after > 4)
    made = len(ResultFolder(tmp_path / "b").read())
    again = tune(tmp_path / "b", best=2)
    assert made == after
    assert len(ResultFolder(tmp_path / "b").read()) == 6
    assert again.chosen.values == whole.chosen.values
    assert log(tmp_path / "b")["candidates"] == log(tmp_path / "a")["candidates"]


def test_a_candidate_that_diverges_is_the_worst_and_not_tried_again(tmp_path, no_runs):
    grid = [f"lr={ENDLESS},0.02,0.2"]
    found = tune(tmp_path, grid)
    assert [c.values["lr"] for c in found.candidates] == [0.2, 0.02, 1e30]
    assert log(tmp_path)["candidates"][-1]["diverged"] == [100, 101]
    assert log(tmp_path)["candidates"][-1]["mean"] is None
    no_runs()
    assert tune(tmp_path, grid).candidates[-1].diverged == {100, 101}


def test_divergence_in_the_second_round_lets_nobody_else_move_up_later(tmp_path, monkeypatch, no_runs):
    """The candidate of the second round that diverged there takes its place again when the search is repeated."""
    real = rounds.run_all

    def lossy(specs, *rest, **more):
        kept = [s for s in specs if (s.options["lr"], s.seed) != (0.3, 101)]
        made = real(kept, *rest, **more) if kept else []
        if len(kept) < len(specs):
            raise Diverged("one diverged")
        return made

    monkeypatch.setattr(rounds, "run_all", lossy)
    assert validated(0.3, 100) > validated(0.1, 100)
    found = tune(tmp_path, best=2)
    assert found.candidates[-1].values == {"lr": 0.3}
    made = len(ResultFolder(tmp_path).read())
    no_runs()
    assert tune(tmp_path, best=2).chosen.values == found.chosen.values
    assert len(ResultFolder(tmp_path).read()) == made


def test_where_all_diverge_nothing_is_chosen(tmp_path, copied, capsys):
    before = copied.read_bytes()
    words = f"tune --method er --stream {STREAM} --grid lr={ENDLESS} --keep --quiet --out".split()
    with pytest.raises(SystemExit) as stop:
        cli.main([*words, str(tmp_path)])
    assert stop.value.code == 2
    assert "no candidate is left" in capsys.readouterr().err
    assert log(tmp_path)["chosen"] is None
    assert copied.read_bytes() == before


def test_runs_of_another_device_are_taken(tmp_path, no_runs):
    specs = [Spec("er", STREAM, s, split="valid", options={"lr": lr}) for lr in (0.1, 0.2) for s in (100, 101)]
    made = run_all(specs, tmp_path / "here", device="cpu")
    there = []
    for spec, r in zip(specs, made, strict=True):
        key = spec.key(spec.choice(), STREAM, r["data"]["checksum"], {"device": "Some GPU"})
        there.append(r | {"device": "Some GPU", "run": key, "precision": "tf32"})
    (tmp_path / "there").mkdir()
    ResultFolder(tmp_path / "there").append(there)
    no_runs()
    found = tune(tmp_path / "there", ["lr=0.1,0.2"])
    assert {device for c in log(tmp_path / "there")["candidates"] for device in c["devices"]} == {"Some GPU"}
    assert found.chosen.values == {"lr": 0.2}


@pytest.mark.parametrize(
    "other",
    [
        {"split": "test"},
        {"order": "random"},
        {"options": {"lr": 0.1, "memory_size": 50}},
        {"loss": "ace"},
        {"backbone": "mlp"},
    ],
    ids=str,
)
def test_another_experiment_is_not_taken(tmp_path, other):
    asked = Spec("er", STREAM, 100, split="valid", options={"lr": 0.1})
    given = {"split": "valid", "options": {"lr": 0.1}} | other
    made = run_all([Spec("er", STREAM, 100, **given)], tmp_path, device="cpu")
    same = Spec("er", STREAM, 100, **given)
    assert RecordIndex(made).like(asked, "softmax") == {}
    assert RecordIndex(made).like(same, "softmax") == {100: made[0]}
    assert RecordIndex(made).like(same, "softmax", checksum="another") == {}
    in_bf16 = [made[0] | {"device": "Some GPU", "precision": "bf16"}]
    assert RecordIndex(in_bf16).like(same, "softmax") == {}


def test_keep_changes_one_cell(tmp_path, copied, capsys):
    before = recipes.cells()
    words = f"tune --method er --stream {STREAM} --grid lr=0.02,0.3 --seeds 100-101 --quiet --out".split()
    cli.main([*words, str(tmp_path)])
    out = capsys.readouterr().out
    assert recipes.cells() == before
    assert (
        f"mnemon tune --method er --stream {STREAM} --grid lr=0.02,0.3 --seeds 100-101 --out {tmp_path} --keep" in out
    )
    assert "recipe: lr 0.2 (tuned on validation" in out
    cli.main([*words, str(tmp_path), "--keep"])
    after = recipes.cells()
    name = ("er", "ce", STREAM)
    assert {n: c for n, c in after.items() if n != name} == {n: c for n, c in before.items() if n != name}
    assert after[name].values == {"lr": 0.3}
    assert after[name].source.startswith("mnemon tune, on validation: 2 candidates, seeds 100-101, accuracy ")
    assert Spec("er", STREAM).choice().method.lr == 0.3
    assert "kept: er / ce / split-digits: lr 0.3" in capsys.readouterr().out


def test_keep_leaves_what_was_not_searched_at_the_recipe(tmp_path, copied):
    recipes.keep(("hybrid", "hybrid", STREAM), recipes.Recipe({"gamma": 0.7, "lr": 0.3, "divisor": "batch"}, "-"))
    search("hybrid", STREAM, tmp_path, grid=["lr=0.1"], seeds=[100], device="cpu").keep()
    assert recipes.recipe("hybrid", "hybrid", "split", "digits") == {"gamma": 0.7, "lr": 0.1, "divisor": "batch"}
    search("hybrid", STREAM, tmp_path, loss="ms", grid=["lr=0.2"], seeds=[100], device="cpu").keep()
    assert recipes.recipe("hybrid", "ms", "split", "digits") == {"lr": 0.2, "divisor": "batch"}
    assert recipes.recipe("hybrid", "hybrid", "split", "digits")["lr"] == 0.1
    other = search("er", "smooth-digits-0.25", tmp_path, grid=["lr=0.2"], seeds=[100], device="cpu")
    with pytest.raises(MnemonError, match="another spread"):
        other.keep()


def test_what_is_said_about_the_choice(tmp_path, capsys):
    cli.main(["tune", "--method", "er", "--stream", STREAM, "--grid", *GRID, "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert err.startswith("round 1: 4 candidates on seeds 100-102, 12 runs\nlr 0.02, seed 100: accuracy ")
    (line,) = (line for line in out.splitlines() if line.startswith("1  "))
    assert "0.3 " in line
    assert line.rstrip().endswith("chosen")
    assert "edge: lr 0.3 is the largest of its grid" in out
    found = tune(tmp_path, seeds=(100, 101, 102))
    gaps = [validated(0.3, seed) - validated(0.2, seed) for seed in (100, 101, 102)]
    mean, half = mnemon.metrics.confidence_interval(gaps)
    assert f"runner-up: lr 0.2, {mean:.2f} behind" in out
    assert f"± {half:.2f})" in out
    assert (found.finalists[1] in found.in_noise()) == (mean <= half)
    assert "one seed cannot tell noise" in " ".join(tune(tmp_path, seeds=(100,)).sentences())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--method er --seeds 3", "seeds below 100 are the tables'"),
        ("--method er --seeds 99-101", "seeds below 100 are the tables'"),
        (
            "--method er --grid rate=0.1",
            "er with the loss ce has no option 'rate' to tune; it has augment, average, forward, "
            "iterations, lr, replay_classes, sgd_momentum, weight_decay.",
        ),
        ("--method er --grid lr", "a grid is written as OPTION=VALUE,VALUE"),
        ("--method er --grid lr=", "a grid is written as OPTION=VALUE,VALUE"),
        ("--method er --grid lr=fast", "lr must be of type float, not 'fast'"),
        ("--method er --grid lr=0.1,-1", "lr must be above 0"),
        ("--method er --grid lr=nan", "lr must be a finite number"),
        ("--method er --grid lr=0.1 lr=0.2", "lr is in the grid twice"),
        ("--method er --grid memory_size=100,200", "memory_size belongs to the protocol"),
        ("--method er --grid memory-size=100", "To search at another one, give --memory-size."),
        ("--method er --grid backbone=mlp", "To search at another one, give --backbone."),
        ("--method er --search random --space order=random", "To search at another one, give --order."),
        (
            "--method er --memory-size 50 --keep",
            "the recipes are for the paper's protocol, and this search has another memory",
        ),
        ("--method er --backbone mlp --order random --keep", "has another backbone and order; leave out --keep"),
        ("--method er --memory-size -1", "memory_size must be at least 0"),
        ("--method fine-tune --memory-size 50", "has no option 'memory_size'"),
        ("--method er --order rnadom", "did you mean 'random'"),
        ("--method er --backbone resnet", "did you mean 'resnet18'"),
        ("--method hybrid --grid divisor=half", "unknown divisor 'half'"),
        ("--method fine-tune --grid forward=separate", "no option 'forward'"),
        ("--method er --best 0", "at least one candidate"),
        ("--method hybird", "did you mean 'hybrid'?"),
        ("--method er --loss nothing", "unknown loss 'nothing'"),
        ("--method er --device gpu", "there is no device 'gpu' here"),
        ("--method er --classifier ncm,nmc", "unknown classifier 'nmc'"),
        ("--method er --classifier ncm --keep", "a recipe is for the method's own classifier"),
        ("--method er --row averaged-hybird", "did you mean 'averaged-hybrid'?"),
        ("--method er --row averaged-hybrid", "the row averaged-hybrid has the method hybrid, not er."),
        ("--method hybrid --row averaged-hybrid --loss ms", "the row averaged-hybrid has the loss hybrid, not ms."),
        ("--method hybrid --row averaged-hybrid --classifier proxy", "averaged-hybrid is read by ncm, not by proxy."),
        ("--method slda --row patches-512", "nothing of the row patches-512 is chosen on validation."),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["tune", "--stream", STREAM, *words.split()])
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["half a l", "[]", '{"data": 3}'])
def test_a_damaged_log_is_named(tmp_path, content):
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "er-ce-split-digits.json").write_text(content)
    with pytest.raises(MnemonError, match="not the log of a search"):
        tune(tmp_path)


def test_every_grid_can_be_run():
    sizes = {}
    for name in methods():
        for loss in OBJECTIVES:
            try:
                Spec(name, "split-cifar10", loss=loss).choice()
            except MnemonError:
                continue
            grid = grids.grid(name, loss)
            for option, values in grid.items():
                for value in values:
                    Spec(name, "split-cifar10", loss=loss, options={option: value}).choice()
            size = 1
            for values in grid.values():
                size *= len(values)
            sizes[name, loss] = size
    assert sizes["hybrid", "hybrid"] == 10 * 9 * 2
    assert sizes["hybrid", "ms"] == 20
    assert sizes["er", "ce"] == sizes["fine-tune", "ce"] == sizes["iid-offline", "ce"] == 4
    assert sizes["cope", "cope"] == 7
    assert sizes["scr", "supcon"] == 9
    assert sizes["der++", "ce"] == sizes["er-aml", "cosine"] == 12
    assert sizes["pcr", "pcr"] == 6
    assert sizes["gmed-mir", "ce"] == 120


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "tuning").glob("*.json")), ids=lambda path: path.stem)
def test_a_committed_log_is_what_its_records_say(path):
    """Every accuracy is that of a committed run on validation, every candidate is there, the best mean was chosen."""
    there = {(r["run"], r["classifier"]): r for r in ResultFolder(ROOT / "results").read()}
    told = json.loads(path.read_text())
    assert told["finished"]
    assert len(told["candidates"]) == math.prod(len(values) for values in told["grid"].values())
    unsaid = omitted_at_default(methods()[told["method"]], OBJECTIVES[told["loss"]])  # whatever a recipe says by now
    means = []
    for candidate in told["candidates"]:
        read_by = candidate.get("classifier", told["classifier"])  # of several the best
        given = unsaid | told["fixed"] | candidate["values"]
        asked = Spec(told["method"], told["stream"], loss=told["loss"], options=given)
        for run, (seed, accuracy) in zip(candidate["runs"], candidate["accuracies"].items(), strict=True):
            r = there[run, read_by]
            assert (r["split"], r["seed"], r["average_accuracy"]) == ("valid", int(seed), accuracy)
            assert r["options"] == asked.choice().options()
        for name, mean in candidate.get("means", {}).items():
            every = [there[run, name]["average_accuracy"] for run in candidate["runs"]]
            assert mean == pytest.approx(sum(every) / len(every))
            assert mean <= candidate["mean"] + 1e-9
        if list(map(int, candidate["accuracies"])) == told["seeds"] and not candidate["diverged"]:
            means.append((sum(candidate["accuracies"].values()) / len(told["seeds"]), candidate["values"], read_by))
    _, chosen, read_by = max(means, key=lambda each: each[0])
    assert chosen == told["chosen"]
    if "classifiers" in told:
        assert told["classifier"] == read_by


def test_searches_over_other_options_have_logs_of_their_own(tmp_path):
    """First η, then the edits at the η that was kept: the second search does not write over the first."""
    rates = tune(tmp_path, ["lr=0.02,0.2"], "gmed-er")
    first = rates.log.read_bytes()
    edits = tune(tmp_path, ["edit_hold=0.0", "edit_rate=0.1,1.0"], "gmed-er")
    assert rates.log.read_bytes() == first
    assert (rates.log.stem, edits.log.stem) == (
        "gmed-er-ce-split-digits-lr",
        "gmed-er-ce-split-digits-edit_hold-edit_rate",
    )
    text = searches.markdown(tmp_path)
    assert "| GMED-ER, Split Digits | η 0.02, 0.2, at α 0.1, β 0.01 |" in text
    assert "| GMED-ER, Split Digits | β 0.0 × α 0.1, 1.0, at η " in text


def test_a_second_grid_over_the_same_option_joins_the_first(tmp_path, no_runs):
    """The best of all values that were tried is chosen, and is at an edge only where nothing beyond it was tried."""
    first = tune(tmp_path, ["lr=0.02,0.1,0.3"], command="first")
    assert first.chosen.values == {"lr": 0.3}
    assert any("lr 0.3 is the largest" in line for line in first.sentences())
    low = tune(tmp_path, [f"lr={ENDLESS},0.2"], command="second")
    assert low.log == first.log
    assert low.chosen.values == {"lr": 0.3}
    assert not low.at_the_edge()
    written = log(tmp_path)
    assert (written["grid"], written["earlier_commands"]) == ({"lr": [0.02, 0.1, 0.3, 1e30, 0.2]}, ["first"])
    lines = {c["values"]["lr"]: c for c in written["candidates"]}
    assert lines.keys() == {0.02, 0.1, 0.3, 0.2, 1e30}
    assert all(line["accuracies"].keys() == {"100", "101"} for lr, line in lines.items() if lr < 1)
    assert "earlier: tried before with the same seeds and fixed values, and counted here: 3" in low.sentences()
    no_runs()
    before = low.log.read_bytes()
    tune(tmp_path, [f"lr={ENDLESS},0.2"], command="second")
    assert low.log.read_bytes() == before


def test_halving_of_a_second_grid_loses_nothing_of_the_first(tmp_path):
    first = tune(tmp_path, ["lr=0.02,0.1"], best=2)
    assert all(len(c.records) == 2 for c in first.candidates)
    second = tune(tmp_path, ["lr=0.2,0.3"], best=1)
    best = max((0.02, 0.1, 0.2, 0.3), key=lambda lr: validated(lr, 100))
    lines = {c["values"]["lr"]: len(c["accuracies"]) for c in log(tmp_path)["candidates"]}
    assert lines == {lr: 2 if lr in (0.02, 0.1, best) else 1 for lr in RATES}
    assert second.chosen.values == {"lr": best}


def test_searches_with_other_seeds_or_fixed_values_have_logs_of_their_own(tmp_path, copied):
    first = tune(tmp_path, ["lr=0.1"], "gmed-er", seeds=(100,))
    before = first.log.read_bytes()
    other = tune(tmp_path, ["lr=0.2"], "gmed-er", seeds=(101,))
    recipes.keep(("gmed-er", "ce", STREAM), recipes.Recipe({"edit_rate": 0.5}, "-"))
    third = tune(tmp_path, ["lr=0.2"], "gmed-er", seeds=(100,))
    name = "gmed-er-ce-split-digits-lr"
    assert [each.log.name for each in (first, other, third)] == [f"{name}.json", f"{name}.2.json", f"{name}.3.json"]
    assert first.log.read_bytes() == before
    assert tune(tmp_path, ["lr=0.2,0.3"], "gmed-er", seeds=(100,)).log == third.log
    assert len(searches.markdown(tmp_path).splitlines()) == 2 + 3


def test_a_search_at_another_protocol(tmp_path, capsys):
    """All candidates have the values, which are in the log's name; the recipe is not touched by it."""
    words = ["tune", "--method", "er", "--stream", STREAM, "--grid", "lr=0.1,0.3", "--seeds", "100-100", "--quiet"]
    own = ["--memory-size", "50", "--batch-size", "5", "--backbone", "mlp:width=20", "--order", "random"]
    cli.main([*words, *own, "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "--keep" not in out
    made = ResultFolder(tmp_path).read()
    assert {(r["options"]["memory_size"], r["options"]["batch_size"], r["order"]) for r in made} == {(50, 5, "random")}
    want = Spec(
        "er",
        STREAM,
        100,
        split="valid",
        order="random",
        backbone="mlp:width=20",
        options={"lr": 0.1, "memory_size": 50, "batch_size": 5},
    )
    assert list(RecordIndex(made).like(want, "softmax")) == [100]
    name = "er-ce-split-digits-memory_size=50-batch_size=5-backbone=mlp,width=20-order=random"
    written = log(tmp_path, name)
    assert written["protocol"] == {"memory_size": 50, "batch_size": 5, "backbone": "mlp:width=20", "order": "random"}
    assert written["command"].endswith(" ".join(own))
    cli.main([*words, "--out", str(tmp_path)])
    assert len(ResultFolder(tmp_path).read()) == 4
    assert "protocol" not in log(tmp_path)
    assert "--keep" in capsys.readouterr().out


def test_of_several_classifiers_the_best_mean_is_chosen_and_one_training_serves_all(tmp_path, no_runs):
    """A candidate counts by the classifier that reads it best, and the search has a log of its own."""
    found = tune(tmp_path, ["lr=0.02,0.2"], classifiers=("softmax", "ncm"))
    made = ResultFolder(tmp_path).read()
    assert len(made) == 2 * 2 * 2  # rates, seeds, classifiers
    assert len({r["run"] for r in made}) == 4
    means = {}
    for r in made:
        means.setdefault((r["options"]["lr"], r["classifier"]), []).append(r["average_accuracy"])
    means = {key: sum(values) / 2 for key, values in means.items()}
    lr, classifier = max(means, key=means.get)
    assert (found.chosen.values, found.chosen.classifier) == ({"lr": lr}, classifier)
    assert found.log.stem == "er-ce-split-digits-softmax-ncm"
    written = log(tmp_path, found.log.stem)
    assert (written["classifiers"], written["classifier"]) == (["softmax", "ncm"], classifier)
    for line in written["candidates"]:
        its = {name: mean for (lr, name), mean in means.items() if lr == line["values"]["lr"]}
        assert line["means"] == pytest.approx(its)
        assert line["mean"] == pytest.approx(max(its.values()))
        assert its[line["classifier"]] == max(its.values())
    assert f"lr {lr}, read by {classifier}" in found.sentences()[0]
    assert f"η {lr}, {classifier}: " in searches.markdown(tmp_path)
    no_runs()
    assert tune(tmp_path, ["lr=0.02,0.2"], classifiers=("softmax", "ncm")).chosen.values == {"lr": lr}
    assert tune(tmp_path, ["lr=0.02,0.2"]).chosen.classifier == "softmax"  # its records are there too


def test_a_search_for_a_row_stands_at_the_rows_values(tmp_path):
    row = tuning.RowSetting("some-row", ("ncm",), {"replay_size": 5}, {"lr": (0.1, 0.2)}, "nowhere")
    found = tune(tmp_path, (), row=row, seeds=(100,))
    assert [c.values for c in found.candidates] in ([{"lr": 0.1}, {"lr": 0.2}], [{"lr": 0.2}, {"lr": 0.1}])
    assert {(r["options"]["replay_size"], r["classifier"]) for r in ResultFolder(tmp_path).read()} == {(5, "ncm")}
    assert found.log.stem == "some-row-split-digits"
    assert log(tmp_path, found.log.stem)["row"] == "some-row"
    assert log(tmp_path, found.log.stem)["fixed"]["replay_size"] == 5
    assert any(said.startswith("recipe: ") and said.endswith("(nowhere)") for said in found.sentences())


def test_words_stand_beside_numbers_in_a_grid():
    """As `average=auto,0.99`: an option that takes a word or a number."""
    fields = options.fields(Worded())
    choice = SimpleNamespace(fields=lambda: fields)
    assert parse_grid(["share=auto,0.25,1"], choice) == {"share": ("auto", 0.25, 1.0)}
    with pytest.raises(MnemonError, match="share must be of type float or 'auto', not 'some'"):
        parse_grid(["share=auto,some"], choice)


@dataclasses.dataclass(frozen=True)
class Worded:
    share: float = options.option(0.0, "a number or a word", words=("auto",))


def test_the_searches_of_a_folder_as_a_table(tmp_path):
    """The best first, with what the recipe is now; a log that is none is named."""
    found = tune(tmp_path, ["lr=0.02,0.2"])
    (line,) = searches.markdown(tmp_path).splitlines()[2:]
    best, other = (str(estimate(c.accuracies)) for c in found.candidates)
    assert f"| ER, Split Digits | η 0.02, 0.2 | 100–101 | η 0.2 | η {found.chosen.values['lr']}: {best}; " in line
    assert line.endswith(f"{other} |")
    (tmp_path / "tuning" / "x.json").write_text("{")
    with pytest.raises(MnemonError, match="is not the log of a search"):
        searches.markdown(tmp_path)
