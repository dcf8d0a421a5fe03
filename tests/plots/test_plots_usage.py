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
    assert figure.axes[0].images[0].get_array().shape == (20, 8)  # lag 0 alone counts
    assert any("40 less used features" in t.get_text() for ax in figure.axes for t in ax.texts)
    assert draws(figure, tmp_path)
