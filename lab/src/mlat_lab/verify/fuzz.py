"""Damages model files, snapshots and journals in every way, and looks what comes of it.

Each case takes a good file, changes it and opens it. Nothing may come of that but `InputError`, or
something that can be used: a model that predicts, a session that goes on. A file of which bytes are
changed but not the checksum must be refused, or, of a journal, end before the change. What has a
new, right checksum is forged: fields of other types and ranges, arrays of other types, shapes and
values, exchanged arrays, entries that are cut off.

A case is made from its number and the seed alone, so that it can be repeated.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from mlat.base.append_log import decode_frame, decode_frames, encode_frame
from mlat.base.checks import Floats, is_whole
from mlat.base.checksummed import Arrays, Contents, pack, unpack
from mlat.base.errors import InputError, MlatError
from mlat.classifier import model_file
from mlat.classifier.classifier import StreamClassifier
from mlat.explain import learned
from mlat.features.lifts import Lift
from mlat.live.core.session import LiveSession
from mlat.live.core.steps import Predictions, Steps
from mlat.live.journal import journal, writer
from mlat.live.journal.records import (
    BATCH,
    HEAD,
    SNAPSHOT,
    Batch,
    Example,
    Flushed,
    encode_batch,
)
from mlat.live.sources.source import Arrival
from mlat.metric.embedding import unmix_blocks
from mlat.metric.estimators import LMNN, MLAT
from mlat.metric.forest import Forest
from mlat.stream.stream import Stream
from mlat.synthetic import rotating_states

SEGMENT = Path("fuzz") / f"steps-{0:016d}.journal"
STRANGE: list[Any] = [
    *[None, True, False, -1, 0, 1, 2, 3, 7, 255, 1 << 31, 1 << 53, 1 << 62, 1 << 63, -(1 << 63)],
    *[10**30, 10**400, 0.5, -0.0, 1e-310, 1e155, 1e308, -1e308, math.nan, math.inf, -math.inf],
    *["", "a", "\0", "\ud800", "é" * 70, "filter", "admm", "seq", "0", "nan", "__class__"],
    *[[], {}, [[]], [0], [-1], ["a"], {"a": 1}, [None], [[1, 2], [3, 4]]],
]
NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e-310, 1e155, -1e155, 1e300, 1.8e308]
INTEGERS = [-(1 << 63), (1 << 63) - 1, -1, 0, 1, 1 << 31, 1 << 62]


@dataclass
class Report:
    """What came of the cases; ``failures`` says how to repeat each that went wrong."""

    cases: int = 0
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def lines(self) -> list[str]:
        """For people: a line for each kind of file and of change."""
        rows = sorted({(subject, change) for subject, change, _ in self.outcomes})
        lines = [f"{self.cases} cases, the slowest took {self.slowest:.2f} s"]
        for subject, change in rows:
            refused = self.outcomes[subject, change, "refused"]
            used = self.outcomes[subject, change, "used"]
            lines.append(f"{subject}, {change}: {refused} refused, {used} opened and used")
        return lines


@dataclass(frozen=True)
class Subject:
    """A good file.

    Attributes
    ----------
    name : str
    content : bytes
    forge : callable
        From a source of chance to a changed file with a right checksum.
    use : callable
        Open the bytes and use what is in them. Raises `InputError` where they are refused.
    checksummed : bool
        Whether every byte is under a checksum.
    """

    name: str
    content: bytes
    forge: Callable[[random.Random], bytes]
    use: Callable[[bytes], Any]
    checksummed: bool = True


class AcceptedError(Exception):
    """A file was changed, and opened as if it were not."""


def fuzz(
    cases: int,
    seed: int,
    *,
    subjects: Sequence[Subject] | None = None,
    first: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    every: int = 100_000,
) -> Report:
    """Try cases from number ``first`` on; ``tell`` is given a line after ``every`` of them."""
    subjects = subjects or make_subjects()
    report = Report()
    with _quietly():
        for case in range(first, first + cases):
            _try_one(subjects, case, seed, report)
            if (case - first + 1) % every == 0:
                tell(f"{case - first + 1} cases, {len(report.failures)} failures")
    return report


def _try_one(subjects: Sequence[Subject], case: int, seed: int, report: Report) -> None:
    chance = random.Random(f"{seed}:{case}")
    subject = chance.choice(subjects)
    forged = chance.random() < 0.75
    began = time.perf_counter()
    try:
        content = subject.forge(chance) if forged else damage(subject.content, chance)
        try:
            subject.use(content)
            outcome = "used"
            if not forged and subject.checksummed and content != subject.content:
                raise AcceptedError("a changed file was opened")
        except MlatError as error:
            outcome = "refused"
            if "\n" in str(error):
                raise AcceptedError("the message has more than one line") from None
    except Exception:
        outcome = "failed"
        trace = traceback.format_exc(limit=-3).replace("\n", " | ")
        report.failures.append(f"seed {seed}, case {case}, {subject.name}: {trace}")
    report.cases += 1
    report.outcomes[subject.name, "forged" if forged else "damaged", outcome] += 1
    report.slowest = max(report.slowest, time.perf_counter() - began)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings of values that overflow: a forged file may well hold such values."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# Changes


def damage(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, as a disk or a broken copy does."""
    changed = bytearray(content)
    # Half of the time in the first part, where the headers are.
    most = len(content) if chance.random() < 0.5 else min(len(content), 2500)
    place = chance.randrange(most)
    match chance.randrange(6):
        case 0 | 1 | 2:
            for _ in range(chance.choice([1, 1, 1, 2, 3])):
                changed[chance.randrange(most)] ^= 1 << chance.randrange(8)
        case 3:
            del changed[place:]
        case 4:
            n = chance.randrange(1, 64)
            changed[place : place + n] = bytes(n) if chance.random() < 0.5 else chance.randbytes(n)
        case _:
            changed += chance.randbytes(chance.randrange(1, 40))
    return bytes(changed)


