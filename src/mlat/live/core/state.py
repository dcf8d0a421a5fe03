"""The state of a live session: bounded arrays and counters, and their form as bytes.

A state as bytes is safetensors with a JSON header, as the model file; nothing is executed. It is
used only after its version, its model and options, the names, types and shapes of its arrays and
its checksum are checked.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ...checks import Floats
from ...classifier.classifier import StreamClassifier
from ...classifier.model_file import needed_steps
from ...classifier.state_filter import Belief
from ...errors import InputError
from ...features.lifts import LiftState
from ..search.exact import TaughtReferences, check_state
from ..search.incremental import IncrementalState
from .dead_channels import Still
from .missing import Held
from .options import OLD_NAME, LiveOptions, stored_name
from .order import Order, Waiting
from .steps import COUNTED, Counters

if TYPE_CHECKING:
    from .model import LiveModel

FORMAT = "mlat.LiveState"
VERSION = 1
WHYS = ("filling", "missing", "gap")
NEWER = ("extreme",)  # counters that older snapshots do not have; not written while they are 0
INCREMENTAL = "flat."  # arrays of the incremental search have names with this prefix

Arrays = dict[str, NDArray[Any]]


@dataclass(slots=True)
class Segment:
    """The steps since the last break; empty where the next step begins a new segment.

    Attributes
    ----------
    lift : LiftState
    features : array of shape (at most w + teachable - 1, d')
        The features of its last steps.
    raw : array of shape (at most w, d)
        The channels of its last steps.
    length : int
        Steps since it began.
    why : str
        Why there is no complete window while the segment is shorter than one.
    """

    lift: LiftState
    features: Floats
    raw: Floats
    length: int = 0
    why: str = "filling"


@dataclass(slots=True)
class LiveState:
    """All that a session remembers; ``LiveModel.push`` goes on from it.

    Attributes
    ----------
    made_by : Fingerprint
        The model and the options it belongs to.
    order : Order
        The reorder buffer, and the last number and time.
    held : Held
    still : Still
    segment : Segment
    belief : Belief
        Of the state filter.
    taught : TaughtReferences
    times : list of float
        The times of the first steps, to check that they are in seconds.
    counters : Counters
    warnings : list of str
        Each is given once.
    incremental : IncrementalState or None
        The running sums of the incremental search, where it is used.
    """

    made_by: Fingerprint
    order: Order
    held: Held
    still: Still
    segment: Segment
    belief: Belief
    taught: TaughtReferences
    times: list[float] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    warnings: list[str] = field(default_factory=list)
    incremental: IncrementalState | None = None

    def copy(self) -> LiveState:
        """An independent copy. Arrays that are replaced and never written are shared."""
        segment = self.segment
        return LiveState(
            self.made_by,
            self.order.copy(),
            self.held.copy(),
            self.still.copy(),
            Segment(segment.lift, segment.features, segment.raw, segment.length, segment.why),
            self.belief,
            self.taught,
            [*self.times],
            self.counters.copy(),
            [*self.warnings],
            None if self.incremental is None else self.incremental.copy(),
        )

    def to_bytes(self) -> bytes:
        """For :meth:`LiveModel.state_from_bytes`."""
        arrays = {name: np.ascontiguousarray(array) for name, array in _arrays(self).items()}
        order = self.order
        header = {
            "format": FORMAT,
            "version": VERSION,
            **self.made_by.as_dict(),
            "counters": {n: c for n, c in self.counters.items() if c or n not in NEWER},
            "warnings": self.warnings,
            "length": self.segment.length,
            "lift_count": self.segment.lift.count,
            "why": self.segment.why,
            "refused": self.held.refused,
            "fresh": self.belief.fresh,
            "names": list(self.taught.names),
            "first": order.first,
            "reached": order.reached,
            "last_seq": order.last_seq,
            "last_time": order.last_time,
            "behind": [order.behind, order.most_behind],
            "waiting": [[step.key, step.seq, step.time] for step in order.waiting],
            "sha256": _digest(arrays),
        }
        return bytes(save(arrays, metadata={"mlat": json.dumps(header)}))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a state belongs to: a hash of the model, the options, and the search in use."""

    model: str
    options: LiveOptions
    search: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "options": self.options.as_dict(),
            "search": stored_name(self.search),
        }

    def check(self, other: dict[str, Any]) -> None:
        """Refuse what :meth:`as_dict` gave for another model, other options or another search."""
        mine = self.as_dict()
        if other.get("model") != mine["model"]:
            raise InputError(
                "the snapshot is of another model; open it with the model it was made with, or "
                "begin a new session"
            )
        theirs = other.get("options")
        # An option that the snapshot does not have is newer than it: it had its default.
        theirs = LiveOptions().as_dict() | (theirs if isinstance(theirs, dict) else {})
        for name, value in mine["options"].items():
            if theirs[name] != value:
                raise InputError(
                    f"the snapshot was made with {name}={theirs[name]!r}, this session has "
                    f"{name}={value!r}; give it the same options"
                )
        if other.get("search") != mine["search"]:
            theirs = other.get("search")
            theirs = "incremental" if theirs == OLD_NAME else theirs
            raise InputError(
                f"the snapshot was made with the {theirs} search, this session has the "
                f'{self.search} one; give search="{theirs}"'
            )


