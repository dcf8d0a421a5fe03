"""The ordinary search among a classifier's references, and what is told from its distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...classifier import StreamClassifier
from ...voting import vote
from .taught import Taught

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """What n windows say.

    Attributes
    ----------
    codes : array of shape (n,)
        The state of each.
    shares : array of shape (n, S)
        The probability of each state.
    distance : array of shape (n,)
        To the nearest reference.
    rows : array of shape (n, k)
        The nearest references, taught ones after the others.
    """

    codes: Ints
    shares: Floats
    distance: Floats
    rows: Ints


class ExactSearch:
    """The references of a fitted classifier; its distances are those of ``predict``."""

    def __init__(self, clf: StreamClassifier) -> None:
        self._references = clf._search
        self._codes = clf._codes
        self._n_classes = len(clf.classes_)
        self._calibration = clf.confidence_.calibration
        self.n_neighbors = clf.n_neighbors_

    def __len__(self) -> int:
        return len(self._references)

    def embed(self, windows: Floats) -> Floats:
        """Windows (n, w, d') of features in the learned space, (n, r)."""
        if not len(windows):  # which not every transformer takes
            return np.empty((0, self._references.embedded.shape[1]))
        return np.asarray(self._references.embed(windows))

    def centred(self, Z: Floats) -> Floats:
        return Z - self._references.nearest.mean

    def by_state(self, Z: Floats) -> tuple[Floats, Ints]:
        """Distances (n, S) to the nearest reference of each state, and their rows (n, S)."""
        return self._references.by_class.query_rows(Z)

    def tell(self, windows: Floats, taught: Taught) -> Told:
        """What windows (n, w, d') of features say."""
        Z = self.embed(windows)
        if self.n_neighbors == 1:
            nearest, rows = self.by_state(Z)
            if len(taught):
                nearest, rows = taught.nearer(self.centred(Z), nearest, rows, len(self))
            return self.tell_nearest(nearest, rows)
        distances, rows = self._references.nearest.query(Z, self.n_neighbors)
        codes = self._codes
        if len(taught):
            distances, rows = taught.among(self.centred(Z), distances, rows, len(self))
            codes = np.concatenate([codes, taught.codes])
        told, shares = vote(codes[rows], distances, self._n_classes + len(taught.names))
        return Told(told, shares, distances[:, 0], rows)

    def shares(self, nearest: Floats, rows: Ints) -> Floats:
        """The probability of each state, from (n, S) distances or from (n, k) neighbours."""
        if self.n_neighbors == 1:
            return self._calibration.proba(nearest)
        return vote(self._codes[rows], np.zeros(rows.shape), self._n_classes)[1]

    def tell_nearest(self, nearest: Floats, rows: Ints) -> Told:
        """What the distances to the nearest of each state say."""
        codes = nearest.argmin(axis=1)
        chosen = np.arange(len(codes)), codes
        return Told(codes, self._calibration.proba(nearest), nearest[chosen], rows[chosen][:, None])
