"""Squares of references in 8 bits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlat.export.square_codes import code_unit, encode_squares


@given(
    squares=arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e6)),
    breaks=st.lists(st.integers(1, 39), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_codes_say_every_square_to_within_its_own_change(squares, breaks):
    first = np.unique([0, *(b for b in breaks if b < len(squares))])
    unit = code_unit(squares, first)
    codes, begin, decoded = encode_squares(squares, first, unit)
    assert np.abs(codes).max() <= 127
    now, again = 0, []  # as the C decodes them
    for i, code in enumerate(codes.tolist()):
        now = int(begin[np.searchsorted(first, i)]) if i in first else now
        now += code * abs(code)
        again.append(now)
    np.testing.assert_array_equal(np.array(again) * unit, decoded)
    # Half a unit, and half of what lies between one code and the next.
    assert (np.abs(decoded - squares) <= unit * (np.abs(codes) + 1.01)).all()


def test_a_run_of_small_changes_is_stored_finely_beside_a_large_one():
    squares = np.array([100.0, 100.01, 100.03, 100.02, 180.0, 100.0, 100.01])
    first = np.array([0])
    decoded = encode_squares(squares, first, code_unit(squares, first))[2]
    error = np.abs(decoded - squares)
    assert error[:4].max() < 0.01
    assert error.max() < 80 / 127