def fingerprint_of(clf: StreamClassifier) -> str:
    """A hash of the content of a model file: the same before it is saved and after it is loaded.

    Nothing that is computed from it is hashed, since another processor may round differently.
    """
    features, confidence = clf.features_, clf.confidence_
    lift = features.lift
    maps = lift.maps if isinstance(lift.maps, dict) else list(lift.maps)
    described = {
        "channels": list(clf.channels_),
        "classes": clf.classes_.tolist(),
        "width": int(clf.width_),
        "n_neighbors": int(clf.n_neighbors_),
        "maps": {k: None if v is None else [int(i) for i in v] for k, v in maps.items()}
        if isinstance(maps, dict)
        else maps,
        "reach": int(lift.reach),
    }
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
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
    # For a metric that no file can hold: the references in its space.
    return metric.components_ if hasattr(metric, "components_") else clf.references_.embedded()


def _bytes_of(array: NDArray[Any]) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def from_bytes(data: bytes, blank: LiveState, model: LiveModel) -> LiveState:
    """The state that :meth:`LiveState.to_bytes` wrote.

    ``blank`` is a state of the same model before its first step.
    """
    header = _header(data)
    blank.made_by.check(header)
    try:
        arrays = load(bytes(data))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the snapshot is damaged or was cut short ({error})") from None
    if _digest(arrays) != header.get("sha256"):
        raise InputError("the snapshot is damaged: its checksum does not match")
    try:
        _check_shapes(arrays, blank, len(header["names"]), len(header["waiting"]), model)
        return _rebuild(arrays, header, blank, model)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the snapshot is damaged ({error!r})") from None


def _arrays(state: LiveState) -> Arrays:
    order, segment = state.order, state.segment
    n_channels = len(state.still.last)
    waiting = [step.values for step in order.waiting]
    arrays: Arrays = {
        "waiting": np.array(waiting, dtype=np.float64).reshape(-1, n_channels),
        "given_up": np.array(order.given_up, dtype=np.int64).reshape(-1, 2),
        "held": state.held.last,
        "missing_for": state.held.missing_for,
        "still": state.still.last,
        "still_for": state.still.steps,
        "lift_ring": segment.lift.ring,
        "lift_sums": segment.lift.sums,
        "features": segment.features,
        "raw": segment.raw,
        "belief": state.belief.proba,
        "taught": state.taught.windows,
        "taught_codes": state.taught.codes,
        "times": np.array(state.times, dtype=np.float64),
    }
    if state.incremental is not None:
        sums = state.incremental.to_arrays()
        arrays |= {INCREMENTAL + name: array for name, array in sums.items()}
    return arrays


