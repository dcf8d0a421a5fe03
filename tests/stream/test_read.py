from __future__ import annotations

import doctest
import gzip
import os
import time as clock
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlat.stream.read
from mlat.errors import InputError
from mlat.stream.read import read_stream
from mlat.stream.stream import Stream
from mlat.stream.write import write_states


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to be in, so that errors name files as short as their names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def test_examples():
    assert doctest.testmod(mlat.stream.read).failed == 0


# --- what is read -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("walk.csv", "ax,az,state\n0.5,1,rest\n,2,\nnan,NA,walk\n"),
        ("walk.csv", "\ufeffax,az,state\r\n0.5,1,rest\r\n,2,\r\nnan,NA,walk\r\n"),
        ("walk.csv", "\n\nax,az,state\n\n0.5,1,rest\n,2,\n\nnan,NA,walk"),
        ("walk.csv", "ax, az, state\n0.5, 1, rest\n , 2, \n nan, NA, walk\n"),
        ("walk.csv", '"ax","az","state"\n"0.5","1","rest"\n"","2",""\n"nan","NA","walk"\n'),
        ("walk.csv", "ax,az,state\r0.5,1,rest\r,2,\rnan,NA,walk\r"),
        ("walk.tsv", "ax\taz\tstate\n0.5\t1\trest\n\t2\t\nnan\tNA\twalk\n"),
        ("WALK.CSV", "ax,az,state\n0.5,1,rest\n,2,\nnan,NA,walk\n"),
        ("walk.csv.gz", gzip.compress(b"ax,az,state\n0.5,1,rest\n,2,\nnan,NA,walk\n", mtime=0)),
        ("walk.tsv.gz", gzip.compress(b"ax\taz\tstate\n0.5\t1\trest\n\t2\t\n\t\twalk\n", mtime=0)),
    ],
)
def test_text_files(folder, name, content):
    stream = read_stream(write(name, content), label="state")
    np.testing.assert_array_equal(stream.values, [[0.5, 1], [np.nan, 2], [np.nan, np.nan]])
    assert stream.channels == ("ax", "az")
    assert stream.states.tolist() == ["rest", "", "walk"]


FRAME = {"x": [1.5, None, 3.0], "n": [1, None, 3], "state": ["rest", None, "walk"]}


def parquet(frame):
    frame.write_parquet("walk.parquet")
    return "walk.parquet"


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.DataFrame(FRAME),
        lambda: pl.DataFrame(FRAME).with_columns(pl.col("state").cast(pl.Categorical)),
        lambda: pl.DataFrame(FRAME).to_arrow(),
        lambda: parquet(pl.DataFrame(FRAME)),
        lambda: parquet(pl.DataFrame(FRAME).with_columns(pl.col("state").cast(pl.Categorical))),
        lambda: parquet(pl.DataFrame(FRAME).with_columns(pl.col("n").cast(pl.Decimal(5, 1)))),
        lambda: pd.DataFrame(FRAME),
        lambda: pd.DataFrame(FRAME).convert_dtypes(),
        lambda: pd.DataFrame(FRAME).astype({"state": "category"}).set_index(pd.Index([7, 7, 7])),
        lambda: np.array([FRAME["x"], FRAME["n"], FRAME["state"]], dtype=object).T,
    ],
    ids=[
        *("polars", "polars categorical", "arrow", "parquet", "parquet categorical"),
        *("parquet decimal", "pandas", "pandas nullable", "pandas categorical", "array"),
    ],
)
def test_frames_tables_and_arrays(folder, make):
    source = make()
    stream = read_stream(source, label=2 if isinstance(source, np.ndarray) else "state")
    np.testing.assert_array_equal(stream.values, [[1.5, 1], [np.nan, np.nan], [3, 3]])
    assert stream.states.tolist() == ["rest", "", "walk"]
    assert stream.channels == (("x0", "x1") if isinstance(source, np.ndarray) else ("x", "n"))


