"""What a page sees of a session, and of the time before this process, where it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..journal.keeper import Keeper
from ..journal.records import Arrived
from ..sources.source import Arrival
from ..steps import Steps
from .merging import groups_of, merge

if TYPE_CHECKING:
    from ..serving.hub import Hub
    from ..session import LiveSession


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page sees of a session: as it was when it was on disk, while it may be further."""

    counters: dict[str, int]
    classes: list[str | int]
    taught: Any

    @classmethod
    def of(cls, session: LiveSession) -> Seen:
        return cls(session.counters, session.classes, session.state.taught)

    @property
    def state(self) -> Seen:
        return self


def show_past(hub: Hub, keeper: Keeper, session: Seen, nothing: Steps) -> None:
    """Publish the last records of a journal, which somebody may have seen or not."""
    for batch in keeper.last_batches():
        arrivals = [
            Arrival(one.steps, one.position) for one in batch.inputs if isinstance(one, Arrived)
        ]
        *before, last = [merge(group).steps for group in groups_of(arrivals)] or [nothing]
        for steps in before:
            hub.publish(steps, [], session, 0.0, past=True)
        hub.publish(last, batch.predictions, session, 0.0, past=True)
