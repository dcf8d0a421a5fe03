"""Predicting a stream piece by piece: the same, to the last bit, as predicting it whole.

What a piece needs of those before it is little: the running sums of the lift, the features of the
last steps, which its first windows share, and the belief of the state filter. So memory does not
grow with the stream. :meth:`mlat.StreamClassifier.predict` goes this way, too.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import work
from ..base.checks import Bools, Floats, Ints
from ..neighbours.references import check_channels
from ..stream.stream import Stream
from .decision import nothing_decided
from .intake import BEGINS, KNOWN, Intake
from .searches import ExpertSearches
from .state_filter import Belief

if TYPE_CHECKING:
    from .classifier import StreamClassifier

STEPS = 8192  # predicted at a time: a report of progress after each
# Times the typical distance. On development recordings 2 of 100 windows of known states are farther
# in the half that was not learned from, and of four states that were left out 2, 57, 73 and 99.
UNLIKE = 3.0
GAP, NOTHING = -1, -2  # what broke a window, where no value was missing


class Predicted(NamedTuple):
    """What is predicted for T steps.

    Attributes
    ----------
    states : array of shape (T,)
    proba : array of shape (T, S)
        The probability of each state; NaN without a complete window.
    complete : array of shape (T,)
        Which steps end a complete window.
    broken_by : array of shape (T,)
        What broke the window that ends at each step, last: the channel that missed a value, -1 for
        the start of a recording or a gap in time, and -2 for nothing.
    since : array of shape (T,)
        How many steps ago that was, the step itself included; at most the width of a window.
    distance : array of shape (T,)
        To the nearest reference of any state; NaN without a complete window.
    """

    states: NDArray[Any]
    proba: Floats
    complete: Bools
    broken_by: Ints
    since: Ints
    distance: Floats


def unlike_beyond(classifier: StreamClassifier) -> float:
    """The distance beyond which a window is unlike anything that the classifier knows.

    For words alone: its state is still named. How often windows of known states are farther depends
    on how much recordings differ; ``unknown_rate`` is for a threshold that is held.
    """
    return UNLIKE * classifier.confidence_.calibration.typical


def warn_unless_adapted(classifier: StreamClassifier) -> None:
    """Warn of a classifier that is to be adapted to whom it predicts, and is not yet."""
    if classifier.units_ is not None and not classifier.units_.adapted:
        warnings.warn(
            "this model was learned from several groups, each in units of its own, and predicts a "
            "new one better once it knows the units of that: adapt it to a recording of it, of "
            "which no step needs a state, or enrol one with states",
            UserWarning,
            stacklevel=4,
        )


class PiecePredictor:
    """Predicts the pieces of one stream, in their order.

    Parameters
    ----------
    classifier : fitted StreamClassifier
    filtered : bool, default=False
        Apply the state filter.
    n_steps : int, default=0
        Of the whole stream, for reports of progress; 0 where nobody knows.
    """

    def __init__(
        self, classifier: StreamClassifier, *, filtered: bool = False, n_steps: int = 0
    ) -> None:
        warn_unless_adapted(classifier)
        self._classifier, self._filtered = classifier, filtered
        self._n_steps, self._done = n_steps, 0
        self._intake = Intake(classifier.features_, classifier.width_)
        self._memory = self._intake.start()
        self._searches = ExpertSearches(classifier, exactly=True)
        # The last steps and their features: one at least, to know whether the next follows it.
        self._n_kept = max(classifier.width_ - 1, 1)
        self._kept: Stream | None = None
        self._recent = np.empty((0, classifier.features_.n_features))
        self._belief: Belief | None = None
        self._warned = False

    def push(self, piece: Stream) -> Predicted:
        """The states of the next steps.

        Raises
        ------
        InputError
            If the piece has other channels.

        Warns
        -----
        UserWarning
            Of the first value that is too extreme to be compared; such values count as missing.
        """
        check_channels(piece, self._classifier.channels_)
        begins = range(0, max(len(piece), 1), STEPS)
        parts = [self._push(piece[begin : begin + STEPS]) for begin in begins]
        if len(parts) == 1:
            return parts[0]
        return Predicted(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def _push(self, piece: Stream) -> Predicted:
        classifier = self._classifier
        piece = self._without_extremes(piece)
        stream = piece if self._kept is None else self._kept.followed_by(piece)
        before = len(stream) - len(piece)
        values = np.asarray(piece.values, dtype=np.float64)
        taken = self._intake.take(self._memory, values, stream.gap_before[before:])
        features, complete = np.concatenate([self._recent, taken.features]), taken.why == KNOWN
        self._recent = features[len(features) - min(self._n_kept, len(features)) :]
        if complete.any():
            seen = partial(self._searches.seen, features, len(piece))
            decision = self._searches.decide(seen, complete)
        else:
            decision = nothing_decided(len(piece), len(classifier.classes_), 1, 1)
        codes, proba = decision.codes, decision.proba
        known = complete
        if self._filtered:
            proba, self._belief = classifier.confidence_.filter(
                taken.marks == BEGINS, proba, classifier.n_neighbors_, self._belief
            )
            codes = np.where(known, np.nan_to_num(proba).argmax(axis=1), -1)
        states = np.full(len(piece), classifier.unknown_, dtype=classifier.classes_.dtype)
        known = known & ~(decision.distance > classifier.confidence_.threshold)
        states[known] = classifier.classes_[codes[known]]
        broken_by, since = _breaks(stream, classifier.width_)
        self._kept = stream[max(0, len(stream) - self._n_kept) :]
        self._done += len(piece)
        work.report("steps", self._done, self._n_steps, {})
        broken = broken_by[before:], since[before:]
        return Predicted(states, proba, complete, *broken, decision.distance)

    def _without_extremes(self, piece: Stream) -> Stream:
        features = self._classifier.features_
        extreme = features.channels.extremes(piece.values)
        if extreme is None:
            return piece
        if not self._warned:
            message = features.describe(extreme, piece.values, piece.channels)
            warnings.warn(message, UserWarning, stacklevel=4)
            self._warned = True
        return piece.without(extreme)


def _breaks(stream: Stream, width: int) -> tuple[Ints, Ints]:
    """What broke the window that ends at each step, and since when; see :class:`Predicted`."""
    at = np.arange(len(stream))
    breaks = stream.gap_before | stream.missing
    breaks[:1] = True
    last = np.maximum.accumulate(np.where(breaks, at, 0))
    channel = np.isnan(stream.values[last]).argmax(axis=1)
    since = np.minimum(at - last + ~stream.missing[last], width)
    by = np.where(stream.missing[last], channel, GAP)
    return np.where(since == width, NOTHING, by), since
