"""One run: what `mnemon.run` returns, and what it refuses."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

import mnemon
import mnemon.report
from mnemon import MnemonError, data, metrics, streams
from mnemon.experiments import protocol
from mnemon.experiments.executor import Executor
from mnemon.experiments.run import Run
from mnemon.experiments.runner import run_all
from mnemon.experiments.scenario import array_scenario, make_scenario, named_scenario
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning.build import choose
from mnemon.learning.method import Method
from mnemon.learning.methods import methods


def test_the_paper_in_small():
    """On Split Digits softmax forgets, the same network read by class means does not, and the hybrid is best."""
    softmax = mnemon.run("er", "split-digits")
    ncm = mnemon.run("er", "split-digits", classifier="ncm")
    hybrid = mnemon.run("hybrid", "split-digits")
    fine_tune = mnemon.run("fine-tune", "split-digits")
    assert fine_tune["average_accuracy"] < 25
    assert fine_tune["average_forgetting"] > 80
    assert softmax["average_accuracy"] + 5 < hybrid["average_accuracy"]
    assert softmax["average_forgetting"] > hybrid["average_forgetting"] + 5
    assert ncm["average_forgetting"] < softmax["average_forgetting"]
    assert hybrid["average_accuracy"] > 85


def test_a_record_is_json_and_says_everything():
    record = json.loads(json.dumps(mnemon.run("hybrid", "split-digits", seed=3, gamma=0.5), allow_nan=False))
    for key in ("method", "stream", "seed", "loss", "classifier", "memory_size", "divisor", "order", "split", "cell"):
        assert key in record
    assert (record["method"], record["stream"], record["seed"]) == ("hybrid", "split-digits", 3)
    assert (record["loss"], record["classifier"], record["memory_size"]) == ("hybrid", "ncm", 200)
    assert record["options"]["gamma"] == 0.5
    assert set(record["options"]) >= {"lr", "batch_size", "replay_size", "alpha", "beta", "lam", "eps", "divisor"}
    matrix = record["accuracy_matrix"]
    assert [[value is None for value in row] for row in matrix] == [[j > k for j in range(5)] for k in range(5)]
    assert record["average_accuracy"] == metrics.average_accuracy(matrix)
    assert record["average_forgetting"] == metrics.average_forgetting(matrix)
    assert len(record["data"]["checksum"]) == 64
    assert record["versions"]["torch"] == torch.__version__
    assert record["protocol"]["passes"] == 1
    assert sum(count for _, count in record["protocol"]["class_counts"]) == record["protocol"]["samples"]


def test_the_same_seed_gives_the_same_record():
    a, b = (mnemon.run("hybrid", "split-digits", seed=1) for _ in range(2))
    for record in (a, b):
        del record["seconds"], record["finished"]
    assert a == b
    assert mnemon.run("hybrid", "split-digits", seed=2)["accuracy_matrix"] != a["accuracy_matrix"]


def test_iid_and_smooth_have_no_tasks_of_their_own():
    iid = mnemon.run("iid-offline", "split-digits")
    assert np.shape(iid["accuracy_matrix"]) == (1, 5)
    assert iid["average_forgetting"] is None
    assert iid["protocol"]["passes"] == 5
    smooth = mnemon.run("hybrid", "smooth-digits")
    assert np.shape(smooth["accuracy_matrix"]) == (1, 1)
    assert smooth["average_forgetting"] is None
    assert smooth["average_accuracy"] > 60


def test_numpy_numbers_are_numbers():
    plain = mnemon.run("er", "split-digits", seed=1, lr=0.1, batch_size=8)
    numpy = mnemon.run("er", "split-digits", seed=np.int64(1), lr=np.float64(0.1), batch_size=np.int32(8))
    assert json.dumps(numpy["options"]) == json.dumps(plain["options"])
    assert numpy["run"] == plain["run"]


def test_a_network_of_ones_own(toy):
    """By name, as a module, or as a function that makes one."""
    stream, data = toy

    def make():
        return torch.nn.Sequential(torch.nn.Linear(12, 30), torch.nn.ReLU())

    for backbone, name in ((make(), "Sequential"), (make, "Sequential"), ("mlp", "MLP")):
        record = mnemon.run("hybrid", stream, data=data, backbone=backbone, lr=0.1)
        assert record["protocol"]["backbone"] == name
        assert record["average_accuracy"] > 70
    assert mnemon.run("er", "split-digits", backbone="auto")["protocol"]["backbone"] == "MLP"


def test_methods_without_a_memory_have_no_options_for_it():
    assert mnemon.run("fine-tune", "split-digits")["options"] == {"lr": 0.2, "batch_size": 10}
    with pytest.raises(MnemonError, match="fine-tune with the loss ce has no option 'memory_size'"):
        mnemon.run("fine-tune", "split-digits", memory_size=7)


def test_a_run_expects_the_classes_of_its_stream(toy):
    """ASER's tables have rows for them, not for as many as there would be room for."""
    cpu = torch.device("cpu")
    run = Run(choose("aser"), array_scenario(*toy, 0, epochs=0, device=cpu), seed=0, device=cpu)
    assert run.learner.possible_classes == 6 < run.learner.net.capacity


