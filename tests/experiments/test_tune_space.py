"""Tuning by proposals: the same seed proposes the same, a killed search goes on, hopeless candidates get no further seeds."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

import pytest

from mnemon import MnemonError, cli
from mnemon.experiments.executor import Executor
from mnemon.experiments.progress import RunProgress
from mnemon.experiments.recipes import recipes
from mnemon.experiments.store import ResultFolder
from mnemon.experiments.tuning import RowSetting, rounds, search, search_space
from mnemon.experiments.tuning.proposals import Told, propose
from mnemon.experiments.tuning.space import Range, parse_space, space_of
from mnemon.learning.build import choose
from mnemon.paper import searches

pytest.importorskip("optuna")

STREAM = "split-digits"
SPACE = ["lr=1e-3..0.5:log"]


def tune(out, space=SPACE, method="er", seeds=(100, 101, 102), trials=8, batch=4, **more):
    about = {"space": space, "seeds": seeds, "trials": trials, "batch": batch, "device": "cpu"}
    return search_space(method, STREAM, out, **about | more)


def log(found):
    return json.loads(found.log.read_text())


def proposed(found):
    return [c.values for c in found.asked]


def ran(out):
    return sorted((r["options"]["lr"], r["seed"]) for r in ResultFolder(out).read())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search that nothing disturbed."""
    return tune(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def no_runs(monkeypatch):
    """From now on nothing may run."""
    return lambda: monkeypatch.setattr(Executor, "settle", lambda *_: pytest.fail("ran again"))


# --- proposals


def trials(count, lrs):
    """Trials with the best lr at 0.1; every third is pruned after one seed."""
    made = []
    for number, lr in enumerate(lrs[:count]):
        accuracy = 90 - abs(lr - 0.1) * 100
        made.append(Told({"lr": lr}, [accuracy] if number % 3 == 0 else [accuracy] * 3, number % 3 == 0))
    return made


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_proposals_are_a_function_of_seed_and_results(sampler):
    space = {"lr": Range(1e-3, 0.5, log=True)}
    lrs = [values["lr"] for values in propose(space, sampler, 0, [], 24)]
    told = trials(24, lrs)
    first = propose(space, sampler, 0, told, 8)
    assert propose(space, sampler, 0, told, 8) == first
    assert propose(space, sampler, 0, told, 3) == first[:3]  # a search with more trials begins as one with fewer
    assert propose(space, sampler, 1, told, 8) != first
    better = [Told(t.values, [95.0] * 3, False) if t.values["lr"] > 0.3 else t for t in told]
    assert (propose(space, sampler, 0, better, 8) == first) == (sampler == "random")
    assert len({values["lr"] for values in first}) == 8  # a batch is not one proposal many times


def test_tpe_proposes_where_the_good_ones_were():
    """Around the best of the trials so far, unlike a random search."""
    space = {"lr": Range(0.0, 1.0)}
    lrs = [number / 24 for number in range(24)]
    near = {
        sampler: sum(0.05 < values["lr"] < 0.15 for values in propose(space, sampler, 0, trials(24, lrs), 16))
        for sampler in ("tpe", "random")
    }
    assert near["tpe"] > 2 * near["random"]


def test_tpe_leaves_alone_what_diverged():
    space = {"lr": Range(0.0, 1.0)}
    told = [
        Told({"lr": n / 24}, [], True) if n > 12 else Told({"lr": n / 24}, [80 + n / 100] * 3, False) for n in range(24)
    ]
    assert sum(values["lr"] > 0.6 for values in propose(space, "tpe", 0, told, 16)) < 5


def test_whole_numbers_words_and_digits():
    space = {"n": Range(1, 9), "lr": Range(1e-3, 0.5, log=True), "gamma": Range(0.0, 2.0), "divisor": ("a", "b")}
    for values in propose(space, "tpe", 0, [], 30):
        assert type(values["n"]) is int
        assert 1 <= values["n"] <= 9
        assert values["divisor"] in ("a", "b")
        assert values["lr"] == float(f"{values['lr']:.4g}")
        assert values["gamma"] == round(values["gamma"], 3)
    assert Range(0.12344, 0.12346).rounded(0.123449) == pytest.approx(0.123449, abs=1e-8)
    assert Range(1e-3, 0.5, log=True).rounded(0.00099999) == 1e-3  # never outside


# --- searches


def test_the_best_mean_over_all_seeds_is_chosen(whole):
    assert len(whole.asked) == 8
    complete = [c for c in whole.candidates if len(c.records) == 3]
    assert whole.chosen is max(complete, key=lambda c: statistics.fmean(c.accuracies))
    written = log(whole)
    assert (written["finished"], written["chosen"], written["asked"]) == (True, whole.chosen.values, 8)
    assert (written["space"], written["search"]) == ({"lr": "0.001..0.5:log"}, "tpe")
    assert sorted(c["trial"] for c in written["candidates"]) == list(range(1, 9))
    assert whole.log.stem == "er-ce-split-digits-tpe"
    made = ResultFolder(whole.out).read()
    assert {(r["split"], r["cell"]) for r in made} == {("valid", "tune")}
    assert {r["seed"] for r in made} == {100, 101, 102}


def test_a_candidate_below_the_median_gets_no_further_seeds(whole):
    first = whole.asked[:4]  # the first batch is compared with itself alone
    after_one = statistics.median(c.mean_on([100]) for c in first)
    on = [c for c in first if c.mean_on([100]) >= after_one]
    after_two = statistics.median(c.mean_on([100, 101]) for c in on)
    expected = [1 if c not in on else 2 if c.mean_on([100, 101]) < after_two else 3 for c in first]
    assert [len(c.records) for c in first] == expected
    assert [c.pruned for c in first] == [n < 3 for n in expected]
    second = whole.asked[4:]  # and the second with both
    bar = statistics.median(c.mean_on([100]) for c in whole.asked)
    assert [len(c.records) == 1 for c in second] == [c.mean_on([100]) < bar for c in second]
    assert len(ResultFolder(whole.out).read()) == sum(len(c.records) for c in whole.candidates) < 8 * 3


def test_the_same_seed_tries_the_same_and_a_repetition_runs_nothing(whole, tmp_path, no_runs):
    assert proposed(tune(tmp_path, search_seed=7)) != proposed(whole)
    before = whole.log.read_bytes()
    no_runs()
    again = tune(whole.out)
    assert proposed(again) == proposed(whole)
    assert again.log.read_bytes() == before


@pytest.mark.parametrize("after", [2, 5, 9])
def test_a_killed_search_goes_on(whole, tmp_path, monkeypatch, after):
    """In the middle of a batch, or between two: the same trials, and no run is made twice."""

    class Killed(BaseException):
        pass

    def kill(self, *_, **__):
        if len(ResultFolder(tmp_path).read()) == after:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RunProgress, "_end", kill)
        with pytest.raises(Killed):
            tune(tmp_path)
    made = ResultFolder(tmp_path).read()
    assert len(made) == after
    asked = []
    real = rounds.run_all
    monkeypatch.setattr(
        rounds, "run_all", lambda specs, *rest, **more: asked.extend(specs) or real(specs, *rest, **more)
    )
    again = tune(tmp_path)
    assert proposed(again) == proposed(whole)
    assert ran(tmp_path) == ran(whole.out)
    assert not {(s.options["lr"], s.seed) for s in asked} & {(r["options"]["lr"], r["seed"]) for r in made}
    assert log(again)["candidates"] == log(whole)["candidates"]


