import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat.metric import nearest as module
from mlat.metric.targets import select_targets
from mlat.stream.windows import Windows
from naive import naive_targets


def targets_of(X, codes, n_targets, *, start, run, width=1, **more):
    """The targets of flat windows."""
    windows = Windows.of_array(X.reshape(len(X), width, -1), codes, start, run)
    return select_targets(windows, n_targets, start=start, run=run, **more)


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
    # Sometimes far apart, sometimes a lost sample away, sometimes each from 0.
    between = rng.choice([0, 15, 50])
    start = np.concatenate([np.arange(s) + between * i for i, s in enumerate(sizes)])
    X = rng.normal(size=(len(run), 3 * width))
    try:
        found = targets_of(X, codes, k, gap=gap, start=start, run=run, width=width)
    except InputError:
        expected = naive_targets(X, codes, k, gap, start, run, width)
        assert any((expected[codes == c] < 0).all() for c in (0, 1))
        return
    np.testing.assert_array_equal(found, naive_targets(X, codes, k, gap, start, run, width))


def test_blocks_of_rows_do_not_change_the_targets(monkeypatch):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 4)), np.repeat([0, 1], 25)
    when = {"start": np.arange(50), "run": codes}
    whole = targets_of(X, codes, 3, gap=5, **when)
    monkeypatch.setattr(module, "BLOCK", 7)
    np.testing.assert_array_equal(targets_of(X, codes, 3, gap=5, **when), whole)


def test_a_gap_keeps_neighbours_in_time_out():
    X = np.arange(40.0)[:, None]
    codes = np.repeat([0, 1], 20)
    when = {"start": np.arange(40), "run": codes}
    near = targets_of(X, codes, 1, gap=0, **when)
    far = targets_of(X, codes, 1, gap=6, **when)
    assert (np.abs(near[:, 0] - np.arange(40)) == 1).all()
    assert (np.abs(far[:, 0] - np.arange(40)) == 6).all()


def test_errors_name_the_state_and_the_remedy():
    X, codes = np.zeros((6, 1)), np.array([0, 0, 0, 0, 1, 1])
    when = {"start": np.arange(6), "run": codes, "names": np.array(["walk", "jump"])}
    with pytest.raises(
        InputError, match=r"state jump has fewer windows \(2\) than n_targets \(3\)"
    ):
        targets_of(X, codes, 3, **when)
    with pytest.raises(InputError, match="no two windows of state walk are 9 steps apart; lower"):
        targets_of(X, codes, 1, gap=9, **when)


def test_another_run_is_preferred_and_a_lost_sample_makes_none():
    X = np.repeat(np.arange(60.0)[:, None], 2, axis=1)
    codes = np.zeros(60, int)
    codes[50:] = 1
    run = np.repeat([0, 1, 2], [25, 25, 10])
    far = np.concatenate([np.arange(25), 1000 + np.arange(25), 2000 + np.arange(10)])
    targets = targets_of(X, codes, 1, gap="run", start=far, run=run, width=2)[:50, 0]
    assert ((targets < 25) != (np.arange(50) < 25)).all()
    near = np.concatenate([np.arange(25), 26 + np.arange(25), 2000 + np.arange(10)])
    targets = targets_of(X, codes, 1, gap="run", start=near, run=run, width=2)[:50, 0]
    apart = np.abs(near[targets] - near[:50])
    assert apart.min() == 10
    assert apart.max() <= 11
