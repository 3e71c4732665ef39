"""Streams: a seed becomes an order of sample indices, computed once; a position in it is one integer.

split(labels, tasks=5, seed=0)            tasks of disjoint classes, one after the other
smooth(labels, length=5000, seed=0)       every class comes and goes as a Gaussian over time; no tasks at all
blurry(labels, tasks=5, disjoint=50, blur=10, seed=0)  half of the classes in one task each, the others spread over all
iid(labels, epochs=1, seed=0)             a plain shuffle, the upper bound the paper compares with
"""

from mnemon.streams.iid import iid
from mnemon.streams.kinds.blurry import blurry
from mnemon.streams.kinds.smooth import smooth
from mnemon.streams.kinds.split import split
from mnemon.streams.stream import Stream

__all__ = ["Stream", "blurry", "iid", "smooth", "split"]
