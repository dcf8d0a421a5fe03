from __future__ import annotations

import time
import warnings
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mlat.base.errors import InputError
from mlat.stream.conversion import as_states, distinct
from mlat.stream.stream import Stream

TEXTS = {
    "list": ["b", None, "a"],
    "list with NaN": ["b", float("nan"), "a"],
    "list with empty text": ["b", "", "a"],
    "array": np.array(["b", "", "a"]),
    "object array": np.array(["b", None, "a"], dtype=object),
    "masked": np.ma.array(["b", "?", "a"], mask=[False, True, False]),
    "pandas": pd.Series(["b", None, "a"]),
    "pandas string": pd.Series(["b", None, "a"], dtype="string"),
    "pandas categorical": pd.Series(["b", None, "a"], dtype="category"),
    "pandas Categorical": pd.Categorical(["b", None, "a"]),
    "polars": pl.Series(["b", None, "a"]),
    "polars categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
    "polars enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a"])),
}


if hasattr(np.dtypes, "StringDType"):  # numpy 2
    TEXTS["StringDType"] = np.array(["b", "", "a"], dtype=np.dtypes.StringDType())
    TEXTS["StringDType with None"] = np.array(
        ["b", None, "a"], dtype=np.dtypes.StringDType(na_object=None)
    )


NUMBERS = {
    "list": [1, None, 0],
    "list with empty text": [1, "", 0],
    "ints": np.array([1, -1, 0], dtype=np.int8),
    "floats": [1.0, np.nan, 0.0],
    "float array": np.array([1.0, np.nan, 0.0]),
    "object array": np.array([1, None, 0], dtype=object),
    "masked": np.ma.array([1, 5, 0], mask=[False, True, False]),
    "bools": [True, None, False],
    "pandas Int64": pd.Series([1, None, 0], dtype="Int64"),
    "pandas boolean": pd.Series([True, None, False], dtype="boolean"),
    "polars": pl.Series([1, None, 0]),
    "polars boolean": pl.Series([True, None, False]),
}


@pytest.mark.parametrize("states", TEXTS.values(), ids=TEXTS)
def test_named_states(states):
    stream = Stream([0.0, 1.0, 2.0], states)
    assert stream.states.dtype.kind == "U"
    assert stream.states.tolist() == ["b", "", "a"]
    assert stream.classes.tolist() == ["a", "b"]
    assert stream.codes.tolist() == [1, -1, 0]
    assert stream.no_state == ""


@pytest.mark.parametrize("states", NUMBERS.values(), ids=NUMBERS)
def test_numbered_states(states):
    stream = Stream([0.0, 1.0, 2.0], states)
    assert stream.states.dtype == np.int64
    assert stream.states.tolist() == [1, -1, 0]
    assert stream.labelled.tolist() == [True, False, True]
    assert stream.no_state == -1


def test_negative_numbers_other_than_minus_one_are_states():
    stream = Stream([0.0, 1.0, 2.0, 3.0], [-5, -1, 3, -5], unlabelled=-1)
    assert stream.classes.tolist() == [-5, 3]
    assert stream.codes.tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize("states", [None, [None] * 3, ["", "", ""], [np.nan] * 3, [-1, -1, -1]])
def test_a_stream_without_states(states):
    stream = Stream([0.0, 1.0, 2.0], states)
    assert not stream.labelled.any()
    assert len(stream.runs) == 0
    assert len(stream.classes) == 0
    assert list(stream.segments) == [(0, 3, -1)]
    assert "states: none" in repr(stream)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (["a", 1, "b"], "mix texts and numbers: 'a' at step 0, 1 at step 1"),
        ([0, 2.5, 1], "state 2.5 at step 1 is not a whole number"),
        ([0, np.inf, 1], "state inf at step 1 is not a whole number"),
        ([0, 2**70, 1], "at step 1 is not a whole number"),
        (np.array([0, 2**64 - 1, 1], dtype=np.uint64), "at step 1 is not a whole number"),
        ([datetime(2020, 1, 1)] * 3, "at step 0 is neither text nor a whole number"),
        (np.array([1, {}, 2], dtype=object), "texts or whole numbers"),
        (np.array([b"a", b"b", b"c"]), r"decode them with states.astype\(str\)"),
        (["a", "b"], r"one entry per step \(3\), not \(2,\)"),
        ([["a"], ["b"], ["c"]], r"one entry per step \(3\), not \(3, 1\)"),
    ],
)
def test_bad_states(states, message):
    with pytest.raises(InputError, match=message):
        Stream([0.0, 1.0, 2.0], states)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_kept_and_not_copied(dtype):
    values = np.zeros((4, 2), dtype)
    values.flags.writeable = False
    stream = Stream(values, np.array(["a", "a", "b", "b"]))
    assert stream.values is values
    assert len(stream.runs) == 2


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [None, 4]],
        np.array([[1, 2], [None, 4]], dtype=object),
        np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]]),
        pd.DataFrame({"x0": pd.Series([1, None], dtype="Int64"), "x1": [2, 4]}),
        pd.DataFrame({"x0": pd.Series([1, None], dtype="Float64"), "x1": [2.0, 4.0]}),
        pl.DataFrame({"x0": [1, None], "x1": [2.0, 4.0]}),
    ],
    ids=["list", "objects", "masked", "pandas Int64", "pandas Float64", "polars"],
)
def test_missing_values(values):
    stream = Stream(values)
    np.testing.assert_array_equal(stream.values, [[1.0, 2.0], [np.nan, 4.0]])
    assert stream.values.dtype == np.float64
    assert stream.missing.tolist() == [False, True]
    assert stream.channels == ("x0", "x1")


