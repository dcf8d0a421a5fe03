"""Streams whose states differ in a known way: in energy, or in level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlat import Stream
from mlat.classifier.state_filter import StateFilter


def lasting(clf, stay=0.98):
    """The classifier with a filter that acts, as if it had learned from longer runs."""
    n = len(clf.classes_)
    transition = np.full((n, n), (1 - stay) / (n - 1))
    np.fill_diagonal(transition, stay)
    clf.confidence_ = replace(clf.confidence_, state_filter=StateFilter(transition, 0.4))
    return clf


def late_by(codes, predicted):
    """How many steps after each switch the new state is predicted; infinite for never."""
    begins = np.flatnonzero(np.diff(codes)) + 1
    late = []
    for begin, end in zip(begins, np.append(begins[1:], len(codes)), strict=True):
        right = np.flatnonzero(predicted[begin:end] == codes[begin])
        late.append(right[0] if len(right) else np.inf)
    return np.array(late)


def energy_states(seed, run_length=300, n_runs=1, n_channels=2, factors=(0.5, 1.0, 2.0)):
    """Noise around 0 in every state, of another size in each: the level does not separate them."""
    return _runs(seed, run_length, n_runs, n_channels, [(0.0, factor) for factor in factors])


def level_states(seed, run_length=200, n_runs=3, misleading=False, recordings=False, gap=1.5):
    """Noise around another level in each state, in two channels.

    ``misleading`` draws the size of the noise anew for every run, whatever its state.
    ``recordings`` makes each run a recording of its own, without a switch.
    """
    levels = gap * np.array([[0, 0], [1, 0], [0, 1]])
    rng = np.random.default_rng(seed)
    sizes = [rng.choice([0.3, 0.6, 1.0, 1.5]) if misleading else 1.0 for _ in range(3 * n_runs)]
    which = np.tile(np.arange(3), n_runs)
    values = [
        size * rng.normal(size=(run_length, 2)) + levels[i]
        for i, size in zip(which, sizes, strict=True)
    ]
    return Stream(
        np.concatenate(values),
        np.repeat(np.array(["a", "b", "c"])[which], run_length),
        recordings=np.repeat(np.arange(3 * n_runs), run_length) if recordings else None,
    )


def clusters(seed, lengths, n_channels=2, noise=0.3, states=None, recordings=False):
    """One run per length, of noise around a place of its own; few steps separate them.

    ``recordings`` makes each run a recording of its own, without a switch.
    """
    names = [chr(ord("a") + i) for i in range(len(lengths))] if states is None else states
    kinds = sorted(set(names))
    place = {name: 3.0 * np.cos(2.4 * i + np.arange(n_channels)) for i, name in enumerate(kinds)}
    rng = np.random.default_rng(seed)
    values = [
        place[name] + noise * rng.normal(size=(length, n_channels))
        for name, length in zip(names, lengths, strict=True)
    ]
    return Stream(
        np.concatenate(values),
        np.repeat(list(names), lengths),
        recordings=np.repeat(np.arange(len(lengths)), lengths) if recordings else None,
    )


def _runs(seed, run_length, n_runs, n_channels, kinds):
    rng = np.random.default_rng(seed)
    values = [
        level + size * rng.normal(size=(run_length, n_channels))
        for _ in range(n_runs)
        for level, size in kinds
    ]
    names = [chr(ord("a") + i) for i in range(len(kinds))] * n_runs
    return Stream(np.concatenate(values), np.repeat(names, run_length))
