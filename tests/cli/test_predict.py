"""``--filtered`` and ``--confidence``, in every command that predicts."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from mlat.cli import predict
from mlat.explain.explanation import explain
from mlat.synthetic import rotating_states
from state_streams import lasting

train = rotating_states(**SENSORS)
again = rotating_states(**SENSORS, random_state=1)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a labelled stream of the same sensors."""
    place = tmp_path_factory.mktemp("filtered")
    metric = mlat.MLAT(max_iter=5)
    mlat.StreamClassifier(WIDTH, metric=metric).fit(train).save(place / "walk.mlat")
    write_csv(place / "again.csv", again)
    return place


@pytest.fixture(scope="module")
def steady(models):
    """The model, with a filter that acts."""
    lasting(mlat.load(models / "walk.mlat")).save(models / "steady.mlat")
    return models / "steady.mlat"


def test_predict_filtered(models, steady):
    clf = mlat.load(steady)
    told = {}
    for options in ([], ["--filtered"]):
        out, _ = run("predict", steady, models / "again.csv", *options)
        told[bool(options)] = [row["predicted"] for row in csv.DictReader(out.splitlines())]
    assert told[False] == clf.predict(again).tolist()
    assert told[True] == clf.predict(again, filtered=True).tolist()
    assert told[False] != told[True]


@pytest.mark.parametrize("filtered", [False, True])
def test_predict_with_confidence(models, tmp_path, filtered):
    options = ["--confidence", *(["--filtered"] if filtered else [])]
    where = (models / "walk.mlat", models / "again.csv", *options)
    out, _ = run("predict", *where)
    rows = list(csv.DictReader(out.splitlines()))
    clf = mlat.load(models / "walk.mlat")
    proba = clf.predict_proba(again, filtered=filtered)
    for row, of_state in zip(rows, proba, strict=True):
        if np.isnan(of_state[0]):
            assert (row["predicted"], row["confidence"]) == ("", "")
        else:
            of_told = of_state[clf.classes_.tolist().index(row["predicted"])]
            assert float(row["confidence"]) == pytest.approx(of_told)
    assert len({row["confidence"] for row in rows}) > 100
    run("predict", *where, "-o", tmp_path / "states.csv")
    assert (tmp_path / "states.csv").read_text() == out


def test_no_confidence_in_an_unknown_state(in_folder):
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean", unknown_rate=0.05).fit(train)
    clf.save("m.mlat")
    far = mlat.Stream(again.values + 50, channels=again.channels)
    write_csv(Path("far.csv"), far)
    out, _ = run("predict", "m.mlat", "far.csv", "--confidence")
    assert {(r["predicted"], r["confidence"]) for r in csv.DictReader(out.splitlines())} == {
        ("", "")
    }


def test_evaluate_filtered(models, in_folder):
    where = (models / "walk.mlat", models / "again.csv", "--label", "state", "--filtered")
    out, _ = run("evaluate", *where, "--no-pictures")
    predicted = mlat.load(models / "walk.mlat").predict(again, filtered=True)
    judged = predicted != ""
    assert f"Accuracy {(predicted == again.states)[judged].mean():.1%}: " in out
    out, _ = run("evaluate", *where, "--confidence", "-o", "pictures")
    assert Path("pictures/timeline.png").exists()


def test_explain_filtered(models, steady):
    clf = mlat.load(steady)
    where = (steady, models / "again.csv", "--no-picture", "--step")
    plain, steady = clf.predict(again), clf.predict(again, filtered=True)
    step = int(np.flatnonzero(plain != steady)[0])
    where = (*where, step)
    out, _ = run("explain", *where)
    assert f"Step {step}: predicted {plain[step]}" in out
    out, _ = run("explain", *where, "--filtered")
    assert f"Step {step}: predicted {steady[step]}" in out
    assert "more than the nearest window decided" in out
    found = explain(clf, again, step, predicted=steady[step])
    assert f"Nearest {found.own.state}: at distance {found.own.distances[0]:.4g}" in out
    line = refused("explain", *where[:3], "--step", "2", "--filtered", "--label", "state")
    assert "step 2 ends no complete window" in line


def test_explain_the_first_mistake_of_the_filter(models, steady):
    file, clf = steady, mlat.load(steady)
    steady = clf.predict(again, filtered=True)
    wrong = (steady != "") & (steady != again.states)
    since = np.array(
        [len(set(again.states[max(t - clf.width_ + 1, 0) : t + 1])) for t in range(len(again))]
    )
    expected = int(np.flatnonzero(wrong & (since == 1))[0])
    out, _ = run(
        *("explain", file, models / "again.csv"),
        *("--label", "state", "--filtered", "--no-picture"),
    )
    assert out.startswith(f"Step {expected} is the first mistake away from a switch.\n")