def test_a_class_that_never_arrives_is_counted_as_itself(toy):
    """Smooth may draw no sample of a class; its test samples are then all wrong, and in the row of their own class."""
    _, (x, y, x_test, y_test) = toy
    absent = streams.Stream("smooth", np.flatnonzero(y != 2)[:100], (100,), (tuple(range(6)),))
    scenario = array_scenario(absent, (x, y, x_test, y_test), 0, epochs=0, device=torch.device("cpu"))
    run = Run(choose("hybrid", given={"lr": 0.1}), scenario, seed=0, device=torch.device("cpu"))
    Executor(run).advance()
    confusion = np.array(run.confusion["ncm"])
    assert confusion.sum(1).tolist() == [20] * 6
    assert confusion[:, 2].sum() == 0


def test_iid_learns_the_very_samples_of_the_stream():
    for name in ("split-digits", "smooth-digits"):
        base, iid = (named_scenario(name, 4, epochs=e, device=torch.device("cpu")).stream for e in (0, 2))
        for part in np.split(iid.indices, 2):
            assert sorted(part) == sorted(base.indices)


def test_own_arrays_with_labels_of_any_kind(toy):
    stream, (x, y, x_test, y_test) = toy
    names = np.array(["zebra", "ape", "cat", "dog", "eel", "fox"])
    named = streams.split(names[y], tasks=3, seed=0)
    record = mnemon.run("hybrid", named, data=(x, names[y], x_test, names[y_test]), lr=0.1)
    assert record["average_accuracy"] > 80
    assert record["protocol"]["tested"] == [["ape", "cat"], ["dog", "eel"], ["fox", "zebra"]]
    images = np.clip(x.reshape(-1, 1, 3, 4) * 20 + 128, 0, 255).astype(np.uint8)
    test = np.clip(x_test.reshape(-1, 1, 3, 4) * 20 + 128, 0, 255).astype(np.uint8)
    assert mnemon.run("er", stream, data=(images, y, test, y_test), classifier="ncm")["average_accuracy"] > 60


def test_frames_and_arrays_that_must_not_be_written_to_are_taken_in_silence(toy):
    stream, (x, y, x_test, y_test) = toy
    want = mnemon.run("er", stream, data=(x, y, x_test, y_test), lr=0.1)
    locked = x.copy()
    locked.flags.writeable = False
    frame, series = pd.DataFrame(x), pd.Series(y)
    turned = x[::-1].copy()[::-1]  # the same values, from the last to the first in memory
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch says it once in a process
    try:
        for given, labels in ((locked, y), (frame, series), (frame.astype("float64"), series), (turned, y)):
            record = mnemon.run("er", stream, data=(given, labels, x_test, y_test), lr=0.1)
            assert record["accuracy_matrix"] == want["accuracy_matrix"]
            assert record["data"] == want["data"]
    finally:
        torch.set_warn_always(always)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: streams.split(y, tasks=3, seed=0),
        lambda y: streams.split(y, tasks=1, seed=0),
        lambda y: streams.smooth(y, length=240, seed=0),
        lambda y: streams.blurry(y, tasks=3, seed=0),
        lambda y: streams.iid(y, epochs=2, seed=0),
    ],
    ids=["split", "one task", "smooth", "blurry", "iid"],
)
def test_a_stream_of_other_labels_is_refused(toy, make):
    """Made before the arrays were shuffled, a stream would teach other classes than it says."""
    _, (x, y, x_test, y_test) = toy
    made, order = make(y), np.random.default_rng(0).permutation(len(y))
    with pytest.raises(MnemonError, match="made from other labels, or from these before they were shuffled"):
        mnemon.run("er", made, data=(x[order], y[order], x_test, y_test), lr=0.1)
    whole = mnemon.run("er", made, data=(x, y, x_test, y_test), lr=0.1)
    longer = (
        np.concatenate([x, x[:9]]),
        np.concatenate([y, y[:9]]).astype(np.int8),
        x_test,
        y_test,
    )  # more than it uses
    assert mnemon.run("er", made, data=longer, lr=0.1)["accuracy_matrix"] == whole["accuracy_matrix"]