def test_shapes_and_types_of_values():
    assert Stream([1, 2, 3]).values.shape == (3, 1)
    assert Stream(np.arange(4, dtype=np.int8).reshape(2, 2)).values.dtype == np.float64
    assert Stream(np.array([True, False])).values.tolist() == [[1.0], [0.0]]
    assert Stream(np.arange(3.0).astype(">f8")).values.dtype == np.float64
    assert Stream(pl.DataFrame({"a": [1.0]}, schema={"a": pl.Float32})).values.dtype == np.float32


def test_a_frame_names_the_channels_unless_names_are_given():
    frame = pd.DataFrame({"left": [1.0], "right": [2.0]})
    assert Stream(frame).channels == ("left", "right")
    assert Stream(frame, channels=["a", "b"]).channels == ("a", "b")
    assert Stream([1.0], channels="only").channels == ("only",)


@pytest.mark.parametrize("values", [[], np.empty((0, 3))])
def test_an_empty_stream(values):
    stream = Stream(values, [], recordings=[], time=[])
    assert len(stream) == len(stream.runs) == len(stream.segments) == len(stream.classes) == 0
    assert len(stream[0:0]) == 0
    assert "0 steps" in repr(stream)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (5.0, r"shape \(steps, channels\), not \(\)"),
        (np.zeros((2, 0)), r"shape=\(2, 0\)"),
        (np.zeros((2, 2, 2)), r"not \(2, 2, 2\)"),
        (pd.DataFrame(index=[0, 1]), "no columns"),
        ([[1, 2], [1, 2], [3]], "1 channels at step 2 and 2 at step 0"),
        (np.array([[1, 2], [3]], dtype=object), "1 channels at step 1 and 2 at step 0"),
        ([[1, 2], [3, "x"]], "channel 'x1' holds 'x' at step 1, which is not a number"),
        ([["1.5"]], "channel 'x0' holds '1.5' at step 0"),
        (np.array(["1.5"]), "must be numbers, not <U3"),
        (np.array([1j]), "Complex data not supported: values are complex128"),
        (pd.DataFrame({"a": [1], "s": ["x"]}), "channel 's' holds 'x' at step 0"),
        (pl.DataFrame({"a": [1], "s": ["x"]}), "channel 's' holds 'x' at step 0"),
        (pd.DataFrame({"d": pd.date_range("2020", periods=2)}), "channel 'd' holds datetime64"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' is both number 1 and number 2"),
        ([[0.0, 1.0], [0.0, -np.inf]], "infinite value at step 1, channel 'x1'"),
    ],
)
def test_bad_values(values, message):
    with pytest.raises(InputError, match=message):
        Stream(values)


@pytest.mark.parametrize(
    ("channels", "message"),
    [(["a"], "1 channel names for 2 channels"), (["a", "a"], "channel names must differ")],
)
def test_bad_channels(channels, message):
    with pytest.raises(InputError, match=message):
        Stream([[1.0, 2.0]], channels=channels)


@pytest.mark.parametrize(
    "recordings",
    [
        [1, 1, 2],
        ["a", "a", "b"],
        ["a", "a", 1],
        [0.5, 0.5, 1.5],
        pd.Categorical(["a", "a", "b"]),
        pl.Series(["a", "a", "b"]),
        np.array(["2020", "2020", "2021"], dtype="datetime64[Y]"),
    ],
)
def test_a_change_of_recording_breaks_a_run(recordings):
    assert list(Stream([0.0, 1.0, 2.0], [7] * 3, recordings=recordings).runs) == [
        (0, 2, 0),
        (2, 3, 0),
    ]


@pytest.mark.parametrize(
    "recordings",
    [["a", None, "a"], [1.0, np.nan, 1.0], np.array(["2020", "NaT", "2021"], dtype="M8[ns]")],
)
def test_a_missing_recording(recordings):
    with pytest.raises(InputError, match="recording is missing at step 1"):
        Stream([0.0, 1.0, 2.0], recordings=recordings)


DAYS = [datetime(2020, 3, day) for day in (1, 2, 3, 9)]


