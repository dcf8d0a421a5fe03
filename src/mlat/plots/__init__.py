"""Pictures of streams and of what a metric learned.

Every function returns a ``matplotlib.figure.Figure`` of its own, made without pyplot: nothing
global changes, no window opens, and no display is needed.
"""

from .blocks import plot_blocks, plot_lags
from .figure import save_figure
from .history import plot_history
from .overview import plot_overview
from .stream import plot_stream
from .theorem1 import plot_theorem1

__all__ = [
    "plot_blocks",
    "plot_history",
    "plot_lags",
    "plot_overview",
    "plot_stream",
    "plot_theorem1",
    "save_figure",
]
