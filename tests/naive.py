"""Slow, obvious versions of everything fast: what the tests compare with."""

from __future__ import annotations

import math
import statistics

import numpy as np

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


# --- Phase II ---------------------------------------------------------------------------------


def naive_targets(X, codes, k, gap, start, run, width):
    """Nearest permitted windows of the same state, one pair at a time."""
    X = np.asarray(X).reshape(len(X), -1)
    targets = np.full((len(X), k), -1)
    for i in range(len(X)):
        same = [j for j in range(len(X)) if codes[j] == codes[i]]
        one_run = len({run[j] for j in same}) == 1
        in_time = sorted(same, key=lambda j: (start[j], j))
        place = {j: p for p, j in enumerate(in_time)}
        long_enough = max(start[j] for j in same) - min(start[j] for j in same) >= 2 * width
        permitted = []
        for j in same:
            if j == i:
                continue
            apart = abs(int(start[i]) - int(start[j]))
            if gap != "run":
                allowed = run[i] != run[j] or apart >= gap
            elif one_run:
                other_half = (2 * place[i]) // len(same) != (2 * place[j]) // len(same)
                allowed = other_half and (apart >= width or not long_enough)
            else:
                allowed = run[i] != run[j]
            if allowed:
                permitted.append((float(((X[i] - X[j]) ** 2).sum()), j))
        for place_, (_, j) in enumerate(sorted(permitted)[:k]):
            targets[i, place_] = j
    return targets


def naive_loss(M, X, codes, targets, c):
    """Eq. 2 with the minus, per window, one triple at a time."""
    X = np.asarray(X).reshape(len(X), -1)

    def distance(i, j):
        return float((X[i] - X[j]) @ M @ (X[i] - X[j]))

    total = 0.0
    for i in range(len(X)):
        for j in targets[i]:
            if j < 0:
                continue
            total += (1 - c) * distance(i, j)
            for l in range(len(X)):  # noqa: E741
                if codes[l] != codes[i]:
                    total += c * max(0.0, 1 + distance(i, j) - distance(i, l))
    return total / len(X)


def naive_gradient(M, X, codes, targets, c):
    """dE/dM as a sum of outer products of differences."""
    X = np.asarray(X).reshape(len(X), -1)

    def outer(i, j):
        return np.outer(X[i] - X[j], X[i] - X[j])

    total = np.zeros_like(M)
    for i in range(len(X)):
        for j in targets[i]:
            if j < 0:
                continue
            total += (1 - c) * outer(i, j)
            for l in range(len(X)):  # noqa: E741
                if codes[l] == codes[i]:
                    continue
                if 1 + np.sum(M * outer(i, j)) - np.sum(M * outer(i, l)) > 0:
                    total += c * (outer(i, j) - outer(i, l))
    return total / len(X)


def naive_projection(M, width):
    """Eq. 11, entry by entry: average over every place where a block's entry occurs."""
    d = len(M) // width
    result = np.zeros_like(M)
    for s in range(width):
        for t in range(width):
            for i in range(d):
                for j in range(d):
                    lag = s - t
                    values = []
                    for p in range(width):
                        q = p - lag
                        if 0 <= q < width:
                            values.append(M[p * d + i, q * d + j])
                            values.append(M[q * d + j, p * d + i])
                    result[s * d + i, t * d + j] = np.mean(values)
    return result


def naive_neighbors(queries, references, k):
    """Every distance, sorted; equal ones by row."""
    distances, rows = [], []
    for q in queries:
        everything = sorted(
            (float(np.sqrt(((q - r) ** 2).sum())), i) for i, r in enumerate(references)
        )
        distances.append([d for d, _ in everything[:k]])
        rows.append([i for _, i in everything[:k]])
    return np.array(distances), np.array(rows)
