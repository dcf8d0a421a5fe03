"""The benchmark of learning measures what it says, on a problem small enough for a test."""

import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

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
    start = fit._objective(windows, np.eye(10))
    assert row.system == system
    assert row.objective < start
    assert row.n_iter >= 1
    assert row.seconds > 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    assert own / 30 < row.peak_mb < 30 * own


def test_a_peer_that_is_not_there_is_said():
    with pytest.raises(InputError, match=r"metric-learn failed in .*No module named"):
        fit.run_one("metric-learn", TINY, python=sys.executable)


def test_growth_is_drawn(tmp_path):
    rows = [
        fit.Fit(str(Size(5, n // 5, 8, w)), system, 1.0 * n * w, 1.0, 100.0, 10, 1.0)
        for system in ("LMNN", "MLAT filter")
        for n, w in [(n, 10) for n in fit.GROWTH_N] + [(1000, w) for w in fit.GROWTH_W]
    ]
    target = Path(tmp_path) / "growth.png"
    fit.plot_growth(rows, target)
    assert target.read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "table.txt").open("w") as text:
        fit.show(rows, Console(file=text, width=160))
    assert "MLAT filter" in (tmp_path / "table.txt").read_text()
