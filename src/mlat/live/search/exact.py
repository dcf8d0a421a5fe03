"""Exact search among a classifier's references and taught windows, and decisions from distances.

Windows that are taught while a stream runs are a few more references. They are compared one by one,
since they are few and change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.checks import Floats, Ints, check_text, is_whole
from ...base.compiled import jit
from ...base.errors import InputError
from ...base.fixed_order import padded
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import Decision, Rule, decide, decide_by_votes


class ExactSearch:
    """The references of a fitted classifier; its distances are those of ``predict``."""

    def __init__(self, clf: StreamClassifier) -> None:
        self.experts = clf.experts_
        self.rule = Rule.of(clf.committee_, clf.confidence_.calibration)
        self._references = clf.references_
        self._codes = clf.references_.codes
        self._n_classes = len(clf.classes_)
        # The searches are built now: the first step does not wait for them.
        self._means = [expert.nearest.mean if len(expert) else 0.0 for expert in self.experts]
        self.n_neighbors = clf.n_neighbors_
        self.weights = np.array([member.weight for member in clf.committee_.deciding])

    def __len__(self) -> int:
        return len(self._references)

    def centred(self, windows: Floats) -> list[Floats]:
        """Windows (n, w, d') of features in each expert's space, less its references' mean."""
        return [self._embed(number, windows) - mean for number, mean in enumerate(self._means)]

    def seen(self, expert: int, windows: Floats) -> Floats:
        """What an expert sees of windows (n, w, d') of features."""
        one = self.experts[expert]
        return one.view(windows[:, windows.shape[1] - one.windows.width :])

    def _embed(self, expert: int, windows: Floats) -> Floats:
        if not len(windows):  # which not every transformer takes
            return np.empty((0, self.experts[expert].n_dimensions))
        return np.asarray(self.experts[expert].embed(self.seen(expert, windows)))

    def decide(self, windows: Floats, taught: TaughtReferences) -> Decision:
        """The decision on windows (n, w, d') of features; of one state at least there are some."""
        if self.n_neighbors > 1:
            return self._vote(windows, taught)
        found = []
        for number, expert in enumerate(self.experts):
            Z = self._embed(number, windows)
            if len(self):
                nearest, rows = expert.by_class.query_rows(Z)
            else:
                nearest, rows = np.empty((len(Z), 0)), np.empty((len(Z), 0), np.int64)
            if len(taught):
                centred = Z - self._means[number]
                nearest, rows = taught.nearer(number, centred, nearest, rows, len(self))
            found.append((nearest, rows))
        nearest, rows = (np.stack(both) for both in zip(*found, strict=True))
        return decide(self.rule, nearest, rows)

    def _vote(self, windows: Floats, taught: TaughtReferences) -> Decision:
        Z = self._embed(0, windows)
        codes, k = self._codes, self.n_neighbors
        if len(self):
            distances, rows = self._references.nearest.query(Z, k)
        else:
            distances, rows = np.empty((len(Z), 0)), np.empty((len(Z), 0), np.int64)
        if len(taught):
            distances, rows = taught.among(Z - self._means[0], distances, rows, len(self), k)
            codes = np.concatenate([codes, taught.codes])
        return decide_by_votes(distances, rows, codes, self._n_classes + len(taught.names))

    def teach(self, names: tuple[str | int, ...], codes: Ints, windows: Floats) -> TaughtReferences:
        """Windows (m, w, d') of the states ``codes`` (m,), prepared to be compared."""
        columns = tuple(padded(centred.T) for centred in self.centred(windows))
        return TaughtReferences(names, windows, codes.astype(np.int64), columns)

    def teach_more(
        self,
        old: TaughtReferences,
        names: tuple[str | int, ...],
        codes: Ints,
        windows: Floats,
        kept: Ints | slice,
    ) -> TaughtReferences:
        """As :meth:`teach`, of the ``kept`` among old windows and new ones (n, w, d').

        ``codes`` (m + n,) are the states of all. Only the new ones are taken to the learned space,
        to the same numbers as if all were.
        """
        columns = tuple(
            padded(np.concatenate([before[:, : len(old)], centred.T], axis=1)[:, kept])
            for before, centred in zip(old.columns, self.centred(windows), strict=True)
        )
        every = np.concatenate([old.windows, windows])[kept]
        return TaughtReferences(names, every, codes[kept].astype(np.int64), columns)


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
    columns : tuple of arrays of shape (r, m')
        The windows in the learned space of each expert, less its references' mean, side by side so
        that all are compared at once. Padded to whole vectors, so that each sum has the same order.
    """

    names: tuple[str | int, ...]
    windows: Floats
    codes: Ints
    columns: tuple[Floats, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def squared(self, expert: int, centred: Floats) -> Floats:
        """Squared distances (n, m) of windows (n, r) in an expert's space, less the same mean."""
        columns = self.columns[expert]
        squared = np.zeros((len(centred), columns.shape[1]))
        _squared(np.ascontiguousarray(centred), columns, squared)
        return squared[:, : len(self)]

    def nearer(
        self, expert: int, centred: Floats, nearest: Floats, rows: Ints, n_references: int
    ) -> tuple[Floats, Ints]:
        """Distances to the nearest of each state and their rows, references and taught together.

        Parameters
        ----------
        expert : int
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
        distances = np.sqrt(self.squared(expert, centred))
        for code in np.unique(self.codes):
            columns = np.flatnonzero(self.codes == code)
            column = columns[distances[:, columns].argmin(axis=1)]
            distance = distances[np.arange(n), column]
            nearer = distance < both[:, code]
            both[nearer, code] = distance[nearer]
            at[nearer, code] = n_references + column[nearer]
        return both, at

    def nearest_of_both(
        self,
        centred: Sequence[Floats],
        nearest: Floats,
        rows: Ints,
        n_references: int,
    ) -> tuple[Floats, Ints]:
        """As :meth:`nearer`, for each expert: (M, n, S)."""
        found = [
            self.nearer(number, centred[number], nearest[number], rows[number], n_references)
            for number in range(len(centred))
        ]
        return np.stack([one[0] for one in found]), np.stack([one[1] for one in found])

    def among(
        self, centred: Floats, distances: Floats, rows: Ints, n_references: int, k: int
    ) -> tuple[Floats, Ints]:
        """The k nearest of the references' (n, k) nearest and all taught windows, nearest first.

        Fewer where there are no references, and not yet k taught windows.
        """
        both = np.concatenate([distances, np.sqrt(self.squared(0, centred))], axis=1)
        taught = np.broadcast_to(n_references + np.arange(len(self)), (len(rows), len(self)))
        every = np.concatenate([rows, taught], axis=1)
        # Stable: in a tie a reference comes first, then the older.
        order = np.argsort(both, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(both, order, 1), np.take_along_axis(every, order, 1)


def check_state(state: Any, unknown: str | int) -> str | int:
    """A state that may be taught: a text where states are texts, else a whole number."""
    if isinstance(unknown, str):
        if isinstance(state, str) and "\0" in state:
            raise InputError(f"the state {state!r} holds the character 0; choose another name")
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
