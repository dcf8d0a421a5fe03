from __future__ import annotations

import pytest

import mlat
from mlat.synthetic import rotating_states
from mlat_lab.reports.theorem1 import plot_theorem1


def test_theorem_1_falls_with_the_length_of_the_run():
    stream = rotating_states(n_channels=2, run_length=2000, runs_per_state=1)
    ax = plot_theorem1(stream, 5).axes[0]
    assert len(ax.lines) == 4
    for line in ax.lines:
        residual = line.get_ydata()
        assert line.get_xdata()[[0, -1]].tolist() == [10, 2000]
        assert residual[-1] < residual[0] / 3
    with pytest.raises(mlat.InputError, match="no run is longer than 4000 steps"):
        plot_theorem1(stream, 2000)
