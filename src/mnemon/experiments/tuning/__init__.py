"""The choice of hyper-parameters: candidates run on the validation split, the best mean wins.

`search` is the paper's way: every candidate of a grid, by halving where the grid is large (all candidates on the first seed,
the best of them on all seeds). `search_space` proposes candidates instead, batch after batch, and prunes (space_search.py).
The seeds are none of the tables', the samples none of the test set's. With several classifiers one training serves all of
them, and a candidate counts by the one that reads it best. A search is logged in OUT/tuning/METHOD-LOSS-STREAM.json (with
what is unusual about it behind), whole after each round; its runs are ordinary runs of the folder, so that a search that was
stopped goes on where it was.
"""

from __future__ import annotations

from mnemon.experiments.tuning.candidate import Candidate
from mnemon.experiments.tuning.grid import GridSearch, search
from mnemon.experiments.tuning.searched import Protocol, RowSetting, Search, check_keep
from mnemon.experiments.tuning.space_search import SpaceSearch, search_space
from mnemon.experiments.tuning.words import FIXED

__all__ = [
    "FIXED",
    "Candidate",
    "GridSearch",
    "Protocol",
    "RowSetting",
    "Search",
    "SpaceSearch",
    "check_keep",
    "search",
    "search_space",
]
