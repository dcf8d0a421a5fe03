"""A live session: the pure step, and the state that it keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ...base.checks import Floats
from ...classifier.classifier import StreamClassifier
from ...classifier.empty import empty_classifier
from ...features.features import Units
from .model import LiveModel
from .state import LiveState
from .steps import Prediction, Predictions, Steps

RECENT = 256  # predictions that `recent` keeps


class LiveSession:
    """Takes steps as they come, and predicts the state at each.

    Parameters
    ----------
    clf : fitted StreamClassifier
    **options
        See :class:`~mlat.live.core.options.LiveOptions`.

    Attributes
    ----------
    model : LiveModel
    state : LiveState
        All that the session remembers.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> clf = mlat.StreamClassifier(16, metric="euclidean").fit(rotating_states(random_state=0))
    >>> live = clf.live()
    >>> predictions = live.push(rotating_states(random_state=1).values[:16])
    >>> [p.why for p in predictions].count("filling"), predictions[15].state in clf.classes_
    (15, True)
    """

    def __init__(self, clf: StreamClassifier, **options: Any) -> None:
        self.model = LiveModel(clf, **options)
        self.state: LiveState = self.model.start()
        self._recent: deque[Predictions] = deque()
        self._n_recent = 0
        self._options = options

    @classmethod
    def empty(
        cls,
        channels: int | Sequence[str],
        width: int = 10,
        *,
        metric: Any = None,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        n_neighbors: int = 1,
        named: bool = True,
        **options: Any,
    ) -> Self:
        """A session without references: it knows the states that it is taught, and no others.

        Until it is taught one, every step is unknown (``untaught``). Probabilities weigh states by
        the inverse square of their distance, for there is nothing to calibrate them on.

        Parameters
        ----------
        channels, width, metric, mean, scale, n_neighbors, named
            See :func:`~mlat.classifier.empty.empty_classifier`.
        **options
            Not ``filtered``, and not ``search="incremental"``: both need references.

        Examples
        --------
        >>> live = LiveSession.empty(["ax", "ay"], width=3)
        >>> [p.why for p in live.push([[0.0, 1.0]] * 4)]
        ['filling', 'filling', 'untaught', 'untaught']
        >>> live.teach("rest")
        >>> live.push([[5.0, 5.0]] * 3)[-1].state
        'rest'
        >>> live.teach("walk")
        >>> live.push([[5.0, 5.0]])[0].state
        'walk'
        """
        clf = empty_classifier(
            channels,
            width,
            metric=metric,
            mean=mean,
            scale=scale,
            n_neighbors=n_neighbors,
            named=named,
        )
        return cls(clf, **options)

    def __copy__(self) -> Self:
        """A session with the same model that goes on from here on its own."""
        other = type(self).__new__(type(self))
        other.model, other._options = self.model, self._options
        other.state = self.model.state_from_bytes(self.snapshot())
        other._recent, other._n_recent = self._recent.copy(), self._n_recent
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()  # a model never changes

    def __getstate__(self) -> dict[str, Any]:
        """For pickles, with which workers pass sessions on; mlat itself reads none."""
        return {
            "clf": self.model.clf,
            "options": self._options,
            "snapshot": self.snapshot(),
            "recent": Predictions.joined(self._recent)[-RECENT:],
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        LiveSession.__init__(self, kept["clf"], **kept["options"])
        self.restore(kept["snapshot"])
        self._told(kept["recent"])

    def push(self, chunk: Any, seq: Any = None, time: Any = None) -> Predictions:
        """Take some more steps; a prediction for each step that was accepted.

        Parameters
        ----------
        chunk : Steps, or array or frame of shape (t, d), or one step (d,)
            NaN is a missing value.
        seq, time : arrays of shape (t,), optional
            The source's own numbers of the steps, and their time in seconds.

        Raises
        ------
        InputError
            If it is no chunk of steps of this model's channels; the session does not change.
        """
        return self._told(self.model.advance(self.state, self.model.check(chunk, seq, time)))

    def _told(self, predictions: Predictions) -> Predictions:
        n = len(predictions)
        if n:
            last = predictions if n <= RECENT else predictions.part(n - RECENT, n)
            self._recent.append(last)
            self._n_recent += len(last)
            while self._n_recent - len(self._recent[0]) >= RECENT:
                self._n_recent -= len(self._recent.popleft())
        return predictions

    def warm_up(self) -> None:
        """Load or compile what a step needs, on a state that is thrown away.

        Examples and a missing value are among them: each runs loops of its own, and no step is to
        wait for a compiler while a stream arrives.
        """
        clf, options = self.model.clf, self.model.options
        first, w = int(clf.windows_.start[:1].sum()), clf.width_
        number = np.arange(2 * w + 4)
        values = clf.windows_.values[first + number % w].astype(np.float64)
        values[-1, 0] = np.nan
        apart = 1 / options.rate if options.rate else (options.max_gap or 1.0)
        steps = Steps(values, number, (apart * number).astype(np.float64))
        state = self.model.start()
        known = [*clf.classes_.tolist(), "any" if clf.unknown_ == "" else 0][0]
        for part in [*steps.pieces(w)][:2] + [*steps.pieces(1)][2 * w :]:
            self.model.advance(state, part)
            if options.max_taught and state.memory.length >= w:  # one example, and several
                state = self.model.teaching.teach(state, known)

    def flush(self) -> Predictions:
        """Release the steps that wait for an earlier one, as at the end of a stream."""
        return self._told(self.model.advance_waiting(self.state))

    def teach(self, state: str | int, n: int = 1, *, ago: int = 0) -> None:
        """Make the last ``n`` windows references of a state, known or new, at once.

        With ``ago``, those that ended so many steps ago: for labels that come late.
        """
        self.state = self.model.teaching.teach(self.state, state, n, ago=ago)

    def teach_span(self, state: str | int, begin: int, end: int) -> tuple[str | int, int]:
        """Make references of the windows inside the steps ``begin`` to ``end - 1``.

        Returns the state, and how many windows were taught.

        Steps are numbered as in predictions; they may reach back ``teachable`` steps. A span that
        holds no window gives the last one that ends in it. Of more windows than a quarter of
        ``max_taught`` so many are taken, evenly.

        Examples
        --------
        >>> live = LiveSession.empty(1, width=2, teachable=100)
        >>> _ = live.push([[0.0]] * 5 + [[9.0]] * 5)
        >>> live.teach_span("low", 0, 5)
        ('low', 4)
        >>> live.teach_span("high", 5, 10)
        ('high', 4)
        >>> live.examples
        [('low', 4), ('high', 4)]
        >>> live.undo()
        ('high', 4)
        """
        self.state = self.model.teaching.teach_span(self.state, state, begin, end)
        return self.examples[-1]

    def undo(self) -> tuple[str | int, int]:
        """Take back the last example; returns its state, and how many windows it had.

        What was forgotten for it is known again. At most 64 examples can be undone, and none before
        more windows were forgotten than ``max_taught``.

        Raises
        ------
        InputError
            If no example is left that can be undone.
        """
        undone = self.examples[-1:]
        self.state = self.model.teaching.undo(self.state)
        return undone[0]

    @property
    def examples(self) -> list[tuple[str | int, int]]:
        """The examples that can be undone, oldest first: their state and number of windows."""
        return self.model.teaching.examples(self.state)

    def taught_model(self) -> StreamClassifier:
        """A classifier that has the taught windows among its references; it can be saved.

        It predicts as this session does from now on, of which it is no part: begin a new one with
        it. Nothing is learned: features, metrics, weights and calibration are as they were. A new
        state comes to its place in their order. Windows that were forgotten are not in it.

        Raises
        ------
        InputError
            If nothing was taught, or the model would have fewer than two states.
        """
        return self.model.teaching.taught_model(self.state)

    def snapshot(self) -> bytes:
        """The state as bytes, for :meth:`restore`."""
        return self.state.to_bytes()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of a session with the same model and options."""
        model = self.model.for_snapshot(snapshot)
        self.state, self.model = model.state_from_bytes(snapshot), model
        self._recent.clear()
        self._n_recent = 0

    @property
    def classes(self) -> list[str | int]:
        """The states that can be predicted: those of the model, then taught ones."""
        return self.model.classes(self.state)

    @property
    def counters(self) -> dict[str, int]:
        """Counts of steps, see :data:`mlat.live.core.steps.COUNTED`."""
        return dict(self.state.counters)

    @property
    def warnings(self) -> list[str]:
        """Problems with the stream, each reported once."""
        return [*self.state.warnings]

    @property
    def waiting(self) -> int:
        """Steps that wait for an earlier one."""
        return len(self.state.order.waiting)

    @property
    def window(self) -> Floats:
        """The channels of the last steps as they are compared, shape (at most w, d).

        With held values filled in, and in common units where these are followed.
        """
        return self.state.window

    @property
    def units(self) -> Units | None:
        """The mean and deviation that each channel has by now, where they are followed.

        See ``adapt`` of :class:`~mlat.live.core.options.LiveOptions`; ``None`` where they are not.
        """
        return self.model.units(self.state)

    @property
    def recent(self) -> list[Prediction]:
        """The last predictions, oldest first; not part of a snapshot."""
        return [*Predictions.joined(self._recent)[-RECENT:]]
