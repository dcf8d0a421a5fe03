"""``--json``: what the commands say, for programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, run, write_csv
from mlat.explain import count_confusions
from mlat.synthetic import rotating_states

again = rotating_states(**SENSORS, random_state=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("json")
    train = rotating_states(**SENSORS)
    write_csv(place / "walk.csv", train)
    write_csv(place / "again.csv", again)
    mlat.StreamClassifier(WIDTH, metric=mlat.MLAT(max_iter=5)).fit(train).save(place / "walk.mlat")
    return place


def told(*arguments):
    out, error = run(*arguments, "--json")
    return json.loads(out), error


def test_evaluate(folder):
    model = folder / "walk.mlat"
    found, error = told(
        *("evaluate", model, folder / "again.csv", "--label", "state", "--no-pictures")
    )
    assert error == ""
    clf = mlat.load(model)
    expected = count_confusions(
        again, clf.predict(again), known=clf.classes_, complete=clf.ends_window(again)
    )
    assert found["accuracy"] == clf.score(again)
    assert found["balanced_accuracy"] == expected.balanced_accuracy
    assert found["guessing"] == 1 / len(again.classes)
    assert found["verdict"] == expected.verdict()
    assert [state["recall"] for state in found["states"]] == expected.recall.tolist()
    assert found["confusions"]["counts"] == expected.counts.tolist()


@pytest.mark.parametrize("metric", ["mlat", "euclidean", "auto"])
def test_fit(folder, in_folder, metric):
    found, _ = told(
        *("fit", folder / "walk.csv", "--label", "state", "--width", WIDTH),
        *("--metric", metric, "-o", in_folder / "walk.mlat"),
    )
    train = rotating_states(**SENSORS)
    assert found["stream"]["steps"] == len(train)
    assert {s["state"]: s["steps"] for s in found["stream"]["states"]} == {
        state: int((train.states == state).sum()) for state in train.classes
    }
    assert set(found["held_out"]) >= {"accuracy", "balanced_accuracy", "guessing", "verdict"}
    assert (len(found["committee"]["members"]) > 1) == (metric == "auto")
    again, _ = told("inspect", in_folder / "walk.mlat", "--no-pictures")
    assert again["experts"] == found["experts"]
    assert [s["references"] for s in again["states"]] == [
        int(np.sum(mlat.load(in_folder / "walk.mlat").windows_.y == s)) for s in train.classes
    ]


def test_fit_of_noise_says_so(in_folder):
    rng = np.random.default_rng(0)
    states = np.repeat(np.tile(["a", "b", "c"], 4), 40)
    noise = mlat.Stream(rng.normal(size=(len(states), 3)), states)
    write_csv(in_folder / "noise.csv", noise)
    found, error = told(
        *("fit", "noise.csv", "--label", "state", "-o", "noise.mlat", "--metric", "euclidean")
    )
    assert found["held_out"]["verdict"] == "not better"
    assert "no better than guessing" in error


def test_inspect_draws_as_well(folder, in_folder):
    found, _ = told("inspect", folder / "walk.mlat", "--out", "pictures")
    metric = mlat.load(folder / "walk.mlat").metric_
    assert found["experts"][0]["loss"] == metric.loss_
    assert len(found["experts"][0]["size_by_lag"]) == WIDTH
    assert (in_folder / "pictures" / "blocks.png").exists()
