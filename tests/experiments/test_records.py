"""The file of records, whatever others do to it."""

import os

import pytest

from mnemon.experiments import records

LINE = '{"run": "%s", "classifier": "ncm"}\n'


@pytest.mark.parametrize("before", ["_lines", "_packed"])
def test_records_that_are_packed_while_they_are_read_are_read(tmp_path, monkeypatch, before):
    (tmp_path / records.NAME).write_text(LINE % "a" + LINE % "b")
    original = getattr(records, before)

    def meanwhile(*given):
        monkeypatch.setattr(records, before, original)
        found = original(*given)
        records.pack(tmp_path)
        return found

    monkeypatch.setattr(records, before, meanwhile)
    for _ in range(2):  # meanwhile, and afterwards
        assert [r["run"] for r in records.read(tmp_path)] == ["a", "b"]
    assert not (tmp_path / records.NAME).exists()


def test_a_first_record_is_on_the_disk_with_the_name_of_its_file(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def noted(handle):
        flushed.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    file, folder = tmp_path / records.NAME, tmp_path.stat().st_ino
    records.append(tmp_path, [{"run": "a", "classifier": "ncm"}])
    assert flushed == [file.stat().st_ino, folder]
    records.append(tmp_path, [{"run": "b", "classifier": "ncm"}])
    assert flushed == [file.stat().st_ino, folder, file.stat().st_ino]
