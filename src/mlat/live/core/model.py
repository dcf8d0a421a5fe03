"""The pure step: from a state and some steps to the next state and what is told of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ...checks import Bools, Floats, Ints
from ...classifier.classifier import StreamClassifier
from ...classifier.state_filter import Belief, StateFilter, filter_proba
from ...errors import InputError
from ..search.exact import ExactSearch, Taught, Told, check_state, side_by_side
from ..search.incremental import FlatResult, FlatSearch, FlatState
from .dead_channels import Still, dead_after
from .missing import Held, Settled, pieces, settle
from .options import LiveOptions
from .order import Order, arrange, check_order, find_gaps, release
from .state import Fingerprint, LiveState, Stretch, fingerprint_of
from .steps import Counters, Prediction, Steps, as_steps
from .time_unit import check_unit

# -------------------------------------------------------------------- classifying
# From accepted steps to predictions: features, windows, distances, states.


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
        state_filter: StateFilter,
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
                self._filter(state, filling, told, starts, state_filter)
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
        state_filter: StateFilter,
    ) -> None:
        """Steps without a window, and then windows: as ``Confidence.filter``."""
        proba = np.full((filling, len(state_filter.transition)), np.nan)
        if told is not None:
            said, k = told.shares, self.exact.n_neighbors
            if k > 1:
                said = (said * k + 1) / (k + said.shape[1])
            proba = np.concatenate([proba, said])
        begins = np.zeros(len(proba), bool)
        begins[0] = starts
        filtered, state.belief = filter_proba(proba, begins, state_filter, state.belief)
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


PIECE = 512  # steps at a time: all the memory that a chunk takes beside itself
BEHIND = 100  # dropped steps in a row that are worth a word


class LiveModel:
    """A fitted classifier and the policies of a session; it never changes.

    Parameters
    ----------
    clf : fitted StreamClassifier
    **options
        See :class:`~mlat.live.core.options.LiveOptions`.

    Attributes
    ----------
    clf : StreamClassifier
    options : LiveOptions
    search : "exact" or "flat"
        Given or chosen.
    limit : float
        The distance beyond which a window is far from everything.
    dead_after : array of shape (d,)
        Constant steps after which a channel is dead.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> train, stream = rotating_states(random_state=0), rotating_states(random_state=1)
    >>> model = LiveModel(mlat.StreamClassifier(16, metric="euclidean").fit(train))
    >>> state = model.start()
    >>> state, first = model.push(state, stream.values[:20])
    >>> state, more = model.push(state, stream.values[20:21])
    >>> more[0].step, more[0].state == model.clf.predict(stream)[20]
    (20, True)
    """

    def __init__(self, clf: StreamClassifier, **options: Any) -> None:
        check_is_fitted(clf, "features_")
        try:
            self.options = LiveOptions(**options)
        except TypeError:
            known = ", ".join(LiveOptions.__dataclass_fields__)
            unknown = ", ".join(sorted(set(options) - set(LiveOptions.__dataclass_fields__)))
            raise InputError(f"there is no option {unknown}; the options are {known}") from None
        self.clf = clf
        self._known: list[str | int] = clf.classes_.tolist()
        self.dead_after = dead_after(clf.windows_)
        self._classifying = Classifying(clf, self.options)
        self.search, self.limit = self._classifying.search, self._classifying.limit
        self._fingerprint = Fingerprint(fingerprint_of(clf), self.options, self.search)
        self._state_filter = lru_cache(maxsize=4)(self._extended)

    @property
    def n_channels(self) -> int:
        return len(self.clf.channels_)

    def start(self) -> LiveState:
        """What is remembered before the first step."""
        return LiveState(
            self._fingerprint,
            Order(),
            Held.start(self.n_channels),
            Still.start(self.n_channels),
            self._classifying.begin("filling"),
            Belief(self.clf.confidence_.state_filter.stationary),
            self.taught((), np.empty(0, np.int64), self._classifying.no_windows()),
            flat=self._classifying.start_flat(),
        )

    def push(
        self, state: LiveState, steps: Steps | ArrayLike
    ) -> tuple[LiveState, list[Prediction]]:
        """The state after some more steps, and a prediction for each that was accepted.

        The given state is not changed. However a stream is cut, the predictions are the same.
        """
        checked = self.check(steps)
        state = state.copy()
        return state, self.advance(state, checked)

    def flush(self, state: LiveState) -> tuple[LiveState, list[Prediction]]:
        """Let the steps through that wait for an earlier one."""
        state = state.copy()
        return state, self.advance_waiting(state)

    def teach(self, state: LiveState, name: str | int, n: int = 1) -> LiveState:
        """The state in which the last ``n`` windows are references of the named state, too.

        The windows are those of the unbroken stretch up to the last step. Of all that was taught
        the newest ``max_taught`` windows are kept.
        """
        name = check_state(name, self.clf.unknown_)
        windows = self._classifying.last_windows(state.stretch, n)
        if n > self.options.max_taught:
            raise InputError(
                f"{n} windows are to be taught, but only {self.options.max_taught} are kept; "
                "give more room with max_taught"
            )
        old, known = state.taught, self.classes(state)
        names = old.names if name in known else (*old.names, name)
        if len(names) > self.options.max_taught:
            raise InputError(
                f"{len(old.names)} new states are taught already, as many as windows are kept; "
                "give more room with max_taught"
            )
        code = known.index(name) if name in known else len(known)
        codes = np.append(old.codes, np.full(n, code))[-self.options.max_taught :]
        kept = np.concatenate([old.windows, windows])[-self.options.max_taught :]
        state = state.copy()
        state.taught = self.taught(names, codes, kept)
        # Nothing was believed of a state that was not known.
        shares = np.append(state.belief.proba, np.zeros(len(names) - len(old.names)))
        state.belief = Belief(shares, state.belief.fresh)
        state.counters["taught"] += n
        return state

    def state_from_bytes(self, data: bytes) -> LiveState:
        """What :meth:`LiveState.to_bytes` wrote, if it was for this model and these options."""
        from .state_bytes import from_bytes

        return from_bytes(data, self.start(), self)

    def classes(self, state: LiveState) -> list[str | int]:
        """The states that can be told, those of the model first."""
        return [*self._known, *state.taught.names]

    def check(self, steps: Any, seq: Any = None, time: Any = None) -> Steps:
        """Refuse what is no chunk of steps of this model."""
        checked = as_steps(steps, seq, time, n_channels=self.n_channels)
        check_order(checked, self.options)
        return checked

    def advance(self, state: LiveState, steps: Steps) -> list[Prediction]:
        """As :meth:`push` of checked steps, in place."""
        predictions = []
        for piece in [steps] if len(steps) <= PIECE else steps.pieces(PIECE):
            through = arrange(state.order, piece, self.options, state.counters)
            predictions += self._accept(state, through)
        if state.order.most_behind >= BEHIND:
            _warn(
                state,
                f"{BEHIND} steps in a row came late or again; if the source counts anew, begin a "
                "new session",
            )
        return predictions

    def advance_waiting(self, state: LiveState) -> list[Prediction]:
        """As :meth:`flush`, in place."""
        return self._accept(state, release(state.order, self.options, self.n_channels))

    def _accept(self, state: LiveState, steps: Steps) -> list[Prediction]:
        """What is told of steps in their order."""
        if not len(steps):
            return []
        check_unit(state, steps, self.options)
        gap = find_gaps(state.order, steps, self.options)
        settled = settle(state.held, steps.values, gap, self.options, state.counters)
        if not len(settled.values):
            return []
        dead = None
        if self.options.dead == "auto":
            dead = state.still.dead(settled.values, self.dead_after)
            if dead is not None:
                dead[settled.missing] = -1
        state_filter = self._state_filter(len(state.taught.names))
        return self._classifying.predict(
            state, steps, settled, dead, self.classes(state), state_filter
        )

    def taught(self, names: tuple[Any, ...], codes: Ints, windows: Floats) -> Taught:
        """Taught windows (m, w, d'), made ready to be compared."""
        exact = self._classifying.exact
        columns = side_by_side(exact.centred(exact.embed(windows)))
        return Taught(names, windows, codes.astype(np.int64), columns)

    def _extended(self, n_new: int) -> StateFilter:
        """How states follow each other when some are new: nothing is known of what follows them.

        A run of a new state ends as often as one of the others, and each state follows alike;
        after the others each new state follows as often as one of all others would.
        """
        old = self.clf.confidence_.state_filter
        if not n_new:
            return old
        n_old = len(old.transition)
        n = n_old + n_new
        end = 1.0 - float(np.diagonal(old.transition).mean())
        transition = np.full((n, n), end / (n - 1))
        transition[:n_old, :n_old] = old.transition * (n_old - 1) / (n - 1)
        np.fill_diagonal(transition, 0.0)
        np.fill_diagonal(transition, 1.0 - transition.sum(axis=1))
        return StateFilter(transition, old.tempering)


def _warn(state: LiveState, text: str) -> None:
    if text not in state.warnings:
        state.warnings.append(text)
