"""Slow, obvious versions of what expected alignment computes."""

import numpy as np


def naive_squared(x, y, p, q, weights):
    """Along the paths p and q (n_draws, longest), one place after the other."""
    total = 0.0
    for draw, place in np.ndindex(weights.shape):
        apart = x[p[draw, place]] - y[q[draw, place]]
        total += weights[draw, place] * (apart @ apart)
    return total


def violation(distances):
    """By how much the worst triplet breaks the triangle inequality."""
    return (distances[:, None, :] - distances[:, :, None] - distances[None, :, :]).max()
