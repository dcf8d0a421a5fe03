"""Streams in pieces: joined they are the stream that is read whole, whatever the pieces."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.base.errors import InputError
from mlat.stream.pieces import read_pieces
from mlat.stream.read import read_channels, read_stream

N = 240


def columns_of(seed: int, time: str, label: str, recording: str) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(N, 2)).round(3)
    a = [None if rng.random() < 0.02 else v for v in values[:, 0]]
    elapsed = np.where(rng.random(N) < 0.04, 7, 1) + (time == "jitter") * rng.integers(0, 2, N)
    clock = np.cumsum(elapsed)
    table: dict[str, object] = {"a": a, "b": values[:, 1], "other": ["x"] * N}
    if time in ("whole", "jitter"):
        table["time"] = clock
    elif time == "late decimals":  # the first lines look like whole numbers
        table["time"] = np.where(np.arange(N) < N - 3, clock, clock + 0.5)
    elif time == "dates":
        table["timestamp"] = (clock * 10**6).astype("datetime64[us]")
    elif time == "falls":
        table["time"] = clock[::-1]
    if label == "names":
        table["state"] = [
            ["walk", "rest, or sit", None][i] for i in np.repeat([0, 2, 1, 0], N // 4)
        ]
    elif label == "numbers":
        table["state"] = np.repeat([3, 0, 3, 1], N // 4)
    elif label == "none":
        table["state"] = pa.nulls(N, pa.string())
    if recording in ("one", "two"):
        table["subject"] = np.repeat(["p1", "p2", "p1"], N // 3)
    if recording == "two":
        table["trial"] = np.repeat([1, 2, 1, 2], N // 4)
    elif recording == "mixed up":
        table["session"] = rng.integers(0, 2, N)
    return table


def write(table: dict[str, object], path: Path) -> None:
    arrow = pa.table({k: pa.array(v, from_pandas=True) for k, v in table.items()})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(arrow, path, row_group_size=70)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(arrow, path)
    else:
        pyarrow.csv.write_csv(arrow, path)


def assert_same(pieces, whole) -> None:
    parts = list(pieces)
    assert pieces.n_steps == len(whole) == sum(map(len, parts))
    assert pieces.notes == whole.notes
    assert pieces.channels == whole.channels
    assert pieces.classes.tolist() == whole.classes.tolist()
    assert pieces.no_state == whole.no_state
    for name in ("values", "states", "recordings", "time", "gap_before"):
        expected = getattr(whole, name)
        if expected is None:
            assert all(getattr(part, name) is None for part in parts)
            continue
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype, name
    if whole.time is not None and whole.max_gap is not None:
        assert {part.max_gap for part in parts} == {whole.max_gap}
        assert pieces.time == whole.time.dtype
    for part in parts:
        if part.recordings is not None and part.recordings.dtype.kind == "U":
            assert set(part.recordings) <= set(pieces.recordings)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 99),
    size=st.integers(1, N + 9),
    time=st.sampled_from(["no", "whole", "jitter", "late decimals", "dates", "falls"]),
    label=st.sampled_from(["no", "names", "numbers", "none"]),
    recording=st.sampled_from(["no", "one", "two", "mixed up"]),
    suffix=st.sampled_from([".csv", ".parquet", ".feather"]),
    ask=st.booleans(),
)
def test_pieces_are_the_whole(tmp_path_factory, seed, size, time, label, recording, suffix, ask):
    path = tmp_path_factory.mktemp("pieces") / f"stream{suffix}"
    table = columns_of(seed, time, label, recording)
    write(table, path)
    options = {"label": "state"} if "state" in table else {}
    if ask and "timestamp" in table:
        options |= {"time": "timestamp", "max_gap": 3.0}
    if ask and "subject" in table:
        options |= {"recording": "subject"}
    whole = read_channels(path, ["b", "a"], **options)
    assert_same(read_pieces(path, ["b", "a"], size=size, **options), whole)
    chosen = read_stream(path, channels=["b", "a"], **options)
    assert_same(read_pieces(path, ["b", "a"], named=True, size=size, **options), chosen)


@pytest.mark.parametrize("with_recordings", [False, True])
@pytest.mark.parametrize("size", [7, 1000])
def test_several_files(tmp_path, with_recordings, size):
    for i, suffix in enumerate([".csv", ".parquet", ".csv"]):
        table = columns_of(i, "dates", ["names", "none", "names"][i], "no")
        if with_recordings and i == 1:
            table["subject"] = np.repeat(["p1", "p2"], N // 2)
        write(table, tmp_path / f"{i}{suffix}")
    whole = read_channels(tmp_path, ["a", "b"], label="state")
    assert_same(read_pieces(tmp_path, ["a", "b"], label="state", size=size), whole)


@pytest.mark.parametrize(
    ("suffix", "column", "entries", "options"),
    [
        (".csv", "a", {200: np.inf}, {}),
        (".parquet", "a", {200: np.inf}, {}),
        (".csv", "time", {150: 3}, {"time": "time"}),
        (".parquet", "time", {150: 3}, {"time": "time"}),
        (".csv", "subject", {123: None}, {"recording": "subject"}),
        (".parquet", "subject", {123: None}, {"recording": "subject"}),
        # Texts of a Parquet file are never numbers.
        (".csv", "state", {50: "-1"}, {"label": "state", "unlabelled": "rest"}),
        (".csv", "state", {5: "walk", 100: "7"}, {"label": "state"}),
        (".csv", "state", {5: "7", 100: "007"}, {"label": "state"}),
    ],
)
def test_errors_are_those_of_the_whole(tmp_path, suffix, column, entries, options):
    table = columns_of(0, "whole", "numbers", "one")
    if column == "state":
        table["state"] = list(map(str, table["state"]))
    table[column] = list(table[column])
    for step, entry in entries.items():
        table[column][step] = entry
    write(table, tmp_path / f"x{suffix}")
    with pytest.raises(InputError) as whole:
        read_stream(tmp_path / f"x{suffix}", channels=["a", "b"], **options)
    with pytest.raises(InputError, match=f"^{re.escape(str(whole.value))}$"):
        list(read_pieces(tmp_path / f"x{suffix}", ["a", "b"], named=True, size=11, **options))


def test_a_wrong_line_far_down_is_named(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a,b\n" + "1,2\n" * 999 + "1,two\n" + "1,2\n" * 9)
    with pytest.raises(InputError, match=r"line 1001, column 'b': 'two' is not a number"):
        list(read_pieces(file, ["a", "b"], size=100))
