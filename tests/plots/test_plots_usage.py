from __future__ import annotations

import numpy as np

import mlat
from mlat.explain.usage import measure_usage
from mlat.plots import plot_usage
from plot_checks import axes_titled, draws, many_channels, texts


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
