"""What is told of one step of a live stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """The state at one accepted step, how sure it is, and what it resembles.

    Attributes
    ----------
    step : int
        0, 1, 2, …: the number of the accepted step.
    state : str or int
        ``clf.unknown_`` where it is unknown; ``why`` then says why.
    proba : float
        The probability of that state; NaN where it is unknown.
    distance : float
        To the nearest reference in the learned space; NaN without a complete window.
    neighbours : tuple of int
        Rows of ``clf.windows_``, nearest first; taught windows are ``len(clf.windows_) + i``.
    why : str
        Empty where a state is told; else ``"filling"``, ``"missing"``, ``"gap"``, ``"far"`` or
        ``"dead channel NAME"``.
    seq : int or None
        The source's own number of the step.
    time : float or None
        Seconds, as the source says.
    shares : tuple of float
        The probability of each state in the order of ``session.classes``; empty without a window.
    """

    step: int
    state: str | int
    proba: float
    distance: float
    neighbours: tuple[int, ...]
    why: str
    seq: int | None
    time: float | None
    shares: tuple[float, ...]
