"""The labelled spans of one recording, and what can be done to them.

Every change is one thing: the spans inside a stretch of steps are replaced by others. So a change
can be written down, undone and sent to another page in one form.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from ..base.checks import Ints, check_text, is_whole
from ..base.errors import InputError
from ..stream.conversion import changes

IGNORE = "(ignore)"  # the state of what is none: a transition, a pause; nothing is learned of it
LONGEST_NAME = 100  # letters of a state's name


class Stretch(NamedTuple):
    """Steps ``start`` to ``end - 1``, all in one state."""

    start: int
    end: int
    state: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """From step ``start`` to ``end - 1`` of a recording, ``before`` is replaced by ``after``.

    All of them lie inside that stretch, and no other span reaches into it. ``by`` says how a person
    did it: by hand, by taking proposals, or by another name of a state.
    """

    recording: int
    start: int
    end: int
    before: tuple[Stretch, ...]
    after: tuple[Stretch, ...]
    by: Literal["hand", "proposal", "name"] = "hand"

    def inverse(self) -> Replacement:
        return Replacement(self.recording, self.start, self.end, self.after, self.before)


class SpanList:
    """Spans of one recording in their order; no two overlap.

    The methods that are named by what a person does return the replacement that does it, and
    change nothing; :meth:`apply` changes the list.

    Parameters
    ----------
    length : int
        Steps of the recording.
    number : int
        Which recording it is.
    """

    def __init__(self, length: int, number: int = 0) -> None:
        self.length, self.number = length, number
        self._pieces: list[Stretch] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._pieces)

    def apply(self, change: Replacement) -> None:
        """Make a replacement that was made for this list as it is now.

        Raises
        ------
        InputError
            If the list is another one.
        """
        part = self._inside(change.start, change.end)
        if tuple(self._pieces[part]) != change.before:
            raise InputError("an edit does not fit the spans that it changes")
        self._pieces[part] = change.after
        self._starts[part] = [piece.start for piece in change.after]

    def at(self, step: int) -> Stretch | None:
        """The span that a step is in."""
        i = bisect_right(self._starts, step) - 1
        return self._pieces[i] if i >= 0 and step < self._pieces[i].end else None

    def overlapping(self, start: int, end: int) -> list[Stretch]:
        """The spans that have a step in a stretch."""
        return self._pieces[self._reaching(start, end)]

    def empty(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of a stretch that no span covers."""
        found = []
        for piece in self.overlapping(start, end):
            if piece.start > start:
                found.append((start, piece.start))
            start = max(start, piece.end)
        if start < end:
            found.append((start, end))
        return found

    # --- what a person does

    def label(self, start: int, end: int, state: str) -> Replacement:
        """Give a stretch a state, whatever it had; overlapping spans of that state are joined."""
        start, end = self._stretch(start, end)
        state = check_state_name(state)
        before = self.overlapping(start, end)
        new_start, new_end = start, end
        rest = []
        for piece in before:
            if piece.state == state:
                new_start, new_end = min(new_start, piece.start), max(new_end, piece.end)
            else:
                rest += _without(piece, start, end)
        return self._replace(before, [*rest, Stretch(new_start, new_end, state)])

    def fill(self, pieces: Iterable[Stretch]) -> Replacement | None:
        """Give the unlabelled steps of some stretches their states; None if there are none."""
        given = sorted(
            Stretch(*self._stretch(piece.start, piece.end), check_state_name(piece.state))
            for piece in pieces
        )
        for one, other in pairwise(given):
            if other.start < one.end:
                raise InputError(
                    f"steps {other.start} to {min(one.end, other.end)} are given twice, as "
                    f"{one.state!r} and {other.state!r}; a step has one state"
                )
        added = [Stretch(a, b, piece.state) for piece in given for a, b in self.empty(*piece[:2])]
        if not added:
            return None
        before = self.overlapping(added[0].start, added[-1].end)
        return self._replace(before, [*before, *added])

    def clear(self, start: int, end: int) -> Replacement:
        """Take the states of a stretch away."""
        start, end = self._stretch(start, end)
        before = self.overlapping(start, end)
        if not before:
            raise InputError(f"no label is between steps {start} and {end}")
        return self._replace(before, [rest for p in before for rest in _without(p, start, end)])

    def split(self, at: int) -> Replacement:
        """Cut the span in two before a step."""
        piece = self.at(_step(at))
        if piece is None or piece.start == at:
            raise InputError(f"there is no span to split at step {at}: go inside one")
        parts = [Stretch(piece.start, at, piece.state), Stretch(at, piece.end, piece.state)]
        return self._replace([piece], parts)

    def join(self, start: int, end: int) -> Replacement:
        """Make one span of those that touch a stretch, and of the steps between them."""
        start, end = self._stretch(start, end)
        before = self.overlapping(max(0, start - 1), min(self.length, end + 1))
        if len(before) < 2:
            raise InputError("there are no two spans to join: select both, or go to their edge")
        states = {piece.state for piece in before}
        if len(states) > 1:
            raise InputError(
                f"only spans of one state can be joined, not of {' and '.join(sorted(states)[:5])}"
            )
        return self._replace(before, [Stretch(before[0].start, before[-1].end, before[0].state)])

    def move(self, edge: int, to: int) -> Replacement:
        """Move an edge of a span, or the common edge of two; it stops at the next edge.

        Each span keeps a step at least.
        """
        edge, to = _step(edge), _step(to)
        i = bisect_left(self._starts, edge)  # the first span that begins here or later
        left = self._pieces[i - 1] if i else Stretch(0, 0, "")
        right = self._pieces[i] if i < len(self) else Stretch(self.length, self.length, "")
        ends = left.state != "" and left.end == edge
        begins = right.state != "" and right.start == edge
        if not (ends or begins):
            raise InputError(f"no span begins or ends at step {edge}")
        low = left.start + 1 if ends else left.end
        high = right.end - 1 if begins else right.start
        to = max(low, min(to, high))
        moved = [(left, left._replace(end=to))] if ends else []
        moved += [(right, right._replace(start=to))] if begins else []
        return self._replace([was for was, _ in moved], [now for _, now in moved])

    def replace_all(self, pieces: Sequence[Stretch]) -> Replacement:
        """Replace all spans, as by those of a table."""
        return Replacement(self.number, 0, self.length, tuple(self), tuple(pieces))

    # --- inside

    def _replace(self, before: Sequence[Stretch], after: Iterable[Stretch]) -> Replacement:
        made = sorted(after)
        edges = [*before, *made]
        return Replacement(
            self.number,
            min((p.start for p in edges), default=0),
            max((p.end for p in edges), default=0),
            tuple(before),
            tuple(made),
        )

    def _reaching(self, start: int, end: int) -> slice:
        first = bisect_right(self._starts, start)
        if first and self._pieces[first - 1].end > start:
            first -= 1
        return slice(first, max(first, bisect_left(self._starts, end)))

    def _inside(self, start: int, end: int) -> slice:
        part = self._reaching(start, end)
        held = self._pieces[part]
        if held and (held[0].start < start or held[-1].end > end):
            raise InputError("an edit cuts a span that it does not name")
        return part

    def _stretch(self, start: int, end: int) -> tuple[int, int]:
        start, end = max(0, _step(start)), min(self.length, _step(end))
        if end <= start:
            raise InputError(
                f"a span needs a step at least: nothing of the recording is between {start} "
                f"and {end}"
            )
        return start, end


