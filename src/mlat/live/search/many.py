"""Many live streams at once, against one set of references.

A step of 500 streams is one product of matrices: what is read of the references serves all of
them. Each stream's results are what they would be if it were alone, bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...classifier import StreamClassifier
from ...errors import InputError
from ...novelty import is_unknown
from .flat_search import ANCHOR, FlatResult, FlatSearch, FlatState
from .many_features import LiftStates, ManyFeatures

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Many:
    """The states of n streams that one classifier watches.

    Parameters
    ----------
    clf : StreamClassifier
        Fitted, with a Toeplitz or the Euclidean metric and ``step=1``.
    n_streams : int
    anchor : int, default=64
        As for :meth:`FlatSearch.of`.

    Attributes
    ----------
    search : FlatSearch
    state : FlatState
        Of all streams.

    Examples
    --------
    >>> import mlat
    >>> from mlat.datasets.synthetic import rotating_states
    >>> clf = mlat.StreamClassifier(width=16, metric="mlat").fit(rotating_states())
    >>> streams = [rotating_states(random_state=seed).values for seed in (1, 2, 3)]
    >>> many = Many(clf, 3)
    >>> for step in range(40):
    ...     states, distance, proba = many.push([values[step] for values in streams])
    >>> states.tolist() == [clf.predict(values[:40])[-1] for values in streams]
    True
    """

    def __init__(self, clf: StreamClassifier, n_streams: int, *, anchor: int = ANCHOR) -> None:
        whole = isinstance(n_streams, int | np.integer) and not isinstance(n_streams, bool)
        if not whole or n_streams < 1:
            raise InputError(f"n_streams must be a whole number of at least 1, not {n_streams!r}")
        search = FlatSearch.of(clf, anchor=anchor)
        if search is None:
            raise InputError(
                "many streams at once need a metric that is exactly Toeplitz (MLAT's filter, or "
                "Euclidean) and every window as a reference (step=1)"
            )
        self.clf, self.search, self.n_streams = clf, search, int(n_streams)
        self._features = ManyFeatures(clf.features_, len(clf.channels_))
        self.state: FlatState = search.start(self.n_streams)
        self._lifts: LiftStates = self._features.start(self.n_streams)

    @property
    def bytes_per_stream(self) -> int:
        """What is remembered of a stream, beside the references that all share."""
        lifts = self._lifts
        lifted = lifts.ring.nbytes + lifts.sums.nbytes + lifts.count.nbytes
        return -(-(self.state.nbytes + lifted) // self.n_streams)

    def push(
        self, values: ArrayLike, present: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Floats, Floats]:
        """Take one step of each stream, or of some.

        Parameters
        ----------
        values : array of shape (n, d)
            A step with a NaN ends the segment of its stream: the next begins anew.
        present : array of shape (n,), optional
            False for streams without a step at this time, of which nothing changes.

        Returns
        -------
        states : array of shape (n,)
            The unknown state where there is no complete window.
        distance : array of shape (n,)
            To the nearest reference; NaN where there is no complete window.
        proba : array of shape (n,)
            Of that state; NaN where it is unknown.
        """
        result = self.results(values, present)
        clf, confidence = self.clf, self.clf.confidence_
        states = np.full(self.n_streams, clf.unknown_, dtype=clf.classes_.dtype)
        proba = np.full(self.n_streams, np.nan)
        if clf.n_neighbors_ == 1:
            known = (result.codes >= 0) & ~is_unknown(result.nearest, confidence.threshold)
            shares = confidence.calibration.proba(result.nearest[known])
            proba[known] = shares[np.arange(len(shares)), result.codes[known]]
        else:
            known = (result.codes >= 0) & ~(result.distances[:, 0] > confidence.threshold)
            of = np.asarray(clf._codes)[result.neighbours[known]]
            proba[known] = (of == result.codes[known, None]).mean(axis=1)
        states[known] = clf.classes_[result.codes[known]]
        return states, result.distances[:, 0], proba

    def results(self, values: ArrayLike, present: ArrayLike | None = None) -> FlatResult:
        """As :meth:`push`; what is found for each stream, in full."""
        steps = np.asarray(values, dtype=np.float64)
        shape = (self.n_streams, self._features.n_channels)
        if steps.shape != shape:
            raise InputError(f"a step of each stream has shape {shape}, not {steps.shape}")
        there = np.ones(self.n_streams, bool) if present is None else np.asarray(present)
        if there.shape != (self.n_streams,) or there.dtype != bool:
            raise InputError(f"present must be {self.n_streams} truth values, not {there!r}")
        broken = there & np.isnan(steps).any(axis=1)
        whole = there & ~broken
        seen = np.zeros((self.n_streams, self.search.references.n_features))
        owner = np.flatnonzero(whole)
        seen[owner] = self._features.push(self._lifts, steps[owner], owner)
        for array in (self._lifts.ring, self._lifts.sums, self._lifts.count):
            array[broken] = 0
        rows = np.arange(self.n_streams) if present is None else np.flatnonzero(there)
        found = self.search.push_rows(self.state, seen[rows], rows, whole[rows])
        width = self.search.references.width

        def window(i: int) -> Floats:
            stream = rows[i]
            return np.roll(self.state.ring[stream], -(self.state.count[stream] % width), axis=0)

        result = self.search.settle(found, window)
        return result if len(rows) == self.n_streams else _spread(result, rows, self.n_streams)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that is remembered, for a snapshot."""
        lifts = self._lifts
        return self.state.to_arrays() | {
            "lift_ring": lifts.ring.copy(),
            "lift_sums": lifts.sums.copy(),
            "lift_count": lifts.count.copy(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`to_arrays` gave."""
        mine = self.to_arrays()
        for name, array in mine.items():
            if name not in arrays or arrays[name].shape != array.shape:
                shape = arrays[name].shape if name in arrays else "missing"
                raise InputError(
                    f"{name} of the snapshot is {shape}, not {array.shape}: it is of another "
                    "classifier, or of another number of streams"
                )
        self.state = FlatState.from_arrays(
            {name: arrays[name] for name in ("ring", "products", "sums", "count")}
        )
        self._lifts = LiftStates(
            *(np.array(arrays[f"lift_{name}"]) for name in ("ring", "sums", "count"))
        )


def _spread(result: FlatResult, rows: NDArray[np.int64], n: int) -> FlatResult:
    """Results of some streams as those of all, nothing known of the others."""
    whole = []
    for name in FlatResult.__slots__:
        array = getattr(result, name)
        nothing = {"f": np.nan, "i": -1, "b": False}[array.dtype.kind]
        all_of_them = np.full((n, *array.shape[1:]), nothing, dtype=array.dtype)
        all_of_them[rows] = array
        whole.append(all_of_them)
    return FlatResult(*whole)
