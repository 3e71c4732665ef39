"""The command line as a person meets it."""

import json
import subprocess
import sys

import pytest

from command_line import run
from mnemon import __version__, cli
from mnemon.cli.command import commands


def test_help_and_version(capsys):
    out, _ = run(capsys=capsys)
    assert out == run("--help", capsys=capsys)[0]
    for command in commands():
        assert f"  {command}" in out
    assert run("--version", capsys=capsys)[0] == f"mnemon {__version__}\n"
    out, _ = run("data", capsys=capsys)
    assert "data import" in out
    assert "demo" not in out


@pytest.mark.parametrize("command", commands())
def test_every_command_explains_itself(command, capsys):
    out, _ = run(*command.split(), "--help", capsys=capsys)
    assert out.startswith(f"usage: mnemon {command}")
    assert "(default: None)" not in out


def test_run_help_lists_every_hyper_parameter_with_its_default(capsys):
    out = " ".join(run("run", "--help", capsys=capsys)[0].replace("│", "").split())
    for words in (
        "--lr FLOAT learning rate η of SGD (default: by stream, else 0.1; 0.01 for cope)",
        "beside Multi-Similarity (default: by stream, else 0.1; 1.0 for hybrid-ace; 1.0 for hybrid-ce)",
        "--replay-size INT replayed samples per step |B_r| (default: 10)",
        "--divisor active|batch",
    ):
        assert words in out


def test_run_prints_a_table_and_writes_records(tmp_path, capsys):
    words = ("run", "--method", "er", "--classifier", "softmax,ncm", "--stream", "split-digits", "--seeds", "2")
    out, err = run(*words, "--lr", "0.1", "--out", str(tmp_path), capsys=capsys)
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [(r["classifier"], r["seed"]) for r in records] == [("softmax", 0), ("ncm", 0), ("softmax", 1), ("ncm", 1)]
    assert all(r["options"]["lr"] == 0.1 for r in records)
    mean = sum(r["average_accuracy"] for r in records if r["classifier"] == "ncm") / 2
    (line,) = (line for line in out.splitlines() if line.startswith("er + ncm"))
    assert f"{mean:.2f} ± " in line
    assert f"er + softmax on split-digits, seed 1: accuracy {records[2]['average_accuracy']:.2f}" in err
    again, _ = run(*words, "--lr", "0.1", "--out", str(tmp_path), "--quiet", capsys=capsys)
    assert again == out


def test_a_mixed_choice_runs(tmp_path, capsys):
    words = "run --method mir --loss hybrid --classifier ncm,proxy --stream split-digits --memory-size 50 --quiet"
    out, _ = run(*words.split(), "--out", str(tmp_path), capsys=capsys)
    lines = [line for line in out.splitlines() if line.startswith("mir")]
    assert len(lines) == 2
    assert all("hybrid" in line for line in lines)


def test_run_says_that_tasks_have_different_numbers_of_classes(tmp_path, capsys):
    words = ["run", "--method", "fine-tune", "--seeds", "1", "--stream"]
    _, err = run(*words, "split-digits-3", "--out", str(tmp_path), capsys=capsys)
    assert err.startswith("split-digits-3: tasks of 4, 3 and 3 classes\n")
    for more in (["split-digits"], ["split-digits-3", "--quiet"]):
        assert "tasks of" not in run(*words, *more, "--out", str(tmp_path), capsys=capsys)[1]


def test_one_run_has_no_interval(tmp_path, capsys):
    out, _ = run("run", "--method", "hybrid", "--stream", "split-digits", "--out", str(tmp_path), capsys=capsys)
    assert "±" not in out.replace("mean ± half-width", "")


