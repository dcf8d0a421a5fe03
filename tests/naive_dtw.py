"""Slow, obvious versions of dynamic time warping, LDMLT and voting."""

from __future__ import annotations

from collections import defaultdict

import numpy as np


def every_path(n, m, band=None):
    """All monotone alignments of n and m steps, as lists of pairs."""

    def extend(path):
        a, b = path[-1]
        if band is not None and abs(a - b) > band:
            return
        if (a, b) == (n - 1, m - 1):
            yield path
        for step in ((a + 1, b + 1), (a + 1, b), (a, b + 1)):
            if step[0] < n and step[1] < m:
                yield from extend([*path, step])

    yield from extend([(0, 0)])


def path_cost(x, y, path):
    return sum(float(((x[a] - y[b]) ** 2).sum()) for a, b in path)


def cost_by_enumeration(x, y, band=None):
    return min(path_cost(x, y, path) for path in every_path(len(x), len(y), band))


def cost(x, y, band=None):
    """The textbook table, one row and column larger than the series."""
    n, m = len(x), len(y)
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0.0
    for a in range(n):
        for b in range(m):
            if band is None or abs(a - b) <= band:
                before = min(table[a, b], table[a, b + 1], table[a + 1, b])
                table[a + 1, b + 1] = ((x[a] - y[b]) ** 2).sum() + before
    return table[n, m]


def pairwise(X, Y, band=None):
    return np.array([[cost(x, y, band) for y in Y] for x in X])


def nearest(X, Y, k, band=None):
    costs = pairwise(X, Y, band)
    order = np.argsort(costs, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(costs, order, axis=1), order


def vote(labels, distances, n_classes):
    codes, proba = [], np.zeros((len(labels), n_classes))
    for i, (row, near) in enumerate(zip(labels, distances, strict=True)):
        count, total = defaultdict(int), defaultdict(float)
        for label, distance in zip(row, near, strict=True):
            count[label] += 1
            total[label] += distance
        codes.append(min(count, key=lambda c: (-count[c], total[c], c)))
        for label in count:
            proba[i, label] = count[label] / len(row)
    return np.array(codes), proba


def logdet_update(M, P, Q, gamma):
    """The update as Mei et al. print it; P and Q have a column per aligned step."""
    d = len(M)
    alpha = gamma / np.trace(np.linalg.inv(np.eye(d) - M) @ M @ Q @ Q.T)
    I_p, I_q = np.eye(P.shape[1]), np.eye(Q.shape[1])
    first = M - alpha * M @ P @ np.linalg.inv(I_p + alpha * P.T @ M @ P) @ P.T @ M
    inner = I_q - alpha * Q.T @ first @ Q
    second = first + alpha * first @ Q @ np.linalg.inv(inner) @ Q.T @ first
    return second / np.trace(second), np.linalg.eigvalsh(inner).min() > 0


def inversions(costs, codes):
    n = len(codes)
    return np.array(
        [
            sum(
                costs[i, k] < costs[i, j]
                for j in range(n)
                for k in range(n)
                if j != i and codes[j] == codes[i] and codes[k] != codes[i]
            )
            for i in range(n)
        ]
    )


def triplets(costs, codes, factor, skipped=3):
    n = len(codes)
    inverted = inversions(costs, codes)
    found = []
    for i in sorted(range(n), key=lambda i: codes[i]):
        side = round(np.sqrt(inverted[i] / inverted.sum() * factor * n))
        same = [j for j in range(n) if j != i and codes[j] == codes[i]]
        other = [k for k in range(n) if codes[k] != codes[i]]
        far = sorted(same, key=lambda j: -costs[i, j])
        near = sorted(other, key=lambda k: costs[i, k])
        far = far[min(skipped, len(far) - 1) :][:side]
        near = near[min(skipped, len(near) - 1) :][:side]
        found += [(i, j, k) for k in near for j in far]
    return np.array(found)
