"""Recordings of MNE: ``Raw`` objects, and the files that MNE reads (EDF, BDF, FIF, …).

Annotations become the column ``annotation``: the description of the annotation that a step is in.
What MNE marks as bad is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DiskError, InputError, require_package

SUFFIXES = (".edf", ".bdf", ".gdf", ".fif", ".vhdr", ".set", ".cnt")
ANNOTATION = "annotation"
BAD = ("bad", "edge")  # what descriptions of annotations begin with, in upper or lower case


def is_raw(source: Any) -> bool:
    """Whether this is a ``Raw`` object of MNE, by its attributes."""
    return all(hasattr(source, name) for name in ("ch_names", "get_data", "annotations", "times"))


def read_raw(path: Path) -> RawTable:
    """The table of a file that MNE reads.

    Raises
    ------
    InputError
        If MNE cannot read it.
    MissingPackageError
        If MNE is not installed.
    """
    mne = require_package("mne", "mne", f"reading {path.suffix} files", title="MNE")
    try:
        return RawTable(mne.io.read_raw(path, preload=False, verbose="error"), str(path))
    except OSError as error:
        raise DiskError(f"{path} cannot be read: {error}") from None
    except Exception as error:  # each reader of MNE has its own
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(f"{path} cannot be read by MNE: {reason}") from None


class RawTable:
    """The channels of a recording of MNE, its ``time`` in seconds and its ``annotation``."""

    def __init__(self, raw: Any, name: str = "the recording") -> None:
        self._raw, self._name = raw, name
        self.columns: Sequence[Any] = [*raw.ch_names, "time", ANNOTATION]
        for taken in ("time", ANNOTATION):
            if taken in raw.ch_names:
                raise InputError(f"{name} has a channel called {taken!r}; rename it")
        self.states = (ANNOTATION,)
        self._descriptions, self._bad, moments = _annotated(raw)
        notes = []
        if moments:
            notes.append(f"{moments} annotations without a duration give no state")
        if self._bad.any():
            notes.append(f"{int(self._bad.sum())} steps that are annotated as bad are missing")
        self.notes = tuple(notes)

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        columns: dict[Any, Any] = {"time": np.asarray(self._raw.times)}
        columns[ANNOTATION] = self._descriptions
        names = [name for name in (*channels, *roles) if name not in columns]
        values = self._raw.get_data(picks=names) if names else np.empty((0, len(self._bad)))
        for name, row in zip(names, values, strict=True):
            columns[name] = np.where(self._bad, np.nan, row)
        return {name: columns[name] for name in (*channels, *roles)}

    def where(self, steps: Sequence[int]) -> str:
        return f"{self._name}: "


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
