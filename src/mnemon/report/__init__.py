"""The report: one self-contained HTML page from a folder of records.

groups             records → streams → groups of runs that differ only in their seed
pairs              which runs may be compared, and their paired differences
headline           the result of a stream in a sentence
protocol_summary   its protocol
commands           the commands that make its runs again
figures            which figures a stream gets
figure             a figure: plots with a title, a caption and a legend
arrivals           the figure of which class arrives when
plots              the plots, one function each, from plain arrays
paper_comparison   the paper's cells beside ours, with the records behind each
page               the HTML
table              the results as Markdown, LaTeX or CSV
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["write", "write_table"]


def write(folder: Path | str, out: Path | str | None = None) -> Path:
    """Write FOLDER/report.html (or `out`) from the folder's records."""
    from mnemon.report.page import write as write_page  # matplotlib is loaded for the page only

    return write_page(folder, out)


def write_table(folder: Path | str, path: Path | str, against: str | None = None) -> Path:
    """Write the folder's results to `path`, as Markdown, LaTeX or CSV by its ending; with differences from the method
    `against` ("er", "er+ncm"), seed by seed."""
    from mnemon.report.table import write as write_results

    return write_results(folder, path, against)