def test_a_stream_made_by_hand_may_hold_lists_and_numbers_of_numpy(toy, tmp_path):
    """Else its record could not be written, after the whole run."""
    stream, data = toy
    ends, tasks = np.array(stream.boundaries), [np.array(labels) for labels in stream.tasks]
    by_hand = streams.Stream("split", stream.indices.tolist(), ends, tasks)
    record = mnemon.run("er", by_hand, data=data, lr=0.1, out=tmp_path)
    (stored,) = ResultFolder(tmp_path).read()
    assert stored["protocol"] == record["protocol"] == mnemon.run("er", stream, data=data, lr=0.1)["protocol"]


def test_a_stream_made_by_hand_has_the_classes_of_its_tasks(toy):
    stream, (x, y, x_test, y_test) = toy
    by_hand = streams.Stream("split", stream.indices, stream.boundaries, stream.tasks)
    same = [
        mnemon.run("er", each, data=(x, y, x_test, y_test), lr=0.1)["accuracy_matrix"] for each in (stream, by_hand)
    ]
    assert same[0] == same[1]
    names = np.array(["zebra", "ape", "cat", "dog", "eel", "fox"], object)
    tasks = (("zebra", "ape"), ("cat", "fox"), ("eel", "dog"))
    wrong = streams.Stream("split", stream.indices, stream.boundaries, tasks)
    with pytest.raises(MnemonError, match="task 2 has a sample of the class 'dog', which is none of its"):
        mnemon.run("er", wrong, data=(x, names[y], x_test, names[y_test]), lr=0.1)


def test_test_samples_of_classes_that_the_stream_does_not_have_are_left_out_with_a_warning(toy):
    stream, (x, y, x_test, y_test) = toy
    whole = mnemon.run("er", stream, data=(x, y, x_test, y_test), lr=0.1)
    more = np.concatenate([x_test, x_test[:3]]), np.concatenate([y_test, np.full(3, 99, y_test.dtype)])
    with pytest.warns(
        UserWarning, match=f"3 of {len(y_test) + 3} test samples are of classes that the stream does not"
    ):
        found = mnemon.run("er", stream, data=(x, y, *more), lr=0.1)
    assert found["accuracy_matrix"] == whole["accuracy_matrix"]


@pytest.mark.parametrize(
    ("scaled", "words"),
    [
        (
            lambda x: np.clip(4 * x + 8, 0, 16).astype(np.uint8),
            "x is uint8 and its largest value is 16: .* from 0 to 255",
        ),
        (lambda x: x * 255 / np.abs(x).max(), "x has floats as large as 255, .* scale them"),
    ],
    ids=["digits as uint8", "pixels as floats"],
)
def test_samples_of_another_scale_are_pointed_out(toy, scaled, words):
    stream, (x, y, x_test, y_test) = toy
    with pytest.warns(UserWarning, match=words) as found:
        mnemon.run("er", stream, data=(scaled(x), y, scaled(x_test), y_test), lr=0.001)
    assert len(found) == 1
    assert found[0].filename == __file__
    with (
        pytest.raises(MnemonError, match="inputs far beyond −1 to 1 do this too"),
        pytest.warns(UserWarning, match="scale them"),
    ):
        mnemon.run("er", stream, data=(x * 1e15, y, x_test, y_test), lr=0.1)


