"""The labels of some recordings while they are edited: on the disk before anything is done.

The log is what counts; the table of labels is written from it after every edit, or, if it is long,
beside them.
Then a line of the log says which bytes the table has, so that its position in the log is known: a
table that is only behind the log is written anew, and one that another program changed is found.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.append_log import AppendLog, decode_lines, encode_line
from ..base.checks import Bools, is_whole
from ..base.checksummed import ANYTHING, COUNT, NAME, TEXT, listed, mapped, one_of, row
from ..base.checksummed import record as fields_of
from ..base.disk import disk_errors, stamp
from ..base.errors import DiskError, InputError, MlatError
from ..live.journal.records import decode_json
from ..stream.stream import Stream
from .label_table import Span, check_spans, read_spans, with_spans, write_spans
from .recording import Recording
from .span_list import (
    Replacement,
    SpanList,
    Stretch,
    check_state_name,
    merged_spans,
    without_overlaps,
)

FORMAT, VERSION = "mlat label log", 1
SHORT = 20_000  # spans of a table that is written with every edit
REST = 1.0  # seconds between two writings of a longer one
MOST_STATES = 20_000

_LABELLED = listed(fields_of({"name": TEXT, "steps": COUNT, "digest": TEXT}))
_PIECES = listed(row(COUNT, COUNT, NAME))
_STRETCH = {"recording": COUNT, "start": COUNT, "end": COUNT}
_BY = one_of("hand", "proposal", "name")
_EDITS = listed(fields_of({**_STRETCH, "before": _PIECES, "after": _PIECES}))

Change = tuple[Replacement, ...]
EditListener = Callable[[Change], None]


class EditLog(AppendLog):
    """The log of edits: JSON in lines of an append-only file; the first says what is labelled.

    Parameters
    ----------
    path : path
        Made if it does not exist, and removed by `close` if nothing was appended.
    head : dict
        What is labelled; the first line, written with the first record.

    Attributes
    ----------
    head : dict
        As the file has it.
    records : list of dict
        What was in the file when it was opened.

    Raises
    ------
    InputError
        If the file is damaged or no log.
    DiskError
        If it cannot be read or written, or another process has it open.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.head, self.records = head, list[dict[str, Any]]()
        self._crc = 0
        super().__init__(
            path,
            self._read,
            in_use=f"{path} is in use: these labels are open in another mlat label",
            then="all edits before it are kept; make room, and do the last one again",
        )

    def append(self, record: dict[str, Any], *, flush: bool = True) -> None:
        """Write a record; as :meth:`AppendLog.write`."""
        for one in [record] if self.size else [self.head, record]:
            line, crc = encode_line(_text(one), self._crc)
            self.write(line, flush=flush)
            self._crc = crc

    def _read(self, content: bytes) -> int:
        whole = 0
        for text, stop in decode_lines(content, str(self.path)):
            self.records.append(decode_json(text, mapped(TEXT, ANYTHING), f"{self.path}, an edit"))
            _, self._crc = encode_line(text, self._crc)
            whole = stop
        if self.records:
            self.head, *self.records = self.records
        elif not encode_line(_text(self.head), 0)[0].startswith(content):  # no other file is cut
            raise InputError(f"{self.path} is no log of labels; choose another table")
        return whole