def change_json(value: Any, chance: random.Random) -> Any:
    """The value with one thing changed, somewhere within it."""
    if isinstance(value, dict | list) and value and chance.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = chance.choice(keys)
        copy: Any = value.copy()
        match chance.randrange(12):
            case 0:
                del copy[key]
            case 1:
                copy[key] = copy[chance.choice(keys)]
            case 2 if isinstance(copy, dict):
                copy[chance.choice(["more", "", "sha256", "kind"])] = chance.choice(STRANGE)
            case 2:
                copy.append(chance.choice([chance.choice(STRANGE), copy[key]]))
            case _:
                copy[key] = change_json(copy[key], chance)
        return copy
    near = isinstance(value, float) or (is_whole(value) and abs(value) < 1 << 64)
    if near and chance.random() < 0.4:  # so that what depends on it fits no longer
        return chance.choice([value + 1, value - 1, 2 * value, -value, value / 2, str(value)])
    return chance.choice(STRANGE)


def change_arrays(arrays: Arrays, chance: random.Random) -> Arrays:
    """The arrays with one of them changed, lost or exchanged."""
    changed = dict(arrays)
    name, other = chance.choice(list(arrays)), chance.choice(list(arrays))
    array = arrays[name]
    match chance.randrange(9):
        case 0:
            del changed[name]
        case 1:
            changed[chance.choice(["more", "0.more", f"1.{name}"])] = array
        case 2:
            changed[name], changed[other] = arrays[other], array
        case 3:
            dtype = chance.choice([np.float64, np.int64, np.float32, np.uint8])
            changed[name] = array.astype(dtype)
        case 4:
            shape = chance.choice([(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]])
            changed[name] = array.reshape(shape)
        case 5:
            n = chance.randrange(max(len(array), 1) + 1)
            changed[name] = chance.choice([array[:n], np.concatenate([array, array[:n]])])
        case 6 if array.size > 1:
            flat = array.ravel()
            changed[name] = flat[chance.sample(range(len(flat)), len(flat))].reshape(array.shape)
        case _ if array.size and array.dtype.itemsize == 8:
            values = array.copy()
            strange = INTEGERS if array.dtype.kind == "i" else NUMBERS
            for _ in range(chance.choice([1, 1, 3, array.size])):
                place = chance.randrange(array.size)
                near = values.flat[place] + chance.choice([-1, 1])
                values.flat[place] = chance.choice([near, chance.choice(strange)])
            changed[name] = values
    return changed


def forge_checksummed(good: Contents, chance: random.Random) -> bytes:
    """A checksummed file with a changed header or arrays, and a right checksum."""
    header, arrays, _ = good
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if chance.random() < 0.6:
            header = change_json(header, chance)
        else:
            arrays = change_arrays(arrays, chance)
    if chance.random() < 0.1:
        return _forge_outside(pack(header, arrays), chance)
    return pack(header, arrays)


def _forge_outside(content: bytes, chance: random.Random) -> bytes:
    """With another table of arrays: names, types, shapes and places."""
    (length,) = struct.unpack("<Q", content[:8])
    table = change_json(json.loads(content[8 : 8 + length]), chance)
    text = json.dumps(table).encode()
    body = struct.pack("<Q", len(text)) + text + content[8 + length : -32]
    return body + hashlib.sha256(body).digest()


