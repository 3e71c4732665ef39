"""A saved OnlineClassifier: bit for bit the same, and nothing but itself can be loaded."""

import json
import os
import shutil
import struct
import threading

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_estimator import blobs, everything, pictures, same
from torch import nn

import mnemon
from mnemon import MnemonError, OnlineClassifier, checkpoint
from mnemon.learning.memory import Memory
from mnemon.learning.method import Method


@pytest.mark.parametrize("method", mnemon.methods())
def test_going_on_after_load_equals_never_having_stopped(method, tmp_path):
    x, y = blobs(90)
    clf = OnlineClassifier(method, memory_size=40, seed=3).partial_fit(x[:43], y[:43] % 2, classes=["ahead"])
    clf.save(tmp_path / "model")
    twin = OnlineClassifier.load(tmp_path / "model")
    assert same(everything(twin), everything(clf))
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()
    for model in (clf, twin):
        model.partial_fit(x[43:64], y[43:64]).partial_fit(
            x[64:], [f"new {label}" for label in np.arange(26)]
        )  # and grows
    assert same(everything(twin), everything(clf))
    assert twin.get_params() == clf.get_params()


@pytest.mark.parametrize("average", [0, 0.9, "auto"])
def test_how_it_averages_is_saved(average, tmp_path):
    """Always stated: a model that does not state it is one of mnemon 0.1, which averaged by the rule of `auto`."""
    x, y = blobs(60)
    clf = OnlineClassifier(average=average, seed=3).partial_fit(x[:30], y[:30])
    clf.save(tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.json")
    assert json.loads(file.read_text())["values"]["options"]["average"] == average
    twin = OnlineClassifier.load(tmp_path / "model")
    assert twin.average == average
    for model in (clf, twin):
        model.partial_fit(x[30:], y[30:])
    assert same(everything(twin), everything(clf))
    assert ("age" in everything(clf)[0]) == (average != 0)
    if average == "auto":
        return
    forge(tmp_path / "model", lambda values: values["options"].pop("average"))
    if average == 0:
        with pytest.raises(MnemonError, match="does not belong"):
            OnlineClassifier.load(tmp_path / "model")
    else:
        assert OnlineClassifier.load(tmp_path / "model").average == "auto"


@pytest.mark.parametrize("backbone", ["auto", "identity"])
def test_images_strings_and_mixed_labels_survive(backbone, tmp_path):
    x, y = pictures(30, channels=3)
    labels = [[True, 1, "é\ud800\0"][c] for c in y]
    clf = OnlineClassifier(backbone=backbone, lr=np.float64(0.02)).partial_fit(x, labels)
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    assert [(type(c), c) for c in twin.classes_] == [(type(c), c) for c in clf.classes_]
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()
    clf.fit(x, y)
    assert not hasattr(clf, "n_features_in_")


def test_saving_again_replaces_and_what_is_no_model_is_left_alone(tmp_path):
    x, y = blobs(60)
    clf = OnlineClassifier().partial_fit(x[:30], y[:30])
    for _ in range(3):
        clf.save(tmp_path / "m")
    clf.partial_fit(x[30:], y[30:]).save(tmp_path / "m")
    assert same(everything(OnlineClassifier.load(tmp_path / "m")), everything(clf))
    assert len(list((tmp_path / "m").glob("[!.]*"))) == 4  # this one and the one before it
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("…")
    with pytest.raises(MnemonError, match="other files"):
        clf.save(tmp_path / "other")
    (tmp_path / "file").write_text("…")
    with pytest.raises(MnemonError, match="is a file"):
        clf.save(tmp_path / "file")
    for nothing in ("none", "file", "other"):
        with pytest.raises(MnemonError, match="no saved model"):
            OnlineClassifier.load(tmp_path / nothing)
    with pytest.raises(MnemonError, match="nothing to save"):
        OnlineClassifier().save(tmp_path / "x")


def test_a_seed_of_numpy_survives_saving(tmp_path):
    x, y = blobs(30)
    OnlineClassifier(seed=np.int64(7)).partial_fit(x, y).save(tmp_path)
    assert OnlineClassifier.load(tmp_path).seed == 7


def test_labels_too_long_to_be_loaded_are_not_saved(tmp_path, monkeypatch):
    x, y = blobs(30)
    clf = OnlineClassifier().partial_fit(x, y)
    clf.save(tmp_path)
    before = everything(clf)
    monkeypatch.setattr(checkpoint, "MOST_VALUES", 100_000)
    with pytest.raises(MnemonError, match="100,000 are the limit; nothing was written"):
        clf.partial_fit(x[:1], ["z" * 100_000]).save(tmp_path)
    assert same(everything(OnlineClassifier.load(tmp_path)), before)


def test_a_save_that_fails_leaves_the_model_before_it(tmp_path, monkeypatch):
    x, y = blobs(30)
    clf = OnlineClassifier().partial_fit(x, y)
    clf.save(tmp_path)
    before = everything(clf)
    clf.partial_fit(x, y)
    write = checkpoint.files.write

    def full(path, content, **more):
        if path.suffix == ".json":
            raise OSError(28, "No space left on device")
        write(path, content, **more)

    monkeypatch.setattr(checkpoint.files, "write", full)
    with pytest.raises(MnemonError, match="No space left"):
        clf.save(tmp_path)
    assert same(everything(OnlineClassifier.load(tmp_path)), before)


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("0000000002.safetensors", cut),
        ("0000000002.safetensors", lambda path: path.write_bytes(b"")),
        ("0000000002.safetensors", os.unlink),
        ("0000000002.json", cut),
    ],
    ids=["tensors cut", "tensors empty", "tensors gone", "values cut"],
)
def test_a_damaged_model_says_how_to_go_back_to_the_one_before(tmp_path, name, damage):
    x, y = blobs(60)
    clf = OnlineClassifier().partial_fit(x[:30], y[:30])
    clf.save(tmp_path)
    before = everything(clf)
    clf.partial_fit(x[30:], y[30:]).save(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(MnemonError, match=r"it is damaged: .*; the one before it is whole: delete 0000000002\.json to"):
        OnlineClassifier.load(tmp_path)
    (tmp_path / "0000000002.json").unlink()
    back = OnlineClassifier.load(tmp_path)
    assert same(everything(back), before)
    back.partial_fit(x[30:], y[30:]).save(tmp_path)
    assert same(everything(OnlineClassifier.load(tmp_path)), everything(clf))


def test_no_way_back_to_a_model_that_is_damaged_too(tmp_path):
    x, y = blobs(30)
    clf = OnlineClassifier().partial_fit(x, y)
    clf.save(tmp_path)
    clf.save(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        cut(path)
    with pytest.raises(MnemonError, match="it is damaged") as said:
        OnlineClassifier.load(tmp_path)
    assert "delete" not in str(said.value)


def test_a_model_of_another_format_is_not_called_damaged(tmp_path, monkeypatch):
    x, y = blobs(30)
    clf = OnlineClassifier().partial_fit(x, y)
    clf.save(tmp_path)
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    clf.save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(MnemonError, match="its format is 99") as said:
        OnlineClassifier.load(tmp_path)
    assert "damaged" not in str(said.value)
    assert "delete" not in str(said.value)


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 5)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Mine(Method):
    name = "mine"
    summary = citation = cost = "-"


def test_code_of_ones_own_is_given_again(tmp_path):
    x, y = blobs(60)
    clf = OnlineClassifier(backbone=Tiny()).partial_fit(x[:30], y[:30])
    clf.save(tmp_path / "net")
    with pytest.raises(MnemonError, match=r"network of your own.*load\(path, backbone="):
        OnlineClassifier.load(tmp_path / "net")
    with pytest.raises(MnemonError, match="does not belong to this network"):
        OnlineClassifier.load(tmp_path / "net", backbone=nn.Linear(6, 4))
    twin = OnlineClassifier.load(tmp_path / "net", backbone=Tiny())
    assert same(everything(twin.partial_fit(x[30:], y[30:])), everything(clf.partial_fit(x[30:], y[30:])))

    clf = OnlineClassifier(Mine).partial_fit(x, y)
    clf.save(tmp_path / "method")
    with pytest.raises(MnemonError, match=r"'mine' is your own.*load\(path, method="):
        OnlineClassifier.load(tmp_path / "method")
    assert same(everything(OnlineClassifier.load(tmp_path / "method", method=Mine)), everything(clf))
    with pytest.raises(MnemonError, match="method must be a name or a Method class"):
        OnlineClassifier.load(tmp_path / "method", method=3)


# --- what a stranger may have put there


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    x, y = blobs(40)
    folder = tmp_path_factory.mktemp("saved")
    OnlineClassifier(memory_size=20, backbone=Tiny()).partial_fit(x, y).save(folder / "tiny")
    OnlineClassifier("hybrid", memory_size=20, backbone="identity").partial_fit(x, y).save(folder / "model")
    return folder


def forge(folder, change_values=None, change_tensors=None):
    """Change a saved model and make all checksums right again."""
    (name,) = (p for p in folder.iterdir() if p.suffix == ".json")
    body = json.loads(name.read_text())
    body.pop("sha256")
    tensors = safetensors.torch.load(name.with_suffix(".safetensors").read_bytes())
    if change_tensors:
        change_tensors(tensors)
    blob = safetensors.torch.save(tensors)
    name.with_suffix(".safetensors").write_bytes(blob)
    body["tensors"] = checkpoint._sha(blob)
    if change_values:
        change_values(body["values"])
    name.write_text(json.dumps(body | {"sha256": checkpoint._sha(checkpoint._canonical(body))}))


def test_a_saved_model_keeps_the_shrinkage_it_was_learned_with(tmp_path):
    """In 0.2.0 the classifier that None stood for had a fixed λ; only a new fit takes today's."""
    x, y = blobs(60)
    old = OnlineClassifier("slda", classifier="gaussian:shrink=diagonal").partial_fit(x, y)
    old.save(tmp_path)
    forge(tmp_path, lambda values: values["params"].update(classifier=None))
    loaded = OnlineClassifier.load(tmp_path)
    assert loaded.classifier is None
    assert (loaded.predict_proba(x) == old.predict_proba(x)).all()
    assert loaded.partial_fit(x, y).resolved_["classifier"] == "gaussian:shrink=diagonal"
    assert loaded.fit(x, y).resolved_["classifier"] == "gaussian:lam=auto:shrink=diagonal"


def copied(saved, tmp_path, name="model"):
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    return shutil.copytree(saved / name, tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))