def _text(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


class LabelSession:
    """Labels that are edited, undone and done again; every edit is in the log when it returns.

    Its methods may be called from any thread.

    Parameters
    ----------
    recordings : sequence of Recording
        With different names.
    table : path
        Where the table of labels is written. One that is there is read.
    changed : bool
        Go on although a recording has changed since it was labelled, or another program has changed
        the table; the changes of the table are taken as one edit.

    Attributes
    ----------
    version : int
        How many edits there were, those that undo others among them.
    states : list of str
        In the order in which they were first used.
    notes : list of str
        What a person should know about the files that were opened.
    table_error : str
        Why the table could not be written after the last edit; ``""`` if it was.

    Raises
    ------
    InputError
        If a recording has changed, the table or the log is wrong.
    DiskError
    """

    def __init__(
        self, recordings: Sequence[Recording], table: Path, *, changed: bool = False
    ) -> None:
        self.recordings, self.table = list(recordings), table
        self.lock = threading.RLock()
        self.lists = [SpanList(len(one), i) for i, one in enumerate(self.recordings)]
        self._states: dict[str, None] = {}
        self.notes: list[str] = []
        self.version, self.table_error = 0, ""
        self._in_table = 0  # the version that the table holds
        self._table = ""  # what is known of the table: the bytes that it has
        self._stamp = stamp(table)
        self._writer: threading.Thread | None = None  # of a long table
        self._closing = threading.Event()
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._listeners: list[EditListener] = []
        self._log = EditLog(table.with_name(table.name + ".log"), self._head())
        try:
            self._open(changed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Write what is not in the table yet, and let another process have the files."""
        self._closing.set()
        if (writer := self._writer) is not None:
            writer.join()
        with self.lock:
            self._log.close()

    def listen(self, listener: EditListener) -> None:
        """Call with every change, in their order."""
        self._listeners.append(listener)

    # --- what a person does

    def label(self, recording: int, start: int, end: int, state: str) -> int:
        """Give a stretch a state; returns the version, as all edits do."""
        return self._edit(lambda: (self._list(recording).label(start, end, state),))

    def clear(self, recording: int, start: int, end: int) -> int:
        return self._edit(lambda: (self._list(recording).clear(start, end),))

    def split(self, recording: int, at: int) -> int:
        return self._edit(lambda: (self._list(recording).split(at),))

    def join(self, recording: int, start: int, end: int) -> int:
        return self._edit(lambda: (self._list(recording).join(start, end),))

    def move(self, recording: int, edge: int, to: int) -> int:
        return self._edit(lambda: (self._list(recording).move(edge, to),))

    def fill(self, pieces: Mapping[int, Sequence[Stretch]], *, proposed: bool = False) -> int:
        """Give unlabelled steps states, by recording; what is labelled stays as it is.

        ``proposed`` are states that a model proposed: nothing is judged by them.
        """

        def made() -> Change:
            changes = [self._list(number).fill(given) for number, given in pieces.items() if given]
            by: Any = "proposal" if proposed else "hand"
            found = tuple(replace(change, by=by) for change in changes if change is not None)
            if not found:
                raise InputError("every step of it is labelled already")
            return found

        return self._edit(made)

    def rename(self, state: str, to: str) -> int:
        """Give all spans of a state another name."""
        to = check_state_name(to)

        def made() -> Change:
            renamed = (
                [p._replace(state=to) if p.state == state else p for p in s] for s in self.lists
            )
            found = tuple(
                replace(spans.replace_all(pieces), by="name")
                for spans, pieces in zip(self.lists, renamed, strict=True)
                if any(p.state == state for p in spans)
            )
            if not found:
                raise InputError(f"no span has the state {state[:40]!r}")
            return found

        return self._edit(made)

    def undo(self) -> int:
        with self.lock:
            if not self._done:
                raise InputError("there is nothing to undo")
            return self._record({"undo": 1}, inverse(self._done[-1]))

    def redo(self) -> int:
        with self.lock:
            if not self._undone:
                raise InputError("there is nothing to do again")
            return self._record({"redo": 1}, self._undone[-1])

    @property
    def states(self) -> list[str]:
        return [*self._states]

    @property
    def can_undo(self) -> bool:
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        return bool(self._undone)

    # --- what was labelled

    def spans(self) -> list[Span]:
        """All spans, as the table has them."""
        return self._as_spans(self.pieces())

    def _as_spans(self, pieces: Sequence[Sequence[Stretch]]) -> list[Span]:
        one = len(self.recordings) == 1
        return [
            Span(*piece, "" if one else recording.name)
            for recording, spans in zip(self.recordings, pieces, strict=True)
            for piece in spans
        ]

    def pieces(self) -> list[tuple[Stretch, ...]]:
        """The spans of each recording."""
        with self.lock:
            return [tuple(spans) for spans in self.lists]

    def by_hand(self) -> list[Bools]:
        """Which steps of each recording a person labelled, not a proposal that was taken."""
        with self.lock:
            done = list(self._done)
        found = [np.zeros(len(one), dtype=bool) for one in self.recordings]
        for one in (one for change in done for one in change if one.by != "name"):
            was, now = np.full((2, one.end - one.start), "", dtype=object)
            for states, pieces in ((was, one.before), (now, one.after)):
                for start, end, state in pieces:
                    states[start - one.start : end - one.start] = state
            mine = found[one.recording][one.start : one.end]
            mine[was != now] = one.by == "hand"
            mine[now == ""] = False
        return found

    def labelled(self, recording: int) -> Stream:
        """The stream of a recording with its labels as states."""
        with self.lock:
            spans = [Span(*piece) for piece in self.lists[recording]]
        return with_spans(self.recordings[recording].stream, spans)

    # --- inside

    def _list(self, recording: int) -> SpanList:
        if not is_whole(recording) or not 0 <= recording < len(self.lists):
            raise InputError(f"there is no recording {recording!r}")
        return self.lists[recording]

    def _edit(self, make: Callable[[], Change]) -> int:
        with self.lock:
            change = make()
            new = {piece.state for one in change for piece in one.after} - self._states.keys()
            if len(self._states) + len(new) > MOST_STATES:
                raise InputError(f"there are {MOST_STATES} states already; use one of them")
            fields = (*_STRETCH, "before", "after")
            edits = [{name: getattr(one, name) for name in fields} for one in change]
            record: dict[str, Any] = {"edits": edits}
            if change and change[0].by != "hand":
                record["by"] = change[0].by
            return self._record(record, change)

    def _record(self, record: dict[str, Any], change: Change) -> int:
        """Write an edit down, then make it."""
        if "edits" not in record and any(without_overlaps(e.after) != e.after for e in change):
            raise InputError("labels that overlapped were shortened, and do not come back")
        self._log.append(record)
        self._apply(record, change)
        for listener in self._listeners:  # it is on disk: proposals need not wait for the table
            listener(change)
        if self._writer is None:  # else it writes until the table holds every edit
            if sum(map(len, self.lists)) <= SHORT:
                self._write_table()
            else:
                self._writer = threading.Thread(target=self._write_long_table, daemon=True)
                self._writer.start()
        return self.version

    def _apply(self, record: dict[str, Any], change: Change) -> None:
        for one in change:
            self._list(one.recording).apply(one)
            self._states.update((piece.state, None) for piece in one.after)
        self.version += 1
        if "undo" in record:
            self._undone.append(self._done.pop())
        elif "redo" in record:
            self._done.append(self._undone.pop())
        else:
            self._done.append(change)
            self._undone.clear()

    # --- files

    def _head(self) -> dict[str, Any]:
        labelled = [
            {"name": one.name, "steps": len(one), "digest": one.digest} for one in self.recordings
        ]
        return {"format": FORMAT, "version": VERSION, "recordings": labelled}

    def _open(self, changed: bool) -> None:
        if self._log.cut:
            self.notes.append(
                f"{self._log.path.name}: cut {self._log.cut} bytes of an unfinished line"
            )
        self._check_head(changed)
        records = self._log.records
        last = max((i for i, record in enumerate(records) if "table" in record), default=-1)
        self._stamp, digest = stamp(self.table), self._digest()
        self._table = digest
        is_ours = not digest or (last >= 0 and records[last]["table"] == digest)
        try:
            on_disk = None if is_ours else self._read_table()
        except InputError as error:
            if not records:
                raise
            raise InputError(
                f"{error}; all edits are in {self._log.path.name}: move the table away, and it is "
                "written anew from them"
            ) from None
        written = None  # the labels of the table when it was written last
        # The edits that it holds; a longer table is written while others are made.
        held: Any = records[last].get("edits held") if last >= 0 else None
        for number, record in enumerate(records):
            try:
                self._replay(record)
            except (MlatError, LookupError, TypeError, ValueError) as error:
                raise InputError(
                    f"{self._log.path}, line {number + 2} holds an edit that cannot be made: "
                    f"{error}; put back a copy of it, or move it away"
                ) from None
            if self.version == held if is_whole(held) else number == last:
                written, self._in_table = self.pieces(), self.version
            # The process may have ended between the table and the line of the log about it.
            since = self.version >= held if is_whole(held) else number >= last
            if since and on_disk is not None and self._is_now(on_disk):
                is_ours, self._in_table = True, self.version
        if on_disk is not None and not is_ours:
            self._take_table(on_disk, written or self.pieces(), changed)
        self._shorten_overlaps()
        if self.version and (not digest or self._in_table != self.version):
            self._write_table()

    def _is_now(self, pieces: list[tuple[Stretch, ...]]) -> bool:
        lengths = [len(one) for one in pieces] == [len(spans) for spans in self.lists]
        return lengths and pieces == self.pieces()

    def _take_table(
        self, on_disk: list[tuple[Stretch, ...]], base: list[tuple[Stretch, ...]], changed: bool
    ) -> None:
        """Make what another program has changed since ``base`` an edit."""
        if self.version:
            pairs = [({*a}, {*b}) for a, b in zip(base, on_disk, strict=True)]
            said = (
                f"{self.table.name} is not as it was written: another program changed it, or it is "
                f"damaged (spans that differ: {sum(max(len(a - b), len(b - a)) for a, b in pairs)})"
            )
            if not changed:
                raise InputError(
                    f"{said}; all edits are in {self._log.path.name}. To have the table written "
                    "anew from them, move it away; to take its changes as an edit, which undo "
                    "takes back, pass changed=True"
                )
            self.notes.append(f"{said}; its changes are taken, and undo takes them back")
        self._in_table = -1
        named = [
            [p._replace(state=check_state_name(p.state)) for p in pieces] for pieces in on_disk
        ]
        made = tuple(
            ours.replace_all(merged_spans(was, tuple(ours), theirs))
            for ours, was, theirs in zip(self.lists, base, named, strict=True)
        )
        made = tuple(change for change in made if change.before != change.after)
        if made:
            self._edit(lambda: made)

    def _shorten_overlaps(self) -> None:
        """Mend what earlier versions of mlat let happen: labels that overlap are in no table."""
        made = tuple(
            spans.replace_all(apart)
            for spans in self.lists
            if (apart := without_overlaps(spans)) != tuple(spans)
        )
        if made:
            self.notes.append("labels that overlapped were shortened")
            self._edit(lambda: made)

    def _check_head(self, changed: bool) -> None:
        head = self._log.head
        if head.get("format") != FORMAT:
            raise InputError(f"{self._log.path} is no log of labels; choose another table")
        if head.get("version") != VERSION:
            raise InputError(
                f"{self._log.path} has version {head.get('version')}, this mlat knows {VERSION}; "
                "upgrade mlat"
            )
        _LABELLED(head.get("recordings"), f"{self._log.path}: what it labels")
        labelled = head["recordings"]
        names = [one["name"] for one in labelled]
        if names != [one.name for one in self.recordings]:
            raise InputError(
                f"{self.table} holds the labels of {', '.join(names[:5])}; give the same "
                "recordings in the same order, or another table"
            )
        for one, before in zip(self.recordings, labelled, strict=True):
            n, digest = before["steps"], before["digest"]
            if len(one) >= n and one.digest_of(n) == digest:
                if len(one) > n:
                    self.notes.append(f"{one.name} has {len(one) - n} steps more than before")
            elif changed:
                self.notes.append(f"{one.name} has changed since it was labelled")
            else:
                raise InputError(
                    f"{one.name} has changed since it was labelled: it had {n} steps, now it has "
                    f"{len(one)}, with other values; {self.table} is as it was. Put the recording "
                    "back, choose another table, or pass changed=True to go on with this one"
                )

    def _replay(self, record: dict[str, Any]) -> None:
        if "table" in record:
            return
        if "undo" in record:
            change = inverse(self._done[-1])
        elif "redo" in record:
            change = self._undone[-1]
        else:
            _EDITS(record.get("edits"), "it")
            _BY(by := record.get("by", "hand"), "it: by")
            change = tuple(
                Replacement(
                    **{name: one[name] for name in _STRETCH},
                    before=tuple(Stretch(*piece) for piece in one["before"]),
                    after=tuple(Stretch(*piece) for piece in one["after"]),
                    by=by,
                )
                for one in record["edits"]
            )
            for one in change:
                end = min(one.end, len(self.recordings[one.recording]))
                inside = all(one.start <= piece.start < piece.end <= end for piece in one.after)
                if not inside or list(one.after) != sorted(one.after):
                    raise InputError("a span is not inside the recording, or out of order")
        self._apply(record, change)

    def _read_table(self) -> list[tuple[Stretch, ...]] | None:
        """The spans in the table by recording; None if there is no table."""
        if not self.table.exists():
            return None
        lengths = {one.name: len(one) for one in self.recordings}
        if len(self.recordings) == 1:
            (one,) = self.recordings
            spans = read_spans(self.table, one.stream, name=one.name)
            lengths[""] = len(one)
        else:
            spans = read_spans(self.table)
        checked = check_spans(spans, lengths, where=lambda i: f"{self.table}, span {i}")
        for span in checked:
            check_state_name(span.state)
        return [
            tuple(sorted(Stretch(*span[:3]) for span in checked if span.recording in ("", name)))
            for name in [one.name for one in self.recordings]
        ]

    def _write_long_table(self) -> None:
        """Write the table until it holds every edit; edits are in the log, and do not wait."""
        while True:
            with self.lock:
                behind = self._in_table != self.version and not (
                    self._closing.is_set() and self.table_error
                )
                if not behind:
                    self._writer = None
                    return
            self._write_table()
            self._closing.wait(REST)

    def _write_table(self) -> None:
        try:
            if stamp(self.table) != self._stamp and self._digest() not in ("", self._table):
                raise InputError(
                    f"{self.table.name} was changed by another program and is left as it is; all "
                    f"edits are in {self._log.path.name}. Move the table away, and the next edit "
                    "writes it anew; or start again, which asks what to do with its changes"
                )
            with self.lock:
                version, pieces = self.version, self.pieces()
            write_spans(self.table, self._as_spans(pieces))
            self._in_table, self.table_error = version, ""
            self._stamp, self._table = stamp(self.table), self._digest()
        except (DiskError, InputError) as error:
            # The log has the edit, and the table is written anew after the next one or at a start.
            self.table_error = str(error)
            return
        # Without this line the table is compared with the log at a start.
        with suppress(DiskError), self.lock:
            self._log.append({"table": self._table, "edits held": version}, flush=False)

    def _digest(self) -> str:
        """What the table on the disk is known by; ``""`` if there is none."""
        with disk_errors(self.table):
            if not self.table.is_file():
                return ""
            return hashlib.blake2b(self.table.read_bytes(), digest_size=16).hexdigest()


def inverse(change: Change) -> Change:
    """What undoes a change."""
    return tuple(one.inverse() for one in reversed(change))
