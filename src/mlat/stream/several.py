"""Several recordings as one stream: lists, folders and patterns of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from .conversion import is_frame
from .stream import Stream


def read_each(source: Any, read: Callable[[Any], Stream]) -> Stream:
    """Read one source, or each of several, which are then recordings of one stream.

    Parameters
    ----------
    source : path, frame or array, or a list of them
        A path may be a folder or a pattern with ``*``, ``?`` or ``[``.
    read : callable
        Reads one.

    Raises
    ------
    InputError
        If there is no file, or the files do not fit together.
    """
    sources = sources_in(source)
    if sources is None:
        return read(source)
    if not sources:
        raise InputError("no recordings to read: the list is empty")
    streams = [read(one) for one in sources]
    joined = Stream.join(streams)
    joined.n_left_out = sum(stream.n_left_out for stream in streams)
    if all(stream.recordings is None for stream in streams):
        names = names_of(sources)
        joined.recordings = np.repeat(np.array(names), [len(stream) for stream in streams])
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
        return None if _is_one_table(path) else _files_in(path)
    if not path.exists() and glob.has_magic(str(source)):
        found = sorted(glob.glob(str(source), recursive=True))
        if not found:
            raise InputError(f"no file is called {source}; check the folder and the pattern")
        return [one for name in found for one in (sources_in(name) or [Path(name)])]
    return None


def _is_one_table(folder: Path) -> bool:
    """Whether a folder is a table in parts, as Spark, Dask and Arrow write them."""
    marks = [*folder.glob("_SUCCESS"), *folder.glob("_metadata"), *folder.glob("*=*")]
    return bool(marks) or folder.suffix.lower() in (".parquet", ".pq")


def _files_in(folder: Path) -> list[Any]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
    if not files:
        raise InputError(f"{folder} is a folder without files; name one with recordings")
    return list(files)


def names_of(sources: Sequence[Any]) -> list[str]:
    """The names of recordings: those of their files, or numbers."""
    if not all(isinstance(one, str | os.PathLike) for one in sources):
        return [str(i) for i in range(len(sources))]
    names = [Path(one).name for one in sources]
    return names if len(set(names)) == len(names) else [str(one) for one in sources]