FORGED = [
    ({"version": 2}, "newer mnemon"),
    ({"version": "1"}, "version"),
    ({"kind": "run"}, "not a saved OnlineClassifier"),
    ({"shape": [6, 1]}, "no shape"),
    ({"shape": [10**12]}, "too large"),
    ({"shape": [10**6]}, "memory does not match"),
    ({"shape": [-6]}, "no shape"),
    ({"shape": [True]}, "no shape"),
    ({"dtype": "object"}, "no type"),
    ({"dtype": "uint8"}, "does not belong"),
    ({"labels": []}, "labels"),
    ({"labels": [0, 1]}, "does not match its samples or its classes"),
    ({"labels": [0, 1, 2, 2]}, "twice"),
    ({"labels": [0, 1, 2, 0.5]}, "labels"),
    ({"labels": list(range(100_000))}, "labels"),
    ({"labels": {}}, "labels"),
    ({"labels": [0, 1, 2, 2**63]}, "64 bits"),
    ({"steps": -1}, "counts"),
    ({"samples": 41}, "add up"),
    ({"samples": 1e300}, "counts"),
    ({"names": ["a"]}, "names"),
    ({"scaled": True}, "does not belong"),
    ({"scaled": 1}, "scaling"),
    ({"method": "../../etc/passwd"}, "unknown method"),
    ({"method": ["os.system"]}, "damaged"),
    ({"loss": "nonsense"}, "unknown loss"),
    ({"classifier": "proxy"}, "proxies"),
    ({"backbone": "mlp"}, "does not belong"),
    ({"backbone": "os.system"}, "unknown backbone"),
    ({"options": {"memory_size": 10**8}}, "memory does not match"),
    ({"options": {}}, "memory does not match"),
    ({"options": []}, "parameters"),
    ({"options": {"memory_size": 20, "wings": 2}}, "no option 'wings'"),
    ({"params": {}}, "damaged"),
    ({"params": {"seed": [0], "device": "cpu"}}, "no value"),
    ({"params": {"seed": "0", "device": "cpu"}}, "seed"),
    ({"params": {"seed": True, "device": "cpu"}}, "no value"),
    ({"params": {"seed": 0, "device": 3}}, "a device is"),
    ({"params": {"seed": 0, "device": None}}, "a device is"),
    ({"params": {"seed": 0, "device": "cpu", "exam": 20, "wings": 2}}, "parameters are others"),
    ({"params": {"seed": 0, "device": "cpu", "exam": -1}}, "exam is how many"),
    ({"params": {"seed": 0, "device": "cpu"}}, "what its parameters do not ask for"),
]


