import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_models import ENERGY, STREAM, fitted, names, sizes, two_channels
from live_oracles import (
    assert_as_batch,
    comparable,
    push_all,
    recordings,
)
from mlat import InputError, Stream, StreamClassifier

EXACT = {"search": "exact", "far": None}


@given(names, sizes, st.lists(st.sampled_from([1, 1, 1, 1, 2, 7]), min_size=30, max_size=30))
def test_a_jump_in_the_numbers_is_a_recording_boundary(name, sizes, ticks):
    clf = two_channels(name)
    values = np.random.default_rng(1).normal(size=(30, 2))
    seq = 100 + np.cumsum(ticks)
    live = clf.live(**EXACT)
    gap = np.diff(seq, prepend=seq[0] - 1) != 1
    predictions = push_all(live, values, sizes, seq=seq)
    assert_as_batch(clf, predictions, Stream(values, recordings=recordings(gap)))
    assert [p.seq for p in predictions] == seq.tolist()
    assert live.counters["gaps"] == gap.sum()


@given(
    sizes,
    st.lists(st.sampled_from([0.01, 0.011, 0.009, 0.02, 1.0]), min_size=30, max_size=30),
    st.sampled_from([{"rate": 100.0}, {"max_gap": 0.5}, {"rate": 100.0, "max_gap": 0.1}, {}]),
)
def test_a_jump_in_time_is_a_gap(sizes, ticks, options):
    clf = two_channels("lifted")
    values = np.random.default_rng(1).normal(size=(30, 2))
    time = np.cumsum(ticks)
    live = clf.live(**EXACT, **options)
    most = options.get("max_gap", 0.015 if options else np.inf)
    stream = Stream(values, time=time, max_gap=most)
    assert_as_batch(clf, push_all(live, values, sizes, time=time), stream)
    assert live.counters["gaps"] == len(stream.segments) - 1


@functools.cache
def timed(step=0.01):
    """A classifier that was learned from steps at this distance in time, with gaps between."""
    ticks = np.full(len(ENERGY), step)
    ticks[::50] = 7.0
    stream = Stream(ENERGY.values, ENERGY.states, time=np.cumsum(ticks))
    return StreamClassifier(4, metric="euclidean").fit(stream)


gaps_at = st.sets(st.integers(1, 119), max_size=8)


@given(sizes, gaps_at, st.floats(0.012, 50.0), st.sampled_from([1.0, 0.8, 1.4]), st.booleans())
def test_a_replay_of_a_recording_with_gaps_is_as_predict(sizes, places, gap, pace, filtered):
    """No rate is given: the usual step is that of the model."""
    clf = timed()
    assert clf.usual_step_ == pytest.approx(0.01)
    ticks = np.full(120, 0.01 * pace)
    ticks[list(places)] += gap
    stream = Stream(np.random.default_rng(1).normal(size=(120, 2)), time=5 + np.cumsum(ticks))
    live = clf.live(**EXACT, filtered=filtered)
    told = push_all(live, stream.values, sizes, time=stream.time)
    if pace == 1.0:  # the same steps are gaps by the model's usual step and by the recording's own
        assert live.counters["gaps"] == len(stream.segments) - 1
        assert_as_batch(clf, told, stream, filtered=filtered)
    assert comparable(told) == comparable(
        clf.live(**EXACT, filtered=filtered).push(stream.values, time=stream.time)
    )
    assert live.warnings == []


@pytest.mark.parametrize(
    "step", [0.001, 0.02, 10.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.0049, 0.3))]
)
@given(sizes, gaps_at)
def test_a_stream_at_another_rate_than_the_models_is_said_once(step, sizes, places):
    clf = timed()
    ticks = np.full(120, step)
    ticks[list(places)] += 20 * step
    stream = Stream(np.random.default_rng(1).normal(size=(120, 2)), time=np.cumsum(ticks))
    live = clf.live(**EXACT)
    told = push_all(live, stream.values, sizes, time=stream.time)
    (warning,) = live.warnings
    assert f"{step:g} s apart, those that the model was learned from were 0.01 s" in warning
    assert ("it looks like milliseconds" in warning) == (step == 10.0)
    assert live.counters["wrong_unit"] == (step == 10.0)
    # After the first steps its own rate counts, as in predict: the same from the next window on.
    expected = clf.predict(stream).tolist()
    whole = 21 + 4
    assert [p.state for p in told][whole:] == expected[whole:]
    assert comparable(told) == comparable(clf.live(**EXACT).push(stream.values, time=stream.time))
    # A rate or a longest step that is given is used, and the warning is still given.
    for options in ({"rate": 1 / step}, {"max_gap": 1.5 * step}):
        live = clf.live(**EXACT, **options)
        told = push_all(live, stream.values, sizes, time=stream.time)
        assert_as_batch(clf, told, stream)
        assert len(live.warnings) == 1


