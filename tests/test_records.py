"""The file of records, whatever others do to it."""

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