@pytest.mark.parametrize(("change", "why"), FORGED)
def test_forged_values_are_refused(saved, tmp_path, change, why):
    folder = copied(saved, tmp_path)
    forge(folder, lambda values: values.update(change))
    with pytest.raises(MnemonError, match=why):
        OnlineClassifier.load(folder)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("batch_size", "x", "of type int"), ("lr", -1, "above 0"), ("loss", 3, "a name"), ("memory_size", 0, "at least")],
)
def test_parameters_that_could_not_be_given_are_refused(saved, tmp_path, name, value, why):
    folder = copied(saved, tmp_path)
    forge(folder, lambda values: values["params"].update({name: value}))
    with pytest.raises(MnemonError, match=f"cannot be loaded.*{why}"):
        OnlineClassifier.load(folder)


@pytest.mark.parametrize(
    ("name", "new", "why"),
    [
        ("memory.x", torch.zeros(20, 7), "memory does not match"),
        ("memory.x", torch.zeros(20, 6, dtype=torch.float64), "memory does not match"),
        ("memory.x", torch.full((20, 6), torch.nan), "not finite"),
        ("memory.y", torch.full((20,), 4), "without a label"),
        ("memory.y", torch.full((20,), -1), "memory is empty"),
        ("memory.y", torch.zeros(19, dtype=torch.int64), "does not belong"),
        ("seen", torch.zeros(3, dtype=torch.bool), "classes do not match"),
        ("seen", torch.zeros(2**20, dtype=torch.bool), "classes do not match"),
        ("seen", torch.ones(16, dtype=torch.bool), "classes do not match"),
        ("counts", torch.zeros(16, dtype=torch.int64), "add up"),
        ("age", torch.tensor(-5), "out of range"),
        ("more", torch.zeros(2), "does not belong"),
        ("age", None, "does not belong"),
        ("seen", None, "damaged"),
    ],
)
def test_forged_tensors_are_refused(saved, tmp_path, name, new, why):
    folder = copied(saved, tmp_path)
    forge(folder, None, lambda t: t.pop(name) if new is None else t.update({name: new}))
    with pytest.raises(MnemonError, match=why):
        OnlineClassifier.load(folder)


