"""The paper's way to choose hyper-parameters: every candidate of a grid on the validation split, the best mean wins.

By halving where the grid is large: all candidates on the first seed, the best of them on all seeds. The seeds are none
of the tables', the samples none of the test set's. With several classifiers one training serves all of them, and a
candidate counts by the one that reads it best. The search is logged in OUT/tuning/METHOD-LOSS-STREAM.json (and the
searched options behind it, where they are not the usual ones), whole after each round; its runs are ordinary runs of the
folder, so that a search that was stopped goes on where it was.
"""

from __future__ import annotations

from mnemon.experiments.tuning.candidate import Candidate
from mnemon.experiments.tuning.grid import search
from mnemon.experiments.tuning.searched import RowSetting, Search, check_keep
from mnemon.experiments.tuning.words import FIXED

__all__ = ["FIXED", "Candidate", "RowSetting", "Search", "check_keep", "search"]
