"""Checkpoints: whole or not there; damaged ones are passed over."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemon import MnemonError, checkpoint, files


def tensors(number):
    return {"w": torch.full((3, 4), float(number)), "n": torch.tensor(number), "empty": torch.zeros(0, 2)}


def fill(folder, *numbers):
    for number in numbers:
        checkpoint.save(folder, number, tensors(number), {"number": number, "x": 0.1 + 0.2})


@pytest.fixture
def newest(caplog):
    """The number of the checkpoint that is loaded, and the warnings."""

    def load(folder):
        caplog.clear()
        found = checkpoint.load(folder)
        return (found.number if found else None), caplog.messages

    return load


def test_what_was_saved_is_loaded(tmp_path):
    fill(tmp_path, 7)
    found = checkpoint.load(tmp_path)
    assert found.number == 7
    assert found.values == {"number": 7, "x": 0.1 + 0.2}
    assert all(torch.equal(found.tensors[k], v) and found.tensors[k].dtype == v.dtype for k, v in tensors(7).items())


def test_the_newest_two_are_kept(tmp_path):
    fill(tmp_path, 1, 5, 20)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "0000000005.json",
        "0000000005.safetensors",
        "0000000020.json",
        "0000000020.safetensors",
    ]


def test_an_empty_or_missing_folder_has_none(tmp_path):
    assert checkpoint.load(tmp_path) is None
    assert checkpoint.load(tmp_path / "nowhere") is None


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("kind", ["json", "safetensors"])
@pytest.mark.parametrize("damage", [truncate, flip, os.unlink], ids=["truncated", "bit-flipped", "missing"])
def test_a_damaged_newest_falls_back_to_the_one_before_with_one_line(tmp_path, kind, damage, newest):
    fill(tmp_path, 1, 2)
    damage(tmp_path / f"0000000002.{kind}")
    number, lines = newest(tmp_path)
    assert number == 1
    if (kind, damage) == ("json", os.unlink):
        assert lines == []  # without its JSON it never was a checkpoint
    else:
        assert len(lines) == 1
        assert "0000000002 is damaged" in lines[0]


def test_a_run_begun_anew_over_damaged_checkpoints_keeps_its_own(tmp_path, newest):
    """The damaged ones have higher numbers; the new ones must stay all the same."""
    fill(tmp_path, 490, 500)
    for path in tmp_path.glob("*.safetensors"):
        flip(path)
    fill(tmp_path, 100)
    assert newest(tmp_path) == (100, [])
    fill(tmp_path, 110)
    flip(tmp_path / "0000000110.safetensors")
    assert newest(tmp_path)[0] == 100


def test_both_damaged_is_as_if_there_were_none(tmp_path, newest):
    fill(tmp_path, 1, 2)
    for path in tmp_path.glob("*.safetensors"):
        flip(path)
    number, lines = newest(tmp_path)
    assert number is None
    assert len(lines) == 2


def test_a_future_format_is_neither_read_nor_passed_over(tmp_path, monkeypatch, newest):
    """Whoever went on from the one before would discard it with the next save."""
    fill(tmp_path, 1)
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    fill(tmp_path, 2)
    monkeypatch.undo()
    with pytest.raises(
        MnemonError, match=r"0000000002 is of another version of mnemon \(its format is 99, this version"
    ):
        newest(tmp_path)
    assert checkpoint.newest(tmp_path) == 2


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_garbage_is_passed_over_never_a_crash(tmp_path_factory, newest, data):
    folder = tmp_path_factory.mktemp("garbage")
    fill(folder, 1, 2)
    path = folder / data.draw(st.sampled_from(["0000000002.json", "0000000002.safetensors"]))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + 4] = data.draw(st.binary(min_size=1, max_size=8))
    unchanged = bytes(content) == path.read_bytes()
    path.write_bytes(bytes(content))
    number, lines = newest(folder)
    assert number == (2 if unchanged else 1) or json.loads(path.read_bytes()) == json.loads(bytes(content))
    assert len(lines) <= 1


@pytest.mark.parametrize("limit", ["MOST_VALUES", "MOST_TENSORS"])
def test_what_load_would_refuse_is_not_written(tmp_path, monkeypatch, limit):
    fill(tmp_path, 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(checkpoint, limit, 500)
    with pytest.raises(
        MnemonError, match=r"0000000002 would hold [\d,]+ bytes .*500 are the limit; nothing was written"
    ):
        checkpoint.save(tmp_path, 2, {"w": torch.zeros(200)}, {"labels": "x" * 500})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_is_one_sentence_and_the_one_before_stays(tmp_path, monkeypatch, newest):
    fill(tmp_path, 1)
    real = files.flush

    def full(path):
        if path.suffix == ".part":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path)

    monkeypatch.setattr(files, "flush", full)
    with pytest.raises(MnemonError, match=r"No space left on device.*the one before it is untouched"):
        fill(tmp_path, 2)
    monkeypatch.undo()
    assert newest(tmp_path) == (1, [])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0000000001.json", "0000000001.safetensors"]


def test_a_file_system_that_flushes_no_folders_is_no_full_disk(tmp_path, monkeypatch):
    """As VirtualBox's shared folders are; what it says of files is still heard."""
    real, said = os.fsync, {"folder": errno.EINVAL}

    def flush(handle):
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        if kind in said:
            raise OSError(said[kind], os.strerror(said[kind]))
        real(handle)

    monkeypatch.setattr(os, "fsync", flush)
    fill(tmp_path, 1)
    assert checkpoint.load(tmp_path).number == 1
    for kind, reason in (("file", errno.EINVAL), ("folder", errno.EIO)):
        said[kind] = reason
        with pytest.raises(MnemonError, match="could not be written"):
            fill(tmp_path, 2)
        del said[kind]


def test_tensors_that_a_kill_left_behind_go_with_the_next_save(tmp_path, monkeypatch):
    fill(tmp_path, 1, 2)
    unlink = Path.unlink

    def dying(self, missing_ok=False):
        if self.name == "0000000001.safetensors":
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        with pytest.raises(KeyboardInterrupt):
            fill(tmp_path, 3)
    assert (tmp_path / "0000000001.safetensors").exists()
    fill(tmp_path, 4)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["0000000003"] * 2 + ["0000000004"] * 2