def _header(data: bytes) -> dict[str, Any]:
    """The JSON header of a snapshot that this version reads."""
    foreign = "these bytes are no snapshot of a live session"
    if not isinstance(data, bytes | bytearray | memoryview) or len(data) < 8:
        raise InputError(f"{foreign}, or they were cut short")
    length = struct.unpack("<Q", bytes(data[:8]))[0]
    if length > len(data) - 8:
        raise InputError(f"{foreign}, or they were cut short")
    try:
        header = json.loads(json.loads(bytes(data[8 : 8 + length]))["__metadata__"]["mlat"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(foreign) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(foreign)
    if header.get("version") != VERSION:
        raise InputError(
            f"the snapshot has format version {header.get('version')!r}, this mlat reads version "
            f"{VERSION}; use the mlat that wrote it, or begin a new session"
        )
    return header


def _check_shapes(
    arrays: Arrays, blank: LiveState, n_names: int, n_waiting: int, model: LiveModel
) -> None:
    """Every array is there, with the type and shape that the model gives it."""
    options, width = model.options, model.clf.width_
    # Arrays whose number of rows varies: the least and the most.
    rows = {
        "waiting": (n_waiting, n_waiting),
        "given_up": (0, None),
        "features": (0, width + options.teachable - 1),
        "raw": (0, width),
        "belief": (len(model.clf.classes_) + n_names,) * 2,
        "taught": (0, options.max_taught),
        "taught_codes": (len(arrays["taught"]),) * 2,
        "times": (0, None),
    }
    expected = _arrays(blank)
    if set(arrays) != set(expected):
        raise InputError(f"the snapshot is damaged: it holds {', '.join(sorted(arrays))}")
    for name, like in expected.items():
        array = arrays[name]
        fits = array.dtype == like.dtype and array.ndim == like.ndim
        if fits and name in rows:
            least, most = rows[name]
            fits = array.shape[1:] == like.shape[1:] and least <= len(array)
            fits = fits and (most is None or len(array) <= most)
        elif fits:
            fits = array.shape == like.shape
        if not fits:
            raise InputError(f"the snapshot is damaged: {name} is {array.dtype} {array.shape}")


def _rebuild(
    arrays: Arrays, header: dict[str, Any], blank: LiveState, model: LiveModel
) -> LiveState:
    names = tuple(check_state(name, model.clf.unknown_) for name in header["names"])
    codes = arrays["taught_codes"]
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(arrays["belief"]):
        raise InputError("the snapshot is damaged: a taught window is of no state")
    counts = dict.fromkeys(NEWER, 0) | header["counters"]
    if header["why"] not in WHYS or set(counts) != set(COUNTED):
        raise InputError("the snapshot is damaged: fields are missing")
    order = Order(
        [
            Waiting(key, seq, time, values)
            for (key, seq, time), values in zip(header["waiting"], arrays["waiting"], strict=True)
        ],
        header["first"],
        header["reached"],
        [(int(begin), int(end)) for begin, end in arrays["given_up"]],
        header["last_seq"],
        header["last_time"],
        *[int(steps) for steps in header["behind"]],
    )
    incremental = None
    if blank.incremental is not None:
        incremental = IncrementalState.from_arrays(
            {n.removeprefix(INCREMENTAL): a for n, a in arrays.items() if n.startswith(INCREMENTAL)}
        )
    return LiveState(
        blank.made_by,
        order,
        Held(arrays["held"], arrays["missing_for"], bool(header["refused"])),
        Still(arrays["still"], arrays["still_for"]),
        Segment(
            LiftState(arrays["lift_ring"], arrays["lift_sums"], int(header["lift_count"])),
            arrays["features"],
            arrays["raw"],
            int(header["length"]),
            header["why"],
        ),
        Belief(arrays["belief"], bool(header["fresh"])),
        model.taught_references(names, codes, arrays["taught"]),
        arrays["times"].tolist(),
        Counters({name: int(counts[name]) for name in COUNTED}),
        [str(text) for text in header["warnings"]],
        incremental,
    )


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
