"""``mlat enrol``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from mlat.label import spans_of, write_spans
from mlat.synthetic import rotating_states

other = rotating_states(**SENSORS, mixture_state=1, runs_per_state=1, random_state=3)


def test_the_new_model_is_that_of_python(folder, in_folder):
    write_csv(in_folder / "new.csv", other)
    out, error = run("enrol", folder / "walk.mlat", "new.csv", "--label", "state", "-o", "n.mlat")
    assert error == ""
    assert "Model: n.mlat" in out
    expected = mlat.load(folder / "walk.mlat").enrol(other)
    expected.save("expected.mlat")
    assert (in_folder / "n.mlat").read_bytes() == (in_folder / "expected.mlat").read_bytes()
    write_spans("labels.csv", spans_of(other))
    run("enrol", folder / "walk.mlat", "new.csv", "--labels", "labels.csv", "-o", "m.mlat")
    assert (in_folder / "m.mlat").read_bytes() == (in_folder / "expected.mlat").read_bytes()


def test_of_another_person_nothing_is_expected(in_folder):
    mlat.StreamClassifier(WIDTH).fit(rotating_states(**SENSORS)).save("walk.mlat")
    write_csv(in_folder / "new.csv", other)
    where = ["walk.mlat", "new.csv", "--label", "state", "-o", "n.mlat"]
    out, _ = run("enrol", *where)
    assert out.startswith("Expected accuracy: unknown, for nothing was left out; use mlat evaluate")
    told = json.loads(run("enrol", *where, "--json")[0])
    assert told["stream"]["steps"] == len(other)
    assert "references of another stream" in mlat.load("n.mlat").committee_.why


def test_what_is_refused(folder, in_folder):
    write_csv(in_folder / "new.csv", other)
    model = folder / "walk.mlat"
    assert "is what is read" in refused("enrol", model, "new.csv", "--label", "state", "-o", model)
    write_csv(in_folder / "none.csv", other.with_states(np.full(len(other), "")))
    assert "names no state" in refused("enrol", model, "none.csv", "--label", "state", "-o", "n")
    assert not (in_folder / "n.mlat").exists()


def test_without_labels_a_model_of_one_group_is_adapted_too(folder, in_folder):
    write_csv(in_folder / "new.csv", other.with_states(np.full(len(other), "")))
    out, _ = run("enrol", folder / "walk.mlat", "new.csv", "-o", "n.mlat")
    assert out.startswith("Expected accuracy: unknown, for nothing was left out")
    assert len(mlat.load("n.mlat").windows_) > len(mlat.load(folder / "walk.mlat").windows_)


@pytest.mark.filterwarnings("ignore:the stream has no window")
def test_a_model_of_ones_own_metric_is_inspected(in_folder):
    from sklearn.decomposition import PCA

    clf = mlat.StreamClassifier(WIDTH, metric=PCA(3)).fit(rotating_states(**SENSORS))
    clf.save("pca.mlat")
    out, _ = run("inspect", "pca.mlat")
    assert "the linear map of PCA" in out


def test_a_model_of_several_people_is_adapted_to_the_next_without_labels(in_folder):
    for seed in range(4):
        stream = rotating_states(runs_per_state=3, random_state=seed)
        moved = stream.with_values(stream.values * 3**seed + 20 * seed)
        write_csv(in_folder / f"p{seed}.csv", moved)
    people = ["p0.csv", "p1.csv", "p2.csv", "--label", "state", "--group", "file", "--width", "8"]
    out, _ = run("fit", *people, "--metric", "euclidean", "-o", "walk.mlat")
    assert out.startswith("Expected of another group (person, machine, day): balanced accuracy")
    assert "in units of their own" in out
    _, before = run("predict", "walk.mlat", "p3.csv", "--label", "state", "-o", "s.csv")
    assert "adapt it to a recording of it" in before
    assert "than in training" in before
    run("enrol", "walk.mlat", "p3.csv", "-o", "next.mlat")
    _, after = run("predict", "next.mlat", "p3.csv", "--label", "state", "-o", "s.csv")
    new = mlat.read_stream("p3.csv", label="state")
    expected = mlat.load("walk.mlat").adapt(new)
    assert f"{expected.score(new):.1%}"[:2] in after
    assert "than in training" not in after
    np.testing.assert_array_equal(mlat.load("next.mlat").predict(new), expected.predict(new))
    told = run("predict", "walk.mlat", "p3.csv", "-o", "s.csv", "--json")[0]
    assert {one["channel"] for one in json.loads(told)["prediction"]["drift"]}
