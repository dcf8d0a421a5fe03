"""The history of a solver: loss and stopping criteria by iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..base.errors import InputError
from .figure import BLUE, GREEN, INK, ORANGE, bare


def plot_history(metric: Any) -> Figure:
    """The loss by iteration, and beside it the stopping criterion of the solver.

    For the solver ``admm`` these are the primal and the dual residual with their tolerances
    (dashed), for the others the norm of the gradient.

    Parameters
    ----------
    metric : fitted MLAT or LMNN

    Raises
    ------
    InputError
        If the metric is not fitted.
    """
    history = getattr(metric, "history_", None)
    if history is None:
        raise InputError("the metric has no history; fit it first")
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    if not history:
        for ax in (left, right):
            ax.set_axis_off()
        left.text(0.5, 0.5, f"No iteration: {metric.message_}.", ha="center", color=INK)
        return figure
    series = {name: np.array([record[name] for record in history]) for name in history[0]}
    iteration = series["iteration"]
    left.plot(iteration, series["objective"], color=BLUE)
    left.set_ylim(0, None)
    _label(left, "loss by iteration")
    if "primal" in series:
        for name, colour in (("primal", ORANGE), ("dual", GREEN)):
            line, tolerance = series[name], series[f"{name}_tolerance"]
            _log(right, iteration, line, colour, f"{name} residual")
            _log(right, iteration, tolerance, colour, f"{name} tolerance", linestyle="--")
        right.legend(frameon=False, fontsize=8)
        _label(right, "residuals and their tolerances")
    else:
        _log(right, iteration, series["gradient"], ORANGE, "gradient")
        _label(right, "norm of the gradient")
    solver = getattr(metric, "solver", "")
    name = type(metric).__name__ + (f", solver {solver}" if solver else "")
    figure.suptitle(f"{name}: {len(history)} iterations, {metric.message_}", fontsize=11, color=INK)
    return figure


def _log(ax: Axes, x: Any, y: Any, colour: str, name: str, linestyle: str = "-") -> None:
    # A residual of exactly 0 has no logarithm and is not drawn.
    ax.plot(x, np.where(y > 0, y, np.nan), color=colour, label=name, linestyle=linestyle)
    if (y > 0).any():
        ax.set_yscale("log")


def _label(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10, color=INK, loc="left")
    ax.set_xlabel("iteration")
    bare(ax)
