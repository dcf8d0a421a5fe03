"""Slow, obvious versions of everything fast: what the tests compare with."""

from __future__ import annotations

import math
import statistics

import numpy as np

from mlat.metric.forest import Forest

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
    """Maximal segments of one state, as (start, stop, state); "" is no state."""
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


def naive_windows(values, states, width, stride=1, recordings=None, time=None, max_gap=None):
    """Every ``stride``-th window of each run, as (start, run, state)."""
    windows = []
    runs = naive_runs(values, states, recordings, time, max_gap)
    for run, (start, stop, state) in enumerate(runs):
        for t in range(start, stop, stride):
            if t + width <= stop:
                windows.append((t, run, state))
    return windows


# --- Lifts --------------------------------------------------------------------------------------


def naive_lift(values, name, reach):
    """One map of every channel of one recording, step by step from what it looks back at."""
    result = []
    for t, row in enumerate(values):
        lifted = []
        for channel, now in enumerate(row):
            past = [values[s][channel] for s in range(max(0, t - reach + 1), t + 1)]
            steps = [
                values[s][channel] - values[s - 1][channel] if s else 0.0
                for s in range(max(0, t - reach + 1), t + 1)
            ]
            mean = math.fsum(past) / len(past)
            lifted.append(
                {
                    "identity": now,
                    "rectified": abs(now),
                    "log_magnitude": math.log(abs(now) + 1e-2),
                    "difference": steps[-1],
                    "low_pass": mean,
                    "running_magnitude": math.log(
                        math.fsum(abs(x) for x in past) / len(past) + 1e-3
                    ),
                    "running_deviation": math.log(
                        math.sqrt(math.fsum((x - mean) ** 2 for x in past) / len(past)) + 1e-3
                    ),
                    "running_difference": math.log(
                        math.sqrt(math.fsum(x * x for x in steps) / len(past)) + 1e-3
                    ),
                }[name]
            )
        result.append(lifted)
    return np.array(result, dtype=float).reshape(len(values), -1)


# --- Phase II ---------------------------------------------------------------------------------


