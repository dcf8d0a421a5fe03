from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlat.base.errors import InputError
from mlat.stream.pieces import read_pieces
from mlat.stream.read import read_stream


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


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
    ("a,s\n1,x\n", {}, "give it as the label (label), or name the columns to use (channels)"),
    ("a,s\n-,x\n", {"label": "s"}, "'-' is not a number; correct it, or name the columns to use"),
    ('a,b\n1.5,"2,5"\n', {}, "'2,5' is not a number; write decimals with a point"),
    ("a,b\n1,1_0\n", {}, "'1_0' is not a number"),
    ("a\n1\n\nx\n", {}, "walk.csv, line 4, column 'a': 'x'"),
    ("a,b\n1,2\n\n3,inf\n", {}, "walk.csv, line 4: infinite value at step 1, channel 'b'"),
    ("a,b\n1,2\n3,1e999\n", {}, "walk.csv, line 3: infinite value at step 1, channel 'b'"),
    ("a,State\n1,2\n", {"label": "sate"}, "line 1: no column 'sate' (label); did you mean 'State'"),
    ('"a\nb",c\n1,2\n', {"label": "state"}, r"the columns are 'a\nb', c"),
    ("a,State\n1,2\n", {"label": "zz"}, "no column 'zz' (label); the columns are a, State"),
    ("a,State\n1,2\n", {"channels": ["b"]}, "no column 'b' (channels)"),
    ("a,s\n1,2\n", {"label": ["x"]}, "label must be the name of a column, not a list"),
    ("a,b,a\n1,2,3\n", {}, "walk.csv, line 1: columns 1 and 3 are both named 'a'"),
    ("a,s\n1,2\n\n3,walk\n", {"label": "s"}, "walk.csv, lines 2 and 4: states mix texts and num"),
    ("a,s\n1,7\n3,8\n3,007\n", {"label": "s"}, "lines 2 and 4: states 7 at step 0 and 007 at s"),
    ("a,s\n1,2\n\n3,2.5\n", {"label": "s"}, "walk.csv, line 4: state 2.5 at step 1 is not a whole"),
    (b"a,s\n1,x\n2,\xe9t\xe9\n", {"label": "s"}, "line 3: column 's' is not UTF-8 (byte 0xe9)"),
    (b"a,b\n1,2\n2,\xe9\n", {}, "line 3: column 'b' is not UTF-8 (byte 0xe9)"),
    (b"a,\xe9\n1,x\n", {}, "walk.csv, line 1: the header is not UTF-8 (byte 0xe9)"),
    ("a,b\n1,2\n".encode("utf-16"), {}, "line 1: the header is not UTF-8"),
    ("a;b\n1;2\n", {"sep": ","}, "the header 'a;b' looks like several columns"),
    ("a,\n0,1\n", {}, "line 1: column 2 has no name"),
    ("a,b\n1,2\n", {"label": "a", "time": "a"}, "column 'a' cannot be both label and time"),
    ("a,b\n1,2\n", {"label": "a", "channels": ["a"]}, "'a' is the label and cannot be a channel"),
    ("a,b\n1,2\n", {"channels": ["a", "a"]}, "column 'a' is named twice in channels"),
    ("a,b\n1,2\n", {"channels": []}, "channels is empty"),
    ("a\n1\n", {"label": "a"}, "no column is left for the values"),
    ("a\n1\n", {"unlabelled": 0}, "unlabelled names entries of the label column"),
    ('a,s\n1,"x\n2,y\n', {"label": "s"}, "walk.csv, line 2, column 's': 'x\\n2,y\\n' goes on over"),
    ("t,a\n1,1\n\nx,2\n", {"time": "t"}, "line 4, column 't': 'x' is not a time written like"),
    ("t,a\n2020-01-01T00:00Z,1\n2020-01-02,2\n", {"time": "t"}, "line 3, column 't': '2020-01-02'"),
    ("t,a\n5/31/2024,1\n", {"time": "t"}, "line 2, column 't': '5/31/2024' is not a time"),
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


EXPORTED = """Zeit;ax;ay;Zustand
30.04.2024 12:00:00,00;0,5;-1;rest
30.04.2024 12:00:00,02;1,25;2;rest
3.5.2024 12:00:00,04;-0,5;3;walk
"""


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_table_program_exports_is_recognised_and_said(folder, whole):
    file = write("walk.csv", EXPORTED)
    options = {"channels": ["ax", "ay"], "label": "Zustand", "time": "Zeit"}
    if whole:
        stream = read_stream(file, **options)
    else:
        (stream,) = read_pieces(file, options.pop("channels"), named=True, **options)
    np.testing.assert_array_equal(stream.values, [[0.5, -1], [1.25, 2], [-0.5, 3]])
    assert stream.states.tolist() == ["rest", "rest", "walk"]
    dates = ["2024-04-30T12:00:00.00", "2024-04-30T12:00:00.02", "2024-05-03T12:00:00.04"]
    np.testing.assert_array_equal(stream.time, np.array(dates, dtype="datetime64[ns]"))
    said = " ".join(stream.notes)
    assert "separated by a semicolon" in said
    assert "decimals are written with a comma" in said


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("day", ["30.04.2024", "2024-04-30"])
def test_a_date_beside_a_time_of_day(folder, day, whole):
    rows = "".join(f"{day},12:00:0{t / 2:.1f},{t},a\n" for t in range(4))
    file = write("walk.csv", f"date,time,x,state\n{rows}")
    if whole:
        stream = read_stream(file, label="state")
    else:
        (stream,) = read_pieces(file, ["x"], named=True, label="state", time="time")
    np.testing.assert_array_equal(stream.time, 12 * 3600 + np.arange(4) / 2)
    assert stream.channels == ("x",)


def test_a_time_of_another_name_is_told_from_a_wrong_number(folder):
    file = write("walk.csv", EXPORTED)
    with pytest.raises(InputError, match=r"column 'Zeit'.* say that it is the time \(time\)"):
        read_stream(file, label="Zustand")


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("0.5,1,rest\n1.5,2,rest\n-1,3,walk\n", "2"),
        ("1,5\n7,9\n2,5\n", None),
        ("0,5;1;rest\n1,5;2;walk\n", "2"),
    ],
)
def test_a_file_without_a_header(folder, content, label):
    stream = read_stream(write("walk.csv", content), label=label)
    assert len(stream) == content.count("\n")
    assert stream.channels == ("0", "1")
    assert any("no header line" in note for note in stream.notes)


def test_names_that_are_numbers_are_a_header(folder):
    stream = read_stream(write("walk.csv", "0,1\n0.5,3\n1.5,2\n"))
    assert len(stream) == 2
    assert not stream.notes
