"""Tables of spans: what is written comes back, what is wrong is named, and streams get states."""

import gzip
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlat
from mlat.base.errors import DiskError, InputError
from mlat.label import Span, check_spans, read_spans, spans_of, with_spans, write_spans
from mlat.label.label_table import only_of

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".parquet")
HOSTILE = (
    "<b>&amp;</b>",
    'a"b',
    "a,b",
    "a\tb",
    "a\nb",
    "a\r\nb",
    " x ",
    "nan",
    "NA",
    "null",
    "007",
)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def tables(draw):
    """Spans that do not overlap, in a few recordings."""
    spans = []
    for recording in draw(st.lists(texts, min_size=1, max_size=3, unique=True)):
        at = 0
        for wait, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)))):
            at += wait
            spans.append(Span(at, at + length, draw(texts | st.sampled_from(HOSTILE)), recording))
            at += length
    return spans


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from(SUFFIXES))
@example([Span(0, 1, "\x00"), Span(1, 2, "\r")], ".csv")
def test_what_is_written_is_read(tmp_path_factory, spans, suffix):
    path = tmp_path_factory.mktemp("spans") / f"labels{suffix}"
    write_spans(path, spans)
    assert read_spans(path) == sorted(spans, key=lambda s: (s.recording, s.start))


def test_a_table_is_plain_text_and_quotes_only_what_needs_it(tmp_path):
    write_spans(tmp_path / "x.csv", [Span(0, 3, "walk"), Span(3, 9, "up, then down")])
    assert (tmp_path / "x.csv").read_text() == 'start,end,state\n0,3,walk\n3,9,"up, then down"\n'


@pytest.mark.parametrize("state", HOSTILE)
def test_states_with_any_characters_reach_the_stream(state, tmp_path):
    stream = mlat.Stream(np.zeros((6, 1)), channels=["a"])
    write_spans(tmp_path / "l.csv", [Span(1, 3, state), Span(3, 6, "other")])
    labelled = with_spans(stream, read_spans(tmp_path / "l.csv", stream))
    assert labelled.states.tolist() == ["", state, state, "other", "other", "other"]


def test_ten_thousand_states(tmp_path):
    spans = [Span(i, i + 1, f"state {i}") for i in range(10_000)]
    stream = mlat.Stream(np.zeros((10_000, 1)), channels=["a"])
    write_spans(tmp_path / "l.csv", spans)
    labelled = with_spans(stream, read_spans(tmp_path / "l.csv", stream))
    assert len(labelled.classes) == 10_000
    assert spans_of(labelled) == spans


def test_whole_numbers_are_numbered_states():
    stream = mlat.Stream(np.zeros((4, 1)), channels=["a"])
    labelled = with_spans(stream, [Span(0, 2, "3"), Span(3, 4, "0")])
    assert labelled.states.tolist() == [3, 3, -1, 0]
    assert spans_of(labelled) == [Span(0, 2, "3"), Span(3, 4, "0")]
    assert with_spans(stream, [Span(0, 2, "3"), Span(3, 4, "walk")]).states[0] == "3"
    with pytest.raises(InputError, match="stands for no state"):
        with_spans(stream, [Span(0, 2, "3"), Span(3, 4, "-1")])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=20), st.integers(1, 20))
def test_states_of_a_stream_come_back(states, cut):
    recordings = np.arange(len(states)) // cut
    stream = mlat.Stream(np.zeros((len(states), 1)), states, recordings=recordings, channels=["a"])
    bare = stream.with_states([""] * len(states))
    assert with_spans(bare, spans_of(stream)).states.tolist() == states


def test_steps_count_in_their_recording():
    stream = mlat.Stream(np.zeros((7, 1)), recordings=list("aaabbbb"), channels=["x"])
    labelled = with_spans(stream, [Span(1, 3, "u", "a"), Span(0, 2, "v", "b")])
    assert labelled.states.tolist() == ["", "u", "u", "v", "v", "", ""]
    assert with_spans(stream, [Span(2, 4, "u")]).states.tolist() == ["", "", "u", "u", "", "", ""]
    with pytest.raises(InputError, match="overlaps one of another state"):
        with_spans(stream, [Span(2, 4, "u"), Span(0, 2, "v", "b")])
    with pytest.raises(InputError, match="'b' has only 4 steps"):
        with_spans(stream, [Span(0, 5, "v", "b")])