ABSURD = [
    ("slda", "statistics.counts", 1e300),
    ("slda", "statistics.counts", 1e4),
    ("slda", "statistics.counts", 0.0),
    ("slda", "fitted", False),
    ("slda", "statistics.weight", 1e300),
    ("slda", "statistics.rounding", -1.0),
    ("hybrid", "scaling.count", 1e300),
    ("hybrid", "scaling.count", -1.0),
    ("hybrid", "scaling.mean", 1e308),
    ("hybrid", "scaling.squares", 1e308),
    ("hybrid", "age", 2**60),
    ("hybrid", "net.backbone.hidden1.weight", 3e38),
    ("hybrid", "average.backbone.hidden1.weight", -3e38),
    ("hybrid", "options", {"lr": 1e300}),
    ("hybrid", "options", {"alpha": 1e300}),
    ("hybrid", "params", {"gamma": 1e300}),
    ("hybrid", "params", {"batch_size": 2**60}),
    ("hybrid", "params", {"memory_size": 2**60}),
    ("slda", "params", {"memory_size": 2**60}),
    ("slda", "params", {"replay_size": -1}),
]


@pytest.mark.parametrize(("method", "name", "value"), ABSURD)
def test_absurd_numbers_are_refused(tmp_path, method, name, value):
    """Each of them was loaded once, and then predicted NaN, stopped in the middle of a step, or spoiled what came next."""
    OnlineClassifier(method).partial_fit(*blobs(40)).save(tmp_path / "model")

    def absurd(tensors):
        tensors[name].view(-1)[0] = value

    if isinstance(value, dict):
        forge(tmp_path / "model", lambda values: values[name].update(value))
    else:
        forge(tmp_path / "model", None, absurd)
    with pytest.raises(MnemonError, match=r"cannot be loaded.*(out of range|must be|at most)"):
        OnlineClassifier.load(tmp_path / "model")


