"""Tables and logs of labels, for the fuzzer.

A session of labelling opens them or refuses them. One that opens has possible spans, takes an edit,
undoes all it has, and opens again with the same.
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import numpy as np

from mlat.base.append_log import decode_lines, encode_line
from mlat.label.label_table import Span, write_spans
from mlat.label.recording import Recording
from mlat.label.session import LabelSession
from mlat.label.span_list import Stretch
from mlat.stream.stream import Stream

from .fuzz import AcceptedError, Subject, change_json, damage

LENGTHS = (30, 20)


def make_label_files(folder: Path) -> list[Subject]:
    """A log with edits of every kind, and a table of each format; written to ``folder``."""
    place = folder / "good"
    place.mkdir()
    session = LabelSession(_recordings(), place / "log.csv")
    for r, start, end, state in ((0, 2, 9, "a"), (0, 5, 12, "b"), (1, 3, 4, "7"), (1, 9, 20, "ü")):
        session.label(r, start, end, state)
    session.fill({0: [Stretch(20, 22, "a")]}, proposed=True)
    session.split(0, 7)
    session.rename("b", "c")
    session.undo()
    session.redo()
    session.clear(1, 10, 11)
    session.undo()
    session.close()
    log, table = place / "log.csv.log", place / "log.csv"
    forge = partial(_forge_log, log.read_bytes())
    use = partial(_use, folder / "forged.csv", ".log", table.read_bytes())
    subjects = [Subject("label log", log.read_bytes(), forge, use, checksummed=False)]
    for suffix in (".csv", ".tsv.gz", ".parquet"):
        good = place / f"table{suffix}"
        write_spans(good, [Span(2, 9, "a", "r0.csv"), Span(0, 20, "ü", "r1.csv")])
        content = good.read_bytes()
        use = partial(_use, folder / f"table{suffix}", "", b"")
        spoilt = partial(damage, content)
        subjects.append(Subject(f"label table {suffix}", content, spoilt, use, checksummed=False))
    return subjects


def _recordings() -> list[Recording]:
    values = [np.random.default_rng(n).normal(size=(n, 2)) for n in LENGTHS]
    return [Recording(f"r{i}.csv", Stream(v, channels=["x", "y"])) for i, v in enumerate(values)]


def _forge_log(content: bytes, chance: random.Random) -> bytes:
    """With something else in one of its lines, and right checksums."""
    lines = [json.loads(text) for text, _ in decode_lines(content, "")]
    at = chance.randrange(len(lines))
    lines[at] = change_json(lines[at], chance)
    if chance.random() < 0.1:
        lines = chance.sample(lines, chance.randrange(1, len(lines) + 1))
    forged, crc = b"", 0
    for one in lines:
        line, crc = encode_line(json.dumps(one).encode(), crc)
        forged += line
    return forged


def _use(table: Path, suffix: str, of_table: bytes, content: bytes) -> None:
    """Open a session on a table, or on a log and the table beside it."""
    log, file = table.with_name(table.name + ".log"), table.with_name(table.name + suffix)
    log.unlink(missing_ok=True)
    table.write_bytes(of_table)
    file.write_bytes(content)
    session = LabelSession(_recordings(), table)
    try:
        _check(session)
        session.label(1, 0, 5, "new")
        before = session.pieces()
    finally:
        session.close()
    session = LabelSession(_recordings(), table)
    try:
        if session.pieces() != before:
            raise AcceptedError("what was labelled is not there when it is opened again")
        while session.can_undo:
            session.undo()
            _check(session)
    finally:
        session.close()


def _check(session: LabelSession) -> None:
    for pieces, n in zip(session.pieces(), LENGTHS, strict=True):
        edges = [edge for piece in pieces for edge in piece[:2]]
        if edges != sorted(edges) or not all(0 <= p.start < p.end <= n and p.state for p in pieces):
            raise AcceptedError(f"impossible spans: {pieces}")
    if session.table_error:
        raise AcceptedError(f"the table cannot be written: {session.table_error}")
