"""Random streams for hypothesis: switches, recordings, time gaps, missing values."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

unhurried = settings(deadline=None)  # a busy machine is no failure


@st.composite
def stream_parts(draw, max_steps=30):
    """The arguments of a Stream (values, states, recordings, time, max_gap), as plain lists."""
    n = draw(st.integers(0, max_steps))
    d = draw(st.integers(1, 3))
    cell = st.one_of(st.floats(-9, 9), st.floats(-9, 9), st.just(np.nan))
    clean = draw(st.booleans())
    row = st.lists(st.floats(-9, 9) if clean else cell, min_size=d, max_size=d)
    values = np.array(draw(st.lists(row, min_size=n, max_size=n)), dtype=float).reshape(n, d)
    states = draw(_stretches(st.sampled_from(["a", "b", "walk", ""]), n))
    recordings = draw(st.none() | _stretches(st.integers(0, 2), n))
    time = max_gap = None
    if draw(st.booleans()):
        ticks = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=n, max_size=n))
        time = np.cumsum(ticks).tolist()
        max_gap = draw(st.none() | st.sampled_from([1, 2.5]))
    return values, states, recordings, time, max_gap


@st.composite
def _stretches(draw, entries, n):
    """``n`` entries in stretches of a few equal ones."""
    result = []
    while len(result) < n:
        result += [draw(entries)] * draw(st.integers(1, 8))
    return result[:n]
