"""The state of a live session: bounded arrays and counters, and their form as bytes.

A state as bytes is a JSON header and arrays under one checksum, as the model file; nothing is
executed. It is used only after its checksum, every field, its model and options, every array and
how they fit together are checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, ShortRepr
from ...base.checksummed import (
    COUNT,
    FLAG,
    MEASURED,
    NOTHING,
    TEXT,
    Arrays,
    Kind,
    either,
    listed,
    mapped,
    number,
    one_of,
    optional,
    pack,
    record,
    row,
    unpack,
    whole,
)
from ...base.errors import InputError
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import States, TaughtReferences
from ...classifier.intake import (
    HELD,
    LENGTH,
    MISSING_FOR,
    N_PAST,
    REASONS,
    REFUSED,
    STILL,
    STILL_FOR,
    SUMS,
    WHY,
    Memory,
)
from ...classifier.state_filter import Belief
from ...neighbours.incremental import FOLLOW
from ...neighbours.references import References, compact
from .options import BEFORE, OLD_NAME, LiveOptions, other_option, stored_name
from .order import N_DIFFERENCES, REMEMBERED, Order, Waiting
from .steps import COUNTED, Counters
from .teaching import Examples, TaughtSpan, check_state

if TYPE_CHECKING:
    from .model import LiveModel

FORMAT = "mlat.LiveState"
VERSION = 3  # that is written
# Older ones that are read, too: that of before checksums, and that without steps to be taught.
OLDEST, WITHOUT_PAST = 1, 2
WHYS = ("filling", "missing", "gap")
DAMAGED = "the snapshot is damaged"
# Counters that older snapshots do not have; not written while they are 0.
NEWER = ("extreme", "undone")
_NOTHING = np.empty(0, np.int64)
INCREMENTAL = "flat."  # arrays of the incremental search have names with this prefix

_SEQ = whole(-(1 << 63), (1 << 63) - 1)
_KEYS = {"none": NOTHING, "seq": _SEQ, "time": number()}  # what gives the order


def _kind_of_header(order_by: str) -> Kind:
    key = _KEYS[order_by]
    return record(
        {
            "format": one_of(FORMAT),
            "version": one_of(VERSION, WITHOUT_PAST, OLDEST),
            "model": TEXT,
            "options": mapped(TEXT, either(NOTHING, FLAG, TEXT, MEASURED)),
            "search": TEXT,
            "counters": record(
                {name: COUNT for name in COUNTED if name not in NEWER},
                may=dict.fromkeys(NEWER, COUNT),
            ),
            "warnings": listed(TEXT),
            "length": COUNT,
            "lift_count": COUNT,
            "why": one_of(*WHYS),
            "refused": FLAG,
            "fresh": FLAG,
            "names": listed(either(TEXT, whole()), different=True),
            "named": listed(COUNT),
            "lessons": row(COUNT, COUNT),
            "first": optional(key),
            "reached": optional(key),
            "last_seq": optional(_SEQ),
            "last_time": optional(number()),
            "behind": row(COUNT, COUNT),
            "waiting": listed(row(key, optional(_SEQ), optional(number()))),
        },
        may={"sha256": TEXT},  # of version 1: that of the arrays
    )


@dataclass(slots=True, repr=False)
class LiveState(ShortRepr):
    """All that a session remembers; ``LiveModel.push`` goes on from it.

    Attributes
    ----------
    made_by : Fingerprint
        The model and the options it belongs to.
    order : Order
        The reorder buffer, and the last number and time.
    memory : Memory
        What the policies and the lift remember, and the last steps.
    recent : array of shape (at most w, d')
        The features of the last steps; NaN where one broke the stream.
    belief : Belief
        Of the state filter.
    taught : TaughtReferences
        The windows that are compared.
    examples : Examples
        What they come from.
    times : list of float
        The times of the first steps, to check that they are in seconds.
    counters : Counters
    warnings : list of str
        Each is given once.
    n_past : int
        Of the last steps those that can be of use to teaching.
    incremental : tuple of dictionaries
        The arrays of each expert's incremental search, where it is used.
    """

    made_by: Fingerprint
    order: Order
    memory: Memory
    recent: Floats
    belief: Belief
    taught: TaughtReferences
    examples: Examples
    times: list[float] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    warnings: list[str] = field(default_factory=list)
    n_past: int = 0
    incremental: States = ()

    @property
    def n_last(self) -> int:
        """The steps of the segment that a window may reach back to."""
        return min(self.memory.length, self.taught.windows.shape[1])

    @property
    def window(self) -> Floats:
        """The channels of these steps, (at most w, d)."""
        return self.memory.rows(self.n_last)[:, :-1]

    def copy(self) -> LiveState:
        """An independent copy. What is replaced and never written is shared."""
        return replace(
            self,
            order=self.order.copy(),
            memory=self.memory.copy(),
            times=[*self.times],
            counters=self.counters.copy(),
            warnings=[*self.warnings],
            incremental=tuple({n: a.copy() for n, a in one.items()} for one in self.incremental),
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
            "length": self.memory.length,
            "lift_count": self.memory.length,
            "why": REASONS[self.memory.places[0, WHY]],
            "refused": bool(self.memory.places[0, REFUSED]),
            "fresh": self.belief.fresh,
            "names": list(self.taught.names),
            "named": list(self.examples.named),
            "lessons": [self.examples.last, self.examples.final],
            "first": order.first,
            "reached": order.reached,
            "last_seq": order.last_seq,
            "last_time": order.last_time,
            "behind": [order.behind, order.most_behind],
            "waiting": [[step.key, step.seq, step.time] for step in order.waiting],
        }
        return pack(header, arrays)


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
        theirs = LiveOptions().as_dict() | BEFORE | (theirs if isinstance(theirs, dict) else {})
        name = other_option(theirs, mine["options"])
        if name is not None:
            raise InputError(
                f"the snapshot was made with {name}={theirs[name]!r}, this session has "
                f"{name}={mine['options'][name]!r}; give it the same options"
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
    if clf.usual_step_ is not None:  # else the hash is that of a model which knows of no time
        described["usual_step"] = clf.usual_step_
    windows = compact(clf.windows_, between=lift.memory > 0)
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
    arrays: list[Any] = [
        *[features.channels.mean, features.channels.scale],
        *[features.lifted.mean, features.lifted.scale],
        *[windows.values, windows.start],
        *([] if windows.since is None else [windows.since]),
        clf.references_.codes,
        *[array for expert in clf.experts_ for array in _expert_arrays(expert)],
        *(clf.committee_.powers if clf.committee_.soft else ()),  # else 1
        *[confidence.calibration.beta, confidence.calibration.typical],
        *[confidence.state_filter.transition, confidence.state_filter.tempering],
        *[confidence.threshold, confidence.farthest],
    ]
    for array in arrays:
        digest.update(_bytes_of(np.asarray(array)))
    return digest.hexdigest()


def _expert_arrays(expert: References) -> Iterator[Any]:
    """What an expert has of its own, but for what is computed from it."""
    view, metric = expert.view, expert.metric
    yield from (array for array in (view.columns, view.mixing) if array is not None)
    if metric is None:
        yield 0.0
    elif hasattr(metric, "taps_"):
        yield metric.taps_
    else:
        # For a metric that no file can hold: the references in its space.
        yield metric.components_ if hasattr(metric, "components_") else expert.embedded()


def _bytes_of(array: NDArray[Any]) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def search_of(data: bytes) -> str | None:
    """The search with which a snapshot was made, if it is one that is known."""
    search = _open(data)[0].get("search")
    search = "incremental" if search == OLD_NAME else search
    return search if search in ("exact", "incremental") else None


def state_from_bytes(data: bytes, blank: LiveState, model: LiveModel) -> LiveState:
    """The state that :meth:`LiveState.to_bytes` wrote.

    ``blank`` is a state of the same model before its first step.
    """
    header, arrays = _open(data)
    if header["version"] < VERSION:
        header, arrays = _upgraded(header, arrays, blank)
    _kind_of_header(model.options.order_by)(header, DAMAGED)
    blank.made_by.check(header)
    _check_arrays(arrays, blank, header, model)
    state = _rebuild(arrays, header, blank, model)
    problem = _inconsistent(state, model, header["lift_count"])
    if problem:
        raise InputError(f"{DAMAGED}: {problem}")
    return state


def _arrays(state: LiveState) -> Arrays:
    order, memory = state.order, state.memory
    channels, counts, last = memory.channels[0], memory.counts[0], state.n_last
    waiting = [step.values for step in order.waiting]
    arrays: Arrays = {
        "waiting": np.array(waiting, dtype=np.float64).reshape(-1, channels.shape[1]),
        "given_up": np.array(order.given_up, dtype=np.int64).reshape(-1, 2),
        "held": channels[HELD],
        "missing_for": counts[MISSING_FOR],
        "still": channels[STILL],
        "still_for": counts[STILL_FOR],
        "lift_ring": memory.ring[0],
        "lift_sums": channels[SUMS:],
        "features": state.recent[len(state.recent) - last :],
        "raw": memory.rows(last)[:, :-1],
        "belief": state.belief.proba,
        **_example_arrays(state),
        **({"units": memory.units[0]} if memory.units.size else {}),
        "past": memory.rows(state.n_past),
        "times": np.array(state.times, dtype=np.float64),
    }
    for expert, own in enumerate(state.incremental):
        arrays |= {_prefix(expert) + name: array for name, array in own.items()}
    return arrays


def _example_arrays(state: LiveState) -> Arrays:
    """Examples as arrays: a row for each span and for each window, and all their steps."""
    spans, (_, w, n_features) = state.examples.spans, state.taught.windows.shape
    old = [span.features for span in spans if span.features is not None]
    return {
        "spans": np.array(
            [(s.example, s.code, s.age, len(s.steps), len(s.start)) for s in spans], np.int64
        ).reshape(-1, 5),
        "windows": np.stack(
            [np.concatenate([_NOTHING, *[s.start for s in spans]]), state.examples.forgotten],
            axis=1,
        ),
        "steps": np.concatenate(
            [np.empty((0, state.memory.channels.shape[2])), *[s.steps for s in spans]]
        ),
        "taught": np.array(old, dtype=np.float64).reshape(-1, w, n_features),
    }


def _upgraded(
    header: dict[str, Any], arrays: Arrays, blank: LiveState
) -> tuple[dict[str, Any], Arrays]:
    """A snapshot of a version that kept no steps to be taught, and features alone of taught ones.

    Each of those is of an example that cannot be undone any more.
    """
    expected = {"taught": 3, "taught_codes": 1, "raw": 2, "features": 2}
    if any(name not in arrays or arrays[name].ndim != n for name, n in expected.items()):
        raise InputError(f"{DAMAGED}: it holds {', '.join(sorted(arrays))}")
    arrays = dict(arrays)
    codes, raw, length = arrays.pop("taught_codes"), arrays["raw"], header.get("length")
    n, names = len(codes), header.get("names")
    if len(arrays["taught"]) != n or not isinstance(length, int) or not isinstance(names, list):
        raise InputError(f"{DAMAGED}: {n} states are of {len(arrays['taught'])} taught windows")
    ages = np.arange(len(raw)) + float(length - len(raw))
    past = np.column_stack([raw, ages])[: None if blank.n_past else 0]
    of_each = np.ones(n, np.int64)
    arrays |= {
        "features": arrays["features"][-blank.taught.windows.shape[1] :],
        "spans": np.stack([of_each, codes, 0 * of_each, 0 * of_each, of_each], axis=1),
        "windows": np.zeros((n, 2), np.int64),
        "steps": np.empty((0, raw.shape[1])),
        "past": past[max(0, len(past) - blank.n_past) :],
    }
    begun = int(n > 0 or len(names) > 0)
    return header | {"named": [1] * len(names), "lessons": [begun, begun]}, arrays


def _prefix(expert: int) -> str:
    """Of the names of an expert's arrays; that of the first is as it was with one expert."""
    return f"expert{expert}.{INCREMENTAL}" if expert else INCREMENTAL


def _open(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a snapshot of a known version, with a right checksum."""
    foreign = "these bytes are no snapshot of a live session"
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InputError(foreign)
    header, arrays, intact = unpack(bytes(data), foreign)
    if header.get("format") != FORMAT:
        raise InputError(foreign)
    version = header.get("version")
    if version not in (VERSION, WITHOUT_PAST, OLDEST) or isinstance(version, bool):
        raise InputError(
            f"the snapshot has format version {str(version)[:20]}, this mlat reads versions "
            f"{OLDEST} to {VERSION}; use the mlat that wrote it, or begin a new session"
        )
    if version == OLDEST:
        intact = header.get("sha256") == _digest(arrays)
    if not intact:
        raise InputError(f"{DAMAGED}: its checksum does not match")
    return header, arrays


# Steps that wait are as they came, and a channel may have had no value yet.
_MAY_HOLD: dict[str, Callable[[Floats], Bools]] = {
    "waiting": lambda values: np.ones(values.shape, bool),
    "held": lambda values: ~np.isinf(values),
    "still": lambda values: ~np.isinf(values),
}


def _check_arrays(
    arrays: Arrays, blank: LiveState, header: dict[str, Any], model: LiveModel
) -> None:
    """Every array is there, with the type and shape that the model gives it, and is finite."""
    width, length, accepted = model.clf.width_, header["length"], header["counters"]["accepted"]
    # Arrays whose number of rows varies: the least and the most.
    windows = arrays.get("windows", _NOTHING)
    some = (0, len(windows) if windows.ndim else 0)  # each of them has a window
    rows = {
        "waiting": (len(header["waiting"]),) * 2,
        "given_up": (0, REMEMBERED),
        "features": (min(length, width),) * 2,
        "raw": (min(length, width),) * 2,
        "belief": (len(model.clf.classes_) + len(header["names"]),) * 2,
        "spans": some,
        "windows": (0, 2 * model.options.max_taught),
        "steps": (0, 1 << 40),
        "taught": some,
        "past": (min(length, width, blank.n_past), min(accepted, blank.n_past)),
        "times": (0, N_DIFFERENCES + 1),
    }
    follow = tuple(INCREMENTAL + name for name in FOLLOW)
    expected = {n: a for n, a in _arrays(blank).items() if n in arrays or not n.endswith(follow)}
    # Searches of single steps, which keep none of them, once had a last step.
    gone = {name for name in set(arrays) - set(expected) if name.endswith(INCREMENTAL + "ring")}
    if set(arrays) - gone != set(expected):
        raise InputError(f"{DAMAGED}: it holds {', '.join(sorted(arrays))}")
    for name, like in expected.items():
        array = arrays[name]
        fits = array.dtype == like.dtype and array.ndim == like.ndim
        if fits and name in rows:
            least, most = rows[name]
            fits = array.shape[1:] == like.shape[1:] and least <= len(array) <= most
        elif fits:
            fits = array.shape == like.shape
        if not fits:
            raise InputError(f"{DAMAGED}: {name} is {array.dtype} {array.shape}")
        if like.dtype.kind == "f" and not _MAY_HOLD.get(name, np.isfinite)(array).all():
            raise InputError(f"{DAMAGED}: {name} holds NaN or infinity")


def _inconsistent(state: LiveState, model: LiveModel, lift_count: int) -> str:
    """What does not fit together in a state of right fields; empty if nothing."""
    order, options, length = state.order, model.options, state.memory.length
    keys = [step.key for step in order.waiting]
    begun = [key for key in (order.first, order.reached) if key is not None]
    own = [step.seq if options.order_by == "seq" else step.time for step in order.waiting]
    belief = state.belief.proba
    counts = [state.memory.counts]
    sums = [of_expert["count"] for of_expert in state.incremental]
    counts += sums
    problems = {
        "steps wait that should not": len(keys) > options.reorder or own != keys,
        "steps are out of order": len(begun) == 1
        or sorted(begun) != begun
        or any(a >= b for a, b in pairwise([*begun[1:], *keys])),
        "given up is no range": any(a >= b for a, b in order.given_up),
        "a taught state is known already": len(set(model.classes(state))) < len(belief),
        "the belief is no probability": (belief < 0).any()
        or (len(belief) > 0 and abs(belief.sum() - 1) > 1e-6),
        "a counter is out of range": max(state.counters.values()) > 1 << 61,  # of 62 bits
        "a count is negative": any((count < 0).any() for count in counts),
        "the lift is of other steps": lift_count not in (0, length),
        "the search is of other steps": length > 0
        and any(int(count[0]) != length for count in sums),
    }
    return next((what for what, is_so in problems.items() if is_so), "")


def _rebuild(
    arrays: Arrays, header: dict[str, Any], blank: LiveState, model: LiveModel
) -> LiveState:
    names = tuple(check_state(name, model.clf.unknown_) for name in header["names"])
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
        *header["behind"],
    )
    examples = _rebuild_examples(arrays, header, model)
    prefixes = map(_prefix, range(len(blank.incremental)))
    incremental = model.experts.restored(
        [
            {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            for prefix in prefixes
        ]
    )
    return LiveState(
        blank.made_by,
        order,
        _rebuild_memory(arrays, header, blank.memory),
        arrays["features"],
        Belief(arrays["belief"], header["fresh"]),
        model.teaching.references(names, examples),
        examples,
        arrays["times"].tolist(),
        Counters({name: header["counters"].get(name, 0) for name in COUNTED}),
        header["warnings"],
        blank.n_past,
        incremental,
    )


def _rebuild_memory(arrays: Arrays, header: dict[str, Any], memory: Memory) -> Memory:
    """Fill in the arrays of a session before its first step."""
    past, raw = arrays["past"], arrays["raw"]
    if len(past) < len(raw):  # of a session that cannot be taught
        past = np.column_stack([raw, np.arange(len(raw)) + float(header["length"] - len(raw))])
    memory.channels[0, [HELD, STILL]] = arrays["held"], arrays["still"]
    memory.channels[0, SUMS:] = arrays["lift_sums"]
    memory.counts[0, [MISSING_FOR, STILL_FOR]] = arrays["missing_for"], arrays["still_for"]
    memory.ring[0] = arrays["lift_ring"]
    memory.units[0] = arrays.get("units", memory.units[0])
    memory.past[0, : len(past)] = past
    memory.places[0, [REFUSED, LENGTH]] = header["refused"], header["length"]
    memory.places[0, [WHY, N_PAST]] = REASONS.index(header["why"]), len(past)
    return memory


def _rebuild_examples(arrays: Arrays, header: dict[str, Any], model: LiveModel) -> Examples:
    spans, windows, steps = arrays["spans"], arrays["windows"], arrays["steps"]
    problem = _inconsistent_examples(arrays, header, model)
    if problem:
        raise InputError(f"{DAMAGED}: {problem}")
    old = iter(arrays["taught"])
    found, step, window = [], 0, 0
    for example, code, age, n_steps, n_windows in spans.tolist():
        own = steps[step : step + n_steps]
        start = windows[window : window + n_windows, 0].copy()
        features = None if n_steps else next(old)
        found.append(TaughtSpan(example, code, age, own, start, features))
        step, window = step + n_steps, window + n_windows
    last, final = header["lessons"]
    return Examples(tuple(found), windows[:, 1].copy(), tuple(header["named"]), last, final)


def _inconsistent_examples(arrays: Arrays, header: dict[str, Any], model: LiveModel) -> str:
    """What does not fit together in examples of right shapes; empty if nothing."""
    spans, windows, past = arrays["spans"], arrays["windows"], arrays["past"]
    last, final = header["lessons"]
    example, code, _, n_steps, n_windows = spans.T
    start, forgotten = windows.T
    named, names, width = header["named"], header["names"], model.clf.width_
    n_known = len(model.clf.classes_) + len(names)
    # First what bounds the numbers: sums of others could overflow, and look right.
    if (spans < 0).any() or (spans > 1 << 40).any() or (windows < 0).any():
        return "an example has a number out of range"
    if (n_windows < 1).any() or n_windows.sum() != len(windows) or (code >= n_known).any():
        return "a taught window is of no state"
    if len(named) != len(names):
        return "a state is of no example"
    if n_steps.sum() != len(arrays["steps"]) or (n_steps == 0).sum() != len(arrays["taught"]):
        return "examples are of other steps"
    # The example that named each state; those of the model were named before any.
    namers = np.array([0] * (n_known - len(names)) + named)
    lengths = np.repeat(np.where(n_steps == 0, width, n_steps), n_windows)
    ages = past[:, -1]
    problems = {
        "a taught window has no steps": (start > lengths - width).any()
        or (n_windows[n_steps == 0] != 1).any(),
        "examples are out of order": final > last
        or last - final != len({*example[example > final].tolist()})
        or any(a > b for a, b in pairwise([0, *named, last]))
        or any(a > b for a, b in pairwise([*example.tolist(), last]))
        or (example < 1).any()
        or (forgotten > last).any(),
        "a forgotten window cannot come back": ((forgotten > 0) & (forgotten <= final)).any(),
        "a state is of no example": 0 in named or (namers[code] > example).any(),
        "all taught windows are forgotten": len(forgotten) > 0 and (forgotten > 0).all(),
        "more is taught than is kept": (forgotten == 0).sum() > model.options.max_taught,
        "the past is no row of steps": ((ages < -1) | (ages != np.floor(ages))).any()
        or ((ages[1:] > 0) & (ages[1:] != ages[:-1] + 1)).any()
        or (ages[-1:] != header["length"] - 1).any(),
    }
    return next((what for what, is_so in problems.items() if is_so), "")


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
