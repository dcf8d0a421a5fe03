"""How many steps met which fate."""

from __future__ import annotations

COUNTED = {
    "accepted": "steps that were numbered and got a prediction",
    "missing": "accepted steps that lacked a value",
    "held": "accepted steps in which a missing value was replaced by the channel's last",
    "rejected": "steps that were refused, for a missing or an infinite value",
    "infinite": "those of them with an infinite value",
    "late": "steps that came after their place was given up",
    "duplicate": "steps that came a second time",
    "gaps": "places where steps are missing between two that were accepted",
    "dead": "accepted steps at which some channel stood still for too long",
    "far": "accepted steps whose window is far from every reference",
    "unknown": "accepted steps whose state is unknown, for whatever reason",
    "taught": "windows that were taught",
    "wrong_unit": "1 if time does not seem to be in seconds",
}


class Counters(dict[str, int]):
    """A count for each of ``COUNTED``, from 0."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        super().__init__(dict.fromkeys(COUNTED, 0) if counts is None else counts)

    def copy(self) -> Counters:
        return Counters(self)
