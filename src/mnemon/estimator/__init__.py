"""The classifier people put on their own stream: scikit-learn's conventions, River's protocol, one object."""

from mnemon.estimator.classifier import OnlineClassifier

__all__ = ["OnlineClassifier"]