def test_float32_stays_float32(folder):
    frame = pl.DataFrame({"a": [1.0], "b": [2.0]}, schema={"a": pl.Float32, "b": pl.Float32})
    assert read_stream(frame).values.dtype == np.float32
    assert read_stream(parquet(frame)).values.dtype == np.float32


def test_channels_choose_and_order_the_columns(folder):
    path = write("walk.csv", "note,a,b\nhello,1,2\n")
    assert read_stream(path, channels=["b", "a"]).values.tolist() == [[2.0, 1.0]]
    assert read_stream(path, channels="b").channels == ("b",)
    rows = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    stream = read_stream(rows, label=-1, channels=[-2])
    assert stream.values.tolist() == [[2.0], [4.0]]
    assert stream.channels == ("x1",)
    assert stream.states.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("labels", "unlabelled", "states"),
    [
        (["0", "1", "2"], None, [0, 1, 2]),
        (["0", "1.0", "02"], None, [0, 1, 2]),
        (["-1", "", "2"], None, [-1, -1, 2]),
        (["0", "1", "2"], 0, [-1, 1, 2]),
        (["0.0", "1", "2"], [0, 2], [-1, 1, -1]),
        (["none", "1", "2"], "none", [-1, 1, 2]),
        (["0", "run", "walk"], 0, ["", "run", "walk"]),
        (["0", "run", "?"], [0, "?"], ["", "run", ""]),
        (["true", "false", "NA"], None, ["true", "false", ""]),
        (["9007199254740993", "1", "2"], None, [9007199254740993, 1, 2]),
        (["", "", ""], None, ["", "", ""]),
    ],
)
def test_labels(folder, labels, unlabelled, states):
    path = write("walk.csv", "a,s\n" + "".join(f"1,{label}\n" for label in labels))
    stream = read_stream(path, label="s", unlabelled=unlabelled)
    assert stream.states.tolist() == states


@pytest.mark.parametrize("labels", [[0, 1, 2], [0.0, 1.0, 2.0], pl.Series([0, 1, 2])])
def test_unlabelled_in_frames(labels):
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "s": labels})
    assert read_stream(frame, label="s", unlabelled=[0]).states.tolist() == [-1, 1, 2]
    mixed = pd.DataFrame({"a": [1.0, 2.0], "s": ["walk", 0]})
    assert read_stream(mixed, label="s", unlabelled=0).states.tolist() == ["walk", ""]


@pytest.mark.parametrize(
    ("texts", "gap"),
    [
        (["0", "1", "5"], True),
        (["0.1", "0.2", "3e-1"], False),
        (["2024-05-31T12:00:00Z", "2024-05-31T12:00:01Z", "2024-05-31T12:00:09Z"], True),
        (["2024-05-31 12:00:00.250", "2024-05-31 12:00:00.500", "2024-05-31 12:00:00.75"], False),
        (["2024-05-31", "2024-06-01", "2024-06-02"], False),
        (["12:00:01", "12:00:02", "12:00:09"], True),
    ],
)
def test_time(folder, texts, gap):
    path = write("walk.csv", "t,a\n" + "".join(f"{text},1\n" for text in texts))
    stream = read_stream(path, time="t")
    assert stream.channels == ("a",)
    assert len(stream.segments) == 1 + gap


def test_time_of_frames_and_max_gap(folder):
    days = [datetime(2020, 3, day) for day in (1, 2, 3)]
    frame = pl.DataFrame({"t": days, "a": [1.0, 2.0, 3.0]})
    frame = frame.with_columns(pl.col("t").dt.replace_time_zone("Europe/Berlin"))
    for source in (frame, parquet(frame), frame.to_arrow(), frame.to_pandas()):
        assert read_stream(source, time="t").time[0] == np.datetime64("2020-02-29T23:00")
        assert len(read_stream(source, time="t", max_gap=3600).segments) == 3


