"""The automatic selection of ``metric="auto"``: lift, width, metric and number of neighbours.

Choices are compared on two sides of the stream that judge each other
(:mod:`mlat.classifier.held_out`). The search starts from a default, channels and running energies,
whitened: it did well on every set of the development people, where others did best on one and badly
on another. Another lift, or none, replaces it where its score is higher by more than its error. So
do then a learned metric, more targets and more neighbours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import progress
from ..checks import Floats, Ints
from ..errors import InputError
from ..features.features import Lifted, lift_runs
from ..features.lifts import RUNNING, Lift
from ..metric.estimators import LMNN, MLAT
from ..metric.nearest import Nearest, nearest
from ..neighbours.votes import vote
from ..stream.stream import Stream
from ..stream.windows import Windows, sliding_windows
from .held_out import Fold, cut, far_folds, far_sides

# How steeply a relative margin counts: a window 1/20 nearer to its own state scores 73 %.
STEEPNESS = 20.0
# How many standard errors a lead must exceed. Blocks are few and not wholly independent; between
# 1 and 1.5 the results on the development people are similar.
ERRORS = 1.25
LEAST_LEAD = 1e-3

# The default reach of lifts, in steps. After a switch a lift still looks back into the state
# before. The windows that are judged never lie across a switch, so this lag must be bounded
# beforehand: by a fraction of a run.
REACH = 100
REACH_OF_RUN = 1 / 5

# A metric is learned from at most this many windows; all of them stay references. Neighbours in
# time are near-copies, and learning grows with the square of their number.
MOST_IN_FIT = 1500

MOST_WINDOWS = 3000  # compared in the search, evenly spaced
MOST_LEARNED = 500  # that a metric is learned from in the search
MOST_VALUES = 1500  # of a window, for a wide one to be tried
MOST_FULL = 400  # of a window, for a metric with a full matrix or a filter of all taps
MOST_ADMM = 150  # of a window, for the slower solver
NARROW = 10
MORE_NEIGHBOURS = 5

# The lifts that are tried. Energies alone ignore the level of a channel, which helps where it
# drifts and loses information where it does not.
ENERGIES = ("running_magnitude", "running_deviation", "running_difference")
LIFTS = {
    "channels as they are": ("identity",),
    "log magnitude": ("log_magnitude",),
    "running energies": ENERGIES,
    "channels and running energies": ("identity", *ENERGIES),
}


def looks_back(lift: str) -> bool:
    """Whether a lift uses earlier steps than the step itself."""
    return bool(set(LIFTS[lift]) & set(RUNNING))


@dataclass(frozen=True)
class Choice:
    """A lift, a width, a metric and a number of neighbours.

    Attributes
    ----------
    lift : str
        One of ``LIFTS``.
    reach : int
        How far back the running energies look.
    width : int
    whiten : bool
    metric : {"euclidean", "MLAT", "LMNN"}
    shrinkage : float
    solver : {"filter", "admm"}
    n_taps : int, optional
    n_targets : int
    n_neighbors : int
    """

    lift: str
    reach: int
    width: int
    whiten: bool = False
    metric: str = "euclidean"
    shrinkage: float = 0.0
    solver: str = "filter"
    n_taps: int | None = None
    n_targets: int = 3
    n_neighbors: int = 1

    def but(self, **changes: Any) -> Choice:
        return replace(self, **changes)

    def make_lift(self) -> Lift:
        return Lift(LIFTS[self.lift], self.reach)

    def make_metric(self, **options: Any) -> Any:
        """A fresh estimator; None for the Euclidean distance."""
        if self.metric == "euclidean":
            return None
        shared = {"shrinkage": self.shrinkage, "n_targets": self.n_targets, **options}
        if self.metric == "LMNN":
            return LMNN(**shared)
        if self.solver == "admm":
            return MLAT(solver="admm", **shared)
        return MLAT(n_taps=self.n_taps or self.width, **shared)

    def __str__(self) -> str:
        # The reach of the energies is named, because it is further back than the window.
        reach = f" over {self.reach} steps" if looks_back(self.lift) else ""
        steps = f"{self.width} step{'s' if self.width > 1 else ''}"
        return f"{self.lift}{reach}, {steps}, {self.metric_name}{self._neighbours}"

    @property
    def metric_name(self) -> str:
        whitened = "whitened " if self.whiten else ""
        if self.metric == "euclidean":
            return f"{whitened}Euclidean distance"
        how = {"LMNN": "LMNN", "MLAT": f"MLAT {self.solver}"}[self.metric]
        taps = f", {self.n_taps} tap{'s' if self.n_taps > 1 else ''}" if self.n_taps else ""
        more = f", {self.n_targets} targets" if self.n_targets != 3 else ""
        start = " from whitened" if self.whiten else ""
        return f"{how}{start}, shrinkage {self.shrinkage:g}{taps}{more}"

    @property
    def _neighbours(self) -> str:
        return f", {self.n_neighbors} neighbours" if self.n_neighbors > 1 else ""


@dataclass(frozen=True)
class Trial:
    """One choice and its scores."""

    choice: Choice
    score: float
    balanced_accuracy: float
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

    def __repr__(self) -> str:
        judged = "".join(
            f", balanced accuracy {trial.balanced_accuracy:.1%}"
            for trial in self.trials
            if trial.choice == self.choice
        )
        return (
            f"<Selection: {self.chosen}; {len(self.trials)} tried in {self.seconds:.1f} s{judged}>"
        )


def select(
    stream: Stream,
    width: int,
    *,
    reach: int | None = None,
    scale: bool = True,
    budget: float = 60.0,
) -> Selection:
    """Choose lift, width, metric and number of neighbours from a labelled stream.

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
        # A wider window is tried where the sides are far enough apart for it.
        self._widest = self.width if self.width <= apart // 2 else narrow
        simplest = Choice("channels as they are", self.reach, narrow)
        default = self._wide(simplest.but(lift="channels and running energies", whiten=True))
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
        best = default, self._try(default, None)
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
        self, best: tuple[Choice, Scores], rivals: Iterator[Choice]
    ) -> tuple[Choice, Scores]:
        """The best of the rivals whose lead over the best so far exceeds its error."""
        leader: tuple[Choice, Scores] | None = None
        for choice in rivals:
            if self._elapsed > self.budget:
                break
            scores = self._try(choice, best[1])
            ahead = is_ahead(scores, best[1])
            if ahead and (leader is None or scores.score > leader[1].score):
                leader = choice, scores
        if leader is None:
            return best
        self.trials = [
            Trial(**{**trial.__dict__, "kept": trial.kept or trial.choice == leader[0]})
            for trial in self.trials
        ]
        return leader

    # The stages: each yields rivals of the best so far.

    def _lifts(self, best: Choice) -> Iterator[Choice]:
        narrow = min(NARROW, self.width)
        yield best.but(lift="channels as they are", width=narrow, whiten=False)
        raw = self._wide(best.but(lift="channels as they are", whiten=False))
        if raw.width != narrow:
            yield raw
        if raw.width * self.stream.n_channels <= MOST_FULL:
            yield raw.but(metric="MLAT", shrinkage=0.0)
        for lift in LIFTS:
            # A lift that looks back is tried with half the reach too: it is quicker at a switch.
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
        # A state with too few windows could never win a vote.
        if np.bincount(self._codes).min() >= MORE_NEIGHBOURS:
            yield best.but(n_neighbors=MORE_NEIGHBOURS)

    # The scores of one choice.

    def _try(self, choice: Choice, against: Scores | None) -> Scores:
        began = time.monotonic()
        parts = [self._judge(choice, i, fold) for i, fold in enumerate(self._folds)]
        scores = Scores.join(parts)
        error = 0.0 if against is None else scores.error(against)
        self.trials.append(
            Trial(
                choice,
                scores.score,
                scores.balanced_accuracy,
                error,
                time.monotonic() - began,
                against is None,
            )
        )
        progress.report(
            "choosing", len(self.trials), 0, {"score": scores.score, "seconds": self._elapsed}
        )
        return scores

    def _judge(self, choice: Choice, number: int, fold: Fold) -> Scores:
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


