"""The pure step: from a state and some steps to the next state and what is told of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ..classifier import StreamClassifier
from ..errors import InputError
from ..persistence import Belief, Persistence
from .classifying import Classifying
from .fingerprint import Fingerprint, fingerprint_of
from .options import LiveOptions
from .policies.dead_channels import Still, dead_after
from .policies.missing import Held, settle
from .policies.reorder import Order, arrange, check_order, find_gaps, release
from .policies.time_unit import check_unit
from .prediction import Prediction
from .search.taught import Taught, check_state, side_by_side
from .state import LiveState
from .steps import Steps, as_steps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PIECE = 512  # steps at a time: all the memory that a chunk takes beside itself
BEHIND = 100  # dropped steps in a row that are worth a word


class LiveModel:
    """A fitted classifier and the policies of a session; it never changes.

    Parameters
    ----------
    clf : fitted StreamClassifier
    **options
        See :class:`~mlat.live.options.LiveOptions`.

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
    >>> from mlat.datasets.synthetic import rotating_states
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
        self._persistence = lru_cache(maxsize=4)(self._extended)

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
            Belief(self.clf.confidence_.persistence.stationary),
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
        shares = np.append(state.belief.shares, np.zeros(len(names) - len(old.names)))
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
        persistence = self._persistence(len(state.taught.names))
        return self._classifying.predict(
            state, steps, settled, dead, self.classes(state), persistence
        )

    def taught(self, names: tuple[Any, ...], codes: Ints, windows: Floats) -> Taught:
        """Taught windows (m, w, d'), made ready to be compared."""
        exact = self._classifying.exact
        columns = side_by_side(exact.centred(exact.embed(windows)))
        return Taught(names, windows, codes.astype(np.int64), columns)

    def _extended(self, n_new: int) -> Persistence:
        """How states follow each other when some are new: nothing is known of what follows them.

        A run of a new state ends as often as one of the others, and each state follows alike;
        after the others each new state follows as often as one of all others would.
        """
        old = self.clf.confidence_.persistence
        if not n_new:
            return old
        n_old = len(old.transition)
        n = n_old + n_new
        end = 1.0 - float(np.diagonal(old.transition).mean())
        transition = np.full((n, n), end / (n - 1))
        transition[:n_old, :n_old] = old.transition * (n_old - 1) / (n - 1)
        np.fill_diagonal(transition, 0.0)
        np.fill_diagonal(transition, 1.0 - transition.sum(axis=1))
        return Persistence(transition, old.tempering)


def _warn(state: LiveState, text: str) -> None:
    if text not in state.warnings:
        state.warnings.append(text)
