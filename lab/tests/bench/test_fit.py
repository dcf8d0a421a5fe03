"""The benchmark of learning measures what it says, on a problem small enough for a test."""

import resource
import sys

import numpy as np
import pytest

from mlat import InputError
from mlat_lab.bench import fit
from mlat_lab.bench.fit import LONG, SIZES, Size, make_windows

TINY = Size(3, 40, 2, 5)


def test_the_problems_have_the_stated_sizes():
    for size in (*SIZES.values(), LONG, TINY):
        assert len(np.unique(make_windows(size).y)) == size.n_states
    windows = make_windows(TINY)
    assert windows.X.shape == (120, 5, 2)
    np.testing.assert_array_equal(windows.X, make_windows(TINY).X)


@pytest.mark.parametrize("system", ["LMNN", "MLAT filter"])
def test_a_fit_in_a_process_of_its_own(system):
    row = fit.run_one(system, TINY)
    windows = make_windows(TINY)
    assert row["system"] == system
    assert row["loss"] < fit.objective_of(windows, np.eye(10))
    assert row["it."] >= 1
    assert row["CPU_s"] > 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    assert own / 30 < row["MB"] < 30 * own


def test_a_peer_that_is_not_there_is_said():
    with pytest.raises(InputError, match=r"metric-learn failed in .*No module named"):
        fit.run_one("metric-learn", TINY, python=sys.executable)


def test_growth_is_drawn(tmp_path):
    rows = [
        {"n": n, "w": w, "system": system, "CPU_s": 1.0 * n * w, "it.": 10}
        for system in ("LMNN", "MLAT filter")
        for n, w in [(n, 10) for n in fit.GROWTH_N] + [(1000, w) for w in fit.GROWTH_W]
    ]
    fit.plot_growth(rows, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
