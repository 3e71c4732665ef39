"""A record: its fields, its identities, and what is refused."""

from __future__ import annotations

import json

import pytest

from mnemon.errors import MnemonError
from mnemon.experiments.record import Record, mean_seconds
from mnemon.experiments.store import ResultFolder

LINE = {
    "run": "er-split-digits-s0-1",
    "method": "er",
    "stream": "split-digits",
    "seed": 0,
    "loss": "ce",
    "classifier": "softmax",
    "average_accuracy": 50.0,
    "average_forgetting": None,
    "accuracy_matrix": [[90.0, None], [10, 90.0]],
    "options": {"lr": 0.1},
    "protocol": {"backbone": "MLP"},
    "seconds": {"train": 2.0, "evaluate": 1},
    "device": "cpu",
    "data": {"checksum": "ab" * 32},
    "versions": {},
    "of_a_newer_version": [1],
}


def record(**change):
    return Record(LINE | change)


def test_a_record_is_a_plain_mapping_to_its_users() -> None:
    assert record()["average_accuracy"] == 50.0
    assert json.loads(json.dumps(record())) == LINE
    assert dict(record()) == LINE == record()


@pytest.mark.parametrize(
    ("field", "value", "must_be"),
    [
        ("average_accuracy", "fifty", "a number"),
        ("average_accuracy", True, "a number"),
        ("average_accuracy", None, "a number"),
        ("average_forgetting", "none", "a number or null"),
        ("seed", 1.5, "a whole number"),
        ("seed", "1", "a whole number"),
        ("state_bytes", 1.5, "a whole number"),
        ("multiplications", "many", "a whole number or null"),
        ("method", 3, "text"),
        ("options", [], "an object"),
        ("seconds", {"train": "2 s"}, "an object of numbers"),
        ("accuracy_matrix", [[1.0], [1.0, 2.0]], "rows of numbers"),
        ("accuracy_matrix", [["x"]], "rows of numbers"),
        ("accuracy_matrix", [], "rows of numbers"),
        ("average_accuracy", float("nan"), "a number"),
        ("data", {"checksum": 5}, "an object of text"),
        ("protocol", {"tasks": 5}, "an object of lists, numbers and text"),
        ("protocol", {"tasks": [0, 1]}, "an object of lists, numbers and text"),
        ("protocol", {"class_counts": [[0, "many"]]}, "an object of lists, numbers and text"),
        ("protocol", {"samples": "10"}, "an object of lists, numbers and text"),
    ],
)
def test_a_field_of_another_kind_is_one_sentence_wherever_records_are_read(tmp_path, field, value, must_be) -> None:
    lines = [record(run="a"), record(run="b", **{field: value})]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(MnemonError) as refused:
        ResultFolder(tmp_path).read()
    said = str(refused.value)
    assert said.startswith("line 2 of ")
    assert f"the record of b has no proper {field!r}: it must be {must_be}" in said
    assert said.count(". ") == 0


def test_what_a_run_cost_may_be_missing_and_its_multiplications_may_be_unknown(tmp_path) -> None:
    lines = [record(run="a"), record(run="b", state_bytes=10, multiplications=None), record(run="c", multiplications=7)]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [each.get("multiplications") for each in ResultFolder(tmp_path).read()] == [None, None, 7]


def test_a_field_that_is_missing_is_one_sentence_when_it_is_needed() -> None:
    with pytest.raises(MnemonError, match=r"^the record of er-split-digits-s0-1 has no 'at_once'; repair or remove"):
        record()["at_once"]
    with pytest.raises(KeyError):
        record()["at_once"]
    assert record().get("at_once") is None


def test_runs_that_differ_in_their_seed_alone_are_one_experiment() -> None:
    first = record()
    same = [record(seed=1, run="other"), record(device="some GPU", seconds={}), record(finished="today")]
    assert {r.experiment for r in (first, *same)} == {first.experiment}
    others = [
        record(classifier="ncm"),
        record(loss="ms"),
        record(stream="split-digits-2"),
        record(split="valid"),
        record(order="random"),
        record(options={"lr": 0.2}),
        record(protocol={"backbone": "ReducedResNet18"}),
        record(data={"checksum": "cd" * 32}),
        record(device="some GPU", precision="bf16"),
    ]
    assert len({r.experiment for r in (first, *others)}) == 1 + len(others)


def test_the_display_name_states_what_is_not_the_methods_own() -> None:
    assert record().display_name == "er + softmax"
    assert record(loss="ms", classifier="ncm").display_name == "er ms + ncm"
    assert record(device="some GPU", precision="bf16").display_name == "er + softmax (bf16)"
    assert record(device="cpu", precision="fp32").display_name == "er + softmax"
    assert record(method="of-one's-own").display_name == "of-one's-own ce + softmax"


def test_mean_seconds_are_over_the_runs_that_state_them() -> None:
    assert mean_seconds([record(), record(seconds={"train": 5.0}), record(seconds={})]) == 4.0
    assert mean_seconds([record(seconds={})]) is None


def test_unknown_fields_survive_packing(tmp_path) -> None:
    folder = ResultFolder(tmp_path)
    folder.append([record()])
    folder.pack()
    assert folder.read() == [LINE]
    assert not (tmp_path / "records.jsonl").exists()
