from __future__ import annotations

import doctest
import pickle
import warnings
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

import mlat.stream.stream
from doc_examples import DOCS, run_examples
from mlat.base.errors import InputError
from mlat.stream.stream import Stream
from naive import naive_breaks, naive_runs
from stream_strategies import stream_parts, unhurried


def test_examples():
    assert doctest.testmod(mlat.stream.stream).failed == 0
    run_examples(DOCS / "guide/streams.md")


def make(parts) -> Stream:
    values, states, recordings, time, max_gap = parts
    return Stream(values, states, recordings=recordings, time=time, max_gap=max_gap)


@unhurried
@given(stream_parts())
def test_runs_are_the_naive_ones(parts):
    values, states, recordings, time, max_gap = parts
    stream = make(parts)
    found = [(start, stop, stream.classes[code]) for start, stop, code in stream.runs]
    assert found == naive_runs(values, states, recordings, time, max_gap)


@unhurried
@given(stream_parts())
def test_runs_partition_the_labelled_steps_without_missing_values(parts):
    stream = make(parts)
    covered = [step for start, stop, _ in stream.runs for step in range(start, stop)]
    assert covered == np.flatnonzero(stream.labelled & ~stream.missing).tolist()


@unhurried
@given(stream_parts())
def test_runs_are_maximal(parts):
    stream = make(parts)
    breaks = naive_breaks(parts[0], *parts[2:])
    runs = list(stream.runs)
    for (_, stop, code), (start, _, next_code) in pairwise(runs):
        assert stop < start or code != next_code or breaks[start]


@unhurried
@given(stream_parts())
def test_segments_are_the_runs_of_a_stream_of_one_state(parts):
    values, _, recordings, time, max_gap = parts
    stream = make(parts)
    naive = naive_runs(values, ["s"] * len(values), recordings, time, max_gap)
    assert [(a, b) for a, b, _ in stream.segments] == [(a, b) for a, b, _ in naive]
    assert (stream.segments.code == -1).all()


@unhurried
@given(stream_parts())
def test_codes_index_the_sorted_classes(parts):
    stream = make(parts)
    assert stream.classes.tolist() == sorted(set(parts[1]) - {""})
    for code, state in zip(stream.codes, parts[1], strict=True):
        assert (stream.classes[code] == state) if state else (code == -1)


DAYS = [datetime(2020, 3, day) for day in (1, 2, 3, 9)]


def test_a_recording_may_start_its_time_anew():
    stream = Stream([0.0] * 6, time=[10, 11, 12, 0, 1, 5], recordings=[0, 0, 0, 1, 1, 1])
    assert stream.max_gap == 1.5
    assert [start for start, _, _ in stream.segments] == [0, 3, 5]


def test_time_between_recordings_is_no_part_of_the_usual_step():
    stream = Stream([0.0] * 6, time=[0, 50, 100, 101, 102, 105], recordings=[0, 1, 2, 2, 2, 2])
    assert stream.max_gap == 1.5
    assert [start for start, _, _ in stream.segments] == [0, 1, 2, 5]


def test_max_gap_is_the_largest_step_allowed():
    assert list(Stream([0.0] * 3, time=[0, 1, 4], max_gap=3).segments) == [(0, 3, -1)]
    assert Stream([0.0] * 2, time=DAYS[:2], max_gap=86400).max_gap == 86400
    assert Stream([0.0], time=[3]).max_gap == np.inf
    assert Stream([0.0]).max_gap is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time": [1, 3, 2]}, r"time does not increase at step 2 \(2 after 3\)"),
        ({"time": [1, 1, 2]}, r"time does not increase at step 1 \(1 after 1\)"),
        ({"time": [1, None, 2]}, "time is missing at step 1"),
        ({"time": [1, np.nan, 2]}, "time is missing at step 1"),
        ({"time": np.array(["2020", "2021", "NaT"], "M8[D]")}, "time is missing at step 2"),
        ({"time": ["2020", "2021", "2022"]}, "numbers or datetimes, not <U4"),
        ({"time": [DAYS[0], DAYS[1].replace(tzinfo=UTC), DAYS[2]]}, "some has none"),
        ({"time": [1, 2]}, r"one entry per step \(3\)"),
        ({"max_gap": 1.0}, r"needs the time of the steps \(time\)"),
        ({"time": [1, 2, 3], "max_gap": 0}, "max_gap must be positive"),
        ({"time": [1, 2, 3], "max_gap": np.nan}, "max_gap must be positive"),
        ({"time": [1, 2, 3], "max_gap": "2"}, "max_gap must be a number"),
    ],
)
def test_bad_time(arguments, message):
    with pytest.raises(InputError, match=message):
        Stream([0.0, 1.0, 2.0], **arguments)