def test_demo_shows_the_claim_and_writes_the_report(tmp_path, capsys):
    out, _ = run("demo", "--seeds", "2", "--out", str(tmp_path), capsys=capsys)
    for name in ("fine-tune + softmax", "er + softmax", "er + ncm", "hybrid + ncm"):
        assert name in out
    page = (tmp_path / "report.html").read_text()
    assert out.rstrip().endswith(str(tmp_path / "report.html"))
    assert page.count("<svg") >= 8
    other, _ = run("report", str(tmp_path), "--out", str(tmp_path / "other.html"), capsys=capsys)
    assert (tmp_path / "other.html").read_text() == page
    assert other == f"{tmp_path / 'other.html'}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rnu", "unknown command 'rnu'; did you mean 'run'?"),
        ("data gte x", "unknown command 'data gte'; did you mean 'data get'?"),
        ("data get mnits", "unknown dataset 'mnits'; did you mean 'mnist'?"),
        ("data check cifar10", "cifar10 is not here"),
        ("list method", "unknown thing to list: 'method'; did you mean 'methods'?"),
        ("run --method hybird --stream split-digits", "unknown method 'hybird'; did you mean 'hybrid'?"),
        ("run --method er --stream splt-digits", "unknown stream 'splt-digits'; did you mean 'split-digits'?"),
        ("run --method er --stream split-digits --memory-size 0", "memory_size must be at least 1"),
        ("run --method er --stream split-digits --classifier proxy", "proxy needs proxies"),
        ("run --method er --stream split-digits --seeds none", "seeds are a number of runs"),
        ("run --method er --stream split-digits --seeds 5-3", "seeds are a number of runs"),
        ("run --method er --stream split-digits --seeds 0", "seeds are a number of runs"),
        ("run --method er --stream split-digits --seeds 0-99999999999999", "seeds are a number of runs"),
        ("run --method er --stream split-digits --device gpu", "there is no device 'gpu' here"),
        ("report nowhere", "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, err = run(*words.split(), code=2, capsys=capsys)
    assert out == ""
    assert err.startswith("mnemon: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_list_names_everything(capsys):
    out, _ = run("list", capsys=capsys)
    for name in (
        "hybrid",
        "fine-tune",
        "iid-offline",
        "split-cifar100-20",
        "smooth-mnist",
        "smooth-cifar10",
        "ncm-raw",
        "pnca",
        "mnist",
    ):
        assert name in out


def test_list_says_what_the_options_of_a_classifier_and_a_backbone_mean(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    for what, words in (
        ("classifiers", ("gaussian:shrink", "identity|diagonal", "FLOAT|auto", "weight λ of the penalty")),
        ("backbones", ("patches:filters", "images|noise", "units of each hidden layer", "resnet18:nf")),
    ):
        out, _ = run("list", what, capsys=capsys)
        assert all(word in out for word in words)


NEW_COMMAND = '''
from typing import Annotated

from tyro.conf import arg

from mnemon.cli.command import Command


def greet(name: Annotated[str, arg(help="whom")] = "all") -> None:
    """Greet somebody."""
    print(f"hello {name}")


COMMANDS = (Command("greet", greet), Command("zoo greet", greet))
'''


def test_a_command_is_added_by_one_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "greeting.py").write_text(NEW_COMMAND)
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    try:
        assert "  greet         Greet somebody.\n" in run("--help", capsys=capsys)[0]
        assert "--name STR" in run("greet", "--help", capsys=capsys)[0]
        assert run("greet", "--name", "you", capsys=capsys)[0] == "hello you\n"
        assert "zoo greet" in run("zoo", capsys=capsys)[0]
        assert run("zoo", "greet", capsys=capsys)[0] == "hello all\n"
    finally:
        sys.modules.pop("mnemon.cli.greeting", None)


def loaded_by(code):
    script = f"{code}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_imports_stay_light():
    assert not {"torch", "numpy", "sklearn", "scipy", "matplotlib"} & loaded_by("import mnemon")
    for words in ([], ["data"], ["tune", "--help"], ["--version"]):
        loaded = loaded_by(f"from mnemon.cli import main\ntry: main({words!r})\nexcept SystemExit: pass")
        assert not {"torch", "numpy", "matplotlib"} & loaded
    for expected in ({"torch"}, set()):  # the hyper-parameters are those of the classes, and kept for the next time
        loaded = loaded_by("from mnemon.cli import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass")
        assert {"torch", "matplotlib"} & loaded == expected
    heavy = {"sklearn", "scipy", "matplotlib", "pandas"}
    assert not heavy & loaded_by("import mnemon.experiments.runner, mnemon.losses, mnemon.metrics, mnemon.streams")


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m mnemon list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
