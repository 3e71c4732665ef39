"""`mnemon reproduce`: only what is missing is run, and everything is written from the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cell_records import fifteen, made, put, results, row
from command_line import run
from mnemon import cli, data
from mnemon.errors import Diverged, MnemonError
from mnemon.experiments import runner
from mnemon.experiments.store import ResultFolder
from mnemon.learning.methods import methods
from mnemon.paper import documents, plan, reproduce, targets
from mnemon.paper.cells import Cell


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name what to reproduce: table1, table2"),
        (("tabel1",), "unknown target 'tabel1'; did you mean 'table1'?"),
        (("table1", "--methods", "hybird"), "unknown method 'hybird'; did you mean 'hybrid'?"),
        (
            ("table1", "--streams", "split-mnst"),
            "unknown stream of the paper: 'split-mnst'; did you mean 'split-mnist'?",
        ),
        (("table1", "--seeds", "20"), "the seeds of the tables are 0 to 14."),
        (("fig4", "--steps", "0"), "steps is a number of steps, 1 or more, not 0."),
        (
            ("table7", "--records-only", "--fill", "nowhere.md"),
            "nowhere.md cannot be read (No such file or directory).",
        ),
        (("table7", "--records-only", "--methods", "er"), "--records-only runs nothing, so --methods says nothing"),
        (("table7", "--dry-run", "--on", "mars"), "unknown pool 'mars'"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, err = run("reproduce", *words, code=2, capsys=capsys)
    assert err.startswith(f"mnemon: {sentence}")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_what_the_disk_refuses_is_one_sentence(tmp_path, capsys):
    (tmp_path / "tables").write_text("in the way")
    _, err = run("reproduce", "table7", "--records-only", "--out", str(tmp_path), code=2, capsys=capsys)
    assert err == f"mnemon: {tmp_path / 'tables'}: File exists\n"


def test_a_dry_run_says_what_is_missing_and_changes_nothing(tmp_path, capsys):
    put(tmp_path, fifteen(Cell(1, row("fine-tune"), "split-mnist")))
    words = (
        "reproduce",
        "table1",
        "fig3",
        "--streams",
        "split-mnist,split-mini_imagenet-10",
        "--methods",
        "fine-tune,er",
    )
    out, _ = run(*words, "--dry-run", "--out", str(tmp_path), capsys=capsys)
    assert "1 of 6 cells" in out
    assert "15 runs; not run: the dataset mini_imagenet is not here" in out
    assert out.splitlines()[-2:] == [
        f"mnemon run --method er --stream split-mnist --classifier softmax,ncm,ncm-raw --seeds 15 --out {tmp_path}",
        "# 15 runs in all, each made once",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.jsonl"]


def test_from_the_records_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "run_all", lambda *_, **__: pytest.fail("ran"))
    put(tmp_path, fifteen(Cell(1, row("ER"), "split-mnist"), 85))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mnemon: split-mnist -->\nold\n<!-- /mnemon -->\nafter\n")
    words = ("reproduce", "all", "--records-only", "--out", str(tmp_path), "--fill", str(page))
    out, _ = run(*words, capsys=capsys)
    assert "table1: 1 of the paper's 69 cells were run: 1 agrees, 0 above, 0 below; " in out
    assert len(list(tmp_path.glob("tables/*.md"))) == 11  # the seven, the claims, the ranking, the sensitivity, beyond
    assert len(list(tmp_path.glob("tables/*.tex"))) == 10
    assert (
        "| ER | 82.34 ± 2.48 | **85.00 ± 0.25**" not in (tmp_path / "tables/table1.md").read_text()
    )  # nothing to beat
    assert "| ER | 82.34 ± 2.48 | 85.00 ± 0.25 | +2.66 ✓ |" in (tmp_path / "tables/table1.md").read_text()
    text = page.read_text()
    assert text.startswith("before\n<!-- mnemon: split-mnist -->\n\n| method |")
    assert text.endswith("<!-- /mnemon -->\nafter\n")
    assert "| ER | 85.00 ± 0.25 | 82.34 ± 2.48 | 20.00 ± 0.00 | 18.33 ± 1.77 | 3.0 |" in text
    assert "old" not in text
    assert f"{page}: up to date" in run(*words, capsys=capsys)[0]


def test_a_document_shows_the_figures_that_are_there(tmp_path):
    (tmp_path / "out/figures").mkdir(parents=True)
    (tmp_path / "out/figures/fig2.png").touch()
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/page.md"
    page.write_text("<!-- mnemon: figures -->\n<!-- /mnemon -->\n")
    reproduce.fill([page], tmp_path / "out")
    assert "](../out/figures/fig2.png)" in page.read_text()
    assert "Not drawn, since their runs are missing: Figure 1a, 1b, 3, 4, 5." in page.read_text()


def test_documents_are_refused_before_they_are_touched():
    with pytest.raises(MnemonError, match="no <!-- /mnemon -->"):
        documents.filled("<!-- mnemon: table1 -->\nopen", str)
    with pytest.raises(MnemonError, match="unknown table 'tabel1'; did you mean 'table1'"):
        documents.filled(
            "<!-- mnemon: tabel1 -->\n<!-- /mnemon -->", lambda name: reproduce.block(name, results([]), Path())
        )


def test_a_run_that_diverges_does_not_keep_the_others_from_the_table(tmp_path, monkeypatch, caplog):
    def diverges(specs, out, **_):
        put(out, [made(Cell(1, row("fine-tune"), "split-mnist"), s.seed) for s in specs if s.seed])
        raise Diverged("1 of 2 runs diverged")

    monkeypatch.setattr(runner, "run_all", diverges)
    work = reproduce.Reproduction(["table1"], tmp_path, seeds=[0, 1], methods=["fine-tune"], streams=["split-mnist"])
    work.make("cpu")
    assert caplog.messages == ["1 of 2 runs diverged"]
    work.write()
    assert "50.00 (n = 1)" in (tmp_path / "tables/table1.md").read_text()


def test_mini_imagenet_runs_as_soon_as_its_images_are_here_and_never_twice(tmp_path, monkeypatch, capsys):
    """Small generated images in the layout of the real ones: a folder per class."""
    rng = np.random.default_rng(0)
    for label in range(20):
        folder = tmp_path / f"images/n{label:02}"
        folder.mkdir(parents=True)
        for place in range(10):
            pixels = rng.integers(0, 60, (84, 84, 3)) + 9 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place}.png", compress_level=0)
    words = ("reproduce", "table1", "table2", "table5", "--methods", "fine-tune", "--streams", "split-mini_imagenet-10")
    words = (*words, "--seeds", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path / "out"))
    assert "not run: the dataset mini_imagenet is not here" in run(*words, "--dry-run", capsys=capsys)[0]
    data.import_("mini_imagenet", tmp_path / "images", quiet=True)
    monkeypatch.setattr(plan, "can_run", lambda stream: "mini_imagenet" in stream)  # nothing is downloaded
    assert "0 of 1 cells" in run(*words, capsys=capsys)[0]
    (record,) = ResultFolder(tmp_path / "out").read()
    lines = (tmp_path / "out/tables/table1.md").read_text()
    assert f"| fine-tune | 4.43 ± 0.19 | {record['average_accuracy']:.2f} (n = 1) |" in lines
    forgotten = f"{record['average_forgetting']:.2f}".replace("-", "−")
    assert f"| fine-tune | 41.12 ± 0.82 | {forgotten} (n = 1) |" in (tmp_path / "out/tables/table2.md").read_text()
    assert "|  | ours | 3×84×84 | 20 | 140 | 20 | 40 | 10 | 2 |" in (tmp_path / "out/tables/table5.md").read_text()
    monkeypatch.setattr(runner, "run_all", lambda *_, **__: pytest.fail("ran again"))
    assert "1 of 1 cells" in run(*words, capsys=capsys)[0]


def test_to_write_nothing_and_to_write_only_exclude_each_other(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["reproduce", "all", "--dry-run", "--records-only", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "choose one of them" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_method_that_is_no_row_is_refused_with_the_way_to_compare_it(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "all_methods", lambda: {**methods(), "mine": methods()["er"]})
    with pytest.raises(MnemonError, match=r"mine is no row of the paper's tables; .* `mnemon report --table`"):
        reproduce.Reproduction(["table1"], tmp_path, methods=["mine"])


def test_every_file_of_targets_is_listed_and_no_two_targets_share_a_name():
    files = {path.stem for path in Path(targets.__file__).parent.glob("*.py")} - {"__init__", "target"}
    assert set(targets.FAMILIES) == files
    every = [target.name for target in targets.TARGETS]
    assert len(set(every)) == len(every)
    assert {*every} - {"sensitivity"} <= targets.BLOCKS.keys() | {f"fig{n}" for n in range(1, 6)}


def test_the_commands_make_what_no_run_makes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "can_run", lambda stream: "mnist" in stream)
    plans = reproduce.Reproduction(["table5", "table6", "ranking"], tmp_path, seeds=[0], methods=["er"]).plans("cpu")
    assert [(p.target, p.to_make) for p in plans] == [
        ("table5", "1 stream to count; not run: the dataset cifar10 is not here; not run: the dataset cifar100 is not here; "
         "not run: the dataset mini_imagenet is not here"),
        ("table6", "not run: the dataset cifar10 is not here; not run: the dataset cifar100 is not here; "
         "not run: the dataset mini_imagenet is not here"),
        ("ranking", "1 run; 2 times to take; not run: the dataset cifar10 is not here; "
         "not run: the dataset cifar100 is not here; not run: the dataset mini_imagenet is not here"),
    ]  # fmt: skip
    assert reproduce.commands(plans, tmp_path) == [
        f"mnemon run --method er --stream split-mnist --classifier softmax,ncm,ncm-raw --seeds 1 --out {tmp_path}",
        f"mnemon reproduce table5 --out {tmp_path}",
        f"mnemon reproduce fig4 --out {tmp_path}",
        "# 1 run in all, each made once",
    ]