@pytest.mark.slow
def test_a_search_killed_by_the_system_goes_on(whole, tmp_path):
    """SIGKILL leaves no time for anything; the same command then ends with the trials of one that was left alone."""
    words = (
        f"tune --method er --stream {STREAM} --search tpe --space {SPACE[0]} --trials 8 --batch 4 --device cpu".split()
    )
    command = [sys.executable, "-m", "mnemon", *words, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while len(ResultFolder(tmp_path).read()) < 3 and process.poll() is None:
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    made = {r["run"]: r["finished"] for r in ResultFolder(tmp_path).read()}
    assert 3 <= len(made) < len(ran(whole.out))
    subprocess.run(command, check=True, capture_output=True)
    assert ran(tmp_path) == ran(whole.out)
    after = {r["run"]: r["finished"] for r in ResultFolder(tmp_path).read()}
    assert made.items() <= after.items()


def test_more_trials_go_on_from_fewer(whole, tmp_path):
    fewer = tune(tmp_path, trials=4)
    assert proposed(fewer) == proposed(whole)[:4]
    assert proposed(tune(tmp_path, trials=8)) == proposed(whole)
    assert ran(tmp_path) == ran(whole.out)


def test_what_else_is_in_the_folder_changes_nothing(whole, tmp_path):
    """A pruned candidate whose other seeds are there all the same counts as it did."""
    pruned = next(c for c in whole.candidates if c.pruned)
    search("er", STREAM, tmp_path, grid=[f"lr={pruned.values['lr']}"], seeds=(100, 101, 102), device="cpu")
    again = tune(tmp_path)
    assert proposed(again) == proposed(whole)
    assert [len(c.records) for c in again.asked] == [len(c.records) for c in whole.asked]


def test_what_diverges_is_the_worst_and_not_tried_again(tmp_path, no_runs):
    space = ["lr=0.1,1e30,1e31"]
    found = tune(tmp_path, space, trials=6, seeds=(100, 101))
    assert found.chosen.values == {"lr": 0.1}
    assert [c.diverged for c in found.candidates if c.values["lr"] > 1] == [{100}, {100}]
    written = found.log.read_bytes()
    no_runs()
    assert tune(tmp_path, space, trials=6, seeds=(100, 101)).log.read_bytes() == written
    other = tune(tmp_path, ["lr=0.1"], trials=1, seeds=(100, 101))  # its log also has what the longer search saw
    assert (other.log, len(other.candidates)) == (found.log, 1)
    assert len(tune(tmp_path, space, trials=6, seeds=(100, 101)).candidates) == 3
    with pytest.raises(MnemonError, match="no candidate is left"):
        tune(tmp_path, ["lr=1e30,1e31"], trials=2, seeds=(100, 101))


def test_values_proposed_twice_run_once(tmp_path):
    found = tune(tmp_path, ["lr=0.05,0.2"], trials=8, seeds=(100,))
    assert (len(found.asked), len(found.candidates), len(ResultFolder(tmp_path).read())) == (8, 2, 2)


def test_several_classifiers_and_words(tmp_path):
    found = tune(tmp_path, ["divisor=active,batch", "lr=0.05..0.4"], "hybrid", classifiers=("ncm", "proxy"), trials=4)
    assert found.chosen.classifier in ("ncm", "proxy")
    assert found.log.stem == "hybrid-hybrid-split-digits-tpe-divisor-lr-ncm-proxy"
    text = searches.markdown(tmp_path)
    assert "η 0.05..0.4" in text
    assert "4 trials of tpe" in text


def test_a_search_for_a_row_spans_the_rows_grid(tmp_path):
    row = RowSetting("some-row", ("ncm",), {"replay_size": 5}, {"lr": (0.1, 0.2)}, "nowhere")
    found = tune(tmp_path, (), row=row, seeds=(100,), trials=2)
    assert {(r["options"]["replay_size"], r["classifier"]) for r in ResultFolder(tmp_path).read()} == {(5, "ncm")}
    assert found.log.stem == "some-row-split-digits-tpe"
    assert (log(found)["row"], log(found)["space"]) == ("some-row", {"lr": "0.1..0.2"})


def test_the_command_prints_a_table_and_keeps(tmp_path, copied, capsys):
    words = f"tune --method er --stream {STREAM} --search random --trials 4 --batch 2 --seeds 100-101 --out".split()
    cli.main([*words, str(tmp_path)])
    out, err = capsys.readouterr()
    assert err.startswith("trials 1-2 of 4: 2 candidates on seed 100, 2 runs\nlr 0.")
    assert "pruned; the best so far: lr 0." in err
    assert out.startswith(f"er on {STREAM}: 4 trials of random, ")
    table = out[: out.index("chosen: lr")].splitlines()
    assert max(map(len, table)) <= 80
    assert sum(line.rstrip().endswith("pruned") for line in table) == int(out.split(" pruned,")[0].split()[-1]) > 0
    cli.main([*words, str(tmp_path), "--keep", "--quiet"])
    kept = recipes.cells()["er", "ce", STREAM]
    assert f"chosen: lr {kept.values['lr']}\n" in out
    assert kept.source.startswith("mnemon tune, on validation: 4 trials of random, ")


# --- the space


def test_a_space_in_words():
    choice = choose("hybrid")
    words = ["lr=1e-3..0.5:log", "gamma=0..2", "divisor=active,batch"]
    assert parse_space(words, choice) == {
        "lr": Range(0.001, 0.5, log=True),
        "gamma": Range(0.0, 2.0),
        "divisor": ("active", "batch"),
    }
    whole = parse_space(["candidates=10..100"], choose("mir"))["candidates"]
    assert (whole.whole, str(whole)) == (True, "10..100")
    assert parse_space(["edit-hold=-0.01..0.1"], choose("gmed-er")) == {"edit_hold": Range(-0.01, 0.1)}


def test_what_a_grid_spans():
    grid = {
        "lr": (0.1, 0.01),
        "gamma": (0.0, 1.0, 2.0),
        "divisor": ("a", "b"),
        "views": (1, 2),
        "average": ("auto", 0.9),
    }
    assert space_of(grid) == {
        "lr": Range(0.01, 0.1, log=True),
        "gamma": Range(0.0, 2.0),
        "divisor": ("a", "b"),
        "views": Range(1, 2),
        "average": ("auto", 0.9),
    }


def test_an_end_of_a_range_is_pointed_out():
    assert [Range(0.0, 2.0).edge(value) for value in (0.0, 0.03, 1.0, 1.99)] == ["lower", "lower", None, "upper"]
    assert [Range(1e-3, 1.0, log=True).edge(value) for value in (0.00105, 0.03, 0.95)] == ["lower", None, "upper"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--search tpe --space rate=0..1",
            "er with the loss ce has no option 'rate' to tune; it has augment, average, ",
        ),
        (
            "--search tpe --space lr=0.5..0.1",
            "lr=0.5..0.1 is empty: the first number of a range must be below the second.",
        ),
        ("--search tpe --space lr=0.1..0.1", "lr=0.1..0.1 is empty"),
        ("--search tpe --space lr=nan..1", "lr=nan..1 is empty"),
        ("--search tpe --space lr=0.1..inf", "lr must be a finite number"),
        ("--search tpe --space lr=0..0.5:log", "lr=0..0.5:log is not possible: a logarithmic range begins above 0."),
        ("--search tpe --space lr=0..0.5", "lr must be above 0"),
        ("--search tpe --space lr=0.1..0.5:lin", "the only ending of a range is :log."),
        ("--search tpe --space lr=a..b", "lr must be of type float, not 'a'"),
        ("--search tpe --space lr", "a space is written as OPTION=LOW..HIGH"),
        ("--search tpe --space lr=0.1..0.2 lr=0.3,0.4", "lr is in the space twice"),
        ("--search tpe --space memory_size=10..20", "memory_size belongs to the protocol"),
        ("--loss hybrid --search tpe --space divisor=a..b", "divisor takes words, which have no range; write divisor="),
        (
            "--search tpe --space average=auto..0.9",
            "a range lies between two numbers, and auto in average=auto..0.9 is",
        ),
        ("--search tpe --trials 0", "--trials must be at least 1, not 0."),
        ("--search tpe --batch 0", "--batch must be at least 1, not 0."),
        ("--search tpe --search-seed -1", "--search-seed must be at least 0, not -1."),
        ("--search tpe --seeds 3", "seeds below 100 are the tables'"),
        ("--search tpe --grid lr=0.1", "--grid is an option of --search grid, not of tpe."),
        ("--search tpe --best 3", "--best is an option of --search grid, not of tpe."),
        ("--trials 3", "--trials is an option of --search tpe or random, not of grid."),
        ("--space lr=0.1..0.2", "--space is an option of --search tpe or random, not of grid."),
        ("--search bayes", "unknown search 'bayes'"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["tune", "--method", "er", "--stream", STREAM, *words.split()])
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_without_optuna_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit):
        cli.main(["tune", "--method", "er", "--stream", STREAM, "--search", "tpe", "--out", str(tmp_path / "out")])
    assert "pip install 'mnemon[tune]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
