"""Where live steps come from, by one small interface.

A new source is a module with a class like `Source`, and its line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from ...base.checks import check_whole
from ...base.errors import InputError
from .lines import LineSource
from .lsl import LslSource
from .mqtt import MqttAddress, MqttSource
from .replay import ReplaySource, split_rate
from .source import Arrival, Event, Notice, Refusal, Source

__all__ = ["KINDS", "Arrival", "Event", "Notice", "Refusal", "Source", "open_source"]


@dataclass(frozen=True)
class SourceOptions:
    """What `open_source` is given besides the text."""

    max_tries: int | None = None
    file: IO[Any] | None = None
    time: str = "time"


class SourceKind(NamedTuple):
    """How a source is written, and how it is made from that text."""

    form: str
    make: Callable[[str, SourceOptions], Source]


_MQTT = SourceKind(
    "mqtt://host[:port]/topic",
    lambda spec, given: MqttSource(MqttAddress.parse(spec), max_tries=given.max_tries),
)

# By what a text begins with, up to its first colon.
KINDS = {
    "-": SourceKind("- for lines on standard input", lambda _, given: LineSource(given.file)),
    "replay:": SourceKind(
        "replay:FILE[@rate]",
        lambda spec, given: ReplaySource(
            *split_rate(spec.removeprefix("replay:")), time=given.time
        ),
    ),
    "mqtt:": _MQTT,
    "mqtts:": _MQTT,
    "lsl:": SourceKind(
        "lsl:NAME",
        lambda spec, given: LslSource(spec.removeprefix("lsl:"), max_tries=given.max_tries),
    ),
}


def open_source(
    spec: str, *, max_tries: int | None = None, file: IO[Any] | None = None, time: str = "time"
) -> Source:
    """Make the source that a text names; nothing is read or connected before its ``open``.

    Parameters
    ----------
    spec : str
        ``-``, ``replay:FILE[@rate]``, ``mqtt://host[:port]/topic`` or ``lsl:NAME``.
    max_tries : int, optional
        For a source that connects: end after so many failed tries in a row. Default never.
    file : file object, optional
        For ``-``: what to read instead of standard input.
    time : str
        For ``replay:``: the recording's column of time.

    Examples
    --------
    >>> open_source("replay:walk.csv@2x").name
    'replay:walk.csv'
    """
    if max_tries is not None:
        check_whole(max_tries, "max_tries")
    name, colon, _ = spec.partition(":")
    kind = KINDS.get(name + colon)
    if kind is None:
        *forms, last = dict.fromkeys(kind.form for kind in KINDS.values())
        # Only the name is repeated: what follows may hold a password.
        raise InputError(f"source {name[:20]!r} is not known; give {', '.join(forms)} or {last}")
    return kind.make(spec, SourceOptions(max_tries, file, time))
