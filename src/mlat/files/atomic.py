"""Files appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InputError


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
        raise InputError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to"
        ) from None
    try:
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with suppress(OSError):  # not every system lets a folder be opened
        _flush(target.parent, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    """Wait until the disk has it: a crash after the renaming must not find an empty file."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
