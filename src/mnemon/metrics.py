"""`mnemon.metrics`: what is measured on a stream, with the formulas beside the code."""

from mnemon.experiments.metrics import (
    anytime_accuracy,
    average_accuracy,
    average_forgetting,
    confidence_interval,
    learning_accuracy,
)

__all__ = ["anytime_accuracy", "average_accuracy", "average_forgetting", "confidence_interval", "learning_accuracy"]
