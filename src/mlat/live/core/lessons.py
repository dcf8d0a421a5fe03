"""What a session remembers to be taught: its last steps, and what was taught, lesson by lesson.

A lesson is kept as the steps of its windows, as they came, with as many steps before them as their
features depend on. From these the features are computed anew, to the same bits; so a lesson can be
undone, be in a snapshot, and become part of a model file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...base.checks import Bools, Floats, Ints, ShortRepr

BLOCK = 64  # rows that are copied at most when a step comes
UNDOABLE = 64  # lessons


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Past(ShortRepr):
    """The last accepted steps, whatever broke the stream in between.

    Attributes
    ----------
    blocks : tuple of arrays of shape (BLOCK, d + 1)
    tail : array of shape (fewer, d + 1)
        The channels of each step, and its age: how many steps its segment had before it; -1 of a
        step that belongs to none.
    most : int
        Rows that can be of use.
    """

    blocks: tuple[Floats, ...]
    tail: Floats
    most: int

    @classmethod
    def of(cls, rows: Floats, most: int) -> Past:
        """Rows (n, d + 1), oldest first."""
        return cls((), rows, most)._in_blocks()

    def after(self, values: Floats, age: int) -> Past:
        """With more steps (t, d) of a segment that had ``age`` before them."""
        if not self.most:
            return self
        before, n = len(self.tail), len(values)
        tail = np.empty((before + n, self.tail.shape[1]))
        tail[:before] = self.tail
        tail[before:, :-1] = values
        tail[before:, -1] = age if n == 1 else np.arange(age, age + n)
        past = Past(self.blocks, tail, self.most)
        return past if len(tail) < BLOCK else past._in_blocks()

    def after_break(self) -> Past:
        """With one more step, which belongs to no segment."""
        return self.after(np.zeros((1, self.tail.shape[1] - 1)), -1)

    def _in_blocks(self) -> Past:
        whole = len(self.tail) // BLOCK
        cut = [self.tail[i * BLOCK : (i + 1) * BLOCK] for i in range(whole)]
        blocks, tail = (*self.blocks, *cut), self.tail[whole * BLOCK :]
        unused = (len(blocks) * BLOCK + len(tail) - self.most) // BLOCK
        return Past(blocks[max(unused, 0) :], tail, self.most)

    def rows(self) -> Floats:
        """All that can be of use, (n, d + 1), oldest first."""
        rows = np.concatenate([*self.blocks, self.tail])
        return rows[len(rows) - min(len(rows), self.most) :]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class TaughtSpan(ShortRepr):
    """Successive steps, and the windows of them that were taught.

    Attributes
    ----------
    lesson : int
        The number of the lesson, from 1.
    code : int
        The state: those of the model, then new ones.
    age : int
        How many steps the segment had before these.
    steps : array of shape (n, d)
        Empty where only the features of one window were kept, by an older mlat.
    start : array of shape (k,)
        Where the windows begin.
    features : array of shape (w, d'), optional
        Of the window whose steps were not kept.
    """

    lesson: int
    code: int
    age: int
    steps: Floats
    start: Ints
    features: Floats | None = None


def _no_numbers() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Lessons(ShortRepr):
    """What was taught, oldest first, with what was forgotten for it and may come back.

    Attributes
    ----------
    spans : tuple of TaughtSpan
    forgotten : array of shape (m,)
        Of each window of the spans: the lesson for which it was forgotten; 0 where it is kept.
    named : tuple of int
        The lesson in which each new state was first taught.
    last, final : int
        The number of the last lesson, and of the last one that cannot be undone any more.
    """

    spans: tuple[TaughtSpan, ...] = ()
    forgotten: Ints = field(default_factory=_no_numbers)
    named: tuple[int, ...] = ()
    last: int = 0
    final: int = 0

    @property
    def codes(self) -> Ints:
        """The state of every window, forgotten ones too."""
        return self._of_windows([span.code for span in self.spans])

    @property
    def can_be_undone(self) -> int:
        """How many lessons."""
        return self.last - self.final

    def with_lesson(
        self,
        spans: Sequence[TaughtSpan],
        n_new_names: int,
        keep: Callable[[Ints], Ints | slice],
        most: int,
    ) -> Lessons:
        """With one more lesson.

        Parameters
        ----------
        spans : sequence of TaughtSpan
            Of lesson ``last + 1``.
        n_new_names : int
            States that nobody knew before.
        keep : callable
            Which of the windows of given states, oldest first, are kept.
        most : int
            Forgotten windows that are remembered.
        """
        number = self.last + 1
        n_new = sum(len(span.start) for span in spans)
        forgotten = np.append(self.forgotten, np.zeros(n_new, np.int64))
        named = (*self.named, *[number] * n_new_names)
        grown = Lessons((*self.spans, *spans), forgotten, named, number, self.final)
        there = np.flatnonzero(forgotten == 0)
        kept = np.zeros(len(there), bool)
        kept[keep(grown.codes[there])] = True
        forgotten[there[~kept]] = number
        final = max(self.final, number - UNDOABLE)
        # Lesson by lesson, the oldest first; the last one can always be undone.
        for lesson in np.unique(forgotten[(forgotten > final) & (forgotten < number)]):
            if (forgotten > final).sum() <= most:
                break
            final = int(lesson)
        return replace(grown, final=final)._where((forgotten == 0) | (forgotten > final))

    def without_last(self) -> Lessons:
        """As before the last lesson."""
        number = self.last
        stays = self._of_windows([span.lesson for span in self.spans]) < number
        forgotten = np.where(self.forgotten == number, 0, self.forgotten)
        named = tuple(lesson for lesson in self.named if lesson < number)
        before = Lessons(self.spans, forgotten, named, number - 1, self.final)
        return before._where(stays)

    def kept(self) -> Lessons:
        """The windows that are in use, and no others."""
        return self._where(self.forgotten == 0)

    def _of_windows(self, of_spans: Sequence[int]) -> Ints:
        """What each span has, for each of its windows."""
        n_windows = [len(span.start) for span in self.spans]
        return np.repeat(np.array(of_spans, np.int64), np.array(n_windows, np.int64))

    def _where(self, stays: Bools) -> Lessons:
        """Some of the windows only; spans that have none go."""
        spans, at = [], 0
        for span in self.spans:
            own = stays[at : at + len(span.start)]
            at += len(own)
            if own.all():
                spans.append(span)
            elif own.any():
                spans.append(replace(span, start=span.start[own]))
        return replace(self, spans=tuple(spans), forgotten=self.forgotten[stays])


def lead_begin(age: int, size: int) -> int:
    """From which step of its segment a window that begins at step ``age`` is lifted.

    The lift's ring buffer holds ``size`` steps; 0 where it remembers nothing. Its sums are computed
    again after every ``size`` steps of a segment. So a lift that begins at such a step, at least
    ``size`` before the window, has the bits of one that began with the segment.
    """
    return max(0, (age // size - 1) * size) if size else age


def cut_spans(
    rows: Floats, ends: Ints, width: int, size: int, lesson: int, code: int
) -> list[TaughtSpan]:
    """The windows that end at some of the rows (n, d + 1) of a past, with the steps they need.

    Windows that need the same steps share a span. There must be enough rows.
    """
    starts = ends - width + 1
    spans: list[TaughtSpan] = []
    begin = stop = -1
    own: list[int] = []

    def close() -> None:
        if own:
            spans.append(
                TaughtSpan(
                    *(lesson, code, int(rows[begin, -1])),
                    rows[begin:stop, :-1].copy(),
                    np.array(own, np.int64) - begin,
                )
            )

    for start in starts.tolist():
        age = int(rows[start, -1])
        first = start - (age - lead_begin(age, size))
        # Of another segment, or too far away to share a step.
        if not own or first > stop or int(rows[stop - 1, -1]) - stop != age - start - 1:
            close()
            begin, own = first, []
        own.append(start)
        stop = start + width
    close()
    return spans


def first_row_needed(rows: Floats, ends: Ints, width: int, size: int) -> Ints:
    """The row from which each window that ends at some of the rows needs steps; < 0: gone."""
    start = ends - width + 1
    # Of windows that began before the first row, the age follows from that of their end.
    age = rows[ends, -1].astype(np.int64) - width + 1
    lead = np.array([lead_begin(one, size) for one in age.tolist()], np.int64)
    return np.asarray(start - (age - lead))


def spread(ends: Ints, most: int) -> Ints:
    """At most so many of the windows, evenly, the newest among them."""
    every = -(-len(ends) // most)
    return ends[::-1][::every][::-1]


def windows_over(features: Floats, width: int) -> Floats:
    """Every window (n, w, d') over successive steps."""
    if len(features) == width:  # the usual case, at a tenth of the cost
        return features[None]
    return np.ascontiguousarray(sliding_window_view(features, width, axis=0).transpose(0, 2, 1))
