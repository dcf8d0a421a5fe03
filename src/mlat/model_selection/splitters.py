"""Splitters that keep what lies together in time on one side.

They have the interface of scikit-learn's splitters and take what it cuts: a :class:`~mlat.Stream`,
values (T, d) with their states, or windows with theirs. Rows must be in the order of time, as a
stream and its windows are. A part of a stream knows where it was cut, and so does a pandas frame
by its index; with an array give the time (``time``, by metadata routing), or windows are taken
across the cuts. Rows that are copies of earlier ones, of a recording that was copied or is there in
two parts, are on neither side.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metadata_routing import MetadataRequest

from ..base.checks import Bools, Ints, check_whole
from ..base.errors import InputError
from ..stream.conversion import as_recordings, as_states, no_state
from ..stream.signs import copied_again, first_equal
from ..stream.stream import Stream

UNUSED = -1  # the fold of a row that is on neither side


@dataclass(eq=False)
class _Splitter(metaclass=ABCMeta):
    """Rows have folds; each fold is the test part once."""

    n_splits: int = 5
    _learns_every_state: ClassVar[bool] = True

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return check_whole(self.n_splits, "n_splits", 2)

    def get_metadata_routing(self) -> MetadataRequest:
        """``groups`` is taken where it is given, as by the group splitters of scikit-learn."""
        request = MetadataRequest(owner=self)
        request.split.add_request(param="groups", alias=True)
        return request

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Ints, Ints]]:
        """The training and the test rows of each fold, both in the order of time.

        Parameters
        ----------
        X : Stream, or array or frame of n rows
            Steps or windows, in the order of time.
        y : array of shape (n,), optional
            The state of each row; default those of the stream.
        groups : array of shape (n,), optional
            For `WholeRecordings` the recording of each row, for the others its run: ``run`` of
            :func:`~mlat.sliding_windows`. Default those of the stream; for the others also the
            successive rows of one state.

        Raises
        ------
        InputError
            If there are no states, or too few runs or recordings for the folds.

        Warns
        -----
        UserWarning
            Of copies of labelled rows, which are left out.
        """
        n_splits = self.get_n_splits()
        states = _states_of(X, y)
        again = _copies(X, states, groups)
        kept, fold = np.flatnonzero(~again), np.full(len(states), UNUSED)
        if again.any():
            warnings.warn(
                f"{int(again.sum())} of {len(fold)} rows are copies of earlier ones and are left "
                "out: one would predict the other",
                UserWarning,
                stacklevel=2,
            )
            X = X[kept] if isinstance(X, Stream) else X
            groups = None if groups is None else as_recordings(groups, len(fold))[kept]
        fold[kept] = self._folds(X, states[kept], groups, n_splits)
        for test in range(n_splits):
            learned = (fold != test) & (fold != UNUSED)
            learned &= ~self._too_near(fold == test)
            lost = np.setdiff1d(states[fold == test], states[learned])
            if len(lost) and self._learns_every_state:
                raise InputError(
                    f"nothing of state {lost[0]!s} is left to learn from in fold {test}; make "
                    "the gap smaller, or fewer folds"
                )
            yield np.flatnonzero(learned), np.flatnonzero(fold == test)

    @abstractmethod
    def _folds(self, X: Any, states: NDArray[Any], groups: Any, n_splits: int) -> Ints:
        """The fold of each row, shape (n,); ``UNUSED`` for none."""

    def _too_near(self, test: Bools) -> Bools:
        return np.zeros(len(test), dtype=bool)


class WholeRuns(_Splitter):
    """Whole runs are learned from or judged.

    No window of a test run shares a step with a training window. The runs of each state are dealt
    out evenly, so every state needs two or more. Where states come once each, use `GappedBlocks`.

    Parameters
    ----------
    n_splits : int, default=5

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat(["rest", "walk", "rest", "walk"], 3)
    >>> for train, test in WholeRuns(n_splits=2).split(np.zeros((12, 1)), y):
    ...     print(train, test)
    [ 6  7  8  9 10 11] [0 1 2 3 4 5]
    [0 1 2 3 4 5] [ 6  7  8  9 10 11]
    """

    def _folds(self, X: Any, states: NDArray[Any], groups: Any, n_splits: int) -> Ints:
        run = _runs_of(X, states, groups)
        fold = np.full(len(run), UNUSED)
        total = np.zeros(n_splits)
        labelled = (run >= 0) & (states != no_state(states))
        for state in np.unique(states[labelled]):
            runs, size = np.unique(run[labelled & (states == state)], return_counts=True)
            if len(runs) < 2:
                raise InputError(
                    f"state {state!s} has one run only, and cannot be both learned and judged by "
                    "whole runs; use GappedBlocks, which cuts runs"
                )
            here = np.zeros(n_splits)
            # The longest first, each to the fold that has least of this state.
            for which in np.argsort(-size, kind="stable"):
                chosen = int(np.lexsort((total, here))[0])
                fold[run == runs[which]] = chosen
                here[chosen] += size[which]
                total[chosen] += size[which]
        _check_all_used(fold, n_splits, "runs")
        return fold


class WholeRecordings(_Splitter):
    """Whole recordings, or people, are learned from or judged; every switch of states is judged.

    Recordings are dealt out by their length. Give them as ``groups``, or a stream that has them.
    A group that comes back later is the same group.

    Parameters
    ----------
    n_splits : int, default=5

    Warns
    -----
    UserWarning
        If a state is in the recordings of one fold only, so that it is judged and not learned.
    """

    _learns_every_state: ClassVar[bool] = False

    def _folds(self, X: Any, states: NDArray[Any], groups: Any, n_splits: int) -> Ints:
        if groups is None and isinstance(X, Stream):
            groups = X.recordings
        if groups is None:
            raise InputError(
                "nothing says which recording each row belongs to; give groups, or a stream with "
                "recordings"
            )
        names, code, size = np.unique(
            as_recordings(groups, len(states)), return_inverse=True, return_counts=True
        )
        if len(names) < n_splits:
            raise InputError(
                f"{len(names)} recordings are too few for {n_splits} folds; choose n_splits of at "
                f"most {len(names)}"
            )
        fold_of, total = np.zeros(len(names), dtype=np.int64), np.zeros(n_splits)
        for which in np.argsort(-size, kind="stable"):
            fold_of[which] = int(np.argmin(total))
            total[fold_of[which]] += size[which]
        fold = fold_of[code]
        for state in np.unique(states[states != no_state(states)]):
            if len(folds := np.unique(fold[states == state])) == 1:
                warnings.warn(
                    f"state {state!s} is in the recordings of fold {folds[0]} only, where nothing "
                    "of it is learned",
                    UserWarning,
                    stacklevel=4,
                )
        return fold


@dataclass(eq=False)
class GappedBlocks(_Splitter):
    """The time of each state is cut into blocks; what is near a test block is not learned from.

    For streams whose states have only one run or few. Each fold has a block of every state.

    Parameters
    ----------
    n_splits : int, default=5
    gap : int, default=110
        Rows on both sides of a test block that are not learned from. Give at least the width of
        the windows and the reach of the features together: what is then learned from shares no
        step with what is judged. The default is that of ``StreamClassifier()``, 10 and 100.
    """

    gap: int = 110

    def _folds(self, X: Any, states: NDArray[Any], groups: Any, n_splits: int) -> Ints:
        run = _runs_of(X, states, groups)
        fold = np.full(len(run), UNUSED)
        for state in np.unique(states[states != no_state(states)]):
            rows = np.flatnonzero((states == state) & (run >= 0))
            if len(rows) < n_splits:
                raise InputError(
                    f"state {state!s} has {len(rows)} rows, too few for {n_splits} folds"
                )
            fold[rows] = np.arange(len(rows)) * n_splits // len(rows)
        return fold

    def _too_near(self, test: Bools) -> Bools:
        gap = check_whole(self.gap, "gap", 0, unit="rows")
        rows = np.flatnonzero(test)
        edges = np.zeros(len(test) + 1, dtype=np.int64)
        np.add.at(edges, np.maximum(rows - gap, 0), 1)
        np.add.at(edges, np.minimum(rows + gap + 1, len(test)), -1)
        near: Bools = np.cumsum(edges[:-1]) > 0
        return near


def _states_of(X: Any, y: Any) -> NDArray[Any]:
    if y is not None:
        return as_states(y, len(X), ours=True)
    if isinstance(X, Stream) and X.labelled.any():
        return X.states
    raise InputError("nothing says which state each row is in; give y, or a labelled stream")


def _runs_of(X: Any, states: NDArray[Any], groups: Any) -> Ints:
    """The run of each row, shape (n,); -1 for rows in none."""
    if groups is not None:
        entries = as_recordings(groups, len(states))
        begins = entries[1:] != entries[:-1]
    elif isinstance(X, Stream):
        begins = X.gap_before[1:] | X.missing[1:] | X.missing[:-1]
    else:
        begins = np.zeros(max(len(states) - 1, 0), dtype=bool)
    begins = begins | (states[1:] != states[:-1])
    run = np.concatenate([[0], np.cumsum(begins)]).astype(np.int64)[: len(states)]
    if isinstance(X, Stream):
        run[X.missing] = -1
    return run


def _copies(X: Any, states: NDArray[Any], groups: Any) -> Bools:
    """Which rows are copies of earlier rows of the same state, shape (n,)."""
    rows = np.asarray(X.values if isinstance(X, Stream) else X)
    if rows.dtype.kind not in "fiu":
        return np.zeros(len(states), dtype=bool)
    codes = np.unique(states, return_inverse=True)[1]
    codes[states == no_state(states)] = -1
    first = first_equal(rows.reshape(len(rows), -1), _runs_of(X, states, groups))
    return copied_again(first, codes)


def _check_all_used(fold: Ints, n_splits: int, what: str) -> None:
    used = len(np.unique(fold[fold != UNUSED]))
    if used < n_splits:
        raise InputError(
            f"there are {what} for {used} folds only; choose n_splits of at most {used}"
        )
