"""The examples for users of MNE run."""

import runpy
from pathlib import Path

import pytest


def test_mne_examples():
    pytest.importorskip("mne")
    snippets = runpy.run_path(str(Path(__file__).parent / "run_snippets.py"))
    assert snippets["main"]("MNE") == 0
