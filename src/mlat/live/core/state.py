"""All that a live session remembers: bounded arrays and counters, and nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...classifier.classifier import StreamClassifier
from ...classifier.model_file import needed_steps
from ...classifier.state_filter import Belief
from ...errors import InputError
from ...features.lifts import LiftState
from ..search.exact import Taught
from ..search.incremental import FlatState
from .dead_channels import Still
from .missing import Held
from .options import LiveOptions
from .order import Order
from .steps import Counters

# -------------------------------------------------------------------- fingerprint
# Which model and which options a state belongs to.


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
        *[clf.references_.codes, _metric_array(clf)],
        *[confidence.calibration.beta, confidence.calibration.typical],
        *[confidence.state_filter.transition, confidence.state_filter.tempering],
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
    return metric.components_ if hasattr(metric, "components_") else clf.references_.embedded()


def _bytes_of(array: NDArray[Any]) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


@dataclass(slots=True)
class Stretch:
    """The unbroken stretch of steps up to now; empty where the next one begins anew.

    Attributes
    ----------
    lift : LiftState
    features : array of shape (at most w + teachable - 1, d')
        What a metric sees of its last steps.
    raw : array of shape (at most w, d)
        The channels of its last steps.
    length : int
        Steps since it began.
    why : str
        Why the window is not full until the stretch is as long as it.
    """

    lift: LiftState
    features: Floats
    raw: Floats
    length: int = 0
    why: str = "filling"


@dataclass(slots=True)
class LiveState:
    """What ``LiveModel.push`` goes on from.

    Attributes
    ----------
    order : Order
        The reorder buffer, and the last number and time.
    held : Held
    still : Still
    stretch : Stretch
    belief : Belief
        Of the causal filter.
    taught : Taught
    times : list of float
        The times of the first steps, to see whether they are in seconds.
    counters : Counters
    warnings : list of str
        What should be seen to, each said once.
    flat : FlatState or None
        The running sums of the flat search, where it is used.
    made_by : Fingerprint
        The model and the options it belongs to.
    """

    made_by: Fingerprint
    order: Order
    held: Held
    still: Still
    stretch: Stretch
    belief: Belief
    taught: Taught
    times: list[float] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    warnings: list[str] = field(default_factory=list)
    flat: FlatState | None = None

    def copy(self) -> LiveState:
        """One that can go on by itself. Arrays that are replaced and never written are shared."""
        stretch = self.stretch
        return LiveState(
            self.made_by,
            self.order.copy(),
            self.held.copy(),
            self.still.copy(),
            Stretch(stretch.lift, stretch.features, stretch.raw, stretch.length, stretch.why),
            self.belief,
            self.taught,
            [*self.times],
            self.counters.copy(),
            [*self.warnings],
            None if self.flat is None else self.flat.copy(),
        )

    def to_bytes(self) -> bytes:
        """For :meth:`LiveModel.state_from_bytes`."""
        from .state_bytes import to_bytes

        return to_bytes(self)
