"""Where a stream comes from: one file or several, and their format by their names.

Lists, folders and patterns of files are several recordings of one stream.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DiskError, InputError, MlatError
from .conversion import is_frame
from .stream import Stream

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TEXTS = (*_DELIMITERS, ".gz")  # the ends of the names of text files
PARQUET = (".parquet", ".pq")
_OF_DISK = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO, errno.EMFILE, errno.ENFILE)
_USUAL, _RATIO = 1 << 28, 100  # no recording of sensors shrinks to a hundredth


EACH_FILE = "file"  # instead of the column of groups: each of several files is one


def read_each(source: Any, read: Callable[[Any], Stream], groups: bool = False) -> Stream:
    """Read one source, or each of several, which are then recordings of one stream.

    Parameters
    ----------
    source : path, frame or array, or a list of them
        A path may be a folder or a pattern with ``*``, ``?`` or ``[``.
    read : callable
        Reads one.
    groups : bool
        Whether each is a group.

    Raises
    ------
    InputError
        If there is no file, or the files do not fit together.
    """
    sources = sources_in(source)
    if sources is None and not groups:
        return read(source)
    if sources is None:
        raise InputError(
            'group="file" is for several files, each of a person or a machine of its own'
        )
    if not sources:
        raise InputError("no recordings to read: the list is empty")
    streams = [read(one) for one in sources]
    joined = Stream.join(streams)
    joined.n_left_out = sum(stream.n_left_out for stream in streams)
    names = np.repeat(np.array(names_of(sources)), [len(stream) for stream in streams])
    if all(stream.recordings is None for stream in streams):
        joined.recordings = names
    if groups:
        joined.groups = names
    return joined


def is_several(given: Any) -> bool:
    """Whether this is a list of recordings, and not the rows of one."""
    if not isinstance(given, list | tuple) or not given:
        return False
    first = given[0]
    if isinstance(first, Stream | str | os.PathLike) or is_frame(first):
        return True
    return hasattr(first, "ch_names") or np.ndim(first) == 2  # of MNE, or an array


def join_values(values: Sequence[Any], states: Sequence[Any] | None) -> Stream:
    """A list of recordings, each a stream or values (T_i, d), as one stream; states likewise.

    Raises
    ------
    InputError
        If there are other numbers of states than of recordings.
    """
    if states is not None and len(states) != len(values):
        raise InputError(
            f"{len(values)} recordings, but states of {len(states)}; give one for each"
        )
    parts = []
    for i, one in enumerate(values):
        own = None if states is None else states[i]
        if not isinstance(one, Stream):
            parts.append(Stream(one, own))
        else:
            parts.append(one if own is None else one.with_states(own))
    return Stream.join(parts)


def sources_in(source: Any) -> list[Any] | None:
    """The single sources of a list, a folder or a pattern; None for what is one already."""
    if isinstance(source, list | tuple):
        if not is_several(source):
            return None if source else []
        # Each may be a folder or a pattern in turn.
        return [one for given in source for one in (sources_in(given) or [given])]
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    if path.is_dir():
        # A table in parts, as Spark, Dask and Arrow write them, is one.
        marks = [*path.glob("_SUCCESS"), *path.glob("_metadata"), *path.glob("*=*")]
        if marks or path.suffix.lower() in PARQUET:
            return None
        files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith((".", "_"))]
        if not files:
            raise InputError(f"{path} is a folder without files; name one with recordings")
        return sorted(files)
    if not path.exists() and glob.has_magic(str(source)):
        found = sorted(glob.glob(str(source), recursive=True))
        if not found:
            raise InputError(f"no file is called {source}; check the folder and the pattern")
        return [one for name in found for one in (sources_in(name) or [Path(name)])]
    return None


def names_of(sources: Sequence[Any]) -> list[str]:
    """The names of recordings: those of their files, or numbers."""
    if not all(isinstance(one, str | os.PathLike) for one in sources):
        return [str(i) for i in range(len(sources))]
    names = [Path(one).name for one in sources]
    return names if len(set(names)) == len(names) else [str(one) for one in sources]


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


def refuse_growth(path: Path, unpacked: int, *others: Path) -> None:
    """Raise `InputError` for a file, with others, that unpacks to far more than a recording can."""
    size = sum(one.stat().st_size for one in {path, *others})
    if unpacked > most_unpacked(size):
        raise InputError(
            f"{path} has {size:,} bytes and would unpack to {unpacked:,}; no recording shrinks so "
            "much: it is damaged, or made to fill the memory. If it is good, store it unpacked"
        )
