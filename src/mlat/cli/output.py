"""Checks of the places to write to, made before the long work."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..disk import atomic_write
from ..errors import InputError


class _NothingToWriteError(Exception):
    """Raised to leave ``atomic_write`` without writing."""


def check_can_write(file: Path, *inputs: Path) -> None:
    """Refuse a place that cannot be written to, or that a command reads. Nothing there changes.

    Parameters
    ----------
    file : Path
    *inputs : Path
        The files that the command reads, which it would overwrite.
    """
    for given in inputs:
        with suppress(OSError):  # a file that is not there is no input to lose
            if file.samefile(given):
                raise InputError(f"{file} is what is read; choose another file to write to")
    with suppress(_NothingToWriteError), atomic_write(file):
        raise _NothingToWriteError


def check_can_be_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made because a file has its name. Nothing is made."""
    if any(place.exists() and not place.is_dir() for place in (folder, *folder.parents)):
        raise _file_in_the_way(folder)


def make_folder(folder: Path) -> Path:
    """Make the folder if it does not exist, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _file_in_the_way(folder) from None
    return folder


def _file_in_the_way(folder: Path) -> InputError:
    return InputError(
        f"{folder} cannot be a folder: a file of that name is in the way; choose another"
    )
