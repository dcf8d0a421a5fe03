"""Which column is what, for every command that reads a stream."""

from __future__ import annotations

import re

import numpy as np

import mlat
from cli_runs import SENSORS, refused, run, write_csv
from mlat.synthetic import rotating_states


def test_fit_reads_recordings_time_and_unlabelled(tmp_path):
    stream = rotating_states(**SENSORS)
    steps = np.arange(len(stream))
    file = write_csv(tmp_path / "s.csv", stream, t=steps + 5.0 * (steps >= 30), rec=steps // 240)
    model = tmp_path / "m.mlat"
    where = ["--label", "state", "--time", "t", "--recording", "rec", "-o", model]
    where += ["--metric", "euclidean"]
    out, _ = run("fit", file, *where, "--unlabelled", "fast")
    assert "of 4 channels" in out
    assert "120 steps without a state" in out
    assert re.search(r"forwards +│ +3 ", out)  # the gap in time parts a run
    assert mlat.load(model).classes_.tolist() == ["backwards", "forwards", "still"]
    assert re.search(r"forwards +│ +2 ", run("fit", file, *where, "--max-gap", "7")[0])


def test_predict_chooses_columns_by_the_model(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    turned = mlat.Stream(again.values[:, ::-1], again.states, channels=again.channels[::-1])
    notes = ["x"] * len(again)
    file = write_csv(tmp_path / "s.csv", turned, note=notes)
    expected = run("predict", folder / "walk.mlat", folder / "again.csv")[0]
    assert run("predict", folder / "walk.mlat", file)[0] == expected


def test_predict_with_other_names(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    renamed = mlat.Stream(again.values, again.states, channels=list("abcd"))
    file = write_csv(tmp_path / "s.csv", renamed)
    expected = run("predict", folder / "walk.mlat", folder / "again.csv")[0]
    assert run("predict", folder / "walk.mlat", file, "--channels", "a,b,c,d")[0] == expected
    line = refused("predict", folder / "walk.mlat", file)
    assert "no column 'sensor 1' (channels)" in line
    line = refused("predict", folder / "walk.mlat", file, "--channels", "a,b")
    assert "--channels names 2 columns" in line
    assert "learned on 4 channels: sensor 1, sensor 2" in line


def test_predict_refuses_numbers_for_names(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    file = write_csv(
        tmp_path / "s.csv", mlat.Stream(again.values, again.codes, channels=again.channels)
    )
    line = refused("predict", folder / "walk.mlat", file, "--label", "state")
    assert "the model's states are names: backwards, fast" in line