# Scores


@dataclass(frozen=True, eq=False)
class Scores:
    """The score of each judged window, its state and its block.

    Attributes
    ----------
    soft : array of shape (n,)
        Between 0 and 1: how much nearer the nearest of its own state is than the nearest of
        another. Where nearly all windows are right, this still shows which choice is safer.
    right : array of shape (n,)
        1 where the predicted state is right, 0 elsewhere.
    codes, block : arrays of shape (n,)
    """

    soft: Floats
    right: Floats
    codes: Ints
    block: Ints

    @classmethod
    def join(cls, parts: Sequence[Scores]) -> Scores:
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("soft", "right", "codes", "block")
            )
        )

    @property
    def score(self) -> float:
        return float(_by_state(self.soft, self.codes).mean())

    @property
    def balanced_accuracy(self) -> float:
        """The mean over states of the fraction of windows that are right."""
        return float(_by_state(self.right, self.codes).mean())

    def error(self, other: Scores) -> float:
        """The standard error of the difference to another score, over blocks.

        Windows of one block are near-copies of each other, so a block counts as one.
        """
        block = np.unique(self.block, return_inverse=True)[1]
        apart = np.bincount(block, self.soft - other.soft) / np.bincount(block)
        if len(apart) < 2:
            return float("inf")
        return float(apart.std(ddof=1) / np.sqrt(len(apart)))


