"""How long to wait before the next try to connect."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlat.live.sources.source import CAP, LASTING, Tries, delay


@given(st.integers(0, 10_000), st.integers())
def test_a_delay_is_within_a_ceiling_that_doubles(failures, seed):
    ceiling = delay(failures, lambda low, high: high)
    assert 0 <= delay(failures, random.Random(seed).uniform) <= ceiling <= CAP
    if failures:
        assert delay(failures + 1, lambda low, high: high) == min(2 * ceiling, CAP)


def test_jitter_is_full():
    draws = [delay(5, random.Random(seed).uniform) for seed in range(2000)]
    np.testing.assert_allclose(np.quantile(draws, [0.1, 0.5, 0.9]), [0.8, 4.0, 7.2], rtol=0.15)


def test_tries_give_up_and_recover():
    tries = Tries(max_tries=3, uniform=lambda low, high: high)
    assert [tries.could_not_connect() for _ in range(2)] == [0.5, 1.0]
    assert not tries.given_up
    tries.connected()
    assert tries.lost(held=LASTING - 1) == 2.0  # one that does not last ends no series
    assert tries.lost(held=LASTING + 1) == 0.5
    for _ in range(3):
        tries.could_not_connect()
    assert tries.given_up
