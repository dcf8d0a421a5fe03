"""The last steps of a stream and what was told of them, in a ring of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .frames import plain

if TYPE_CHECKING:
    from ..prediction import Prediction

Floats = NDArray[Any]


class History:
    """Steps ``first`` to ``next - 1``, without a gap between them.

    Parameters
    ----------
    capacity : int
        Steps that are kept.

    Attributes
    ----------
    first, next : int
        The oldest step that is kept, and the one that is expected.
    n_channels : int
        0 before the first step.
    labels : list of (state or None, why)
        What steps were told to be, each once; a step is kept with its place in here.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.first = self.next = 0
        self.n_channels = 0
        self.labels: list[tuple[Any, str]] = []
        self._places: dict[tuple[Any, str], int] = {}
        self._proba = np.empty(capacity, np.float32)
        self._label = np.empty(capacity, np.int32)
        self._arrived = np.empty(capacity, np.float64)
        self._time = np.empty(capacity, np.float64)
        self._values = np.empty((capacity, 0), np.float32)

    def extend(self, predictions: Sequence[Prediction], values: Floats, arrived: float) -> None:
        """Add steps, their channels (n, d), and when they arrived (seconds since 1970)."""
        if predictions[0].step != self.next:  # another stream, or steps that nobody watched
            self.first = self.next = predictions[0].step
        if values.shape[1] != self.n_channels:
            self.n_channels = values.shape[1]
            self._values = np.empty((self.capacity, self.n_channels), np.float32)
        if len(predictions) > self.capacity:
            self.first = self.next = predictions[-self.capacity].step
            predictions, values = predictions[-self.capacity :], values[-self.capacity :]
        at = np.arange(self.next, self.next + len(predictions)) % self.capacity
        with np.errstate(over="ignore"):  # what no 32-bit float holds is drawn as infinite
            self._values[at] = values
        self._proba[at] = [p.proba for p in predictions]
        self._label[at] = [self._place(p) for p in predictions]
        self._time[at] = [np.nan if p.time is None else p.time for p in predictions]
        self._arrived[at] = arrived
        self.next += len(predictions)
        self.first = max(self.first, self.next - self.capacity)

    def _place(self, prediction: Prediction) -> int:
        unknown = prediction.why or prediction.state in ("", -1)
        label = (None if unknown else plain(prediction.state), prediction.why)
        place = self._places.get(label)
        if place is None:
            place = self._places[label] = len(self.labels)
            self.labels.append(label)
        return place

    def oldest_within(self, seconds: float) -> int:
        """The first kept step that arrived at most so long before the last one."""
        arrived = self._arrived[self._at(self.first, self.next)]
        if not len(arrived):
            return self.next
        return self.first + int(np.searchsorted(arrived, arrived[-1] - seconds))

    def between(self, begin: int, end: int) -> tuple[dict[str, Any], list[Floats]]:
        """The steps ``begin`` to ``end - 1``, all kept, as a frame's header and arrays.

        The arrays are the channels (n, d), the probability of the state (n,) and, where the stream
        has times, the seconds since the header's ``time`` (n,).
        """
        at = self._at(begin, end)
        header: dict[str, Any] = {"first": begin, "n": len(at), "d": self.n_channels}
        arrays = [self._values[at], self._proba[at]]
        if len(at):
            header["runs"] = self._runs(at, begin)
            # The page shows what came to paint last *and* first: both ends of the frame.
            arrived = self._arrived[at[[0, -1]]]
            header["arrived"] = [round(1000 * float(t), 1) for t in arrived]
            time = self._time[at]
            known = time[~np.isnan(time)]
            if len(known):
                header["time"] = float(known[0])
                arrays.append(time - known[0])
        return header, arrays

    def _runs(self, at: NDArray[np.int64], begin: int) -> list[list[Any]]:
        """Where what is told changes, and to what: ``[step, state or None, why]``."""
        labels = self._label[at]
        starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        return [[begin + int(i), *self.labels[labels[i]]] for i in starts]

    def _at(self, begin: int, end: int) -> NDArray[np.int64]:
        return np.arange(begin, end) % self.capacity
