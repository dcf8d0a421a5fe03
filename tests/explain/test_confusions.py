"""Confusions of predicted and true states, counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat
from explain_models import train
from mlat.explain.confusions import count_confusions


@given(st.lists(st.tuples(st.sampled_from(["a", "bb", "c", ""]), st.sampled_from(["a", "bb", ""]))))
def test_confusions_are_counted(pairs):
    true, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    if not any(true):
        with pytest.raises(mlat.InputError, match="no states"):
            count_confusions(np.array(true, dtype=str), np.array(predicted, dtype=str))
        return
    found = count_confusions(true, predicted, known=["known"])
    assert "known" in found.states
    for i, t in enumerate(found.states):
        for j, p in enumerate(found.states):
            assert found.counts[i, j] == pairs.count((t, p))
    judged = [(t, p) for t, p in pairs if t and p]
    assert found.n_judged == len(judged)
    assert found.n_unjudged == sum(bool(t) and not p for t, p in pairs)
    if judged:
        assert found.accuracy == sum(t == p for t, p in judged) / len(judged)


def test_recall_and_precision():
    found = count_confusions([0, 0, 0, 1, 2], [0, 0, 1, 1, -1], known=[0, 1, 3])
    assert found.states.tolist() == [0, 1, 2, 3]
    assert np.array_equal(found.recall, [2 / 3, 1, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found.precision, [1, 1 / 2, np.nan, np.nan], equal_nan=True)
    assert np.isnan(count_confusions(["a"], [""]).accuracy)


def test_confusions_of_what_does_not_fit_are_refused():
    with pytest.raises(mlat.InputError, match="names and others numbers"):
        count_confusions(["a"], [1])
    with pytest.raises(mlat.InputError, match="one entry per step"):
        count_confusions(["a", "b"], ["a"])
    with pytest.raises(mlat.InputError, match="1 predicted states for 480 steps"):
        count_confusions(train, ["a"])
