from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import mlat
from mlat.plots import plot_stream, plot_timeline
from mlat.plots.figure import FAINT, state_colours
from plot_checks import draws, spans, texts


def test_a_timeline_has_ribbons_of_runs_and_marks_mistakes(tmp_path):
    true = ["a"] * 4 + ["b"] * 4
    predicted = ["", "a", "a", "a", "a", "b", "b", ""]
    figure = plot_timeline(true, predicted, confidence=[np.nan, 1, 1, 0.5, 0.5, 1, 1, np.nan])
    ax = figure.axes[0]
    assert texts(ax.get_yticklabels()) == ["true", "predicted", "mistakes", "confidence"]
    a, b = (tuple(colour) for colour in state_colours(2))
    drawn = spans(ax)
    assert [span[1:] for span in drawn[:2]] == [(0, 4, a), (4, 8, b)]
    none = to_rgb(FAINT)
    assert [span[1:] for span in drawn[2:]] == [
        (0, 1, none),
        (1, 5, a),
        (5, 7, b),
        (7, 8, none),
    ]
    mistakes, confidence, _ = ax.patches
    values, _, baseline = mistakes.get_data()
    assert (values - baseline).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    values, _, baseline = confidence.get_data()
    assert np.allclose(values - baseline, [np.nan, 1, 1, 0.5, 0.5, 1, 1, np.nan], equal_nan=True)
    assert ax.get_title(loc="right") == "1 of 6 judged steps are wrong"
    assert texts(ax.get_legend().get_texts()) == ["a", "b"]
    assert draws(figure, tmp_path)


@pytest.mark.parametrize("true", [None, ["", "", ""], mlat.Stream(np.zeros((3, 1)))])
def test_a_timeline_without_states_shows_predictions_alone(true, tmp_path):
    figure = plot_timeline(true, ["a", "b", "b"])
    assert texts(figure.axes[0].get_yticklabels()) == ["predicted"]
    assert figure.axes[0].get_title(loc="right") == ""
    assert draws(figure, tmp_path)


def test_a_timeline_of_nothing_and_of_unknown_states(tmp_path):
    assert draws(plot_timeline(None, np.array([], dtype=str)), tmp_path)
    figure = plot_timeline([1, 1], [-1, -1])
    assert figure.axes[0].get_title(loc="right") == "0 of 0 judged steps are wrong"
    assert draws(figure, tmp_path)
    assert draws(plot_timeline(None, ["", ""], confidence=[np.nan, np.nan]), tmp_path)


def test_a_long_timeline_is_drawn_by_runs_and_loses_no_mistake(tmp_path):
    n = 2_000_000
    true = np.repeat(np.arange(20) % 3, n // 20)
    predicted = true.copy()
    predicted[1_234_567] = (predicted[1_234_567] + 1) % 3  # one step in two million
    stream = mlat.Stream(np.zeros((n, 1)), true, recordings=np.arange(n) // 500_000)
    figure = plot_timeline(stream, predicted, confidence=np.ones(n))
    ax = figure.axes[0]
    assert len(spans(ax)) == 20 + 22
    values, edges, baseline = ax.patches[0].get_data()
    (seen,) = np.flatnonzero(values > baseline + 0.1)
    assert edges[seen] <= 1_234_567 < edges[seen + 1]
    begins = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert begins == [500_000, 1_000_000, 1_500_000]
    assert draws(figure, tmp_path)


def test_a_restless_timeline_shows_what_prevails():
    predicted = np.zeros(100_000, int)
    predicted[::3] = 1
    predicted[50_000:] = 1 - predicted[50_000:]
    drawn = spans(plot_timeline(None, predicted).axes[0])
    assert len(drawn) < 2000
    a, b = (tuple(colour) for colour in state_colours(2))
    assert {colour for _, start, stop, colour in drawn if stop < 49_000} == {a}
    assert {colour for _, start, stop, colour in drawn if start > 51_000} == {b}


def test_timelines_of_what_does_not_fit_are_refused():
    with pytest.raises(mlat.InputError, match="names and others numbers"):
        plot_timeline(["a"], [1])
    with pytest.raises(mlat.InputError, match="one entry per step"):
        plot_timeline(["a", "b"], ["a"])
    with pytest.raises(mlat.InputError, match=r"confidence must be of shape \(1,\)"):
        plot_timeline(["a"], ["a"], confidence=[1, 1])
    with pytest.raises(mlat.InputError, match="confidence must be from 0 to 1"):
        plot_timeline(["a"], ["a"], confidence=[2])


def test_a_stream_has_a_line_per_channel_and_a_ribbon_per_prediction():
    stream = mlat.Stream(
        np.random.default_rng(0).normal(size=(6, 3)), ["a", "a", "", "b", "b", "b"]
    )
    figure = plot_stream(stream, predicted={"predicted": ["", "b", "b", "b", "a", "a"]})
    ax = figure.axes[0]
    assert len(ax.lines) == 3
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x0", "x1", "x2", "state", "predicted"]
    a, b = (tuple(colour) for colour in state_colours(2))
    none = to_rgb(FAINT)
    drawn = [(x0, x1, colour) for _, x0, x1, colour in spans(ax)]
    assert drawn[:3] == [(0, 2, a), (2, 3, none), (3, 6, b)]
    assert drawn[3:] == [(0, 1, none), (1, 4, b), (4, 6, a)]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b"]


def test_a_stream_without_states_has_no_ribbon():
    ax = plot_stream(mlat.Stream(np.zeros((5, 2)))).axes[0]
    assert not ax.collections
    assert ax.get_legend() is None


def test_a_stream_with_missing_values_recordings_and_many_channels():
    values = np.random.default_rng(0).normal(size=(30, 20))
    values[4:7, 0] = np.nan
    values[:, 1] = np.nan
    stream = mlat.Stream(values, [1] * 15 + [2] * 15, recordings=[0] * 10 + [1] * 20)
    ax = plot_stream(stream, max_channels=4).axes[0]
    lines = [line.get_ydata() for line in ax.lines[:4]]
    assert np.isnan(lines[0]).sum() == 3
    assert np.isnan(lines[1]).all()
    assert ax.lines[4].get_xdata()[0] == 10  # where the second recording begins
    assert ax.get_ylabel() == "4 of 20 channels"


def test_names_and_numbers_cannot_share_colours():
    stream = mlat.Stream(np.zeros((2, 1)), ["a", "b"])
    with pytest.raises(mlat.InputError, match="names and others numbers"):
        plot_stream(stream, predicted={"predicted": [1, 2]})
