"""Event files of TensorBoard, read back by TensorBoard."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mnemon.files
from command_line import run
from mnemon import trackers
from mnemon.errors import MnemonError
from mnemon.experiments.store import ResultFolder
from mnemon.trackers import exporting, open_tracker
from mnemon.trackers.contents import Contents

pytest.importorskip("tensorboard")

OLD = Path(__file__).parents[1] / "fixtures/v0_1"


@pytest.fixture
def folder(tmp_path):
    """The records of 0.1: two seeds of er with two classifiers, and another method."""
    shutil.copytree(OLD / "folder", tmp_path / "out")
    return tmp_path / "out"


def read(path):
    """The event files of a run, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(path)).Reload()


def session(events, tag):
    """What a run says to the HParams tab."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    content = events.SummaryMetadata(tag).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def files(place):
    """{path: (bytes, when written)}"""
    found = [path for path in place.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_every_number_of_a_record_is_read_back(folder, tmp_path, capsys):
    place = tmp_path / "board"
    out, _ = run("log", str(folder), "--to", f"tensorboard:{place}", capsys=capsys)
    assert out.startswith(f"5 records exported to tensorboard:{place}, 0 there before\n")
    assert f"tensorboard --logdir {place}" in out
    records = ResultFolder(folder).read()
    assert {path.name for path in place.iterdir()} == {f"{r['run']}+{r['classifier']}" for r in records}
    for record in records:
        events = read(place / f"{record['run']}+{record['classifier']}")
        matrix = np.array(record["accuracy_matrix"], float)

        def points(tag, events=events):
            return [(point.step, pytest.approx(point.value, rel=1e-6)) for point in events.Scalars(tag)]

        means = np.nanmean(matrix, 1).tolist()
        assert points("over_tasks/accuracy") == list(zip(range(1, 6), means, strict=True))
        assert points("over_samples/accuracy") == list(zip(record["protocol"]["boundaries"], means, strict=True))
        for j in range(5):
            assert points(f"task_accuracy/task_{j + 1}") == [(k + 1, matrix[k, j]) for k in range(j, 5)]
        assert points("over_tasks/forgetting")[-1] == (5, record["average_forgetting"])
        for name in ("average_accuracy", "average_forgetting", "anytime_accuracy", "learning_accuracy"):
            assert points(f"final/{name}") == [(1256, record[name])]
        (picture,) = events.Images("task_accuracy/matrix")
        shown = Image.open(io.BytesIO(picture.encoded_image_string))
        assert shown.size == (picture.width, picture.height)


def test_hyper_parameters_and_groups_of_seeds(folder, tmp_path, capsys):
    from tensorboard.plugins.hparams import api_pb2

    run("log", str(folder), "--to", f"tensorboard:{tmp_path / 'board'}", capsys=capsys)
    groups = {}
    for record in ResultFolder(folder).read():
        events = read(tmp_path / "board" / f"{record['run']}+{record['classifier']}")
        start = session(events, "_hparams_/session_start_info").session_start_info
        said = {name: value.number_value or value.string_value for name, value in start.hparams.items()}
        about = {key: record[key] for key in ("method", "loss", "classifier", "stream", "split", "order", "backbone")}
        assert said == about | record["options"]
        groups.setdefault(start.group_name, []).append(record["seed"])
        end = session(events, "_hparams_/session_end_info").session_end_info
        assert end.status == api_pb2.STATUS_SUCCESS
        assert end.end_time_secs > start.start_time_secs > 0
    assert sorted(map(sorted, groups.values())) == [[0, 1], [0, 1], [1]]


def test_a_second_export_writes_nothing_and_new_records_are_added(folder, tmp_path, capsys):
    place, lines = tmp_path / "board", (folder / "records.jsonl").read_text().splitlines(keepends=True)
    words = ("log", str(folder), "--to", f"tensorboard:{place}", "--quiet")
    (folder / "records.jsonl").write_text("".join(lines[:2]))
    run(*words, capsys=capsys)
    before = files(place)
    assert len(before) == 2
    assert run(*words, capsys=capsys)[0] == f"0 records exported to tensorboard:{place}, 2 there before\n"
    assert files(place) == before
    (folder / "records.jsonl").write_text("".join(lines))
    assert run(*words, capsys=capsys)[0] == f"3 records exported to tensorboard:{place}, 2 there before\n"
    after = files(place)
    assert len(after) == 5
    assert before.items() <= after.items()
    ResultFolder(folder).pack()  # the same records elsewhere
    assert run(*words, capsys=capsys)[0] == f"0 records exported to tensorboard:{place}, 5 there before\n"
    # An export into another folder has the same bytes.
    run(*words[:3], f"tensorboard:{tmp_path / 'again'}", "--quiet", capsys=capsys)
    again = {path.relative_to(tmp_path / "again"): content for path, (content, _) in files(tmp_path / "again").items()}
    assert again == {path.relative_to(place): content for path, (content, _) in after.items()}


def test_a_record_that_changed_is_not_written_twice(folder, tmp_path, capsys):
    place = tmp_path / "board"
    run("log", str(folder), "--to", f"tensorboard:{place}", capsys=capsys)
    before = files(place)
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    records[1]["average_accuracy"] = 1.0
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    out, err = run("log", str(folder), "--to", f"tensorboard:{place}", capsys=capsys)
    assert "0 records exported" in out
    assert "4 there before, 1 there as another record" in out
    assert f"{records[1]['run']}+{records[1]['classifier']} was exported before" in err
    assert files(place) == before


def test_an_export_that_fails_leaves_nothing_half_and_goes_on_later(folder, tmp_path, capsys, monkeypatch):
    place, written, fsync = tmp_path / "board", [], os.fsync

    def full(handle):
        written.append(handle)
        if len(written) == 3:  # a file and its folder are flushed for each record
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    _, err = run("log", str(folder), "--to", f"tensorboard:{place}", code=2, capsys=capsys)
    assert re.search(r"could not be exported to .* \(No space left on device\)\.", err)
    assert len(files(place)) == 1
    monkeypatch.undo()
    out, _ = run("log", str(folder), "--to", f"tensorboard:{place}", capsys=capsys)
    assert "4 records exported" in out
    assert len(files(place)) == 5


def test_an_unfinished_file_is_none_that_tensorboard_reads(folder, tmp_path, monkeypatch):
    seen, flush = [], mnemon.files.flush

    def noted(path):
        seen.append(path.name)
        flush(path)

    monkeypatch.setattr(mnemon.files, "flush", noted)
    open_tracker(f"tensorboard:{tmp_path / 'board'}").write(Contents(ResultFolder(folder).read()[0]))
    assert len(seen) == 2
    assert "tfevents" not in seen[0]


def test_the_name_of_a_run_cannot_lead_out_of_the_folder(folder, tmp_path):
    tracker, record = open_tracker(f"tensorboard:{tmp_path / 'board'}"), ResultFolder(folder).read()[0]
    strange = [{"run": "../../x"}, {"run": ""}, {"run": "a\0\n"}, {"run": "a,b"}, {"run": "a:b"}, {"classifier": ".."}]
    for change in strange:
        contents = Contents(record | change)
        assert tracker.digest(contents.name) is None
        tracker.write(contents)
        assert tracker.digest(contents.name) == contents.digest
    assert len(list((tmp_path / "board").iterdir())) == len(strange)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "board"}


def test_following_exports_records_as_they_come_until_it_is_stopped(folder, tmp_path, monkeypatch):
    """The folder is not there at first. Each look at it is an event of this test: nothing waits for a clock."""
    place, records = tmp_path / "board", ResultFolder(folder).read()
    new, looks, waited = ResultFolder(tmp_path / "new"), [], []

    def look(seconds):
        waited.append(seconds)
        looks.append(len(files(place)))
        if len(looks) == 1:
            new.path.mkdir()
            new.append(records[:1])
        elif len(looks) == 2:
            new.append(records[:3])
            with new.records.open("a") as file:
                file.write('{"run": "cut sho')  # a line that is being written
        elif len(looks) == 4:
            new.append(records[3:4])
        elif len(looks) == 5:
            new.pack()

    monkeypatch.setattr(exporting.time, "sleep", look)
    done = exporting.follow(new.path, open_tracker(f"tensorboard:{place}"), lambda: len(looks) == 6)
    assert looks == [0, 1, 3, 3, 4, 4]
    assert (done.written, done.known, done.changed) == (4, 0, 0)


def test_following_ends_by_a_signal_with_all_exported(folder, tmp_path, capsys, monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(exporting.time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGTERM))
    try:
        words = ("log", str(folder), "--to", f"tensorboard:{tmp_path / 'board'}", "--follow")
        out, err = run(*words, code=143, capsys=capsys)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "5 records exported" in out
    assert "stopped by SIGTERM" in err
    assert len(files(tmp_path / "board")) == 5


def test_two_exports_at_once_make_each_file_once(folder, tmp_path):
    contents = Contents(ResultFolder(folder).read()[0])
    both = [open_tracker(f"tensorboard:{tmp_path / 'board'}") for _ in range(2)]
    assert [tracker.digest(contents.name) for tracker in both] == [None, None]
    for tracker in both:
        tracker.write(contents)
    assert len(files(tmp_path / "board")) == 1


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("mlflow:here", "unknown tracker 'mlflow'; known: tensorboard."),
        ("tensorbord:here", "did you mean 'tensorboard'?"),
        ("tensorboard", "--to tensorboard:DIR"),
        ("tensorboard:", "--to tensorboard:DIR"),
        ("tensorboard:out/records.jsonl", "is a file"),
    ],
)
def test_mistakes_are_one_sentence(to, sentence, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    _, err = run("log", "out", "--to", to, code=2, capsys=capsys)
    assert sentence in err
    assert {path.name for path in folder.parent.iterdir()} == {"out"}


def test_without_records_there_is_nothing_to_export(tmp_path, capsys):
    _, err = run("log", str(tmp_path / "none"), "--to", f"tensorboard:{tmp_path / 'board'}", code=2, capsys=capsys)
    assert "holds no records; make some with" in err
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_to_install(folder, tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    _, err = run("log", str(folder), "--to", f"tensorboard:{tmp_path / 'board'}", code=2, capsys=capsys)
    assert err.strip().endswith("needs the extra: pip install 'mnemon[tensorboard]'.")


def test_tensorflow_is_not_imported(folder, tmp_path):
    """Where it is installed, TensorBoard's own writer takes it."""
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from mnemon import cli
cli.main(["log", {str(folder)!r}, "--to", "tensorboard:{tmp_path / "board"}"])
assert "torch.utils.tensorboard" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "5 records exported" in done.stdout


OTHER = """
from typing import ClassVar

from mnemon.trackers.tracker import Tracker


class Lines(Tracker):
    name: ClassVar[str] = "lines"
    place_is: ClassVar[str] = "FILE"

    def __init__(self, place):
        self.place = place
        self.known = {}

    def digest(self, name):
        return self.known.get(name)

    def write(self, contents):
        self.known[contents.name] = contents.digest
        with open(self.place, "a") as file:
            print(contents.name, contents.results["final/average_accuracy"], file=file)

    def look(self):
        return f"cat {self.place}"
"""


def test_another_tracker_is_one_file(folder, tmp_path, capsys, monkeypatch):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "another_tracker.py").write_text(OTHER)
    monkeypatch.setattr(trackers, "__path__", [*trackers.__path__, str(tmp_path / "more")])
    trackers.trackers.cache_clear()
    try:
        assert list(trackers.trackers()) == ["lines", "tensorboard"]
        run("log", str(folder), "--to", f"lines:{tmp_path / 'lines'}", capsys=capsys)
        with pytest.raises(MnemonError, match="known: lines, tensorboard"):
            open_tracker("wandb:project")
    finally:
        trackers.trackers.cache_clear()
    assert len((tmp_path / "lines").read_text().splitlines()) == 5
