"""Files that are written whole or not at all, locks, and waiting until the disk has it."""

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
    """Yield a temporary path to write to, which becomes ``path`` if the block succeeds.

    The temporary file lies in the same folder and ends like ``path``. If the block raises, it is
    removed, and what stood at ``path`` before stays as it was.

    Examples
    --------
    >>> with atomic_write("model.txt") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("all of it")
    """
    # Where a link points to, so that the link stays a link.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file in it to write to")
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not an ordinary file, and only such a file is written to")
    if not target.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {target.parent}; make it")
    temporary = target.parent / f".{secrets.token_hex(6)}{''.join(target.suffixes[-2:])}"
    try:
        # Made by hand, not by tempfile, so that the file has the permissions any other would.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise DiskError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to"
        ) from None
    try:
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        _flush(temporary, os.O_RDWR)  # a crash after the renaming must not find an empty file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_folder(target.parent)


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
        _flush(folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(file: int, in_use: str) -> None:
    """Lock an open file for this process. The lock ends with the process, however that ends.

    Parameters
    ----------
    in_use : str
        The message of the error where another process has the lock.

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


class FolderLock:
    """Holds a folder for one process, by a file ``lock`` in it.

    Parameters
    ----------
    folder : path
    user : str
        What holds it, for the message of the error.

    Raises
    ------
    DiskError
        If another process holds it.
    """

    def __init__(self, folder: Path, user: str = "process") -> None:
        with disk_errors(folder):
            self._file = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o666)
        try:
            lock(
                self._file,
                f"{folder} is in use by another {user}; end that one, or choose another folder",
            )
        except DiskError:
            self.release()
            raise

    def release(self) -> None:
        # The file stays: deleting it would let two processes lock two files of one name.
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def disk_errors(place: Path, then: str = "check the disk and the rights") -> Iterator[None]:
    """Turn an ``OSError`` of the block into a `DiskError` that names the place and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"{error.filename or place} cannot be read or written ({reason}); {then}"
        ) from None
