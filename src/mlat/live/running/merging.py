"""Arrivals that can be classified together, and kept as one."""

from __future__ import annotations

from collections.abc import Sequence

from ..journal.records import Arrived
from ..sources.source import Arrival
from ..steps import Steps, join


def groups_of(arrivals: Sequence[Arrival]) -> list[list[Arrival]]:
    """Consecutive arrivals that tell the same of their steps."""
    groups: list[list[Arrival]] = []
    for arrival in arrivals:
        if groups and _kind(groups[-1][0].steps) == _kind(arrival.steps):
            groups[-1].append(arrival)
        else:
            groups.append([arrival])
    return groups


def merge(group: Sequence[Arrival]) -> Arrived:
    """The steps of a group; the source resumes behind the last of them."""
    position = next((a.position for a in reversed(group) if a.position), "")
    return Arrived(join([arrival.steps for arrival in group]), position)


def _kind(steps: Steps) -> tuple[object, ...]:
    return steps.values.shape[1:], steps.seq is None, steps.time is None
