"""Learning in the background, while a person labels: quick proposals, then learned ones."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.checks import Bools, Ints
from ..base.disk import atomic_write, disk_errors, next_free
from ..base.errors import InputError, MlatError, WorkerError
from ..stream.stream import Stream
from ..stream.windows import fitting_width, width_of_a_second
from .active_learning import QueryStrategy
from .learner_process import work
from .proposals import (
    Cells,
    CellStates,
    Proposal,
    merged_opinions,
    opinion_of_steps,
    proposals,
    quick_opinion,
)
from .session import Change, LabelSession
from .span_list import IGNORE, Stretch

PAUSE = 0.4  # seconds without an edit before a classifier is learned
CHUNK = 16_384  # steps predicted at a time
MOST_AT_ONCE = 200_000  # steps predicted before newer labels are looked at
CONTEXT = 300  # steps before a span that a classifier may look back to
MAPPED = 600  # windows of the map, at most
KEPT = 16  # versions of the proposals that can still be taken
TESTED = 3  # of so many bouts of a state, one is a test
ENDED = "mlat label has ended; the labels are safe"

Spans = list[tuple[Stretch, ...]]


@dataclass(frozen=True)
class Progress:
    """What is being done, and which fraction of it; ``doing`` is empty when all is done."""

    doing: str = ""
    fraction: float = 0.0
    error: str = ""


class LearnerProcess:
    """The process that learns, started when it is first needed; ``say`` is told how far it is."""

    def __init__(self, say: Callable[[str, float], None]) -> None:
        self._say = say
        self._process: Any = None
        self._pipe: Any = None
        self._closed = False
        self._lock = threading.Lock()  # a process is either not there or wholly started

    def do(self, name: str, *arguments: Any) -> Any:
        """Have a job done.

        Raises
        ------
        InputError
            If it cannot be done, as where a state has too few windows.
        WorkerError
            If the process died.
        """
        try:
            with self._lock:
                if self._closed:
                    raise WorkerError(ENDED)
                if self._process is None or not self._process.is_alive():
                    self._start()
            self._pipe.send((name, arguments))
            while True:
                kind, result = self._pipe.recv()
                if kind == "done":
                    return result
                if kind == "failed":
                    raise InputError(result)
                self._say(*result)
        except (EOFError, OSError):
            self._process = None
            raise WorkerError(
                "the process that learns has died, perhaps for lack of memory; the labels are safe"
            ) from None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads run here: no fork
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        with self._lock:
            self._closed, process = True, self._process
        if process is not None:
            process.terminate()  # the thread that waits for its answer then gets the end of it
            process.join()


class Learner:
    """Keeps proposals up to date with the labels of a session.

    Parameters
    ----------
    session : LabelSession
    width : int, optional
        Steps per window; default those of a second, as far as the labelled runs allow.
    changed : callable
        Called from other threads with "proposals", "learning", "map" or "comparison" after these
        changed.
    model : path, optional
        Proposes; what is learned again has its references, too.

    Attributes
    ----------
    version : int
        Of the proposals; it rises with every change of them.
    progress : Progress
    comparison : dict or None
        How the old model and a new one predict stretches that a person labelled by hand.
    map : dict
        Where windows are in two dimensions, nearer ones being more alike: its "version", and
        "points", rows of a recording, the first step, the step after the last, x and y.
    """

    def __init__(
        self,
        session: LabelSession,
        width: int | None,
        changed: Callable[[str], None],
        model: Path | None = None,
    ) -> None:
        self.session, self.model = session, model
        rate = session.recordings[0].rate
        self.width = width or width_of_a_second(1 / rate if rate else None)
        self._fits = width is None
        self.version, self.progress = 0, Progress()
        self.comparison: dict[str, Any] | None = None
        self.map: dict[str, Any] = {"version": 0, "points": []}
        self._loaded = False  # the process has the model that was given
        self.view = (0, 0)  # the recording and step that are looked at
        self._changed = changed
        self._lock = threading.RLock()
        self._process = LearnerProcess(self._say)
        self._cells: Cells | None = None
        self._proposed: list[list[Proposal]] = [[] for _ in session.recordings]
        self._recent: dict[int, list[list[Proposal]]] = {}  # by version
        self._strategy: QueryStrategy | None = None
        self._query_lock = threading.Lock()
        self._skipped: Bools | None = None  # steps that were asked for
        self._learned: CellStates | None = None
        self._learned_from: Spans | None = None  # None: from a model or journal given
        self._trained: tuple[Spans, bytes] | None = None  # the newest model, and its labels
        self._edited, self._wanted = threading.Event(), threading.Event()
        self._jobs: list[tuple[Callable[[], Any], Future[Any]]] = []
        journals = all(one.predicted is not None for one in session.recordings)
        self._given = model is not None or journals
        self._ended = False
        session.listen(self._note_edit)
        self._threads = [
            threading.Thread(target=self._propose_quickly, daemon=True),
            threading.Thread(target=self._learn, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._edited.set()

    def close(self) -> None:
        self._ended = True
        self._edited.set()
        self._wanted.set()
        self._process.close()

    def proposed(self, recording: int) -> tuple[int, list[Proposal]]:
        """The version and the proposals for a recording."""
        with self._lock:
            return self.version, self._proposed[recording]

    def shown(self, version: int) -> list[list[Proposal]]:
        """The proposals of each recording as a page has shown them.

        Raises
        ------
        InputError
            If that was too long ago.
        """
        with self._lock:
            if version not in self._recent:
                raise InputError("the proposals have changed since; look at them, then take them")
            return self._recent[version]

    @property
    def is_current(self) -> bool:
        """Whether a classifier has learned from the labels as they are."""
        return self._trained is not None and self._trained[0] == self._pieces()

    def _pieces(self) -> Spans:
        """The spans that have a state."""
        return [
            tuple(piece for piece in pieces if piece.state != IGNORE)
            for pieces in self.session.pieces()
        ]

    def next_span(self) -> dict[str, Any]:
        """Where a label would help most, and why; what was asked for before is skipped.

        Raises
        ------
        InputError
            If nothing is left to ask for.
        """
        with self._query_lock:
            strategy = self._query_strategy()
            assert self._skipped is not None
            first, answered = self._first_steps, self._skipped.copy()
            codes = np.full(strategy.n_steps, -1)
            pieces = self.session.pieces()
            states = sorted({piece.state for some in pieces for piece in some} - {IGNORE})
            code_of = {state: code for code, state in enumerate(states)} | {IGNORE: -1}
            for begin, some in zip(first.tolist(), pieces, strict=False):
                for piece in some:
                    codes[begin + piece.start : begin + piece.end] = code_of[piece.state]
                    answered[begin + piece.start : begin + piece.end] = True
            found = strategy.query(codes, answered, np.array(states))
            if found is None:
                raise InputError("nothing is left to ask for: every span was labelled or skipped")
            self._skipped[found.start : found.end] = True
        r = int(np.searchsorted(first, found.start, side="right")) - 1
        start, end = found.start - int(first[r]), found.end - int(first[r])
        return {"recording": r, "start": start, "end": end, "why": found.why}

    @property
    def _first_steps(self) -> Ints:
        """The first step of each recording where all follow each other, and their end."""
        return np.cumsum([0, *map(len, self.session.recordings)])

    def _query_strategy(self) -> QueryStrategy:
        if self._strategy is None:
            streams = [one.stream for one in self.session.recordings]
            self._strategy = QueryStrategy(
                streams[0] if len(streams) == 1 else Stream.join(streams)
            )
            self._skipped = np.zeros(self._strategy.n_steps, dtype=bool)
        return self._strategy

    # --- the map

    def make_map(self) -> None:
        """Make the map anew; not at once."""

        def show(made: Future[Any]) -> None:
            if error := made.exception():
                self.map = {**self.map, "error": str(error)}
            else:
                self.map = {"version": self.map["version"] + 1, "points": made.result()}
            self._done()
            self._changed("map")

        self._ask(self._mapped).add_done_callback(show)

    def _mapped(self) -> list[list[float]]:
        """The points of windows spread over all recordings, by the committee if there is one."""
        with self._query_lock:
            strategy = self._query_strategy()
        self._say("mapping", 0.0)
        width, parts, rows = self.width, [], np.arange(len(strategy.ends))
        by_model = self._trained is not None or self._loaded
        if by_model:
            width, reach = self._process.do("reach")
            rows = rows[strategy.ends - strategy.begin >= width - 1]
        rows = rows[:: max(1, -(-len(rows) // MAPPED))]
        ends, begins = strategy.ends[rows] + 1, strategy.begin[rows]
        number = np.searchsorted(self._first_steps, ends, side="left") - 1
        first = self._first_steps[number]
        if by_model:
            for r, end, begin in zip(number.tolist(), ends - first, begins - first, strict=True):
                stream = self.session.recordings[r].stream
                parts.append(stream[max(int(begin), int(end) - reach) : int(end)])
        places = self._process.do("place", strategy.features[rows], parts)
        # The middle of a window, as wide as its neighbours leave it room.
        half = max(width // 4, int(np.median(np.diff(ends)) // 2) if len(ends) > 1 else 1, 1)
        middle = ends - first - width // 2
        last = np.diff(self._first_steps)[number]
        low, high = np.maximum(middle - half, 0), np.minimum(middle + half, last)
        return [
            [r, a, b, round(x, 4), round(y, 4)]
            for r, a, b, (x, y) in zip(
                number.tolist(), low.tolist(), high.tolist(), places.tolist(), strict=True
            )
        ]

    # --- models

    def save(self, path: Path) -> Path:
        """Write the model of the labels as they are now; learned first if need be.

        A file that is there is kept: the new one gets the next free name, which is returned.

        Raises
        ------
        InputError
            If the labels do not suffice.
        """
        trained = self._ask(self._trained_now)
        while not wait([trained], 0.2).done:
            if self._ended:
                raise WorkerError(ENDED)
        content, path = trained.result(), next_free(path)
        with disk_errors(path), atomic_write(path) as temporary:
            temporary.write_bytes(content)
        return path

    def compare(self) -> None:
        """Compare the model with one learned from the labels, on spans set aside; not at once.

        The result is in ``comparison``.
        """

        def show(made: Future[Any]) -> None:
            error = made.exception()
            self.comparison = {"error": str(error)} if error else made.result()
            self._changed("comparison")

        self.comparison = None
        self._ask(self._compared).add_done_callback(show)

    def _compared(self) -> dict[str, Any]:
        spans, apart = self._pieces(), CONTEXT + self.width
        least = self._width_for(self._stream(spans))
        tests, rest = set_aside(spans, self.session.by_hand(), least, apart)
        if not any(tests):
            raise InputError(
                f"no state has two stretches of {least} steps or more labelled by hand that are "
                "apart, one to learn from and one to judge by; label more by hand (proposals that "
                "were taken do not count)"
            )
        learning = self._stream(rest)
        judged = Stream.join(
            [self._labelled(r, pieces) for r, pieces in enumerate(tests) if pieces]
        )
        self._say("comparing", 0.0)
        old, new = self._process.do(
            "compare", self.model, learning, judged, self._width_for(learning)
        )
        self._done()
        tested = [piece.state for pieces in tests for piece in pieces]
        states = {piece.state for pieces in spans for piece in pieces}
        return {
            "old": old,
            "new": new,
            "model": None if self.model is None else self.model.name,
            "tests": {state: tested.count(state) for state in sorted(set(tested))},
            "untested": sorted(states - set(tested)),
            "least": least,
        }

    def _ask(self, job: Callable[[], Any]) -> Future[Any]:
        """Have the thread that learns do something; not at once."""
        asked: Future[Any] = Future()
        self._jobs.append((job, asked))
        self._wanted.set()
        return asked

    # --- quick proposals

    def _note_edit(self, change: Change) -> None:
        self._edited.set()
        self._wanted.set()

    def _propose_quickly(self) -> None:
        recordings = self.session.recordings
        self._cells = Cells([one.stream for one in recordings], self.width)
        predicted = [one.predicted for one in recordings if one.predicted is not None]
        if len(predicted) == len(recordings):
            states = np.concatenate([one.states for one in predicted])
            names, codes = np.unique(states, return_inverse=True)
            n_none = int(names[0] == "")  # the first of all where there is one
            of_each = np.split(codes - n_none, np.cumsum(self._cells.lengths)[:-1])
            confidence = [one.confidence for one in predicted]
            known = names[n_none:].tolist()
            self._learned = opinion_of_steps(self._cells, known, of_each, confidence)
        self._wanted.set()
        while not self._ended:
            self._edited.wait()
            self._edited.clear()
            if not self._ended:
                self._propose()

    def _propose(self) -> None:
        cells, spans = self._cells, self._pieces()
        if cells is None:
            return
        quick = quick_opinion(cells, spans)
        with self._lock:
            seen = _seen(spans, self._learned_from)
            opinion = merged_opinions(quick, self._learned, seen)
            self._proposed = [proposals(cells, opinion, r) for r in range(len(self._proposed))]
            self.version += 1
            self._recent[self.version] = self._proposed
            self._recent.pop(self.version - KEPT, None)
        self._changed("proposals")

    # --- learned proposals

    def _learn(self) -> None:
        if self.model is not None:
            self._guarded(self._take_model)
        while not self._ended:
            if not self._jobs:  # one may have come while edits were waited for
                self._wanted.wait()
            if self._ended:
                return
            self._wanted.clear()
            while self._jobs:
                job, asked = self._jobs.pop(0)
                try:
                    asked.set_result(job())
                except MlatError as error:
                    asked.set_exception(error)
            while not self._ended and not self._jobs and self._wanted.wait(PAUSE):
                self._wanted.clear()  # another edit
            if self._ended or self._jobs:
                continue
            spans = self._pieces()
            # A model that was given knows more than a few corrections: it proposes until a person
            # has it learn again.
            if self._given or len({piece.state for pieces in spans for piece in pieces}) < 2:
                continue
            self._guarded(self._train)

    def _guarded(self, do: Callable[[], Any]) -> None:
        try:
            do()
        except MlatError as error:
            if not self._ended:
                self.progress = Progress(error=str(error))
                self._changed("learning")

    def _take_model(self) -> None:
        assert self.model is not None
        if all(one.predicted is not None for one in self.session.recordings):
            return  # a live session's own predictions are the proposals
        states = self._process.do("load", self.model)
        self._loaded = True
        self._predict_all(states, None)

    def _trained_now(self) -> bytes:
        if not self.is_current:
            self._train(predict=False)
        assert self._trained is not None
        return self._trained[1]

    def _train(self, predict: bool = True) -> None:
        if self.is_current and predict:
            return
        spans = self._pieces()
        self._say("learning", 0.0)
        stream = self._stream(spans)
        states, content = self._process.do("learn", stream, self._width_for(stream), self.model)
        self._trained = spans, content
        if predict:
            self._predict_all(states, spans)
        else:
            self._done()

    def _predict_all(self, states: list[str], spans: Spans | None) -> None:
        """The classifier's opinion of every cell, what is looked at first."""
        while self._cells is None:
            if self._ended:
                return
            threading.Event().wait(0.02)
        cells, n_steps = self._cells, 0
        width, reach = self._process.do("reach")
        opinion = CellStates.nothing(len(cells))
        opinion.states.extend(states)
        with self._lock:
            before = self._learned
            if before is not None and before.states == states:  # until it is known better
                opinion.codes[:], opinion.confidence[:] = before.codes, before.confidence
        size = max(1, CHUNK // cells.size) * cells.size
        chunks = [(r, start) for r, n in enumerate(cells.lengths) for start in range(0, n, size)]
        at, step = self.view
        chunks.sort(key=lambda chunk: (chunk[0] != at, abs(chunk[1] + size // 2 - step)))
        for done, (r, start) in enumerate(chunks):
            stream = self.session.recordings[r].stream
            n = min(size, len(stream) - start)
            first = max(0, start - reach)
            part = stream[first : start + n + width]
            codes, confidence = self._process.do("predict", part, start - first, n, cells.size)
            low = int(cells.first[r]) + start // cells.size
            with self._lock:
                opinion.codes[low : low + len(codes)] = codes
                opinion.confidence[low : low + len(confidence)] = confidence
            n_steps += n
            self._say("predicting", (done + 1) / len(chunks))
            if done % 8 == 0 or done + 1 == len(chunks):
                with self._lock:
                    self._learned, self._learned_from = opinion, spans
                self._propose()
            if self._ended or (n_steps >= MOST_AT_ONCE and (self._wanted.is_set() or self._jobs)):
                break
        self._done()

    def _stream(self, spans: Sequence[Sequence[Stretch]]) -> Stream:
        """The labelled parts of all recordings, with what a classifier looks back to."""
        parts = [self._labelled(r, pieces) for r, pieces in enumerate(spans) if pieces]
        if not parts:
            raise InputError("nothing is labelled yet; label spans of two states at least")
        return Stream.join(parts)

    def _labelled(self, recording: int, pieces: Sequence[Stretch]) -> Stream:
        """The steps of a recording in some spans and before them, with their states."""
        stream = self.session.recordings[recording].stream
        kept = np.zeros(len(stream), dtype=bool)
        longest = max(len(piece.state) for piece in pieces)
        states = np.full(len(stream), "", dtype=f"U{longest}")
        for piece in pieces:
            kept[max(0, piece.start - CONTEXT - self.width) : piece.end] = True
            states[piece.start : piece.end] = piece.state
        steps = np.flatnonzero(kept)
        return stream[steps].with_states(states[steps])

    def _width_for(self, stream: Stream) -> int:
        return fitting_width(self.width, stream) if self._fits else self.width

    def _say(self, doing: str, fraction: float) -> None:
        known = doing in ("comparing", "predicting", "mapping")  # else a solver says its name
        self.progress = Progress(doing.capitalize() if known else "Learning", fraction)
        self._changed("learning")

    def _done(self) -> None:
        self.progress = Progress()
        self._changed("learning")


def _seen(spans: Spans, learned_from: Spans | None) -> list[bool] | None:
    """Which spans a classifier has learned from, as they are; None of a model that was given."""
    if learned_from is None:
        return None
    known = [set(pieces) for pieces in learned_from]
    return [piece in known[r] for r, pieces in enumerate(spans) for piece in pieces]


def set_aside(
    spans: Sequence[Sequence[Stretch]], by_hand: Sequence[Bools], width: int, apart: int
) -> tuple[Spans, Spans]:
    """Stretches to judge by, and spans to learn from, which are of other bouts.

    A bout is the spans of one state that follow each other with no other state and no more than
    ``apart`` steps between them. Of each state every third bout is judged by, if it has two that a
    person labelled for ``width`` steps by hand; the steps that were labelled by hand count.
    """
    bouts = [
        (r, bout, [part for piece in bout for part in _by_hand(piece, mask, width)])
        for r, (pieces, mask) in enumerate(zip(spans, by_hand, strict=True))
        for bout in _bouts(pieces, apart)
    ]
    total = Counter(bout[0].state for _, bout, hand in bouts if hand)
    seen: Counter[str] = Counter()
    tests: list[list[Stretch]] = [[] for _ in spans]
    rest: list[list[Stretch]] = [[] for _ in spans]
    for r, bout, hand in bouts:
        state = bout[0].state
        seen[state] += bool(hand)
        if hand and total[state] > 1 and seen[state] % TESTED == 2 % TESTED:
            tests[r] += hand
        else:
            rest[r] += bout
    return [tuple(some) for some in tests], [tuple(some) for some in rest]


def _bouts(pieces: Sequence[Stretch], apart: int) -> Iterator[list[Stretch]]:
    bout: list[Stretch] = []
    for piece in pieces:
        if bout and (piece.state != bout[-1].state or piece.start - bout[-1].end > apart):
            yield bout
            bout = []
        bout.append(piece)
    if bout:
        yield bout


def _by_hand(piece: Stretch, mask: Bools, width: int) -> list[Stretch]:
    """The parts of a span that were labelled by hand, of so many steps at least."""
    inside = mask[piece.start : piece.end]
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False)) + piece.start
    both = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [Stretch(a, b, piece.state) for a, b in both if b - a >= width]
