"""Windows from a folder of Parquet files that the workers read.

The files together may be larger than any machine's memory; a single file must fit. The client
learns of the runs only, and every part reads the steps of its own windows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files.stream_file import read_stream
from ..margin_metric import encode_states
from ..windows import starts_in_runs
from .flow import flow
from .pieces import Index, Ints, Piece, cut_piece, join_pieces

ADVICE = "give the workers more memory, or cut the files into smaller ones"


@dataclass(frozen=True, eq=False)
class FileRuns:
    """The labelled runs of one file: ``start`` and ``length`` in steps, and their states."""

    n_steps: int
    channels: tuple[str, ...]
    start: Ints
    length: Ints
    states: NDArray[Any]


@dataclass(frozen=True, eq=False)
class FolderSource:
    """Windows of files, read where they are needed.

    Attributes
    ----------
    index : Index
    files : list of str
    first : array of shape (F+1,)
        The step of the whole at which each file begins.
    columns : mapping
        As for :func:`mlat.read_stream`.
    """

    index: Index
    files: list[str]
    first: Ints
    columns: Mapping[str, Any]

    def piece(self, client: Any, rows: Ints, worker: str) -> Any:
        """A future of the :class:`Piece` of these windows, on that worker."""
        start = self.index.start[rows]
        of = np.searchsorted(self.first, start, side="right") - 1
        wanted = [
            (
                self.files[f],
                int(self.first[f + 1] - self.first[f]),
                start[at] - self.first[f],
                rows[at],
            )
            for f in np.unique(of)
            for at in [np.flatnonzero(of == f)]
        ]
        sent = client.scatter([_Wanted(wanted)], workers=[worker], hash=False)[0]
        return client.submit(
            read_piece,
            sent,
            self.index.width,
            self.index.n_channels,
            dict(self.columns),
            workers=[worker],
            pure=False,
        )


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Path, steps, where windows begin and their numbers, for each file."""

    of_files: list[tuple[str, int, Ints, Ints]]


def source_of_folder(
    client: Any,
    folder: str | os.PathLike[str],
    width: int | None,
    step: int,
    columns: Mapping[str, Any],
) -> FolderSource:
    """Look through the files, on the workers, and number their windows."""
    if width is None:
        raise InputError("files need the steps per window: give the metric a width, MLAT(width)")
    if columns.get("label") is None:
        raise InputError('files need the column of the states: label="..."')
    files = parquet_files(folder)
    found: dict[int, FileRuns] = dict(
        flow(
            client,
            len(files),
            lambda i: client.submit(runs_of_file, files[i], dict(columns), pure=False),
            advice=ADVICE,
        )
    )
    runs = [found[i] for i in range(len(files))]
    for path, one in zip(files, runs, strict=True):
        if one.channels != runs[0].channels:
            raise InputError(
                f"{path} has channels {', '.join(one.channels)}, {files[0]} has "
                f"{', '.join(runs[0].channels)}; name the ones to use with channels=[...]"
            )
        if one.states.dtype.kind != runs[0].states.dtype.kind:
            raise InputError(
                f"{path} has {_kind(one.states)} states, {files[0]} has {_kind(runs[0].states)} "
                "ones; write them alike"
            )
    first = np.cumsum([0, *(one.n_steps for one in runs)])
    begins = np.concatenate([one.start + at for one, at in zip(runs, first[:-1], strict=True)])
    lengths = np.concatenate([one.length for one in runs])
    start, run = starts_in_runs(begins, lengths, width, step)
    if not len(start):
        raise InputError(
            f"no labelled run in {os.fspath(folder)} is {width} steps long; the longest has "
            f"{lengths.max(initial=0)}; choose a smaller width"
        )
    names, codes = encode_states(np.concatenate([one.states for one in runs])[run])
    index = Index(width, len(runs[0].channels), names, codes, start, run)
    return FolderSource(index, files, first, columns)


def parquet_files(folder: str | os.PathLike[str]) -> list[str]:
    """The Parquet files in a folder and its folders, in the order of their names."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is no folder; give the folder that holds the Parquet files")
    files = sorted(str(path.resolve()) for path in place.rglob("*.parquet"))
    if not files:
        raise InputError(f"{place} holds no Parquet file (*.parquet)")
    return files


def runs_of_file(path: str, columns: Mapping[str, Any]) -> FileRuns:
    """What the client has to know of a file."""
    stream = read_stream(path, **columns)
    runs = stream.runs
    states = stream.classes[runs.code] if len(runs) else stream.states[:0]
    return FileRuns(len(stream), stream.channels, runs.start, runs.length, states)


def read_piece(wanted: _Wanted, width: int, n_channels: int, columns: Mapping[str, Any]) -> Piece:
    """The windows, file by file, so that one file at a time is in memory."""
    pieces = []
    for path, n_steps, begins, rows in wanted.of_files:
        stream = read_stream(path, **columns)
        if len(stream) != n_steps:
            raise InputError(f"{path} has changed since the fit began; start again")
        pieces.append(cut_piece(stream.values, begins, width, rows))
    return join_pieces(pieces, width, n_channels)


def _kind(states: NDArray[Any]) -> str:
    return "numbered" if states.dtype.kind in "iu" else "named"