def test_a_claim_the_file_does_not_hold_allocates_nothing(saved, tmp_path, monkeypatch):
    made = []
    init = Memory.__init__
    monkeypatch.setattr(Memory, "__init__", lambda self, *a, **k: made.append(a) or init(self, *a, **k))
    for change in ({"options": {"memory_size": 10**8}}, {"shape": [10**7]}, {"shape": [3, 2000, 2000]}):
        folder = copied(saved, tmp_path)
        forge(folder, lambda values, change=change: values.update(change))
        with pytest.raises(MnemonError):
            OnlineClassifier.load(folder)
    assert made == []
    # A header that claims more than the file holds, or is itself too large.
    for header in (
        json.dumps({"seen": {"dtype": "BOOL", "shape": [2**50], "data_offsets": [0, 2**50]}}).encode(),
        b"{" * 99,
    ):
        folder = copied(saved, tmp_path)
        (path,) = (p for p in folder.iterdir() if p.suffix == ".safetensors")
        for length in (len(header), 2**62):
            path.write_bytes(struct.pack("<Q", length) + header)
            with pytest.raises(MnemonError):
                OnlineClassifier.load(folder)
    assert made == []


def test_links_pipes_and_folders_in_the_place_of_files(saved, tmp_path):
    for suffix in (".json", ".safetensors"):
        folder = copied(saved, tmp_path)
        (path,) = (p for p in folder.iterdir() if p.suffix == suffix)
        elsewhere = tmp_path / f"elsewhere{suffix}"
        path.replace(elsewhere)
        path.symlink_to(elsewhere)
        with pytest.raises(MnemonError, match="cannot be loaded"):
            OnlineClassifier.load(folder)
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(MnemonError, match="cannot be loaded"):
            OnlineClassifier.load(folder)
        path.unlink()
        path.mkdir()
        with pytest.raises(MnemonError, match="cannot be loaded"):
            OnlineClassifier.load(folder)


def test_values_nested_too_deep_or_not_numbers(saved, tmp_path):
    for text in (
        "[" * 100_000,
        '{"a": NaN}',
        '{"format": 3}',
        "{}",
        "[]",
        "null",
        "",
        "\0",
        '"' + "9" * 6000,
        "9" * 6000,
    ):
        folder = copied(saved, tmp_path)
        (path,) = (p for p in folder.iterdir() if p.suffix == ".json")
        path.write_text(text)
        with pytest.raises(MnemonError):
            OnlineClassifier.load(folder)


