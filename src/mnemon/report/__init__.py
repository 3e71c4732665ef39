"""The report: one self-contained HTML page from a folder of records.

groups    records → streams → groups of runs that differ in nothing but their seed
names     how methods, streams and numbers are written
svg       a matplotlib figure → SVG that follows the page's colours
figures   the plots, one function each, from plain arrays
exhibits  which plots a stream gets, and how to read them
facts     the sentence, the protocol and the commands of a stream
page      the HTML
"""

from mnemon.report.page import write

__all__ = ["write"]
