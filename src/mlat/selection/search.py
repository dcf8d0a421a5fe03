"""The search: from the usual choice to others, which must earn their place.

The usual choice, channels and running energies, whitened, did well on every set of the development
persons, where others did best on one and badly on another. Another lift, or none, takes its place
where it is better by more than its error; so does then a metric that is learned, and so do more
neighbours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import progress
from ..features import Lifted, lift_runs
from ..stream import Stream
from ..windows import Windows, sliding_windows
from .choice import LIFTS, Choice, looks_back
from .folds import Fold, cut, far_folds, far_sides
from .learning import learn_metric
from .reach import default_reach
from .scores import ERRORS, Marks, is_ahead, judge

Floats = NDArray[np.float64]

MOST_WINDOWS = 3000  # looked at while choosing, evenly spaced
MOST_LEARNED = 500  # that a metric is learned from while choosing
MOST_VALUES = 1500  # of a window, for a wide one to be tried
MOST_FULL = 400  # of a window, for a metric with a full matrix or a filter of all taps
MOST_ADMM = 150  # of a window, for the slower solver
NARROW = 10
MORE_NEIGHBOURS = 5


@dataclass(frozen=True)
class Trial:
    """One choice and how it did."""

    choice: Choice
    score: float
    accuracy: float
    error: float
    seconds: float
    kept: bool


@dataclass(frozen=True)
class Selection:
    """What was tried, what was chosen and why.

    Attributes
    ----------
    choice : Choice
    trials : list of Trial
    why : str
    seconds : float
    """

    choice: Choice
    trials: list[Trial]
    why: str
    seconds: float

    @property
    def chosen(self) -> str:
        return str(self.choice)


def select(
    stream: Stream,
    width: int,
    *,
    reach: int | None = None,
    scale: bool = True,
    budget: float = 60.0,
) -> Selection:
    """Choose from a labelled stream.

    Parameters
    ----------
    stream : Stream
    width : int
        The widest window, in steps.
    reach : int, optional
        The furthest back that running energies may look; default as for :func:`default_reach`.
    budget : float
        Seconds after which nothing more is tried.
    """
    search = _Search(stream, width, reach or default_reach(stream, width), scale, budget)
    return search.run()


@dataclass
class _Search:
    stream: Stream
    width: int
    reach: int
    scale: bool
    budget: float
    trials: list[Trial] = field(default_factory=list)
    _lifted: dict[tuple[str, int], Lifted] = field(default_factory=dict)
    _warm: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def run(self) -> Selection:
        self._began = time.monotonic()
        narrow = min(NARROW, self.width)
        sides, apart = far_sides(self.stream, narrow)
        # A wider window is tried where the sides are long enough to hold some and far enough
        # apart for it.
        self._widest = self.width if self.width <= apart // 2 else narrow
        simplest = Choice("channels as they are", self.reach, narrow)
        usual = self._wide(simplest.but(lift="channels and running energies", whiten=True))
        self._part, on_side = cut(self.stream, sides)
        windows = self._windows(self._widest) if len(self._part) else None
        self._folds = []
        if windows is not None and len(windows):
            self._codes = np.unique(windows.y, return_inverse=True)[1]
            self._folds = far_folds(windows, self._codes, on_side)
        if not self._folds:
            why = (
                "nothing can be judged: fewer than two states have windows far enough apart to "
                "learn from some and judge by others, so the simplest is kept"
            )
            return Selection(simplest, [], why, self._elapsed)
        best = usual, self._try(usual, None)
        for stage in (self._lifts, self._metrics, self._targets, self._neighbours):
            best = self._improve(best, stage(best[0]))
        why = (
            f"{len(self.trials)} choices tried; another than the usual, and a richer metric, had "
            f"to be better by {ERRORS:g} standard errors"
        )
        if self._elapsed > self.budget:
            why += f"; the budget of {self.budget:g} s ended the search"
        return Selection(best[0], self.trials, why, self._elapsed)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _improve(
        self, best: tuple[Choice, Marks], rivals: Iterator[Choice]
    ) -> tuple[Choice, Marks]:
        """The best of the rivals that are ahead of the best so far by more than their error."""
        leader: tuple[Choice, Marks] | None = None
        for choice in rivals:
            if self._elapsed > self.budget:
                break
            marks = self._try(choice, best[1])
            ahead = is_ahead(marks, best[1])
            if ahead and (leader is None or marks.score > leader[1].score):
                leader = choice, marks
        if leader is None:
            return best
        self.trials = [
            Trial(**{**trial.__dict__, "kept": trial.kept or trial.choice == leader[0]})
            for trial in self.trials
        ]
        return leader

    # The stages, each from the best so far to what could be better.

    def _lifts(self, best: Choice) -> Iterator[Choice]:
        narrow = min(NARROW, self.width)
        yield best.but(lift="channels as they are", width=narrow, whiten=False)
        raw = self._wide(best.but(lift="channels as they are", whiten=False))
        if raw.width != narrow:
            yield raw
        if raw.width * self.stream.n_channels <= MOST_FULL:
            yield raw.but(metric="MLAT", shrinkage=0.0)
        for lift in LIFTS:
            # Where nothing looks back there is one reach; else the half of it is quicker.
            half = max(1, self.reach // 2)
            for reach in (self.reach, half) if looks_back(lift) else (self.reach,):
                rival = best.but(lift=lift, reach=reach, width=narrow)
                for choice in dict.fromkeys((rival, self._wide(rival))):
                    if choice != best:
                        yield choice

    def _wide(self, choice: Choice) -> Choice:
        """The same with the widest window, unless that has too many values."""
        n_values = len(LIFTS[choice.lift]) * self.stream.n_channels
        wide = self._widest * n_values <= MOST_VALUES
        return choice.but(width=self._widest if wide else min(NARROW, self.width))

    def _metrics(self, best: Choice) -> Iterator[Choice]:
        n_values = best.width * len(LIFTS[best.lift]) * self.stream.n_channels
        for shrinkage in (10.0, 1.0):
            yield best.but(metric="MLAT", shrinkage=shrinkage, n_taps=1)
        if n_values <= MOST_FULL:
            for shrinkage in (1.0, 0.1):
                yield best.but(metric="MLAT", shrinkage=shrinkage)
            yield best.but(metric="LMNN", shrinkage=1.0)
        if n_values <= MOST_ADMM:
            yield best.but(metric="MLAT", solver="admm", shrinkage=1.0)

    def _targets(self, best: Choice) -> Iterator[Choice]:
        if best.metric != "euclidean":
            yield best.but(n_targets=10)

    def _neighbours(self, best: Choice) -> Iterator[Choice]:
        # A state with fewer windows than half of the neighbours could never win a vote.
        if np.bincount(self._codes).min() >= MORE_NEIGHBOURS:
            yield best.but(n_neighbors=MORE_NEIGHBOURS)

    # Judging one.

    def _try(self, choice: Choice, against: Marks | None) -> Marks:
        began = time.monotonic()
        parts = [self._judge(choice, i, fold) for i, fold in enumerate(self._folds)]
        marks = Marks.join(parts)
        error = 0.0 if against is None else marks.error(against)
        self.trials.append(
            Trial(
                choice,
                marks.score,
                marks.accuracy,
                error,
                time.monotonic() - began,
                against is None,
            )
        )
        progress.report(
            "choosing", len(self.trials), 0, {"score": marks.score, "seconds": self._elapsed}
        )
        return marks

    def _judge(self, choice: Choice, number: int, fold: Fold) -> Marks:
        windows = self._windows(choice.width)
        lifted = self._lift(choice)
        known = np.zeros(len(self._part), bool)
        for offset in range(choice.width):
            known[windows.start[fold.train] + offset] = True
        features = lifted.features(known, scale=self.scale, whiten=choice.whiten)
        values = features.mix(features.lifted(lifted.values))
        seen = Windows(values, choice.width, windows.start, windows.run, windows.y)
        X, Z = seen.take(fold.train).X, seen.take(fold.judge).X
        if choice.metric != "euclidean":
            key = (number, choice.but(shrinkage=0.0, n_targets=3, n_neighbors=1))
            metric = learn_metric(
                choice, seen.take(fold.train), MOST_LEARNED, init=self._warm.get(key)
            )
            if hasattr(metric, "taps_"):
                self._warm[key] = metric.taps_
            if metric is not None:
                X, Z = metric.transform(X), metric.transform(Z)
        codes = self._codes
        return judge(
            X.reshape(len(X), -1),
            codes[fold.train],
            Z.reshape(len(Z), -1),
            codes[fold.judge],
            fold.block + number * 1_000_000,
            choice.n_neighbors,
        )

    def _windows(self, width: int) -> Windows:
        """The same windows at any width: those that end where the widest end."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            widest = sliding_windows(self._part, self._widest)
        widest = widest.take(evenly(len(widest), MOST_WINDOWS))
        shift = self._widest - width
        return Windows(widest.values, width, widest.start + shift, widest.run, widest.y)

    def _lift(self, choice: Choice) -> Lifted:
        key = choice.lift, choice.reach
        if key not in self._lifted:
            self._lifted[key] = lift_runs(self._part, choice.make_lift(), scale=self.scale)
        return self._lifted[key]


def evenly(n: int, most: int) -> NDArray[np.int64]:
    """At most so many of n rows, evenly spaced."""
    return np.arange(0, n, -(-n // most) if n > most else 1)
