"""Spans of a recording against a plain array of states, with an edge wherever a span begins."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat import InputError
from mlat.label.span_list import (
    LONGEST_NAME,
    SpanList,
    Stretch,
    check_state_name,
    merged_spans,
    without_overlaps,
)

LENGTH = 24
steps = st.integers(-3, LENGTH + 3)
names = st.sampled_from(["a", "b", "<b>"])
acts = st.one_of(
    st.tuples(st.just("label"), steps, steps, names),
    st.tuples(st.just("fill"), steps, steps, names),
    st.tuples(st.just("clear"), steps, steps),
    st.tuples(st.just("split"), steps),
    st.tuples(st.just("join"), steps, steps),
    st.tuples(st.just("move"), steps, steps),
)


class Naive:
    """A state for every step, and where spans begin; every act step by step."""

    def __init__(self):
        self.states, self.ids, self.last = [None] * LENGTH, [None] * LENGTH, 0

    def spans(self):
        found, i = [], 0
        while i < LENGTH:
            j = i + 1
            while j < LENGTH and self.ids[j] == self.ids[i]:
                j += 1
            if self.states[i] is not None:
                found.append(Stretch(i, j, self.states[i]))
            i = j
        return found

    def put(self, start, end, state, over=True):
        self.last += 1
        for t in range(max(0, start), min(LENGTH, end)):
            if over or self.states[t] is None:
                self.states[t], self.ids[t] = state, None if state is None else self.last

    def separate(self):
        """Parts of a span that was cut in two are two spans."""
        seen, before = {}, object()
        for t in range(LENGTH):
            if self.ids[t] is not None and self.ids[t] != before and self.ids[t] in seen:
                self.last += 1
                old, k = self.ids[t], t
                while k < LENGTH and self.ids[k] == old:
                    self.ids[k] = self.last
                    k += 1
            before = self.ids[t]
            seen[before] = True

    def do(self, act):
        kind, *given_ = act
        if kind == "label":
            start, end, state = given_
            for piece in self.spans():
                if piece.state == state and piece.start < end and start < piece.end:
                    start, end = min(start, piece.start), max(end, piece.end)
            # Only what was labelled with another state inside the given stretch is overwritten.
            self.put(*given_)
            for piece in self.spans():
                if piece.state == state and start <= piece.start and piece.end <= end:
                    for t in range(piece.start, piece.end):
                        self.ids[t] = self.last
        elif kind == "fill":
            self.put(*given_, over=False)
        elif kind == "clear":
            self.put(*given_, None)
        elif kind == "split":
            (at,) = given_
            piece = next(p for p in self.spans() if p.start < at < p.end)
            self.put(at, piece.end, piece.state)
        elif kind == "join":
            start, end = max(0, given_[0]), min(LENGTH, given_[1])
            touched = [p for p in self.spans() if p.start < end + 1 and start - 1 < p.end]
            self.put(touched[0].start, touched[-1].end, touched[0].state)
        elif kind == "move":
            edge, to = given_
            left = next((p for p in self.spans() if p.end == edge), None)
            right = next((p for p in self.spans() if p.start == edge), None)
            at, by = edge, 1 if to > edge else -1
            while at != to and 0 <= at + by <= LENGTH:  # step by step, as far as it goes
                t = at if by > 0 else at - 1  # the step that changes hands
                taken_from, given_to = (right, left) if by > 0 else (left, right)
                if taken_from is not None:
                    if sum(i == self.ids[t] for i in self.ids) == 1:
                        break
                elif self.states[t] is not None:
                    break
                if given_to is None:
                    self.states[t] = self.ids[t] = None
                else:
                    neighbour = at - 1 if by > 0 else at
                    self.states[t], self.ids[t] = self.states[neighbour], self.ids[neighbour]
                at += by
        self.separate()


@settings(max_examples=150)
@given(st.lists(acts, max_size=12))
def test_every_edit_does_what_it_says_and_can_be_undone(edits):
    ours, naive, done = SpanList(LENGTH), Naive(), []
    for act in edits:
        kind, *more = act
        before = list(ours)
        try:
            change = ours.fill([Stretch(*more)]) if kind == "fill" else getattr(ours, kind)(*more)
        except InputError:
            assert list(ours) == before
            continue
        if change is None:
            continue
        ours.apply(change)
        done.append((before, change))
        naive.do(act)
        assert list(ours) == naive.spans(), act
        assert all(p.start < p.end for p in ours)
        assert all(a.end <= b.start for a, b in zip(list(ours)[:-1], list(ours)[1:], strict=True))
    for before, change in reversed(done):
        ours.apply(change.inverse())
        assert list(ours) == before


def test_what_is_labelled_is_never_filled():
    spans = SpanList(10)
    spans.apply(spans.label(3, 5, "hand"))
    spans.apply(spans.fill([Stretch(0, 10, "proposal")]))
    assert [tuple(p) for p in spans] == [(0, 3, "proposal"), (3, 5, "hand"), (5, 10, "proposal")]
    assert spans.fill([Stretch(0, 10, "proposal")]) is None


@pytest.mark.parametrize(("start", "end"), [(3, 3), (5, 2), (-4, 0), (10, 12)])
def test_a_span_without_steps_is_refused(start, end):
    with pytest.raises(InputError, match="needs a step at least"):
        SpanList(10).label(start, end, "walk")


@pytest.mark.parametrize("step", [1.5, "3", None, True])
def test_only_whole_steps(step):
    with pytest.raises(InputError, match="whole number"):
        SpanList(10).label(0, step, "walk")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x00", "x" * (LONGEST_NAME + 1), "\ud800", 3])
def test_names_that_no_state_has(name):
    with pytest.raises(InputError):
        check_state_name(name)


def test_names_are_only_text():
    assert check_state_name(" <script>alert(1)</script> ") == "<script>alert(1)</script>"


def test_spans_of_different_states_are_not_joined():
    spans = SpanList(10)
    spans.apply(spans.label(0, 3, "a"))
    spans.apply(spans.label(3, 6, "b"))
    with pytest.raises(InputError, match="only spans of one state"):
        spans.join(0, 6)


def test_an_edit_of_another_list_is_refused():
    spans, other = SpanList(10), SpanList(10)
    spans.apply(spans.label(0, 3, "a"))
    change = spans.label(2, 5, "b")
    with pytest.raises(InputError, match="does not fit"):
        other.apply(change)


@st.composite
def some_spans(draw):
    edges = sorted(draw(st.sets(st.integers(0, 30), max_size=12)))
    states = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=12, max_size=12))
    return tuple(Stretch(*p) for p in zip(edges, edges[1:], states, strict=False) if p[2])


@given(some_spans(), some_spans(), some_spans())
def test_a_merge_takes_what_others_changed_where_we_did_not(base, ours, theirs):
    assert merged_spans(base, base, theirs) == theirs
    assert merged_spans(base, ours, base) == ours
    assert merged_spans(base, ours, ours) == ours
    both = merged_spans(base, ours, theirs)
    assert without_overlaps(both) == both
    for step in range(30):
        was, our, their, now = (
            next((p.state for p in spans if p.start <= step < p.end), "")
            for spans in (base, ours, theirs, both)
        )
        assert now == (their if our == was else our)
