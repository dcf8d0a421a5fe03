"""Small imitations of UCI's files, and copies made of them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from mlat import InputError, write_stream
from mlat.synthetic import rotating_states
from mlat_lab.datasets import SETS, STREAM_SETS, files

if TYPE_CHECKING:  # an environment of another package may lack it
    import pytest

SCMA = SETS["scma"].folder
EMG = SETS["emg"].folder
ONE = "0,1502,2215,2153,1\n1,1667,2072,2047,4\n2,1,2,3,0\n"
TWO = "0,7,8,9,3\n"


def imitation_scma(root: Path) -> Path:
    return write(root, {f"{SCMA}/1.csv": ONE, f"{SCMA}/2.csv": TWO, f"{SCMA}/README": "words"})


def count_as_whole(root: Path) -> None:
    """From now on the files below ``root`` are all there should be."""
    known: dict[str, dict[str, files.FileRecord]] = {}
    for name, data_set in (SETS | STREAM_SETS).items():
        folder = root / data_set.folder
        found = sorted(path for path in folder.glob(data_set.layout) if path.is_file())
        known[name] = {
            path.relative_to(folder).as_posix(): files.describe(path.read_bytes()) for path in found
        }
    files._shipped = lambda: known


def small_gestures(root: Path) -> Path:
    """A copy of the set of gestures in which every story is short, of three states."""
    turns = {"rest": 0.0, "stroke": 0.2, "hold": -0.2}
    folder = root / STREAM_SETS["gesture_phase"].folder
    folder.mkdir(parents=True)
    for seed, person in enumerate(STREAM_SETS["gesture_phase"].people):
        stream = rotating_states(
            turns, n_channels=3, run_length=20, runs_per_state=14, random_state=seed
        )
        write_stream(folder / f"{person}.csv", stream, label="state")
    return root


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def zipped(path: Path, files: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
