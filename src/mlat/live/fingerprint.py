"""Which model and which options a state belongs to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifier import StreamClassifier
from ..errors import InputError
from ..files.model_file import needed_steps
from .options import LiveOptions


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A hash of all that a model predicts from, the options, and the search that was chosen."""

    model: str
    options: LiveOptions
    search: str

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.model, "options": self.options.as_dict(), "search": self.search}

    def check(self, other: dict[str, Any]) -> None:
        """Refuse what :meth:`as_dict` gave for another model or other options."""
        mine = self.as_dict()
        if other.get("model") != mine["model"]:
            raise InputError(
                "the snapshot is of another model; open it with the model it was made with, or "
                "begin a new session"
            )
        theirs = other.get("options")
        # An option that the snapshot does not know was not there yet: it had its default.
        theirs = LiveOptions().as_dict() | (theirs if isinstance(theirs, dict) else {})
        for name, value in mine["options"].items():
            if theirs[name] != value:
                raise InputError(
                    f"the snapshot was made with {name}={theirs[name]!r}, this session has "
                    f"{name}={value!r}; give it the same options"
                )
        if other.get("search") != mine["search"]:
            raise InputError(
                f"the snapshot was made with the {other.get('search')} search, this session has "
                f'the {mine["search"]} one; give search="{other.get("search")}"'
            )


def fingerprint_of(clf: StreamClassifier) -> str:
    """A hash of what a model file holds: the same before it is saved and after it is read back.

    Nothing that is computed from it is hashed, which another processor might round differently.
    """
    features, confidence = clf.features_, clf.confidence_
    lift = features.lift
    maps = lift.maps if isinstance(lift.maps, dict) else list(lift.maps)
    told = {
        "channels": list(clf.channels_),
        "classes": clf.classes_.tolist(),
        "width": int(clf.width_),
        "n_neighbors": int(clf.n_neighbors_),
        "maps": {k: None if v is None else [int(i) for i in v] for k, v in maps.items()}
        if isinstance(maps, dict)
        else maps,
        "reach": int(lift.reach),
    }
    digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16)
    arrays: list[Any] = [
        *[features.channels.mean, features.channels.scale],
        *[features.lifted.mean, features.lifted.scale],
        *([] if features.mixing is None else [features.mixing]),
        *needed_steps(clf.windows_, between=lift.memory > 0),
        *[clf._codes, _metric_array(clf)],
        *[confidence.calibration.beta, confidence.calibration.typical],
        *[confidence.persistence.transition, confidence.persistence.tempering],
        *[confidence.threshold, confidence.farthest],
    ]
    for array in arrays:
        digest.update(_bytes_of(np.asarray(array)))
    return digest.hexdigest()


def _metric_array(clf: StreamClassifier) -> Any:
    metric = clf.metric_
    if metric is None:
        return 0.0
    if hasattr(metric, "taps_"):
        return metric.taps_
    # Of a metric that no file could hold, what it makes of the references.
    return metric.components_ if hasattr(metric, "components_") else clf._search.embedded


def _bytes_of(array: NDArray[Any]) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
