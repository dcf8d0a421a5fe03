import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric.problem import Unit


@given(st.integers(0, 2**32 - 1), st.integers(-1000, 1000))
def test_the_largest_range_is_near_1(seed, power):
    values = np.ldexp(np.random.default_rng(seed).normal(size=(20, 3)) + np.arange(3), power)
    unit = Unit.of(values.min(axis=0), values.max(axis=0))
    assert 0.5 <= np.ptp(unit(values), axis=0).max() < 1
    np.testing.assert_array_equal(np.ldexp(unit(values), unit.exponent), values)


def test_the_largest_numbers_have_a_unit():
    values = np.array([[-1.0], [1.0]]) * np.finfo(float).max
    unit = Unit.of(values.min(axis=0), values.max(axis=0))
    assert np.abs(unit(values)).max() < 1


def test_what_does_not_vary_is_subtracted_where_it_towers_above_the_rest():
    values = np.array([[1e300, 1.0, 7.0], [1e300, 2.0, 7.0]])
    np.testing.assert_array_equal(
        Unit.of(values.min(axis=0), values.max(axis=0))(values), [[0, 0.5, 3.5], [0, 1, 3.5]]
    )
    assert not Unit.of(values[0], values[0])(values[:1]).any()
