"""Pictures: what is drawn where, without a display."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import mlat
from doc_examples import DOCS, run_examples
from mlat.explain import learned
from mlat.metric import toeplitz
from mlat.plots import (
    plot_blocks,
    plot_history,
    plot_lags,
    plot_overview,
    plot_stream,
    plot_theorem1,
    save_figure,
)
from mlat.plots.figure import FAINT, state_colours
from mlat.synthetic import rotating_states


def fitted(metric, width=4):
    windows = mlat.sliding_windows(rotating_states(n_channels=3), width, step=3)
    return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)


@pytest.fixture(scope="module")
def metrics():
    return {
        "filter": fitted(mlat.MLAT(max_iter=3)),
        "admm": fitted(mlat.MLAT(solver="admm", max_iter=3)),
        "lmnn": fitted(mlat.LMNN(max_iter=3)),
    }


def ribbon(ax, i=0):
    return ax.images[i].get_array()[0] / 255


def test_a_stream_has_a_line_per_channel_and_a_ribbon_per_prediction():
    stream = mlat.Stream(
        np.random.default_rng(0).normal(size=(6, 3)), ["a", "a", "", "b", "b", "b"]
    )
    figure = plot_stream(stream, predicted={"told": ["", "b", "b", "b", "a", "a"]})
    ax = figure.axes[0]
    assert len(ax.lines) == 3
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x0", "x1", "x2", "state", "told"]
    a, b = state_colours(2)
    none = to_rgb(FAINT)
    assert np.allclose(ribbon(ax, 0), [a, a, none, b, b, b], atol=1 / 255)
    assert np.allclose(ribbon(ax, 1), [none, b, b, b, a, a], atol=1 / 255)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b"]


def test_a_stream_without_states_has_no_ribbon():
    ax = plot_stream(mlat.Stream(np.zeros((5, 2)))).axes[0]
    assert not ax.images
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
        plot_stream(stream, predicted={"told": [1, 2]})


@pytest.mark.parametrize("n_states", [0, 1, 8, 9, 40])
def test_every_state_has_a_colour_of_its_own(n_states):
    colours = state_colours(n_states)
    assert colours.shape == (n_states, 3)
    assert len(np.unique(colours, axis=0)) == n_states


def test_plots_can_be_drawn_into_given_axes():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    stream = rotating_states(n_channels=2)
    assert plot_stream(stream, ax=left) is figure
    assert plot_lags(np.ones((3, 2, 2)), ax=right) is figure
    assert plot_theorem1(stream, 4, ax=right) is figure


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


def test_the_overview_has_its_four_parts(metrics):
    stream = rotating_states(n_channels=3)
    figure = plot_overview(stream, {"A": stream.states}, {"A": 0.25, "B": 0.8}, metrics["filter"])
    parts = {ax.get_title(loc="left"): ax for ax in figure.axes}
    assert len(parts) == 4
    assert [patch.get_width() for patch in parts["How often it is right"].patches] == [25, 80]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_appear_whole_or_not_at_all(tmp_path, suffix):
    file = tmp_path / f"a.{suffix}"
    save_figure(plot_lags(np.ones((3, 2, 2))), file)
    assert file.stat().st_size > 1000
    before = file.read_bytes()
    with pytest.raises(TypeError):
        save_figure(plot_lags(np.ones((3, 2, 2))), file, no_such_option=1)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_no_backend_is_chosen_for_the_user():
    code = "import mlat.plots, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_shares_and_spectrum():
    blocks = np.zeros((2, 2, 2))
    blocks[0] = np.diag([3.0, 1.0])
    assert learned.channel_fractions(blocks).tolist() == [0.75, 0.25]
    assert learned.lag_fractions(blocks).tolist() == [1.0, 0.0]
    blocks[1] = [[1.0, 0.0], [2.0, 0.0]]
    squares = (toeplitz.to_matrix(blocks) ** 2).sum()
    assert np.allclose(learned.lag_fractions(blocks), [20 / squares, 10 / squares])
    assert learned.lag_fractions(0 * blocks).tolist() == [0, 0]
    assert learned.channel_fractions(0 * blocks).tolist() == [0, 0]


def test_spectrum_of_a_metric(metrics):
    found = learned.spectrum(metrics["filter"])
    assert np.isclose(found.eigenvalues.sum(), np.trace(metrics["filter"].metric_))
    assert (np.diff(found.eigenvalues) <= 0).all()
    assert 1 <= found.effective_rank <= 12


def test_the_page_of_plots_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(DOCS / "plots.md")
