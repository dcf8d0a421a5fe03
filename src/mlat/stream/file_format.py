"""The format of a file, from its name, and what is said of a file that is not of its format."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import DiskError, InputError, MlatError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TEXTS = (*_DELIMITERS, ".gz")  # the ends of the names of text files
PARQUET = (".parquet", ".pq")
_OF_DISK = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO, errno.EMFILE, errno.ENFILE)
_USUAL, _RATIO = 1 << 28, 100  # no recording of sensors shrinks to a hundredth


@dataclass(frozen=True)
class FileFormat:
    """``delimiter`` is None for Parquet; ``compression`` is that of the whole file."""

    delimiter: str | None
    compression: str | None = None


def file_format(path: Path) -> FileFormat:
    """The format, from the end of the name in upper or lower case.

    Raises
    ------
    InputError
        If the end is not known.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    suffix = "".join(suffixes[-2:-1] if compressed else suffixes[-1:])
    if suffix in _DELIMITERS:
        return FileFormat(_DELIMITERS[suffix], "gzip" if compressed else None)
    if suffix in PARQUET and not compressed:
        return FileFormat(None)
    raise InputError(
        f"{path} is of no known kind; its name must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet"
    )


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Around what reads a foreign format: every error of a reader becomes one of mlat.

    Raises
    ------
    InputError
        The reader failed, in whatever way: its file is damaged, or of another format.
    DiskError
        The file cannot be read at all.
    """
    try:
        yield
    except MlatError:
        raise
    except Exception as error:  # zipfile, zlib, tokenize, Arrow, HDF5, MNE, …: each has its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, OSError) and error.errno in _OF_DISK:
            raise DiskError(f"{path} cannot be read: {error.strerror or reason}") from None
        if "pickle" in reason:  # of NumPy
            reason = "it holds Python objects, which are not read; save arrays of numbers and texts"
        if isinstance(error, MemoryError):
            reason = f"it says that it holds more than fits into memory; {reason}".rstrip("; ")
        kind = Path(path).suffix.lower() or "a table"
        raise InputError(
            f"{path} cannot be read as {kind} ({reason}); it is damaged or of another kind: "
            "store it again, or give it the name of its kind"
        ) from None


def most_unpacked(size: int) -> int:
    """The most bytes that a file of so many bytes may unpack to."""
    return max(_USUAL, _RATIO * size)


def refuse_growth(path: Path, unpacked: int) -> None:
    """Raise `InputError` for a file that unpacks to far more than a recording can."""
    size = path.stat().st_size
    if unpacked > most_unpacked(size):
        raise InputError(
            f"{path} has {size:,} bytes and would unpack to {unpacked:,}; no recording shrinks so "
            "much: it is damaged, or made to fill the memory. If it is good, store it unpacked"
        )
