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
    assert "no column 'sensor 1' (--channels)" in line
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


def fitted(file, *options):
    """The channels that mlat fit used, what it said on stderr, and its model."""
    model = file.with_suffix(".mlat")
    out, error = run(
        "fit", file, "--label", "state", "--metric", "euclidean", "-o", model, *options
    )
    return re.search("channels: (.*)", out)[1].split(", "), error, model


def test_a_time_is_no_channel(tmp_path):
    stream = rotating_states(**SENSORS)
    clock = np.arange(len(stream)) * 0.02
    clock[300:] += 1
    file = write_csv(tmp_path / "walk.csv", stream, time=clock)
    channels, said, model = fitted(file)
    assert channels == list(stream.channels)
    assert said == "mlat: walk.csv: column 'time' is taken as the time\n"
    learned = mlat.load(model)
    channels, said, model = fitted(file, "--time", "time")
    assert channels == list(stream.channels)
    assert said == ""
    np.testing.assert_array_equal(learned.windows_.start, mlat.load(model).windows_.start)
    # The commands take the file that the model was learned from, its gap included.
    with_time = run("predict", model, file, "--time", "time")[0]
    out, said = run("predict", model, file)
    assert out == with_time
    taken, ignored, lost = said.splitlines()
    assert taken == "mlat: walk.csv: column 'time' is taken as the time"
    assert "18 before the first full window of 10 steps" in lost
    assert ignored == "mlat: walk.csv: 1 column is ignored: state"
    assert "Accuracy" in run("evaluate", model, file, "--label", "state", "--no-pictures")[0]
    assert fitted(file, "--channels", f"time,{stream.channels[0]}")[0] == ["time", "sensor 1"]


def test_a_counter_is_refused_in_one_line(tmp_path):
    rng = np.random.default_rng(0)
    noise = mlat.Stream(
        rng.normal(size=(800, 3)), np.repeat(list("abcd"), 200), channels=["x", "y", "z"]
    )
    file = write_csv(tmp_path / "noise.csv", noise, k=np.arange(800))
    line = refused("fit", file, "--label", "state", "-o", tmp_path / "m.mlat")
    assert "column 'k' only rises, as a clock or a row number does" in line
    assert "(--time)" in line
    assert fitted(file, "--channels", "x,y,z")[0] == ["x", "y", "z"]
    channels, _, model = fitted(file, "--channels", "k,x,y,z")
    assert channels == ["k", "x", "y", "z"]
    assert "predicted" in run("predict", model, file)[0]  # which needs no option


def test_persons_are_recordings(tmp_path):
    stream = rotating_states(**SENSORS)
    who = np.repeat(["anna", "bert"], len(stream) // 2)
    file = write_csv(tmp_path / "walk.csv", stream, id=np.arange(len(stream)), subject=who)
    channels, said, model = fitted(file)
    assert channels == list(stream.channels)
    assert "column 'subject' is taken as the recording" in said
    assert "column 'id' is taken for no channel" in said
    assert "anna" in run("predict", model, file)[0]


def test_minus_one_is_refused_or_said(tmp_path):
    stream = rotating_states(**SENSORS)
    signs = mlat.Stream(stream.values, np.where(stream.codes % 2, 1, 2), channels=stream.channels)
    file = write_csv(tmp_path / "s.csv", signs)
    file.write_text(re.sub(",2$", ",-1", file.read_text().replace("\r", ""), flags=re.M))
    line = refused("fit", file, "--label", "state", "-o", tmp_path / "m.mlat")
    assert "is -1, which stands for no state" in line
    line = refused("fit", file, "--label", "state", "-o", tmp_path / "m.mlat", "--unlabelled", "-1")
    assert "one state only" in line
