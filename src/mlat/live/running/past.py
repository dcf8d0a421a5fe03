"""What a page sees of the time before this process: it goes on where the last one was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..journal.keeper import Keeper
from ..journal.records import Arrived
from ..sources.source import Arrival
from ..steps import Steps
from .merging import groups_of, merge

if TYPE_CHECKING:
    from ..serving.hub import Hub


def show_past(hub: Hub, keeper: Keeper, session: Any, nothing: Steps) -> None:
    """Publish the last records of a journal, which somebody may have seen or not."""
    for batch in keeper.last_batches():
        arrivals = [
            Arrival(one.steps, one.position) for one in batch.inputs if isinstance(one, Arrived)
        ]
        *before, last = [merge(group).steps for group in groups_of(arrivals)] or [nothing]
        for steps in before:
            hub.publish(steps, [], session, 0.0, past=True)
        hub.publish(last, batch.predictions, session, 0.0, past=True)