@unhurried
@given(stream_parts())
def test_a_slice_has_the_runs_of_the_whole_cut_to_it(parts):
    stream = make(parts)
    a, b = len(stream) // 4, 3 * len(stream) // 4
    expected = [
        (max(start, a) - a, min(stop, b) - a, stream.classes[code])
        for start, stop, code in stream.runs
        if start < b and stop > a
    ]
    part = stream[a:b]
    assert [(start, stop, part.classes[code]) for start, stop, code in part.runs] == expected


def test_a_slice_is_a_view_and_keeps_the_gap_rule():
    stream = Stream([0.0] * 6, ["a"] * 6, time=[0, 1, 2, 3, 5, 7], channels=["c"])
    part = stream[3:]
    assert np.shares_memory(part.values, stream.values)
    assert part.channels == ("c",)
    assert part.max_gap == stream.max_gap == 1.5
    assert len(part.runs) == 3
    assert list(stream[-2:].segments) == [(0, 1, -1), (1, 2, -1)]
    with pytest.raises(TypeError, match="without a stride"):
        stream[::2]
    with pytest.raises(TypeError, match="without a stride"):
        stream[3]


@unhurried
@given(stream_parts(), stream_parts())
def test_a_join_has_the_runs_of_its_parts(one, two):
    one = (one[0][:, :1], *one[1:])
    two = (two[0][:, :1], *two[1:])
    parts = [make(one), make(two)]
    joined = Stream.join(parts)
    expected = []
    for begin, part in zip((0, len(parts[0])), parts, strict=True):
        expected += [(begin + a, begin + b, part.classes[code]) for a, b, code in part.runs]
    assert [(a, b, joined.classes[code]) for a, b, code in joined.runs] == expected
    timed = all(part.time is not None for part in [p for p in parts if len(p)] or parts[:1])
    assert (joined.time is not None) == timed


def test_unlabelled_parts_follow_the_others_in_how_to_write_no_state():
    nothing, numbered = Stream([0.0]), Stream([0.0, 1.0], [3, -1])
    assert Stream.join([nothing, numbered]).states.tolist() == [-1, 3, -1]
    assert Stream.join([nothing, Stream([0.0], ["a"])]).states.tolist() == ["", "a"]
    assert Stream.join([nothing, Stream([0.0], [-1])]).states.tolist() == ["", ""]
    assert Stream.join([Stream([0.0], [-1]), Stream([0.0], [-1])]).states.tolist() == [-1, -1]


def test_a_join_keeps_recordings_apart_and_gaps_where_they_were():
    timed = Stream([0.0] * 4, [1] * 4, time=[0, 1, 2, 9], recordings=[5, 6, 6, 6])
    joined = Stream.join([timed, Stream([0.0], [1], recordings=[6]), Stream([]), timed])
    assert joined.recordings.tolist() == [0, 1, 1, 1, 2, 3, 4, 4, 4]
    assert joined.time is None
    assert [start for start, _, _ in joined.runs] == [0, 1, 3, 4, 5, 6, 8]


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ({"time": [5, 6]}, True),
        ({"time": [0.5, 1.0]}, True),
        ({"time": np.array(["2020", "2021"], "M8[Y]")}, False),
        ({"time": [5, 6], "max_gap": 9}, True),
        ({}, False),
    ],
)
def test_a_join_keeps_time_of_the_same_form(others, kept):
    joined = Stream.join([Stream([0.0, 1.0], time=[0, 1]), Stream([0.0, 1.0], **others)])
    assert (joined.time is not None) == kept


