"""Whole recordings with every switch: nothing leaks, everything counts."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
from mlat import InputError, Stream
from mlat_lab.datasets import STREAM_SETS, load_streams
from mlat_lab.experiments.delay import switch_delay
from mlat_lab.experiments.stream_protocol import (
    AFTER_SWITCH,
    SECOND,
    STREAM,
    STREAM_PROTOCOLS,
    split_stream,
)


@st.composite
def recorded(draw):
    """Runs of three states and pauses, in a few recordings, with missing values."""
    lengths = draw(st.lists(st.integers(1, 60), min_size=2, max_size=14))
    labels = draw(
        st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=len(lengths), max_size=len(lengths))
    )
    states = np.repeat(np.array(labels, dtype="<U1"), lengths)
    n = len(states)
    recordings = None
    if draw(st.booleans()):
        cuts = draw(st.lists(st.integers(0, n), max_size=3))
        recordings = sum((np.arange(n) >= cut).astype(int) for cut in cuts) + np.zeros(n, int)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.column_stack([np.arange(n, dtype=float), rng.normal(size=n)])
    values[rng.random(n) < draw(st.sampled_from([0, 0, 0.03])), 1] = np.nan
    return Stream(values, states, recordings=recordings)


options = st.fixed_dictionaries({"width": st.integers(1, 6), "given": st.integers(4, 40)})
protocols = st.sampled_from(STREAM_PROTOCOLS)


def split_or_skip(stream, protocol, arguments, **more):
    try:
        return split_stream(stream, protocol, **arguments, **more)
    except InputError:
        assume(False)


def numbers_of(stream, parts, part):
    """Which steps of the whole stream a part has; the first channel numbers them."""
    of_train = np.unique(parts.train.start[:, None] + np.arange(parts.train.width))
    mean, scale = of_train.mean(), of_train.std() or 1.0
    return np.rint(part.values[:, 0] * scale + mean).astype(int)


@settings(max_examples=300)
@given(recorded(), options, protocols)
def test_it_is_the_slow_and_obvious_split(stream, arguments, protocol):
    recordings = None if stream.recordings is None else stream.recordings.tolist()
    if protocol == SECOND:
        assume(recordings is not None and len(set(recordings)) > 1)
    taken, starts, test, counted, left_out = naive.naive_stream_split(
        stream.values.tolist(), stream.states.tolist(), recordings, second=protocol == SECOND,
        **arguments,
    )  # fmt: skip
    if len(set(stream.classes.tolist()) - left_out) < 2:
        with pytest.raises(InputError):
            split_stream(stream, protocol, **arguments)
        return
    parts = split_stream(stream, protocol, **arguments)
    width = arguments["width"]
    assert set(parts.left_out) == left_out
    assert parts.train.start.tolist() == starts
    assert (parts.test.start + width - 1).tolist() == [t for t, _ in counted]
    assert parts.test.y.tolist() == [state for _, state in counted]
    assert parts.counts.all()
    train = numbers_of(stream, parts, parts.streams.train)
    assert set(train[parts.streams.train.labelled]) == taken
    at = numbers_of(stream, parts, parts.streams.test)
    assert at.tolist() == test
    assert at[parts.streams.ends].tolist() == [t for t, _ in counted]
    # What the streams say is what the windows say.
    for row, end in enumerate(parts.streams.ends):
        inside = slice(end - width + 1, end + 1)
        np.testing.assert_array_equal(parts.streams.test.values[inside], parts.test.X[row])
        assert len(set(parts.streams.test.recordings[inside].tolist())) == 1
    for part in (parts.streams.train, parts.streams.test):
        joined = part.recordings[1:] == part.recordings[:-1]
        steps = numbers_of(stream, parts, part)
        assert (np.diff(steps)[joined] == 1).all()
        if recordings is not None:
            where = np.array(recordings)[steps]
            assert (where[1:] == where[:-1])[joined].all()
    np.testing.assert_array_equal(
        parts.streams.train.states[parts.streams.train.labelled],
        stream.states[train[parts.streams.train.labelled]],
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(recorded(), options)
def test_nothing_given_is_within_a_window_of_the_test_stream(stream, arguments):
    parts = split_or_skip(stream, STREAM, arguments)
    width = arguments["width"]
    recording = np.zeros(len(stream), int) if stream.recordings is None else stream.recordings
    taken = numbers_of(stream, parts, parts.streams.train)
    test = numbers_of(stream, parts, parts.streams.test)
    near = np.abs(test[:, None] - taken) <= width
    assert not (near & (recording[test][:, None] == recording[taken])).any()
    for state in parts.states:
        steps = np.flatnonzero(stream.states == state)
        own = taken[stream.states[taken] == state]
        assert own.tolist() == steps[: len(own)].tolist(), "the first ones, in the order of time"
        assert len(own) == min(arguments["given"], int(0.35 * len(steps)))


@settings(max_examples=200)
@given(recorded(), options, protocols, st.integers(1, 20))
def test_fewer_steps_are_judged_evenly(stream, arguments, protocol, n_test):
    every = split_or_skip(stream, protocol, arguments)
    some = split_stream(stream, protocol, **arguments, n_test=n_test)
    np.testing.assert_array_equal(some.train.start, every.train.start)
    assert set(some.test.start) <= set(every.test.start)
    for state in every.states:
        whole = every.test.start[every.test.y == state]
        own = some.test.start[some.counts & (some.test.y == state)]
        assert len(own) == min(n_test, len(whole))
        place = np.searchsorted(whole, own)
        assert np.ptp(np.diff(place)) <= 1 if len(place) > 1 else True


@settings(max_examples=200)
@given(recorded(), options, protocols, st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_delays_are_those_of_single_steps(stream, arguments, protocol, seed, n_test):
    """Where the new state is right soon, fewer judged steps give the same delays."""
    every = split_or_skip(stream, protocol, arguments)
    rng = np.random.default_rng(seed)
    guesses = rng.choice([*every.states, ""], size=len(every.codes))
    found = every.delay(guesses[every.streams.ends])
    first = []
    test, states = every.streams.test, dict(
        zip(every.streams.ends.tolist(), every.test.y.tolist(), strict=True)
    )  # fmt: skip
    before, after = None, None
    for t in range(len(test)):
        if test.gap_before[t] or test.missing[t]:
            before = None
        if t not in states:
            continue
        if before is not None and states[t] != before:
            after = t
            first.append(np.inf)
        if before is None:
            after = None
        if after is not None and guesses[t] == states[t] and np.isinf(first[-1]):
            first[-1] = t - after
        before = states[t]
    assert found.n_switches == len(first)
    if first:
        assert found.first_median == np.quantile(first, 0.5, method="inverted_cdf")
    some = split_stream(stream, protocol, **arguments, n_test=n_test)
    thinned = some.delay(guesses[some.streams.ends])
    assert thinned.n_switches == found.n_switches
    if first and found.first_90 < AFTER_SWITCH:
        assert thinned.first_median == found.first_median


def test_delay_without_pauses_is_the_switch_delay_of_the_steps():
    states = np.repeat(["a", "b", "a", "b", "a", "b"], 40)
    stream = Stream(np.random.default_rng(0).normal(size=(240, 1)), states)
    parts = split_stream(stream, width=4, given=20)
    late = np.roll(parts.test.y, 3)
    found = parts.delay(late)
    assert found.first_median == 3
    codes = np.full(len(parts.codes), -1)
    codes[parts.streams.ends] = (late == "b").astype(int)
    assert found == switch_delay(parts.codes, codes, parts.streams.test.gap_before)


def test_a_pause_is_no_state_and_a_new_one_begins_after_it():
    states = np.repeat(["a", "b", "", "a", "", "b", "", "b", "a"], 40)
    parts = split_stream(
        Stream(np.random.default_rng(0).normal(size=(360, 1)), states), width=4, given=20
    )
    # From a to b over a pause and from b to a: the second b is not new.
    assert parts.delay(parts.test.y).n_switches >= 2
    assert parts.delay(parts.test.y).first_median == 0
    assert parts.delay(np.full(len(parts.test), "")).missed == 1


def test_states_that_do_not_suffice_are_left_out_and_stay_in_the_stream():
    states = np.repeat(["a", "b", "short", "a", "b"], [50, 50, 12, 50, 50])
    parts = split_stream(Stream(np.arange(212.0), states), width=5, given=30)
    assert parts.left_out == {"short": "fewer than 4 windows are given"}
    assert set(parts.test.y) == {"a", "b"}
    assert len(parts.streams.test) == len(states) - 60 - 3 * 5, "those of `short` are there"


def test_the_second_recording():
    states = np.tile(np.repeat(["a", "b", "c"], 20), 3)
    stream = Stream(np.arange(180.0), states, recordings=np.repeat([0, 1, 2], 60))
    parts = split_stream(stream, SECOND, width=5)
    assert len(parts.train) == 3 * 16
    assert len(parts.test) == 56
    assert len(parts.streams.test) == 60
    assert set(parts.test.start) == set(range(60, 116))


def test_bad_arguments():
    stream = Stream(np.zeros((40, 1)), ["a"] * 20 + ["b"] * 20)
    with pytest.raises(InputError, match="unknown protocol 'holdout' of streams; there are"):
        split_stream(stream, "holdout")
    with pytest.raises(InputError, match="there is no second recording"):
        split_stream(stream, SECOND)
    with pytest.raises(InputError, match="a: fewer than 4 windows are given"):
        split_stream(stream, width=10)


# ---------------------------------------------------------------- the real files


@pytest.mark.parametrize("name", STREAM_SETS)
def test_real_streams_are_split_by_the_rule(streams_data, name):
    data_set = STREAM_SETS[name]
    for person, stream in load_streams(name, streams_data, data_set.development).items():
        parts = split_stream(stream)
        assert set(parts.states) | set(parts.left_out) == set(stream.classes)
        for state in parts.states:
            n = int((stream.states == state).sum())
            assert (parts.streams.train.states == state).sum() == min(510, int(0.35 * n))
        assert len(parts.left_out) <= 2, (person, parts.left_out)
