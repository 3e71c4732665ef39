"""Options: numbers that may be words, options that came later, and sentences that name what there is."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

import mnemon
from command_line import run
from mnemon import MnemonError
from mnemon.experiments import tuning
from mnemon.experiments.job import _kind
from mnemon.experiments.recipes import recipes
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning import options
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods
from mnemon.learning.methods.er import ER
from mnemon.learning.objectives import OBJECTIVES
from mnemon.learning.options import option
from mnemon.learning.stacked.stack import Stack
from mnemon.report import groups


@dataclass(frozen=True)
class Averaging(ER):
    """A decay that may also be "auto", and came later."""

    name: ClassVar[str] = "averaging"
    average: float | str = option(
        0.0, "decay of the averaged weights", least=0, below=1, words=("auto", "half"), since="0.2"
    )
    warm_up: float | str = option("none", "steps before it", above=0, words=("none", "auto"), since="0.2")


@pytest.fixture(autouse=True)
def averaging(monkeypatch):
    monkeypatch.setitem(methods(), "averaging", Averaging)


@pytest.mark.parametrize("value", ["auto", "half", 0.99, 0.0, 0])
def test_a_number_may_be_a_word(value):
    found = choose("averaging", given={"average": value}).method.average
    assert found == value
    assert type(found) is (str if isinstance(value, str) else float)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("atuo", "average must be of type float or 'auto' or 'half', not 'atuo'."),
        ("", "average must be of type float or 'auto' or 'half', not ''."),
        (None, "average must be of type float or 'auto' or 'half', not None."),
        (True, "average must be of type float or 'auto' or 'half', not True."),
        (1.0, "average must be below 1, not 1.0."),
        (-0.5, "average must be at least 0, not -0.5."),
        (float("nan"), "average must be a finite number, not nan."),
    ],
)
def test_neither_a_number_nor_one_of_the_words(value, sentence):
    with pytest.raises(MnemonError) as error:
        choose("averaging", given={"average": value})
    assert str(error.value) == sentence


def test_the_default_may_be_the_word():
    assert choose("averaging").method.warm_up == "none"
    assert choose("averaging", given={"warm_up": 3}).method.warm_up == 3.0
    with pytest.raises(MnemonError, match="warm_up must be above 0"):
        choose("averaging", given={"warm_up": 0})


def test_words_and_numbers_on_the_command_line(tmp_path, capsys):
    command = ["run", "--method", "averaging", "--stream", "split-digits", "--device", "cpu", "--out"]
    for typed, value in (("auto", "auto"), ("0.5", 0.5), ("0", None)):
        run(*command, str(tmp_path / typed), "--average", typed, capsys=capsys)
        (record,) = ResultFolder(tmp_path / typed).read()
        assert record["options"].get("average") == value
        again = groups.spec(record).command()
        assert again[-2:] == (["--average", typed] if value else ["--stream", "split-digits"])
    _, err = run(*command, str(tmp_path), "--average", "often", code=2, capsys=capsys)
    assert "average" in err
    out, _ = run("run", "--help", capsys=capsys)
    assert "--average FLOAT|auto|half" in " ".join(out.replace("│", " ").split())


def test_a_grid_of_numbers_and_words(tmp_path):
    at_recipe = choose("averaging", given={"average": "auto"})  # the type is the declaration's, not the recipe's
    grid = tuning._parse(["average=0,auto,0.99,0.0", "lr=0.1"], at_recipe)
    assert grid == {"average": (0.0, "auto", 0.99), "lr": (0.1,)}
    with pytest.raises(MnemonError, match=r"average must be of type float or 'auto' or 'half', not 'x'\."):
        tuning._parse(["average=0,x"], at_recipe)
    found = tuning.search("averaging", "split-digits", tmp_path, grid=["average=0,auto,0.99"], seeds=[100])
    log = json.loads(found.log.read_text())
    assert log["grid"] == {"average": [0.0, "auto", 0.99]}
    assert [c["values"]["average"] for c in log["candidates"]] == [0.0, "auto", 0.99]  # ER all the same: no best
    assert found.at_the_edge() == ["average 0.0 is the smallest of its grid"]


def test_a_recipe_holds_either(copied):
    for value in ("auto", 0.5):
        recipes.keep(("averaging", "ce", "split-digits"), recipes.Recipe({"average": value}, "a test"))
        assert Spec("averaging", "split-digits").choice().method.average == value


def test_runs_with_a_word_and_with_a_number_do_not_stack():
    kinds = [
        _kind(spec, spec.choice())
        for value in (0.5, 0.25, "auto", "half")
        for spec in [Spec("averaging", "split-digits", options={"average": value})]
    ]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 3


@pytest.mark.parametrize("other", [{"average": "auto"}, {"average": "auto", "warm_up": 0.5}])
def test_a_stack_refuses_a_word_beside_a_number(other):
    """Even where as many options have the same word."""
    learners = [
        Learner(choice.method, choice.objective, Inputs((4,)), backbone="identity")
        for given in ({"average": 0.5, "warm_up": "auto"}, other)
        for choice in [choose("averaging", given=given)]
    ]
    with pytest.raises(ValueError, match="only learners of one kind"):
        Stack(learners)


def test_an_option_that_came_later_is_in_no_name_at_its_default():
    def name(**given):
        spec = Spec("averaging", "split-digits", options=given)
        return spec.key(spec.choice(), "split-digits", "-", {})

    assert "average" not in choose("averaging").options()
    assert choose("averaging", given={"average": 0.5}).options()["average"] == 0.5
    assert name() == name(average=0) == name(warm_up="none")
    assert len({name(), name(average=0.5), name(average="auto")}) == 3
    record = {"method": "averaging", "stream": "split-digits", "loss": "ce", "options": {"lr": 0.1}}
    assert groups.spec(record).options == {"forward": "joint", "average": 0.0, "warm_up": "none", "lr": 0.1}


def test_the_options_that_came_later():
    """Marked once, where they are declared; runs recorded before them depend on it."""
    found = {name: list(options.omitted_at_default(method)) for name, method in methods().items()}
    del found["averaging"]
    mir = {"mir", "gmed-mir"}
    own = {name: ["statistics"] if name in mir else ["reference_size"] if name == "a-gem" else [] for name in found}
    assert found == {name: ["forward", *own[name]] for name in found}
    losses = {name: list(options.omitted_at_default(loss)) for name, loss in OBJECTIVES.items()}
    assert {name: later for name, later in losses.items() if later} == {"pnca": ["scale"], "hybrid": ["scale"]}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"gamma": 1.0},
            "er with the loss ce has no option 'gamma' (it is an option of the loss hybrid or hybrid-ace or hybrid-ce); "
            "it has batch_size, forward, lr, memory_size, replay_size.",
        ),
        (
            {"candidates": 10},
            "er with the loss ce has no option 'candidates' (it is an option of the method gmed-mir or mir); "
            "it has batch_size, forward, lr, memory_size, replay_size.",
        ),
        (
            {"width": 10},
            "er with the loss ce has no option 'width' (it is an option of the backbone mlp, written mlp:width=…); "
            "it has batch_size, forward, lr, memory_size, replay_size.",
        ),
        (
            {"speed": 10},
            "er with the loss ce has no option 'speed'; it has batch_size, forward, lr, memory_size, replay_size.",
        ),
        ({"lr": "fast"}, "lr must be of type float, not 'fast'."),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0."),
        ({"forward": "jiont"}, "unknown forward 'jiont'; did you mean 'joint'?"),
    ],
)
def test_an_option_that_is_refused_is_one_sentence_that_says_what_there_is(given, sentence):
    with pytest.raises(MnemonError) as error:
        mnemon.run("er", "split-digits", **given)
    assert str(error.value) == sentence


def test_an_option_without_meaning_is_not_said_to_belong_elsewhere():
    with pytest.raises(MnemonError) as error:
        choose("fine-tune", given={"memory_size": 10})
    assert str(error.value) == "fine-tune with the loss ce has no option 'memory_size'; it has batch_size, lr."
