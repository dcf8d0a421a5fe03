"""Many live streams at once, against one set of references.

A step of 500 streams is one product of matrices: what is read of the references serves all of
them. The results of each stream are the same, bit by bit, as if it were alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...base.checks import Floats, Ints, check_whole
from ...base.errors import InputError
from ...base.work import run_each
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import Decision, ExpertSearches, States, incremental_searches
from ...classifier.intake import KNOWN, LENGTH, SUMS, Intake, Memory
from ...neighbours.incremental import ANCHOR, FOLLOW, Arrays, found_nothing


class Many:
    """The states of n streams, by one classifier.

    Parameters
    ----------
    clf : StreamClassifier
        Fitted, with a Toeplitz or the Euclidean metric and ``stride=1``.
    n_streams : int
    anchor : int, default=64
        As for :meth:`IncrementalSearch.of`.
    threads : int, default=1
        Threads that share the streams; the results are the same.

    Attributes
    ----------
    experts : ExpertSearches
    states : tuple of dictionaries
        The arrays of all streams, for each expert.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> clf = mlat.StreamClassifier(width=16, metric="mlat").fit(rotating_states())
    >>> streams = [rotating_states(random_state=seed).values for seed in (1, 2, 3)]
    >>> many = Many(clf, 3)
    >>> for step in range(40):
    ...     states, distance, proba = many.push([values[step] for values in streams])
    >>> states.tolist() == [clf.predict(values[:40])[-1] for values in streams]
    True
    """

    def __init__(
        self,
        clf: StreamClassifier,
        n_streams: int,
        *,
        anchor: int = ANCHOR,
        threads: int = 1,
    ) -> None:
        check_whole(n_streams, "n_streams")
        self.threads = check_whole(threads, "threads")
        searches = incremental_searches(clf, anchor)
        if searches is None:
            raise InputError(
                "many streams at once need a metric that is exactly Toeplitz (MLAT's filter, or "
                "Euclidean) and every window as a reference (stride=1)"
            )
        self.clf, self.n_streams = clf, int(n_streams)
        self.experts = ExpertSearches(clf, searches, float(clf.confidence_.threshold))
        self.states: States = self.experts.start(self.n_streams)
        self._intake = Intake(clf.features_, clf.width_)
        self.memory: Memory = self._intake.start(self.n_streams)

    @property
    def bytes_per_stream(self) -> int:
        """The memory of a stream, besides the references that all share."""
        return -(-sum(array.nbytes for array in self._arrays().values()) // self.n_streams)

    def push(
        self, values: ArrayLike, present: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Floats, Floats]:
        """Take one step of each stream, or of some.

        Parameters
        ----------
        values : array of shape (n, d)
            A step with a NaN or an extreme value (see
            :meth:`~mlat.features.features.Scaling.extremes`) ends the segment of its stream: the
            next begins anew.
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
        rows, decision = self.results(values, present)
        codes, distance = decision.codes, decision.distance
        states = np.full(self.n_streams, self.clf.unknown_, dtype=self.clf.classes_.dtype)
        distances, proba = np.full((2, self.n_streams), np.nan)
        distances[rows] = distance
        known = (codes >= 0) & ~(distance > self.clf.confidence_.threshold)
        states[rows[known]] = self.clf.classes_[codes[known]]
        proba[rows[known]] = decision.proba[known, codes[known]]
        return states, distances, proba

    def results(self, values: ArrayLike, present: ArrayLike | None = None) -> tuple[Ints, Decision]:
        """Of each stream with a step its number, and the decision."""
        steps = np.asarray(values, dtype=np.float64)
        shape = (self.n_streams, self._intake.n_channels)
        if steps.shape != shape:
            raise InputError(f"a step of each stream has shape {shape}, not {steps.shape}")
        rows = np.arange(self.n_streams)
        if present is not None:
            there = np.asarray(present)
            if there.shape != (self.n_streams,) or there.dtype != bool:
                raise InputError(f"present must be {self.n_streams} truth values, not {there!r}")
            rows = np.flatnonzero(there)
        finite = np.where(np.isinf(steps[rows]), np.nan, steps[rows])
        found = found_nothing(len(self.states), len(rows), len(self.clf.classes_))
        ready = np.empty(len(rows), np.bool_)

        def some(part: slice) -> None:
            taken = self._intake.take(self.memory, finite[part], owner=rows[part])
            own = found.at((slice(None), part))
            self.experts.push(self.states, taken.features, taken.marks, rows[part], own)
            ready[part] = taken.why == KNOWN

        size = max(1, -(-len(rows) // self.threads))
        parts = [slice(begin, begin + size) for begin in range(0, len(rows), size)]
        run_each(some, parts, self.threads)

        def seen(expert: int, which: Ints) -> Floats:
            state, streams = self.states[expert], rows[which]
            width = state["ring"].shape[1]
            places = (state["count"][streams, None] + np.arange(width)) % width
            return np.asarray(state["ring"][streams[:, None], places])

        return rows, self.experts.decide(seen, ready, found)

    def _arrays(self) -> Arrays:
        """All arrays of the state; those of the first expert are named as with one expert."""
        named = {
            (f"expert{number}_{name}" if number else name): array
            for number, state in enumerate(self.states)
            for name, array in state.items()
        }
        memory = self.memory
        return named | {
            "lift_ring": memory.ring if self._intake.lift.remembers else memory.ring[:, :0, :0],
            "lift_sums": memory.channels[:, SUMS:],
            "lift_count": memory.places[:, LENGTH],
        }

    def to_arrays(self) -> Arrays:
        """Copies of all arrays of the state, for a snapshot."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`to_arrays` gave."""
        for name, array in self._arrays().items():
            if name not in arrays and name.endswith(FOLLOW) and "lift" not in name:
                continue
            if name not in arrays or arrays[name].shape != array.shape:
                shape = arrays[name].shape if name in arrays else "missing"
                raise InputError(
                    f"{name} of the snapshot is {shape}, not {array.shape}: it is of another "
                    "classifier, or of another number of streams"
                )
        own: list[Arrays] = []
        for number, state in enumerate(self.states):
            prefix = f"expert{number}_" if number else ""
            own.append({n: arrays[prefix + n] for n in state if prefix + n in arrays})
        self.states = self.experts.restored(own)
        if self._intake.lift.remembers:
            self.memory.ring[:] = arrays["lift_ring"]
        self.memory.channels[:, SUMS:] = arrays["lift_sums"]
        self.memory.places[:, LENGTH] = arrays["lift_count"]
