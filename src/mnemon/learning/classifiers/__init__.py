"""The classifiers, one small file each. Every Classifier class in a module of this folder is found by its name."""

from __future__ import annotations

from mnemon import discovery
from mnemon.learning.classifier import Classifier

CLASSIFIERS = discovery.classes(__name__, Classifier)
