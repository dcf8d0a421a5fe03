from __future__ import annotations

import doctest
import gzip
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mlat.stream.read
from mlat.base.errors import InputError
from mlat.stream.read import read_stream


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def test_examples():
    assert doctest.testmod(mlat.stream.read).failed == 0


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
        (["007", "08", "9"], None, [7, 8, 9]),
        (["007", "7", "9"], "007", [-1, 7, 9]),
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.csv", None, "nowhere.csv is not there"),
        (".", None, "is a folder"),
        ("walk.txt", "a\n1\n", "walk.txt is of no known kind; its name must end in .csv"),
        ("walk", "a\n1\n", "of no known kind"),
        ("walk.parquet.gz", "", "of no known kind"),
        ("walk.parquet", "a,b\n1,2\n", "walk.parquet cannot be read as .parquet"),
        ("walk.parquet", "", "walk.parquet cannot be read as .parquet"),
        ("walk.csv.gz", "a,b\n1,2\n", "walk.csv.gz cannot be read: Not a gzipped file"),
        ("walk.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "walk.csv.gz cannot be read"),
        ("w\udcff.csv", "a,b\n1,2\n", "cannot be written as UTF-8"),  # the byte FF, to the system
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


@pytest.mark.parametrize("as_parquet", [False, True])
def test_minus_one_in_a_file(folder, as_parquet):
    frame = pl.DataFrame({"a": [1.0, 3.0, 2.0, 5.0], "s": [-1, 1, 1, -1]})
    path = parquet(frame) if as_parquet else write("walk.csv", frame.write_csv())
    with pytest.raises(InputError, match=r"walk.*the state of 2 of 4 steps is -1.*unlabelled=-1"):
        read_stream(path, label="s")
    assert read_stream(path, label="s", unlabelled=-1).states.tolist() == [-1, 1, 1, -1]
    assert read_stream(path, label="s", unlabelled="-1").labelled.tolist()[1:3] == [True, True]


def test_recordings_of_one_number_in_two_spellings_are_two(folder):
    write("walk.csv", "a,rec\n" + "1,7\n2,7\n3,007\n4,007\n")
    stream = read_stream("walk.csv", recording="rec")
    assert stream.recordings.tolist() == ["7", "7", "007", "007"]
    assert np.flatnonzero(stream.gap_before).tolist() == [2]


def test_xarray():
    xarray = pytest.importorskip("xarray")
    values, time = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) / 50
    states = np.repeat(["a", "b"], 20)
    array = xarray.DataArray(
        values, dims=("time", "axis"), coords={"time": time, "axis": ["x", "y"]}
    )
    stream = read_stream(array)
    assert stream.channels == ("x", "y")
    np.testing.assert_array_equal(stream.values, values)
    np.testing.assert_array_equal(stream.time, time)
    of_variables = read_stream(
        array.to_dataset("axis").assign(state=("time", states)), label="state"
    )
    np.testing.assert_array_equal(of_variables.values, values)
    assert of_variables.states.tolist() == states.tolist()
    assert read_stream(array.drop_vars("time")).time is None
    with pytest.raises(InputError, match="dimensions trial, time, axis"):
        read_stream(array.expand_dims("trial"))


def test_groups_are_a_column_or_the_files(tmp_path):
    rows = "x,who,state\n1,ann,a\n2,ann,a\n3,bob,b\n"
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(rows)
    stream = read_stream(tmp_path / "one.csv", label="state", group="who")
    assert stream.channels == ("x",)
    assert stream.groups.tolist() == ["ann", "ann", "bob"]
    assert stream.gap_before.tolist() == [False, False, True]
    both = read_stream(
        [tmp_path / "one.csv", tmp_path / "two.csv"],
        label="state",
        group="file",
        channels=["x"],
    )
    assert both.groups.tolist() == ["one.csv"] * 3 + ["two.csv"] * 3
    with pytest.raises(InputError, match="several files"):
        read_stream(tmp_path / "one.csv", group="file", channels=["x"])
    with pytest.raises(InputError, match="no column 'whom'"):
        read_stream(tmp_path / "one.csv", group="whom", channels=["x"])


def test_groups_of_a_stream_at_another_rate(tmp_path):
    file = tmp_path / "one.csv"
    file.write_text("time,x,who\n" + "".join(f"{i / 10},{i},{'ab'[i > 4]}\n" for i in range(10)))
    stream = read_stream(file, time="time", group="who", rate=20)
    assert set(stream.groups[:9]) == {"a"}
    assert set(stream.groups[9:]) == {"b"}