def test_predict_is_what_the_library_predicts(folder):
    out, error = run("predict", folder / "walk.mlat", folder / "again.csv")
    ignored, lost = error.splitlines()
    assert ignored == "mlat: again.csv: 1 column is ignored: state"
    assert lost.startswith(
        f"mlat: again.csv: 7 of {len(again)} steps have no prediction: 7 before the first full "
        "window of 8 steps of a recording or after a gap in time"
    )
    rows = list(csv.DictReader(out.splitlines()))
    predicted = mlat.load(folder / "walk.mlat").predict(again)
    assert [row["predicted"] for row in rows] == predicted.tolist()


def test_predict_scores_where_the_stream_has_states(folder, tmp_path):
    file = tmp_path / "states.csv"
    model, again = folder / "walk.mlat", folder / "again.csv"
    out, error = run("predict", model, again, "--label", "state", "-o", file)
    assert out == ""
    score = mlat.load(model).score(mlat.read_stream(again, label="state"))
    assert f"Accuracy {score:.1%}: " in error
    assert "most often taken for" in error
    assert "predicted →" in error
    assert file.read_text() == run("predict", model, again, "--label", "state")[0]
    counted = [int(n) for n in re.findall(r"│ +(\d+)(?= │)", error.split("Confusions")[1])]
    assert sum(counted) == len(rotating_states(**SENSORS)) - WIDTH + 1


