"""From the labels of the nearest neighbours to a prediction."""

from __future__ import annotations

import numpy as np

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..base.errors import InputError


def vote(labels: Ints, distances: Floats, n_classes: int) -> tuple[Ints, Floats]:
    """The label that most neighbours have, and each label's fraction of the neighbours.

    A tie goes to the label whose neighbours have the smaller sum of distances, and if that is
    equal too, to the label that comes first. The fraction of the label that wins a tie is greater
    by the last bit, so that the label is always that of the greatest fraction.

    Parameters
    ----------
    labels : array of shape (n, k)
        The label of each neighbour, as a number from 0 to ``n_classes - 1``.
    distances : array of shape (n, k)
    n_classes : int

    Returns
    -------
    codes : array of shape (n,)
    proba : array of shape (n, n_classes)

    Raises
    ------
    InputError

    Examples
    --------
    >>> codes, proba = vote(np.array([[0, 1, 1, 0]]), np.array([[1.0, 2.0, 3.0, 4.5]]), 2)
    >>> codes.tolist(), proba.round(6).tolist(), int(proba[0].argmax())
    ([1], [[0.5, 0.5]], 1)
    """
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    distances = np.ascontiguousarray(distances, dtype=np.float64)
    if labels.ndim != 2 or labels.shape != distances.shape or not labels.shape[1]:
        raise InputError(
            f"labels and distances of neighbours must have one shape (n, k), not {labels.shape} "
            f"and {distances.shape}"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        raise InputError(
            f"labels of neighbours must be 0 to {n_classes - 1}, not {labels.min()} to "
            f"{labels.max()}"
        )
    codes = np.empty(len(labels), dtype=np.int64)
    votes = np.zeros((len(labels), n_classes))
    _count(labels, distances, votes, codes)
    votes /= labels.shape[1]
    tied = np.flatnonzero(votes.argmax(axis=1) != codes)
    votes[tied, codes[tied]] = np.nextafter(votes[tied, codes[tied]], 2.0)
    return codes, votes


@jit()
def _count(labels, distances, votes, codes):  # type: ignore[no-untyped-def]
    n, k = labels.shape
    total = np.zeros(votes.shape[1])
    for i in range(n):
        for j in range(k):
            votes[i, labels[i, j]] += 1.0
            total[labels[i, j]] += distances[i, j]
        best = labels[i, 0]
        for j in range(1, k):
            label = labels[i, j]
            if votes[i, label] > votes[i, best] or (
                votes[i, label] == votes[i, best] and (total[label], label) < (total[best], best)
            ):
                best = label
        codes[i] = best
        # Only the labels seen are cleared: with many classes the rest would cost more than voting.
        for j in range(k):
            total[labels[i, j]] = 0.0
