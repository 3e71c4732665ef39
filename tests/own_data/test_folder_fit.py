"""`mnemon fit`: a folder of images is learned once, file by file, whatever happens on the way."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from command_line import run
from folder_images import make, pixels
from mnemon import MnemonError, OnlineClassifier, checkpoint, files
from mnemon.own_data import folder as folders
from mnemon.own_data.fit import fit
from mnemon.runtime.progress import Bar, Progress
from mnemon.runtime.signals import Stopped
from processes import PATIENCE, resume, stand, started, wait_for

SMALL = {"size": 12}  # pixels: below 25 the network is an MLP, which is learned in no time


class Watcher(Progress):
    """Does something at the start of a file."""

    def __init__(self, act):
        super().__init__(quiet=True)
        self.number, self.act = 0, act

    def bars(self):
        return contextlib.nullcontext(lambda text, total, unit: Bar(self.advance, lambda **changes: None))

    def advance(self, amount):
        self.number += amount
        self.act(self.number)


def state(out):
    """Everything that was learned and noted, as bytes."""
    name = f"{checkpoint.newest(out):010d}.safetensors"
    return (out / name).read_bytes(), (out / "log.json").read_bytes()


def test_views_are_learned_and_kept(tmp_path, capsys):
    folder, out = make(tmp_path / "photos", each=5), tmp_path / "model"
    words = ("fit", str(folder), "--out", str(out), "--size", "12", "--quiet")
    run(*words, "--views", "2", "--backbone", "patches:filters=4", capsys=capsys)
    assert OnlineClassifier.load(out).views == 2
    _, err = run(*words, "--views", "1", code=2, capsys=capsys)
    assert "views" in err


def test_an_empty_class_folder_is_named_and_left_out(tmp_path, caplog, capsys):
    folder = make(tmp_path / "photos", each=5)
    (folder / "none-yet").mkdir()
    assert "none-yet" not in fit(folder, tmp_path / "model", **SMALL).labels
    assert caplog.messages == [f"left out of {folder}: {folder / 'none-yet'}, without an image."]
    out, _ = run("evaluate", str(tmp_path / "model"), str(folder), "--out", str(tmp_path / "page"), capsys=capsys)
    assert "of 15 images" in out


def test_what_was_taken_back_is_not_learned_again(tmp_path):
    out = tmp_path / "model"
    fit(make(tmp_path / "a", each=20), out, **SMALL)
    OnlineClassifier.load(out).forget(label="red").rename({"blue": "navy"}).save(out)
    again = fit(tmp_path / "a", out)
    assert (again.learned, again.known, again.samples) == (0, 60, 40)
    more = fit(make(tmp_path / "b", ("red", "green"), each=5, start=50), out)
    assert (more.learned, more.samples) == (10, 50)
    assert sorted(more.labels) == ["green", "navy", "red"]


def test_each_file_is_learned_once_and_new_classes_later(tmp_path):
    out = tmp_path / "model"
    first = fit(make(tmp_path / "a", each=20), out, **SMALL)
    assert (first.learned, first.known, first.skipped, first.samples) == (60, 0, 0, 60)
    assert sorted(first.labels) == ["blue", "green", "red"]

    again = fit(tmp_path / "a", out)
    assert (again.learned, again.known, again.samples) == (0, 60, 60)

    make(tmp_path / "a", each=5, start=20)  # more of the old classes in the old folder
    assert fit(tmp_path / "a", out).learned == 15
    later = fit(make(tmp_path / "b", ["grey"], each=15), out)  # a folder with one new class
    assert later.labels[:3] == first.labels
    assert (later.labels[3], later.samples) == ("grey", 90)

    classifier = OnlineClassifier.load(out)  # the same folder is a model in Python
    assert classifier.n_seen_ == 90
    x = np.stack([pixels(label, 900, size=12) for label in ("red", "grey", "blue", "green")])
    assert classifier.predict(x).tolist() == ["red", "grey", "blue", "green"]


def test_a_file_is_known_by_its_class_name_and_content(tmp_path):
    out = tmp_path / "model"
    fit(make(tmp_path / "a", each=10), out, **SMALL)
    (tmp_path / "a").rename(tmp_path / "moved")
    assert fit(tmp_path / "moved", out).learned == 0
    camera = tmp_path / "moved" / "red" / "0003.png"  # a camera that counts from zero again
    camera.write_bytes((tmp_path / "moved" / "red" / "0004.png").read_bytes())
    assert fit(tmp_path / "moved", out).learned == 1


def test_files_in_sub_folders_are_learned_and_known_by_their_whole_name(tmp_path, caplog):
    photos, out = make(tmp_path / "a", each=10), tmp_path / "model"
    fit(photos, out, **SMALL)
    for year in ("2021", "2022"):  # the same name and the same bytes: other files all the same
        (photos / "red" / year).mkdir()
        (photos / "red" / year / "0000.png").write_bytes((photos / "red" / "0000.png").read_bytes())
    (photos / "red" / "2022" / "notes.txt").write_text("no image")
    done = fit(photos, out)
    assert (done.learned, done.known) == (2, 30)
    assert caplog.messages[0].startswith(f"left out of {photos}: 1 file not png, jpg, ")
    assert fit(photos, out).learned == 0


def test_folders_of_folders_are_said_to_be_taken_for_classes(tmp_path, caplog):
    make(tmp_path / "all" / "photos", each=5)
    assert fit(tmp_path / "all", tmp_path / "model", **SMALL).labels == ["photos"]
    first = tmp_path / "all" / "photos" / "blue" / "0000.png"
    assert caplog.messages[0] == f"no image lies in a class folder itself: {first} is taken for class 'photos'."


def test_what_was_learned_before_sub_folders_were_read_is_known(tmp_path):
    """The name a file is known by is written in old models: it must stay what it was."""
    (file,) = folders.files_of(make(tmp_path / "a", ["red"], each=1))
    content = b"red/0000.png\0" + file.path.read_bytes()
    assert folders.digest(file) == hashlib.blake2b(content, digest_size=16).digest()


def test_test_then_train_counts_what_was_predicted_before_it_was_learned(tmp_path):
    done = fit(make(tmp_path / "a", each=40), tmp_path / "model", method="hybrid", **SMALL)
    asked = done.journal.predicted
    assert 60 <= asked <= 110  # a young model is asked about most, and about less as asking costs more
    log = json.loads((tmp_path / "model" / "log.json").read_text())
    assert log["chunks"][0] == {"samples": 10, "predicted": 0, "right": 0, "classes": 3}  # nobody knew anything yet
    assert log["test_then_train"]["predicted"] == asked == sum(chunk["predicted"] for chunk in log["chunks"])
    right = sum(chunk["right"] for chunk in log["chunks"])
    assert log["test_then_train"]["accuracy"] == pytest.approx(100 * right / asked)
    assert done.journal.accuracy() > 80
    assert [chunk["samples"] for chunk in log["chunks"]][-1] == 120
    assert str(tmp_path) not in json.dumps(log)  # a model may be given away


def test_a_new_class_counts_as_wrong_when_it_comes(tmp_path):
    done = fit(
        make(tmp_path / "a", ["blue", "red"], each=20), tmp_path / "model", order="by-class", method="hybrid", **SMALL
    )
    assert done.labels == ["blue", "red"]
    assert [chunk.right for chunk in done.journal.chunks] == [0, 10, 0, 10]


def test_orders(tmp_path):
    found = folders.files_of(make(tmp_path / "a", each=3))
    for place, file in enumerate(sorted(found, key=lambda file: file.path.name)):
        os.utime(file.path, ns=(0, place // 3 * 10**9))  # three at a time
    assert [f.path.name for f in folders.in_order(found, "time", 0)] == [
        f"{n:04d}.png" for n in (0, 1, 2) for _ in "abc"
    ]
    assert [f.label for f in folders.in_order(found, "by-class", 0)] == [
        c for c in ("blue", "green", "red") for _ in "abc"
    ]
    shuffled = folders.in_order(found, "shuffled", 0)
    assert shuffled != folders.in_order(found, "shuffled", 1)
    fewer = [file for file in found if file.path.name != "0001.png"]  # the others keep their order
    assert folders.in_order(fewer, "shuffled", 0) == [file for file in shuffled if file in fewer]


def test_files_that_cannot_be_read_are_named_and_left_out(tmp_path, caplog):
    make(tmp_path / "a", each=5)
    (tmp_path / "a" / "red" / "0001.png").write_bytes(b"no image")
    (tmp_path / "a" / "red" / "0002.png").unlink()
    (tmp_path / "a" / "red" / "0002.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a" / "red" / "pipe.png").symlink_to(tmp_path / "pipe")
    done = fit(tmp_path / "a", tmp_path / "model", **SMALL)
    assert (done.learned, done.skipped) == (13, 3)
    for name in ("0001.png", "0002.png", "pipe.png"):
        assert sum(name in line and line.startswith("skipped: ") for line in caplog.messages) == 1
    make(tmp_path / "a", ["red"], each=3)  # mended, they are learned like new ones
    assert fit(tmp_path / "a", tmp_path / "model").learned == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_call_goes_on_to_the_same_bytes(tmp_path, number):
    photos = make(tmp_path / "a", each=30)
    fit(photos, tmp_path / "undisturbed", **SMALL)
    for at in (3, 34, 34, 71):
        with pytest.raises(Stopped):
            fit(
                photos,
                tmp_path / "model",
                progress=Watcher(lambda n, at=at: n == at and os.kill(os.getpid(), number)),
                **SMALL,
            )
        assert (tmp_path / "model").exists() == (at > 3)  # nothing was learned by the third file, so nothing is there
    fit(photos, tmp_path / "model", **SMALL)
    assert state(tmp_path / "model") == state(tmp_path / "undisturbed")


class Killed(BaseException):
    pass


def test_death_at_any_write_costs_nothing_but_time(tmp_path, monkeypatch):
    """A save is three files: tensors, values, log. The process dies before each of them, of the last save too."""
    photos = make(tmp_path / "a", each=30)  # nine chunks of ten
    original, left = files.replace, [0]

    def replace(path, fill, **more):
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        original(path, fill, **more)

    monkeypatch.setattr(files, "replace", replace)
    fit(photos, tmp_path / "undisturbed", save_every=0, **SMALL)
    for fuse in (1, 2, 3, 4, 5, 6, 3, 1, 9):
        left[0] = fuse
        with pytest.raises(Killed):
            fit(photos, tmp_path / "model", save_every=0, **SMALL)
    assert fit(photos, tmp_path / "model", save_every=0, **SMALL).known == 90
    assert state(tmp_path / "model") == state(tmp_path / "undisturbed")


def command(photos, out):
    words = ["fit", str(photos), "--out", str(out), "--size", "12", "--save-every", "0"]
    return [sys.executable, "-m", "mnemon", *words]


def killed(photos, out, wanted, kills, rng, command=command):
    """Run the command, killing it so often at random moments after a save; it must end with the bytes of `wanted`."""
    for _ in range(kills):
        before = checkpoint.newest(out)
        with started(command(photos, out), stderr=subprocess.DEVNULL) as process:
            wait_for(
                lambda before=before, process=process: checkpoint.newest(out) != before or process.poll() is not None
            )
            time.sleep(rng.uniform(0, 0.15))
            process.kill()
        if process.returncode != -signal.SIGKILL:  # it was done before it was killed so often: it begins anew
            assert process.returncode == 0
            assert state(out) == wanted
            shutil.rmtree(out)
    subprocess.run(command(photos, out), check=True, capture_output=True)
    assert state(out) == wanted


def test_killed_twice_it_ends_with_the_same_bytes(tmp_path):
    photos = make(tmp_path / "a", each=200)
    fit(photos, tmp_path / "undisturbed", **SMALL)
    killed(photos, tmp_path / "model", state(tmp_path / "undisturbed"), 2, random.Random(0))


@pytest.mark.slow
def test_killed_fifty_times_it_ends_with_the_same_bytes(tmp_path):
    photos = make(tmp_path / "a", each=1500)
    fit(photos, tmp_path / "undisturbed", **SMALL)
    killed(photos, tmp_path / "model", state(tmp_path / "undisturbed"), 50, random.Random(1))


def test_the_command_stops_with_a_sentence_and_goes_on(tmp_path):
    photos, out = tmp_path / "a", tmp_path / "model"
    for each in (300, 600, 1200, 2400, 4800):  # if it is done before we come to look, it gets more to do
        count = 3 * each
        make(photos, each=each)
        with started(command(photos, out), stderr=subprocess.PIPE) as process:
            # A save after each chunk: 20 for the first 1,000 images, then one for 250. So this is before the last chunk.
            if stand(process.pid, lambda last=count // 250 + 10: 0 < checkpoint.newest(out) < last):
                with pytest.raises(MnemonError, match="another process is fitting"):
                    fit(photos, out)
                process.send_signal(signal.SIGTERM)
                resume([process.pid])
                _, errors = process.communicate(timeout=PATIENCE)
                break
        assert process.returncode == 0
        shutil.rmtree(out)
    assert process.returncode == 143
    assert f"everything is saved, and the same command continues: mnemon fit {photos} --out {out}" in errors
    before = OnlineClassifier.load(out).n_seen_
    done = fit(photos, out)
    assert (done.known, done.learned, done.samples) == (before, count - before, count)


def test_what_python_learned_in_between_is_kept_and_so_is_the_journal(tmp_path):
    out = tmp_path / "model"
    fit(make(tmp_path / "a", each=10), out, **SMALL)
    classifier = OnlineClassifier.load(out)
    classifier.partial_fit(pixels("yellow", 0, size=12)[None], ["yellow"]).save(out)
    done = fit(tmp_path / "a", out)
    assert (done.learned, done.known, done.samples) == (0, 30, 31)


def test_what_a_file_manager_leaves_in_a_model_does_not_stop_it(tmp_path):
    out = tmp_path / "model"
    fit(make(tmp_path / "a", each=10), out, **SMALL)
    left = (".DS_Store", "Thumbs.db", "desktop.ini", ".notes.part")
    for name in left:
        (out / name).touch()
    assert fit(make(tmp_path / "a", each=1, start=10), out).learned == 3
    assert all((out / name).exists() for name in left)  # nor does it touch them
    (out / "thesis.tex").touch()
    with pytest.raises(MnemonError, match=r"model holds other files \(thesis.tex …\)"):
        fit(tmp_path / "a", out)


def test_a_forged_journal_is_refused(tmp_path):
    out = tmp_path / "model"
    fit(make(tmp_path / "a", each=10), out, **SMALL)
    classifier = OnlineClassifier.load(out)
    classifier._beside["files"] = classifier._beside["files"].int()
    classifier.save(out)
    with pytest.raises(MnemonError, match="what the model says about the files it learned is damaged"):
        fit(tmp_path / "a", out)


def test_folders_named_by_numbers_go_on_with_a_model_that_has_the_numbers(tmp_path):
    x = np.stack([pixels(label, n, size=12) for n in range(10) for label in ("red", "green")])
    OnlineClassifier("hybrid").partial_fit(x, [1, 2] * 10).save(tmp_path / "model")
    photos = make(tmp_path / "a", ["red", "green"], each=10, start=50)
    (photos / "red").rename(photos / "1")
    (photos / "green").rename(photos / "2")
    done = fit(photos, tmp_path / "model")
    assert done.labels == [1, 2]
    assert done.journal.accuracy() > 80


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("fit nowhere --out new", "there is no file or folder nowhere."),
        (
            "fit model --out new",
            "model holds 0 class folders; put the images of each class into a sub-folder",
        ),
        ("fit cut --out new", "cut is cut into parts (test, train), not classes; give cut/test or cut/train."),
        ("fit empty --out new", "class folder empty/bird holds no images"),
        ("fit broken --out new", "none of the 1 images could be read"),
        ("fit a --out new --order random", "unknown order 'random'"),
        ("fit a --out new --size 0", "size must be between 1 and 1024 pixels, not 0."),
        ("fit a --out new --save-every -1", "save_every is a number of seconds"),
        ("fit a --out new --method hybird", "unknown method 'hybird'; did you mean 'hybrid'?"),
        ("fit a --out new --memory-size 0 --size 12", "memory_size must be at least 1"),
        ("fit a --out new --backbone resnet18 --size 12", "needs images of at least 25×25 pixels"),
        ("fit a --out new --device gpu", "there is no device 'gpu' here"),
        ("fit a --out a", "a holds other files (red …); save the model in a folder of its own."),
        ("fit a --out a/red/0000.png", "is a file; a model is saved as a folder."),
        ("fit a --out a/model", "a/model lies in a, whose folders are classes; give an --out elsewhere."),
        ("fit a --out a/red/model", "a/red/model lies in a, whose"),
        ("fit b --out b/link", "b/link lies in b, whose"),
        ("fit a --out through/model", "through/model lies in a, whose"),
        ("fit a --out model --size 20", "the model model was made with size 12, not 20; leave the option out"),
        ("fit a --out model --lr 0.3", "was made with lr its default, not 0.3"),
        ("fit a --out vectors", "the model vectors takes the rows of a table or array, not images."),
        ("fit a --out narrow", "does not take square images of 8 bits a channel"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "a", ["red"], each=3)
    fit(tmp_path / "a", tmp_path / "model", **SMALL)
    make(tmp_path / "cut" / "train", ["red"], each=1)
    make(tmp_path / "cut" / "test", ["red"], each=1)
    (tmp_path / "empty" / "bird").mkdir(parents=True)
    make(tmp_path / "b", ["red"], each=1)
    (tmp_path / "b" / "link").symlink_to(tmp_path / "model")
    (tmp_path / "through").symlink_to(tmp_path / "a")
    make(tmp_path / "broken", ["red"], each=1)
    (tmp_path / "broken" / "red" / "0000.png").write_bytes(b"")
    OnlineClassifier().partial_fit(np.eye(4), list("abcd")).save(tmp_path / "vectors")
    narrow = np.zeros((4, 8, 9, 3), np.uint8)
    OnlineClassifier("slda", backbone="patches").partial_fit(narrow, list("abcd")).save(tmp_path / "narrow")
    (tmp_path / "model" / ".lock").unlink(missing_ok=True)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.name != ".lock")
    out, err = run(*words.split(), code=2, capsys=capsys)
    assert out == ""
    assert sentence in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("mnemon: ")
    after = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.name != ".lock")
    assert [path for path, _ in after] == [path for path, _ in before]
    assert [time for path, time in after if path.endswith((".json", ".safetensors"))] == [
        time for path, time in before if path.endswith((".json", ".safetensors"))
    ]


def test_the_command_says_what_it_did(tmp_path, capsys):
    photos, out = make(tmp_path / "a", each=10), tmp_path / "model"
    (photos / "red" / "0000.png").write_bytes(b"no image")
    words = ("--size", "12", "--method", "hybrid")  # a model that is asked about few images too
    said, err = run("fit", str(photos), "--out", str(out), *words, capsys=capsys)
    assert "learned 29 images (1 could not be read), " in said
    assert " per second\n" in said
    assert "test-then-train accuracy: " in said
    assert f"model: {out} (29 images learned, 3 classes)" in said
    assert "skipped: " in err
    assert "saved: 29 images learned" in err
    said, err = run("fit", str(photos), "--out", str(out), "--quiet", capsys=capsys)
    assert "learned 0 images (29 were known already, 1 could not be read)" in said
    assert err == ""


@pytest.mark.parametrize("there", [True, False], ids=["made by the user", "made here"])
def test_a_fit_in_vain_leaves_the_folder_as_it_was(tmp_path, there):
    out = tmp_path / "model"
    if there:
        out.mkdir()
    broken = make(tmp_path / "broken", ["red"], each=1)
    (broken / "red" / "0000.png").write_bytes(b"")
    with pytest.raises(MnemonError, match="none of the 1 images could be read"):
        fit(broken, out, **SMALL)
    assert out.exists() == there
    assert not there or list(out.iterdir()) == []


def test_the_end_of_a_fit_in_vain_lets_no_two_fit_one_model(tmp_path, monkeypatch):
    """Who takes the lock the moment it is free again keeps others out."""
    out, other = tmp_path / "model", FileLock(tmp_path / "model" / ".lock", timeout=0)
    release = FileLock.release

    def then_take(lock, *args, **kwargs):
        release(lock, *args, **kwargs)
        if Path(lock.lock_file).name == ".lock" and lock is not other and not other.is_locked:
            out.mkdir(exist_ok=True)
            other.acquire()

    broken = make(tmp_path / "broken", ["red"], each=1)
    (broken / "red" / "0000.png").write_bytes(b"")
    with monkeypatch.context() as patched:
        patched.setattr(FileLock, "release", then_take)
        with pytest.raises(MnemonError, match="none of the 1 images"):
            fit(broken, out, **SMALL)
    with pytest.raises(MnemonError, match="another process is fitting"):
        fit(make(tmp_path / "a", each=1), out, **SMALL)
    other.release()