def forge_oldest(good: Contents, chance: random.Random, digest: Callable[[Arrays], str]) -> bytes:
    """The same of an older version, which had a checksum of the arrays in the header."""
    header, arrays, _ = good
    if chance.random() < 0.6:
        header = change_json(header, chance)
    else:
        arrays = change_arrays(arrays, chance)
    if isinstance(header, dict):
        header = header | {"sha256": digest(arrays)}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return bytes(save(arrays, metadata={"mlat": json.dumps(header)}))


def forge_frames(content: bytes, chance: random.Random) -> bytes:
    """A segment or the file of a snapshot with a changed frame, and a right checksum."""
    frames = list(decode_frames(content, "", last=True))
    at = chance.randrange(len(frames))
    kind, number, payload = frames[at].kind, frames[at].number, frames[at].payload
    match chance.randrange(8):
        case 0:
            kind = chance.choice([HEAD, BATCH, SNAPSHOT, 0, 9, (1 << 32) - 1])
        case 1:
            number = chance.choice([0, 1, number + 1, 1 << 40, (1 << 64) - 1])
        case 2 if kind == HEAD:
            payload = json.dumps(change_json(json.loads(payload), chance)).encode()
        case _:
            payload = _forge_payload(payload, chance)
    parts = [encode_frame(one.kind, one.number, one.payload) for one in frames]
    parts[at] = encode_frame(kind, number, payload)
    if chance.random() < 0.1:
        parts = chance.sample(parts, chance.randrange(1, len(parts) + 1))
    return b"".join(parts)


def _forge_payload(payload: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return damage(payload, chance) if payload else b"\1"
    # A number of four bytes somewhere in the first part, where the lengths are.
    changed = bytearray(payload)
    place = chance.randrange(max(1, min(len(payload) - 3, 80)))
    value = chance.choice([0, 1, 2, 1 << 16, 1 << 31, (1 << 32) - 1, len(payload)])
    changed[place : place + 4] = struct.pack("<I", value)
    return bytes(changed)


# Good files, and how they are used

TRAIN = rotating_states(run_length=14, runs_per_state=1, n_channels=2, noise=0.3)
STREAM = rotating_states(run_length=10, runs_per_state=1, n_channels=2, noise=0.3, random_state=1)
VALUES: Floats = STREAM.values.astype(np.float64)
MODELS: dict[str, dict[str, Any]] = {
    "euclidean": {"metric": "euclidean", "n_neighbors": 3, "unknown_rate": 0.1},
    "filter": {"metric": MLAT(max_iter=1)},
    "LMNN": {"metric": LMNN(max_iter=1), "stride": 2},
    "ADMM": {"metric": MLAT(solver="admm", max_iter=1)},
    "lifted": {
        "metric": MLAT(max_iter=1, n_taps=2),
        "lift": Lift({"identity": None, "running_deviation": [1]}, reach=4),
        "whiten": True,
    },
    "chosen": {"held_out": False},
}
SESSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("euclidean", {}),
    "ordered": ("lifted", {"order_by": "seq", "reorder": 3, "missing": "hold"}),
    "by time": ("euclidean", {"order_by": "time", "reorder": 2, "filtered": True}),
    "incremental": ("filter", {"search": "incremental"}),
}


def make_subjects() -> list[Subject]:
    """Small files of every kind."""
    time_of = np.arange(len(TRAIN)) / 100
    stream = Stream(TRAIN.values, TRAIN.states, time=time_of)
    models = {name: StreamClassifier(3, **more).fit(stream) for name, more in MODELS.items()}
    subjects = []
    for name, model in models.items():
        content = model_file.to_bytes(model)
        subjects.append(
            Subject(
                f"model {name}",
                content,
                _forging(forge_checksummed, unpack(content, "")),
                use_model,
            )
        )
        if len(model.experts_) > 1:  # which version 2 did not have
            continue
        older = _older_model(content)
        subjects.append(
            Subject(
                f"model {name} of version 2",
                older,
                _forging(forge_oldest, unpack(older, ""), model_file.checksum_of_version_2),
                use_model,
                checksummed=False,
            )
        )
    for name, (of, options) in SESSIONS.items():
        subjects += _of_session(name, models[of], options)
    return subjects


def _forging(how: Callable[..., bytes], good: Any, *more: Any) -> Any:
    return lambda chance: how(good, chance, *more)


def _older_model(content: bytes) -> bytes:
    header, arrays, _ = unpack(content, "")
    (expert,) = header.pop("experts")
    for newer in ("usual_step", "committee", "auto"):
        header.pop(newer)
    header["confidence"].pop("soft")
    header |= {"version": 2, "metric": expert["metric"], "selection": None}
    header["whitened"] = expert["whitened"]
    arrays = {name.removeprefix("0."): array for name, array in arrays.items()}
    header["sha256"] = model_file.checksum_of_version_2(arrays)
    return bytes(save(arrays, metadata={"mlat": json.dumps(header)}))


