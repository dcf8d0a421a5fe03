"""Files on disk: atomic writes, flushing to the device, and locks."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import DiskError, InputError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on every system
    fcntl = None  # type: ignore[assignment]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` if the block succeeds.

    The temporary file is in the same folder and has the same suffix. If the block raises, it is
    removed, and the old file at ``path`` stays as it was.

    Raises
    ------
    InputError
        If ``path`` is a folder or no regular file, or its folder does not exist.
    DiskError
        If no file can be made there.

    Examples
    --------
    >>> with atomic_write("model.txt") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("all of it")
    """
    # The target of a link is replaced, so that the link stays a link.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file in it to write to")
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not an ordinary file, and only such a file is written to")
    if not target.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {target.parent}; make it")
    temporary = target.parent / f".{secrets.token_hex(6)}{''.join(target.suffixes[-2:])}"
    try:
        # Not by tempfile, whose files have other permissions than ordinary new files.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise DiskError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to"
        ) from None
    try:
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        _flush(temporary, os.O_RDWR)  # or a crash after the renaming could leave an empty file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_folder(target.parent)


def flush_to_disk(file: int) -> None:
    """Wait until everything that was written to an open file is on the device."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # pragma: no cover - fsync stops at the drive's cache
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:  # pragma: no cover
        os.fsync(file)


def flush_folder(folder: Path) -> None:
    """Wait until the file names of a folder are on the device."""
    with suppress(OSError):  # not every system lets a folder be opened
        _flush(folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(file: int, in_use: str) -> None:
    """Lock an open file for this process. The lock ends when the process ends, in any way.

    Parameters
    ----------
    in_use : str
        The error message if another process has the lock.

    Raises
    ------
    DiskError
    """
    if fcntl is None:  # pragma: no cover
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DiskError(in_use) from None


@contextmanager
def disk_errors(place: Path, then: str = "check the disk and the rights") -> Iterator[None]:
    """Turn an ``OSError`` of the block into a `DiskError` with the place and the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"{error.filename or place} cannot be read or written ({reason}); {then}"
        ) from None


def stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written or replaced; None if there is none."""
    with suppress(OSError):
        now = path.stat()
        return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns
    return None


def next_free(path: Path) -> Path:
    """The path, or the next one with a number that no file has."""
    number, free = 2, path
    while free.exists():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free
