"""Which learner a method has, and on which features."""

from __future__ import annotations

from typing import Any

from mnemon.learning.backbones import Backbone
from mnemon.learning.build import check_backbone
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.method import Method
from mnemon.learning.objectives import Objective
from mnemon.learning.streaming import StreamingLearner


def make_learner(
    method: Method, objective: Objective, inputs: Inputs, *, backbone: Backbone = "auto", **named: Any
) -> Learner:
    """A learner that takes gradient steps, or one that keeps statistics."""
    check_backbone(type(method), backbone)
    kind = Learner if method.trains else StreamingLearner
    return kind(method, objective, inputs, backbone=backbone_for(method, backbone, inputs.shape), **named)


def backbone_for(method: Method, given: Backbone | None, shape: tuple[int, ...], usual: Backbone = "auto") -> Backbone:
    """The one that is given; where that is none or auto, the method's own; the usual one where it has none."""
    if given is None or (isinstance(given, str) and given == "auto"):
        return method.default_backbone(shape) or given or usual
    return given
