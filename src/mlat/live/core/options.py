"""The options of a live session: its policies, and how it searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from ...base.checks import SMALLEST, Limits, annotations_of, check_parameter, is_whole
from ...base.errors import InputError
from ...stream.conversion import GAP_FACTOR

OLD_NAME = "flat"  # of the incremental search
BEFORE = {"adapt": "off"}  # what sessions did that have no such option


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The policies of a session; all of them are part of its snapshots.

    Parameters
    ----------
    missing : "abstain", "hold" or "reject", default="abstain"
        What happens to a step with a missing value: its state is unknown and a new window begins
        after it ("abstain"); the channel's last value takes its place, for at most ``hold`` steps
        in a row ("hold"); or it is refused, as if it had not come ("reject").
    hold : int, default=5
        With ``missing="hold"``: for how many steps in a row at most.
    reorder : int, default=0
        How many steps may wait for an earlier one that has not come yet.
    order_by : "none", "seq" or "time", default="none"
        What gives the order of the steps; with "none" it is that of their arrival.
    max_gap : float, optional
        Seconds between steps beyond which a new window begins; default 1.5 steps of ``rate``.
    rate : float, optional
        Steps per second, to find gaps in time; default that of the stream the model was learned
        from. If that had no time, time shows no gaps.
    dead : "auto" or "off", default="auto"
        Whether the state is unknown while a channel is constant far longer than in training.
    far : float or None, default=3.0
        The state is unknown where the window is farther from every reference than this many times
        the farthest in training. None turns it off.
    search : "auto", "exact" or "incremental", default="auto"
        How references are searched. "flat", the old name of "incremental", is accepted, too.
    filtered : bool, default=False
        Filter the states over time: steadier, and later at a switch. As
        ``predict(filtered=True)`` does.
    adapt : "auto" or "off", default="auto"
        Whether the mean and deviation of each channel are followed, slowly, where the model was
        learned from several groups in common units and is not adapted to one. The states are then
        not those of ``predict``. Other models have nothing to follow.
    max_taught : int, default=256
        Taught windows that are kept.
    forget : "oldest" or "balanced", default="oldest"
        Which of them are dropped for newer ones: the oldest of all, or those of every state beyond
        its equal share of ``max_taught``, the oldest first.
    teachable : int, default=16
        How many steps back examples may reach. Snapshots and journals open with more, too.
    anchor : int, default=64
        For the incremental search: steps after which its running sums start again.
    """

    missing: Literal["abstain", "hold", "reject"] = "abstain"
    hold: Annotated[int, Limits(1)] = 5
    reorder: Annotated[int, Limits(0)] = 0
    order_by: Literal["none", "seq", "time"] = "none"
    max_gap: Annotated[float, Limits(SMALLEST)] | None = None
    rate: Annotated[float, Limits(SMALLEST)] | None = None
    dead: Literal["auto", "off"] = "auto"
    far: Annotated[float, Limits(SMALLEST)] | None = 3.0
    search: Literal["auto", "exact", "incremental"] = "auto"
    filtered: bool = False
    adapt: Literal["auto", "off"] = "auto"
    max_taught: Annotated[int, Limits(0)] = 256
    forget: Literal["oldest", "balanced"] = "oldest"
    teachable: Annotated[int, Limits(1)] = 16
    anchor: Annotated[int, Limits(1)] = 64

    def __post_init__(self) -> None:
        if str(self.search) == OLD_NAME:
            object.__setattr__(self, "search", "incremental")
        for name, annotation in annotations_of(LiveOptions).items():
            value = check_parameter(getattr(self, name), name, annotation)
            object.__setattr__(self, name, value)
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
        was = before[name]
        if was != value and not (name == "teachable" and is_whole(was) and was <= value):
            return name
    return None


def stored_name(search: str) -> str:
    """The name of a search in snapshots and journals: files that were written before still open."""
    return OLD_NAME if search == "incremental" else search