def _of_session(name: str, model: StreamClassifier, options: dict[str, Any]) -> Iterator[Subject]:
    """Its snapshot, the file of that, and a segment of its journal."""
    session = LiveSession(model, **options)
    seq = np.array([0, 1, 2, 3, 5, 4, 7, 8, 9, 10, 11, 12])
    early, late = Steps(VALUES[:12].copy(), seq, seq / 100), np.array([14, 16])
    early.values[2, 0] = np.nan
    inputs: list[Any] = [
        Arrival(early, "12"),
        Flushed(),
        Example("new"),
        Arrival(Steps(VALUES[12:14], late, late / 100), "14"),
    ]
    predictions = Predictions.joined([writer.replay(session, given) for given in inputs])
    taken = session.snapshot()
    identity = journal.Identity.of(session)

    def use_state(content: bytes) -> None:
        session.restore(content)
        use_session(session)

    yield Subject(
        f"snapshot {name}", taken, _forging(forge_checksummed, unpack(taken, "")), use_state
    )

    def use_file(content: bytes) -> None:
        found = writer.decode_snapshot(content, Path("fuzz"))
        if found is None:
            raise InputError("it is passed over")
        use_state(found.session)

    filed = writer.encode_snapshot(writer.Snapshot(1, "14", taken))
    yield Subject(
        f"snapshot file {name}", filed, _forging(_forge_file, filed, unpack(taken, "")), use_file
    )

    n = len(predictions) - 2
    batches = [
        Batch(inputs[:3], predictions.part(0, n)),
        Batch(inputs[3:], predictions.part(n, n + 2)),
    ]
    segment = encode_frame(HEAD, 0, identity.head("fuzz"))
    segment += b"".join(encode_frame(BATCH, i, encode_batch(b)) for i, b in enumerate(batches))

    def use_segment(content: bytes) -> None:
        session.state, n_records = session.model.start(), 0
        frames = [*journal.read_frames(SEGMENT, content, identity, last=True)]
        for some in journal.read_records(SEGMENT, frames):
            n_records += len(some)
            for given in some.whole.inputs:
                writer.replay(session, given)
        whole = found_frames(content)
        if n_records < whole:
            raise AcceptedError(f"{n_records} records were read of {whole} whole ones")

    # Not "checksummed": its last record may be cut off, as by a crash.
    yield Subject(
        f"segment {name}", segment, _forging(forge_frames, segment), use_segment, checksummed=False
    )


def found_frames(content: bytes) -> int:
    """How many good batches there are before the first bad frame."""
    n, offset = 0, 0
    while (found := decode_frame(content, offset)) is not None:
        n, offset = n + (found.kind == BATCH), found.stop
    return n


def _forge_file(content: bytes, chance: random.Random, inside: Contents) -> bytes:
    if chance.random() < 0.5:
        return forge_frames(content, chance)
    forged = forge_checksummed(inside, chance)
    return writer.encode_snapshot(writer.Snapshot(1, "14", forged))


def use_model(content: bytes) -> None:
    """Read a model, and do with it what the commands do."""
    model = model_file.from_bytes(content, "fuzz")
    n = len(model.channels_)
    values = np.resize(VALUES[: 2 * model.width_ + 3], (min(2 * model.width_ + 3, 60), n))
    for filtered in (False, True):
        model.predict(Stream(values, channels=model.channels_), filtered=filtered)
    str(model.committee_), model.committee_.powers
    for expert in model.experts_:
        metric = expert.metric
        if isinstance(metric, Forest):
            metric.changes(expert.embedded()[:0])
        elif metric is not None:
            mixing = expert.view.mixing
            blocks = unmix_blocks(learned.blocks_of(metric), mixing)
            learned.lag_fractions(blocks), learned.channel_fractions(blocks)
            f"{metric.loss_:.4g} {metric.n_iter_} {metric.message_}"
            metric.check_parameters()
    session = LiveSession(model)
    session.push(values)
    session.restore(session.snapshot())
    model_file.from_bytes(model_file.to_bytes(model), "again")


def use_session(session: LiveSession) -> None:
    """Go on with a session."""
    more = np.arange(100, 106)
    session.push(Steps(VALUES[:6], more, more / 100))
    session.flush()
    session.push(Steps(VALUES[6:14], np.arange(106, 114), np.arange(106, 114) / 100))
    session.restore(session.snapshot())
