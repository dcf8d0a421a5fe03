"""Exact search among a classifier's references and taught windows, and decisions from distances.

Windows that are taught while a stream runs are a few more references. They are compared one by one,
since they are few and change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import Floats, Ints, check_text, is_whole
from ...classifier.classifier import StreamClassifier
from ...compiled import jit
from ...errors import InputError
from ...fixed_order import LANES
from ...neighbours.votes import vote


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """The states of n windows, with probabilities and the references they come from.

    Attributes
    ----------
    codes : array of shape (n,)
        The state of each.
    proba : array of shape (n, S)
        The probability of each state.
    distance : array of shape (n,)
        To the nearest reference.
    rows : array of shape (n, k)
        The nearest references; taught ones come after the others.
    """

    codes: Ints
    proba: Floats
    distance: Floats
    rows: Ints


class ExactSearch:
    """The references of a fitted classifier; its distances are those of ``predict``."""

    def __init__(self, clf: StreamClassifier) -> None:
        self._references = clf.references_
        self._codes = clf.references_.codes
        self._n_classes = len(clf.classes_)
        _ = self._references.by_class  # built now: the first step does not wait for it
        self._calibration = clf.confidence_.calibration
        self.n_neighbors = clf.n_neighbors_

    def __len__(self) -> int:
        return len(self._references)

    def embed(self, windows: Floats) -> Floats:
        """Windows (n, w, d') of features in the learned space, (n, r)."""
        if not len(windows):  # which not every transformer takes
            return np.empty((0, self._references.n_dimensions))
        return np.asarray(self._references.embed(windows))

    def centred(self, Z: Floats) -> Floats:
        """Windows (n, r) in the learned space, less the references' mean."""
        return Z - self._references.nearest.mean

    def decide(self, windows: Floats, taught: TaughtReferences) -> Decision:
        """The decision on windows (n, w, d') of features."""
        Z = self.embed(windows)
        if self.n_neighbors == 1:
            nearest, rows = self._references.by_class.query_rows(Z)
            if len(taught):
                nearest, rows = taught.nearer(self.centred(Z), nearest, rows, len(self))
            return self.decide_nearest(nearest, rows)
        distances, rows = self._references.nearest.query(Z, self.n_neighbors)
        codes = self._codes
        if len(taught):
            distances, rows = taught.among(self.centred(Z), distances, rows, len(self))
            codes = np.concatenate([codes, taught.codes])
        voted, proba = vote(codes[rows], distances, self._n_classes + len(taught.names))
        return Decision(voted, proba, distances[:, 0], rows)

    def decide_nearest(self, nearest: Floats, rows: Ints) -> Decision:
        """The decision from distances (n, S) to the nearest of each state and their rows (n, S)."""
        codes = nearest.argmin(axis=1)
        chosen = np.arange(len(codes)), codes
        proba = self._calibration.proba(nearest)
        return Decision(codes, proba, nearest[chosen], rows[chosen][:, None])

    def proba(self, nearest: Floats, rows: Ints) -> Floats:
        """The probability of each state, from (n, S) distances or from (n, k) neighbours."""
        if self.n_neighbors == 1:
            return self._calibration.proba(nearest)
        return vote(self._codes[rows], np.zeros(rows.shape), self._n_classes)[1]

    def teach(self, names: tuple[str | int, ...], codes: Ints, windows: Floats) -> TaughtReferences:
        """Windows (m, w, d') of the states ``codes`` (m,), prepared to be compared."""
        centred = self.centred(self.embed(windows))
        columns = np.pad(centred.T, [(0, 0), (0, -len(centred) % LANES)])
        return TaughtReferences(
            names, windows, codes.astype(np.int64), np.ascontiguousarray(columns)
        )


@dataclass(frozen=True, eq=False, slots=True)
class TaughtReferences:
    """Taught windows, oldest first.

    Attributes
    ----------
    names : tuple of str or int
        States that the model does not know, in the order in which they were first taught.
    windows : array of shape (m, w, d')
        Of features.
    codes : array of shape (m,)
        Their states: those of the model, then ``names``.
    columns : array of shape (r, m')
        The windows in the learned space, less the references' mean, side by side so that all are
        compared at once. Padded to whole vectors, so that each sum has the same order.
    """

    names: tuple[str | int, ...]
    windows: Floats
    codes: Ints
    columns: Floats

    def __len__(self) -> int:
        return len(self.codes)

    def squared(self, centred: Floats) -> Floats:
        """Squared distances (n, m) of windows (n, r) in the learned space, less the same mean."""
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
        """The k nearest of the references' (n, k) nearest and all taught windows, nearest first."""
        k = distances.shape[1]
        both = np.concatenate([distances, np.sqrt(self.squared(centred))], axis=1)
        taught = np.broadcast_to(n_references + np.arange(len(self)), (len(rows), len(self)))
        every = np.concatenate([rows, taught], axis=1)
        # Stable: in a tie a reference comes first, then the older.
        order = np.argsort(both, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(both, order, 1), np.take_along_axis(every, order, 1)


def check_state(state: Any, unknown: str | int) -> str | int:
    """A state that may be taught: a text where states are texts, else a whole number."""
    if isinstance(unknown, str):
        if isinstance(state, str) and state:
            return check_text(str(state), "the state")
        raise InputError(f"the states of this model are texts; teach a text, not {state!r}")
    if is_whole(state) and state != unknown and abs(int(state)) < 2**62:
        return int(state)
    raise InputError(
        f"the states of this model are whole numbers; teach one other than {unknown}, not {state!r}"
    )


@jit()
def _squared(x, columns, squared):  # type: ignore[no-untyped-def]
    """Summed in one fixed order, all columns at once."""
    for i in range(len(x)):
        for f in range(len(columns)):
            value = x[i, f]
            for j in range(columns.shape[1]):
                difference = value - columns[f, j]
                squared[i, j] += difference * difference
