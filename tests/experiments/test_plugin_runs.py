"""A method, loss and classifier outside the package run as those inside: the file of docs/plugins.md and its commands."""

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mnemon
from command_line import run
from mnemon import MnemonError
from mnemon.experiments.active import ActiveRun
from mnemon.experiments.store import ResultFolder
from mnemon.learning import plugins
from mnemon.report import groups
from mnemon.report.commands import commands
from processes import PATIENCE, midway, resume, stand, started, under_way

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RUN = ["run", "--method", "mine.py:Hardest", "--stream", "split-digits", "--device", "cpu", "--out", "out"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with mine.py in it, the current one; what is imported from there is forgotten afterwards."""
    for name in ("_added", "_failed"):
        monkeypatch.setattr(plugins, name, {kind: {} for kind in plugins.BASES})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("\n\n".join(BLOCKS), encoding="utf-8")
    return tmp_path


def result(record):
    return {k: v for k, v in record.items() if k not in ("seconds", "finished", "at_once")}


def test_the_commands_of_the_page_run(capsys):
    lines = re.findall(r"^    (mnemon (?:run|report) .*)", PAGE, re.MULTILINE)
    assert len(lines) == 8
    for line in lines:
        words = shlex.split(line)[1:]
        run(
            *("1" if before == "--seeds" else word for before, word in zip(["", *words], words, strict=False)),
            capsys=capsys,
        )
    found = ResultFolder("out/mine").read()
    assert [(r["method"], r["loss"], r["classifier"], r["options"].get("looked_at")) for r in found] == [
        ("hardest", "ce", "softmax", 40),
        ("hardest", "ce", "softmax", 80),
        ("er", "ce", "softmax", None),
        ("er", "focal", "softmax", None),
        ("hardest", "focal", "softmax", 40),
        ("momentum", "ce", "softmax", None),
        ("er", "ce", "ncm", None),
        ("er", "ce", "knn:k=3", None),
    ]
    assert [sorted(r.get("plugins", {})) for r in found] == [
        ["method"],
        ["method"],
        [],
        ["loss"],
        ["loss", "method"],
        ["method"],
        [],
        ["classifier"],
    ]
    assert min(r["average_accuracy"] for r in found) > 40
    page = Path("out/mine/report.html").read_text(encoding="utf-8")
    assert "hardest + softmax" in page
    assert "mnemon run --method mine.py:Hardest --stream split-digits" in page


def test_a_search_over_its_options_ends_with_the_command_that_runs_the_choice(capsys):
    search = [
        "tune",
        *RUN[1:5],
        "--classifier",
        "ncm,mine.py:NearestNeighbours:k=3",
        "--grid",
        "looked_at=20,80",
        "lr=0.1",
    ]
    out, _ = run(*search, "--seeds", "100-100", "--out", "search", capsys=capsys)
    _, command = out.replace("\\\n", "").split("to run with the chosen values:\n")
    words = shlex.split(command)[1:]
    assert words[words.index("--method") + 1] == "mine.py:Hardest"
    assert words[words.index("--classifier") + 1] in ("ncm", "mine.py:NearestNeighbours:k=3")
    assert words[-2:] == ["--seeds", "15"]
    run(*words[:-1], "1", "--out", "out", capsys=capsys)
    (record,) = ResultFolder("out").read()
    assert (record["options"]["lr"], record["split"]) == (0.1, "test")
    assert str(record["options"]["looked_at"]) == words[words.index("--looked-at") + 1]
    assert "recipe: looked_at 40, lr 0.2 (lr: er's: " in " ".join(out.split())  # ER's recipe has no looked_at
    _, err = run(*search, "--keep", "--out", "search", code=2, capsys=capsys)
    assert err.endswith("hardest comes from outside; leave out --keep and give the chosen values to mnemon run.\n")


def test_from_python_several_classifiers_are_a_list_of_records_of_one_training():
    records = mnemon.run("mine.py:Hardest", "split-digits", classifier=["softmax", "mine.py:NearestNeighbours"])
    assert [r["classifier"] for r in records] == ["softmax", "knn"]
    assert records[0]["run"] == records[1]["run"]
    alone = mnemon.run("er", "split-digits", classifier="ncm", out="out")
    assert mnemon.run("er", "split-digits", classifier=["ncm"], out="out") == [alone]  # there already
    both = mnemon.run("er", "split-digits", classifier=("ncm", "softmax"), out="out")
    assert result(both[0]) == result(alone)
    assert len(ResultFolder("out").read()) == 2
    with pytest.raises(MnemonError, match="classifier is an empty list"):
        mnemon.run("er", "split-digits", classifier=[])


def test_data_a_stream_and_a_backbone_of_ones_own(monkeypatch):
    """The block of the page, as a program beside mine.py."""
    (block,) = re.findall(r"## Five minutes: data.*?(    import mnemon\n.*?)\n\n[^ \n]", PAGE, re.DOTALL)
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    exec(compile(textwrap.dedent(block), "block", "exec"), {})
    (record,) = ResultFolder("out/mine").read()
    assert (record["method"], record["stream"]) == ("hardest", "reversed")
    assert record["protocol"]["tasks"] == [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4]]
    assert record["average_accuracy"] > 50
    del sys.modules["mine"]


def test_help_has_the_options_of_the_file(capsys):
    out, _ = run("run", "--method", "mine.py:Hardest", "--help", capsys=capsys)
    assert "--looked-at INT" in out
    _, err = run(*RUN[:2], "none.py:Hardest", *RUN[3:], code=2, capsys=capsys)
    assert err == "mnemon: none.py cannot be read (No such file or directory).\n"


def test_a_method_whose_loss_does_not_exist_is_refused_with_a_sentence(folder, capsys):
    content = (folder / "mine.py").read_text(encoding="utf-8")
    loss = '    default_objective: ClassVar[str] = "fcal"\n'
    (folder / "mine.py").write_text(
        content.replace('    name: ClassVar[str] = "hardest"\n', '    name = "hardest"\n' + loss)
    )
    _, err = run(*RUN, code=2, capsys=capsys)
    assert err.startswith("mnemon: unknown loss 'fcal'; did you mean 'focal'?")


def test_two_processes_share_its_runs_and_what_was_stopped_goes_on_bit_equal(capsys, monkeypatch):
    run(*RUN[:-1], "whole", "--seeds", "4", "--jobs", "1", capsys=capsys)

    def advance(self, *more, original=ActiveRun.advance):
        original(self, *more)
        if self.run.position > 40:
            raise KeyboardInterrupt
        return False

    with monkeypatch.context() as patch:
        patch.setattr(ActiveRun, "advance", advance)
        run(*RUN, "--seeds", "4", "--jobs", "1", "--checkpoint-every", "0", code=130, capsys=capsys)
    assert list(under_way(Path("out"))) == [0]
    with monkeypatch.context() as patch:  # what is on the disk imports nothing: the command has to name the file again
        patch.setattr(plugins, "_added", {kind: {} for kind in plugins.BASES})
        _, err = run("run", "--method", "hardest", *RUN[3:], code=2, capsys=capsys)
        assert err.startswith("mnemon: unknown method 'hardest'; ")
        assert err.endswith("One of your own is named by its file: path/to/file.py:Class.\n")
    _, err = run(*RUN, "--seeds", "4", "--jobs", "2", capsys=capsys)
    assert "hardest on split-digits, seed 0: going on at step 41 of 124" in err
    whole, shared = (sorted(ResultFolder(out).read(), key=lambda r: r["seed"]) for out in ("whole", "out"))
    assert [result(r) for r in shared] == [result(r) for r in whole]
    assert not under_way(Path("out"))


def test_a_changed_file_is_another_run_and_the_report_shows_both(capsys, folder):
    run(*RUN, capsys=capsys)
    with open(folder / "mine.py", "a") as file:
        file.write("\n# changed\n")
    run(*RUN, capsys=capsys)
    old, new = ResultFolder("out").read()
    assert old["run"] != new["run"]
    assert old["plugins"]["method"]["digest"] != new["plugins"]["method"]["digest"]
    (section,) = groups.read(Path("out"))
    assert [len(group.records) for group in section.groups] == [1, 1]
    assert sorted(group.name for group in section.groups) == sorted(
        f"hardest + softmax (method code {r['plugins']['method']['digest'][:8]})" for r in (old, new)
    )
    assert all(line.startswith("mnemon run --method mine.py:Hardest ") for line in commands(section))


def test_a_report_that_does_not_know_the_method_names_its_losses(capsys, monkeypatch):
    """Else two losses of one method would have one name."""
    run(*RUN, capsys=capsys)
    run(*RUN[:5], "--loss", "mine.py:Focal", *RUN[5:], capsys=capsys)
    named = {group.name for section in groups.read(Path("out")) for group in section.groups}
    assert named == {"hardest + softmax", "hardest (focal loss) + softmax"}
    monkeypatch.setattr(plugins, "_added", {kind: {} for kind in plugins.BASES})
    named = {group.name for section in groups.read(Path("out")) for group in section.groups}
    assert named == {"hardest (CE loss) + softmax", "hardest (focal loss) + softmax"}


def test_a_record_that_names_a_file_imports_nothing(folder, capsys):
    run(*RUN, capsys=capsys)
    (folder / "evil.py").write_text("raise SystemExit('executed')\n")
    (record,) = ResultFolder("out").read()
    forged = record | {"method": "evil.py:Evil", "loss": "evil.py:Evil", "classifier": "evil.py:Evil", "run": "forged"}
    forged["plugins"] = {"method": {"source": "evil.py:Evil", "digest": "0"}}
    ResultFolder("out").append([forged])
    run("report", "out", capsys=capsys)
    assert not [name for name in sys.modules if name.endswith("_evil")]


@pytest.mark.slow
def test_a_command_that_is_killed_goes_on_bit_equal():
    command = [sys.executable, "-m", "mnemon", *RUN, "--jobs", "2"]
    with started([*command, "--seeds", "300", "--checkpoint-every", "0"], stderr=subprocess.DEVNULL) as process:
        both = stand(process.pid, lambda: len(midway(Path("out"))) == 2)
        seeds = midway(Path("out"))
        for number in both:
            os.kill(number, signal.SIGKILL)
        resume(both)
        assert process.wait(PATIENCE) == -9
    which = ",".join(map(str, seeds))
    done = subprocess.run([*command, "--seeds", which], check=True, capture_output=True, text=True)
    assert all(f"seed {seed}: going on at step" in done.stderr for seed in seeds)
    subprocess.run([*command[:-3], "undisturbed", "--jobs", "1", "--seeds", which], check=True, capture_output=True)
    found, expected = ({r["seed"]: result(r) for r in ResultFolder(out).read()} for out in ("out", "undisturbed"))
    assert {seed: found[seed] for seed in seeds} == expected
