"""Windows that were labelled while the stream was running: a few more references.

They are compared one by one, exactly: there are few of them, and they change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...errors import InputError
from ...fixed_order import LANES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Taught:
    """Taught windows, oldest first.

    Attributes
    ----------
    names : tuple of str or int
        States that the model did not know, in the order in which they were taught first.
    windows : array of shape (m, w, d')
        Of features.
    codes : array of shape (m,)
        Their states, among those of the model and then ``names``.
    columns : array of shape (r, m')
        The windows in the learned space, around the references' mean; side by side, so that all
        are compared at once, and padded with columns that are compared for nothing.
    """

    names: tuple[Any, ...]
    windows: Floats
    codes: Ints
    columns: Floats

    def __len__(self) -> int:
        return len(self.codes)

    def squared(self, centred: Floats) -> Floats:
        """Squared distances (n, m) of windows in the learned space, around the same mean."""
        squared = np.zeros((len(centred), self.columns.shape[1]))
        _squared(np.ascontiguousarray(centred), self.columns, squared)
        return squared[:, : len(self)]

    def nearer(
        self, centred: Floats, nearest: Floats, rows: Ints, n_references: int
    ) -> tuple[Floats, Ints]:
        """Distances to the nearest of each state and their rows, references and taught together.

        Parameters
        ----------
        centred : array of shape (n, r)
        nearest, rows : arrays of shape (n, S)
            Of the references alone.
        n_references : int
            Taught window i is row ``n_references + i``.
        """
        n, n_old = nearest.shape
        both = np.full((n, n_old + len(self.names)), np.inf)
        at = np.full(both.shape, -1, np.int64)
        both[:, :n_old], at[:, :n_old] = nearest, rows
        distances = np.sqrt(self.squared(centred))
        for code in np.unique(self.codes):
            columns = np.flatnonzero(self.codes == code)
            column = columns[distances[:, columns].argmin(axis=1)]
            distance = distances[np.arange(n), column]
            nearer = distance < both[:, code]
            both[nearer, code] = distance[nearer]
            at[nearer, code] = n_references + column[nearer]
        return both, at

    def among(
        self, centred: Floats, distances: Floats, rows: Ints, n_references: int
    ) -> tuple[Floats, Ints]:
        """The k nearest of the references' (n, k) nearest and all taught, nearest first."""
        k = distances.shape[1]
        both = np.concatenate([distances, np.sqrt(self.squared(centred))], axis=1)
        taught = np.broadcast_to(n_references + np.arange(len(self)), (len(rows), len(self)))
        every = np.concatenate([rows, taught], axis=1)
        # Stable: of equally near ones a reference, and else the older.
        order = np.argsort(both, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(both, order, 1), np.take_along_axis(every, order, 1)


def side_by_side(centred: Floats) -> Floats:
    """Windows (m, r) in the learned space as the columns of a padded array (r, m')."""
    return np.ascontiguousarray(np.pad(centred.T, [(0, 0), (0, -len(centred) % LANES)]))


def check_state(state: Any, unknown: str | int) -> str | int:
    """A state that may be taught: a text where states are texts, else a whole number."""
    if isinstance(unknown, str):
        if isinstance(state, str) and state:
            return str(state)
        raise InputError(f"the states of this model are texts; teach a text, not {state!r}")
    whole = isinstance(state, int | np.integer) and not isinstance(state, bool)
    if whole and state != unknown and abs(int(state)) < 2**62:
        return int(state)
    raise InputError(
        f"the states of this model are whole numbers; teach one other than {unknown}, not {state!r}"
    )


@njit(cache=True, nogil=True)
def _squared(x, columns, squared):  # type: ignore[no-untyped-def]
    """Summed in one fixed order, column by column at once."""
    for i in range(len(x)):
        for f in range(len(columns)):
            value = x[i, f]
            for j in range(columns.shape[1]):
                difference = value - columns[f, j]
                squared[i, j] += difference * difference
