"""The file of records, whatever others do to it."""

import os
from types import SimpleNamespace

import pytest

from mnemon.experiments import store
from mnemon.experiments.recording import Recorded
from mnemon.experiments.store import ResultFolder

LINE = '{"run": "%s", "classifier": "ncm"}\n'


@pytest.mark.parametrize("before", ["_lines", "_packed"])
def test_records_that_are_packed_while_they_are_read_are_read(tmp_path, monkeypatch, before):
    (tmp_path / store.NAME).write_text(LINE % "a" + LINE % "b")
    owner = ResultFolder if before == "_packed" else store
    original = getattr(owner, before)

    def meanwhile(*given):
        monkeypatch.setattr(owner, before, original)
        found = original(*given)
        ResultFolder(tmp_path).pack()
        return found

    monkeypatch.setattr(owner, before, meanwhile)
    for _ in range(2):  # meanwhile, and afterwards
        assert [r["run"] for r in ResultFolder(tmp_path).read()] == ["a", "b"]
    assert not (tmp_path / store.NAME).exists()


def test_a_first_record_is_on_the_disk_with_the_name_of_its_file(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def noted(handle):
        flushed.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    file, folder = tmp_path / store.NAME, tmp_path.stat().st_ino
    ResultFolder(tmp_path).append([{"run": "a", "classifier": "ncm"}])
    assert flushed == [file.stat().st_ino, folder]
    ResultFolder(tmp_path).append([{"run": "b", "classifier": "ncm"}])
    assert flushed == [file.stat().st_ino, folder, file.stat().st_ino]


def test_a_folder_is_read_again_only_when_its_records_have_changed(tmp_path, monkeypatch):
    """Jobs ask one by one, and an archive may hold thousands of records."""
    folder, reads, read = ResultFolder(tmp_path), [], ResultFolder.read
    a, b = (SimpleNamespace(key=key, classifiers=["ncm"]) for key in "ab")
    folder.append([{"run": "a", "classifier": "ncm"}])
    folder.pack()

    def noted(self):
        reads.append(self)
        return read(self)

    recorded = Recorded(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ResultFolder, "read", noted)
        for _ in range(3):
            assert recorded.of(a)
            assert recorded.of(b) is None
        assert len(reads) == 1
    folder.append([{"run": "b", "classifier": "ncm"}])
    assert recorded.of(b)
    folder.pack()
    assert recorded.of(a)
    assert recorded.of(b)
