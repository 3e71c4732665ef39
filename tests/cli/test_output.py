"""Tables as wide as the terminal, and 80 columns where they are piped."""

import shlex

import pytest

from command_line import run
from mnemon.cli.output import WHAT, results, sentences, shell_commands, table
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.learning.methods import methods

HEAD = ("name", WHAT, "runs")
ROWS = [("er", "one two three four five", "3"), ("hybrid-ace", "[red]six[/red]", "15")]


def printed(capsys, monkeypatch, columns, *arguments, **options):
    monkeypatch.setenv("COLUMNS", str(columns))
    table(*arguments, **options)
    return capsys.readouterr().out


def test_piped_a_table_fits_80_columns(capsys):
    table("a title", HEAD, [*ROWS, ("x", 20 * "many words ", "1")], right=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a title"
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).count("many") == 20
    assert not any(line.endswith(" ") for line in lines)


def test_a_table_that_fits_is_as_wide_as_it_needs(capsys, monkeypatch):
    assert printed(capsys, monkeypatch, 80, "", HEAD, ROWS, right=2) == (
        "name        what it is               runs\n"
        "er          one two three four five     3\n"
        "hybrid-ace  [red]six[/red]             15\n\n"
    )


def test_text_is_wrapped_in_its_column(capsys, monkeypatch):
    assert printed(capsys, monkeypatch, 34, "", HEAD, ROWS, right=2) == (
        "name        what it is        runs\n"
        "er          one two three        3\n"
        "            four five\n"
        "hybrid-ace  [red]six[/red]      15\n\n"
    )


def test_rows_of_many_lines_become_a_list(capsys, monkeypatch):
    rows = [("er", "one two three four five", "six seven eight nine ten eleven", "3"), ("ms", "six", "-", "")]
    assert printed(capsys, monkeypatch, 27, "", ("name", WHAT, "more", ""), rows) == (
        "er  one two three four five\n    more: six seven eight\n    nine ten eleven; 3\nms  six\n\n"
    )


def test_a_name_that_is_wider_than_the_terminal_is_whole(capsys, monkeypatch):
    out = printed(capsys, monkeypatch, 40, "", ("class", "images"), [(100 * "x", "3")], right=1)
    assert out.count("x") == 100
    assert "images: 3" in out
    assert max(map(len, out.splitlines())) <= 40


@pytest.mark.parametrize("columns", [80, 100, 140])
@pytest.mark.parametrize("words", ["list", "data list"])
def test_lists_fit_and_cut_nothing_off(words, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out, _ = run(*words.split(), capsys=capsys)
    assert max(len(line) for line in out.splitlines()) <= columns
    assert "…" not in out
    if words == "list" and columns < 140:  # wider, words stand in columns
        words_printed = " ".join(out.split())
        for method in methods().values():
            assert method.summary in words_printed
            assert method.citation in words_printed


def test_results_fit_80_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = "run --method hybrid --classifier ncm,ncm-raw,proxy --stream split-digits --seeds 2 --jobs 1 --quiet --out"
    out, _ = run(*words.split(), str(tmp_path), capsys=capsys)
    lines = out.partition("\nrecords: ")[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("±" in line and "split-digits" in line for line in lines) == 3


def test_results_that_do_not_fit_say_once_what_is_the_same_in_every_row(tmp_path, capsys):
    """The demo's: a list of entries would hide the numbers."""
    (found,) = run_all([Spec("er", "split-digits")], tmp_path)
    names = ("a-method-with-a-name", "er")
    results([found | {"method": name, "seed": seed} for name in names for seed in range(2)])
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "stream split-digits; split test; percent, mean ± half-width of the 95 % interval"
    assert [line.split()[0] for line in lines if "±" in line] == list(names)
    assert max(map(len, lines)) <= 80
    results([found | {"stream": stream, "method": names[0]} for stream in ("split-digits", "smooth-digits")])
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.startswith("split test; percent")
    assert sum(stream in line for line in lines for stream in ("split-digits", "smooth-digits")) == 2


def test_a_long_command_is_broken_as_the_shell_reads_it(capsys, monkeypatch):
    line = "mnemon run --method hybrid --classifier ncm,ncm-raw --out 'a folder' --grid lr=0.1 gamma=0.5"
    comment = "# a comment, which is no command and is left as long as it is"
    monkeypatch.setenv("COLUMNS", "40")
    shell_commands([line, "mnemon demo", comment])
    out = capsys.readouterr().out
    *broken, last, short, remark = out.splitlines()
    assert (short, remark) == ("mnemon demo", comment)
    assert len(broken) > 1
    assert all(len(part) <= 40 and part.endswith(" \\") for part in broken)
    assert shlex.split(out.partition("\nmnemon demo")[0].replace("\\\n", "")) == shlex.split(line)
    assert last.startswith("    --")


def test_commands_and_sentences_are_whole_lines_when_piped(capsys):
    line = "mnemon run " + " ".join(f"--option-{i} value" for i in range(20))
    shell_commands([line])
    sentences([line])
    assert capsys.readouterr().out == f"{line}\n{line}\n"


def test_sentences_are_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    sentences(["one two three four five six", "", "/a/path/that/is/longer/than/that"])
    assert capsys.readouterr().out == "one two three four\nfive six\n\n/a/path/that/is/longer/than/that\n"
