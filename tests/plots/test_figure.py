from __future__ import annotations

import numpy as np
import pytest

from mlat.plots import plot_lags, save_figure
from mlat.plots.figure import format_number, shorten, state_colours, used_lags


@pytest.mark.parametrize("n_states", [0, 1, 8, 9, 40])
def test_every_state_has_a_colour_of_its_own(n_states):
    colours = state_colours(n_states)
    assert colours.shape == (n_states, 3)
    assert len(np.unique(colours, axis=0)) == n_states


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


def test_long_names_lose_their_middle():
    assert shorten("short") == "short"
    assert shorten("accelerometer 17", 10) == "accel…r 17"
    assert len(shorten("x" * 99)) == 26


def test_figures_and_lags():
    said = [format_number(x) for x in (0.12345, 0.83, 999.4, 3241.7, 1.5e7)]
    assert said == ["0.123", "0.830", "999", "3242", "1.50e+07"]
    assert used_lags(np.array([1.0, 0, 0])) == 3
    assert used_lags(np.r_[1.0, np.zeros(20)]) == 8
    assert used_lags(np.r_[np.ones(12), np.zeros(20)]) == 12
    assert used_lags(np.zeros(20)) == 8
