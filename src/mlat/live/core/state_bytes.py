"""A state as bytes: safetensors with a JSON header, as the model file; nothing is executed.

What is read is believed only after its version, its model and options, the names, types and shapes
of its arrays and its checksum have been checked.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ...classifier.state_filter import Belief
from ...errors import InputError
from ...features.lifts import LiftState
from ..search.exact import check_state
from ..search.incremental import FlatState
from .dead_channels import Still
from .missing import Held
from .order import Order, Waiting
from .state import LiveState, Stretch
from .steps import COUNTED, Counters

if TYPE_CHECKING:
    from .model import LiveModel


FORMAT = "mlat.LiveState"
VERSION = 1
WHYS = ("filling", "missing", "gap")
FLAT = "flat."  # what the arrays of the flat search are called begins with this

Arrays = dict[str, NDArray[Any]]


def to_bytes(state: LiveState) -> bytes:
    """For :func:`from_bytes`."""
    arrays = {name: np.ascontiguousarray(array) for name, array in _arrays(state).items()}
    order = state.order
    header = {
        "format": FORMAT,
        "version": VERSION,
        **state.made_by.as_dict(),
        "counters": dict(state.counters),
        "warnings": state.warnings,
        "length": state.stretch.length,
        "lift_count": state.stretch.lift.count,
        "why": state.stretch.why,
        "refused": state.held.refused,
        "fresh": state.belief.fresh,
        "names": list(state.taught.names),
        "first": order.first,
        "reached": order.reached,
        "last_seq": order.last_seq,
        "last_time": order.last_time,
        "behind": [order.behind, order.most_behind],
        "waiting": [[step.key, step.seq, step.time] for step in order.waiting],
        "sha256": _digest(arrays),
    }
    return bytes(save(arrays, metadata={"mlat": json.dumps(header)}))


def from_bytes(data: bytes, blank: LiveState, model: LiveModel) -> LiveState:
    """The state that was written; ``blank`` is one of the same model before its first step."""
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
    order, stretch = state.order, state.stretch
    n_channels = len(state.still.last)
    waiting = [step.values for step in order.waiting]
    arrays: Arrays = {
        "waiting": np.array(waiting, dtype=np.float64).reshape(-1, n_channels),
        "given_up": np.array(order.given_up, dtype=np.int64).reshape(-1, 2),
        "held": state.held.last,
        "missing_for": state.held.missing_for,
        "still": state.still.last,
        "still_for": state.still.steps,
        "lift_ring": stretch.lift.ring,
        "lift_sums": stretch.lift.sums,
        "features": stretch.features,
        "raw": stretch.raw,
        "belief": state.belief.proba,
        "taught": state.taught.windows,
        "taught_codes": state.taught.codes,
        "times": np.array(state.times, dtype=np.float64),
    }
    if state.flat is not None:
        arrays |= {FLAT + name: array for name, array in state.flat.to_arrays().items()}
    return arrays


def _header(data: bytes) -> dict[str, Any]:
    """The JSON header, of a snapshot that this version reads."""
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
    """Every array is there, of its type, and as large as the model makes it."""
    options, width = model.options, model.clf.width_
    # Rows that vary in number: from how many to how many.
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
    if header["why"] not in WHYS or set(header["counters"]) != set(COUNTED):
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
    flat = None
    if blank.flat is not None:
        flat = FlatState.from_arrays(
            {n.removeprefix(FLAT): a for n, a in arrays.items() if n.startswith(FLAT)}
        )
    return LiveState(
        blank.made_by,
        order,
        Held(arrays["held"], arrays["missing_for"], bool(header["refused"])),
        Still(arrays["still"], arrays["still_for"]),
        Stretch(
            LiftState(arrays["lift_ring"], arrays["lift_sums"], int(header["lift_count"])),
            arrays["features"],
            arrays["raw"],
            int(header["length"]),
            header["why"],
        ),
        Belief(arrays["belief"], bool(header["fresh"])),
        model.taught(names, codes, arrays["taught"]),
        arrays["times"].tolist(),
        Counters({name: int(header["counters"][name]) for name in COUNTED}),
        [str(text) for text in header["warnings"]],
        flat,
    )


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
