"""The loaders of the four sets: each gives a `Stream` per person.

How the raw files differ from what a stream needs, and the rule for each case, is in the notes of
the loaders and in docs/evidence/datasets.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mlat.base.checks import Floats
from mlat.base.errors import InputError
from mlat.stream.stream import Stream

from .catalog import SETS, People, UciSet, get_set
from .files import SetFiles, open_people, read_recording

# The activities of the paper's protocol, for the two sets of twenty. The paper names none; with
# these five, plain Euclidean 1-NN lands near its figure.
PAPER_ACTIVITIES: Mapping[str, tuple[str, ...]] = {
    "emg": ("Bowing", "Clapping", "Handshaking", "Hugging", "Jumping"),
    "vicon": ("Running", "Seating", "Standing", "Walking", "Waving"),
}


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    **options: Any,
) -> dict[str, Stream]:
    """Load a set by name.

    Parameters
    ----------
    name : {"scma", "arem", "emg", "vicon"}
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Only these people; see ``SETS[name].people``. Default all.
    **options
        Passed to the set's own loader.

    Returns
    -------
    dict of str to Stream
        A stream per person.
    """
    loaders: dict[str, Callable[..., dict[str, Stream]]] = {
        "scma": load_scma,
        "arem": load_arem,
        "emg": load_emg,
        "vicon": load_vicon,
    }
    return loaders[get_set(name).name](data, people, **options)


# SCMA: one accelerometer on the chest, 15 people, 52 steps a second.

# The labels 0 … 7. The README does not explain 0: it is the last row of every file and a few
# segments between activities, so those steps have no state.
SCMA_ACTIVITIES = (
    "",
    "working at computer",
    "standing up/walking/stairs",
    "standing",
    "walking",
    "going up/down stairs",
    "walking and talking with someone",
    "talking while standing",
)


def load_scma(
    data: str | os.PathLike[str] | None = None, people: People = None, *, complete: bool = True
) -> dict[str, Stream]:
    """Activity Recognition from Single Chest-Mounted Accelerometer (UCI 287).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "1" … "15"; only their files are read. Default all.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: channels x, y, z (uncalibrated, whole numbers), one recording each. The seven
        states are those of `SCMA_ACTIVITIES`; label 0 is unlabelled. UCI's sequence number is not
        used (from 100,000 on it is rounded and repeats), so a step is a row.
    """
    with open_people(SETS["scma"], data, people, complete=complete) as (copy, files):
        return {person: _read_scma(copy, file, complete) for person, (file,) in files.items()}


def _read_scma(copy: SetFiles, file: str, complete: bool) -> Stream:
    rows = read_recording(copy, file, 5, complete=complete)
    labels = rows[:, 4]
    known = (labels >= 0) & (labels < len(SCMA_ACTIVITIES)) & (labels == np.floor(labels))
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(
            f"{copy.where(file)}, row {row + 1}: label {labels[row]:g} is not one of "
            f"0 … {len(SCMA_ACTIVITIES) - 1}; get a fresh copy of the file"
        )
    states = np.array(SCMA_ACTIVITIES)[labels.astype(np.int64)]
    return Stream(rows[:, 1:4].copy(), states, channels=("x", "y", "z"))


# AReM: radio signal strength between three beacons on the body, 4 steps a second.

AREM_CHANNELS = ("avg_rss12", "var_rss12", "avg_rss13", "var_rss13", "avg_rss23", "var_rss23")

# Two recordings are copies if this fraction of their rows agrees, step by step. Different
# recordings of one activity share less than a third; UCI's copies all rows, or all but one.
COPY_FRACTION = 0.9


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
        Only "all": UCI does not say who was recorded in which file.
    drop_copies : bool, default=True
        Drop the seven recordings that repeat an earlier one of the same activity
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
    with open_people(SETS["arem"], data, people, complete=complete) as (copy, by_person):
        # Folder by folder, and dataset2 before dataset10.
        files = sorted(by_person["all"], key=lambda f: (f.split("/")[0], _number_of(f)))
        parts = list(_arem_recordings(copy, files, drop_copies, complete))
    rows = np.concatenate([rows for _, _, rows in parts])
    lengths = [len(rows) for _, _, rows in parts]
    stream = Stream(
        rows[:, 1:].copy(),
        np.repeat([state for _, state, _ in parts], lengths),
        recordings=np.repeat([name for name, _, _ in parts], lengths),
        time=rows[:, 0].copy(),
        channels=AREM_CHANNELS,
    )
    return {"all": stream}


def _arem_recordings(
    copy: SetFiles, files: list[str], drop_copies: bool, complete: bool
) -> Iterator[tuple[str, str, Floats]]:
    """The name, state and rows of each recording that is kept."""
    kept: dict[str, list[Floats]] = {}
    for file in files:
        rows = read_recording(copy, file, 7, complete=complete)
        state = file.split("/")[0].rstrip("12")
        earlier = kept.setdefault(state, [])
        if drop_copies and any(_is_copy(rows, other) for other in earlier):
            continue
        earlier.append(rows)
        yield file.removesuffix(".csv"), state, rows


def _number_of(file: str) -> int:
    return int(re.findall(r"\d+", file)[-1])


def _is_copy(rows: Floats, other: Floats) -> bool:
    if rows.shape != other.shape:
        return False
    return float((rows == other).all(axis=1).mean()) >= COPY_FRACTION


# EMG and Vicon: twenty physical actions, one file for each person and action. EMG has eight
# muscles, four people, 1000 steps a second; Vicon nine markers in space, ten people, 200 steps.

# UCI's file names, with its spelling: ten normal actions, then ten aggressive ones.
ACTIONS = (
    *("Bowing", "Clapping", "Handshaking", "Hugging", "Jumping"),
    *("Running", "Seating", "Standing", "Walking", "Waving"),
    *("Elbowing", "Frontkicking", "Hamering", "Headering", "Kneeing"),
    *("Pulling", "Punching", "Pushing", "Sidekicking", "Slapping"),
)

EMG_CHANNELS = (
    "right_biceps",
    "right_triceps",
    "left_biceps",
    "left_triceps",
    "right_thigh",
    "right_hamstring",
    "left_thigh",
    "left_hamstring",
)

# UCI's readme gives the limbs in this order but not which marker of a limb comes first. Their
# heights do: of a standing person the elbow is above the wrist and the knee above the ankle.
VICON_MARKERS = (
    "head",
    "left_elbow",
    "left_wrist",
    "right_elbow",
    "right_wrist",
    "left_knee",
    "left_ankle",
    "right_knee",
    "right_ankle",
)
VICON_CHANNELS = tuple(f"{marker}_{axis}" for marker in VICON_MARKERS for axis in "xyz")

# 50 ms. A straight line over so short a gap is mostly within millimetres of the marker.
MAX_LOST = 10


def load_emg(
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    activities: Iterable[str] | None = None,
    complete: bool = True,
) -> dict[str, Stream]:
    """EMG Physical Action Data Set (UCI 213).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "sub1" … "sub4" (1 … 4 will do); only their files are read. Default all.
    activities : iterable of str, optional
        Some of UCI's twenty, as its files are named; only these are read. Default all. The five
        of the paper's protocol are ``PAPER_ACTIVITIES["emg"]``.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: eight channels of whole numbers, clipped by the device at ±4000; one recording
        per activity, named "Normal/Bowing".
    """

    def read(copy: SetFiles, file: str) -> Floats:
        return read_recording(copy, file, len(EMG_CHANNELS), complete=complete)

    return _load_actions(SETS["emg"], data, people, activities, EMG_CHANNELS, read, complete)


def load_vicon(
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    activities: Iterable[str] | None = None,
    max_lost: int = MAX_LOST,
    complete: bool = True,
) -> dict[str, Stream]:
    """Vicon Physical Action Data Set (UCI 214).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "sub1" … "sub10" (1 … 10 will do); only their files are read. Default all.
    activities : iterable of str, optional
        Some of UCI's twenty, as its files are named; only these are read. Default all. The five
        of the paper's protocol are ``PAPER_ACTIVITIES["vicon"]``.
    max_lost : int, default=10
        A marker lost for at most this many steps, and seen before and after them in the same
        recording, is put on the straight line between. Over a longer loss it stays NaN, so no
        window lies there. 0 interpolates nothing.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: x, y, z in millimetres of nine markers, one recording per activity, named
        "normal/Bowing". UCI's counter is not a channel. sub10 has no Waving, and its second
        take "Running  [worse]" is not loaded.
    """
    if max_lost < 0:
        raise InputError(f"max_lost must be a number of steps, 0 or more, not {max_lost!r}")

    def read(copy: SetFiles, file: str) -> Floats:
        rows = read_recording(copy, file, 1 + len(VICON_CHANNELS), complete=complete)
        return bridge_short_losses(lost_to_nan(rows[:, 1:]), max_lost)

    return _load_actions(SETS["vicon"], data, people, activities, VICON_CHANNELS, read, complete)


def _load_actions(
    uci: UciSet,
    data: str | os.PathLike[str] | None,
    people: People,
    activities: Iterable[str] | None,
    channels: tuple[str, ...],
    read: Callable[[SetFiles, str], Floats],
    complete: bool,
) -> dict[str, Stream]:
    """A stream per person, its files joined in the order of `ACTIONS`, a recording each.

    ``read`` gives the channel values of one file. Files of other activities are not read.
    """
    wanted = _check_activities(uci, activities)
    streams = {}
    with open_people(uci, data, people, complete=complete) as (copy, by_person):
        for person, files in by_person.items():
            by_activity = {_activity_of(file): file for file in files}
            names = [name for name in wanted if name in by_activity]
            if not names:
                raise InputError(
                    f"{uci.name} person {person} has no recording of {', '.join(wanted)} "
                    f"in {copy.place}"
                )
            chosen = [by_activity[name] for name in names]
            parts = [read(copy, file) for file in chosen]
            lengths = [len(part) for part in parts]
            streams[person] = Stream(
                np.concatenate(parts),
                np.repeat(names, lengths),
                recordings=np.repeat([_recording_of(file) for file in chosen], lengths),
                channels=channels,
            )
    return streams


def _check_activities(uci: UciSet, activities: Iterable[str] | None) -> tuple[str, ...]:
    if activities is None:
        return ACTIONS
    wanted = [activities] if isinstance(activities, str) else list(activities)
    unknown = [name for name in wanted if name not in ACTIONS]
    if unknown or not wanted:
        raise InputError(
            f"{uci.name} has no activity {unknown[0] if unknown else ''!r}; "
            f"it has {', '.join(ACTIONS)}"
        )
    return tuple(name for name in ACTIONS if name in wanted)


def _activity_of(file: str) -> str:
    return file.rsplit("/", 1)[1].removesuffix(".txt")


def _recording_of(file: str) -> str:
    """``sub1/Normal/txt/Bowing.txt`` is the recording ``Normal/Bowing``."""
    return f"{file.split('/')[1]}/{_activity_of(file)}"


def lost_to_nan(values: Floats) -> Floats:
    """Make lost markers NaN.

    A lost marker is written ``0 0 0``. The recorder wrote some rows while the marker disappeared or
    came back, so one or two coordinates of the step next to a loss can be 0 as well: that marker
    is lost there too. A lone 0 with no loss beside it is a position.

    Parameters
    ----------
    values : array of shape (n, 3 m)
        x, y, z of m markers.
    """
    zero = values.reshape(len(values), -1, 3) == 0
    lost = zero.all(axis=2)
    beside = np.zeros_like(lost)
    beside[1:] |= lost[:-1]
    beside[:-1] |= lost[1:]
    lost |= zero.any(axis=2) & beside
    return np.where(np.repeat(lost, 3, axis=1), np.nan, values)


def bridge_short_losses(values: Floats, max_lost: int) -> Floats:
    """Interpolate each channel over NaN segments of at most ``max_lost`` steps.

    A segment at either end of the recording has only one neighbour and stays NaN.

    Parameters
    ----------
    values : array of shape (n, d)
        The steps of one recording.
    max_lost : int
    """
    result = values.copy()
    for channel in np.flatnonzero(np.isnan(values).any(axis=0)):
        lost = np.isnan(values[:, channel])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]])))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            if start > 0 and stop < len(values) and stop - start <= max_lost:
                before, after = values[start - 1, channel], values[stop, channel]
                line = np.linspace(before, after, stop - start + 2)
                result[start:stop, channel] = line[1:-1]
    return result