@pytest.mark.parametrize(
    ("texts", "recordings"),
    [(["1", "1", "2"], [1, 1, 2]), (["1", "1", "2b"], ["1", "1", "2b"]), (["a", "b", "b"], None)],
)
def test_recordings(folder, texts, recordings):
    path = write("walk.csv", "r,a\n" + "".join(f"{text},1\n" for text in texts))
    stream = read_stream(path, recording="r")
    assert stream.recordings.tolist() == (recordings or texts)
    assert len(stream.segments) == 2


def test_an_empty_line_is_a_missing_value_only_in_a_file_of_one_column(folder):
    np.testing.assert_array_equal(
        read_stream(write("one.csv", "a\n1\n\n3\n")).values, [[1.0], [np.nan], [3.0]]
    )
    assert len(read_stream(write("two.csv", "a,b\n1,1\n\n3,3\n"))) == 2


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30
)
@given(st.data())
def test_what_polars_writes_is_read_back(folder, data):
    n = data.draw(st.integers(1, 20))
    cell = st.none() | st.floats(allow_infinity=False, allow_nan=False, width=64)
    columns = data.draw(st.lists(st.lists(cell, min_size=n, max_size=n), min_size=2, max_size=3))
    # A letter before each, or the texts might be numbers; no outer space, which is not kept.
    name = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
    states = data.draw(st.lists(st.none() | name.map("s{}".format), min_size=n, max_size=n))
    frame = pl.DataFrame(
        {f"c{i}": pl.Series(column, dtype=pl.Float64) for i, column in enumerate(columns)}
        | {"s": pl.Series(states, dtype=pl.String)}
    )
    frame.write_csv("walk.csv")
    stream = read_stream("walk.csv", label="s")
    expected = np.array(columns, dtype=float).T
    np.testing.assert_array_equal(stream.values, expected)
    assert stream.states.tolist() == [state or "" for state in states]