def test_a_pickle_is_never_read(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    torch.save(Bomb(), tmp_path / "0000000001.safetensors")
    torch.save(Bomb(), tmp_path / "0000000001.json")
    with pytest.raises(MnemonError):
        OnlineClassifier.load(tmp_path)
    assert not (tmp_path / "boom").exists()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_damage_anywhere_is_an_error_and_nothing_else(saved, tmp_path, data):
    """Cut, flip or insert bytes in either file: refused, whatever they are."""
    folder = copied(saved, tmp_path, data.draw(st.sampled_from(["model", "tiny"])))
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    kind = data.draw(st.sampled_from(["cut", "flip", "insert", "remove"]))
    if kind == "cut":
        del content[at:]
    elif kind == "flip":
        content[at] ^= data.draw(st.integers(1, 255))
    elif kind == "insert":
        content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        path.unlink()
    if kind != "remove":
        path.write_bytes(bytes(content))
    try:
        loaded = OnlineClassifier.load(folder, backbone=Tiny() if folder.name == "tiny" else None)
    except MnemonError:
        return
    # Only white space in the JSON, or a letter of another case in a number, may pass: the values are the same.
    assert path.suffix == ".json"
    assert loaded.n_seen_ == 40


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_any_place_is_an_error_or_a_model_that_works(saved, tmp_path, data):
    """With right checksums, as an attacker would write them."""
    folder = copied(saved, tmp_path)

    def change(values):
        place = values
        name = data.draw(st.sampled_from(sorted(values)))
        if isinstance(values[name], dict) and values[name] and data.draw(st.booleans()):
            place, name = values[name], data.draw(st.sampled_from(sorted(values[name])))
        place[name] = data.draw(json_values)

    forge(folder, change)
    try:
        loaded = OnlineClassifier.load(folder, device="cpu")
    except MnemonError:
        return
    x, y = blobs(5)
    assert loaded.predict(x).shape == (5,)
    try:
        loaded.partial_fit(x, y)
    except MnemonError:  # a parameter may be out of range; it is said when it is used
        return
    assert loaded.n_seen_ == 45


# --- others at the same folder


def two(tmp_path):
    x, y = blobs(40)
    first, second = (OnlineClassifier(seed=seed, memory_size=20).partial_fit(x, y) for seed in (1, 2))
    first.save(tmp_path)
    return first, second


def test_two_that_save_one_model_wait_for_each_other(tmp_path, monkeypatch):
    first, second = two(tmp_path)
    write, other = checkpoint.files.write, threading.Thread(target=second.save, args=[tmp_path])

    def meanwhile(path, content, **more):
        if path.suffix == ".json" and not other.ident:  # the first has written its tensors
            other.start()
            other.join(0.3)  # where nothing holds it back, it is done by then
        write(path, content, **more)

    monkeypatch.setattr(checkpoint.files, "write", meanwhile)
    first.save(tmp_path)
    other.join()
    assert same(everything(OnlineClassifier.load(tmp_path)), everything(second))
    (tmp_path / f"{checkpoint.newest(tmp_path):010d}.json").unlink()
    assert same(everything(OnlineClassifier.load(tmp_path)), everything(first))


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_model_that_is_replaced_while_it_is_read_is_read_anew(tmp_path, monkeypatch, suffix):
    _, second = two(tmp_path)
    content, left = checkpoint._content, [second, second]

    def meanwhile(path, most):
        while left and path.suffix == suffix:
            left.pop().save(tmp_path)  # twice: the one we read is gone then
        return content(path, most)

    monkeypatch.setattr(checkpoint, "_content", meanwhile)
    assert same(everything(OnlineClassifier.load(tmp_path)), everything(second))


def test_a_first_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    x, y = blobs(30)
    monkeypatch.setattr(checkpoint, "MOST_VALUES", 100)
    with pytest.raises(MnemonError, match="nothing was written"):
        OnlineClassifier().partial_fit(x, y).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
