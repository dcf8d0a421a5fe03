from __future__ import annotations

import numpy as np
import pytest

import mlat
from doc_examples import DOCS, run_examples
from mlat.explain.explanation import explain
from mlat.plots import explain_prediction
from mlat.plots.figure import state_colours
from mlat.synthetic import rotating_states
from plot_checks import WIDTH, axes_titled, draws, many_channels, test, texts, train


def test_the_nearest_windows_are_drawn_over_the_window(clf, tmp_path):
    found = explain(clf, test, 100, n_neighbors=2)
    figure = explain_prediction(clf, test, 100, 2)
    assert figure.get_suptitle() == found.headline
    first = axes_titled(figure, f"nearest {found.own.state} (predicted): distance ")
    channel = clf.channels_.index(first.get_ylabel())
    second, nearest, window = (line.get_ydata() for line in first.lines)
    assert np.array_equal(window, test.values[95:101, channel])
    for line, row in ((nearest, found.own.rows[0]), (second, found.own.rows[1])):
        start = clf.windows_.start[row]
        assert np.array_equal(line, train.values[start : start + WIDTH, channel])
    colour = state_colours(4)[clf.classes_.tolist().index(found.own.state)]
    assert np.allclose(first.lines[1].get_color(), colour)
    assert draws(figure, tmp_path)


def test_bars_are_the_parts_of_the_distance(clf):
    found = explain(clf, test, 100)
    figure = explain_prediction(clf, test, 100)
    bars = axes_titled(figure, "which features").patches
    order = [clf.feature_names_.index(t) for t in texts(figure.axes[-2].get_yticklabels())]
    drawn = np.array([bar.get_width() for bar in bars]).reshape(2, 3)
    assert np.allclose(drawn[0], found.own.parts.by_feature[order])
    assert np.allclose(drawn[1], found.other.parts.by_feature[order])
    lags = axes_titled(figure, "which lags")
    drawn = np.array([bar.get_height() for bar in lags.patches]).reshape(2, WIDTH)
    assert np.allclose(drawn, [found.own.parts.by_lag, found.other.parts.by_lag])
    assert np.allclose(drawn.sum(axis=1), [found.own.distances[0] ** 2, found.other.parts.total])
    assert "in all" in lags.get_legend().get_texts()[0].get_text()


def test_of_many_channels_the_most_telling_are_drawn(tmp_path):
    clf = mlat.StreamClassifier(45, metric="euclidean").fit(many_channels(0))
    figure = explain_prediction(clf, many_channels(1), 80)
    named = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()]
    assert len(named) == 5
    assert named[0].endswith("axis 7")
    assert figure.get_supxlabel().startswith("5 of 60 channels are drawn")
    assert "55 are not" in figure.get_supxlabel()
    bars = axes_titled(figure, "which features")
    assert len(bars.patches) == 20
    assert "50 others" in bars.get_xlabel()
    assert draws(figure, tmp_path)


def test_wide_windows_have_lines_for_lags():
    stream = rotating_states(n_channels=2, run_length=80)
    clf = mlat.StreamClassifier(50, metric=mlat.MLAT(max_iter=1), stride=5).fit(stream)
    lags = axes_titled(explain_prediction(clf, stream, 60), "which lags")
    assert len(lags.lines[0].get_ydata()) == 50
    assert not lags.patches


def test_a_single_step_lifted_features_and_a_switch(tmp_path):
    lift = ["identity", "running_deviation"]
    one = mlat.StreamClassifier(1, metric="euclidean", lift=lift).fit(train)
    figure = explain_prediction(one, test, 0)
    assert {line.get_marker() for line in figure.axes[0].lines[:4]} == {"o"}
    assert "log deviation of sensor 1" in texts(figure.axes[-2].get_yticklabels())
    assert len([ax for ax in figure.axes if ax.get_ylabel().startswith("sensor")]) == 3
    assert draws(figure, tmp_path)
    wide = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(train)
    lines = explain_prediction(wide, test, 61).axes[0].lines
    assert lines[-1].get_xdata()[0] == 59.5  # where the state changes


def test_a_step_without_a_window_is_refused(clf):
    with pytest.raises(mlat.InputError, match="step 2 ends no complete window"):
        explain_prediction(clf, test, 2)


def test_the_page_of_explanations_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(DOCS / "guide/explanations.md")
