from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from mlat.base.errors import InputError
from mlat.stream.read import read_stream
from mlat.stream.stream import Stream
from mlat.stream.write import write_states, write_stream


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
    Path("out.parquet").write_text("old")
    awkward = np.array([{"a": 1}, "x"], dtype=object)
    with pytest.raises(pa.ArrowException):
        write_states("out.parquet", Stream([0.0, 1.0]), [0, 1], extra={"note": awkward})
    assert os.listdir(folder) == ["out.parquet"]
    assert (folder / "out.parquet").read_text() == "old"


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet"])
@pytest.mark.parametrize("states", [["a", "", 'say "b, c"', "a"], [3, -1, 0, 3]])
@pytest.mark.parametrize("timed", [False, True])
def test_a_stream_with_its_states_is_read_back(folder, name, states, timed):
    time = np.array(["2024-05-31T12:00:00.5", "2024-05-31T12:00:01", "2020", "2021"], "M8[ms]")
    stream = Stream(
        [[0.1, 3], [1 / 3, 2], [np.nan, 2.5], [1e-9, 4]],
        states,
        recordings=["r", "r", "q", "p"],
        time=time if timed else None,
        channels=["x", "y, z"],
        unlabelled=states[1],
    )
    write_stream(name, stream)
    back = read_stream(name, label="state", recording="recording")
    assert back.channels == stream.channels
    np.testing.assert_array_equal(back.values, stream.values)
    assert back.states.tolist() == states
    assert back.recordings.tolist() == ["r", "r", "q", "p"]
    assert (back.time is not None) == timed
    assert os.listdir(folder) == [name]


def test_a_stream_without_states_has_no_column_of_them(folder):
    stream = Stream([[0.5, 2.0], [1.5, 3.0]], channels=["x", "y"])
    write_stream("out.csv", stream)
    back = read_stream("out.csv")
    assert back.channels == ("x", "y")
    np.testing.assert_array_equal(back.values, stream.values)


def test_gaps_that_no_column_shows_become_recordings(folder):
    whole = Stream(np.cos(np.arange(12.0)).reshape(6, 2), list("aabbcc"), channels=["x", "y"])
    part = whole[np.array([0, 1, 4, 5])]
    write_stream("out.csv", part)
    back = read_stream("out.csv", label="state", recording="recording")
    assert [run[:2] for run in back.runs] == [run[:2] for run in part.runs]
    assert len(back.segments) == 2


@pytest.mark.parametrize("state", ["NA", "7", " a", "a\nb"])
def test_states_that_a_text_file_would_change_are_refused(folder, state):
    stream = Stream([0.0, 1.0, 5.0], [state, "b", "b"], channels=["x"])
    with pytest.raises(InputError, match=r"write the stream as \.parquet"):
        write_stream("out.csv", stream)
    write_stream("out.parquet", stream)
    assert read_stream("out.parquet", label="state").states.tolist() == [state, "b", "b"]
    with pytest.raises(InputError, match="'x' has the name of another"):
        write_stream("out.parquet", stream, label="x")
