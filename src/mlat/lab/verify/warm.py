"""Imported by the process that forks the verifier's children: all they need is ready before."""

from __future__ import annotations

import os

import numpy as np

from ...classifier.model_file import load
from ...live.core.session import LiveSession

MODEL = "MLAT_VERIFY_MODEL"


def warm(model: str) -> None:
    """Have the kernels loaded that a session of a model runs."""
    classifier = load(model)
    session = LiveSession(classifier)
    session.push(
        np.random.default_rng(0).normal(size=(classifier.width_ + 1, session.model.n_channels))
    )
    session.snapshot()


if MODEL in os.environ:
    warm(os.environ[MODEL])
