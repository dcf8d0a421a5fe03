"""One page's WebSocket: a greeting, then frames out and acknowledgements in.

A page acknowledges every frame once it has taken it in. What it does not, it is not sent more of:
TCP alone would let minutes of frames wait in buffers before a slow page were noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .frames import encode

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from .hub import Hub, Subscription

TOO_BIG, POLICY = 1009, 1008  # closing codes of RFC 6455


async def watch(
    hub: Hub, socket: WebSocket, model: Mapping[str, Any], refused: Callable[[str], None]
) -> None:
    """Keep one page up to date until either side ends it."""
    await socket.accept()
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(ready.set)

    since = socket.query_params.get("since", "")
    subscription = hub.subscribe(
        since=int(since) if since.isdecimal() and len(since) < 16 else None,
        stream=socket.query_params.get("stream"),
        wake=wake,
    )
    hello = {**model, "kind": "hello", "stream": hub.stream, "rate": hub.rate, "now": hub.status()}
    try:
        sending = asyncio.create_task(_send(socket, subscription, ready, encode(hello)))
        receiving = asyncio.create_task(_receive(socket, subscription, refused))
        done, left = await asyncio.wait((sending, receiving), return_when="FIRST_COMPLETED")
        for task in left:
            task.cancel()
        await asyncio.gather(*done, *left, return_exceptions=True)
    finally:
        subscription.close()


async def _send(
    socket: WebSocket, subscription: Subscription, ready: asyncio.Event, hello: bytes
) -> None:
    await socket.send_bytes(hello)
    told = 0
    while True:
        ready.clear()
        frame = subscription.take()
        if frame is None:
            await ready.wait()
            continue
        if subscription.dropped > told:
            told = subscription.dropped
            await socket.send_bytes(encode({"kind": "dropped", "frames": told}))
        await socket.send_bytes(frame)


async def _receive(
    socket: WebSocket, subscription: Subscription, refused: Callable[[str], None]
) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            if message.get("code") == TOO_BIG:
                refused("too long")
            return
        frames = _acknowledged(message.get("text"))
        if frames is None:
            refused("bad message")
            await socket.close(POLICY, "send the number of frames taken in")
            return
        subscription.acknowledge(frames)


def _acknowledged(text: str | None) -> int | None:
    """How many more frames a page has taken in; None if it says anything else."""
    try:
        frames = json.loads(text or "")["ack"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return frames if type(frames) is int and 0 < frames <= 1_000_000 else None
