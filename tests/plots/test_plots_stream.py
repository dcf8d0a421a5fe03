from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import mlat
from mlat.plots import plot_stream
from mlat.plots.figure import FAINT, state_colours
from plot_checks import spans


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
