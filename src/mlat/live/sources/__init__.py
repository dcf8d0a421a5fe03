"""Where live steps come from, by one small interface.

A new source is a module with a class like `Source`, and its case in `open_source`.
"""

from __future__ import annotations

from typing import IO, Any

from ...base.checks import check_whole
from ...base.errors import InputError
from .lines import LineSource
from .lsl import LslSource
from .mqtt import MqttAddress, MqttSource
from .replay import ReplaySource, split_rate
from .source import Arrival, Event, Notice, Refusal, Source

__all__ = ["Arrival", "Event", "Notice", "Refusal", "Source", "open_source"]


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
    kind, colon, rest = spec.partition(":")
    match kind + colon:
        case "-":
            return LineSource(file)
        case "replay:":
            return ReplaySource(*split_rate(rest), time=time)
        case "mqtt:" | "mqtts:":
            return MqttSource(MqttAddress.parse(spec), max_tries=max_tries)
        case "lsl:":
            return LslSource(rest, max_tries=max_tries)
    # Only the kind is repeated: what follows may hold a password.
    raise InputError(
        f"source {kind[:20]!r} is not known; give - for lines on standard input, "
        "replay:FILE[@rate], mqtt://host[:port]/topic or lsl:NAME"
    )
