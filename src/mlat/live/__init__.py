"""Classify a stream as it arrives: a pure step function, and a session around it."""

from .core.model import LiveModel
from .core.session import LiveSession
from .core.state import LiveState
from .core.steps import Prediction, Steps

__all__ = ["LiveModel", "LiveSession", "LiveState", "Prediction", "Steps"]
