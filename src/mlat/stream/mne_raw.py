"""Recordings of MNE: ``Raw`` and ``Epochs``, and the files that MNE reads (EDF, BDF, FIF, …).

Annotations become the column ``annotation``: the description of the annotation that a step is in.
Of ``Epochs`` each is a recording, with the name of its event in the column ``event``. Steps that
MNE marks as bad are missing; channels that it marks as bad, and those that are no sensors, are
channels only if they are named.
"""

from __future__ import annotations

import gzip
import re
import struct
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError, require_package
from .array_files import ColumnsTable, check_structure
from .sources import reading, refuse_growth

SUFFIXES = (".edf", ".bdf", ".gdf", ".fif", ".vhdr", ".set", ".cnt")
ANNOTATION = "annotation"
EVENT = "event"
_TAG = struct.Struct(">8xii")  # of FIF: the length of what follows it, and where the next one is
BAD = ("bad", "edge")  # what descriptions of annotations begin with, in upper or lower case
NO_SENSORS = {"stim", "exci", "syst", "ias", "gof", "dipole", "chpi"}  # types of channels
# Formats without types of channels tell a trigger by its name alone.
TRIGGER = re.compile(r"sti ?\d*|stim(ulus)?|trig(ger)?s?|status|markers?", re.IGNORECASE)


def table_of(source: Any) -> ColumnsTable | None:
    """The table of an object of MNE; None for anything else.

    Raises
    ------
    InputError
        If it is neither a ``Raw`` nor ``Epochs``.
    """
    if all(hasattr(source, name) for name in ("ch_names", "get_data", "annotations", "first_time")):
        return RawTable(source)
    if not type(source).__module__.startswith("mne."):
        return None
    if hasattr(source, "event_id") and not hasattr(source, "freqs"):
        return _table_of_epochs(source)
    raise InputError(
        f"a stream cannot be read from {type(source).__name__} of MNE; give the Raw or the Epochs "
        "that it was made from"
    )


def read_raw(path: Path) -> ColumnsTable:
    """The table of a file that MNE reads.

    Raises
    ------
    MissingPackageError
        If MNE is not installed.
    """
    mne = require_package("mne", "mne", f"reading {path.suffix} files", title="MNE")
    is_epochs = re.search(r"[-_]epo\.fif(\.gz)?$", path.name, re.IGNORECASE)
    if path.suffix.lower() == ".set":  # which is MATLAB's
        check_structure(path)
    if path.name.lower().endswith((".fif", ".fif.gz")):
        _refuse_circle(path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table: ColumnsTable
        if is_epochs:
            table = _table_of_epochs(mne.read_epochs(path, verbose="warning"), str(path))
        else:
            raw = mne.io.read_raw(path, verbose="warning")
            others = [Path(name) for name in raw.filenames if name is not None]
            refuse_growth(path, 8 * raw.n_times * len(raw.ch_names), *others)
            table = RawTable(raw, str(path))
    # As of a file that is shorter than it says; what it is called does not matter.
    words = dict.fromkeys(str(one.message).splitlines()[0] for one in said)
    table.notes += tuple(f"MNE: {word}" for word in words if "naming conventions" not in word)
    return table


def _refuse_circle(path: Path) -> None:
    """Refuse a FIF file of which one tag points back to another: MNE would follow it for ever."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    at = 0
    with opener(path, "rb") as file:
        while len(head := file.read(_TAG.size)) == _TAG.size:
            size, following = _TAG.unpack(head)
            if following < 0:
                return
            if (to := following or at + _TAG.size + size) <= at:
                raise ValueError("its parts point to each other in a circle")
            at = to
            file.seek(at)


def _left_out(recording: Any) -> dict[str, str]:
    """The channels that are none of the sensors, and why."""
    kinds = dict(zip(recording.ch_names, recording.get_channel_types(), strict=True))
    left = {
        name: "trigger" if kind == "stim" or TRIGGER.fullmatch(name) else kind
        for name, kind in kinds.items()
        if kind in NO_SENSORS or TRIGGER.fullmatch(name)
    }
    if {*kinds.values()} - NO_SENSORS - {"misc"}:  # beside sensors MNE calls all the rest so
        left |= {name: kind for name, kind in kinds.items() if kind == "misc"}
    return left | dict.fromkeys(recording.info["bads"], "marked as bad")


def _table_of_epochs(epochs: Any, name: str = "the epochs") -> ColumnsTable:
    """Each epoch as a recording, in the state that its event names."""
    if not epochs.preload:
        epochs = epochs.copy().drop_bad(verbose="error")
    values = epochs.get_data(verbose="error")
    n_epochs, _, n_steps = values.shape
    names = {code: event for event, code in epochs.event_id.items()}
    events = np.array([names[code] for code in epochs.events[:, 2].tolist()], dtype=str)
    more = {
        "time": np.tile(epochs.times, n_epochs),
        "recording": np.repeat(np.arange(n_epochs), n_steps),
        EVENT: np.repeat(events, n_steps),
    }
    _refuse_taken(epochs.ch_names, more, name)
    channels = {one: values[:, i].reshape(-1) for i, one in enumerate(epochs.ch_names)}
    return ColumnsTable(name, channels | more, [EVENT], left_out=_left_out(epochs))


def _refuse_taken(channels: Sequence[str], names: Iterable[str], where: str) -> None:
    for name in names:
        if name in channels:
            raise InputError(f"{where} has a channel called {name!r}; rename it")


class RawTable(ColumnsTable):
    """The channels of a recording of MNE, its ``time`` in seconds and its ``annotation``."""

    def __init__(self, raw: Any, name: str = "the recording") -> None:
        _refuse_taken(raw.ch_names, ("time", ANNOTATION), name)
        if not len(raw.times):
            raise InputError(f"{name} holds no steps")
        descriptions, self._bad, moments = _annotated(raw)
        notes = []
        if moments:
            notes.append(f"{moments} annotations without a duration give no state")
        if self._bad.any():
            notes.append(f"{int(self._bad.sum())} steps that are annotated as bad are missing")
        told = {"time": np.asarray(raw.times), ANNOTATION: descriptions}
        super().__init__(name, told, [ANNOTATION], tuple(notes), _left_out(raw))
        self._raw, self.columns = raw, [*raw.ch_names, *told]

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        """Only the channels that are wanted are loaded."""
        names = [name for name in (*channels, *roles) if name not in self.held]
        with reading(self.name):
            values = self._raw.get_data(picks=names) if names else []
        loaded = {n: np.where(self._bad, np.nan, row) for n, row in zip(names, values, strict=True)}
        return {name: {**self.held, **loaded}[name] for name in (*channels, *roles)}


def _annotated(raw: Any) -> tuple[NDArray[Any], NDArray[np.bool_], int]:
    """The description at each step, which steps are bad, and the number of mere moments."""
    n_steps, rate = len(raw.times), float(raw.info["sfreq"])
    found = np.full(n_steps, "", dtype=object)
    bad, moments = np.zeros(n_steps, dtype=bool), 0
    notes = raw.annotations
    # MNE counts from the start of the measurement, which may lie before the first step.
    onsets = np.asarray(notes.onset, dtype=np.float64) - raw.first_time
    for onset, duration, text in zip(onsets, notes.duration, notes.description, strict=True):
        first = max(round(onset * rate), 0)
        last = max(round((onset + duration) * rate), 0)
        if str(text).lower().startswith(BAD):
            bad[first : max(last, first + 1)] = True
        elif duration > 0:
            found[first:last] = str(text)
        else:
            moments += 1
    return found.astype(str), bad, moments
