from __future__ import annotations

import doctest
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat.stream.windows
from doc_examples import DOCS, run_examples
from mlat.base.errors import InputError
from mlat.stream.stream import Stream
from mlat.stream.windows import fold, sliding_windows, warn_if_misfolded
from naive import naive_windows
from stream_strategies import stream_parts, unhurried


def test_examples():
    assert doctest.testmod(mlat.stream.windows).failed == 0
    run_examples(DOCS / "guide/windows.md")


def quiet_windows(stream, *args, **kwargs):
    """The windows without the warning for states that give none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sliding_windows(stream, *args, **kwargs)


@unhurried
@given(stream_parts(), st.integers(1, 6), st.integers(1, 4))
def test_windows_are_the_naive_ones(parts, width, stride):
    values, states, recordings, time, max_gap = parts
    stream = Stream(values, states, recordings=recordings, time=time, max_gap=max_gap)
    expected = naive_windows(values, states, width, stride, recordings, time, max_gap)
    if not expected:
        with pytest.raises(InputError):
            sliding_windows(stream, width, stride=stride)
        return
    windows = quiet_windows(stream, width, stride=stride)
    found = zip(windows.start.tolist(), windows.run.tolist(), windows.y.tolist(), strict=True)
    assert list(found) == expected
    rows = np.array([values[start : start + width] for start, _, _ in expected])
    np.testing.assert_array_equal(windows.X, rows)
    np.testing.assert_array_equal(windows.view[windows.start], rows)


@unhurried
@given(stream_parts(), st.integers(1, 6), st.integers(1, 4))
def test_windows_of_any_state_cross_switches_only(parts, width, stride):
    values, states, recordings, time, max_gap = parts
    stream = Stream(values, states, recordings=recordings, time=time, max_gap=max_gap)
    windows = sliding_windows(stream, width, stride=stride, labelled=False)
    one_state = ["s"] * len(values)
    expected = naive_windows(values, one_state, width, stride, recordings, time, max_gap)
    assert list(zip(windows.start, windows.run, strict=True)) == [(t, r) for t, r, _ in expected]
    assert windows.y.tolist() == [states[t + width - 1] for t, _, _ in expected]
    assert windows.X.shape == (len(expected), width, values.shape[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stride", [1, 3])
def test_the_windows_of_one_run_share_memory_with_the_stream(dtype, stride):
    values = np.arange(40, dtype=dtype).reshape(20, 2)
    windows = sliding_windows(Stream(values, ["a"] * 20), 5, stride=stride)
    assert np.shares_memory(windows.X, values)
    assert windows.X.dtype == dtype


@unhurried
@given(stream_parts(), st.integers(1, 6))
def test_the_view_never_copies(parts, width):
    values, states, *_ = parts
    windows = sliding_windows(Stream(values, states), width, labelled=False)
    assert windows.view.shape == (max(0, len(values) - width + 1), width, values.shape[1])
    if windows.view.size:
        assert np.shares_memory(windows.view, values)
        assert not windows.view.flags.writeable


@pytest.mark.parametrize("order", ["C", "F"])
def test_windows_of_several_runs_are_gathered_row_by_row(order):
    values = np.array(np.arange(20.0).reshape(10, 2), order=order)
    stream = Stream(values, ["a"] * 6 + ["b"] * 4)
    windows = sliding_windows(stream, 3)
    assert windows.X.flags.c_contiguous
    assert not windows.X.flags.writeable
    assert windows.X is windows.X
    assert windows.X.reshape(len(windows), -1)[4].tolist() == list(range(12, 18))


def test_take_and_by_run():
    stream = Stream(np.arange(12.0), ["a"] * 5 + ["b"] * 3 + ["a"] * 4)
    windows = sliding_windows(stream, 2)
    assert [(run, rows.tolist()) for run, rows in windows.by_run()] == [
        (0, [0, 1, 2, 3]),
        (1, [4, 5]),
        (2, [6, 7, 8]),
    ]
    some = windows.take(windows.y == "b")
    assert some.start.tolist() == [5, 6]
    backwards = windows.take(np.array([8, 0]))
    assert backwards.X[:, 0, 0].tolist() == [10.0, 0.0]
    assert [run for run, _ in backwards.by_run()] == [0, 2]
    one = windows.take(np.array([3]))
    assert np.shares_memory(one.X, stream.values)
    none = windows.take(np.array([], dtype=int))
    assert none.X.shape == (0, 2, 1)
    assert list(none.by_run()) == []


def test_a_state_too_short_for_a_window_is_warned_of():
    stream = Stream(np.arange(8.0), ["a"] * 5 + ["b"] * 3)
    with pytest.warns(UserWarning, match="no run of b is 4 steps long") as caught:
        windows = sliding_windows(stream, 4)
    assert set(windows.y) == {"a"}
    assert caught[0].filename == __file__


NAN = float("nan")


@pytest.mark.parametrize(
    ("stream", "arguments", "message"),
    [
        (Stream([]), {"width": 1}, "the stream is empty"),
        (Stream([1.0, 2.0]), {"width": 1}, "the stream has no states"),
        (Stream([1.0, 2.0], ["", ""]), {"width": 1}, "the stream has no states"),
        (
            Stream([[NAN, 0.0], [NAN, 0.0], [0.0, NAN], [0.0, 0.0]], ["a", "a", "b", ""]),
            {"width": 1},
            "every labelled step misses a value, 67% of them in channel 'x0'",
        ),
        (
            Stream(np.zeros(5), ["a"] * 2 + ["b"] * 3),
            {"width": 4},
            "width 4 is longer than every run; the longest is 3 steps of b at step 2",
        ),
        (Stream([1.0], ["a"]), {"width": 0}, "width must be a whole number of steps"),
        (Stream([1.0], ["a"]), {"width": 1.0}, "width must be a whole number of steps"),
        (Stream([1.0], ["a"]), {"width": True}, "width must be a whole number of steps"),
        (Stream([1.0], ["a"]), {"width": 1, "stride": 0}, "stride must be a whole number"),
    ],
)
def test_bad_windows(stream, arguments, message):
    with pytest.raises(InputError, match=message):
        sliding_windows(stream, **arguments)


def test_a_stream_too_short_has_no_window_of_any_state_and_no_error():
    windows = sliding_windows(Stream([[1.0, 2.0]]), 3, labelled=False)
    assert len(windows) == 0
    assert windows.X.shape == windows.view.shape == (0, 3, 2)
    assert windows.y.shape == (0,)


def smooth(n_steps, n_channels, seed=0):
    """Channels that change slowly, each around 0 with a variance of 1."""
    rng = np.random.default_rng(seed)
    values = np.zeros((n_steps, n_channels))
    for step in range(1, n_steps):
        values[step] = 0.97 * values[step - 1] + 0.25 * rng.normal(size=n_channels)
    return values


def said(X, width=None):
    """The warning about how an array is folded, or ""."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_misfolded(X, fold(X, width))
    return str(caught[0].message) if caught else ""


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("offsets", [0.0, 5.0])
@pytest.mark.parametrize("n_channels", [2, 3, 5])
def test_a_wrong_fold_gives_a_warning(in_order, offsets, n_channels):
    values = smooth(2000, n_channels) + offsets * np.array([0, 3, 1, 4, 2])[:n_channels]
    X = sliding_windows(Stream(values, ["a"] * 2000), 12).X
    if not in_order:
        X = X[np.random.default_rng(0).permutation(len(X))]
    flat = X.reshape(len(X), -1)
    assert said(X) == said(flat, 12) == ""
    turned = np.ascontiguousarray(X.transpose(0, 2, 1))
    assert "X.transpose(0, 2, 1)" in said(turned)
    assert f"12 steps of {n_channels} channels" in said(flat)
    assert "give width=12" in said(flat)
    if in_order:  # the windows themselves show it
        assert "give width=12" in said(flat, 6)
        assert f"{n_channels} channels one after the other" in said(turned.reshape(len(X), -1), 12)


STEPS = np.arange(2000)
PLAIN = {
    "noise": np.random.default_rng(0).normal(size=(2000, 3)),
    "noise at different levels": np.random.default_rng(0).normal([9, 0, -9], size=(2000, 3)),
    "one channel": smooth(2000, 1),
    **{f"period {p}": np.sin(2 * np.pi * STEPS / p)[:, None] for p in (2.1, 3, 4, 6, 12, 24)},
    "oscillations": np.sin(2 * np.pi * STEPS[:, None] / [3, 4, 6]),
    "constant": np.ones((2000, 2)),
}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("values", PLAIN.values(), ids=PLAIN)
def test_a_right_fold_gives_none(in_order, values):
    X = sliding_windows(Stream(values, ["a"] * 2000), 12).X
    if not in_order:
        X = X[np.random.default_rng(0).permutation(len(X))]
    flat = X.reshape(len(X), -1)
    assert said(X) == said(flat, 12) == ""
    if values.shape[1] == 1:
        assert said(flat) == ""
