"""The confusion matrix of predicted and true states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Floats, Ints
from ..errors import InputError
from ..stream.conversion import as_states, no_state
from ..stream.stream import Stream


@dataclass(frozen=True, eq=False)
class Confusions:
    """How often each state is predicted for each.

    Attributes
    ----------
    states : array of shape (S,)
        Every state that is true or predicted somewhere, or given as known; sorted.
    counts : array of shape (S, S)
        Judged steps by their true (row) and predicted (column) state.
    n_unjudged : int
        Steps with a state, but without a predicted one.
    """

    states: NDArray[Any]
    counts: Ints
    n_unjudged: int

    @property
    def n_judged(self) -> int:
        return int(self.counts.sum())

    @property
    def n_right(self) -> int:
        return int(np.trace(self.counts))

    @property
    def accuracy(self) -> float:
        """The fraction of judged steps that are predicted right; NaN where none is judged."""
        return self.n_right / self.n_judged if self.n_judged else float("nan")

    @property
    def recall(self) -> Floats:
        """Of the steps in each state, the fraction that is predicted so, (S,); NaN of none."""
        return _fraction(np.diagonal(self.counts), self.counts.sum(axis=1))

    @property
    def precision(self) -> Floats:
        """Of the steps predicted as each state, the fraction in it, (S,); NaN of none."""
        return _fraction(np.diagonal(self.counts), self.counts.sum(axis=0))


def count_confusions(
    stream: Stream | ArrayLike, predicted: ArrayLike, *, known: ArrayLike = ()
) -> Confusions:
    """Count every step that has a true and a predicted state.

    Parameters
    ----------
    stream : Stream, or array of shape (T,)
        The true states.
    predicted : array of shape (T,)
        The unknown state (``""`` or -1) is not judged.
    known : array, optional
        States that appear in the result even if no step is in them.

    Examples
    --------
    >>> found = count_confusions(["a", "a", "b", "b", ""], ["", "a", "a", "b", "b"])
    >>> found.states.tolist(), found.counts.tolist(), found.n_unjudged
    (['a', 'b'], [[1, 0], [1, 1]], 1)
    """
    n_steps = np.shape(predicted)[0]
    true = stream.states if isinstance(stream, Stream) else as_states(stream, n_steps, ours=True)
    if len(true) != n_steps:
        raise InputError(f"there are {n_steps} predicted states for {len(true)} steps")
    answers = as_states(predicted, n_steps, ours=True)
    labelled, answered = true != no_state(true), answers != no_state(answers)
    if not labelled.any():
        raise InputError("the stream has no states to compare the predicted ones with")
    if answered.any() and true.dtype.kind != answers.dtype.kind:
        raise InputError("some states are names and others numbers; predict with the same kind")
    judged = labelled & answered
    named = [np.asarray(known), true[labelled], answers[judged]]
    states = np.unique(np.concatenate([part for part in named if len(part)]))
    size = len(states)
    cell = np.searchsorted(states, true[judged]) * size + np.searchsorted(states, answers[judged])
    counts = np.bincount(cell, minlength=size * size).reshape(size, size)
    return Confusions(states, counts, int((labelled & ~answered).sum()))


def _fraction(part: Ints, whole: Ints) -> Floats:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
