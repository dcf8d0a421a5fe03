"""What a model goes by: which features at which lags separate its states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.checks import Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..metric.nearest import Places, nearest
from ..neighbours.references import References
from .attribution import Parts
from .experts import expert_of

MAX_JUDGED = 300  # references by which usage is judged


@dataclass(frozen=True, eq=False, repr=False)
class Usage(ShortRepr):
    """What a model goes by, as :func:`measure_usage` defines it.

    Attributes
    ----------
    own, other : Parts
        Mean parts of the squared distance of a reference to the nearest of its own state and to
        the nearest of the others.
    n_judged : int
        The number of references in the mean.
    features : tuple of d' names
    channels : array of shape (d',)
        The channel of each feature.
    """

    own: Parts
    other: Parts
    n_judged: int
    features: tuple[str, ...]
    channels: Ints

    @property
    def fractions(self) -> Parts:
        """``other - own`` as fractions of the mean squared distance to the nearest other state."""
        return (self.other - self.own) / self.other.total


def measure_usage(
    clf: StreamClassifier, *, expert: int | str | None = None, max_judged: int = MAX_JUDGED
) -> Usage:
    """What separates the states of a model, by feature and lag, over its own references.

    For references x, evenly taken from all states, let h be the nearest of the same state from
    another run (where the state has one run only, at least a window away) and o the nearest of
    another state. The use of feature f at lag m is::

        U(m, f) = mean of [ P(m, f) of x - o  less  P(m, f) of x - h ]  /  mean of D(x, o)

    The sum of all U is the fraction by which the own state is nearer than the other; U(m, f) is the
    part of a feature at a lag. A weight on what never varies adds nothing, and neither does what
    varies as much within a state as between states. The metric was learned from these references,
    so the sum is larger than on a new stream.

    Parameters
    ----------
    clf : fitted StreamClassifier
    expert : int or str, optional
        Of a committee: which of ``clf.experts_``, by its place or its name.
    max_judged : int, default=300
    """
    judged, seen = _spread_over_states(clf, max_judged), expert_of(clf, expert)
    references = seen.references
    own, other = _nearest_own_and_other(references, judged)
    known = own >= 0
    if not known.any():
        raise InputError(
            "every state has a single run of less than two windows, so there is nothing to judge "
            "the model's usage by; learn from more runs"
        )
    judged, own, other = judged[known], own[known], other[known]
    X = seen.windows(judged)
    return Usage(
        own=seen.parts(X, seen.windows(own)),
        other=seen.parts(X, seen.windows(other)),
        n_judged=len(judged),
        features=seen.features,
        channels=seen.channels,
    )


def _spread_over_states(clf: StreamClassifier, most: int) -> Ints:
    """At most ``most`` rows of references, equally many of each state, evenly spaced."""
    each = max(most // len(clf.classes_), 1)
    chosen = []
    for state in clf.classes_:
        rows = np.flatnonzero(clf.windows_.y == state)
        places = np.linspace(0, len(rows) - 1, min(each, len(rows))).round().astype(int)
        chosen.append(rows[places])
    return np.concatenate(chosen)


def _nearest_own_and_other(references: References, judged: Ints) -> tuple[Ints, Ints]:
    """For each judged reference the nearest of its state and of the others; -1 for none."""
    windows, Z = references.windows, references.embedded()
    own, other = np.full(len(judged), -1, np.int64), np.full(len(judged), -1, np.int64)
    for state in references.classes:
        at = np.flatnonzero(windows.y[judged] == state)
        same, different = np.flatnonzero(windows.y == state), np.flatnonzero(windows.y != state)
        # Of several runs another one; of a single run windows that share no step.
        several = len(np.unique(windows.run[same])) > 1
        gap = np.full(len(windows), np.iinfo(np.int64).max if several else windows.width)
        places = Places(np.arange(len(windows)), windows.start, windows.run, gap)
        both = places.take(judged[at]), places.take(same)
        Q = Z[judged[at]]
        own[at] = nearest(Q, Z[same], 1, rows=same, places=both).rows[:, 0]
        other[at] = nearest(Q, Z[different], 1, rows=different).rows[:, 0]
    return own, other
