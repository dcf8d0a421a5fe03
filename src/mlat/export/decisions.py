"""What a model as plain numbers decides: what its tables say, before anything is compiled.

Distances are of the same formulas as in C, over many windows at once and in double precision.
Beside the rounding of what is stored that of the arithmetic is small: only near-ties can differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.checks import Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.decision import Decision, decide, decide_by_votes
from ..classifier.held_out import held_out_gap, rows_nearby
from ..stream.stream import Stream
from .plain_forest import PlainForest
from .plain_model import PlainExpert, PlainModel

MOST_JUDGED = 1000  # windows, evenly spaced
# The trees know the training windows that they grew from. With so much of a window of another time
# in each, about as many decisions changed as on new steps: with 12, 25 and 50 trees of a forest, on
# development streams of three sets, the share that stayed was within 0.04 of that.
MIXED = 0.25
# On new steps of nine development streams at most so many times as many decisions changed as on
# these windows: in 53 of 54 models (`mlat-lab bench export-shares`).
MORE_CHANGE = 2.3
AT_A_TIME = 64


@dataclass(frozen=True, eq=False, repr=False)
class Judged(ShortRepr):
    """Windows of which a state is asked.

    Attributes
    ----------
    windows : array of shape (n, w, F)
        In the features of the classifier.
    codes : array of shape (n,)
        Their states; -1 where that is not known.
    nearby : array of shape (n, 2)
        The references ``[first, last)`` that none is compared with, as they are of its own time.
    block : array of shape (n,)
        Windows of one block are near-copies.
    """

    windows: Floats
    codes: Ints
    nearby: Ints
    block: Ints

    def take(self, rows: Ints) -> Judged:
        return Judged(self.windows[rows], self.codes[rows], self.nearby[rows], self.block[rows])

    @classmethod
    def of_training(cls, clf: StreamClassifier) -> Judged:
        """References, each with a part of one of another time; stand-ins for new steps."""
        widest = max(clf.experts_, key=lambda expert: expert.windows.width)
        start, codes, width = widest.windows.start, widest.codes, widest.windows.width
        rows = np.arange(0, len(start), max(1, -(-len(start) // MOST_JUDGED)))
        nearby = rows_nearby(start, codes, held_out_gap(start, codes, width))[rows]
        windows = widest.steps[start[rows, None] + np.arange(width)]
        block = rows // block_length(clf)
        other = np.random.default_rng(0).permutation(len(rows))
        part = np.where(block != block[other], MIXED, 0.0)[:, None, None]
        windows = (1 - part) * windows + part * windows[other]
        return cls(windows, codes[rows], nearby, block)

    @classmethod
    def of_stream(cls, clf: StreamClassifier, stream: Stream) -> Judged:
        """Steps of another stream, evenly spaced."""
        known = np.flatnonzero(clf.predict(stream) != clf.unknown_)
        return cls.of_steps(clf, stream, known[:: max(1, -(-len(known) // MOST_JUDGED))])

    @classmethod
    def of_steps(cls, clf: StreamClassifier, stream: Stream, rows: Ints) -> Judged:
        """These steps of another stream, each of which has a window."""
        place = np.searchsorted(clf.classes_, stream.states[rows]).clip(0, len(clf.classes_) - 1)
        codes = np.where(clf.classes_[place] == stream.states[rows], place, -1)
        windows = clf.features_(stream)[rows[:, None] - np.arange(clf.width_)[::-1]]
        nowhere = np.zeros((len(rows), 2), np.int64)
        return cls(windows, codes, nowhere, rows // block_length(clf))


def block_length(clf: StreamClassifier) -> int:
    """How many steps are near-copies: features look back, too, and further than narrow windows."""
    return max(2 * clf.width_, clf.features_.lift.memory)


def decided(
    model: PlainModel, judged: Judged, own: PlainModel, rows: Ints | None = None
) -> Decision:
    """What a model says of windows.

    Parameters
    ----------
    own : PlainModel
        The model before anything was stored: its features are those of the windows.
    rows : array, optional
        Which of its references the model has; default all.
    """
    nearby = judged.nearby if rows is None else np.searchsorted(rows, judged.nearby)
    asks = [_Question(model, one) for one in model.experts]
    parts = [
        _decided(model, asks, judged.windows[some], nearby[some])
        for first in range(0, len(nearby), AT_A_TIME)
        for some in [slice(first, first + AT_A_TIME)]
    ]
    return Decision(*map(np.concatenate, zip(*parts, strict=True)))


def _decided(model: PlainModel, asks: list[_Question], windows: Floats, nearby: Ints) -> Decision:
    codes, n_states = model.codes, len(model.states)
    nearest = np.empty((len(asks), len(windows), n_states))
    for ask, by_state in zip(asks, nearest, strict=True):
        distance = np.sqrt(np.maximum(ask.squares(windows), 0.0))
        for i, (begin, end) in enumerate(nearby):
            distance[i, begin:end] = np.inf
        for s in range(n_states):
            by_state[:, s] = distance[:, codes == s].min(axis=1, initial=np.inf)
    if model.n_neighbors > 1:
        order = np.argsort(distance, axis=1, kind="stable")[:, : model.n_neighbors]
        return decide_by_votes(np.take_along_axis(distance, order, 1), order, codes, n_states)
    return decide(model.rule, nearest)


class _Question:
    """What an expert has of its references, prepared for many windows."""

    def __init__(self, model: PlainModel, one: PlainExpert | PlainForest) -> None:
        self.one, self._late = one, model.width - one.width
        if isinstance(one, PlainForest):
            self._points, self._own = one.points, (one.points**2).sum(axis=1)
            return
        start = model.start + self._late
        self._points = model.seen_by(one).reshape(len(start), -1)
        self._own = one.squares(model.steps, start)
        self._metric = one.as_matrix()

    def squares(self, windows: Floats) -> Floats:
        """Squared distances (n, references) of windows (n, w, F)."""
        one = self.one
        seen = windows[:, self._late :, one.columns]
        if isinstance(one, PlainForest):
            mapped = flat = one.points_of(seen)
        else:
            flat = seen.reshape(len(seen), -1)
            mapped = flat @ self._metric
        own = (flat * mapped).sum(axis=1)
        found: Floats = own[:, None] - 2 * (mapped @ self._points.T) + self._own
        return found


@dataclass(frozen=True)
class Agreed:
    """How many decisions are those of the whole model, and how many are right.

    ``least`` is how many are to be expected on new steps. ``right`` and ``model_right`` are of what
    is exported and of the model; NaN without labels.
    """

    same: float
    least: float
    n: int
    where: str
    right: float = np.nan
    model_right: float = np.nan

    def __str__(self) -> str:
        said = f"{self.same:.1%} of the decisions are those of the model, {self.where}."
        if self.least < self.same:
            said += f" Expect {self.least:.0%} to 100% on new steps; --on counts them."
        if not np.isnan(self.right):
            said += f" {self.right:.1%} are right, of the model {self.model_right:.1%}."
        return said


class Agreement:
    """Counts the decisions that stay the same, of the very numbers that are written.

    Parameters
    ----------
    clf : StreamClassifier
    whole : PlainModel
        All of it.
    stream : Stream, optional
        Where they are counted; default stand-ins from the training stream. Every second block of
        these is for choosing between models, and none of them is counted.
    """

    def __init__(
        self, clf: StreamClassifier, whole: PlainModel, stream: Stream | None = None
    ) -> None:
        self._whole = whole
        training = Judged.of_training(clf)
        for_choice = training.block % 2 == 0
        alone = not for_choice.all()  # are there two blocks at all?
        rows = np.flatnonzero(~for_choice if alone else for_choice)
        judged = training.take(rows) if stream is None else Judged.of_stream(clf, stream)
        if not len(judged.codes):
            raise InputError("the recording has no step that the model decides")
        self._parts = judged, training.take(np.flatnonzero(for_choice))
        self._wanted = [decided(whole, part, whole).codes for part in self._parts]
        self._is_new = stream is not None
        self._has_truth = self._is_new and bool((judged.codes >= 0).any())
        self.for_choice = self._parts[1].windows
        n = len(judged.codes)
        part = " that had no part in choosing" if alone else ""
        self.where = (
            f"on {n:,} windows of the training stream{part}, each mixed with one of another time"
            if stream is None
            else f"on {n:,} steps of the recording"
        )

    def of(self, stored: PlainModel, rows: Ints) -> Agreed:
        """Of a model with these of the references."""
        judged, wanted = self._parts[0], self._wanted[0]
        told = decided(stored, judged, self._whole, rows).codes
        same, n = float((told == wanted).mean()), len(told)
        least = same if self._is_new else max(0.0, 1 - MORE_CHANGE * max(1 - same, 1 / n))
        if not self._has_truth:
            return Agreed(same, least, n, self.where)
        known = judged.codes >= 0
        right = [float((one == judged.codes)[known].mean()) for one in (told, wanted)]
        return Agreed(same, least, n, self.where, *right)

    def chosen_by(self, stored: PlainModel, rows: Ints) -> float:
        """The same by the windows that are for choosing."""
        told = decided(stored, self._parts[1], self._whole, rows).codes
        return float((told == self._wanted[1]).mean())