def test_predict_judges_states_the_model_never_saw_as_wrong(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    states = np.where(again.states == "still", "resting", again.states)
    file = write_csv(tmp_path / "s.csv", mlat.Stream(again.values, states, channels=again.channels))
    _, error = run("predict", folder / "walk.mlat", file, "--label", "state")
    assert "The model never saw resting" in error
    assert re.search(r"resting +│ +120 │ +0\.0%", error)


def test_predict_without_a_complete_window(folder, tmp_path):
    short = rotating_states(**SENSORS)[: WIDTH - 1]
    file = write_csv(tmp_path / "s.csv", short)
    out, error = run("predict", folder / "walk.mlat", file, "--label", "state")
    assert error.splitlines() == [
        "mlat: s.csv: 7 of 7 steps have no prediction: no part of the stream has a full window of "
        "8 steps, the longest has 7",
        "No score: no labelled step ends a complete window of 8 steps.",
    ]
    assert all(row["predicted"] == "" for row in csv.DictReader(out.splitlines()))


def with_holes(again):
    """Cells are missing: one of two channels, three in a row, and the first."""
    values = again.values.copy()
    values[0, 1] = values[100, 2] = values[200, 3] = np.nan
    values[300:303, 2] = np.nan
    return mlat.Stream(values, again.states, channels=again.channels)


@pytest.mark.parametrize("off", [[], ["--fill", "off"]])
def test_steps_without_a_prediction_are_told_by_their_reason(folder, tmp_path, monkeypatch, off):
    if not off:  # where hiding cells changes states, none is filled unasked
        monkeypatch.setattr(predict, "HARMLESS", 1.01)
    file = write_csv(tmp_path / "holes.csv", with_holes(again))
    model, out = folder / "walk.mlat", tmp_path / "states.csv"
    lost = f"34 of {len(again)} steps have no prediction: "
    lost += "34 with a missing value in their window (sensor 3 18, sensor 2 8, sensor 4 8)"
    remedy = "; --fill 3 fills gaps of at most so many steps"
    error = run("predict", model, file, "-o", out, *off)[1].splitlines()[-1]
    assert error.startswith(f"mlat: holes.csv: {lost}{remedy}")
    labelled = (model, file, "--label", "state", *off)
    assert f"{lost}{remedy}" in run("evaluate", *labelled, "--no-pictures")[0]
    for options in (["evaluate", *labelled, "--no-pictures"], ["predict", *labelled, "-o", out]):
        told = json.loads(run(*options, "--json")[0])["prediction"]
        assert told["n_without_prediction"] == 34
        assert told["missing_value_by_channel"]["sensor 3"] == 18
    assert "--json goes with -o" in refused("predict", model, file, "--json")


def test_a_cell_or_two_are_filled_unasked_where_that_is_harmless(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "HARMLESS", 0.9)
    model, out = folder / "walk.mlat", tmp_path / "states.csv"
    file = write_csv(tmp_path / "holes.csv", with_holes(again))
    error = run("predict", model, file, "-o", out)[1].splitlines()[-1]
    assert re.search(r": 4 steps filled \(at most 2 in a row; .* 9\d\.\d% of the states", error)
    assert "--fill off fills none); 16 of" in error  # the first cell, and the third of three
    assert "--fill 3 fills gaps" in error
    run("predict", model, file, "-o", tmp_path / "asked.csv", "--fill", "2")
    assert out.read_bytes() == (tmp_path / "asked.csv").read_bytes()
    few = write_csv(tmp_path / "few.csv", with_holes(again)[90:130])  # too few to try it on
    assert "filled (" not in run("predict", model, few, "-o", out)[1]


def test_many_short_gaps_in_time_lead_to_a_rate(folder, tmp_path):
    clock = np.arange(len(again)) * 0.02 + 0.03 * (np.arange(len(again)) // 12)
    file = write_csv(tmp_path / "jitter.csv", again, time=clock)
    out, model = tmp_path / "states.csv", folder / "walk.mlat"
    given = ["predict", model, file, "-o", out, "--time", "time"]
    said = run(*given)[1]
    assert "after a gap in time; --rate HZ resamples an irregular time" in said
    assert f"{WIDTH - 1} of" in run(*given, "--rate", "50", "--max-gap", "0.1")[1]


def test_sensors_with_rates_of_their_own_lead_to_a_rate(folder, tmp_path):
    values = again.values.copy()
    values[::2, :2], values[1::2, 2:] = np.nan, np.nan
    clock = np.arange(len(again)) * 0.02
    file = write_csv(tmp_path / "own.csv", mlat.Stream(values, channels=again.channels), time=clock)
    given = ["predict", folder / "walk.mlat", file, "-o", tmp_path / "states.csv"]
    assert "--rate HZ resamples an irregular time, or sensors with" in run(*given)[1]
    assert "--rate HZ" not in run(*given, "--rate", "50")[1]


@pytest.mark.parametrize("fill", ["3", "0.07s"])
def test_gaps_are_filled_as_in_a_live_session(folder, tmp_path, fill):
    stream = with_holes(again)
    clock = np.arange(len(stream)) * 0.02
    clock[302:] += 1
    file = write_csv(tmp_path / "holes.csv", stream, time=clock)
    model, out = folder / "walk.mlat", tmp_path / "states.csv"
    error = run("predict", model, file, "-o", out, "--fill", fill)[1].splitlines()[-1]
    assert error.startswith(
        f"mlat: holes.csv: 4 steps filled; 16 of {len(stream)} steps have no prediction: 16 with a "
        "missing value in their window (sensor 2 8, sensor 3 8)"
    )
    live = mlat.load(model).live(missing="hold", hold=3, rate=50, order_by="time", far=None)
    expected = [one.state for one in live.push(stream.values, time=clock)]
    with out.open() as rows:
        assert [row["predicted"] for row in csv.DictReader(rows)] == expected
    counted = run("evaluate", model, file, "--label", "state", "--no-pictures", "--fill", fill)[0]
    assert "4 steps filled; 16 of" in counted


@pytest.mark.parametrize("fill", ["0", "1.5", "-1", "x", "0s", "0.001s", "2 s s"])
def test_wrong_lengths_of_gaps_are_refused(folder, tmp_path, fill):
    file = write_csv(tmp_path / "a.csv", again[:20], t=np.arange(20) * 0.02)
    _, error = run("predict", folder / "walk.mlat", file, f"--fill={fill}", status=2)
    assert "--fill" in error.splitlines()[-1]


def test_seconds_need_a_rate(folder):
    _, error = run("predict", folder / "walk.mlat", folder / "again.csv", "--fill=1s", status=2)
    assert "nothing says how long a step is; name the column of time (--time)" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk.csv", "again.csv"], "is not an mlat model"),
        (["none.mlat", "again.csv"], "none.mlat cannot be read"),
        (["walk.mlat", "none.csv"], "none.csv is not there"),
        (["walk.mlat", "again.csv", "-o", "out.txt"], "out.txt is of no known kind"),
        (["walk.mlat", "again.csv", "-o", "no/out.csv"], "there is no folder"),
    ],
)
def test_predict_refuses(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert words in refused("predict", *arguments)
    assert sorted(folder.iterdir()) == before


def test_predict_many_states_without_confusions(in_folder):
    states = np.repeat(np.arange(20), 10)
    values = states[:, None] + np.random.default_rng(0).normal(size=(200, 1)) * 0.1
    write_csv(Path("s.csv"), mlat.Stream(values, states))
    where = ["--label", "state", "--width", "2", "-o", "m.mlat", "--metric", "euclidean"]
    run("fit", "s.csv", *where)
    _, error = run("predict", "m.mlat", "s.csv", "--label", "state")
    assert "By state" in error
    assert "Confusions" not in error


def test_a_state_that_was_never_seen_is_said_to_be_unlike_all(tmp_path):
    rng = np.random.default_rng(0)
    levels = {"sit": 0.0, "stand": 3.0, "lay": -60.0}

    def recording(name, states):
        values = np.repeat([levels[s] for s in states], 60)[:, None]
        values = values + rng.normal(size=(len(values), 3))
        stream = mlat.Stream(values, np.repeat(states, 60), channels=["x", "y", "z"])
        return write_csv(tmp_path / name, stream)

    known = recording("known.csv", ["sit", "stand"] * 3)
    model = tmp_path / "m.mlat"
    run("fit", known, "--label", "state", "-o", model, "--metric", "euclidean")
    out = tmp_path / "states.csv"
    said = run("predict", model, recording("new.csv", ["sit", "lay", "stand"]), "-o", out)[1]
    steps = int(re.search(r"(\d+) steps named although unlike anything", said)[1])
    assert 60 <= steps < 80  # and those after it whose windows hold some of it
    again = recording("again.csv", ["sit", "stand", "sit"])
    assert "unlike" not in run("predict", model, again, "-o", out)[1]
