"""The same interface for those who ask when windows were, as neighbours in time are near-copies."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from numpy.typing import ArrayLike

from ..targets import when_of
from .knn import WindowKNN
from .lanes import IntArray


class When(NamedTuple):
    """What ``fit`` was told."""

    start: ArrayLike | None
    run: ArrayLike | None

    def of(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """The step each window begins at and the run it lies in, checked."""
        return when_of(codes, self.start, self.run)


class TimedKNN(WindowKNN):
    """k nearest neighbours over windows whose times are known while it learns."""

    _when: When

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        start: ArrayLike | None = None,
        run: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
        y : array of shape (n,)
        start : array of shape (n,), optional
            The step each window begins at. Default: the row number.
        run : array of shape (n,), optional
            The run each window lies in. Default: neighbouring rows of one label are a run.
        """
        self._when = When(start, run)
        try:
            return super().fit(X, y)
        finally:
            del self._when
