"""The options of a live session: its policies, and how it searches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...base.checks import check_whole, is_real
from ...base.errors import InputError

OLD_NAME = "flat"  # of the incremental search
GAP_FACTOR = 1.5  # usual steps, as in mlat.stream.gaps: one lost step makes 2, jitter stays below


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The policies of a session; all of them are part of its snapshots.

    Parameters
    ----------
    missing : "abstain", "hold" or "reject", default="abstain"
        What happens to a step with a missing value. "abstain": its state is unknown and a new
        window begins after it. "hold": the channel's last value takes its place, for at most
        ``hold`` steps in a row. "reject": the step is refused, as if it had not come.
    hold : int, default=5
    reorder : int, default=0
        How many steps may wait for an earlier one that has not come yet.
    order_by : "none", "seq" or "time", default="none"
        What gives the order of the steps; with ``"none"`` it is that of their arrival.
    max_gap : float, optional
        Seconds between steps beyond which a new window begins; default 1.5 steps of ``rate``.
    rate : float, optional
        Steps per second; default that of the stream the model was learned from. If that had no
        time, time shows no gaps.
    dead : "auto" or "off", default="auto"
        Whether the state is unknown while a channel is constant far longer than in training.
    far : float or None, default=3.0
        The state is unknown where the window is farther from every reference than this many times
        the farthest in training. None turns it off.
    search : "auto", "exact" or "incremental", default="auto"
        "flat", the old name of "incremental", is accepted, too.
    filtered : bool, default=False
        Filter the states, as ``predict(filtered=True)`` does.
    max_taught : int, default=256
        Taught windows that are kept.
    forget : "oldest" or "balanced", default="oldest"
        Which of them are dropped for newer ones: the oldest of all, or those of every state beyond
        its equal share of ``max_taught``, the oldest first.
    teachable : int, default=16
        How many steps back lessons may reach. Snapshots and journals open with more, too.
    anchor : int, default=64
        For the incremental search: steps after which its running sums start again.
    """

    missing: str = "abstain"
    hold: int = 5
    reorder: int = 0
    order_by: str = "none"
    max_gap: float | None = None
    rate: float | None = None
    dead: str = "auto"
    far: float | None = 3.0
    search: str = "auto"
    filtered: bool = False
    max_taught: int = 256
    forget: str = "oldest"
    teachable: int = 16
    anchor: int = 64

    def __post_init__(self) -> None:
        if self.search == OLD_NAME:
            object.__setattr__(self, "search", "incremental")
        _one_of(self, "missing", "abstain", "hold", "reject")
        _one_of(self, "order_by", "none", "seq", "time")
        _one_of(self, "dead", "auto", "off")
        _one_of(self, "forget", "oldest", "balanced")
        _one_of(self, "search", "auto", "exact", "incremental")
        lows = {"hold": 1, "reorder": 0, "max_taught": 0, "teachable": 1, "anchor": 1}
        for name, low in lows.items():
            object.__setattr__(self, name, check_whole(getattr(self, name), name, low))
        for name in ("max_gap", "rate", "far"):
            object.__setattr__(self, name, _positive(getattr(self, name), name))
        if not isinstance(self.filtered, bool):
            raise InputError(f"filtered must be True or False, not {self.filtered!r}")
        if self.reorder and self.order_by == "none":
            raise InputError('reorder needs order_by="seq" or order_by="time", to give the order')

    @property
    def gap_seconds(self) -> float | None:
        """The time between steps beyond which there is a gap; None for never."""
        if self.max_gap is not None:
            return self.max_gap
        return None if self.rate is None else GAP_FACTOR / self.rate

    def as_dict(self) -> dict[str, Any]:
        """By name, as snapshots and journals hold them; "incremental" has its old name there."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return options | {"search": stored_name(self.search)}


def other_option(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first option that keeps a session from going on after one with other options, or None.

    One that may be taught what came longer ago goes on with what is remembered.
    """
    for name, value in now.items():
        if before[name] != value and not (name == "teachable" and before[name] <= value):
            return name
    return None


def stored_name(search: str) -> str:
    """The name of a search in snapshots and journals: files that were written before still open."""
    return OLD_NAME if search == "incremental" else search


def _one_of(options: LiveOptions, name: str, *known: str) -> None:
    value = getattr(options, name)
    if not isinstance(value, str) or value not in known:
        quoted = ", ".join(f'"{word}"' for word in known[:-1])
        raise InputError(f'{name} must be {quoted} or "{known[-1]}", not {value!r}')


def _positive(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if not is_real(value) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number or None, not {value!r}")
    return float(value)
