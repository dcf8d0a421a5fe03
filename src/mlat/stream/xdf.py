"""XDF recordings, as LabRecorder writes them from the streams of the lab streaming layer (LSL).

A file has several streams. The one of numbers is the stream to read; where there are several, the
one that has the channels that are asked for. Streams of texts are markers: the column ``marker``
has, at each step, the last marker before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DiskError, InputError, require_package
from .array_files import ColumnsTable

MARKER = "marker"


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
        If it cannot be read, or it is unclear which stream to take.
    MissingPackageError
        If pyxdf is not installed.
    """
    pyxdf = require_package("pyxdf", "xdf", "reading .xdf files")
    try:
        streams, _ = pyxdf.load_xdf(str(path))
    except FileNotFoundError as error:
        raise DiskError(f"{path} cannot be read: {error}") from None
    except Exception as error:  # pyxdf raises what its parsers raise
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(f"{path} cannot be read as XDF: {reason}") from None
    held = [stream for stream in streams if len(stream["time_stamps"])]
    texts = [stream for stream in held if _format(stream) == "string"]
    numbers = [stream for stream in held if _format(stream) != "string"]
    chosen = _choose(numbers, channels, path)
    time = np.asarray(chosen["time_stamps"], dtype=np.float64)
    values = np.asarray(chosen["time_series"])
    columns: dict[str, NDArray[Any]] = dict(zip(_labels(chosen), values.T, strict=True))
    columns["time"] = time
    notes = []
    if others := [_name(stream) for stream in numbers if stream is not chosen]:
        notes.append(f"stream {_name(chosen)!r} is read, and not {', '.join(others)}")
    if texts:
        columns[MARKER] = _last_marker(texts, time)
    return ColumnsTable(str(path), columns, states=[MARKER] if texts else [], notes=notes)


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


def _format(stream: Any) -> str:
    return str(stream["info"]["channel_format"][0])


def _name(stream: Any) -> str:
    return str(stream["info"]["name"][0])


def _labels(stream: Any) -> list[str]:
    """The labels of the channels in the description of a stream; ``x0``, ``x1``, … without them."""
    count = int(stream["info"]["channel_count"][0])
    try:
        listed = stream["info"]["desc"][0]["channels"][0]["channel"]
        labels = [str(channel["label"][0]) for channel in listed]
    except (KeyError, TypeError, IndexError):
        labels = []
    usable = len(labels) == count and len(set(labels)) == count
    return labels if usable else [f"x{i}" for i in range(count)]


def _last_marker(texts: Sequence[Any], time: NDArray[np.float64]) -> NDArray[Any]:
    times = np.concatenate([np.asarray(stream["time_stamps"]) for stream in texts])
    marks = [str(row[0]) for stream in texts for row in stream["time_series"]]
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times[order], time, side="right")
    return np.array(["", *np.array(marks, dtype=object)[order]])[place]