TIMES = {
    "ints": np.array([1, 2, 3, 9]) * 86400,
    "small ints": np.array([-128, -64, 0, 127], dtype=np.int8),
    "unsigned": np.array([1, 2, 3, 9], dtype=np.uint16),
    "floats": [0.1, 0.2, 0.3, 0.9],
    "datetimes": DAYS,
    "datetimes with zone": [day.replace(tzinfo=UTC) for day in DAYS],
    "dates": [day.date() for day in DAYS],
    "clock": [datetime(2020, 1, 1, hour).time() for hour in (1, 2, 3, 9)],
    "timedeltas": [day - DAYS[0] for day in DAYS],
    "datetime64": np.array(DAYS, dtype="datetime64[ns]"),
    "months": np.array(["2020-01", "2020-02", "2020-03", "2020-09"], dtype="datetime64[M]"),
    "pandas": pd.Series(DAYS),
    "pandas with zone": pd.Series(DAYS).dt.tz_localize("Europe/Berlin"),
    "pandas index with zone": pd.DatetimeIndex(DAYS, tz="Europe/Berlin"),
    "polars": pl.Series(DAYS),
    "polars with zone": pl.Series(DAYS).dt.replace_time_zone("Europe/Berlin"),
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
def test_a_gap_in_time_breaks_a_run(time):
    stream = Stream([0.0] * 4, ["a"] * 4, time=time)
    assert stream.time.dtype.kind in "ifMm"
    assert list(stream.runs) == [(0, 3, 0), (3, 4, 0)]


def test_time_with_a_zone_is_kept_in_utc():
    berlin = Stream([0.0] * 4, time=TIMES["pandas with zone"]).time
    assert berlin[0] == np.datetime64("2020-02-29T23:00")


@pytest.mark.parametrize("as_object", [False, True])
def test_names_that_no_file_can_hold_are_refused(as_object):
    half = "wa\ud800lk"  # half of a surrogate pair
    states = np.array(["rest", half], dtype=object if as_object else None)
    with pytest.raises(InputError, match=r"state.*step 1.*cannot be written as UTF-8"):
        Stream([[0.0], [1.0]], states)
    with pytest.raises(InputError, match=r"channel name .* cannot be written as UTF-8"):
        Stream([[0.0], [1.0]], channels=[half])
    with pytest.raises(InputError, match=r"recording.*step 0.*cannot be written as UTF-8"):
        Stream([[0.0], [1.0]], recordings=np.array([half, half], states.dtype))


AS_NUMBERS = {
    "ints": np.array,
    "floats": lambda states: np.array(states, float),
    "list": list,
    "objects": lambda states: np.array([*states[:-1], None], dtype=object),
    "pandas": pd.Series,
    "polars": pl.Series,
}


@pytest.mark.parametrize("make", AS_NUMBERS.values(), ids=AS_NUMBERS)
def test_minus_one_is_not_dropped_in_silence(make):
    values = np.zeros(6)
    for states in ([-1, -1, 1, 1, -1, 1], [-2, -1, 0, 1, 2, 2]):
        with pytest.raises(InputError, match=r"is -1, which stands for no state.*unlabelled=-1"):
            Stream(values, make(states))
        assert not Stream(values, make(states), unlabelled=-1).labelled[1]
    with pytest.warns(UserWarning, match="the state of 2 of 6 steps is -1, and they are taken as"):
        stream = Stream(values, make([0, 1, -1, -1, 0, 1]))
    assert stream.states.tolist()[:5] == [0, 1, -1, -1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = Stream(values, make([0, 1, -1, -1, 0, 1]), unlabelled=[-1])
        assert said.states.tolist() == stream.states.tolist()
        assert not Stream(values, make([-1] * 6)).labelled.any()
    # Another entry means "no state", so -1 must be one.
    with pytest.raises(InputError, match=r"number the states from 0, or name them$"):
        Stream(values, make([-1, -1, 0, 0, 2, 2]), unlabelled=0)


@pytest.mark.parametrize("make", AS_NUMBERS.values(), ids=AS_NUMBERS)
def test_entries_that_mean_no_state(make):
    stream = Stream(np.zeros(5), make([0, 9, 9, 3, 3]), unlabelled=[0, 9])
    assert stream.labelled.tolist()[:4] == [False, False, False, True]
    named = Stream(np.zeros(3), ["?", "rest", "-1"], unlabelled="?")
    assert named.states.tolist() == ["", "rest", "-1"]
    assert Stream(
        np.zeros(3), np.array(["?", "a", "b"]), unlabelled=["?", "b"]
    ).states.tolist() == [
        "",
        "a",
        "",
    ]


def test_very_many_names_are_compared_at_once():
    names = [f"c{i}" for i in range(100_000)]
    began = time.monotonic()
    distinct(names, "channel names")
    assert time.monotonic() - began < 5  # each with all before it: more than a minute
    with pytest.raises(InputError, match="'c7' is both number 8 and number 100001"):
        distinct([*names, "c7"], "channel names")


def test_states_that_are_booleans_become_numbers_and_it_is_said():
    with pytest.warns(UserWarning, match="become 0 and 1.*EveryStep predicts booleans"):
        states = as_states(np.array([True, False]), 2)
    assert states.tolist() == [1, 0]
