"""Windows of a problem as they are sent to workers: runs of steps, not arrays of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Floats, Ints
from ...metric.problem import Unit
from ...stream.windows import Windows, check_finite_steps, windows_per_step


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
    unit : Unit
        In which every piece has its steps.
    """

    width: int
    n_channels: int
    names: NDArray[Any]
    codes: Ints
    start: Ints
    run: Ints
    unit: Unit

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class WindowPiece:
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


def cut_piece(
    values: NDArray[Any], begins: Ints, width: int, rows: Ints, unit: Unit
) -> WindowPiece:
    """The windows that begin at ``begins`` (m,) in the values (T, d), numbered ``rows``."""
    windows = Windows(values, width, begins, rows, rows)
    used = windows.compact()
    check_finite_steps(used.values, np.flatnonzero(windows_per_step(windows)))
    return WindowPiece(width, unit(used.values), used.start, rows)


def join_pieces(pieces: list[WindowPiece], width: int, n_channels: int) -> WindowPiece:
    """Pieces one after the other, as one."""
    lengths = [len(piece.steps) for piece in pieces]
    before = np.cumsum([0, *lengths])
    nothing = np.empty(0, np.int64)
    return WindowPiece(
        width,
        np.concatenate([np.empty((0, n_channels)), *(piece.steps for piece in pieces)]),
        np.concatenate(
            [nothing, *(p.offset + at for p, at in zip(pieces, before[:-1], strict=True))]
        ),
        np.concatenate([nothing, *(piece.rows for piece in pieces)]),
    )