def test_an_empty_part_decides_nothing_in_a_join():
    dated = Stream([0.0, 1.0], ["a", "a"], time=DAYS[:2])
    for empty in (Stream([]), Stream([], time=[]), Stream([], [], time=np.array([1])[:0])):
        joined = Stream.join([empty, dated, empty])
        assert joined.time.tolist() == DAYS[:2]
        assert joined.max_gap == dated.max_gap
        assert list(joined.runs) == [(0, 2, 0)]


def test_streams_that_cannot_be_joined():
    with pytest.raises(InputError, match="no streams"):
        Stream.join([])
    with pytest.raises(InputError, match="stream 1 has channels x0, x1, stream 0 has x0"):
        Stream.join([Stream([0.0]), Stream([[0.0, 1.0]])])
    with pytest.raises(InputError, match="some streams name their states"):
        Stream.join([Stream([0.0], ["a"]), Stream([0.0], [1])])


def test_a_stream_survives_pickling():
    stream = Stream([0.0, 1.0, 5.0], ["a", "a", "b"], time=[0, 1, 5])
    copy = pickle.loads(pickle.dumps(stream))
    assert list(copy.runs) == list(stream.runs)


def test_repr_is_short():
    assert len(repr(Stream(np.zeros(1000), np.arange(1000)))) < 150


def test_the_usual_step_is_the_median_inside_recordings():
    assert Stream(np.zeros((4, 1))).usual_step is None
    assert Stream(np.zeros((1, 1)), time=[3.0]).usual_step is None
    time = [0.0, 0.1, 0.2, 9.0, 9.1, 0.0, 0.1]
    recordings = [0, 0, 0, 0, 0, 1, 1]
    stream = Stream(np.zeros((7, 1)), time=time, recordings=recordings, max_gap=50)
    assert stream.usual_step == pytest.approx(0.1)
    days = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:02", "2024-01-01T00:00:04"])
    dated = Stream(np.zeros((3, 1)), time=days.astype("datetime64[s]"))
    assert dated.usual_step == 2.0
    assert dated[:2].usual_step == 2.0
    joined = Stream.join([stream, stream])
    assert joined.usual_step == pytest.approx(0.1)


def test_a_part_by_steps_knows_where_it_was_cut():
    values, states = np.arange(10.0)[:, None] % 3, ["a"] * 5 + ["b"] * 5
    stream = Stream(values, states, recordings=[0] * 7 + [1] * 3, time=np.arange(10) * 0.5)
    part = stream[np.array([0, 1, 3, 4, 6, 7, 9])]
    assert part.gap_before.tolist() == [False, False, True, False, True, True, True]
    assert part.states.tolist() == list("aaaabbb")
    assert part.time.tolist() == [0, 0.5, 1.5, 2, 3, 3.5, 4.5]
    mask = np.isin(np.arange(10), [0, 1, 3, 4, 6, 7, 9])
    assert stream[mask].gap_before.tolist() == part.gap_before.tolist()
    assert stream.shape == (10, 1)
    with pytest.raises(InputError, match="keeps the order of time"):
        stream[np.array([3, 1])]
    with pytest.raises(TypeError, match="array of steps"):
        stream[3]


def test_the_array_of_a_stream_has_its_values_and_says_what_it_has_not():
    values = np.arange(12.0).reshape(6, 2) ** 2
    stream = Stream(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(stream) is stream.values
        assert np.asarray(stream, dtype=np.float32).dtype == np.float32
        assert np.array(stream) is not stream.values
    with pytest.warns(UserWarning, match="1 starts of recordings and gaps"):
        np.testing.assert_array_equal(Stream(values, recordings=[0, 0, 0, 1, 1, 1]), values)
