"""From accepted steps to predictions: features, windows, distances, states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..classifier import StreamClassifier
from ..errors import InputError
from ..persistence import Persistence, filter_proba
from .counters import Counters
from .options import LiveOptions
from .policies.breaks import pieces
from .policies.missing import Settled
from .prediction import Prediction
from .search.exact_search import ExactSearch, Told
from .search.flat_search import FlatResult, FlatSearch, FlatState
from .state import LiveState, Stretch
from .steps import Steps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Classifying:
    """What ``predict`` does, for steps that come bit by bit.

    Attributes
    ----------
    search : "exact" or "flat"
    exact : ExactSearch
    limit : float
        The distance beyond which a window is far from everything.
    """

    def __init__(self, clf: StreamClassifier, options: LiveOptions) -> None:
        self._clf, self._options = clf, options
        self._width, self._features = clf.width_, clf.features_
        self._kept = clf.width_ + options.teachable - 1
        self._unknown = clf.unknown_
        # A lift that does nothing need not be asked.
        self._is_plain = tuple(clf.features_.lift.maps) == ("identity",) and isinstance(
            clf.features_.lift.maps, list | tuple
        )
        self.exact = ExactSearch(clf)
        self.limit = _limit(clf, options.far)
        self._flat = _flat_search(clf, options, self.limit)
        self.search = "exact" if self._flat is None else "flat"

    def begin(self, why: str) -> Stretch:
        """No step yet; ``why`` says what was before."""
        n_channels = len(self._clf.channels_)
        return Stretch(
            self._features.lift.start(n_channels),
            np.empty((0, self._features.n_features)),
            np.empty((0, n_channels)),
            0,
            why,
        )

    def no_windows(self) -> Floats:
        return np.empty((0, self._width, self._features.n_features))

    def start_flat(self) -> FlatState | None:
        return None if self._flat is None else self._flat.start()

    def last_windows(self, stretch: Stretch, n: int) -> Floats:
        """The features of the last ``n`` complete windows, shape (n, w, d')."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"n must be a whole number of windows, at least 1, not {n!r}")
        there = max(0, len(stretch.features) - self._width + 1)
        if n > there:
            most = self._options.teachable
            raise InputError(
                f"{n} windows are to be taught, but there are {there}: they reach back to where "
                f"the stream began or broke, and no further than the last {most} (teachable)"
            )
        last = stretch.features[-(self._width + n - 1) :]
        return _windows(last, self._width)

    def predict(
        self,
        state: LiveState,
        steps: Steps,
        settled: Settled,
        dead: Ints | None,
        classes: list[str | int],
        persistence: Persistence,
    ) -> list[Prediction]:
        """Predictions of accepted steps; the state goes on.

        Parameters
        ----------
        steps : Steps
            As they came, refused ones among them.
        settled : Settled
        dead : array of shape (n,), optional
            A dead channel at each accepted step, or -1; None where no channel is dead.
        """
        n = len(settled.values)
        seq, time = _chosen(steps.seq, settled.accepted), _chosen(steps.time, settled.accepted)
        first = state.counters["accepted"]
        predictions: list[Prediction] = []
        for begin, end, starts, broken in pieces(state.stretch.length == 0, settled, dead):
            if broken:
                is_missing = bool(settled.missing[begin])
                why = "missing" if is_missing else f"dead channel {self._dead(dead, begin)}"
                state.stretch = self.begin("missing" if is_missing else "filling")
                filling, told = 1, None
            else:
                if starts:
                    why = "gap" if settled.gap[begin] else state.stretch.why
                    state.stretch = self.begin(why)
                    if self._flat is not None and state.flat is not None:
                        self._flat.reset(state.flat)
                why = state.stretch.why
                filling, told = self._extend(state, settled.values[begin:end])
            if self._options.filtered:
                self._filter(state, filling, told, starts, persistence)
            for i in range(begin, begin + filling):
                predictions.append(
                    Prediction(
                        first + i, self._unknown, np.nan, np.nan, (), why, seq[i], time[i], ()
                    )
                )
            if told is not None:
                at = slice(begin + filling, end)
                predictions += self._records(
                    state.counters, first + at.start, told, seq[at], time[at], classes
                )
        state.counters["accepted"] += n
        state.counters["unknown"] += sum(p.why != "" for p in predictions)
        if dead is not None:
            state.counters["dead"] += int((dead >= 0).sum())
        return predictions

    def _dead(self, dead: Ints | None, step: int) -> str:
        assert dead is not None
        return self._clf.channels_[dead[step]]

    def _extend(self, state: LiveState, values: Floats) -> tuple[int, Told | None]:
        """Steps (t, d) that follow the stretch.

        Returns how many of them come before its first full window, and what the windows of the
        others say.
        """
        stretch, w, features = state.stretch, self._width, self._features
        lift, lifted = stretch.lift, features.channels(values)
        if not self._is_plain:
            lift, lifted = features.lift.push(lift, lifted)
        seen = features.mix(features.lifted(lifted))
        filling = min(max(0, w - 1 - stretch.length), len(values))
        joined = np.concatenate([stretch.features, seen])
        result = None
        if self._flat is not None and state.flat is not None:
            result = self._flat.push(state.flat, seen)
        told = None
        if len(values) > filling:
            windows = _windows(joined[-(len(values) - filling + w - 1) :], w)
            if result is None:
                told = self.exact.tell(windows, state.taught)
            else:
                told = self._flat_told(result, windows, state)
        raw = _last(np.concatenate([stretch.raw, values]), w)
        length = stretch.length + len(values)
        state.stretch = Stretch(lift, _last(joined, self._kept), raw, length, stretch.why)
        return filling, told

    def _filter(
        self,
        state: LiveState,
        filling: int,
        told: Told | None,
        starts: bool,
        persistence: Persistence,
    ) -> None:
        """Steps without a window, and then windows: as ``Confidence.filter``."""
        proba = np.full((filling, len(persistence.transition)), np.nan)
        if told is not None:
            said, k = told.shares, self.exact.n_neighbors
            if k > 1:
                said = (said * k + 1) / (k + said.shape[1])
            proba = np.concatenate([proba, said])
        begins = np.zeros(len(proba), bool)
        begins[0] = starts
        filtered, state.belief = filter_proba(proba, begins, persistence, state.belief)
        if told is not None:
            told.shares[:] = filtered[filling:]
            told.codes[:] = told.shares.argmax(axis=1)

    def _flat_told(self, result: FlatResult, windows: Floats, state: LiveState) -> Told:
        """What the flat search found for the last windows (n, w, d'), taught ones added."""
        n, taught = len(windows), state.taught
        nearest, rows = result.nearest[-n:], result.rows[-n:]
        if not len(taught):
            codes, neighbours = result.codes[-n:], result.neighbours[-n:]
            shares = self.exact.shares(nearest, neighbours)
            return Told(codes, shares, result.distances[-n:, 0], neighbours)
        if self.exact.n_neighbors > 1:
            return self.exact.tell(windows, taught)
        centred = self.exact.centred(self.exact.embed(windows))
        nearest, rows = taught.nearer(centred, nearest, rows, len(self.exact))
        told = self.exact.tell_nearest(nearest, rows)
        # Squared distances to references are known to the bound: where that does not tell the
        # nearest state from the next, or far from near, the window is compared exactly.
        squared = np.sort(nearest**2, axis=1)
        doubt = squared[:, 1] - squared[:, 0] <= 2 * result.bound[-n:]
        if np.isfinite(self.limit):
            doubt |= np.abs(squared[:, 0] - self.limit**2) <= 2 * result.bound[-n:]
        if doubt.any():
            exact = self.exact.tell(windows[doubt], taught)
            told.codes[doubt], told.shares[doubt] = exact.codes, exact.shares
            told.distance[doubt], told.rows[doubt] = exact.distance, exact.rows
        return told

    def _records(
        self,
        counters: Counters,
        first: int,
        told: Told,
        seq: list[Any],
        time: list[Any],
        classes: list[str | int],
    ) -> list[Prediction]:
        far = (told.distance > self.limit).tolist()
        counters["far"] += sum(far)
        rows = zip(
            *[far, told.codes.tolist(), told.distance.tolist(), told.rows.tolist()],
            *[told.shares.tolist(), seq, time],
            strict=True,
        )
        return [
            Prediction(
                first + i,
                self._unknown if is_far else classes[code],
                np.nan if is_far else shares[code],
                distance,
                tuple(neighbours),
                "far" if is_far else "",
                number,
                moment,
                tuple(shares),
            )
            for i, (is_far, code, distance, neighbours, shares, number, moment) in enumerate(rows)
        ]


def _windows(features: Floats, width: int) -> Floats:
    """Every window (n, w, d') over successive steps."""
    if len(features) == width:  # the usual case, at a tenth of the cost
        return features[None]
    return np.ascontiguousarray(sliding_window_view(features, width, axis=0).transpose(0, 2, 1))


def _last(rows: Floats, n: int) -> Floats:
    """The last n rows; as a view only where not much else would be kept alive by it."""
    return rows[-n:] if len(rows) <= 2 * n else rows[-n:].copy()


def _chosen(entries: NDArray[Any] | None, accepted: Bools) -> list[Any]:
    if entries is None:
        return [None] * int(np.count_nonzero(accepted))
    return entries[accepted].tolist()


def _flat_search(clf: StreamClassifier, options: LiveOptions, limit: float) -> FlatSearch | None:
    """The flat search, where it is asked for or cheaper; None for the exact one."""
    # The filter weighs how probable each state is, which the flat search knows to its bound only; a
    # session that was not asked to is not to differ from `predict(filtered=True)`.
    if options.search == "exact" or (options.search == "auto" and options.filtered):
        return None
    flat = FlatSearch.of(clf, anchor=options.anchor, cuts=[limit])
    if options.search == "flat" and flat is None:
        raise InputError(
            "the flat search needs a Toeplitz metric and every window as a reference (step=1); "
            'leave search out, or give search="exact"'
        )
    return flat if flat is not None and (options.search == "flat" or flat.cheaper()) else None


def _limit(clf: StreamClassifier, far: float | None) -> float:
    """The threshold of the model, where it was asked for; else ``far`` times the farthest."""
    threshold = float(clf.confidence_.threshold)
    if np.isfinite(threshold):
        return threshold
    farthest = float(clf.confidence_.farthest)
    return np.inf if far is None or np.isnan(farthest) else far * farthest
