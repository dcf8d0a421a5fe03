import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat import targets as module
from mlat.targets import select_targets
from naive import naive_targets


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.one_of(st.integers(0, 12), st.just("run")),
    st.integers(1, 3),
)
def test_targets_are_the_naive_ones(seed, k, gap, width):
    rng = np.random.default_rng(seed)
    runs = rng.integers(1, 5)
    code_of_run = np.concatenate([[0, 1], rng.integers(0, 2, runs)])
    sizes = rng.integers(5, 12, len(code_of_run))
    run = np.repeat(np.arange(len(sizes)), sizes)
    codes = code_of_run[run]
    start = np.concatenate([np.arange(s) + 50 * i for i, s in enumerate(sizes)])
    X = rng.normal(size=(len(run), 3))
    try:
        found = select_targets(X, codes, k, gap=gap, start=start, run=run, width=width)
    except InputError:
        expected = naive_targets(X, codes, k, gap, start, run, width)
        assert any((expected[codes == c] < 0).all() for c in (0, 1))
        return
    np.testing.assert_array_equal(found, naive_targets(X, codes, k, gap, start, run, width))


def test_blocks_of_rows_do_not_change_the_targets(monkeypatch):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 4)), np.repeat([0, 1], 25)
    when = {"start": np.arange(50), "run": codes}
    whole = select_targets(X, codes, 3, gap=5, **when)
    monkeypatch.setattr(module, "BLOCK", 7)
    np.testing.assert_array_equal(select_targets(X, codes, 3, gap=5, **when), whole)


def test_a_gap_keeps_neighbours_in_time_out():
    X = np.arange(40.0)[:, None]
    codes = np.repeat([0, 1], 20)
    when = {"start": np.arange(40), "run": codes}
    near = select_targets(X, codes, 1, gap=0, **when)
    far = select_targets(X, codes, 1, gap=6, **when)
    assert (np.abs(near[:, 0] - np.arange(40)) == 1).all()
    assert (np.abs(far[:, 0] - np.arange(40)) == 6).all()


def test_errors_name_the_state_and_the_remedy():
    X, codes = np.zeros((6, 1)), np.array([0, 0, 0, 0, 1, 1])
    when = {"start": np.arange(6), "run": codes, "names": np.array(["walk", "jump"])}
    with pytest.raises(
        InputError, match=r"state jump has fewer windows \(2\) than n_targets \(3\)"
    ):
        select_targets(X, codes, 3, **when)
    with pytest.raises(InputError, match="no two windows of state walk are 9 steps apart; lower"):
        select_targets(X, codes, 1, gap=9, **when)
