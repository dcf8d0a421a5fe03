"""The classifier of streams: its settings, confidence, state filter and model file."""

from .classifier import StreamClassifier

__all__ = ["StreamClassifier"]
