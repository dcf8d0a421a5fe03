"""Some windows of a problem as they travel: as runs of steps, and never laid out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats, Ints
from ...errors import InputError
from ...metric.estimators import encode_states
from ...stream.read import read_stream
from ...stream.windows import Windows, starts_in_runs
from .tasks import flow

# -------------------------------------------------------------------- parquet_windows
# Windows from a folder of Parquet files that the workers read.
#
# The files together may be larger than any machine's memory; a single file must fit. The client
# learns of the runs only, and every part reads the steps of its own windows.

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


@dataclass(frozen=True, eq=False)
class Index:
    """What is known of every window without its values, on the client: 24 bytes a window.

    Attributes
    ----------
    width, n_channels : int
    names : array of shape (S,)
        The states.
    codes, start, run : arrays of shape (n,)
        As for :class:`mlat.metric.Problem`.
    """

    width: int
    n_channels: int
    names: NDArray[Any]
    codes: Ints
    start: Ints
    run: Ints

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Piece:
    """Windows as steps.

    Attributes
    ----------
    width : int
    steps : array of shape (T, d)
        The steps of the windows, each once however many windows it is in.
    offset : array of shape (m,)
        The step of ``steps`` at which each window begins.
    rows : array of shape (m,)
        The windows' numbers in the whole problem, ascending.
    """

    width: int
    steps: Floats
    offset: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def __sizeof__(self) -> int:  # by which the scheduler reckons
        return self.steps.nbytes + self.offset.nbytes + self.rows.nbytes

    def windows(self, some: Ints | slice = slice(None)) -> Floats:
        """Windows laid out, shape (m, w, d)."""
        nothing = np.empty(0, np.int64)
        view = Windows(self.steps, self.width, nothing, nothing, nothing).view
        return np.ascontiguousarray(view[self.offset[some]])


def cut_piece(values: NDArray[Any], begins: Ints, width: int, rows: Ints) -> Piece:
    """The windows that begin at ``begins`` (m,) in the values (T, d), numbered ``rows``."""
    # +1 where a window begins and -1 behind its end: positive inside.
    edges = np.zeros(len(values) + 1, np.int64)
    np.add.at(edges, begins, 1)
    np.add.at(edges, begins + width, -1)
    used = np.cumsum(edges[:-1]) > 0
    place = np.cumsum(used) - 1
    steps = np.ascontiguousarray(values[used], dtype=np.float64)
    bad = np.argwhere(~np.isfinite(steps))
    if len(bad):
        step, channel = np.flatnonzero(used)[bad[0, 0]], bad[0, 1]
        raise InputError(
            f"the windows hold NaN or infinity at step {step}, channel {channel}; leave out "
            "windows with missing values, or fill them in"
        )
    return Piece(width, steps, place[begins], rows)


def join_pieces(pieces: list[Piece], width: int, n_channels: int) -> Piece:
    """Pieces one after the other, as one."""
    lengths = [len(piece.steps) for piece in pieces]
    before = np.cumsum([0, *lengths])
    nothing = np.empty(0, np.int64)
    return Piece(
        width,
        np.concatenate([np.empty((0, n_channels)), *(piece.steps for piece in pieces)]),
        np.concatenate(
            [nothing, *(p.offset + at for p, at in zip(pieces, before[:-1], strict=True))]
        ),
        np.concatenate([nothing, *(piece.rows for piece in pieces)]),
    )
