"""The report: one self-contained HTML page from a folder of records.

groups    records → streams → groups of runs that differ in nothing but their seed
names     how methods, streams and numbers are written
svg       a matplotlib figure → SVG that follows the page's colours
figures   the plots, one function each, from plain arrays
exhibit   a plot with its title, how to read it, and a legend
exhibits  which plots a stream gets
arrivals  the plot of which class comes when
finding   the sentence on a stream
facts     its protocol
commands  how to make its runs again
style     colours and layout of the page
against   the paper's cells beside ours, with what is behind each
page      the HTML
pairs     which runs may be compared with which, and their differences seed by seed
table     the results as Markdown, LaTeX or CSV
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["write", "write_table"]


def write(folder: Path | str, out: Path | str | None = None) -> Path:
    """Write FOLDER/report.html (or `out`) from the folder's records."""
    from mnemon.report.page import write as write_page  # the names and colours of this room are used without the page

    return write_page(folder, out)


def write_table(folder: Path | str, path: Path | str, against: str | None = None) -> Path:
    """Write the folder's results to `path`, as Markdown, LaTeX or CSV by its ending; with differences from the method
    `against` ("er", "er+ncm"), seed by seed."""
    from mnemon.report.table import write as write_results

    return write_results(folder, path, against)