def test_a_session_is_restored_between_its_first_steps():
    clf = timed()
    time = np.cumsum(np.full(60, 0.03))
    values = np.random.default_rng(1).normal(size=(60, 2))
    expected = clf.live(**EXACT).push(values, time=time)
    live = clf.live(**EXACT)
    told = []
    for i in range(60):
        told += live.push(values[i], time=time[i])
        again = clf.live(**EXACT)
        again.restore(live.snapshot())
        live = again
    assert comparable(told) == comparable(expected)
    assert len(live.warnings) == 1


def test_a_model_without_time_knows_no_gaps_in_time():
    assert two_channels("plain").usual_step_ is None
    live = two_channels("plain").live(**EXACT)
    live.push(np.zeros((30, 2)), time=np.arange(30) ** 2)
    assert live.counters["gaps"] == 0
    assert live.warnings == []


def test_a_clock_that_is_set_back_is_a_gap():
    live = two_channels("plain").live(**EXACT, rate=100.0)
    told = live.push(np.random.default_rng(0).normal(size=(4, 2)), time=[0.0, 0.01, -5.0, -4.99])
    assert [p.why for p in told] == ["filling", "filling", "gap", "gap"]


@pytest.mark.parametrize("unit", [1e3, 1e-3, 1e9])
def test_a_wrong_unit_of_time_is_reported_once(unit):
    live = two_channels("plain").live(rate=100.0)
    values = np.random.default_rng(0).normal(size=(60, 2))
    for i in range(60):
        live.push(values[i : i + 1], time=[i * 0.01 * unit])
    assert live.counters["accepted"] == 60
    assert live.counters["wrong_unit"] == 1
    assert len(live.warnings) == 1
    assert f"{0.01 * unit:g} apart in time" in live.warnings[0]
    assert ("it looks like milliseconds" in live.warnings[0]) == (unit == 1e3)


def test_the_right_unit_of_time_gives_no_warning():
    live = two_channels("plain").live(rate=100.0)
    live.push(np.ones((60, 2)), time=np.arange(60) * 0.02)
    assert live.warnings == []


@st.composite
def disordered(draw, n_steps=30):
    """Numbers of steps that arrive, some lost, some twice, none later than ``reorder`` allows."""
    reorder = draw(st.integers(0, 4))
    lost = draw(st.sets(st.integers(1, n_steps - 1), max_size=4))
    seq = [s for s in range(n_steps) if s not in lost]
    late = [0] + [draw(st.integers(0, reorder)) for _ in seq[1:]]
    order = sorted(range(len(seq)), key=lambda i: (i + late[i], i))
    arrived = [seq[i] for i in order]
    for _ in range(draw(st.integers(0, 3))):
        again = draw(st.integers(0, len(arrived) - 1))
        arrived.insert(draw(st.integers(again + 1, len(arrived))), arrived[again])
    return reorder, seq, arrived


@given(names, disordered(), sizes)
def test_steps_out_of_order_are_put_in_order(name, given_steps, sizes):
    reorder, seq, arrived = given_steps
    clf = two_channels(name)
    values = np.random.default_rng(2).normal(size=(30, 2))
    live = clf.live(**EXACT, order_by="seq", reorder=reorder)
    predictions = push_all(live, values[arrived], sizes, seq=np.array(arrived))
    assert live.waiting <= reorder
    predictions += live.flush()
    gap = np.diff(seq, prepend=seq[0] - 1) != 1
    assert [p.seq for p in predictions] == seq
    assert_as_batch(clf, predictions, Stream(values[seq], recordings=recordings(gap)))
    assert live.counters["duplicate"] == len(arrived) - len(seq)
    assert live.counters["late"] == 0
    assert live.waiting == 0