def test_a_long_file_is_read_fast(folder):
    n = 200_000
    rows = np.random.default_rng(0).normal(size=(n, 3))
    frame = pl.DataFrame(rows, schema=["x", "y", "z"])
    frame = frame.with_columns(state=pl.Series(np.repeat(["rest", "walk"], n // 2)))
    frame.write_csv("long.csv")
    begin = clock.perf_counter()
    stream = read_stream("long.csv", label="state")
    assert clock.perf_counter() - begin < 2  # many times what it takes
    np.testing.assert_array_equal(stream.values, rows)


# --- what is refused --------------------------------------------------------------------------

TEXT_ERRORS = [
    ("", {}, "walk.csv is empty; it needs a header line and one line per step"),
    ("\n\n", {}, "walk.csv is empty"),
    ("a,b\n", {}, "walk.csv has a header but no steps"),
    ("a,b", {}, "walk.csv has a header but no steps"),
    ("a,b\n1,2\n3\n", {}, "walk.csv, line 3 has 1 field, the header has 2"),
    ("\n\na,b\r\n1,2\r\n\r\n3,4,5\r\n", {}, "walk.csv, line 6 has 3 fields, the header has 2"),
    ("a,b\n1,2\n\n\n3,4,5", {}, "walk.csv, line 5 has 3 fields"),
    ('a,b,c\n1,2,"x\ny"\n1,2\n', {"channels": ["a"]}, "walk.csv, line 4 has 2 fields"),
    ('"a\nz",b\n1,2\n3\n', {}, "walk.csv, line 4 has 1 field"),
    ("a,b\n1,2\n\n3,x\n", {}, "walk.csv, line 4, column 'b': 'x' is not a number; correct it"),
    ("a,s\n1,x\n", {}, "give it as the label, or name the columns to use (channels)"),
    ("a,s\n-,x\n", {"label": "s"}, "'-' is not a number; correct it, or name the columns to use"),
    ('a,b\n1,"2,5"\n', {}, "'2,5' is not a number; write decimals with a point"),
    ("a,b\n1,1_0\n", {}, "'1_0' is not a number"),
    ("a\n1\n\nx\n", {}, "walk.csv, line 4, column 'a': 'x'"),
    ("a,b\n1,2\n\n3,inf\n", {}, "walk.csv, line 4: infinite value at step 1, channel 'b'"),
    ("a,b\n1,2\n3,1e999\n", {}, "walk.csv, line 3: infinite value at step 1, channel 'b'"),
    ("a,State\n1,2\n", {"label": "sate"}, "line 1: no column 'sate' (label); did you mean 'State'"),
    ("a,State\n1,2\n", {"label": "zz"}, "no column 'zz' (label); the columns are a, State"),
    ("a,State\n1,2\n", {"channels": ["b"]}, "no column 'b' (channels)"),
    ("a,s\n1,2\n", {"label": ["x"]}, "label must be the name of a column, not a list"),
    ("a,b,a\n1,2,3\n", {}, "walk.csv, line 1: columns 1 and 3 are both named 'a'"),
    ("a,s\n1,2\n\n3,walk\n", {"label": "s"}, "walk.csv, lines 2 and 4: states mix texts and num"),
    ("a,s\n1,2\n\n3,2.5\n", {"label": "s"}, "walk.csv, line 4: state 2.5 at step 1 is not a whole"),
    (b"a,s\n1,x\n2,\xe9t\xe9\n", {"label": "s"}, "line 3: column 's' is not UTF-8 (byte 0xe9)"),
    (b"a,b\n1,2\n2,\xe9\n", {}, "line 3: column 'b' is not UTF-8 (byte 0xe9)"),
    (b"a,\xe9\n1,x\n", {}, "walk.csv, line 1: the header is not UTF-8 (byte 0xe9)"),
    ("a,b\n1,2\n".encode("utf-16"), {}, "line 1: the header is not UTF-8"),
    ("0.5,1,2\n1,2,3\n", {}, "line 1: numbers where names are expected; add a header line"),
    ("a;b\n1;2\n", {}, "the header 'a;b' looks like several columns"),
    (",a\n0,1\n", {}, "line 1: column 1 has no name"),
    ("a,b\n1,2\n", {"label": "a", "time": "a"}, "column 'a' cannot be both label and time"),
    ("a,b\n1,2\n", {"label": "a", "channels": ["a"]}, "'a' is the label and cannot be a channel"),
    ("a,b\n1,2\n", {"channels": ["a", "a"]}, "column 'a' is named twice in channels"),
    ("a,b\n1,2\n", {"channels": []}, "channels is empty"),
    ("a\n1\n", {"label": "a"}, "no column is left for the values"),
    ("a\n1\n", {"unlabelled": 0}, "unlabelled names entries of the label column"),
    ('a,s\n1,"x\n2,y\n', {"label": "s"}, "walk.csv, line 2, column 's': 'x\\n2,y\\n' goes on over"),
    ("t,a\n1,1\n\nx,2\n", {"time": "t"}, "line 4, column 't': 'x' is not a time written like"),
    ("t,a\n2020-01-01T00:00Z,1\n2020-01-02,2\n", {"time": "t"}, "line 3, column 't': '2020-01-02'"),
    ("t,a\n31.5.2024,1\n", {"time": "t"}, "line 2, column 't': '31.5.2024' is not a time"),
    ("t,a\n1,1\n\n,2\n", {"time": "t"}, "walk.csv, line 4: time is missing at step 1"),
    ("t,a\n,1\n", {"time": "t"}, "walk.csv, line 2: time is missing at step 0"),
    ("t,a\n3,1\n2,2\n", {"time": "t"}, "walk.csv, line 3: time does not increase at step 1"),
    ("r,a\nx,1\n,2\n", {"recording": "r"}, "walk.csv, line 3: the recording is missing at step 1"),
]


@pytest.mark.parametrize(("content", "arguments", "message"), TEXT_ERRORS)
def test_bad_text_files(folder, content, arguments, message):
    with pytest.raises(InputError) as caught:
        read_stream(write("walk.csv", content), **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_is_right_far_into_a_file(folder):
    rows = ["1.25,2.5,rest\n" + "\n" * (i % 3 == 0) for i in range(100_000)]
    rows[90_000] = "1.25,oops,rest\n"
    line = 2 + sum(row.count("\n") for row in rows[:90_000])
    path = write("walk.csv", "a,b,s\n" + "".join(rows))
    with pytest.raises(InputError, match=f"line {line}, column 'b': 'oops'"):
        read_stream(path, label="s")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.csv", None, "nowhere.csv is not there"),
        (".", None, "is a folder"),
        ("walk.txt", "a\n1\n", "walk.txt is of no known kind; its name must end in .csv"),
        ("walk", "a\n1\n", "of no known kind"),
        ("walk.parquet.gz", "", "of no known kind"),
        ("walk.parquet", "a,b\n1,2\n", "walk.parquet cannot be read as Parquet"),
        ("walk.parquet", "", "walk.parquet cannot be read as Parquet"),
        ("walk.csv.gz", "a,b\n1,2\n", "walk.csv.gz cannot be read: Not a gzipped file"),
        ("walk.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "walk.csv.gz cannot be read"),
    ],
)
def test_bad_files(folder, name, content, message):
    if content is not None:
        write(name, content)
    with pytest.raises(InputError, match=message) as caught:
        read_stream(name)
    assert "\n" not in str(caught.value)


def test_bad_parquet(folder):
    path = parquet(pl.DataFrame({"a": [1.0, np.inf], "s": ["x", "y"]}))
    with pytest.raises(InputError, match=r"walk.parquet, column 's' holds .*string, not numbers"):
        read_stream(path)
    with pytest.raises(InputError, match=r"walk.parquet: infinite value at step 1, channel 'a'"):
        read_stream(path, label="s")
    with pytest.raises(InputError, match=r"walk.parquet: no column 't' \(time\)"):
        read_stream(path, time="t")
    with pytest.raises(InputError, match="has columns but no steps"):
        read_stream(parquet(pl.DataFrame({"a": []}, schema={"a": pl.Float64})))


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (5, {}, "cannot be read from int"),
        (pl.LazyFrame({"a": [1.0]}), {}, r"give frame.collect\(\)"),
        ([[1, 2], [3]], {}, "1 channels at step 1 and 2 at step 0"),
        (np.zeros((2, 2)), {"label": 2}, "the array has columns 0 to 1"),
        (np.zeros((2, 2)), {"label": "s"}, "the array has columns 0 to 1"),
        (np.array([[1.0, 0.5]]), {"label": 1}, "state 0.5 at step 0 is not a whole number"),
        (pd.DataFrame({"a": [1], "s": ["x"]}), {}, "channel 's' holds 'x' at step 0"),
        (pd.DataFrame({"a": [1, 2], "s": ["x", 1]}), {"label": "s"}, "mix texts and numbers"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "columns of the frame must differ"),
        (pa.table([[1], [2]], names=["a", "a"]), {}, "columns of the table must differ"),
    ],
)
def test_bad_frames_and_arrays(source, arguments, message):
    with pytest.raises(InputError, match=message):
        read_stream(source, **arguments)


# --- what is written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["out.csv", "out.tsv", "out.csv.gz", "out.tsv.gz", "out.parquet", "OUT.CSV"]
)
@pytest.mark.parametrize("kind", ["named", "numbered", "awkward"])
def test_written_states_are_read_back(folder, name, kind):
    true, predicted = {
        "named": (["a", "", "b"], ["", "a", "b"]),
        "numbered": ([3, -1, 0], [-1, 3, 0]),
        "awkward": (['say "a,b"\t', "", "é"], ["", 'say "a,b"\t', "x"]),
    }[kind]
    stream = Stream(
        np.zeros(3),
        true,
        recordings=["r", "r", "q"],
        time=np.array(["2024-05-31T12:00:00.5", "2024-05-31T12:00:01", "2020"], "M8[ms]"),
    )
    write_states(name, stream, predicted, extra={"distance": [np.nan, 0.25, 0.1]})
    assert os.listdir(folder) == [name]
    back = read_stream(
        name,
        label="predicted",
        recording="recording",
        time="time",
        channels=["step", "distance"],
    )
    text = [str(state).strip() for state in predicted] if kind != "numbered" else predicted
    assert back.states.tolist() == (predicted if "parquet" in name else text)
    np.testing.assert_array_equal(back.values, [[0, np.nan], [1, 0.25], [2, 0.1]])
    assert back.recordings.tolist() == ["r", "r", "q"]
    np.testing.assert_array_equal(back.time, stream.time)
    assert read_stream(name, label="state", channels=["step"]).labelled.tolist() == [1, 0, 1]


