from __future__ import annotations

from mlat.plots import plot_overview
from mlat.synthetic import rotating_states


def test_the_overview_has_its_four_parts(metrics):
    stream = rotating_states(n_channels=3)
    figure = plot_overview(stream, {"A": stream.states}, {"A": 0.25, "B": 0.8}, metrics["filter"])
    parts = {ax.get_title(loc="left"): ax for ax in figure.axes}
    assert len(parts) == 4
    assert [patch.get_width() for patch in parts["How often it is right"].patches] == [25, 80]
