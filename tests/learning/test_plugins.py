"""Code from outside the package: imported where it is named, known by its digest, refused with a sentence."""

import sys
from dataclasses import dataclass

import pytest
import torch

import mnemon
from mnemon import MnemonError, OnlineClassifier, rng
from mnemon.learning import plugins, sources
from mnemon.learning.build import choose
from mnemon.learning.classifier import Classifier
from mnemon.learning.classifiers.ncm import NearestMean
from mnemon.learning.losses import only_seen
from mnemon.learning.method import Method
from mnemon.learning.objectives import CrossEntropy
from mnemon.learning.options import option

METHOD = """
from dataclasses import dataclass
from mnemon.learning.method import Method
from mnemon.learning.objectives import CrossEntropy
from mnemon.learning.classifiers.ncm import NearestMean

class Loss(CrossEntropy):
    name = "their-loss"

class Near(NearestMean):
    name = "their-classifier"

class Mine(Method):
    name = "mine"
    default_objective = "their-loss"
    default_classifier = "their-classifier"
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What a test adds is gone after it."""
    monkeypatch.setattr(plugins, "_added", {kind: {} for kind in plugins.BASES})
    monkeypatch.setattr(plugins, "_failed", {kind: {} for kind in plugins.BASES})
    monkeypatch.setattr(sys, "path", list(sys.path))
    plugins.use_installed.cache_clear()
    yield
    plugins.use_installed.cache_clear()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(METHOD)
    return path


def digest(path, name="Mine"):
    return sources.digest(plugins.find("method", plugins.use("method", f"{path}:{name}")))


def test_a_class_of_a_file_is_known_by_its_name_and_so_is_what_stands_beside_it(file):
    assert plugins.use("method", f"{file}:Mine") == "mine"
    choice = choose("mine")
    assert (choice.objective.name, choice.classifiers[0].name) == ("their-loss", "their-classifier")
    assert list(choice.from_outside()) == ["method", "loss", "classifier their-classifier"]
    assert plugins.use("classifier", f"{file}:Near:k=3") == "their-classifier:k=3"  # its options stay there
    assert plugins.use("method", "er") == "er"
    assert choose("er").from_outside() == {}


def test_a_name_alone_imports_nothing(file):
    with pytest.raises(MnemonError, match=r"unknown method 'mine'.*path/to/file\.py:Class"):
        choose("mine")
    with pytest.raises(MnemonError, match="unknown method"):
        choose(f"{file}:Mine")  # as a record might hold it
    with pytest.raises(MnemonError, match="unknown loss"):
        choose("er", f"{file}:Loss")
    with pytest.raises(MnemonError, match="unknown classifier"):
        choose("er", None, [f"{file}:Near"])
    assert str(file) not in {getattr(module, "__file__", None) for module in list(sys.modules.values())}


def test_the_digest_is_of_the_code_and_not_of_the_place(file, tmp_path):
    first = digest(file)
    assert digest(file) == first
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "mine.py"
    moved.write_text(METHOD)
    assert digest(moved) == first
    file.write_text(METHOD + "\n# another comment\n")
    assert digest(file) != first
    assert digest(moved) == first


def test_the_digest_covers_the_neighbours_that_a_file_imports(tmp_path, monkeypatch):
    def version(number, value):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "neighbour_of_mine.py").write_text(f"HALF = {value}\n")
        (folder / "mine.py").write_text("from neighbour_of_mine import HALF\n" + METHOD)
        monkeypatch.delitem(sys.modules, "neighbour_of_mine", raising=False)
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.startswith(str(tmp_path))])
        return digest(folder / "mine.py")

    first, same, other = version(0, 1), version(1, 1), version(2, 2)
    assert first == same != other


class Attributes(Method):
    name = "attributes"
    half = 1


def test_the_digest_of_a_class_covers_the_values_a_program_sets(monkeypatch):
    first = sources.digest(Attributes)
    assert first is not None
    monkeypatch.setattr(Attributes, "half", 2)
    assert sources.digest(Attributes) not in (first, None)


