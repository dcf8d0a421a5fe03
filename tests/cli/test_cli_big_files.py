"""Files in pieces at the command line: the same bytes whatever the pieces, and flat memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlat
import mlat.stream.pieces
import mlat.stream.write
from cli_runs import SENSORS, WIDTH, run, write_csv
from mlat.stream.read import read_channels, read_stream
from mlat.stream.write import write_states
from mlat.synthetic import rotating_states

train = rotating_states(**SENSORS)


def messy(seed: int) -> pa.Table:
    """A labelled stream with gaps, recordings, missing values and names that need quotes."""
    rng = np.random.default_rng(seed)
    stream = rotating_states(**SENSORS, random_state=seed)
    n = len(stream)
    columns = {
        "timestamp": np.cumsum(np.where(rng.random(n) < 0.01, 9, 1)).astype("datetime64[s]"),
        "subject": np.sort(rng.choice(["p1", "p2", "p, 3"], n)),
    }
    for name, column in zip(stream.channels, stream.values.T, strict=True):
        columns[name] = np.where(rng.random(n) < 0.003, np.nan, column)
    columns["state"] = np.where(rng.random(n) < 0.1, "", stream.states)
    return pa.table({name: pa.array(c, from_pandas=True) for name, c in columns.items()})


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean", unknown_rate=0.1)
    clf.fit(train).save(folder / "m.mlat")
    for seed in range(2):
        pyarrow.parquet.write_table(messy(seed), folder / f"{seed}.parquet", row_group_size=77)
        pyarrow.csv.write_csv(messy(seed), folder / f"{seed}.csv")
    return folder


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.integers(3, 700),
    rows=st.integers(50, 900),
    seed=st.integers(0, 1),
    read=st.sampled_from(["csv", "parquet"]),
    written=st.sampled_from(["csv", "tsv.gz", "parquet"]),
    options=st.sampled_from([[], ["--filtered"], ["--confidence", "--label", "state"]]),
    fill=st.sampled_from([[], ["--fill", "off"]]),
)
def test_any_pieces_give_the_same_bytes(
    place, monkeypatch, size, rows, seed, read, written, options, fill
):
    monkeypatch.setattr(mlat.stream.write, "ROWS", rows)
    file, model = place / f"{seed}.{read}", place / "m.mlat"
    told = []
    for of_a_piece, out in ((size, place / f"a.{written}"), (10**6, place / f"b.{written}")):
        monkeypatch.setattr(
            mlat.stream.pieces.read_pieces,
            "__kwdefaults__",
            {**mlat.stream.pieces.read_pieces.__kwdefaults__, "size": of_a_piece},
        )
        told.append(run("predict", model, file, "-o", out, *options, *fill))
    assert (place / f"a.{written}").read_bytes() == (place / f"b.{written}").read_bytes()
    assert told[0] == told[1]
    if not fill:  # short gaps are filled, which the library leaves to others
        return
    # And what the library gives at once.
    clf = mlat.load(model)
    label = "state" if "--label" in options else None
    stream = read_channels(file, clf.channels_, label=label)
    predicted = clf.predict(stream, filtered="--filtered" in options)
    extra = {}
    if "--confidence" in options:
        proba = clf.predict_proba(stream).max(axis=1)
        extra["confidence"] = np.where(predicted == "", np.nan, proba)
    write_states(place / f"c.{written}", stream, predicted, extra=extra)
    assert (place / f"a.{written}").read_bytes() == (place / f"c.{written}").read_bytes()


@pytest.mark.parametrize("size", [83])
def test_evaluate_in_pieces(place, monkeypatch, tmp_path, size):
    told, drawn = [], []
    for of_a_piece in (size, 10**6):
        monkeypatch.setattr(
            mlat.stream.pieces.read_pieces,
            "__kwdefaults__",
            {**mlat.stream.pieces.read_pieces.__kwdefaults__, "size": of_a_piece},
        )
        where = (place / "m.mlat", place / "0.csv", "--label", "state", "--confidence")
        out, _ = run("evaluate", *where, "-o", tmp_path / "pictures")
        told.append(out)
        drawn.append((tmp_path / "pictures" / "timeline.png").read_bytes())
    assert told[0] == told[1]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_only_labelled_steps_are_kept_to_learn_from(tmp_path, suffix):
    stream = rotating_states(**SENSORS)
    n, far = len(stream), 3000
    rng = np.random.default_rng(0)
    table = {
        name: np.concatenate([column, rng.normal(size=far), column])
        for name, column in zip(stream.channels, stream.values.T, strict=True)
    }
    table["state"] = [*stream.states, *[""] * far, *stream.states]
    table["time"] = np.arange(2 * n + far) / 50
    write = pyarrow.csv.write_csv if suffix == "csv" else pyarrow.parquet.write_table
    file = tmp_path / f"long.{suffix}"
    write(pa.table(table), file)
    whole = read_stream(file, label="state")
    part = read_stream(file, label="state", past=400)
    assert part.n_left_out == far - 400
    assert len(part) == len(whole) - part.n_left_out
    assert part.usual_step == whole.usual_step
    assert part.runs.length.tolist() == whole.runs.length.tolist()
    np.testing.assert_array_equal(part.values[-n - 400 :], whole.values[-n - 400 :])
    np.testing.assert_array_equal(part.time[-n - 400 :], whole.time[-n - 400 :])
    options = {"width": WIDTH, "metric": "euclidean", "lift": ["identity", "low_pass"]}
    mlat.StreamClassifier(**options).fit(whole).save(tmp_path / "whole.mlat")
    mlat.StreamClassifier(**options).fit(part).save(tmp_path / "part.mlat")
    assert (tmp_path / "whole.mlat").read_bytes() == (tmp_path / "part.mlat").read_bytes()
    out, _ = run(
        "fit", file, "--label", "state", "-o", tmp_path / "m.mlat", "--metric", "euclidean"
    )
    assert f"{len(whole)} steps of" in out
    assert f"{far} steps without a state" in out


def test_a_counter_is_found_in_a_file_that_is_read_in_parts(tmp_path):
    stream = rotating_states(**SENSORS)
    write_csv(tmp_path / "s.csv", stream)
    text = (tmp_path / "s.csv").read_text().splitlines()
    counted = ["odometer", *(round(0.3 * i + 0.05 * (i % 3), 3) for i in range(len(text) - 1))]
    lines = [f"{line},{entry}" for line, entry in zip(text, counted, strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    with pytest.raises(mlat.base.errors.InputError, match="only rises"):
        read_stream(tmp_path / "s.csv", label="state", past=10)


MEASURE = """
import resource, sys
from pathlib import Path
from mlat.classifier.classifier import PiecePredictor
from mlat.classifier.model_file import load
from mlat.stream.pieces import read_pieces
clf = load(Path(sys.argv[1]))
def go(file):
    predictor = PiecePredictor(clf)
    for piece in read_pieces(file, clf.channels_, label="state", size=4096):
        predictor.push(piece)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(go(sys.argv[2]), go(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in kilobytes")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_file(place, tmp_path, suffix):
    """Of what a file is longer by, memory grows by less than half: whole, it would be twice."""
    small = pa.concat_tables([messy(0)] * 40)
    sizes = {}
    for name, times in (("small", 1), ("large", 30)):
        table = pa.concat_tables([small] * times).drop_columns(["timestamp", "subject"])
        # One part of a file that holds everything is the worst case.
        if suffix == "csv":
            pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
        else:
            plain = {"compression": "none", "use_dictionary": False}  # the rows repeat each other
            file = tmp_path / f"{name}.parquet"
            pyarrow.parquet.write_table(table, file, row_group_size=10**7, **plain)
        sizes[name] = (tmp_path / f"{name}.{suffix}").stat().st_size
    mlat.StreamClassifier(2, metric="euclidean", stride=50).fit(train).save(tmp_path / "m.mlat")
    told = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "m.mlat",
         tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"],
        capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout  # fmt: skip
    before, after = map(int, told.split())
    grown, longer = 1024 * (after - before), sizes["large"] - sizes["small"]
    assert longer > 20e6
    assert grown < longer / 2, (before, after, longer)
