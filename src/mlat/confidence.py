"""How sure a classifier is, how its states persist, and when a window is like none of them.

All three are learned from the references, each judged by references of another time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .calibration import Calibration, fit_calibration
from .class_distances import ClassDistances
from .left_out import leave_out_gap, rows_nearby, time_blocks
from .novelty import fit_threshold, is_unknown, least_distance
from .persistence import Persistence, filter_proba, learn_persistence
from .stream import Stream
from .voting import vote
from .windows import Windows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Which of T steps have a window, the states of these, the probabilities (T, S) of each state, and
# which steps are like no reference.
Told = tuple[NDArray[np.bool_], Ints, Floats, NDArray[np.bool_]]

MOST_JUDGED = 3000  # references that are judged, evenly spaced: more would cost and tell no more


@dataclass(frozen=True, eq=False)
class Confidence:
    """What predicting needs beside the references.

    Attributes
    ----------
    calibration : Calibration
        From distances to probabilities.
    persistence : Persistence
        How states follow each other, for the causal filter.
    threshold : float
        A window farther than this from every reference is of an unknown state; infinite for never.
    farthest : float
        The largest distance of a left-out reference to the nearest of the others; NaN where it is
        not known, as in model files of before.
    """

    calibration: Calibration
    persistence: Persistence
    threshold: float
    farthest: float = np.nan

    def of_nearest(self, nearest: Floats) -> Told:
        """By the nearest reference of each state, at the distances (T, S)."""
        proba = self.calibration.proba(nearest)
        known = ~np.isnan(proba[:, 0])
        codes = nearest[known].argmin(axis=1)
        return known, codes, proba, is_unknown(nearest, self.threshold)

    def of_votes(self, distances: Floats, rows: Ints, codes: Ints) -> Told:
        """By the nearest references (T, k), of which ``codes`` tells the states."""
        known = rows[:, 0] >= 0
        proba = np.full((len(rows), len(self.persistence.transition)), np.nan)
        told, proba[known] = vote(codes[rows[known]], distances[known], proba.shape[1])
        strange = known & (np.nan_to_num(distances[:, 0]) > self.threshold)
        return known, told, proba, strange

    def filter(self, stream: Stream, proba: Floats, n_neighbors: int) -> Floats:
        """The probabilities (T, S) given all windows up to each step of the stream."""
        if n_neighbors > 1:  # no state is ruled out because none of k neighbours has it
            proba = (proba * n_neighbors + 1) / (n_neighbors + proba.shape[1])
        return filter_proba(proba, _starts(stream), self.persistence)[0]


def learn_confidence(
    distances: ClassDistances,
    embedded: Floats,
    windows: Windows,
    codes: Ints,
    stream: Stream,
    *,
    overlap: int,
    unknown_rate: float,
) -> Confidence:
    """Judge the references by each other, those of another time.

    Parameters
    ----------
    distances : ClassDistances
        Of the references.
    embedded : array of shape (n, r)
        The references themselves, in the learned space.
    windows : Windows
    codes : array of shape (n,)
    stream : Stream
        What was learned from.
    overlap : int
        How many steps a prediction depends on.
    unknown_rate : float
        The share of false alarms, of windows like these.
    """
    exclude = rows_nearby(windows.start, codes, leave_out_gap(windows.start, codes, windows.width))
    every = max(1, -(-len(codes) // MOST_JUDGED))
    nearest = distances.query(embedded[::every], exclude=exclude[::every])
    blocks = time_blocks(windows.start, codes, 2 * windows.width)[::every]
    return Confidence(
        fit_calibration(nearest, codes[::every], blocks),
        learn_persistence(_recode(stream, windows), _starts(stream), distances.n_classes, overlap),
        fit_threshold(nearest, unknown_rate, blocks),
        _farthest(nearest),
    )


def _farthest(nearest: Floats) -> float:
    distance = least_distance(nearest)
    distance = distance[np.isfinite(distance)]
    return float(distance.max()) if len(distance) else np.nan


def _recode(stream: Stream, windows: Windows) -> Ints:
    """The state of each step among those that have windows; -1 for none."""
    known = np.unique(windows.y)
    of_class = np.full(len(stream.classes) + 1, -1, np.int64)
    of_class[:-1] = [_place(known, state) for state in stream.classes]
    return of_class[stream.codes]


def _place(known: NDArray[Any], state: Any) -> int:
    i = int(np.searchsorted(known, state))
    return i if i < len(known) and known[i] == state else -1


def _starts(stream: Stream) -> NDArray[np.bool_]:
    """Where a stretch without a gap begins."""
    starts = np.zeros(len(stream), bool)
    starts[stream.segments.start] = True
    return starts
