"""Irregular time becomes equal steps, on wish, and nothing is made up in long gaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat import InputError, Stream, StreamClassifier, read_stream
from mlat.stream.resampling import resample


def jittered(n=2000, seed=0, drop=0.12):
    """A zigzag and a sine at 50 steps a second, with jitter and lost steps."""
    rng = np.random.default_rng(seed)
    time = np.sort(np.arange(n) / 50 + rng.normal(0, 0.004, n))
    time = time[rng.random(n) > drop]
    frame = pd.DataFrame({"zigzag": np.abs(time % 0.5 - 0.25), "sine": np.sin(time)})
    frame.insert(0, "time", time)
    frame["state"] = np.where(time < 20, "first", "second")
    return frame


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.floats(5, 200))
def test_steps_are_equal_and_lie_between_those_that_there_were(seed, rate):
    frame = jittered(200, seed)
    stream = read_stream(frame, label="state", rate=rate, max_gap=1)
    np.testing.assert_allclose(np.diff(stream.time), 1 / rate)
    expected = np.interp(stream.time, frame["time"], frame["zigzag"])
    np.testing.assert_allclose(stream.values[:, 0], expected, atol=1e-9)
    assert stream.time[0] == frame["time"].iloc[0]
    assert 0 <= frame["time"].iloc[-1] - stream.time[-1] < 1 / rate + 1e-9


@pytest.mark.parametrize("dates", [False, True])
def test_jitter_and_drops_are_filled_and_long_gaps_stay(dates):
    frame = jittered()
    frame = frame[(frame["time"] < 10) | (frame["time"] > 12)]
    clock = frame["time"].to_numpy()
    if dates:
        frame["time"] = pd.Timestamp("2024-04-30") + pd.to_timedelta(clock, unit="s")
    stream = read_stream(frame, label="state", rate=50)
    assert np.flatnonzero(stream.gap_before).shape == (1,)
    assert stream.usual_step == pytest.approx(0.02)
    gap = int(np.flatnonzero(stream.gap_before)[0])
    seconds = clock[0] + (stream.time - stream.time[0]) / (np.timedelta64(1, "s") if dates else 1)
    assert seconds[gap - 1] <= 10
    assert seconds[gap] >= 12
    np.testing.assert_allclose(stream.values[:, 1], np.sin(seconds), atol=2e-3)
    assert not np.isnan(stream.values).any()
    # Each step has the state of the last one that there was.
    last = np.searchsorted(clock, seconds + 1e-7, side="right") - 1
    assert (stream.states == frame["state"].to_numpy()[last]).all()
    assert any("resampled to 50 steps" in note for note in stream.notes)


def test_sensors_with_rates_of_their_own():
    fast, slow = np.arange(0, 10, 0.02), np.arange(0.005, 10, 0.1)
    frame = pd.concat(
        [
            pd.DataFrame({"time": fast, "acc": np.sin(fast)}),
            pd.DataFrame({"time": slow, "temp": slow % 0.7}),
        ]
    ).sort_values("time")
    stream = read_stream(frame.reset_index(drop=True), rate=50)
    inside = (stream.time > slow[0]) & (stream.time < slow[-1])
    assert not np.isnan(stream.values[inside]).any()
    expected = np.interp(stream.time[inside], slow, slow % 0.7)
    np.testing.assert_allclose(stream.values[inside, 1], expected)
    held = read_stream(frame.reset_index(drop=True), rate=50, between="previous")
    assert len(np.unique(held.values[inside, 1])) <= len(slow)


def test_recordings_are_resampled_one_by_one():
    one, two = jittered(300, 1), jittered(300, 2)
    both = pd.concat([one.assign(subject="a"), two.assign(subject="b")], ignore_index=True)
    stream = read_stream(both, label="state", rate=50)
    parts = [read_stream(part, label="state", rate=50) for part in (one, two)]
    np.testing.assert_allclose(stream.values, np.concatenate([part.values for part in parts]))
    assert stream.gap_before.sum() == sum(part.gap_before.sum() for part in parts) + 1
    assert stream.recordings.tolist() == ["a"] * len(parts[0]) + ["b"] * len(parts[1])


def test_without_time_the_rate_is_that_of_the_steps():
    stream = read_stream(np.random.default_rng(0).normal(size=(30, 2)), rate=25)
    assert len(stream) == 30
    assert stream.usual_step == pytest.approx(0.04)


def test_every_message_leads_on(tmp_path):
    file = tmp_path / "walk.csv"
    frame = jittered(drop=0.4)
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"not regular.*resampled \(rate=\d+\)"):
        read_stream(file, label="state")
    named = read_stream(file, label="state", time="time")
    with pytest.raises(InputError, match=r"gaps: have it resampled \(rate\)"):
        StreamClassifier(60).fit(named)
    own_rates = frame[["zigzag", "sine"]].mask(np.arange(len(frame))[:, None] % 2 == [0, 1])
    with pytest.raises(InputError, match=r"misses a value.*resampled \(rate\)"):
        StreamClassifier(10).fit(Stream(own_rates, frame["state"], time=frame["time"]))
    frame["time"] = frame["time"].round(1)
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"does not rise.*resampled \(rate\)"):
        read_stream(file, label="state")
    assert len(read_stream(file, label="state", rate=10)) == pytest.approx(400, abs=3)


@pytest.mark.parametrize("whole", [1, 2], ids=["every second", "with drops"])
def test_steps_with_one_time_are_spread_until_the_next(whole):
    """A clock of whole seconds says nothing of the steps within them."""
    moments = np.arange(60) / 10
    values = np.sin(moments)[:, None]
    kept = np.arange(60) % 7 != 3 if whole == 2 else np.ones(60, bool)
    new = resample(values[kept], np.floor(moments[kept]), np.zeros(kept.sum(), bool), 10.0)
    assert len(new.values) == pytest.approx(60, abs=1)
    off = np.abs(new.values[:, 0] - np.sin(new.time))
    assert off.max() < (1e-9 if whole == 1 else 0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "steps per second"),
        ({"rate": 50, "between": "cubic"}, '"linear" or "previous"'),
        ({"rate": 1e6}, "milliseconds"),
        ({"rate": 50, "max_gap": -1}, "max_gap must be positive"),
    ],
)
def test_bad_rates(options, message):
    with pytest.raises(InputError, match=message):
        read_stream(jittered(), label="state", **options)


def test_time_that_goes_back_is_refused():
    with pytest.raises(InputError, match="step 2"):
        resample(np.zeros((3, 1)), [0.0, 2.0, 1.0], np.zeros(3, bool), 1.0)
