"""Which messages were handed on, which the broker may forget, which it has sent before."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")  # a message, whatever it is

MOST_UNACKNOWLEDGED = 64
_KEY = struct.Struct(">HI")


class Deliveries(Generic[T]):
    """The accounts of one subscription with QoS 1, over connections and restarts.

    A broker keeps a message until it is acknowledged, and sends those it keeps again, marked as
    such, when the client comes back: under the same packet number if it still has the session. So
    a message is known by its packet number and a digest of its payload. Messages are counted from
    1; the *position* of one is its count and the keys of the last ones handed on, so that after a
    restart those which are on disk, but which the broker does not know to be, are told apart from
    those that are not.

    A broker that was slow to read acknowledgements may send more again than there are keys. It does
    so in the old order, and before it answers the subscription: what comes before the first known
    message is older than it, and if no known one comes, all are new. Until that is clear they are
    held.

    No more than `MOST_UNACKNOWLEDGED` messages may be received and not acknowledged: `full` says
    when to stop reading.
    """

    def __init__(self, after: str = "") -> None:
        self._count = 0
        self._acknowledged = 0  # the count up to which everything is on disk
        self._open: deque[tuple[int, int]] = deque()  # (count, packet) to acknowledge, as received
        self._refused: set[int] = set()  # counts of messages that nobody will keep
        self._known: dict[bytes, int] = {}  # key -> count, of the last ones
        self._held: list[tuple[int, bytes, T]] | None = None  # sent again, and not yet clear
        if after:
            self._count, keys = _parse(after)
            self._acknowledged = self._count
            self._known = dict.fromkeys(keys, self._count)

    @property
    def full(self) -> bool:
        return self._count - self._acknowledged >= MOST_UNACKNOWLEDGED

    def connected(self, session_present: bool) -> None:
        """A connection begins: what was received over the last one will be sent again, or never."""
        self._open.clear()
        if not session_present:
            self._known.clear()  # their packet numbers will be given to others
        self._held = [] if self._known else None

    def receive(
        self, packet: int, payload: bytes, message: T, *, again: bool
    ) -> list[tuple[int, T]]:
        """The messages that are now known to be new, each with its count.

        ``packet`` is 0 for a message without QoS, which is never sent again.
        """
        key = _key(packet, payload)
        if not again or not packet:
            return [*self.subscribed(), self._take(packet, key, message)]
        if key in self._known:
            # Those before it are on disk as well, since keys are kept of the last ones.
            self._open.extend((0, old) for old, _, _ in self._held or ())
            self._held = None
            self._open.append((self._known[key], packet))
            return []
        if self._held is not None:
            self._held.append((packet, key, message))
            return []
        return [self._take(packet, key, message)]

    def subscribed(self) -> list[tuple[int, T]]:
        """All that was to be sent again has been: the messages that are thereby known to be new."""
        held, self._held = self._held or [], None
        return [self._take(*one) for one in held]

    def _take(self, packet: int, key: bytes, message: T) -> tuple[int, T]:
        self._count += 1
        if packet:
            self._open.append((self._count, packet))
            self._known.pop(key, None)  # so that it stands last
            self._known[key] = self._count
            self._forget()
        return self._count, message

    def _forget(self) -> None:
        """Keep the keys of what is not acknowledged, and of some before, whose acknowledgement may
        have been lost on its way."""
        while len(self._known) > MOST_UNACKNOWLEDGED:
            key = next(iter(self._known))
            if self._known[key] > self._acknowledged:
                return
            del self._known[key]

    def position(self, count: int) -> str:
        """By which to resume behind the message of that count."""
        keys = b"".join(key for key, at in self._known.items() if at <= count)
        return f"{count}:{base64.urlsafe_b64encode(keys).decode()}"

    def keep(self, position: str) -> None:
        """All messages up to a position are on disk."""
        self._acknowledged = max(self._acknowledged, min(_parse(position)[0], self._count))
        self._pass_over_refused()

    def refuse(self, count: int) -> None:
        """A message is no step: the broker may forget it when it may forget those before it."""
        self._refused.add(count)
        self._pass_over_refused()

    def _pass_over_refused(self) -> None:
        while self._acknowledged + 1 in self._refused:
            self._acknowledged += 1
        self._refused = {count for count in self._refused if count > self._acknowledged}

    def to_acknowledge(self) -> list[int]:
        """The packets that the broker may forget now, in the order it must be told of them."""
        packets = []
        while self._open and self._open[0][0] <= self._acknowledged:
            packets.append(self._open.popleft()[1])
        return packets


def _key(packet: int, payload: bytes) -> bytes:
    digest = hashlib.blake2s(payload, digest_size=4).digest()
    return _KEY.pack(packet, int.from_bytes(digest, "big"))


def _parse(position: str) -> tuple[int, list[bytes]]:
    """Count and keys; `ValueError` if it is no position of this source."""
    count, colon, text = position.partition(":")
    try:
        keys = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(position) from error
    if not colon or not (count.isascii() and count.isdigit()) or len(keys) % _KEY.size:
        raise ValueError(position)
    return int(count), [keys[i : i + _KEY.size] for i in range(0, len(keys), _KEY.size)]
