"""AReM: radio signal strength between three beacons on the body, 4 steps a second."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...stream.stream import Stream
from .catalog import SETS, People
from .files import Source, open_people, read_recording

CHANNELS = ("avg_rss12", "var_rss12", "avg_rss13", "var_rss13", "avg_rss23", "var_rss23")
ACTIVITIES = ("bending", "cycling", "lying", "sitting", "standing", "walking")

# Two recordings are copies if this share of their rows agrees, step by step. Different
# recordings of one activity share less than a third; UCI's copies all rows, or all but one.
COPY_SHARE = 0.9


def load_arem(
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    drop_copies: bool = True,
    complete: bool = True,
) -> dict[str, Stream]:
    """Activity Recognition system based on Multisensor data fusion (UCI 366).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : optional
        Only "all": UCI does not say whose recording is whose.
    drop_copies : bool, default=True
        Leave out the seven recordings that repeat an earlier one of the same activity
        (cycling 15 and lying 10 … 15); a copy among the test data would be a leak.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        One stream, "all". Each file is a recording, named "cycling/dataset1"; ``time`` is UCI's
        in milliseconds, because the row lost from sitting 8 makes a gap. The two kinds of bending
        are one state.
    """
    with open_people(SETS["arem"], data, people, complete=complete) as (source, by_person):
        # Folder by folder, and dataset2 before dataset10.
        files = sorted(by_person["all"], key=lambda f: (f.split("/")[0], _number_of(f)))
        return {"all": _join(list(_recordings(source, files, drop_copies, complete)))}


def _recordings(
    source: Source, files: list[str], drop_copies: bool, complete: bool
) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
    """The name, state and rows of each recording that is kept."""
    kept: dict[str, list[NDArray[np.float64]]] = {}
    for file in files:
        rows = read_recording(source, file, 7, complete=complete)
        state = file.split("/")[0].rstrip("12")
        earlier = kept.setdefault(state, [])
        if drop_copies and any(_is_copy(rows, other) for other in earlier):
            continue
        earlier.append(rows)
        yield file.removesuffix(".csv"), state, rows


def _number_of(file: str) -> int:
    return int(re.findall(r"\d+", file)[-1])


def _is_copy(rows: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    if rows.shape != other.shape:
        return False
    return float((rows == other).all(axis=1).mean()) >= COPY_SHARE


def _join(parts: list[tuple[str, str, NDArray[np.float64]]]) -> Stream:
    rows = np.concatenate([rows for _, _, rows in parts])
    lengths = [len(rows) for _, _, rows in parts]
    return Stream(
        rows[:, 1:].copy(),
        np.repeat([state for _, state, _ in parts], lengths),
        recordings=np.repeat([name for name, _, _ in parts], lengths),
        time=rows[:, 0].copy(),
        channels=CHANNELS,
    )
