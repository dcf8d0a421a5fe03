"""Examples reach back, are undone without a trace, and become part of a model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_models import ENERGY, EXACT, SETTINGS, STREAM, fitted, sizes, two_channels
from live_oracles import push_all
from mlat import InputError, Stream
from mlat.classifier.state_filter import extended_filter
from mlat.live import LiveSession
from mlat.live.core.teaching import UNDOABLE

LONG = {**EXACT, "teachable": 300}


@given(
    st.sampled_from(["lifted", "auto"]),
    sizes,
    st.integers(0, 70),
    st.integers(1, 60),
    st.lists(st.integers(0, 79), max_size=2),
)
@settings(max_examples=30)
def test_what_is_taught_has_the_bits_of_what_was_classified(name, sizes, begin, n, missing):
    """However the stream is cut, and across its breaks."""
    clf, values = two_channels(name), ENERGY.values[:80].copy()
    values[missing, 0] = np.nan
    live = clf.live(**LONG)
    push_all(live, values, sizes)
    seen, w = clf.features_(Stream(values)), clf.width_
    complete = [
        t for t in range(begin, min(begin + n, 80)) if t >= w - 1 and not missing_in(values, t, w)
    ]
    ends = [t for t in complete if t - w + 1 >= begin] or complete[-1:]
    if not ends:
        with pytest.raises(InputError, match="no window of"):
            live.teach_span("new", begin, min(begin + n, 80))
        return
    assert live.teach_span("new", begin, min(begin + n, 80)) == ("new", len(ends))
    windows = np.array([seen[t - w + 1 : t + 1] for t in ends])
    np.testing.assert_array_equal(live.state.taught.windows, windows)


def missing_in(values, end, width):
    return bool(np.isnan(values[end - width + 1 : end + 1]).any())


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_taught_model_is_saved_and_answers_as_the_session(name, tmp_path):
    clf = fitted(name)
    live = clf.live(**LONG)
    new, old = ("a new state", clf.classes_[-1].item()) if name != "numbered" else (1, 4)
    live.push(STREAM.values[:50])
    live.teach_span(new, 3, 40)
    live.teach(old, 2)
    live.teach(new, 1, ago=3)
    live.teach(old)
    live.undo()
    n_before = len(clf.windows_)
    live.taught_model().save(tmp_path / "taught.mlat")
    model = mlat.load(tmp_path / "taught.mlat")
    assert (len(clf.windows_), len(clf.classes_)) == (n_before, len(model.classes_) - 1)
    assert len(model.windows_) == n_before + len(live.state.taught)
    # Placed where their order puts them, and as probable after others as in the session.
    order = [live.classes.index(state) for state in model.classes_.tolist()]
    extended = extended_filter(clf.confidence_.state_filter, 1).transition
    np.testing.assert_array_equal(
        model.confidence_.state_filter.transition, extended[np.ix_(order, order)]
    )
    both = model.live(**EXACT)
    both.push(STREAM.values[:50])
    assert_alike(live.push(STREAM.values[50:]), both.push(STREAM.values[50:]), order)
    # It can be taught and saved again.
    both.teach(new, 2)
    both.taught_model().save(tmp_path / "again.mlat")
    assert len(mlat.load(tmp_path / "again.mlat").windows_) == len(model.windows_) + 2


def assert_alike(ours, theirs, order):
    for one, other in zip(ours, theirs, strict=True):
        assert (one.state, one.why) == (other.state, other.why)
        np.testing.assert_allclose(one.distance, other.distance, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(
            np.array(one.probabilities)[order], other.probabilities, atol=1e-6
        )
        assert one.agreement == pytest.approx(other.agreement, nan_ok=True)


def test_a_session_that_began_with_nothing_becomes_a_model(tmp_path):
    live = LiveSession.empty(STREAM.channels, width=4, teachable=100)
    live.push(STREAM.values)
    with pytest.raises(InputError, match="nothing was taught"):
        live.taught_model()
    live.teach_span("b", 0, 20)
    with pytest.raises(InputError, match="windows of two states, and there are some of b only"):
        live.taught_model()
    live.teach_span("a", 20, 40)
    live.taught_model().save(tmp_path / "taught.mlat")
    model = mlat.load(tmp_path / "taught.mlat")
    assert model.classes_.tolist() == ["a", "b"]
    both = model.live()
    both.push(STREAM.values)
    assert_alike(live.push(STREAM.values), both.push(STREAM.values), [1, 0])


@given(st.lists(st.tuples(st.sampled_from("abnm"), st.integers(1, 4)), min_size=1, max_size=9))
@settings(max_examples=25)
def test_undone_without_a_trace(examples):
    """What was forgotten for an example is there again when it is undone."""
    live = two_channels("lifted").live(**EXACT, max_taught=5, forget="balanced")
    live.push(ENERGY.values[:30])
    taught, beliefs = [], []
    for state, n in examples:
        taught.append(live.state.taught)
        beliefs.append(live.state.belief.proba)
        live.teach(state, n)
    while live.examples:
        again = two_channels("lifted").live(**EXACT, max_taught=5, forget="balanced")
        again.restore(live.snapshot())
        assert again.undo() == live.undo()
        assert again.snapshot() == live.snapshot()
        kept, then = taught.pop(), live.state.taught
        assert (then.names, then.codes.tolist()) == (kept.names, kept.codes.tolist())
        np.testing.assert_array_equal(then.windows, kept.windows)
        for ours, theirs in zip(then.columns, kept.columns, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(live.state.belief.proba, beliefs.pop())
    with pytest.raises(InputError, match="no example that could be undone"):
        live.undo()


def test_so_many_examples_can_be_undone_and_memory_is_bounded():
    live = fitted("euclidean").live(**EXACT, max_taught=3)
    live.push(STREAM.values[:30])
    for number in range(UNDOABLE + 20):
        live.teach("new", 1 + number % 3)
    assert 1 <= len(live.examples) <= UNDOABLE
    assert len(live.state.examples.forgotten) <= 6
    size = len(live.snapshot())
    for number in range(UNDOABLE):
        live.teach("new", 1 + number % 3)
    assert len(live.snapshot()) <= size + 400
    while live.examples:
        live.undo()
    with pytest.raises(InputError, match="are too long ago"):
        live.undo()


def test_spans_that_cannot_be_taught_are_refused():
    live = fitted("euclidean").live(**EXACT, teachable=20)
    live.push(STREAM.values[:40])
    for begin, end, why in [
        (19, 30, "steps 20 to 39 can be"),
        (30, 41, "steps 20 to 39 can be"),
        (30, 30, "a first step and an end after it"),
        (-1, 30, "a first step and an end after it"),
        (30.0, 35, "whole numbers"),
    ]:
        with pytest.raises(InputError, match=why):
            live.teach_span("new", begin, end)
    assert live.teach_span("new", 37, 39) == ("new", 1)  # shorter than a window: that at its end
    more = fitted("euclidean").live(**EXACT, teachable=30)
    more.restore(live.snapshot())  # that remembers less
    assert more.teach_span("new", 16, 40)[1] == 19
    with pytest.raises(InputError, match="teachable=30, this session has teachable=20"):
        live.restore(more.snapshot())
