"""A state for every step: the classifier, how sure it is, and its file."""

from .classifier import StreamClassifier

__all__ = ["StreamClassifier"]