def test_a_plain_file_is_plain_to_read(folder):
    stream = Stream([0.0, 1.0], time=[0.5, 1.5])
    write_states("out.csv", stream, ["", "walk"], extra={"distance": [np.nan, 2.0]})
    text = (folder / "out.csv").read_text().replace('"', "")  # Arrow quotes the header
    assert text.splitlines() == ["step,time,predicted,distance", "0,0.5,,", "1,1.5,walk,2"]


def test_no_state_is_an_empty_field_or_a_null(folder):
    stream = Stream([0.0, 1.0], [-1, 7])
    write_states("out.csv", stream, [7, -1])
    assert (folder / "out.csv").read_text().splitlines()[1:] == ["0,,7", "1,7,"]
    write_states("out.parquet", stream, [7, -1])
    assert pl.read_parquet("out.parquet")["predicted"].to_list() == [7, None]
    write_states("out.parquet", stream, ["a", ""])
    assert pl.read_parquet("out.parquet")["predicted"].to_list() == ["a", None]


@pytest.mark.parametrize("time", [[0, 1], [5.5, 6.0], np.array([1, 2], "m8[s]")])
def test_every_kind_of_time_can_be_written(folder, time):
    for name in ("out.csv", "out.parquet"):
        write_states(name, Stream([0.0, 1.0], time=time), [0, 1])
        assert len(read_stream(name, time="time")) == 2


