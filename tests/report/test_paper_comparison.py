"""The section of the report that compares with the paper."""

from __future__ import annotations

from markupsafe import escape

from cell_records import fifteen, results, row
from mnemon.paper.cells import Cell
from mnemon.paper.claims import entries
from mnemon.render import html
from mnemon.report.paper_comparison import paper_comparison


def section(records):
    """As the page has it."""
    return html.page("report.html", title="", runs=0, streams="", sections=[], paper=paper_comparison(results(records)))


def test_two_runs_do_not_agree_with_the_paper():
    """Their interval is six times as wide as that of fifteen with the same spread, and overlaps with nearly anything."""
    cell = Cell(1, row("ER"), "split-mnist")
    for count in (1, 2, 4):
        text = section(fifteen(cell, 85)[5 : 5 + count])
        assert "0 agree, 0 above, 0 below the paper’s, 1 with too few runs to tell." in text
        meaning = "fewer than five runs: too few to tell"
        assert f'<span class="too-few-runs" role="img" aria-label="{meaning}" title="{meaning}">?</span>' in text
        assert "▼ below it. ? fewer than five runs." in text
    text = section(fifteen(cell, 85)[5:10])
    assert "1 agrees, 0 above, 0 below the paper’s." in text
    assert "too few" not in text


def test_the_report_shows_what_is_behind_each_cell():
    cell = Cell(1, row("hybrid (the paper's own)"), "split-mnist")
    these = fifteen(cell, 88.0)
    other = fifteen(cell, options=these[0]["options"] | {"lr": 0.3})
    text = section([*these, *other])
    assert "1 of the 102 accuracies the paper prints were run here" in text
    assert '<td class="theirs">88.79 <span class="pm">± 0.26</span></td>' in text
    assert '−0.79 <span class="below"' in text
    assert "<td>15</td><td>3.00</td><td>cpu</td>" in text
    assert (
        "mnemon run --method hybrid --stream split-mnist --classifier ncm,ncm-raw,proxy --seeds 15 --device cpu" in text
    )
    assert all(r["run"] in text for r in these)
    assert not any(r["run"] in text for r in other)
    assert paper_comparison(results([r | {"stream": "split-digits"} for r in fifteen(cell)])) is None
    assert "What the paper’s text claims" not in text
    last = Cell(4, row("fine-tune", 4), "smooth-cifar10")
    text = section(fifteen(last, 10.0))
    assert "<td>confirmed</td><td>Smooth CIFAR-10: 10.00 ± 0.25 %, one class of 10 is 10 %</td>" in text
    assert str(escape(entries.RULES)) in text  # what the verdicts mean
    assert "not run" not in text
