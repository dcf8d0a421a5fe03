"""Pictures of streams, of what a metric learned, and of why a model predicts a state.

Every function returns a ``matplotlib.figure.Figure`` that is made without pyplot: no global state
changes, no window opens, and no display is needed.
"""

# ruff: noqa: E402
from ..base.errors import require_package

require_package("matplotlib", "plots", "a picture")

from .confusion import plot_confusion
from .explain import explain_prediction, plot_committee
from .figure import save_figure
from .learned import plot_blocks, plot_history, plot_lags, plot_usage
from .overview import plot_overview
from .timeline import plot_stream, plot_timeline

__all__ = [
    "explain_prediction",
    "plot_blocks",
    "plot_committee",
    "plot_confusion",
    "plot_history",
    "plot_lags",
    "plot_overview",
    "plot_stream",
    "plot_timeline",
    "plot_usage",
    "save_figure",
]