def merged_spans(
    base: Sequence[Stretch], ours: Sequence[Stretch], theirs: Sequence[Stretch]
) -> tuple[Stretch, ...]:
    """Our spans with what others changed of a common base; where both changed a step, ours stay."""
    edges = sorted({edge for spans in (base, ours, theirs) for p in spans for edge in p[:2]})
    found: list[Stretch] = []
    cells = (_cells(spans, edges) for spans in (base, ours, theirs))
    for start, end, was, our, their in zip(edges, edges[1:], *cells, strict=False):
        state, begins = (t if o == w else o for w, o, t in zip(was, our, their, strict=True))
        if state and found and found[-1][1:] == (start, state) and not begins:
            found[-1] = found[-1]._replace(end=end)
        elif state:
            found.append(Stretch(start, end, state))
    return tuple(found)


def without_overlaps(spans: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The spans, each shortened to where the one before it ends."""
    found: list[Stretch] = []
    for piece in sorted(spans):
        start = max(piece.start, found[-1].end if found else 0)
        if start < piece.end:
            found.append(piece._replace(start=start))
    return tuple(found)


def _cells(spans: Sequence[Stretch], edges: Sequence[int]) -> list[tuple[str, bool]]:
    """Between each edge and the next, the state and whether a span of it begins there."""
    cells = [("", False)] * len(edges)
    for start, end, state in spans:
        first, last = bisect_left(edges, start), bisect_left(edges, end)
        cells[first:last] = [(state, i == first) for i in range(first, last)]
    return cells


def runs_of(codes: Ints) -> tuple[Ints, Ints]:
    """Where runs of equal codes begin and end."""
    begins = np.flatnonzero(changes(codes, len(codes), first=True))
    return begins, np.append(begins, len(codes))[1:]


def check_state_name(state: object) -> str:
    """The name of a state, without blanks around it.

    Raises
    ------
    InputError
    """
    if not isinstance(state, str) or not state.strip():
        raise InputError("a state needs a name")
    name = state.strip()
    if len(name) > LONGEST_NAME:
        raise InputError(f"the name of a state has at most {LONGEST_NAME} letters")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise InputError("the name of a state is one line, without control characters")
    return check_text(name, "the state")


def _step(step: object) -> int:
    if not is_whole(step):
        raise InputError(f"a step is a whole number, not {step!r}")
    return int(step)  # type: ignore[call-overload]


def _without(piece: Stretch, start: int, end: int) -> list[Stretch]:
    """What is left of a span outside a stretch."""
    left = [piece._replace(end=start)] if piece.start < start else []
    return left + ([piece._replace(start=end)] if piece.end > end else [])
