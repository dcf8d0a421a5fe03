"""Classify a stream as it arrives: a pure step function, and a session around it."""

from .model import LiveModel
from .prediction import Prediction
from .session import LiveSession
from .state import LiveState
from .steps import Steps

__all__ = ["LiveModel", "LiveSession", "LiveState", "Prediction", "Steps"]
