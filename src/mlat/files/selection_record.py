"""What a classifier tried and chose, as JSON in its model file, and back."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..selection import Choice, Selection
from ..selection.choice import LIFTS
from ..selection.search import Trial

_NAMES = {
    "lift": tuple(LIFTS),
    "metric": ("euclidean", "MLAT", "LMNN"),
    "solver": ("filter", "admm"),
}


def record_selection(selection: Selection | None) -> dict[str, Any] | None:
    return None if selection is None else asdict(selection)


def read_selection(record: Any, file: Path) -> Selection | None:
    """A selection from JSON; nothing else depends on it, but it must be one."""
    if record is None:
        return None
    try:
        trials = [_trial(trial) for trial in record["trials"]]
        return Selection(
            _choice(record["choice"]), trials, str(record["why"]), float(record["seconds"])
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InputError(f"{file} is damaged: what was chosen cannot be read") from None


def _trial(record: Any) -> Trial:
    return Trial(
        choice=_choice(record["choice"]),
        score=float(record["score"]),
        accuracy=float(record["accuracy"]),
        error=float(record["error"]),
        seconds=float(record["seconds"]),
        kept=bool(record["kept"]),
    )


def _choice(record: Any) -> Choice:
    choice = Choice(**record)
    for field in fields(Choice):
        value = getattr(choice, field.name)
        if field.name in _NAMES:
            valid = value in _NAMES[field.name]
        elif field.name == "whiten":
            valid = isinstance(value, bool)
        elif field.name == "shrinkage":
            valid = _is_number(value, int | float)
        else:
            valid = _is_number(value, int) or (field.name == "n_taps" and value is None)
        if not valid:
            raise ValueError(field.name)
    return choice


def _is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
