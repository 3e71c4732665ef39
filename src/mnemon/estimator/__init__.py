"""The classifier people put on their own stream: scikit-learn's conventions, River's protocol, one object."""

from mnemon.estimator.classifier import OnlineClassifier
from mnemon.estimator.embedding import Embedding

__all__ = ["Embedding", "OnlineClassifier"]
