"""All pictures: the axes they are drawn in, and the page about them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from matplotlib.figure import Figure

from doc_examples import DOCS, run_examples
from mlat.plots import plot_lags, plot_stream
from mlat.synthetic import rotating_states


def test_plots_can_be_drawn_into_given_axes():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    stream = rotating_states(n_channels=2)
    assert plot_stream(stream, ax=left) is figure
    assert plot_lags(np.ones((3, 2, 2)), ax=right) is figure


def test_no_backend_is_chosen_for_the_user():
    code = "import mlat.plots, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_page_of_plots_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(DOCS / "guide/plots.md")
