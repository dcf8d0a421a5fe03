"""One process at a time has the folder of a journal, and what it writes is on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on every system
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """A lock that ends with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        with refuse_disk_error(folder):
            self._file = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o666)
        if fcntl is None:  # pragma: no cover
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            self._file = -1
            raise InputError(
                f"{folder} is in use by another mlat live; end that one, or choose another "
                "--journal"
            ) from None

    def release(self) -> None:
        # The file stays: deleting it would let two processes lock two files of one name.
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def flush_to_disk(file: int) -> None:
    """Wait until the disk has what was written to an open file."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # pragma: no cover - where fsync stops at the drive's cache
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:  # pragma: no cover
        os.fsync(file)


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    with suppress(OSError):  # not every system lets a folder be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def refuse_disk_error(place: Path) -> Iterator[None]:
    """A full or broken disk ends the session: after a failed flush nothing is certain."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{error.filename or place} cannot be read or written ({error.strerror}); what the "
            "journal holds stays, and the same command goes on from there"
        ) from None
