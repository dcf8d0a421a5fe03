"""What a model goes by: which features at which lags separate its states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import Ints
from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..neighbours.references import References
from .attribution import Parts, split
from .explanation import metric_before_whitening

MAX_JUDGED = 300  # references by which usage is judged


@dataclass(frozen=True, eq=False)
class Usage:
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


def measure_usage(clf: StreamClassifier, *, max_judged: int = MAX_JUDGED) -> Usage:
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
    max_judged : int, default=300
    """
    judged = _spread_over_states(clf, max_judged)
    references = clf.references_
    own, other = _nearest_own_and_other(references, judged)
    known = own >= 0
    if not known.any():
        raise InputError(
            "every state has a single run of less than two windows, so there is nothing to judge "
            "the model's usage by; learn from more runs"
        )
    judged, own, other = judged[known], own[known], other[known]
    X, metric = references[judged], metric_before_whitening(clf)
    return Usage(
        own=split(X - references[own], metric),
        other=split(X - references[other], metric),
        n_judged=len(judged),
        features=tuple(clf.feature_names_),
        channels=clf.feature_channels_,
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
    windows = references.windows
    single = [s for s in references.classes if len(np.unique(windows.run[windows.y == s])) == 1]
    of_single = np.isin(windows.y[judged], single)[:, None]
    Q = references.embedded(judged)
    best = np.full((2, len(judged)), np.inf)
    found = np.full((2, len(judged)), -1, np.int64)
    for rows, Z in references.embedded_blocks():
        squared = (Q**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * Q @ Z.T
        same = windows.y[judged][:, None] == windows.y[rows]
        apart = np.abs(windows.start[judged][:, None] - windows.start[rows]) >= windows.width
        other_run = windows.run[judged][:, None] != windows.run[rows]
        for i, allowed in enumerate((same & np.where(of_single, apart, other_run), ~same)):
            candidates = np.where(allowed, squared, np.inf)
            nearest = candidates.argmin(axis=1)
            value = np.take_along_axis(candidates, nearest[:, None], axis=1)[:, 0]
            better = value < best[i]
            best[i, better], found[i, better] = value[better], nearest[better] + rows.start
    return found[0], found[1]
