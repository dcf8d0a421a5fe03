"""Places to write to, tried before the long work and not after it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..files.atomic import atomic_write


class _NothingToWriteError(Exception):
    """Raised to leave ``atomic_write`` without writing."""


def check_can_write(file: Path) -> None:
    """Refuse a place that cannot be written to; what stands there stays as it is."""
    with suppress(_NothingToWriteError), atomic_write(file):
        raise _NothingToWriteError


def make_folder(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(
            f"{folder} cannot be a folder, for a file of that name is in the way; choose another"
        ) from None
    return folder
