"""`mnemon.metrics`: what is measured on a stream, with the formulas beside the code."""

from mnemon.experiments.metrics import (
    anytime_accuracy,
    area_under_curve,
    average_accuracy,
    average_forgetting,
    backward_transfer,
    confidence_interval,
    learning_accuracy,
    min_accuracy,
)

__all__ = [
    "anytime_accuracy",
    "area_under_curve",
    "average_accuracy",
    "average_forgetting",
    "backward_transfer",
    "confidence_interval",
    "learning_accuracy",
    "min_accuracy",
]
