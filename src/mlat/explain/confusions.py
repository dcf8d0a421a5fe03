"""The confusion matrix of predicted and true states, and whether it is better than guessing.

Successive steps are near-copies of each other, so a thousand steps of one run are hardly more
evidence than one. :attr:`Confusions.p_value` therefore counts runs: it asks how often the balanced
accuracy would be as high if the states had been dealt to the runs at random.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from ..base.checks import Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..stream.conversion import as_states, changes, no_state
from ..stream.stream import Stream

# A p-value above this is not better than guessing: one model in twenty that learned nothing passes.
LEVEL = 0.05
# For a stream that judged itself. More that learned nothing would pass: the two sides judge each
# other, so both are lucky or neither, and the settings may have been chosen for this very result.
HELD_OUT_LEVEL = 0.01
N_DRAWS = 1999  # of runs, for the interval
N_DEALS = 1999  # random deals of the states to the runs, where there are more than so many

BETTER, NOT_BETTER, TOO_FEW_RUNS = "better", "not better", "too few runs"


@dataclass(frozen=True, eq=False, repr=False)
class Confusions(ShortRepr):
    """How often each state is predicted for each.

    Attributes
    ----------
    states : array of shape (S,)
        Every state that is true or predicted somewhere, or given as known; sorted.
    n_unjudged : int
        Steps with a state, but without a predicted one.
    run_states : array of shape (R,)
        The true state of each run that has a judged step, as an index into ``states``.
    run_counts : array of shape (R, S + 1)
        The judged steps of each run by their predicted state; the last column is the unknown one.
    run_recordings : array of shape (R,), optional
        The recording that each run is in; None of a stream that is one.
    """

    states: NDArray[Any]
    n_unjudged: int
    run_states: Ints
    run_counts: Ints
    run_recordings: NDArray[Any] | None = None

    @cached_property
    def _by_state(self) -> Ints:
        """The judged steps by their true and predicted state, (S, S + 1)."""
        counts = np.zeros((len(self.states), len(self.states) + 1), np.int64)
        np.add.at(counts, self.run_states, self.run_counts)
        return counts

    @property
    def counts(self) -> Ints:
        """The judged steps by their true (row) and predicted (column) state, (S, S)."""
        return self._by_state[:, :-1]

    @property
    def unknown(self) -> Ints:
        """Judged steps of each true state that were given the unknown one, (S,): wrong as well."""
        return self._by_state[:, -1]

    @property
    def n_judged(self) -> int:
        return int(self.n_steps.sum())

    @property
    def n_steps(self) -> Ints:
        """The judged steps in each state, (S,)."""
        steps: Ints = self._by_state.sum(axis=1)
        return steps

    @property
    def n_runs(self) -> int:
        """Runs with a judged step: how much evidence there is."""
        return len(self.run_states)

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
        return _fraction(np.diagonal(self.counts), self.n_steps)

    @property
    def precision(self) -> Floats:
        """Of the steps predicted as each state, the fraction in it, (S,); NaN of none."""
        return _fraction(np.diagonal(self.counts), self.counts.sum(axis=0))

    @property
    def balanced_accuracy(self) -> float:
        """The mean of the recall of every state that has a judged step; NaN where none is."""
        return _balanced(self.run_counts, self.run_states[None])[0] if self.n_runs else math.nan

    @property
    def guessing(self) -> float:
        """The balanced accuracy of whoever always says the same state; NaN of no step."""
        return 1 / np.count_nonzero(self.n_steps) if self.n_judged else math.nan

    @property
    def most_frequent(self) -> tuple[Any, float]:
        """The most frequent state, and the accuracy of whoever always says it."""
        most = int(np.argmax(self.n_steps))
        return self.states[most], self.n_steps[most] / max(self.n_judged, 1)

    @cached_property
    def p_value(self) -> float:
        """How probable so high a balanced accuracy is where predictions tell nothing of states.

        By permutation: the fraction of the ways to deal the runs' states to the runs under which
        the same predictions have a balanced accuracy as high. All ways are tried where they are at
        most ``N_DEALS``, else so many at random, always the same.
        """
        if not self.n_runs:
            return math.nan
        per_state = np.bincount(self.run_states).tolist()
        if self._n_ways <= N_DEALS:
            deals = np.array(list(_deals(per_state)))
        else:
            rng = np.random.default_rng(0)
            deals = rng.permuted(np.tile(self.run_states, (N_DEALS, 1)), axis=1)
            deals = np.concatenate([self.run_states[None], deals])
        as_high = _balanced(self.run_counts, deals) >= self.balanced_accuracy - 1e-9
        return float(as_high.mean())

    @cached_property
    def by_recording(self) -> dict[Any, Confusions]:
        """The same of each recording; empty where there is one, or the usual one has one state."""
        if self.run_recordings is None or not self.n_runs:
            return {}
        found = {}
        for name in np.unique(self.run_recordings).tolist():
            mine = self.run_recordings == name
            runs = {"run_states": self.run_states[mine], "run_counts": self.run_counts[mine]}
            found[name] = replace(self, n_unjudged=0, **runs, run_recordings=None)
        usual = np.median([np.count_nonzero(one.n_steps) for one in found.values()])
        return found if len(found) > 1 and usual > 1 else {}

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Where the balanced accuracy lies nine times in ten: of another recording, or of runs.

        Of several recordings by their spread, as another one is as different as these are from each
        other. Of one by the bootstrap: the runs of each state are drawn anew. None where a state
        has one run.
        """
        if self.by_recording:
            own = np.array([one.balanced_accuracy for one in self.by_recording.values()])
            spread = np.sqrt(np.var(own, ddof=1) * (1 + 1 / len(own)))
            off = float(student.ppf(0.95, len(own) - 1) * spread)
            return max(float(own.mean()) - off, 0.0), min(float(own.mean()) + off, 1.0)
        of_state = [np.flatnonzero(self.run_states == code) for code in np.unique(self.run_states)]
        if not of_state or min(map(len, of_state)) < 2:
            return None
        rng = np.random.default_rng(0)
        right = self.run_counts[np.arange(self.n_runs), self.run_states]
        steps, drawn = self.run_counts.sum(axis=1), np.zeros(N_DRAWS)
        for runs in of_state:
            chosen = rng.choice(runs, (N_DRAWS, len(runs)))
            drawn += right[chosen].sum(axis=1) / steps[chosen].sum(axis=1)
        low, high = np.quantile(drawn / len(of_state), [0.05, 0.95]).tolist()
        return low, high

    def verdict(self, level: float = LEVEL) -> str:
        """Whether it is better than guessing: ``"better"``, ``"not better"``, ``"too few runs"``.

        Better is a p-value of at most ``level``, or the smallest that the runs allow. Too few are
        runs of which even the best result has a p-value above 5 %, such as two runs of each of two
        states, or any number of a single state.
        """
        if np.count_nonzero(self.n_steps) == 1:
            return TOO_FEW_RUNS
        if not self.balanced_accuracy > self.guessing:
            return NOT_BETTER
        smallest = 1 / self._n_ways
        if smallest > LEVEL:
            return TOO_FEW_RUNS
        return BETTER if self.p_value <= max(level, smallest) else NOT_BETTER

    @property
    def _n_ways(self) -> int:
        """How many ways there are to deal the runs' states to the runs."""
        per_state = np.bincount(self.run_states).tolist()
        return math.factorial(self.n_runs) // math.prod(map(math.factorial, per_state))


