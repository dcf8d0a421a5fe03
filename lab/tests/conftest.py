"""Small copies of data sets that count as whole."""

import pytest

from mlat_lab.datasets import SETS, files
from uci_copies import (
    EMG,
    SCMA,
    TWO,
    count_as_whole,
    imitation_scma,
    small_gestures,
    write,
)


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A tiny copy of SCMA and EMG that counts as the whole of them."""
    root = imitation_scma(tmp_path / "uci")
    for person in SETS["scma"].people[2:]:
        write(root, {f"{SCMA}/{person}.csv": TWO})
    for person in SETS["emg"].people:
        write(root, {f"{EMG}/{person}/Normal/txt/Bowing.txt": "1 2 3 4 5 6 7 8\r\n" * 3})
    monkeypatch.setattr(files, "_shipped", files._shipped)  # which is then undone
    count_as_whole(root)
    return root


@pytest.fixture
def gestures(tmp_path, monkeypatch):
    """A small copy of the set of gestures that counts as the whole of it."""
    root = small_gestures(tmp_path / "streams")
    monkeypatch.setattr(files, "_shipped", files._shipped)
    count_as_whole(root)
    return root
