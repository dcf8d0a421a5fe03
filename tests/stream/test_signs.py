"""Windows that overlap with seen ones, and copies, are found, against slow searches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlat import Stream
from mlat.stream.signs import FEWEST_STEPS, SeenWindows, count_seen, first_equal, without_copies


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
    assert SeenWindows([seen[:3], seen[3:]]).neighbours(every).tolist() == slow(seen, every)


def test_short_windows_say_nothing():
    windows = np.arange(30.0).reshape(10, 3, 1)
    assert not SeenWindows([windows[::2]]).neighbours(windows).any()


def slow_first_equal(values, segment, width):
    """For each step the first that it is a copy of, by looking at every stretch."""
    n = len(values)
    first = list(range(n))

    def places(length):
        found = {}
        for t in range(n - length + 1):
            if len(set(segment[t : t + length])) == 1 and segment[t] >= 0:
                found.setdefault(values[t : t + length].tobytes(), []).append(t)
        return found

    length = 8
    while length <= n:
        quarters, wholes = places(length // 4), places(length)
        copies = {}
        for stretch, where in wholes.items() if 2 * length > width else ():
            parts = [stretch[i * len(stretch) // 4 :][: len(stretch) // 4] for i in range(4)]
            if any(len(quarters[part]) != len(where) for part in parts):
                continue
            for earlier, t in pairwise(where):
                if segment[t] != segment[earlier] or t - earlier >= 10 * width:
                    copies[t] = t - earlier
        for step in range(n):
            last = max((t for t in copies if t <= step < t + length), default=None)
            if last is not None and first[step] == step:
                first[step] = step - copies[last]
        length *= 2
    for step in range(n):
        first[step] = first[first[step]]
    return first


@settings(max_examples=150)
@given(
    arrays(np.float64, st.integers(10, 60), elements=st.integers(0, 6)),
    st.integers(1, 20),
    st.data(),
)
def test_copies_as_a_slow_search(values, width, data):
    cuts = st.lists(st.integers(0, len(values)), min_size=2, max_size=2).map(sorted)
    parts = [values, *(values[slice(*data.draw(cuts))] for _ in range(3))]
    segment = np.repeat(np.arange(4), [len(part) for part in parts])
    segment[data.draw(st.lists(st.integers(0, len(segment) - 1), max_size=2))] = -1
    steps = np.concatenate(parts)[:, None]
    found = first_equal(steps, segment, width)
    assert found.tolist() == slow_first_equal(steps, segment, width)


def test_a_copied_recording_is_found_and_one_that_begins_in_another():
    noise = np.random.default_rng(0).normal(size=(500, 2))
    steps, segment = (
        np.concatenate([noise, noise[300:], noise]),
        np.repeat([0, 1, 2], [500, 200, 500]),
    )
    first = first_equal(steps, segment, 10)
    assert first.tolist() == [*range(500), *range(300, 500), *range(500)]


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.round(RNG.normal(size=2000)), 1.0),
        (np.repeat(RNG.integers(0, 2, 400), 5), 1.0),
        (np.cumsum(RNG.integers(-1, 2, 2000)), 1.0),
        (np.repeat(np.tile([0, 1, 3, 2], 250), RNG.integers(2, 4, 1000)), 1.0),
        (np.zeros(2000), 0.0),
        (np.tile(np.sin(np.arange(25)), 80), 0.0),
    ],
    ids=["rounded noise", "a switch", "a slow sensor", "a machine", "rest", "a period"],
)
def test_values_that_repeat_themselves_are_no_copies_until_they_are_copied(values, found):
    steps = values.astype(float)[:, None]
    n = len(steps)
    assert (first_equal(steps, np.zeros(n, int), 10) == np.arange(n)).all()
    first = first_equal(np.concatenate([steps, steps]), np.repeat([0, 1], n), 10)
    # Of a period that goes on and on, the first could be a copy.
    assert (first[n:] == np.arange(n)).mean() == pytest.approx(found, abs=0.02)


def test_copies_have_no_state_where_the_first_has_the_same():
    noise = np.random.default_rng(0).normal(size=(100, 2))
    states = np.repeat(["a", "b"], 50)
    other = np.where(np.arange(100) < 20, "b", states)
    stream = Stream(
        np.concatenate([noise] * 3),
        [*[""] * 100, *states, *other],
        recordings=np.repeat(["one", "two", "three"], 100),
    )
    with pytest.warns(UserWarning, match=r"80 of 200 .* step 220 \(three\) .* step 20 \(one\)"):
        once = without_copies(stream, 10)
    assert once.states.tolist() == [*[""] * 100, *states, *["b"] * 20, *[""] * 80]
    assert count_seen(noise, stream[150:220], 10) == 70
    assert count_seen(noise[:30], stream[150:220], 10) == 20
