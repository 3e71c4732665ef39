"""Datasets: get them, import them, verify them, load them as uint8 tensors in one canonical order.

data.load("mnist")                         # from the cache, downloaded first when missing
data.import_("birds", "photos/", size=32)  # a folder per class, kept under a name of its own
"""

from mnemon.data.dataset import Dataset, Images, Info
from mnemon.data.datasets import definitions, rules, title
from mnemon.data.definition import Definition, Rules
from mnemon.data.layout import channels_first, channels_last
from mnemon.data.library import check, folder, get, image, import_, listing, load, names
from mnemon.runtime.cache_folder import cache_dir

__all__ = [
    "Dataset",
    "Definition",
    "Images",
    "Info",
    "Rules",
    "cache_dir",
    "channels_first",
    "channels_last",
    "check",
    "definitions",
    "folder",
    "get",
    "image",
    "import_",
    "listing",
    "load",
    "names",
    "rules",
    "title",
]
