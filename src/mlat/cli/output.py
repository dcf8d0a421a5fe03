"""Places to write to, tried before the long work and not after it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..disk import atomic_write
from ..errors import InputError


class _NothingToWriteError(Exception):
    """Raised to leave ``atomic_write`` without writing."""


def check_can_write(file: Path) -> None:
    """Refuse a place that cannot be written to; what stands there stays as it is."""
    with suppress(_NothingToWriteError), atomic_write(file):
        raise _NothingToWriteError


def check_can_be_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made because a file is in its way; nothing is made yet."""
    if any(place.exists() and not place.is_dir() for place in (folder, *folder.parents)):
        raise _file_in_the_way(folder)


def make_folder(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _file_in_the_way(folder) from None
    return folder


def _file_in_the_way(folder: Path) -> InputError:
    return InputError(
        f"{folder} cannot be a folder, for a file of that name is in the way; choose another"
    )
