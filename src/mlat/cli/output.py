"""Checks of the places to write to, made before the long work."""

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import suppress
from pathlib import Path

from ..base.disk import atomic_write
from ..base.errors import InputError
from ..stream.sources import sources_in

MODEL = b'{"__metadata__":{"mlat"'  # in every file that mlat fit wrote
STATES = b"predicted"  # in every file that mlat predict wrote: a column


class _NothingToWriteError(Exception):
    """Raised to leave ``atomic_write`` without writing."""


def check_can_write(file: Path, *inputs: Path | None, mark: bytes = b"") -> None:
    """Refuse a place that cannot be written to, or that a command reads. Nothing there changes.

    Parameters
    ----------
    file : Path
    *inputs : Path
        The files that the command reads, which it would overwrite; folders and patterns, too.
    mark : bytes
        What is near the beginning or the end of every file that the command writes: one without it
        is a file of another kind, such as a recording, and is refused.
    """
    for given in inputs:
        for one in map(Path, [] if given is None else sources_in(given) or [given]):
            with suppress(OSError):  # a file that is not there is no input to lose
                if file.samefile(one) or (one.is_dir() and one.resolve() in file.resolve().parents):
                    raise InputError(f"{file} is what is read; choose another file to write to")
    if mark and file.is_file() and not _holds(file, mark):
        raise InputError(
            f"{file} is there already, and is of another kind than what is written; choose another "
            "name, or move it away"
        )
    with suppress(_NothingToWriteError), atomic_write(file):
        raise _NothingToWriteError


def _holds(file: Path, mark: bytes, n: int = 1 << 16) -> bool:
    """Whether a file is empty, or has a mark among its first or last bytes."""
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
            begin = content.read(n)
        with file.open("rb") as content:
            content.seek(-min(n, file.stat().st_size), os.SEEK_END)
            return not begin or mark in begin or mark in content.read()
    except (OSError, EOFError, zlib.error):
        return False


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