def count_confusions(
    stream: Stream | ArrayLike,
    predicted: ArrayLike,
    *,
    known: ArrayLike = (),
    complete: ArrayLike | None = None,
) -> Confusions:
    """Count every step that has a true and a predicted state.

    Parameters
    ----------
    stream : Stream, or array of shape (T,)
        The true states. A run ends where the state changes, or in a stream the recording.
    predicted : array of shape (T,)
        The unknown state (``""`` or -1) is not judged, unless ``complete`` says so.
    known : array, optional
        States that appear in the result even if no step is in them.
    complete : array of shape (T,), optional
        Which steps end a complete window. There the unknown state is judged, and wrong.

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
    recordings = stream.recordings if isinstance(stream, Stream) else None
    counter = ConfusionCounter(known)
    counter.add(true, as_states(predicted, n_steps, ours=True), complete, recordings)
    return counter.found()


def held_out_confusions(clf: StreamClassifier) -> Confusions | None:
    """Of the held-out runs of a classifier's training stream; None where nothing was held out."""
    held_out = clf.held_out_
    if held_out is None:
        return None
    counter = ConfusionCounter(clf.classes_)
    told = clf.classes_[held_out.codes], clf.classes_[held_out.predicted]
    counter.add(*told, recordings=held_out.run)  # of which each is as far as one of another
    return replace(counter.found(), run_recordings=None)