def test_states_of_a_column_stay_where_no_span_is():
    stream = mlat.Stream(np.zeros((4, 1)), ["sit", "sit", "", ""], channels=["x"])
    spans = [Span(1, 3, "a long name")]
    assert with_spans(stream, spans).states.tolist() == ["", "a long name", "a long name", ""]
    kept = with_spans(stream, spans, keep=True)
    assert kept.states.tolist() == ["sit", "a long name", "a long name", ""]
    numbered = mlat.Stream(np.zeros((4, 1)), [1, 1, 2, 2], channels=["x"])
    assert with_spans(numbered, [Span(0, 1, "2")], keep=True).states.tolist() == [2, 1, 2, 2]
    assert with_spans(stream, [Span(0, 1, "2")], keep=True).states.tolist() == ["2", "sit", "", ""]
    with pytest.raises(InputError, match="number all states or name all"):
        with_spans(numbered, spans, keep=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("3,3,a", "line 2 starts at step 3 and ends at 3; the end is the first step after"),
        ("5,3,a", "line 2 starts at step 5 and ends at 3"),
        ("0,4,a\n2,5,b", "line 3 .* overlaps .*line 2 "),
        ("0,9,a\n1,2,a\n3,4,b", "line 4 .* overlaps .*line 2 "),
        ("0,11,a", "line 2 ends at step 11, but the recording has only 10 steps; was it changed"),
        ("-1,3,a", "line 2: start must be the number of a step, from 0 on, not -1"),
        ("0.5,3,a", "line 2: start must be the number of a step, such as 120, not '0.5'; if"),
        ("0,,a", "line 2: end must be .* not nothing"),
        ("0,1e3,a", "line 2: end must be"),
        ("0,99999999999999999999999,a", "line 2: end must be"),
        ("0,3,", "line 2 has no state"),
        ("0,3", "line 2 has 2 fields, the header has 3"),
        ('0,3,"a\n1,2,b', "line 2 has no|quote|line 2"),
    ],
)
def test_what_is_wrong_is_named(rows, message, tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(f"start,end,state\n{rows}\n")
    stream = mlat.Stream(np.zeros((10, 1)), channels=["x"])
    if rows.startswith('0,3,"'):  # an open quote reads on to the end: the state shows it
        assert read_spans(path, stream)[0].state == "a\n1,2,b\n"
        return
    with pytest.raises(InputError, match=message):
        read_spans(path, stream)
    assert path.read_text() == f"start,end,state\n{rows}\n"


def test_tables_that_are_none(tmp_path):
    path = tmp_path / "l.csv"
    for text, message in {
        "": "no table of labels",
        "a,b\n1,2\n": "needs the columns start, end and state .* has 'a', 'b'",
        "start,end,state,start_time,end_time\n": "leave out two",
        "start,start,end,state\n": "two columns 'start'",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_spans(path)
    path.write_bytes(b"start,end,state\n1,2,\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_spans(path)
    (tmp_path / "l.parquet").write_bytes(b"none")
    with pytest.raises(InputError, match="cannot be read"):
        read_spans(tmp_path / "l.parquet")
    (tmp_path / "l.csv.gz").write_bytes(gzip.compress(b"start,end,state\n")[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read_spans(tmp_path / "l.csv.gz")
    with pytest.raises(DiskError, match=r"none\.csv"):
        read_spans(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no known kind"):
        read_spans(tmp_path / "l.txt")


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_a_length_of_time_is_no_number_of_a_step(tmp_path, unit):
    path, start = tmp_path / "l.parquet", pa.array([3], pa.duration(unit))
    pyarrow.parquet.write_table(pa.table({"start": start, "end": [5], "state": ["a"]}), path)
    with pytest.raises(InputError, match="start must be the number of a step"):
        read_spans(path)


def test_an_empty_table_has_no_spans(tmp_path):
    write_spans(tmp_path / "l.csv", [])
    assert read_spans(tmp_path / "l.csv") == []
    stream = mlat.Stream(np.zeros((3, 1)), channels=["x"])
    assert not with_spans(stream, []).labelled.any()


def test_parquet_of_others(tmp_path):
    path = tmp_path / "l.parquet"
    columns = {"start": [0.0, 4.0], "end": [2, 6], "state": [1, 2], "note": ["x", None]}
    pyarrow.parquet.write_table(pa.table(columns), path)
    assert read_spans(path) == [Span(0, 2, "1"), Span(4, 6, "2")]


def test_spans_of_one_state_that_overlap_are_joined():
    assert check_spans([Span(2, 6, "a"), Span(0, 3, "a"), Span(6, 7, "a")]) == [
        Span(0, 6, "a"),
        Span(6, 7, "a"),
    ]


def test_other_recordings_may_be_in_the_table(tmp_path):
    path = tmp_path / "l.csv"
    spans = [Span(0, 3, "u", "a.csv"), Span(0, 99, "v", "b.csv")]
    write_spans(path, spans)
    stream = mlat.Stream(np.zeros((5, 1)), channels=["x"])
    found = read_spans(path, stream, name="a.csv")
    assert found == spans
    assert only_of(found, stream, name="a.csv") == spans[:1]
    with pytest.raises(InputError, match=r"labels the recording 'a.csv', but .* are 'c.csv'"):
        read_spans(path, stream, name="c.csv")


def _times(kind, n):
    if kind == "float":
        return 0.1 * np.arange(n) + 3.7
    if kind == "int":
        return 20 * np.arange(n) + 7
    if kind == "timedelta":
        return (20 * np.arange(n)).astype("timedelta64[ms]")
    return np.datetime64("2024-05-31T12:00", kind) + np.arange(n)


def _write_times(path, spans, times):
    """The time of the first step of each span, and of the first after it or one later."""
    later = {name: np.append(t, t[-1:] + (t[1] - t[0])) for name, t in times.items()}
    table = {
        "start_time": np.array([later[span.recording][span.start] for span in spans]),
        "end_time": np.array([later[span.recording][span.end] for span in spans]),
        "state": [span.state for span in spans],
        "recording": [span.recording for span in spans],
    }
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.table(table), path)
        return
    for name in ("start_time", "end_time"):
        if table[name].dtype.kind == "m":
            table[name] = table[name] / np.timedelta64(1, "s")
    rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join([",".join(table), *rows, ""]))


@pytest.mark.parametrize("kind", ["float", "int", "timedelta", "s", "ms", "ns"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_spans_in_time(kind, suffix, tmp_path):
    time = np.append(_times(kind, 12), _times(kind, 8))
    recordings = ["a"] * 12 + ["b"] * 8
    stream = mlat.Stream(np.zeros((20, 1)), recordings=recordings, time=time, channels=["x"])
    spans = [Span(0, 5, "u", "a"), Span(5, 12, "v", "a"), Span(2, 8, "u", "b")]
    path = tmp_path / f"l{suffix}"
    _write_times(path, spans, {"a": time[:12], "b": time[12:]})
    assert read_spans(path, stream) == spans
    with pytest.raises(InputError, match="the recording has none"):
        read_spans(path)
    with pytest.raises(InputError, match=r"outside the recording, which lasts .* changed"):
        read_spans(path, stream[:17])


def test_times_of_others(tmp_path):
    stream = mlat.Stream(np.zeros((20, 1)), time=_times("s", 20), channels=["x"])
    path = tmp_path / "l.csv"
    head = "start_time,end_time,state\n"
    path.write_text(f"{head}2024-05-31T14:00:05+02:00,2024-05-31 12:00:07.5,u\n")
    assert read_spans(path, stream) == [Span(5, 8, "u")]
    path.write_text(f"{head}5,7,u\n")
    with pytest.raises(InputError, match="a date like"):
        read_spans(path, stream)
    doubled = mlat.Stream.join([stream, stream])
    path.write_text(f"{head}2024-05-31T12:00:05,2024-05-31T12:00:07,u\n")
    with pytest.raises(InputError, match="several recordings; name the recording"):
        read_spans(path, doubled)


def test_a_failed_write_leaves_the_old_table(tmp_path):
    path = tmp_path / "l.csv"
    write_spans(path, [Span(0, 2, "a")])
    with pytest.raises(InputError, match="span 1"):
        write_spans(path, [Span(0, 2, "a"), Span(4, 4, "b")])
    with pytest.raises(InputError, match="UTF-8"):
        write_spans(path, [Span(0, 2, "\ud800")])
    assert read_spans(path) == [Span(0, 2, "a")]
    assert [p.name for p in tmp_path.iterdir()] == ["l.csv"]
    assert set(path.read_text()) <= set(string.printable)


@pytest.mark.parametrize("names", [("walk", "run"), ("3", "0")])
def test_ignored_spans_have_no_state(names):
    stream = mlat.Stream(np.zeros((6, 1)))
    spans = [Span(0, 2, names[0]), Span(2, 4, "(ignore)"), Span(4, 6, names[1])]
    labelled = with_spans(stream, spans)
    assert labelled.labelled.tolist() == [True, True, False, False, True, True]
    assert labelled.states[[0, 4]].astype(str).tolist() == [*names]
    kept = with_spans(labelled, [Span(0, 1, "(ignore)")], keep=True)  # over those of a column
    assert kept.labelled.tolist() == [False, True, False, False, True, True]
