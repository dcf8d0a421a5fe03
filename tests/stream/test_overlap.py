"""Windows that overlap with seen ones are found, against a slow search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlat.stream.overlap import FEWEST_STEPS, SeenWindows


def slow(seen, windows):
    def near(window):
        follows = any((window[:-1] == s[1:]).all() or (window[1:] == s[:-1]).all() for s in seen)
        is_seen = any((window == s).all() for s in seen)
        changes = (window[1:-1] != window[1]).any()
        return bool(follows and changes and not is_seen)

    return [near(window) for window in windows]


@settings(max_examples=80)
@given(
    arrays(
        np.float64, st.tuples(st.integers(12, 40), st.integers(1, 2)), elements=st.integers(-1, 2)
    ),
    st.integers(FEWEST_STEPS, 6),
    st.data(),
)
def test_as_a_slow_search(values, width, data):
    every = np.stack([values[i : i + width] for i in range(len(values) - width + 1)])
    rows = data.draw(st.sets(st.integers(0, len(every) - 1), min_size=1))
    seen = every[sorted(rows)]
    assert SeenWindows(seen).neighbours(every).tolist() == slow(seen, every)


def test_short_windows_say_nothing():
    windows = np.arange(30.0).reshape(10, 3, 1)
    assert not SeenWindows(windows[::2]).neighbours(windows).any()
