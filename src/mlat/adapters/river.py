"""A classifier of river: it starts from nothing, learns step by step and forgets.

It is a live session that begins without references (:meth:`mlat.live.LiveSession.empty`): steps
that come as dictionaries are pushed, labels are taught. The scale of the channels follows the
stream at first. The metric is Euclidean, and is learned anew from what is known each time the
number of labels has doubled, up to ``learn_until``; the session then goes on with the new one.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from ..base.checks import Floats, Ints, check_whole
from ..base.errors import InputError
from ..features.features import EXTREME
from ..live.core.session import LiveSession
from ..live.core.state import LiveState
from ..live.core.steps import Prediction
from ..live.core.teaching import kept_windows
from ..metric.estimators import MLAT

FORGET = "balanced"


class MLATClassifier(base.Classifier):  # type: ignore[misc]
    """Nearest neighbours of the last steps, under a metric that is learned on the way.

    The order of steps matters: each call of ``learn_one`` is the next step of one stream.
    ``predict_one`` looks at a step after those that were learned, and changes nothing. A step
    without a label is observed by ``learn_one(x, None)``: it is part of the windows to come.
    Before its first step a stream is taken to have stood still, so that every step has a window.

    Parameters
    ----------
    width
        Steps per window.
    n_neighbors
        Nearest windows that vote.
    max_references
        How many labelled windows are known: of each state the newest ``max_references`` divided by
        the number of states, so that a frequent state does not push out a rare one. The others are
        forgotten.
    learn_from
        The number of labels at which the metric is first learned; then at twice as many, and so
        on. 0 keeps the Euclidean distance.
    learn_until
        The number of labels after which the metric stays.
    delay
        How many steps a label may come after its step. With 0 a step is learned, with its label,
        before the next comes. With more, the stream is what ``predict_one`` or
        ``predict_proba_one`` is asked, one call for each step, and ``learn_one`` labels one of the
        last ``delay`` of these, found by its values: as in river's own evaluation with a delay.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = MLATClassifier(width=2)
    >>> accuracy = evaluate.progressive_val_score(
    ...     datasets.Phishing(), model, metrics.Accuracy()
    ... )
    >>> accuracy.get() > 0.8
    True
    """

    def __init__(
        self,
        width: int = 10,
        n_neighbors: int = 1,
        max_references: int = 1000,
        learn_from: int = 200,
        learn_until: int = 3200,
        delay: int = 0,
    ) -> None:
        check_whole(width, "width")
        check_whole(n_neighbors, "n_neighbors")
        check_whole(max_references, "max_references")
        check_whole(learn_from, "learn_from", 0)
        check_whole(learn_until, "learn_until", 0)
        check_whole(delay, "delay", 0)
        self.width = width
        self.n_neighbors = n_neighbors
        self.max_references = max_references
        self.learn_from = learn_from
        self.learn_until = learn_until
        self.delay = delay
        self._live: LiveSession | None = None
        self._metric: MLAT | None = None
        self._names: list[Any] = []  # of the channels
        self._codes: dict[Any, int] = {}  # the labels, which are numbers in the session
        self._ends: Ints = np.zeros(0, np.int64)  # the steps that the known windows end at
        self._steps: deque[Floats] = deque(maxlen=width + delay)  # the last ones
        self._unlabelled: deque[tuple[int, dict[Any, Any]]] = deque(maxlen=delay or 1)
        self._ahead: tuple[Floats, LiveState, Prediction] | None = None
        self._mean: Floats = np.zeros(0)
        self._squares: Floats = np.zeros(0)
        self._n_steps = 0
        self._n_learned = 0

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any = None) -> None:
        """Take the next step; with a label, the window that ends there is known from now on.

        With a ``delay``, give the label of a step that was predicted.

        Raises
        ------
        InputError
            If the step or its label cannot be taken; the model is as it was before.
        """
        if y is not None:
            self._check_label(y)
        end = self._predicted(x) if self.delay else None
        if end is None:
            self._observe(x)
            end = self._n_steps
        if y is not None:
            self._teach(y, end)

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """The probability of each known state; empty before any is known.

        Of one neighbour, states weigh by the inverse square of their distance; of several, it is
        the fraction of the neighbours in each state.
        """
        if self.delay:
            said = self._observe(x)
            self._unlabelled.append((self._n_steps, dict(x)))
        elif self._live is None:
            return {}
        else:
            _refuse_texts(x)
            said = self._look_ahead(self._as_step(x))
        if said.why:  # no label yet
            return {}
        labels = list(self._codes)
        # The predicted one comes first, and wins a draw.
        proba = {labels[int(said.state)]: said.proba}
        for label, share in zip(labels, said.probabilities, strict=True):
            proba.setdefault(label, share)
        return proba

    def _observe(self, x: dict[Any, Any]) -> Prediction:
        """Take the next step; what is predicted for it."""
        _refuse_texts(x)
        if not x and not self._names:
            raise InputError("the first step has no features; give the step with its values")
        for name in x:
            if name not in self._names:
                self._add_channel(name)
        step = self._as_step(x)
        self._n_steps += 1
        change = step - self._mean
        self._mean = self._mean + change / self._n_steps
        self._squares = self._squares + change * (step - self._mean)
        self._steps.append(step)
        live, ahead, self._ahead = self._live, self._ahead, None
        # The scale is taken anew often at first, when it changes most.
        if live is None or (self._metric is None and math.log2(self._n_steps).is_integer()):
            return self._begin_anew(self._known_windows())
        if ahead is not None and np.array_equal(ahead[0], step):
            live.state = ahead[1]  # the step that was looked at has come
            return ahead[2]
        return live.push(step)[-1]

    def _look_ahead(self, step: Floats) -> Prediction:
        """What would be predicted if this step came next."""
        live = self._live
        assert live is not None
        state, predictions = live.model.push(live.state, step)
        self._ahead = step, state, predictions[-1]
        return predictions[-1]

    def _predicted(self, x: dict[Any, Any]) -> int | None:
        """The step that was predicted with these values and has no label yet."""
        for place, (number, values) in enumerate(self._unlabelled):
            if values == x:
                del self._unlabelled[place]
                return number
        return None

    def _teach(self, y: Any, end: int) -> None:
        """Make the window that ended at a step a reference of a state."""
        live = self._live
        assert live is not None
        code = self._codes.get(y, len(self._codes))
        old = live.state.taught.codes
        live.teach(code, ago=self._n_steps - end)
        self._codes[y], self._ahead = code, None
        kept = kept_windows(np.append(old, code), self.max_references, FORGET)
        self._ends = np.append(self._ends, end)[kept]
        self._n_learned += 1
        if self._is_time_to_learn():
            self._learn_metric()

    def _check_label(self, y: Any) -> None:
        try:
            hash(y)
            is_one = bool(y == y)  # NaN is not even itself
        except (TypeError, ValueError):
            is_one = False
        if not is_one:
            raise InputError(
                f"the label {y!r} names no state; give a text or a number, or None for a step "
                "without a label"
            )
        if y not in self._codes and len(self._codes) >= self.max_references:
            raise InputError(
                f"the label {y!r} is one state more than max_references={self.max_references} "
                "windows can tell apart; give more"
            )

    def _as_step(self, x: dict[Any, Any]) -> Floats:
        """The values by channel; one that is absent, or beyond all sense, has its mean."""
        values = self._mean.copy()
        for i, name in enumerate(self._names):
            value = x.get(name)
            if value is not None and abs(value) < EXTREME:  # not NaN either
                values[i] = float(value)
        return values

    def _add_channel(self, name: Any) -> None:
        """A new channel was 0 before."""
        self._names.append(name)
        known = self._known_windows()
        self._mean, self._squares = np.append(self._mean, 0.0), np.append(self._squares, 0.0)
        self._steps = deque([np.append(step, 0.0) for step in self._steps], self._steps.maxlen)
        self._metric = None
        if self._live is not None:
            self._begin_anew(np.pad(known, ((0, 0), (0, 0), (0, 1))))

    def _is_time_to_learn(self) -> bool:
        if not self.learn_from or not self.learn_from <= self._n_learned <= self.learn_until:
            return False
        return math.log2(self._n_learned / self.learn_from).is_integer()

    def _learn_metric(self) -> None:
        live = self._live
        assert live is not None
        codes, windows = live.state.taught.codes, self._known_windows()
        use = np.bincount(codes)[codes] > 1
        if len(np.unique(codes[use])) < 2:
            return
        run = _runs(self._ends, codes)
        mean, scale = self._scale()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._metric = MLAT().fit(
                    (windows[use] - mean) / scale, codes[use], start=self._ends[use], run=run[use]
                )
        except InputError:  # too few runs to learn from
            return
        self._begin_anew(windows)

    def _scale(self) -> tuple[Floats, Floats]:
        deviation = np.sqrt(self._squares / max(self._n_steps, 1))
        return self._mean, np.where(deviation > 0, deviation, 1.0)

    def _known_windows(self) -> Floats:
        """The windows (n, w, d) that were taught, in the channels' own units."""
        if self._live is None:
            return np.empty((0, self.width, len(self._names)))
        clf = self._live.model.clf
        windows: Floats = self._live.state.taught.windows * clf.scale_ + clf.mean_
        return windows

    def _begin_anew(self, windows: Floats) -> Prediction:
        """Go on in a session with the present scale and metric, which knows these windows.

        Returns what it predicts for the last step.
        """
        old, (mean, scale) = self._live, self._scale()
        self._live = live = LiveSession.empty(
            len(self._names),
            self.width,
            metric=self._metric,
            mean=mean,
            scale=scale,
            n_neighbors=self.n_neighbors,
            named=False,
            # Every step counts, and every label is for a step that is still known.
            missing="hold",
            hold=1 << 40,
            dead="off",
            far=None,
            max_taught=self.max_references,
            forget=FORGET,
            teachable=self.delay + 1,
        )
        *before, last = self._steps
        if len(self._steps) < self.width + self.delay:  # the stream stood still at first
            before = [self._steps[0]] * (self.width - 1) + before
        if before:
            live.push(np.stack(before))
        if old is not None:
            taught = old.state.taught
            live.state = live.model.teaching.knowing(
                live.state, taught.names, taught.codes, windows
            )
            live.state.belief = old.state.belief
        self._ahead = None
        return live.push(last)[-1]


def _refuse_texts(x: dict[Any, Any]) -> None:
    for name, value in x.items():
        if value is not None and not isinstance(value, Real | np.bool_):
            raise InputError(
                f"feature {name!r} is {value!r}, which is not a number; encode it first (river's "
                "OneHotEncoder), or leave it out (river's Discard)"
            )


def _runs(numbers: Ints, codes: NDArray[Any]) -> Ints:
    """The run of each window: successive steps of one state."""
    order = np.argsort(numbers, kind="stable")
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(numbers[order]) != 1) | (np.diff(codes[order]) != 0)
    run = np.empty(len(order), dtype=np.int64)
    run[order] = np.cumsum(begins)
    return run
