"""XDF recordings, as LabRecorder writes them from the streams of the lab streaming layer (LSL).

A file has several streams. The one of numbers is the stream to read; where there are several, the
one that has the channels that are asked for. Streams of texts, or of numbers that come at no rate
and are called markers, are markers: the column ``marker`` has, at each step, the last marker before
it. Channels that are triggers by their type or name are channels only if they are named.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError, require_package
from .array_files import ColumnsTable
from .mne_raw import TRIGGER

MARKER = "marker"
KIND_OF_MARKERS = re.compile(r"markers?|events?|stim(ulus)?|triggers?", re.IGNORECASE)


def read_xdf(path: Path, channels: Sequence[Any] | None = None) -> ColumnsTable:
    """The table of an XDF file: the channels of one stream, its ``time`` and the ``marker``.

    Parameters
    ----------
    path : path
    channels : sequence of names, optional
        They choose among several streams of numbers.

    Raises
    ------
    InputError
        If it is unclear which stream to take.
    MissingPackageError
        If pyxdf is not installed.
    """
    pyxdf = require_package("pyxdf", "xdf", "reading .xdf files")
    with _log_of("pyxdf") as said:
        streams, _ = pyxdf.load_xdf(str(path))
    held = [stream for stream in streams if len(stream["time_stamps"])]
    texts = [stream for stream in held if _is_markers(stream)]
    numbers = [stream for stream in held if not _is_markers(stream)]
    chosen = _choose(numbers, channels, path)
    time = np.asarray(chosen["time_stamps"], dtype=np.float64)
    values = np.asarray(chosen["time_series"])
    columns: dict[str, NDArray[Any]] = dict(zip(_labels(chosen), values.T, strict=True))
    columns["time"] = time
    # As of parts that are damaged and skipped. Of every file without clock offsets
    # it says that these differ.
    notes = [f"pyxdf: {text}" for text in dict.fromkeys(said) if "clock-segments" not in text]
    if others := [_name(stream) for stream in numbers if stream is not chosen]:
        notes.append(f"stream {_name(chosen)!r} is read, and not {', '.join(others)}")
    if texts:
        columns[MARKER] = _last_marker(texts, time)
    left_out = {
        label: "trigger"
        for label, kind in zip(_labels(chosen), _described(chosen, "type"), strict=True)
        if TRIGGER.fullmatch(label) or TRIGGER.fullmatch(kind)
    }
    return ColumnsTable(str(path), columns, [MARKER] if texts else [], tuple(notes), left_out)


@contextmanager
def _log_of(library: str) -> Iterator[list[str]]:
    """What a library logs, tracebacks among it, as texts instead of lines on standard error."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(library)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _choose(numbers: Sequence[Any], channels: Sequence[Any] | None, path: Path) -> Any:
    if not numbers:
        raise InputError(f"{path} holds no stream of numbers")
    wanted = {channels} if isinstance(channels, str) else set(channels or ())
    wanted -= {"time", MARKER}
    fitting = [stream for stream in numbers if wanted and wanted <= set(_labels(stream))]
    candidates = numbers if len(numbers) == 1 else fitting
    if len(candidates) == 1:
        return candidates[0]
    listed = "; ".join(f"{_name(s)!r}: {', '.join(_labels(s)[:8])}" for s in numbers)
    raise InputError(
        f"{path} holds {len(numbers)} streams of numbers; name the columns of one of them "
        f"(channels): {listed}"
    )


def _is_markers(stream: Any) -> bool:
    info = stream["info"]
    if info["channel_format"][0] == "string":
        return True
    kind = str((info.get("type") or [""])[0])
    return KIND_OF_MARKERS.fullmatch(kind) is not None and float(info["nominal_srate"][0]) == 0


def _name(stream: Any) -> str:
    return str(stream["info"]["name"][0])


def _labels(stream: Any) -> list[str]:
    """The labels of the channels in the description of a stream; ``x0``, ``x1``, … without them."""
    labels = _described(stream, "label")
    usable = "" not in labels and len(set(labels)) == len(labels)
    return labels if usable else [f"x{i}" for i in range(len(labels))]


def _described(stream: Any, what: str) -> list[str]:
    """What the description of a stream says of each channel; empty texts where it does not."""
    count = int(stream["info"]["channel_count"][0])
    try:
        listed = stream["info"]["desc"][0]["channels"][0]["channel"]
        found = [str(channel[what][0]) for channel in listed]
    except (KeyError, TypeError, IndexError):
        found = []
    return found if len(found) == count else [""] * count


def _last_marker(texts: Sequence[Any], time: NDArray[np.float64]) -> NDArray[Any]:
    times = np.concatenate([np.asarray(stream["time_stamps"]) for stream in texts])
    marks = [str(row[0]).removesuffix(".0") for stream in texts for row in stream["time_series"]]
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times[order], time, side="right")
    return np.array(["", *np.array(marks, dtype=object)[order]])[place]