class ConfusionCounter:
    """Counts the confusions of a stream that comes in pieces; see :func:`count_confusions`."""

    def __init__(self, known: ArrayLike = ()) -> None:
        self._states = set(np.asarray(known).tolist())
        self._n_labelled = self._n_judged = 0
        self._run = -1
        self._last: tuple[Any, Any] | None = None
        self._counts: Counter[tuple[int, Any]] = Counter()  # of each run and predicted state
        self._runs: dict[int, tuple[Any, Any]] = {}  # the true state and the recording of each

    def add(
        self,
        true: NDArray[Any],
        answers: NDArray[Any],
        complete: ArrayLike | None = None,
        recordings: NDArray[Any] | None = None,
    ) -> None:
        """Count the next steps; all have shape (T,).

        Raises
        ------
        InputError
            If true states are names and predicted ones numbers, or the other way round.
        """
        labelled, answered = true != no_state(true), answers != no_state(answers)
        if labelled.any() and answered.any() and true.dtype.kind != answers.dtype.kind:
            raise InputError("some states are names and others numbers; predict with the same kind")
        judged = labelled & answered
        self._states.update(np.unique(true[labelled]).tolist(), np.unique(answers[judged]).tolist())
        if complete is not None:
            judged = labelled & (answered | np.asarray(complete, dtype=bool))
        self._n_labelled += int(labelled.sum())
        self._n_judged += int(judged.sum())
        if not labelled.any():
            return
        of = None if recordings is None else recordings[labelled]
        runs = np.full(len(true), -1, np.int64)
        runs[labelled] = self._run_numbers(true[labelled], of)
        numbers, first = np.unique(runs[labelled], return_index=True)
        recorded = [None] * len(first) if of is None else of[first].tolist()
        states = true[labelled][first].tolist()
        self._runs.update(zip(numbers.tolist(), zip(states, recorded, strict=True), strict=True))
        names, code = np.unique(answers, return_inverse=True)
        answer = [*names.tolist(), None]
        told = np.where(answered[judged], code[judged], len(names))
        cells, counts = np.unique(runs[judged] * len(answer) + told, return_counts=True)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            run, column = divmod(cell, len(answer))
            self._counts[run, answer[column]] += count

    def _run_numbers(self, states: NDArray[Any], recordings: NDArray[Any] | None) -> Ints:
        """The number of the run that each labelled step is in, (T,).

        What lies between two steps of one state, such as a missing value or steps without a state,
        makes no further run of them: that would be more evidence than there is.
        """
        begins = changes(states, len(states)) | changes(recordings, len(states))
        first = (states[0], None if recordings is None else recordings[0])
        begins[0] = first != self._last
        self._last = (states[-1], None if recordings is None else recordings[-1])
        numbers: Ints = self._run + np.cumsum(begins)
        self._run = int(numbers[-1])
        return numbers

    def found(self) -> Confusions:
        """The confusions of all steps so far.

        Raises
        ------
        InputError
            If no step has a state.
        """
        if not self._n_labelled:
            raise InputError("the stream has no states to compare the predicted ones with")
        states = np.array(sorted(self._states))
        code = {state: i for i, state in enumerate(states.tolist())}
        place = {run: i for i, run in enumerate(sorted({run for run, _ in self._counts}))}
        run_counts = np.zeros((len(place), len(states) + 1), np.int64)
        for (run, told), count in self._counts.items():
            run_counts[place[run], code.get(told, len(states))] = count
        runs = [self._runs[run] for run in place]
        is_recorded = any(recording is not None for _, recording in runs)
        return Confusions(
            states,
            self._n_labelled - self._n_judged,
            np.array([code[state] for state, _ in runs], np.int64),
            run_counts,
            np.array([recording for _, recording in runs]) if is_recorded else None,
        )


def _balanced(run_counts: Ints, deals: Ints) -> Floats:
    """The balanced accuracy under each deal (m, R) of states to the runs, shape (m,)."""
    n_deals, n_runs = deals.shape
    size = run_counts.shape[1]
    cells = (np.arange(n_deals)[:, None] * size + deals).ravel()
    right = np.bincount(
        cells, run_counts[np.arange(n_runs), deals].ravel(), minlength=n_deals * size
    )
    steps = np.bincount(cells, np.tile(run_counts.sum(axis=1), n_deals), minlength=n_deals * size)
    recall = _fraction(right, steps).reshape(n_deals, size)
    balanced: Floats = np.nanmean(recall, axis=1)
    return balanced


def _deals(per_state: list[int]) -> Iterator[tuple[int, ...]]:
    """Every way to deal so many of each state to the runs."""
    if not any(per_state):
        yield ()
    for state, n in enumerate(per_state):
        if n:
            left = [*per_state[:state], n - 1, *per_state[state + 1 :]]
            for rest in _deals(left):
                yield (state, *rest)


def _fraction(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
