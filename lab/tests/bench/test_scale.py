"""The benchmark of many windows, on few."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mlat_lab.bench import scale
from mlat_lab.bench.harness import Bench


def test_all_ways_in_one_run(tmp_path, capsys):
    scale.many_windows(Bench(tmp_path / "figures.json"), [400], 3, 5, 1000)
    told = json.loads((tmp_path / "figures.json").read_text())
    ways = {row["way"]: row for row in told["learned"]}
    assert ways["working set"]["loss"] == pytest.approx(ways["plain"]["loss"], rel=0.01)
    assert all(row["clock_s"] > 0 and row["MB"] > 10 for row in told["learned"])
    found = {row["search"]: row for row in told["searched"]}
    assert {"mlat", "numpy, all", "scikit-learn BallTree"} <= set(found)
    assert all(row["same_nearest"] == 1 for name, row in found.items() if "approximate" not in name)
    shown = capsys.readouterr().out
    assert "Learning from many windows" in shown
    assert "A live step among many references" in shown


def test_a_search_is_asked_for_one_window_at_a_time():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 4))
    queries = points[::5] + 1e-6
    asked = []

    def build():
        return lambda q: asked.append(q.shape) or int(((points - q) ** 2).sum(axis=1).argmin())

    row, found = scale.measure_search("numpy, all", build, 300, queries, None)
    assert set(asked) == {(1, 4)}
    assert found.tolist() == list(range(0, 300, 5))[scale.WARM_UP :]
    assert row["looked_at"] is None
