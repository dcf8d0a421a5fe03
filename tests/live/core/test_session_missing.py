import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_models import names, sizes, two_channels
from live_oracles import (
    assert_as_batch,
    comparable,
    hold_naively,
    push_all,
    recordings,
)
from mlat import Stream

EXACT = {"search": "exact", "far": None}


@st.composite
def holed(draw, n_steps=40):
    """Values of which some are missing, singly and in stretches."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=(n_steps, 2))
    for _ in range(draw(st.integers(0, 5))):
        start, length = draw(st.integers(0, n_steps - 1)), draw(st.integers(1, 5))
        values[start : start + length, draw(st.sampled_from([[0], [1], [0, 1]]))] = np.nan
    return values


@given(names, holed(), sizes, st.booleans())
def test_abstaining_is_predict_with_missing_values(name, values, sizes, filtered):
    clf = two_channels(name)
    live = clf.live(**EXACT, filtered=filtered)
    predictions = push_all(live, values, sizes)
    assert_as_batch(clf, predictions, values, filtered=filtered)
    missing = np.isnan(values).any(axis=1)
    assert all(predictions[t].why == "missing" for t in np.flatnonzero(missing))
    assert live.counters["missing"] == missing.sum()


@given(names, holed(), sizes, st.integers(1, 4), st.sets(st.integers(1, 39), max_size=2))
def test_holding_is_predict_on_the_filled_stream(name, values, sizes, hold, jumps):
    clf = two_channels(name)
    gap = np.isin(np.arange(len(values)), [*jumps])
    live = clf.live(**EXACT, missing="hold", hold=hold)
    predictions = push_all(live, values, sizes, seq=np.arange(len(values)) + 5 * np.cumsum(gap))
    filled = hold_naively(values, hold, gap)
    assert_as_batch(clf, predictions, Stream(filled, recordings=recordings(gap)))
    missing, lacking = np.isnan(filled).any(axis=1), np.isnan(values).any(axis=1)
    assert live.counters["missing"] == missing.sum()
    assert live.counters["held"] == (lacking & ~missing).sum()
    assert live.counters["gaps"] == gap.sum()


@given(names, holed(), sizes)
def test_rejecting_is_predict_without_these_steps(name, values, sizes):
    clf = two_channels(name)
    live = clf.live(**EXACT, missing="reject")
    predictions = push_all(live, values, sizes)
    kept = ~np.isnan(values).any(axis=1)
    after = np.cumsum(~kept)[kept]  # another recording after every refusal
    assert_as_batch(clf, predictions, Stream(values[kept], recordings=after))
    assert live.counters["rejected"] == (~kept).sum()
    assert live.counters["accepted"] == kept.sum()


def test_the_reasons_follow_each_other():
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[8, 0] = np.nan
    seq = np.arange(20) + (np.arange(20) >= 14)
    told = two_channels("plain").live(**EXACT).push(values, seq=seq)
    assert [p.why for p in told] == (
        ["filling"] * 3 + [""] * 5 + ["missing"] * 4 + [""] * 2 + ["gap"] * 3 + [""] * 3
    )


@pytest.mark.parametrize("missing", ["abstain", "hold", "reject"])
def test_an_infinite_value_is_refused(missing):
    clf = two_channels("plain")
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[9, 1], values[10, 0] = np.inf, -np.inf
    live = clf.live(**EXACT, missing=missing)
    kept = np.delete(np.arange(20), [9, 10])
    assert_as_batch(
        clf, push_all(live, values, [3]), Stream(values[kept], recordings=(kept > 10) * 1)
    )
    assert live.counters["infinite"] == live.counters["rejected"] == 2
    assert live.counters["gaps"] == 1


@st.composite
def spiked(draw, n_steps=40):
    """Values of which some are finite, and beyond everything that could be learned."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=(n_steps, 2))
    sizes = st.sampled_from([1e101, 1e154, 1e155, 1e200, np.finfo(float).max])
    for _ in range(draw(st.integers(1, 5))):
        start, length = draw(st.integers(0, n_steps - 1)), draw(st.integers(1, 5))
        spike = draw(sizes) * draw(st.sampled_from([-1, 1]))
        values[start : start + length, draw(st.sampled_from([[0], [1], [0, 1]]))] = spike
    return values


@pytest.mark.filterwarnings("ignore:channel:UserWarning")
@given(names, spiked(), sizes, st.booleans())
def test_extreme_values_are_missing_here_and_in_predict(name, values, sizes, filtered):
    clf = two_channels(name)
    live = clf.live(**EXACT, filtered=filtered)
    predictions = push_all(live, values, sizes)
    assert_as_batch(clf, predictions, values, filtered=filtered)
    extreme = np.abs(values) > 1e101 / 2
    missing = extreme.any(axis=1)
    assert_as_batch(clf, predictions, np.where(extreme, np.nan, values), filtered=filtered)
    assert live.counters["missing"] == live.counters["extreme"] == missing.sum()
    assert all(predictions[t].why == "missing" for t in np.flatnonzero(missing))
    assert len(live.warnings) == 1
    assert "values more than 1e+100 deviations away count as missing" in live.warnings[0]


@given(names, spiked(), sizes)
def test_an_incremental_session_outlives_extreme_values(name, values, sizes):
    clf = two_channels(name)
    broken = np.where(np.abs(values) > 1e100, np.nan, values)
    # As with the missing values that they are, and after a snapshot, too.
    sessions = [clf.live(search="incremental", far=None) for _ in range(3)]
    told = push_all(sessions[0], values, sizes)
    assert comparable(told) == comparable(push_all(sessions[1], broken, sizes))
    half = len(values) // 2
    before = sessions[2].push(values[:half])
    restored = clf.live(search="incremental", far=None)
    restored.restore(sessions[2].snapshot())
    assert comparable(before + restored.push(values[half:])) == comparable(told)
    assert restored.counters == sessions[0].counters


@pytest.mark.parametrize("missing", ["hold", "reject"])
def test_an_extreme_value_meets_the_policy_for_missing_ones(missing):
    clf = two_channels("plain")
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[9, 1], values[10, 0] = 1e155, -1e308
    live, other = (clf.live(**EXACT, missing=missing) for _ in range(2))
    broken = np.where(np.abs(values) > 1e100, np.nan, values)
    assert comparable(live.push(values)) == comparable(other.push(broken))
    assert live.counters == other.counters | {"extreme": 2}
    assert live.counters["infinite"] == 0


def test_a_value_that_is_large_and_no_more_is_compared():
    clf = two_channels("plain")
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[9, 1] = 1e90
    live = clf.live(**EXACT)
    assert_as_batch(clf, live.push(values), values)
    assert live.counters["extreme"] == live.counters["missing"] == 0
