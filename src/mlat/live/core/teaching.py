"""Teaching: what a live session remembers to be taught, what it was taught, and how that is undone.

An example is what one act of teaching gave: windows of one state. It is kept as the steps of its
windows, as they came, with as many steps before them as their features depend on. From these the
features are computed anew, to the same bits; so it can be undone, be in a snapshot, and become part
of a model file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.checks import Bools, Floats, Ints, ShortRepr, check_text, is_whole
from ...base.errors import InputError
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import TaughtReferences, windows_over
from ...classifier.enrolment import in_units, with_taught
from ...classifier.state_filter import Belief

if TYPE_CHECKING:
    from .model import LiveModel
    from .state import LiveState

UNDOABLE = 64  # examples


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class TaughtSpan(ShortRepr):
    """Successive steps, and the windows of them that were taught.

    Attributes
    ----------
    example : int
        The number of the example, from 1.
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

    example: int
    code: int
    age: int
    steps: Floats
    start: Ints
    features: Floats | None = None


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Examples(ShortRepr):
    """What was taught, oldest first, with what was forgotten for it and may come back.

    Attributes
    ----------
    spans : tuple of TaughtSpan
    forgotten : array of shape (m,)
        Of each window of the spans: the example for which it was forgotten; 0 where it is kept.
    named : tuple of int
        The example in which each new state was first taught.
    last, final : int
        The number of the last example, and of the last one that cannot be undone any more.
    """

    spans: tuple[TaughtSpan, ...] = ()
    forgotten: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    named: tuple[int, ...] = ()
    last: int = 0
    final: int = 0

    @property
    def codes(self) -> Ints:
        """The state of every window, forgotten ones too."""
        return self._of_windows([span.code for span in self.spans])

    @property
    def can_be_undone(self) -> int:
        """How many examples."""
        return self.last - self.final

    def with_example(
        self,
        spans: Sequence[TaughtSpan],
        n_new_names: int,
        keep: Callable[[Ints], Ints | slice],
        most: int,
    ) -> Examples:
        """With one more example.

        Parameters
        ----------
        spans : sequence of TaughtSpan
            Of example ``last + 1``.
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
        grown = Examples((*self.spans, *spans), forgotten, named, number, self.final)
        there = np.flatnonzero(forgotten == 0)
        kept = np.zeros(len(there), bool)
        kept[keep(grown.codes[there])] = True
        forgotten[there[~kept]] = number
        final = max(self.final, number - UNDOABLE)
        # Example by example, the oldest first; the last one can always be undone.
        for example in np.unique(forgotten[(forgotten > final) & (forgotten < number)]):
            if (forgotten > final).sum() <= most:
                break
            final = int(example)
        return replace(grown, final=final)._where((forgotten == 0) | (forgotten > final))

    def without_last(self) -> Examples:
        """As before the last example."""
        number = self.last
        stays = self._of_windows([span.example for span in self.spans]) < number
        forgotten = np.where(self.forgotten == number, 0, self.forgotten)
        named = tuple(example for example in self.named if example < number)
        before = Examples(self.spans, forgotten, named, number - 1, self.final)
        return before._where(stays)

    def kept(self) -> Examples:
        """The windows that are in use, and no others."""
        return self._where(self.forgotten == 0)

    def _of_windows(self, of_spans: Sequence[int]) -> Ints:
        """What each span has, for each of its windows."""
        n_windows = [len(span.start) for span in self.spans]
        return np.repeat(np.array(of_spans, np.int64), np.array(n_windows, np.int64))

    def _where(self, stays: Bools) -> Examples:
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
    rows: Floats, ends: Ints, width: int, size: int, example: int, code: int
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
                    *(example, code, int(rows[begin, -1])),
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


def spread(ends: Ints, most: int) -> Ints:
    """At most so many of the windows, evenly, the newest among them."""
    every = -(-len(ends) // most)
    return ends[::-1][::every][::-1]


def check_state(state: Any, unknown: str | int) -> str | int:
    """A state that may be taught: a text where states are texts, else a whole number."""
    if isinstance(unknown, str):
        if isinstance(state, str) and "\0" in state:
            raise InputError(f"the state {state!r} holds the character 0; choose another name")
        if isinstance(state, str) and state:
            return check_text(str(state), "the state")
        raise InputError(f"the states of this model are texts; teach a text, not {state!r}")
    if is_whole(state) and state != unknown and abs(int(state)) < 2**62:
        return int(state)
    raise InputError(
        f"the states of this model are whole numbers; teach one other than {unknown}, not {state!r}"
    )


def kept_windows(codes: Ints, most: int, forget: str) -> Ints | slice:
    """Which of the taught windows are kept, by their states ``codes`` (n,), oldest first.

    At most ``most``: the newest of all, or the newest of each state up to its equal share.
    """
    if forget == "oldest" or len(codes) <= 1:
        return slice(-most, None)
    counts = np.bincount(codes)
    share = max(1, most // int((counts > 0).sum()))
    # From the newest: how many of the same state come after each.
    newer = np.empty(len(codes), np.int64)
    for code in np.flatnonzero(counts):
        of_state = np.flatnonzero(codes == code)
        newer[of_state] = np.arange(len(of_state))[::-1]
    return np.flatnonzero(newer < share)


class Teaching:
    """How windows of a session become references: which may, which are kept, how they go again.

    States of sessions go in and out; a given one does not change.

    Attributes
    ----------
    n_past : int
        How many of the last steps are remembered, to be taught.
    """

    def __init__(self, model: LiveModel) -> None:
        self._model, self._clf, self._options = model, model.clf, model.options
        self._width = self._clf.width_
        # Of a lift that remembers nothing, no steps before a window are needed.
        lift = model.intake.lift
        self._ring = lift.size if lift.remembers else 0
        self.n_past = 0
        if self._options.max_taught:
            self.n_past = self._options.teachable + self._width - 1 + max(0, 2 * self._ring - 1)

    def teach(self, state: LiveState, name: str | int, n: int = 1, *, ago: int = 0) -> LiveState:
        """The state in which the last ``n`` windows are references of the named state, too.

        The windows are those of one segment that ended up to ``ago`` steps ago. Of all taught
        windows ``max_taught`` are kept, by the rule ``forget``.

        Raises
        ------
        InputError
        """
        name = check_state(name, self._clf.unknown_)
        rows = state.memory.rows(self.n_past)
        ends = self._last_ends(rows, n, ago)
        if n > self._options.max_taught:
            raise InputError(
                f"{n} windows are to be taught, but only {self._options.max_taught} are kept; "
                "give more room with max_taught"
            )
        return self._taught(state, name, rows, ends)

    def teach_span(self, state: LiveState, name: str | int, begin: int, end: int) -> LiveState:
        """The state in which the windows inside some steps are references of the named state.

        The steps are ``begin`` to ``end - 1``, as predictions number them. A span that holds no
        window gives the last one that ends in it. Of more windows than a quarter of ``max_taught``
        so many are taken, evenly.

        Raises
        ------
        InputError
        """
        name = check_state(name, self._clf.unknown_)
        rows = state.memory.rows(self.n_past)
        ends = self._ends_in_span(rows, state.counters["accepted"], begin, end)
        return self._taught(state, name, rows, spread(ends, max(1, self._options.max_taught // 4)))

    def undo(self, state: LiveState) -> LiveState:
        """The state without the last example: what was forgotten for it is known again.

        Windows are compared as if it had never been given. Only the state filter goes on from what
        it believes now, without states that were new in that example.

        Raises
        ------
        InputError
            If no example is left that can be undone.
        """
        examples = state.examples
        if not examples.can_be_undone:
            before = f"; the {examples.last} before are too long ago" if examples.last else ""
            raise InputError(f"there is no example that could be undone{before}")
        state = state.copy()
        state.examples = examples.without_last()
        names = state.taught.names[: len(state.examples.named)]
        n_before = len(examples.forgotten) - len(state.examples.forgotten)
        state.taught = self.references(names, state.examples)
        n_states = len(self._clf.classes_) + len(names)
        shares, lost = np.split(state.belief.proba, [n_states])
        if lost.any():
            total, usual = shares.sum(), self._model.state_filter(len(names)).stationary
            shares = shares / total if total > 0 else usual  # it believed in nothing else
        state.belief = Belief(shares, state.belief.fresh)
        state.counters["undone"] += n_before
        return state

    def knowing(
        self, state: LiveState, names: tuple[str | int, ...], codes: Ints, windows: Floats
    ) -> LiveState:
        """The state of a session that was taught windows (m, w, d) of channels, and nothing else.

        For one whose features do not look back. It cannot be undone. ``names`` are the new states.
        """
        one = np.zeros(1, np.int64)
        spans = [
            TaughtSpan(1, code, 0, np.ascontiguousarray(window), one)
            for code, window in zip(codes.tolist(), windows, strict=True)
        ]
        state = state.copy()
        state.examples = Examples(
            tuple(spans), np.zeros(len(spans), np.int64), (1,) * len(names), last=1, final=1
        )
        state.taught = self.references(names, state.examples)
        return state

    def examples(self, state: LiveState) -> list[tuple[str | int, int]]:
        """The state and the number of windows of each example that can be undone."""
        classes, examples = self._model.classes(state), state.examples
        taught: dict[int, tuple[str | int, int]] = {}
        for span in examples.spans:
            if span.example > examples.final:
                n = taught.get(span.example, ("", 0))[1]
                taught[span.example] = classes[span.code], n + len(span.start)
        return list(taught.values())

    def taught_model(self, state: LiveState) -> StreamClassifier:
        """A classifier that has the taught windows among its references.

        Raises
        ------
        InputError
            If nothing was taught, or the steps of a taught window were not kept.
        """
        spans = state.examples.kept().spans
        if not spans:
            raise InputError("nothing was taught, so there is nothing to add to the model")
        lost = sum(span.features is not None for span in spans)
        if lost:
            raise InputError(
                f"{lost} windows were taught with an older mlat, which did not keep their steps, "
                "so they cannot be part of a model file; undo or forget them, and teach them anew"
            )
        names = self._model.classes(state)
        taught = with_taught(
            self._clf,
            [
                (piece.steps, piece.start, names[piece.code])
                for span in spans
                for piece in self._pieces(span)
            ],
            self._model.state_filter(len(state.taught.names)),
            names,
        )
        units = self._model.units(state)
        return taught if units is None else in_units(taught, units)

    def _taught(self, state: LiveState, name: str | int, rows: Floats, ends: Ints) -> LiveState:
        most, old, known = self._options.max_taught, state.taught, self._model.classes(state)
        names = old.names if name in known else (*old.names, name)
        if len(names) > most:
            raise InputError(
                f"{len(old.names)} new states are taught already, as many as windows are kept; "
                "give more room with max_taught"
            )
        code = known.index(name) if name in known else len(known)
        spans = cut_spans(rows, ends, self._width, self._ring, state.examples.last + 1, code)
        windows = np.concatenate([self._windows_of(span) for span in spans])
        codes = np.append(old.codes, np.full(len(ends), code))
        keep = partial(kept_windows, most=most, forget=self._options.forget)
        state = state.copy()
        state.examples = state.examples.with_example(spans, len(names) - len(old.names), keep, most)
        state.taught = self._model.experts.teach(names, codes, windows, old, keep(codes))
        # A new state has no probability yet, unless it is the only one.
        shares = np.append(state.belief.proba, np.zeros(len(names) - len(old.names)))
        if not known:
            shares[:] = 1.0
        state.belief = Belief(shares, state.belief.fresh)
        state.counters["taught"] += len(ends)
        return state

    def references(self, names: tuple[str | int, ...], examples: Examples) -> TaughtReferences:
        """The windows of examples that are kept, prepared to be compared."""
        kept = examples.kept()
        windows = [
            np.empty((0, self._width, self._clf.features_.n_features)),
            *map(self._windows_of, kept.spans),
        ]
        return self._model.experts.teach(names, kept.codes, np.concatenate(windows))

    def _last_ends(self, rows: Floats, n: int, ago: int) -> Ints:
        """The rows (of a past) at which the last ``n`` windows up to ``ago`` steps ago end."""
        if not is_whole(n) or n < 1:
            raise InputError(f"n must be a whole number of windows, at least 1, not {n!r}")
        if not is_whole(ago) or ago < 0:
            raise InputError(f"ago must be a whole number of steps, at least 0, not {ago!r}")
        last, most = len(rows) - ago - 1, self._options.teachable
        there = 0
        if last >= 0 and ago < most:
            there = min(int(rows[last, -1]) + 2 - self._width, most - ago, last + 1)
            ends = np.arange(last - max(there, 0) + 1, last + 1)
            there = int((self._first_needed(rows, ends) >= 0).sum())
        if n > there:
            then = f" {ago} steps ago" if ago else ""
            raise InputError(
                f"{n} windows are to be taught, but there are {there}{then}: they reach back to "
                f"where the stream began or broke, and no further than the last {most} (teachable)"
            )
        return np.arange(last - n + 1, last + 1)

    def _ends_in_span(self, rows: Floats, n_steps: int, begin: int, end: int) -> Ints:
        """The rows at which windows inside the steps ``begin`` to ``end - 1`` end."""
        if not is_whole(begin) or not is_whole(end) or not 0 <= begin < end:
            raise InputError(
                f"a span has a first step and an end after it, as whole numbers, not {begin!r} "
                f"and {end!r}"
            )
        most = self._options.teachable
        if end > n_steps or begin < n_steps - most:
            raise InputError(
                f"steps {begin} to {end - 1} are to be taught, but steps "
                f"{max(0, n_steps - most)} to {n_steps - 1} can be (teachable)"
            )
        before = n_steps - len(rows)  # the number of the first row's step
        ends = np.arange(max(begin - before, 0), end - before)
        ends = ends[rows[ends, -1] >= self._width - 1]
        ends = ends[self._first_needed(rows, ends) >= 0]
        if not len(ends):
            raise InputError(
                f"no window of {self._width} steps without a break ends in the steps {begin} to "
                f"{end - 1}; choose later ones"
            )
        inside = ends[ends + before - self._width + 1 >= begin]
        return inside if len(inside) else ends[-1:]

    def _first_needed(self, rows: Floats, ends: Ints) -> Ints:
        """The row from which each window that ends at some of the rows needs steps; < 0: gone."""
        # Of windows that began before the first row, the age follows from that of their end.
        age = rows[ends, -1].astype(np.int64) - self._width + 1
        lead = np.array([lead_begin(one, self._ring) for one in age.tolist()], np.int64)
        return np.asarray(ends - self._width + 1 - (age - lead))

    def _windows_of(self, span: TaughtSpan) -> Floats:
        """The features of the windows of a span, (k, w, d')."""
        if span.features is not None:
            return span.features[None]
        intake = self._model.intake
        features = intake.take(intake.start(), span.steps).features
        return windows_over(features, self._width)[span.start]

    def _pieces(self, span: TaughtSpan) -> list[TaughtSpan]:
        """A span cut where windows do not follow each other step by step.

        The incremental search needs that of the references of a run.
        """
        parts = np.split(span.start, np.flatnonzero(np.diff(span.start) != 1) + 1)
        found = []
        for start in parts:
            first = lead_begin(span.age + int(start[0]), self._ring) - span.age
            steps = span.steps[first : int(start[-1]) + self._width]
            found.append(replace(span, age=span.age + first, steps=steps, start=start - first))
        return found
