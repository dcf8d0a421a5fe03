"""What a live session is asked to do with the steps that come in."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...errors import InputError

GAP_FACTOR = 1.5  # usual steps, as in mlat.stream.stream: one lost step makes 2, jitter stays below


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The policies of a session; all of them are part of its snapshots.

    Parameters
    ----------
    missing : "abstain", "hold" or "reject", default="abstain"
        What becomes of a step with a missing value: it is unknown and the window begins anew after
        it; the value is replaced by the channel's last one, for at most ``hold`` steps in a row;
        or the step is refused, as if it had not come.
    hold : int, default=5
    reorder : int, default=0
        How many steps may wait for an earlier one that has not come yet.
    order_by : "none", "seq" or "time", default="none"
        What tells the order of the steps; with ``"none"`` it is that of their arrival.
    max_gap : float, optional
        Seconds between steps from which on the window begins anew; default 1.5 steps of ``rate``,
        and without a rate time tells no gaps.
    rate : float, optional
        Steps in a second.
    dead : "auto" or "off", default="auto"
        Whether a channel that stands still far longer than in training makes the state unknown.
    far : float or None, default=3.0
        The state is unknown where the window is farther from every reference than so many times
        the farthest that training saw. None never does.
    search : "auto", "exact" or "flat", default="auto"
    filtered : bool, default=False
        Let states persist, as ``predict(filtered=True)`` does.
    max_taught : int, default=256
        Taught windows that are kept; the oldest make room.
    teachable : int, default=16
        How many windows back ``teach`` may reach.
    anchor : int, default=64
        For the flat search: steps after which its running sums are computed anew.
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
    teachable: int = 16
    anchor: int = 64

    def __post_init__(self) -> None:
        _one_of(self, "missing", "abstain", "hold", "reject")
        _one_of(self, "order_by", "none", "seq", "time")
        _one_of(self, "dead", "auto", "off")
        _one_of(self, "search", "auto", "exact", "flat")
        for name, least in (("hold", 1), ("reorder", 0), ("max_taught", 0)):
            _whole(self, name, least)
        for name in ("teachable", "anchor"):
            _whole(self, name, 1)
        for name in ("max_gap", "rate", "far"):
            _positive(self, name)
        if not isinstance(self.filtered, bool):
            raise InputError(f"filtered must be True or False, not {self.filtered!r}")
        if self.reorder and self.order_by == "none":
            raise InputError('reorder needs order_by="seq" or order_by="time", to tell the order')

    @property
    def gap_seconds(self) -> float | None:
        """The time between steps that is a gap when exceeded; None for never."""
        if self.max_gap is not None:
            return self.max_gap
        return None if self.rate is None else GAP_FACTOR / self.rate

    def as_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _one_of(options: LiveOptions, name: str, *known: str) -> None:
    value = getattr(options, name)
    if not isinstance(value, str) or value not in known:
        quoted = ", ".join(f'"{word}"' for word in known[:-1])
        raise InputError(f'{name} must be {quoted} or "{known[-1]}", not {value!r}')


def _whole(options: LiveOptions, name: str, least: int) -> None:
    value = getattr(options, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    object.__setattr__(options, name, int(value))


def _positive(options: LiveOptions, name: str) -> None:
    value = getattr(options, name)
    if value is None:
        return
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number or None, not {value!r}")
    object.__setattr__(options, name, float(value))