@pytest.mark.parametrize(
    ("name", "predicted", "extra", "message"),
    [
        ("out.txt", ["a", "b"], None, "of no known kind"),
        ("nowhere/out.csv", ["a", "b"], None, "there is no folder"),
        ("out.csv", ["a"], None, r"states must have one entry per step \(2\)"),
        ("out.csv", ["a", 1], None, "mix texts and numbers"),
        ("out.csv", ["a", "b"], {"step": [1, 2]}, "the extra column 'step' has the name"),
        ("out.csv", ["a", "b"], {"d": [1]}, "the extra column 'd' must have one entry per step"),
    ],
)
def test_nothing_is_written_if_anything_is_wrong(folder, name, predicted, extra, message):
    with pytest.raises(InputError, match=message):
        write_states(name, Stream([0.0, 1.0]), predicted, extra=extra)
    assert os.listdir(folder) == []


def test_an_error_while_writing_leaves_the_old_file(folder):
    write("out.parquet", "old")
    awkward = np.array([{"a": 1}, "x"], dtype=object)
    with pytest.raises(pa.ArrowException):
        write_states("out.parquet", Stream([0.0, 1.0]), [0, 1], extra={"note": awkward})
    assert os.listdir(folder) == ["out.parquet"]
    assert (folder / "out.parquet").read_text() == "old"
