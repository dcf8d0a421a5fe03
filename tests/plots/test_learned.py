from __future__ import annotations

import numpy as np
import pytest

import mlat
from mlat.explain import learned
from mlat.explain.usage import measure_usage
from mlat.plots import plot_blocks, plot_history, plot_usage
from plot_checks import axes_titled, draws, fitted, many_channels, texts


@pytest.mark.parametrize("name", ["filter", "admm", "lmnn"])
def test_blocks_are_drawn_on_one_scale(metrics, name):
    blocks = learned.blocks_of(metrics[name])
    figure = plot_blocks(metrics[name], channels=["a", "b", "c"], max_blocks=3)
    maps = [ax for ax in figure.axes if ax.get_title().startswith("lag")]
    assert [ax.get_title() for ax in maps] == ["lag 0", "lag 2", "lag 3"]
    limits = {ax.images[0].get_clim() for ax in maps}
    assert len(limits) == 1
    for ax, lag in zip(maps, (0, 2, 3), strict=True):
        assert np.array_equal(ax.images[0].get_array(), blocks[lag])
    (curve,) = [ax for ax in figure.axes if ax.get_xlabel() == "lag (steps)"]
    assert np.allclose(curve.lines[0].get_ydata(), np.linalg.norm(blocks, axis=(1, 2)))


def test_blocks_of_a_single_step_and_of_nothing():
    plot_blocks(np.zeros((1, 2, 2)))
    with pytest.raises(mlat.InputError, match=r"shape \(w, d, d\)"):
        plot_blocks(np.zeros((2, 2)))
    with pytest.raises(mlat.InputError, match="not fitted"):
        plot_blocks(mlat.MLAT())
    with pytest.raises(mlat.InputError, match="2 names for 3 channels"):
        plot_blocks(np.zeros((1, 3, 3)), channels=["a", "b"])


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


def test_usage_is_drawn_by_feature_and_lag(clf, tmp_path):
    shares = measure_usage(clf).fractions
    figure = plot_usage(clf)
    heat = figure.axes[0]
    order = [clf.feature_names_.index(t) for t in texts(heat.get_yticklabels())]
    assert np.array_equal(heat.images[0].get_array(), shares.by_lag_and_feature.T[order])
    bars = axes_titled(figure, "all lags together").patches
    assert np.allclose([bar.get_width() for bar in bars], shares.by_feature[order])
    bars = axes_titled(figure, "all features together").patches
    assert np.allclose([bar.get_height() for bar in bars], shares.by_lag)
    assert draws(figure, tmp_path)


def test_usage_of_many_channels_and_of_no_metric(tmp_path):
    clf = mlat.StreamClassifier(45, metric="euclidean").fit(many_channels(0))
    figure = plot_usage(clf)
    assert figure.get_suptitle().endswith("lag 0 alone counts")
    (ax,) = figure.axes  # bars alone
    assert len(ax.patches) == 20
    assert "accelerometer of the left upper leg, axis 7" in texts(ax.get_yticklabels())
    assert "40 less used features" in ax.get_xlabel()
    assert draws(figure, tmp_path)
