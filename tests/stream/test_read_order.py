"""Rows that are not every step in the order of time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

from mlat.base.errors import InputError
from mlat.stream.read import read_channels, read_stream
from mlat.stream.signs import is_rough, switches_at_random
from mlat.stream.stream import Stream

T = 300
VALUES = np.cumsum(np.random.default_rng(0).normal(size=(T, 2)), axis=0)
NUMBERED = pd.DataFrame(VALUES, columns=["a", "b"])
DATED = NUMBERED.set_index(pd.date_range("2024-05-31", periods=T, freq="20ms"))
DOORS = {
    "Stream": Stream,
    "read_stream": read_stream,
    "read_channels": lambda frame: read_channels(frame, ["a", "b"]),
    "channels": lambda frame: Stream(frame, channels=["b"]),
}


@pytest.mark.parametrize("read", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("frame", [NUMBERED, DATED], ids=["numbers", "dates"])
@pytest.mark.parametrize(
    ("split", "message"),
    [
        (KFold(5, shuffle=True, random_state=0), "leaves rows out at"),
        (KFold(20, shuffle=True, random_state=0), "leaves rows out at"),
        (ShuffleSplit(1, random_state=0), "its rows are not in the order of time"),
    ],
)
def test_shuffled_rows_of_a_frame_are_refused(read, frame, split, message):
    train, test = next(split.split(frame))
    with pytest.raises(InputError, match=message) as caught:
        read(frame.iloc[train])
    assert "reset_index" in str(caught.value)
    if len(test) >= 20:
        with pytest.raises(InputError, match="the index of the frame"):
            read(frame.iloc[test])


@pytest.mark.parametrize("read", DOORS.values(), ids=DOORS)
def test_no_window_crosses_what_a_frame_leaves_out(read):
    for train, test in KFold(3).split(NUMBERED):
        segments = read(NUMBERED.iloc[train]).segments
        assert len(segments) == 1 + (test[0] not in (0, 200))
        assert read(NUMBERED.iloc[test]).notes == ()
    stream = read(pd.concat([NUMBERED, NUMBERED]))
    assert stream.segments.start.tolist() == [0, T]
    assert stream.notes == ("the index of the frame has 1 breaks, which no window crosses",)


def test_an_index_that_says_nothing_of_order():
    text = NUMBERED.set_index(pd.Index([f"r{i}" for i in range(T)]))
    same = NUMBERED.set_index(pd.Index([7] * T))
    polar = pl.DataFrame(VALUES[np.random.default_rng(0).permutation(T)], schema=["a", "b"])
    for frame in (text, same, polar, NUMBERED[::-1].reset_index(drop=True), NUMBERED[:19][::-1]):
        assert len(Stream(frame).segments) == 1


def test_recordings_may_number_their_rows_anew():
    who = np.arange(T) // 10
    frame = NUMBERED.set_index(pd.Index(np.arange(T) % 10))
    assert len(Stream(frame, recordings=who).segments) == 30


@pytest.mark.parametrize("seed", range(20))
def test_only_a_random_order_is_one(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 60, 30)
    codes = np.repeat(rng.integers(0, 4, 30), lengths)
    assert not switches_at_random(codes)
    assert switches_at_random(rng.permutation(codes))
    walk = np.cumsum(rng.normal(size=(500, 3)), axis=0)
    assert not is_rough(walk)
    assert is_rough(rng.permutation(walk))
    assert not is_rough(np.ones((500, 2)))
    assert not switches_at_random(np.zeros(100, int))
    assert not switches_at_random(np.full(100, -1))
