"""Small imitations of UCI's files, and copies made of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mlat import InputError
from mlat_lab.datasets import SETS

SCMA = SETS["scma"].folder
EMG = SETS["emg"].folder
ONE = "0,1502,2215,2153,1\n1,1667,2072,2047,4\n2,1,2,3,0\n"
TWO = "0,7,8,9,3\n"


def imitation_scma(root: Path) -> Path:
    return write(root, {f"{SCMA}/1.csv": ONE, f"{SCMA}/2.csv": TWO, f"{SCMA}/README": "words"})


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