@given(disordered(), sizes, st.booleans())
def test_time_puts_steps_in_order_too(given_steps, sizes, rated):
    reorder, seq, arrived = given_steps
    clf = two_channels("lifted")
    arrived = list(dict.fromkeys(arrived))  # each once: time does not tell what came again
    time = 0.01 * np.arange(30)
    values = np.random.default_rng(2).normal(size=(30, 2))
    options = {"rate": 100.0} if rated else {}
    live = clf.live(**EXACT, order_by="time", reorder=reorder, **options)
    predictions = push_all(live, values[arrived], sizes, time=time[arrived]) + live.flush()
    stream = Stream(values[seq], time=time[seq], max_gap=0.015 if rated else np.inf)
    assert [p.time for p in predictions] == time[seq].tolist()
    assert_as_batch(clf, predictions, stream)


@given(disordered(), sizes)
def test_chunking_does_not_change_the_order(given_steps, sizes):
    _, _, arrived = given_steps
    values = np.random.default_rng(2).normal(size=(30, 2))
    # With less room than they would need some are late: the same ones in every chunking.
    one, other = (two_channels("plain").live(**EXACT, order_by="seq", reorder=1) for _ in range(2))
    cut = push_all(one, values[arrived], sizes, seq=np.array(arrived)) + one.flush()
    whole = other.push(values[arrived], seq=np.array(arrived)) + other.flush()
    assert comparable(cut) == comparable(whole)
    assert one.snapshot() == other.snapshot()
    counts = one.counters
    assert counts["accepted"] + counts["late"] + counts["duplicate"] == len(arrived)


def test_late_and_repeated_steps_are_counted_apart():
    live = two_channels("plain").live(**EXACT, order_by="seq", reorder=2)
    row = np.random.default_rng(0).normal(size=2)
    told = [live.push(row, seq=seq) for seq in (10, 11, 14, 15, 16, 17)]
    # 12 and 13 are given up when 16 comes.
    assert [[(p.seq, p.why) for p in ps] for ps in told] == [
        [(10, "filling")],
        [(11, "filling")],
        [],
        [],
        [(14, "gap"), (15, "gap"), (16, "gap")],
        [(17, "")],
    ]
    for seq in (12, 13, 9, 12):
        assert live.push(row, seq=seq) == []
    assert (live.counters["late"], live.counters["duplicate"]) == (4, 0)
    for seq in (10, 16, 17):
        assert live.push(row, seq=seq) == []
    assert (live.counters["late"], live.counters["duplicate"]) == (4, 3)
    assert len(live.push(row, seq=18)) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", [-(1 << 63), (1 << 63) - 4])
def test_numbers_at_the_ends_of_their_range(first):
    live = two_channels("plain").live(order_by="seq")
    assert len(live.push(np.zeros((2, 2)), seq=[first, first + 1])) == 2
    assert len(live.push(np.zeros((2, 2)), seq=[first + 2, first + 3])) == 2
    assert live.counters["gaps"] == 0


def test_a_source_that_counts_from_the_start_again_gives_a_warning():
    live = two_channels("plain").live(order_by="seq")
    values = np.random.default_rng(0).normal(size=(200, 2))
    live.push(values, seq=np.arange(200))
    assert live.warnings == []
    live.push(values[:150], seq=np.arange(150))
    assert live.counters["duplicate"] == 150
    assert ["100 steps in a row came late or again" in text for text in live.warnings] == [True]


def test_the_buffer_is_kept_in_the_snapshot():
    clf = two_channels("lifted")
    values = np.random.default_rng(0).normal(size=(12, 2))
    live, again = (clf.live(**EXACT, order_by="seq", reorder=3) for _ in range(2))
    live.push(values[[0, 1, 2, 5, 4]], seq=[0, 1, 2, 5, 4])
    again.restore(live.snapshot())
    assert again.waiting == 2
    rest = [3, 7, 9, 8, 11]
    told = [s.push(values[rest], seq=rest) + s.flush() for s in (live, again)]
    assert comparable(told[0]) == comparable(told[1])
    assert [p.seq for p in told[0]] == [3, 4, 5, 7, 8, 9, 11]


def test_steps_need_a_number_to_be_ordered_by_it():
    with pytest.raises(InputError, match="the steps have no seq"):
        fitted("euclidean").live(order_by="seq").push(STREAM.values[:2])


def test_steps_need_a_time_to_be_ordered_by_it():
    live = two_channels("plain").live(order_by="time")
    with pytest.raises(InputError, match="the steps have no time"):
        live.push([[1.0, 2.0]], seq=[1])
