"""What waits to be classified: bounded, and taken all at once."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A queue whose reader takes everything that has come since it last looked.

    So the slower the disk, the more goes into one record: the queue cannot fall behind for good.

    Parameters
    ----------
    limit : int
        The weight of items, such as their number of steps, at which ``put`` waits.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._weight = limit, 0
        self._items: list[Item] = []
        self._filled, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def put(self, item: Item, weight: int = 1) -> None:
        """Add an item as soon as there is room."""
        while not self._room.is_set():
            await self._room.wait()
        self.put_now(item, weight)

    def put_now(self, item: Item, weight: int = 0) -> None:
        """Add an item, room or not."""
        self._items.append(item)
        self._weight += weight
        self._filled.set()
        if self._weight >= self._limit:
            self._room.clear()

    async def take(self) -> list[Item]:
        """All items, as soon as there is one."""
        await self._filled.wait()
        items, self._items, self._weight = self._items, [], 0
        self._filled.clear()
        self._room.set()
        return items