def naive_targets(X, codes, k, gap, start, run, width):
    """Nearest permitted windows of the same state, one pair at a time."""
    X = np.asarray(X).reshape(len(X), -1)
    targets = np.full((len(X), k), -1)
    for code in set(codes):
        same = [i for i in range(len(X)) if codes[i] == code]
        episode = naive_episodes(same, start, run, 5 * width)
        spread = max(start[i] for i in same) - min(start[i] for i in same)
        one = len(set(episode.values())) == 1
        for i in same:
            permitted = []
            for j in same:
                apart = abs(int(start[i]) - int(start[j]))
                if gap != "run":
                    allowed = run[i] != run[j] or apart >= gap
                elif one:
                    allowed = apart >= min(5 * width, spread // 2)
                else:
                    allowed = episode[i] != episode[j]
                if allowed and j != i:
                    permitted.append((float(((X[i] - X[j]) ** 2).sum()), j))
            for place, (_, j) in enumerate(sorted(permitted)[:k]):
                targets[i, place] = j
    return targets


def naive_episodes(rows, start, run, gap):
    """Which rows belong together: runs that follow each other within ``gap`` steps."""
    spans = {}
    for i in rows:
        low, high = spans.get(run[i], (start[i], start[i]))
        spans[run[i]] = (min(low, start[i]), max(high, start[i]))
    ordered = sorted(spans, key=lambda r: (spans[r][0], r))
    number, of_run = 0, {}
    for place, r in enumerate(ordered):
        if place:
            between = spans[r][0] - spans[ordered[place - 1]][1]
            number += not 0 < between < gap
        of_run[r] = number
    return {i: of_run[run[i]] for i in rows}


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
    """Eq. 10, entry by entry: average over every place where a block's entry occurs."""
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


# --- The protocol of whole streams -------------------------------------------------------------


def naive_stream_split(values, states, recordings, width, given, second=False):
    """What is given and what is tested, step by step.

    Returns the given steps, the starts of their windows, the test steps, those that count with
    their states, and the states left out.
    """
    n = len(values)
    number = [0] * n  # of each step's recording
    for t in range(1, n):
        number[t] = number[t - 1] + (recordings is not None and recordings[t] != recordings[t - 1])
    missing = [any(math.isnan(value) for value in row) for row in values]

    def is_window(start, inside):
        steps = range(start, start + width)
        return (
            start >= 0
            and start + width <= n
            and all(t in inside and not missing[t] for t in steps)
            and len({number[t] for t in steps}) == 1
        )

    left_out = set()
    while True:
        kept = sorted({state for state in states if state != ""} - left_out)
        taken = set()
        for state in kept:
            steps = [t for t in range(n) if states[t] == state]
            if second:
                taken |= {t for t in steps if number[t] == 0}
            else:
                taken |= set(steps[: min(given, int(0.35 * len(steps)))])
        starts = [
            t
            for t in range(n)
            if is_window(t, taken) and len({states[s] for s in range(t, t + width)}) == 1
        ]
        count = {state: sum(states[t] == state for t in starts) for state in kept}
        if any(c < 4 for c in count.values()):
            left_out |= {state for state, c in count.items() if c < 4}
            continue
        if second:
            test = {t for t in range(n) if number[t] == 1}
        else:
            test = {
                t
                for t in range(n)
                if all(abs(t - s) > width or number[t] != number[s] for s in taken)
            }
        counted = [
            (t, states[t]) for t in sorted(test)
            if states[t] in kept and is_window(t - width + 1, test)
        ]  # fmt: skip
        lost = set(kept) - {state for _, state in counted}
        if not lost:
            return taken, starts, sorted(test), counted, left_out
        left_out |= lost


# --- The committee ------------------------------------------------------------------------------


def naive_expert_distances(clf, stream):
    """The distance of each expert to its nearest reference of each state: M lists of rows (S,).

    Window by window and reference by reference, from the matrix of each metric.
    """
    features, ends = clf.features(stream), np.flatnonzero(clf.ends_window(stream))
    found = []
    for expert in clf.experts_:
        w = expert.windows.width
        seen, known = (
            steps[:, expert.view.columns] @ _or_identity(expert.view.mixing, expert.view.columns)
            for steps in (features, expert.steps)
        )
        if isinstance(expert.metric, Forest):  # Euclidean, between what the trees say
            seen, known = (_forest_points(expert.metric, steps) for steps in (seen, known))
            M = np.eye(seen.shape[1])
        else:
            M = np.eye(w * seen.shape[1]) if expert.metric is None else expert.metric.metric_
        rows = np.full((len(stream), len(clf.classes_)), np.nan)
        for end in ends:
            window = seen[end - w + 1 : end + 1].ravel()
            for code, state in enumerate(clf.classes_):
                squared = []
                for start in expert.windows.start[expert.windows.y == state]:
                    difference = window - known[start : start + w].ravel()
                    squared.append(difference @ M @ difference)
                rows[end, code] = math.sqrt(max(min(squared), 0.0))
        found.append(rows)
    return found


def _forest_points(forest, steps):
    """The mean distribution of the leaves of single steps, tree by tree; NaN where one misses."""
    points = np.full((len(steps), forest.value_.shape[1]), np.nan)
    for i in np.flatnonzero(~np.isnan(steps).any(axis=1)):
        leaves = []
        for node in forest.roots_:
            while forest.feature_[node] >= 0:
                right = steps[i, forest.feature_[node]] > forest.threshold_[node]
                node = forest.child_[node] + right
            leaves.append(forest.value_[node])
        points[i] = np.mean(leaves, axis=0)
    return points


def _or_identity(mixing, columns):
    return np.eye(len(columns)) if mixing is None else mixing


def naive_product(distances, weights, typical, soft):
    """The product of experts: each distance in units of its typical value, to its power."""
    product = np.ones_like(distances[0])
    for one, weight, unit in zip(distances, weights, typical, strict=True):
        product *= (one / unit + soft) ** weight
    return product
