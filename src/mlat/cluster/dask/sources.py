"""Where the windows of a fit come from: the client, or a folder of files that the workers read.

The files together may be larger than the memory of any machine; a single file must fit. The client
knows the runs only, and every part of the problem reads the steps of its own windows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Floats, Ints
from ...base.errors import InputError
from ...metric.estimators import encode_states
from ...metric.problem import Unit
from ...neighbours.references import steps_inside
from ...stream.read import read_stream
from ...stream.stream import Stream
from ...stream.windows import Windows, sliding_windows, starts_in_runs
from .pieces import Index, WindowPiece, cut_piece, join_pieces
from .tasks import flow

ADVICE = "give the workers more memory, or cut the files into smaller ones"


class WindowSource(Protocol):
    """Windows for a fit, and how a worker gets some of them."""

    @property
    def index(self) -> Index: ...

    def piece(self, client: Any, rows: Ints, worker: str) -> Any:
        """A future of the :class:`WindowPiece` of these windows, on that worker."""


@dataclass(frozen=True, eq=False)
class ClientSource:
    """Windows on the client, which sends each part's windows to its worker."""

    windows: Windows
    index: Index

    def piece(self, client: Any, rows: Ints, worker: str) -> Any:
        """A future of the :class:`WindowPiece` of these windows, on that worker."""
        windows = self.windows
        cut = cut_piece(
            windows.values, self.index.start[rows], windows.width, rows, self.index.unit
        )
        return client.scatter(cut, workers=[worker], hash=False)


def source_of_windows(windows: Windows) -> ClientSource:
    """A source of windows that the client has."""
    if not len(windows):
        raise InputError("there are no windows to learn from")
    names, codes = encode_states(windows.y)
    index = Index(
        windows.width,
        int(windows.values.shape[1]),
        names,
        codes,
        np.asarray(windows.start, dtype=np.int64),
        np.asarray(windows.run, dtype=np.int64),
        Unit.of(*range_of(windows.values[steps_inside(windows, between=False)])),
    )
    return ClientSource(windows, index)


def source_of_streams(streams: Sequence[Stream], width: int | None, stride: int) -> ClientSource:
    """A source of the windows of streams that the client has."""
    if width is None:
        raise InputError("streams need the steps per window: give the metric a width, MLAT(width)")
    return source_of_windows(sliding_windows(Stream.join(streams), width, stride=stride))


@dataclass(frozen=True, eq=False)
class FileRuns:
    """The labelled runs of one file: ``start`` and ``length`` in steps, and their states.

    ``low`` and ``high`` (d,) are the range of the channels in runs that are as long as a window.
    """

    n_steps: int
    channels: tuple[str, ...]
    start: Ints
    length: Ints
    states: NDArray[Any]
    low: Floats
    high: Floats


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
        """A future of the :class:`WindowPiece` of these windows, on that worker."""
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
            self.index.unit,
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
    stride: int,
    columns: Mapping[str, Any],
) -> FolderSource:
    """A source of the windows of files. The workers look through the files for runs."""
    if width is None:
        raise InputError("files need the steps per window: give the metric a width, MLAT(width)")
    if columns.get("label") is None:
        raise InputError('files need the column of the states: label="..."')
    files = parquet_files(folder)
    found: dict[int, FileRuns] = dict(
        flow(
            client,
            len(files),
            lambda i: client.submit(runs_of_file, files[i], width, dict(columns), pure=False),
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
                "ones; write both in the same way"
            )
    first = np.cumsum([0, *(one.n_steps for one in runs)])
    begins = np.concatenate([one.start + at for one, at in zip(runs, first[:-1], strict=True)])
    lengths = np.concatenate([one.length for one in runs])
    start, run = starts_in_runs(begins, lengths, width, stride)
    if not len(start):
        raise InputError(
            f"no labelled run in {os.fspath(folder)} is {width} steps long; the longest has "
            f"{lengths.max(initial=0)}; choose a smaller width"
        )
    names, codes = encode_states(np.concatenate([one.states for one in runs])[run])
    unit = Unit.of(
        np.min([one.low for one in runs], axis=0), np.max([one.high for one in runs], axis=0)
    )
    index = Index(width, len(runs[0].channels), names, codes, start, run, unit)
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


def runs_of_file(path: str, width: int, columns: Mapping[str, Any]) -> FileRuns:
    """What the client needs to know of a file. Runs on a worker."""
    stream = read_stream(path, **columns)
    runs = stream.runs
    states = stream.classes[runs.code] if len(runs) else stream.states[:0]
    parts = [stream.values[a:b] for a, b, _ in runs if b - a >= width]
    low, high = range_of(np.concatenate([stream.values[:0], *parts]))
    return FileRuns(len(stream), stream.channels, runs.start, runs.length, states, low, high)


def range_of(steps: NDArray[Any]) -> tuple[Floats, Floats]:
    """The least and the largest value of each channel of steps (n, d); infinite of none."""
    steps = steps.astype(np.float64, copy=False)
    return steps.min(axis=0, initial=np.inf), steps.max(axis=0, initial=-np.inf)


def read_piece(
    wanted: _Wanted, width: int, n_channels: int, unit: Unit, columns: Mapping[str, Any]
) -> WindowPiece:
    """Read windows file by file, so that one file at a time is in memory. Runs on a worker."""
    pieces = []
    for path, n_steps, begins, rows in wanted.of_files:
        stream = read_stream(path, **columns)
        if len(stream) != n_steps:
            raise InputError(f"{path} has changed since the fit began; start again")
        pieces.append(cut_piece(stream.values, begins, width, rows, unit))
    return join_pieces(pieces, width, n_channels)


def _kind(states: NDArray[Any]) -> str:
    return "numbered" if states.dtype.kind in "iu" else "named"
