"""Slow, obvious versions of everything fast: what the tests compare with."""

from __future__ import annotations

import math
import statistics

# --- Streams and Phase I: runs and windows ---------------------------------------------------


def naive_breaks(values, recordings=None, time=None, max_gap=None):
    """For each step, whether it does not follow the one before it (missing values aside)."""
    n = len(values)

    def same_recording(t):
        return recordings is None or recordings[t] == recordings[t - 1]

    if time is not None and max_gap is None:
        steps = [time[t] - time[t - 1] for t in range(1, n) if same_recording(t)]
        max_gap = 1.5 * statistics.median(steps) if steps else math.inf
    breaks = []
    for t in range(n):
        follows = t > 0 and same_recording(t)
        if follows and time is not None:
            follows = time[t] - time[t - 1] <= max_gap
        breaks.append(not follows)
    return breaks


def naive_runs(values, states, recordings=None, time=None, max_gap=None):
    """Maximal stretches of one state, as (start, stop, state); "" is no state."""
    breaks = naive_breaks(values, recordings, time, max_gap)
    runs = []
    for t, (row, state) in enumerate(zip(values, states, strict=True)):
        if state == "" or any(math.isnan(value) for value in row):
            continue
        if runs and runs[-1][1] == t and runs[-1][2] == state and not breaks[t]:
            runs[-1] = (runs[-1][0], t + 1, state)
        else:
            runs.append((t, t + 1, state))
    return runs


def naive_windows(values, states, width, step=1, recordings=None, time=None, max_gap=None):
    """Every ``step``-th window of each run, as (start, run, state)."""
    windows = []
    runs = naive_runs(values, states, recordings, time, max_gap)
    for run, (start, stop, state) in enumerate(runs):
        for t in range(start, stop, step):
            if t + width <= stop:
                windows.append((t, run, state))
    return windows
