"""All pictures: the axes they are drawn in, and the page about them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from matplotlib.figure import Figure

from doc_examples import DOCS, run_examples
from mlat.explain import learned
from mlat.metric import toeplitz
from mlat.plots import plot_lags, plot_stream, plot_theorem1
from mlat.synthetic import rotating_states


def test_plots_can_be_drawn_into_given_axes():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    stream = rotating_states(n_channels=2)
    assert plot_stream(stream, ax=left) is figure
    assert plot_lags(np.ones((3, 2, 2)), ax=right) is figure
    assert plot_theorem1(stream, 4, ax=right) is figure


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