def test_a_class_that_no_file_holds_has_no_digest():
    class Local(Method):
        name = "local"

    assert sources.digest(Local) is None
    assert sources.digest(type("Made", (Method,), {"name": "made"})) is None


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        ("1 / 0", "Mine", r"mine\.py cannot be imported: ZeroDivisionError: division by zero\."),
        ("raise SystemExit", "Mine", r"mine\.py cannot be imported: SystemExit\."),
        ("class", "Mine", r"mine\.py cannot be imported: SyntaxError: "),
        (METHOD, "Your", r"mine\.py has no Method class 'Your'; it has Mine\."),
        (METHOD, "Loss", r"mine\.py has no Method class 'Loss'; it has Mine\."),
        (METHOD.replace('"mine"', '"er"'), "Mine", "Mine is called 'er' as one of mnemon's methods is"),
        (METHOD.replace('"mine"', '"../up"'), "Mine", "Mine needs a `name` of up to 60 letters"),
        (
            METHOD + "    k: int = __import__('mnemon.learning.options').learning.options.option(3, '')\n",
            "Mine",
            r"Mine has the option k, so it needs @dataclass\(frozen=True\)",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence(file, content, name, sentence):
    file.write_text(content)
    with pytest.raises(MnemonError, match=sentence) as error:
        plugins.use("method", f"{file}:{name}")
    assert "\n" not in str(error.value)
    assert "mine" not in plugins.known("method")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(MnemonError, match=r"none\.py cannot be read \(No such file or directory\)"):
        plugins.use("loss", str(tmp_path / "none.py:Loss"))


def test_a_process_refuses_code_that_changed_since_it_was_sent(file):
    found = plugins.files([plugins.find("method", plugins.use("method", f"{file}:Mine"))])
    plugins.use_files(found)
    file.write_text(METHOD + "\n")
    with pytest.raises(MnemonError, match="has changed since the command was started"):
        plugins.use_files(found)


def test_installed_packages_offer_entry_points_and_a_broken_one_breaks_nothing_else(tmp_path, monkeypatch, caplog):
    (tmp_path / "offering.py").write_text(METHOD)
    (tmp_path / "broken_offer.py").write_text("import nothing_of_this_name\n")
    about = tmp_path / "offering-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[mnemon.methods]\nmine = offering:Mine\nbroken = broken_offer:Mine\nother = offering:Mine\nno = offering:Loss\n"
        "[mnemon.losses]\ntheir-loss = offering:Loss\n[mnemon.classifiers]\ntheir-classifier = offering:Near\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" not in plugins.known("method")  # a name alone imports nothing
    plugins.use_installed()
    assert choose("mine").objective.name == "their-loss"
    assert sources.digest(plugins.find("method", "mine")) is not None
    assert sorted(caplog.messages) == [
        "the method 'broken' (broken_offer:Mine) cannot be imported: ModuleNotFoundError: No module named "
        "'nothing_of_this_name'.",
        "the method 'no' (offering:Loss) is no Method class.",
        "the method 'other' (offering:Mine) calls itself 'mine': both must be equal.",
    ]
    with pytest.raises(MnemonError, match=r"the method 'broken' .* cannot be imported"):
        choose("broken")
    assert choose("er").method.name == "er"


@dataclass(frozen=True)
class WithOption(Method):
    name = "with-option"
    k: int = option(3, "a number", least=1)


def test_an_option_of_a_class_from_outside_is_checked():
    plugins.use("method", WithOption)
    assert choose("with-option", given={"k": 4}).options()["k"] == 4
    with pytest.raises(MnemonError, match="k must be at least 1"):
        choose("with-option", given={"k": 0})


@pytest.mark.parametrize(
    ("base", "attribute", "value", "words"),
    [
        (CrossEntropy, "keeps", "centres", "Own.keeps is 'centres', .* there are prior, prototypes"),
        (CrossEntropy, "trains", "heads", "Own.trains is 'heads', .* there are head, proxies"),
        (CrossEntropy, "trains", "prior", "there are head, proxies"),  # of a loss, but not trained
        (Method, "needs", "heads", "Own.needs is 'heads'"),
        (Method, "columns", {"age": 0}, r"Own.columns\['age'\] must be a Column of mnemon.learning.memory, not 0"),
    ],
)
def test_state_that_no_learner_has_is_refused_with_what_there_is(base, attribute, value, words):
    own = type("Own", (base,), {"name": "own", attribute: value})
    with pytest.raises(MnemonError, match=words):
        plugins.use("method" if base is Method else "loss", own)


@pytest.mark.parametrize("needs", [("memry",), ("memory", "features"), "head", ["head"]])
def test_a_classifier_that_needs_what_nothing_keeps_is_refused(needs):
    own = type("Own", (NearestMean,), {"name": "own", "needs": needs})
    with pytest.raises(
        MnemonError, match=r"Own\.needs must be a tuple of names among head, memory, .*, statistics, not"
    ):
        plugins.use("classifier", own)


def test_a_classifier_may_leave_out_what_it_needs_and_its_line_in_the_list():
    class First(Classifier):
        name = "first"

        def prepare(self, learner):
            return lambda out: only_seen(torch.zeros(len(out.features), len(learner.seen)), learner.seen)

    name = plugins.use("classifier", First)
    assert First.doc == "-"
    found = mnemon.run("fine-tune", "split-digits", classifier=name)
    assert found["accuracy_matrix"][-1][1:] == [0, 0, 0, 0]  # it predicts a class of the first task


def test_a_classifier_may_ask_for_the_prior_that_a_loss_keeps():
    prior = type("Prior", (NearestMean,), {"name": "prior-reader", "needs": ("prior",)})
    name = plugins.use("classifier", prior)
    assert choose("las", classifiers=[name]).classifiers[0].name == name
    with pytest.raises(MnemonError, match="prior-reader needs a class prior, which the loss ce does not"):
        choose("er", classifiers=[name])


def test_random_numbers_for_a_purpose_of_ones_own():
    first, other = (rng.words(0, purpose, 0, 8).tolist() for purpose in ("mine:rows", "mine:keys"))
    assert first == rng.words(0, "mine:rows", 0, 8).tolist()
    assert first[3:] == rng.words(0, "mine:rows", 3, 5).tolist()
    assert not set(first) & {*other, *rng.words(0, "replay", 0, 8).tolist()}
    with pytest.raises(MnemonError, match="unknown purpose 'rows of mine' of random numbers"):
        rng.words(0, "rows of mine", 0, 1)


def test_a_classifier_of_ones_own_reads_features_that_are_given(file):
    """`identity` asks the classifier what it needs, also one from outside."""
    name = plugins.use("classifier", f"{file}:Near")
    x, y = [[0.0, 1.0], [1.0, 0.0]] * 4, ["a", "b"] * 4
    clf = OnlineClassifier("er", backbone="identity", classifier=name, exam=0).partial_fit(x, y)
    assert clf.predict([[0.1, 0.9]]) == ["a"]
