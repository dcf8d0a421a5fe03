from __future__ import annotations

import pytest

import mlat
from mlat.plots import plot_history
from plot_checks import fitted


def test_history_shows_what_the_solver_stops_by(metrics):
    left, right = plot_history(metrics["admm"]).axes
    history = metrics["admm"].history_
    assert left.lines[0].get_ydata().tolist() == [record["objective"] for record in history]
    drawn = {line.get_label(): line.get_ydata().tolist() for line in right.lines}
    assert drawn["primal residual"] == [record["primal"] for record in history]
    assert drawn["dual tolerance"] == [record["dual_tolerance"] for record in history]
    assert right.get_yscale() == "log"
    for name in ("filter", "lmnn"):
        right = plot_history(metrics[name]).axes[1]
        assert [line.get_label() for line in right.lines] == ["gradient"]


def test_history_of_no_iteration_and_of_no_fit():
    metric = fitted(mlat.MLAT(max_iter=1))
    metric.history_, metric.message_ = [], "the gradient vanished"
    assert "the gradient vanished" in plot_history(metric).axes[0].texts[0].get_text()
    with pytest.raises(mlat.InputError, match="fit it first"):
        plot_history(mlat.MLAT())
