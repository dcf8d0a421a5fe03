"""``mlat inspect``."""

from __future__ import annotations

import re
from pathlib import Path

import mlat
from cli_runs import SENSORS, run
from mlat.synthetic import rotating_states


def test_inspect_tells_and_draws(folder, in_folder):
    out, error = run("inspect", folder / "walk.mlat")
    assert error == ""
    assert "windows of 8 steps of 4 channels" in out
    assert "Metric: MLAT, solver filter: block Toeplitz." in out
    assert re.search(r"Eigenvalues: .*effective rank [\d.]+ of 32", out)
    assert out.count("━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ │") >= 2  # the full bars
    pictures = in_folder / "walk-pictures"
    drawn = sorted(p.name for p in pictures.iterdir())
    assert drawn == ["blocks.png", "history.png", "usage.png"]


def test_inspect_without_pictures(folder, in_folder):
    run("inspect", folder / "walk.mlat", "--no-pictures")
    assert not list(in_folder.iterdir())


def test_inspect_other_metrics(folder, in_folder):
    stream = mlat.read_stream(folder / "walk.csv", label="state")
    for name, metric in {
        "euclidean": "euclidean",
        "lmnn": mlat.LMNN(max_iter=2),
        "admm": mlat.MLAT(solver="admm", max_iter=2),
    }.items():
        mlat.StreamClassifier(4, metric=metric, stride=4).fit(stream).save(f"{name}.mlat")
    out, _ = run("inspect", "euclidean.mlat")
    assert "Nothing was learned" in out
    assert not Path("euclidean-pictures").exists()
    out, _ = run("inspect", "lmnn.mlat", "--out", "a/b")
    assert re.search(r"LMNN: not block Toeplitz, relative residual [\d.]+;", out)
    assert Path("a/b/blocks.png").stat().st_size
    out, _ = run("inspect", "admm.mlat", "--no-pictures")
    assert "solver admm: block Toeplitz up to a relative residual of" in out
    assert "not converged: the iteration limit was reached" in out


def test_inspect_wide_windows_and_single_steps(in_folder):
    stream = rotating_states(n_channels=8, run_length=300, runs_per_state=1)
    for width in (260, 1):
        metric = mlat.MLAT(max_iter=1)
        mlat.StreamClassifier(width, metric=metric, stride=20).fit(stream).save(f"{width}.mlat")
    out, _ = run("inspect", "260.mlat")
    assert "Eigenvalues: left out, for the matrix would have 2080 by 2080 entries" in out
    assert "│ 0–10 " in out
    assert "Windows of one step have no lags" in run("inspect", "1.mlat")[0]


def test_inspect_refuses_a_file_in_the_way(folder, in_folder):
    Path("taken").touch()
    _, error = run("inspect", folder / "walk.mlat", "--out", "taken", status=2)
    assert error.startswith("mlat: taken cannot be a folder")


def test_inspect_names_lifted_features(in_folder):
    lift = ["identity", "running_deviation"]
    clf = mlat.StreamClassifier(4, metric=mlat.LMNN(max_iter=2), lift=lift, whiten=True)
    clf.fit(rotating_states(**SENSORS)).save("m.mlat")
    out, _ = run("inspect", "m.mlat")
    assert "log deviation of sensor 4" in out
    assert sorted(p.name for p in Path("m-pictures").iterdir())[-1] == "usage.png"


def test_inspect_without_enough_to_judge_usage(in_folder):
    short = rotating_states(**SENSORS, run_length=7, runs_per_state=1)
    metric = mlat.MLAT(max_iter=2, n_targets=1, target_gap=0)
    mlat.StreamClassifier(4, metric=metric).fit(short).save("m.mlat")
    out, _ = run("inspect", "m.mlat")
    assert "No picture of usage: every state has a single run" in out
    assert not Path("m-pictures/usage.png").exists()