def is_ahead(rival: Scores, best: Scores) -> bool:
    """Whether a rival's score is higher by more than its error, and by ``LEAST_LEAD``."""
    return rival.score - best.score > max(ERRORS * rival.error(best), LEAST_LEAD)


def judge(
    references: Floats, known: Ints, windows: Floats, codes: Ints, block: Ints, n_neighbors: int
) -> Scores:
    """Scores of windows (n, D) by references (m, D) and their states."""
    k = min(n_neighbors, len(references))
    own, others = Nearest.none(len(windows), k), Nearest.none(len(windows), k)
    for code in np.unique(codes):
        at = np.flatnonzero(codes == code)
        for found, rows in (
            (own, np.flatnonzero(known == code)),
            (others, np.flatnonzero(known != code)),
        ):
            found.add(at, nearest(windows[at], references[rows], k, rows=rows))
    # With more neighbours a state is as far as the k-th of its windows on average.
    same, other = _mean_distance(own), _mean_distance(others)
    margin = (other - same) / np.maximum(other + same, 1e-300)
    soft = 1 / (1 + np.exp(-STEEPNESS * margin))
    # The nearest of all are among the nearest of the own state and the nearest of the others.
    own.add(np.arange(len(windows)), others)
    voted, _ = vote(known[own.rows], np.sqrt(own.squared), int(known.max()) + 1)
    return Scores(soft, (voted == codes).astype(np.float64), codes, block)


def _mean_distance(found: Nearest) -> Floats:
    distance: Floats = np.sqrt(found.squared)
    if distance.shape[1] == 1:
        return distance[:, 0]
    finite = np.isfinite(distance)
    return np.where(finite, distance, 0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)


def _by_state(values: Floats, codes: Ints) -> Floats:
    states = np.unique(codes, return_inverse=True)[1]
    return np.bincount(states, values) / np.bincount(states)


# Reach


def longest_reach(width: int) -> int:
    """100 steps, or two widths where that is more."""
    return max(REACH, 2 * width)


def default_reach(stream: Stream, width: int) -> int:
    """The longest, but no more than a fifth of the median run, or the width if that is more."""
    return max(1, min(longest_reach(width), max(width, int(REACH_OF_RUN * run_length(stream)))))


def run_length(stream: Stream) -> float:
    """The median length of the runs of a labelled stream; a missing value does not end one."""
    ends = np.flatnonzero(stream.gap_before[1:] | (np.diff(stream.codes) != 0)) + 1
    begins = np.concatenate([[0], ends])
    lengths = np.diff(np.append(begins, len(stream)))
    labelled = stream.codes[begins] >= 0
    return float(np.median(lengths[labelled])) if labelled.any() else 0.0


# Learning


def learn_metric(choice: Choice, windows: Windows, most: int, **options: Any) -> Any:
    """The choice's metric, learned from at most ``most`` of the windows.

    States with a single window have no target neighbours and are not used. None, which is the
    Euclidean distance, if that is the choice or if fewer than two states remain.
    """
    if choice.metric == "euclidean":
        return None
    if options.get("init", 0) is None:
        del options["init"]
    states, counts = np.unique(windows.y, return_counts=True)
    if counts.min() < 2:
        if (counts >= 2).sum() < 2:
            return None
        windows = windows.take(np.isin(windows.y, states[counts >= 2]))
    fewest = _fewest(windows.y)
    windows = windows.take(fair_rows(windows.y, most))
    n_targets = max(1, min(choice.n_targets, fewest - 1, _fewest(windows.y) - 1))
    metric = choice.but(n_targets=n_targets).make_metric(**options)
    try:
        return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    except InputError as error:
        raise InputError(f"{choice.metric_name}: {error}") from None


def _fewest(labels: NDArray[Any]) -> int:
    return int(np.unique(labels, return_counts=True)[1].min())


def fair_rows(labels: NDArray[Any], most: int) -> NDArray[np.int64]:
    """At most ``most`` rows, evenly spaced within each state; small states are kept whole."""
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    remaining, left = most, len(names)
    kept = {}
    for code in np.argsort(counts, kind="stable"):
        n = min(int(counts[code]), max(remaining // left, 2))
        kept[code] = n
        remaining, left = remaining - n, left - 1
    parts: Sequence[NDArray[np.int64]] = [
        np.flatnonzero(inverse == code)[
            np.linspace(0, counts[code] - 1, n).round().astype(np.int64)
        ]
        for code, n in kept.items()
    ]
    return np.sort(np.concatenate(parts))


def evenly(n: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of n rows, evenly spaced."""
    return np.arange(0, n, -(-n // most) if n > most else 1)
