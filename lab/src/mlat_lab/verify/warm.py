"""Imported by the process that forks the children of the verifier, to load all they need."""

from __future__ import annotations

import os

import numpy as np

from mlat.classifier.model_file import load
from mlat.live.core.session import LiveSession

MODEL = "MLAT_VERIFY_MODEL"


def warm(model: str) -> None:
    """Load the compiled kernels that a session of a model runs."""
    classifier = load(model)
    session = LiveSession(classifier)
    session.push(
        np.random.default_rng(0).normal(size=(classifier.width_ + 1, session.model.n_channels))
    )
    session.snapshot()


if MODEL in os.environ:
    warm(os.environ[MODEL])
