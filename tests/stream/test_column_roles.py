"""Columns that are no channels: time, row numbers, persons and recordings."""

from __future__ import annotations

import doctest
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mlat.stream.column_roles
from mlat.base.errors import InputError
from mlat.stream.column_roles import counting, role_by_name
from mlat.stream.read import read_channels, read_stream
from mlat.stream.stream import Stream

T = 200
RNG = np.random.default_rng(0)
SENSORS = {"x": RNG.normal(size=T), "y": np.cumsum(RNG.normal(size=T))}
STATES = np.repeat(["rest", "walk"], T // 2)


def test_examples():
    assert doctest.testmod(mlat.stream.column_roles).failed == 0


def write_csv(folder, frame):
    frame.to_csv(folder / "walk.csv", index=False)
    return folder / "walk.csv"


def write_tsv(folder, frame):
    frame.to_csv(folder / "walk.tsv.gz", index=False, sep="\t")
    return folder / "walk.tsv.gz"


def write_parquet(folder, frame):
    frame.to_parquet(folder / "walk.parquet")
    return folder / "walk.parquet"


def through_reader(door):
    return lambda folder, frame: read_stream(door(folder, frame), label="state")


def directly(convert):
    def read(folder, frame):
        return Stream(convert(frame.drop(columns="state")), frame["state"].to_numpy())

    return read


# Every way for columns with names to become a stream.
DOORS = {
    "csv": through_reader(write_csv),
    "tsv.gz": through_reader(write_tsv),
    "parquet": through_reader(write_parquet),
    "pandas": through_reader(lambda folder, frame: frame),
    "polars": through_reader(lambda folder, frame: pl.from_pandas(frame)),
    "arrow": through_reader(lambda folder, frame: pl.from_pandas(frame).to_arrow()),
    "Stream of pandas": directly(lambda frame: frame),
    "Stream of polars": directly(pl.from_pandas),
}


@pytest.fixture(params=DOORS.values(), ids=DOORS)
def read(request, tmp_path):
    """Read a stream from columns, through each door."""
    return lambda **columns: request.param(
        tmp_path, pd.DataFrame({**columns, **SENSORS, "state": STATES})
    )


@pytest.mark.parametrize(
    "name",
    ["time", "Time", "timestamp", "t", "date", "DateTime", "Time (s)", "time_ms", "unix time"],
)
def test_a_column_of_time_is_the_time(read, name):
    clock = np.arange(T) * 0.02
    clock[150:] += 1
    stream = read(**{name: clock})
    assert stream.channels == ("x", "y")
    np.testing.assert_allclose(stream.time, clock)
    assert len(stream.segments) == 2
    assert stream.notes == (f"column {name!r} is taken as the time",)
    assert "is taken as the time" in repr(stream)


def test_dates_are_time(read):
    stream = read(date=pd.date_range("2024-05-31", periods=T, freq="20ms"))
    assert stream.channels == ("x", "y")
    assert stream.time.dtype.kind == "M"
    assert stream.max_gap == pytest.approx(0.03)


@pytest.mark.parametrize(
    "name", ["index", "Unnamed: 0", "row", "id", "ID", "idx", "row_number", "sampleNumber", "seq"]
)
def test_row_numbers_are_left_out(read, name):
    stream = read(**{name: np.arange(T)})
    assert stream.channels == ("x", "y")
    assert stream.time is None
    assert f"column {name!r} is taken for no channel" in stream.notes[0]


@pytest.mark.parametrize(
    "name", ["person", "subject_id", "Subject", "user", "recording", "session", "trial", "file"]
)
@pytest.mark.parametrize("entries", [["anna", "bert", "anna"], [3, 1, 2]], ids=["texts", "numbers"])
def test_persons_and_recordings_are_recordings(read, name, entries):
    stream = read(**{name: np.repeat(entries, [80, 60, 60])})
    assert stream.channels == ("x", "y")
    assert stream.segments.start.tolist() == [0, 80, 140]
    assert f"column {name!r} is taken as the recording" in stream.notes[0]


def test_time_may_start_anew_in_each_recording(read):
    person, trial = np.arange(T) // 100, np.arange(T) // 50 % 2
    stream = read(person=person, trial=trial, time=np.arange(T) % 50 / 50)
    assert stream.channels == ("x", "y")
    assert stream.segments.start.tolist() == [0, 50, 100, 150]
    assert "column 'person' and column 'trial' are taken as the recording" in stream.notes[0]


UNCLEAR = {
    "time that starts anew": ({"time": np.arange(T) % 50}, "'time'.*does not rise at step 50"),
    "time that stands still": ({"t": np.zeros(T)}, "'t'.*does not rise at step 1"),
    "time with jumps": (
        {"time": np.cumsum(np.where(np.arange(T) % 4 == 0, 9, 1))},
        "'time'.*is not regular: 25% of its steps are gaps",
    ),
    "two clocks": (
        {"time": np.arange(T) / 50, "timestamp": 10**9 + np.arange(T)},
        "both column 'time' and column 'timestamp' look like the time",
    ),
    "an id that does not count": ({"id": RNG.integers(0, 9, T)}, "'id'.*does not count the steps"),
    "interleaved persons": ({"person": np.arange(T) % 2}, "'person'.*changes 199 times"),
    "a counter": ({"k": np.arange(T)}, "'k' only rises"),
    "a countdown": ({"k": np.arange(T, 0, -1)}, "'k' only falls"),
    "a counter that starts anew": ({"k": np.arange(T) % 60}, "'k' only rises"),
    "a clock that jitters": (
        {"k": np.arange(T) + 0.3 * RNG.random(T)},
        "'k' only rises.*say that it is the time",
    ),
    "an odometer": ({"km": np.cumsum(np.maximum(0, RNG.normal(size=T)))}, "'km' only rises"),
    "a number of persons": ({"who": np.arange(T) // 50}, "'who' keeps a whole number"),
    "persons in any order": (
        {"who": np.repeat([7, 3, 9, 1, 4], T // 5)},
        r"'who' keeps a whole number.*\(recording\)",
    ),
    "a temperature called T that only rises": ({"T": np.arange(T) ** 1.5}, "'T' only rises"),
}


@pytest.mark.parametrize(("columns", "message"), UNCLEAR.values(), ids=UNCLEAR)
def test_what_is_unclear_is_refused_with_a_remedy(read, columns, message):
    with pytest.raises(InputError, match=message) as caught:
        read(**columns)
    assert "(channels)" in str(caught.value) or "(time)" in str(caught.value)
    assert "\n" not in str(caught.value)


GENUINE = {
    "noise": RNG.normal(size=T),
    "a random walk": np.cumsum(RNG.normal(size=T)),
    "a temperature that warms up": np.linspace(20, 40, T) + 0.2 * RNG.normal(size=T),
    "in steps of a tenth": np.round(np.linspace(20, 40, T) + 0.1 * RNG.normal(size=T), 1),
    "constant": np.full(T, 7.0),
    "nothing but one switch": np.repeat([0.0, 1.0], T // 2),
    "on and off": np.repeat([0.0, 1.0, 0.0, 1.0], T // 4),
    "a gear": np.repeat([1.0, 2.0, 3.0, 2.0, 1.0], T // 5),
    "a slow sine": np.sin(np.arange(T) / 40),
    "a triangle": np.abs(np.arange(T) % 50 - 25.0),
    "all missing": np.full(T, np.nan),
    "mostly missing": np.where(np.arange(T) % 50, np.nan, 3.0),
}


@pytest.mark.parametrize("values", GENUINE.values(), ids=GENUINE)
@pytest.mark.parametrize("name", ["a", "T", "timeout", "steps", "NO", "particle"])
def test_sensors_are_untouched(read, values, name):
    stream = read(**{name: values})
    assert stream.channels == (name, "x", "y")
    assert stream.notes == ()
    np.testing.assert_array_equal(stream.values[:, 0], values)


@pytest.mark.parametrize("n", [1, 2, 5, 19])
def test_few_steps_show_nothing(n):
    frame = pd.DataFrame({"ramp": np.arange(n, dtype=float), "x": SENSORS["x"][:n]})
    assert Stream(frame).channels == read_stream(frame).channels == ("ramp", "x")
    timed = read_stream(frame.rename(columns={"ramp": "time"}))
    assert timed.channels == ("x",)
    assert timed.time.tolist() == list(range(n))


@pytest.mark.parametrize("seed", range(200))
def test_random_sensors_are_never_refused(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 2000))
    kinds = [
        rng.normal(size=n),
        rng.integers(0, 4, n).astype(float),
        np.cumsum(rng.normal(size=n)),
        np.round(np.cumsum(rng.normal(size=n)) / 5),
        0.01 * np.arange(n) + rng.normal(size=n),
        np.sin(np.arange(n) * rng.uniform(0.05, 3) + rng.uniform(0, 6)),
    ]
    for values in kinds:
        assert counting(values, np.zeros(n, bool)) is None


@pytest.mark.parametrize("seed", range(100))
def test_clocks_are_always_found(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(150, 2000))
    step = 10.0 ** rng.uniform(-3, 3)
    clock = rng.uniform(0, 1e9) + step * (np.arange(n) + rng.uniform(0, 0.9, n))
    begins = np.zeros(n, bool)
    assert counting(clock, begins) == "rises"
    assert counting(-clock, begins) == "falls"
    clock[rng.random(n) < 0.1] = np.nan
    assert counting(clock, begins) == "rises"
    begins[n // 2] = True
    assert counting(np.arange(n) % (n // 2) * step, begins) == "rises"


def test_named_channels_are_channels(tmp_path):
    frame = pd.DataFrame({"time": np.arange(T), "person": np.arange(T) // 50, **SENSORS})
    path = write_csv(tmp_path, frame)
    for source in (frame, path):
        stream = read_stream(source, channels=["time", "x", "person"])
        assert stream.channels == ("time", "x", "person")
        assert stream.time is None
        assert stream.notes == ()
    stream = Stream(frame, channels=["y", "time"])
    assert stream.channels == ("y", "time")
    np.testing.assert_array_equal(stream.values, frame[["y", "time"]])
    assert Stream(frame, channels=list("abcd")).channels == ("a", "b", "c", "d")


def test_what_the_user_names_comes_first(tmp_path):
    frame = pd.DataFrame({"time": np.arange(T), "k": np.arange(T) / 7, "trial": 0, **SENSORS})
    stream = read_stream(write_csv(tmp_path, frame), time="k", recording="trial")
    assert stream.channels == ("x", "y")
    np.testing.assert_array_equal(stream.time, frame["k"])
    assert "column 'time' is taken for no channel" in stream.notes[0]
    # A frame is often given whole, with one of its columns as the time.
    given = Stream(frame.drop(columns="time"), time=frame["k"])
    assert given.channels == ("x", "y")


def test_a_date_beside_a_clock_is_left_out(tmp_path):
    frame = pd.DataFrame({"date": "2024-05-31", "time": np.arange(T) / 50, **SENSORS})
    stream = read_stream(write_csv(tmp_path, frame))
    assert stream.channels == ("x", "y")
    np.testing.assert_allclose(stream.time, frame["time"])


def test_an_index_that_pandas_wrote(tmp_path):
    frame = pd.DataFrame(SENSORS)
    frame.to_csv(tmp_path / "walk.csv")
    assert read_stream(tmp_path / "walk.csv").channels == ("x", "y")
    frame[::2].to_parquet(tmp_path / "walk.parquet")
    assert read_stream(tmp_path / "walk.parquet").channels == ("x", "y")


def test_only_a_time_leaves_no_channel(tmp_path):
    Path(tmp_path / "walk.csv").write_text("time,id\n1,1\n2,2\n")
    with pytest.raises(InputError, match="no column is left for the channels: by the name column"):
        read_stream(tmp_path / "walk.csv")


@pytest.mark.parametrize(
    "clock", [np.arange(T) % 50, ["noon"] * T, np.arange(T) / 50], ids=["anew", "text", "clear"]
)
def test_known_channels_ignore_what_is_unclear(tmp_path, clock):
    who = [*[None] * 10, *["anna"] * (T - 10)]
    frame = pd.DataFrame({"time": clock, "k": np.arange(T), "person": who, **SENSORS})
    for source in (frame, write_csv(tmp_path, frame)):
        stream = read_channels(source, ("y", "x"))
        assert stream.channels == ("y", "x")
        assert (stream.time is not None) == (clock[1] == 0.02)
        assert stream.recordings is None


def test_a_counter_in_an_array_gives_a_warning():
    values = np.column_stack([SENSORS["x"], np.arange(T) / 50])
    with pytest.warns(UserWarning, match="column 1 of the array: equal steps") as caught:
        stream = Stream(values)
    assert Path(caught[0].filename).name == "test_column_roles.py"
    assert stream.n_channels == 2
    with pytest.warns(UserWarning, match="column 1 of the array"):
        read_stream(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Stream(values, channels=["x", "k"])
        Stream(values[:19])
        read_stream(values, time=1)
        Stream(np.column_stack(list(GENUINE.values())))


def test_roles_by_name():
    none = ["x", "T", "t1", "reaction time", "time_to_contact", "steps", "n", "trial_x", "", "NO2"]
    assert [role_by_name(name) for name in none] == [None] * len(none)
    assert role_by_name(7) is None
    assert role_by_name("__index_level_0__") == "row"


def test_a_switch_that_goes_on_and_off_is_a_sensor():
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 90, size=40)
    switch = np.repeat(np.arange(40) % 2, lengths).astype(float)
    for column in (switch, -switch):
        assert counting(column, np.zeros(len(column), bool)) is None
