"""Which span is asked for, and why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat import InputError, Stream
from mlat.label import QueryStrategy, next_span
from mlat.label.active_learning import BETWEEN, LITTLE, UNLIKE, uncertainty_of


def levels(*means, length=100, seed=0, **more):
    """Runs that differ in their level."""
    rng = np.random.default_rng(seed)
    values = np.repeat(means, length)[:, None] + rng.normal(size=(len(means) * length, 2))
    return Stream(values, channels=["a", "b"], **more)


def labelled(stream, **spans):
    states = np.full(len(stream), "", dtype="U9")
    for state, (start, end) in spans.items():
        states[start:end] = state
    return stream.with_states(states)


def test_at_first_what_is_frequent():
    query = next_span(levels(0, 0, 0, 0, 9))
    assert query.kind == UNLIKE
    assert query.why == "like much of the recording"
    assert query.end <= 400


def test_what_is_unlike_everything_labelled():
    stream = levels(0, 5, 0, 5, 30)
    query = next_span(labelled(stream, rest=(0, 90), walk=(105, 190)))
    assert query.kind == UNLIKE
    assert query.why == "unlike everything labelled"
    assert 400 <= query.start < query.end <= 500


def test_what_lies_between_two_states():
    stream = levels(0, 8, 0, 8, 4)
    query = next_span(labelled(stream, rest=(0, 100), walk=(100, 200)))
    assert query.kind == BETWEEN
    assert set(query.states) == {"rest", "walk"}
    assert query.start >= 400


def test_a_state_with_little():
    stream = levels(0, 8, 0, 8, 16, 16, seed=2)
    known = labelled(stream, rest=(0, 300), walk=(300, 400), run=(400, 416))
    query = next_span(known)
    assert (query.kind, query.states) == (LITTLE, ("run",))
    assert query.why == "like run, of which little is labelled"
    assert query.start >= 416


def test_queries_until_nothing_is_left():
    """Every query is new, and at the end all but scraps are answered."""
    stream = levels(0, 4, 0, 4, length=150)
    strategy = QueryStrategy(stream)
    answered = np.zeros(len(stream), dtype=bool)
    while (query := strategy.next_span(stream, answered)) is not None:
        assert not answered[query.start : query.end].any()
        assert 0 < query.end - query.start <= 2 * strategy.span
        answered[query.start : query.end] = True
    assert answered.mean() > 0.6


def test_the_distances_are_those_of_the_features():
    strategy = QueryStrategy(levels(0, 3, 9))
    slow = np.linalg.norm(strategy.features[:, None] - strategy.features, axis=2)
    np.testing.assert_allclose(strategy.distances, slow, atol=1e-5)
    known = np.full(len(strategy.ends), -1)
    known[:20], known[50:60] = 0, 1
    novelty, nearest = strategy.look(known, known >= 0)
    np.testing.assert_allclose(nearest[:, 0], slow[:, :20].min(axis=1), atol=1e-5)
    everything = slow[:, known >= 0].min(axis=1)
    np.testing.assert_allclose(novelty, np.minimum(everything, strategy.far), atol=1e-5)
    assert (uncertainty_of(nearest) <= 1).all()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.lists(st.integers(0, 359), max_size=5),
    st.integers(1, 80),
)
def test_spans_lie_in_segments(lengths, missing, span):
    """No query crosses a gap or a missing value, whatever the stream."""
    recordings = np.repeat(np.arange(len(lengths)), lengths)
    values = np.random.default_rng(0).normal(size=(len(recordings), 2))
    values[[step for step in missing if step < len(values)]] = np.nan
    stream = Stream(values, recordings=recordings, channels=["a", "b"])
    if not len(stream.segments):
        with pytest.raises(InputError, match="no steps without a missing value"):
            QueryStrategy(stream)
        return
    strategy = QueryStrategy(stream, span=span)
    query = strategy.next_span(stream)
    segments = list(zip(stream.segments.start, stream.segments.stop, strict=True))
    for start, end in [*zip(strategy.start, strategy.end, strict=True), query[:2]]:
        assert any(a <= start < end <= b for a, b in segments)


def test_a_constant_channel_and_scales_do_not_matter():
    stream = levels(0, 5, 0, 30)
    known = {"rest": (0, 90), "walk": (100, 190)}
    query = next_span(labelled(stream, **known))
    scaled = stream.values * [1e6, 1e-3] + [5.0, -2.0]
    wide = Stream(np.column_stack([scaled, np.ones(len(stream))]), channels=["a", "b", "c"])
    assert next_span(labelled(wide, **known))[:2] == query[:2]


def test_a_long_recording_is_looked_at_through_few_windows():
    stream = Stream(np.random.default_rng(0).normal(size=(300_000, 1)), channels=["a"])
    strategy = QueryStrategy(stream)
    assert len(strategy.ends) <= 2000
    assert (strategy.end - strategy.start <= 1000).all()


def test_what_does_not_fit():
    stream = levels(0, 1)
    with pytest.raises(InputError, match="has 100 steps, that which was looked at has 200"):
        QueryStrategy(stream).next_span(stream[:100])
    with pytest.raises(InputError, match="span must be a whole number"):
        QueryStrategy(stream, span=0)