def test_small_images_are_told_how_far_they_are_shifted(tmp_path, caplog):
    """A shift by four pixels takes half of an image of eight away."""
    said = "augment shifts images by up to 4 pixels and mirrors them, whatever their size; these have 8×8 pixels."
    mnemon.run("er", "split-digits", augment="all")
    assert caplog.messages == [said]
    caplog.clear()
    run_all([Spec("er", "split-digits", s, options={"augment": "replay"}) for s in (0, 1)], tmp_path, device="cpu")
    assert caplog.messages.count(said) == 1
    caplog.clear()
    mnemon.run("er", "split-digits")
    assert not caplog.messages


def with_nan(x):
    x = x.copy()
    x[7, 3] = np.nan
    return x


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, d: (s, (d[0], d[1][:-1], d[2], d[3])), "360 samples and labels"),
        (lambda s, d: (s, (with_nan(d[0]), *d[1:])), r"x has a value that is not finite .* in sample 7"),
        (
            lambda s, d: (s, ([np.zeros((2, 2)), np.zeros((3, 3))], [0, 1], d[2], d[3])),
            "images of different sizes",
        ),
        (lambda s, d: (s, (d[0].astype(str), *d[1:])), r"^x holds text \(<U\d+\) and no plain numbers"),
        (
            lambda s, d: (s, (*d[:2], d[2].astype("M8[s]"), d[3])),
            r"^x_test holds dates or times; turn them into numbers first",
        ),
        (lambda s, d: (s, (d[0].astype("m8[s]"), *d[1:])), r"^x holds dates or times; turn.*since the first one\.$"),
        (lambda s, d: (s, (pd.DataFrame(d[0]).assign(a="u"), *d[1:])), "^x holds objects of mixed sizes or types"),
        (lambda s, d: (s, (d[0], d[1], d[2][d[3] != 2], d[3][d[3] != 2])), "class 2 of task 2 is empty"),
        (lambda s, d: (s, (d[0], d[1], d[2][:, :5], d[3])), "must be of one kind"),
        (lambda s, d: (s, (d[0][:9], d[1][:9], d[2], d[3])), "but x has only 9"),
        (lambda s, d: (s, d[:2]), "four arrays"),
        (lambda s, d: (s, None), r"needs data=\(x, y, x_test, y_test\)"),
        (lambda s, d: ("split-digits", d), "brings its own data"),
        (lambda s, d: ("split-digit", None), "did you mean 'split-digits'"),
        (lambda s, d: ("smooth-digits-5", None), "has no tasks"),
        (lambda s, d: ("smooth-digits-1", None), r"a spread is written with a point, as -1\.0\."),
        (lambda s, d: ("split-digits-0", None), "unknown stream"),
        (lambda s, d: ("split-digits-", None), "unknown stream"),
        (lambda s, d: (s, (d[0].astype(int), d[1], d[2].astype(int), d[3])), "holds int64: pass images as uint8"),
        (lambda s, d: ("split-digits-11", None), "10 classes cannot be split into 11 tasks"),
        (lambda s, d: (None, None), "stream is a name .* not None"),
        (lambda s, d: (s, 5), "data is a tuple of four arrays"),
    ],
)
def test_bad_input_is_one_sentence(toy, change, words):
    stream, data = change(*toy)
    with pytest.raises(MnemonError, match=words):
        mnemon.run("hybrid", stream, data=data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory_size": 0}, "memory_size must be at least 1"),
        ({"device": "cuda:99"}, "there is no device"),
        ({"split": "train"}, "unknown split 'train'"),
        ({"order": "rnadom"}, "did you mean 'random'"),
        ({"backbone": "resnet"}, "did you mean 'resnet18'"),
        ({"backbone": "resnet18"}, "at least 25×25 pixels"),
        ({"memory_size": 10**9}, "memory_size must be at most"),
        ({"device": "meta"}, "there is no device"),
        ({"classifier": ""}, "unknown classifier ''"),
        ({"loss": ""}, "unknown loss ''"),
        ({"loss": "ms", "lr": 1e30}, "was not finite at step"),
        ({"seed": -1}, "a seed is"),
        ({"seed": [0, 1]}, r"a seed is an integer from 0 to 2\^63 - 1, not \[0, 1\]"),
        ({"seed": "a"}, "a seed is .* not 'a'"),
        ({"seed": 1.5}, "a seed is .* not 1.5"),
        ({"seed": True}, "a seed is .* not True"),
        ({"seeds": 5}, "mnemon.run makes one run, .* once for each of several seeds"),
        ({"lr": 1e30}, r"was not finite at step \d+: training diverged"),
        ({"classifier": "softmax"}, "softmax needs a softmax head"),
        ({"batch_size": 1000}, "less than one batch of 1000"),
        ({"split": None}, "unknown split None"),
        ({"measure": 5}, "measure is a name or a list of names, not 5"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    with pytest.raises(MnemonError, match=words):
        mnemon.run("hybrid", "split-digits", **options)


@pytest.mark.parametrize(
    ("dataset", "per_class", "train", "valid"),
    [
        ("mnist", 6000, 500, 1000),
        ("cifar10", 5000, 4750, 250),
        ("cifar100", 500, 475, 25),
        ("mini_imagenet", 480, 456, 24),
    ],
)
def test_pools_have_the_counts_of_the_paper(dataset, per_class, train, valid):
    classes = 10 if dataset in ("mnist", "cifar10") else 100
    labels = np.repeat(np.arange(classes), per_class)
    pools = protocol.partition(labels, data.rules(dataset), seed=1)
    assert np.bincount(labels[pools.train]).tolist() == [train] * classes
    assert np.bincount(labels[pools.valid]).tolist() == [valid] * classes
    assert not set(pools.train.tolist()) & set(pools.valid.tolist())
    other = protocol.partition(labels, data.rules(dataset), seed=2)
    assert (other.valid != pools.valid).any()


@pytest.mark.parametrize(
    ("stream", "per_class", "classes", "tasks", "batches"),
    [
        ("split-mnist", 500, 10, 5, 500),
        ("split-cifar10", 4750, 10, 5, 4750),
        ("split-cifar100-10", 475, 100, 10, 4750),
        ("split-cifar100-20", 475, 100, 20, 4740),
        ("split-mini_imagenet-20", 456, 100, 20, 4560),
        ("smooth-cifar10", 4750, 10, 1, 500),
        ("smooth-cifar100", 475, 100, 1, 4000),
    ],
)
def test_streams_have_the_lengths_of_the_paper(stream, per_class, classes, tasks, batches):
    made = protocol.make(protocol.parse(stream), np.repeat(np.arange(classes), per_class), seed=0, order="natural")
    rows, ends = made.batches(10)
    assert len(ends) == tasks
    assert len(rows) == batches == ends[-1]


def test_validation_never_sees_a_test_sample_and_training_never_a_validation_one():
    test, valid = (
        named_scenario("split-digits", 0, epochs=0, split=s, device=torch.device("cpu")) for s in ("test", "valid")
    )
    assert (test.stream.indices == valid.stream.indices).all()
    trained = {row.tobytes() for row in test.x[test.stream.indices].numpy()}
    validating = {row.tobytes() for row in valid.x_test.numpy()}
    assert len(valid.x_test) == pytest.approx(0.1 * 1797, abs=6)
    assert len(trained & validating) <= 2  # a few digits were drawn twice by their writers
    assert mnemon.run("er", "split-digits", split="valid")["split"] == "valid"


def test_every_method_sees_the_same_stream():
    streams_ = [
        named_scenario("split-digits", 7, epochs=choose(m).method.epochs, device=torch.device("cpu")).stream.indices
        for m in ("hybrid", "er", "fine-tune")
    ]
    assert all((s == streams_[0]).all() for s in streams_)


@pytest.mark.parametrize("method", mnemon.methods())
@pytest.mark.parametrize("stop", ["start", "one", "middle", "boundary", "last"])
def test_resume_is_bit_equal(method, stop):
    """A run that is stopped anywhere and restored into a fresh one ends in the same state, to the bit."""
    cpu = torch.device("cpu")

    def fresh():
        options = {"memory_size": 60} if methods()[method].replays else {}
        backbone = None if methods()[method].trains else "patches:filters=8:images=1000:side=4"  # waits past a boundary
        spec = Spec(method, "split-digits", 5, options=options, backbone=backbone)
        choice = spec.choice()
        return Run(choice, make_scenario(spec, choice, cpu), seed=5, device=cpu)

    whole = fresh()
    while not whole.finished:
        Executor(whole).advance()
    total = len(whole.batches)
    first = whole.ends[0]
    at = {"start": 0, "one": 1, "middle": total // 2, "boundary": first, "last": total}[stop]

    stopped = fresh()
    while stopped.position < at:
        Executor(stopped).advance(lambda: stopped.learner.steps < at)
    if not methods()[method].trains:
        at = stopped.position  # the end of a block, which is learned at once
    tensors, values = stopped.state()
    saved = {k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(values))

    resumed = fresh()
    resumed.restore(*saved)
    assert resumed.position == at
    while not resumed.finished:
        Executor(resumed).advance()
    expected, got = whole.learner.state(), resumed.learner.state()
    assert all(torch.equal(expected[k], got[k]) for k in expected)
    assert expected.keys() == got.keys()
    assert resumed.rows == whole.rows
    assert resumed.confusion == whole.confusion


class Few(Method):
    """ER that replays half of what it drew; a method of somebody's own, outside the package."""

    name = "few"

    def retrieve(self, learner, new, draws):
        rows = draws["replay"]
        return learner.replay(rows[: len(rows) // 2]) if len(rows) > 1 else None


def test_a_method_of_ones_own_runs_by_the_protocol_and_its_records_stand_beside_the_others(tmp_path):
    mine = mnemon.run(Few, "split-digits", seed=1, out=tmp_path)
    assert (mine["method"], mine["options"]["lr"], mine["memory_size"]) == ("few", 0.2, 200)  # ER's recipe
    er = mnemon.run("er", "split-digits", seed=1, out=tmp_path)
    assert [r["run"] for r in ResultFolder(tmp_path).read()] == [mine["run"], er["run"]]
    assert mnemon.run("er", "split-digits", seed=1, out=tmp_path) == er  # there already, "finished" too
    assert mnemon.run(Few, "split-digits", seed=1, out=tmp_path) == mine  # so is this, whose file has not changed

    class Few_(Few):  # no file tells what a function made
        pass

    first, again = (mnemon.run(Few_, "split-digits", seed=1, out=tmp_path) for _ in range(2))
    assert again["run"] != first["run"] != mine["run"]
    assert len(ResultFolder(tmp_path).read()) == 4
    text = mnemon.report.write(tmp_path).read_text()
    assert "few + softmax" in text
    assert "1 earlier record of the same settings and seed" in text
    assert (tmp_path / "details" / f"{again['run']}.json").exists()


def test_what_is_run_on_a_stream_of_ones_own_is_kept_too(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(80, 5)).astype("float32"), np.arange(80) % 4
    for order in (0, 1):  # two streams over the same arrays with the same seed
        stream = streams.split(y, tasks=2, seed=order, order="random")
        mnemon.run("er", stream, data=(x, y, x, y), out=tmp_path / "own")
    assert len(ResultFolder(tmp_path / "own").read()) == 2


def test_what_no_command_could_make_says_so(tmp_path):
    own = mnemon.run("er", "split-digits", backbone=torch.nn.Flatten(), out=tmp_path)
    assert own["own"] == ["network"]
    assert "own" not in mnemon.run("er", "split-digits", backbone="mlp")
    with pytest.raises(MnemonError, match="out must name a folder, not 3"):
        mnemon.run("er", "split-digits", out=3)


@dataclass(frozen=True)
class Odd(Method):
    name = "odd"
    rule: object = print


def test_an_option_that_no_record_can_hold_is_refused():
    with pytest.raises(MnemonError, match="an option of odd cannot be written down"):
        mnemon.run(Odd, "split-digits")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (7, "method must be a name or a Method class, not 7"),
        (type("Nameless", (Method,), {}), "Nameless needs a `name` of up to 60 letters"),
        (type("Up", (Method,), {"name": "../up"}), "Up needs a `name` of up to 60 letters"),
        (type("Mine", (Method,), {"name": "mir"}), "Mine is called 'mir' as one of mnemon's methods is"),
    ],
)
def test_what_is_no_method_is_refused_with_a_sentence(tmp_path, wrong, sentence):
    with pytest.raises(MnemonError, match=sentence):
        mnemon.run(wrong, "split-digits", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
