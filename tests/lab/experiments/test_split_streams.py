"""Systems that take streams see nothing of the given steps in the test stream."""

import numpy as np
from hypothesis import given, settings

from mlat import Stream, sliding_windows
from mlat.lab.experiments.protocol import as_streams
from split_strategies import arguments, people, split_or_skip


def numbered(stream):
    """The same stream with the number of each step as its first channel, which is never missing."""
    values = np.column_stack([np.arange(len(stream)), stream.values])
    return Stream(values, stream.states, recordings=stream.recordings)


def numbers_of(values, parts):
    return np.rint(values[:, 0] * parts.scale[0] + parts.mean[0]).astype(int)


@settings(max_examples=300, deadline=None)
@given(people(), arguments)
def test_no_step_of_the_test_stream_is_within_a_window_of_a_given_step(person, options):
    stream = numbered(person)
    parts = split_or_skip(stream, "holdout", options)
    streams, width = as_streams(parts), options["width"]
    recording = np.zeros(len(stream), int)
    if stream.recordings is not None:
        recording[1:] = np.cumsum(stream.recordings[1:] != stream.recordings[:-1])
    given_steps = np.concatenate([np.arange(*where) for where in parts.given.values()])
    steps = numbers_of(streams.test.values, parts)
    distance = np.abs(steps[:, None] - given_steps)
    assert (distance > width)[recording[steps][:, None] == recording[given_steps]].all()
    # A stretch of the test stream is a stretch of the stream: nothing is joined in between.
    joined = streams.test.recordings[1:] == streams.test.recordings[:-1]
    assert (np.diff(steps)[joined] == 1).all()
    assert (np.diff(recording[steps])[joined] == 0).all()
    assert streams.test.states is None or not streams.test.labelled.any()


@settings(max_examples=300, deadline=None)
@given(people(), arguments)
def test_the_windows_of_the_streams_are_those_of_the_split(person, options):
    stream = numbered(person)
    parts = split_or_skip(stream, "holdout", options)
    streams, width = as_streams(parts), options["width"]
    assert (numbers_of(streams.test.values, parts)[streams.ends]
            == parts.test.start + width - 1).all()  # fmt: skip
    for row, end in enumerate(streams.ends):
        inside = slice(end - width + 1, end + 1)
        np.testing.assert_array_equal(streams.test.values[inside], parts.test.X[row])
        assert len(set(streams.test.recordings[inside].tolist())) == 1
    for number, (label, (start, stop)) in enumerate(parts.given.items()):
        own = streams.train.recordings == number
        assert (streams.train.states[own] == label).all()
        np.testing.assert_array_equal(
            streams.train.values[own], (stream.values[start:stop] - parts.mean) / parts.scale
        )
    assert len(streams.train) == sum(stop - start for start, stop in parts.given.values())
    # So what is learned from windows is learned from the same ones, in another order.
    windows = sliding_windows(streams.train, width)
    assert sorted(map(bytes, windows.X)) == sorted(map(bytes, np.ascontiguousarray(parts.train.X)))
