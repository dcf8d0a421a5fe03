"""Envelopes against the minimum and maximum of each block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.label.envelopes import COARSEST, PIECE, Envelopes


@settings(max_examples=15)
@given(st.integers(1, 400), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_every_level_is_the_range_of_its_blocks(n, seed, kind):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2)).astype(kind) * 10.0 ** rng.integers(-9, 9)
    values[rng.random(values.shape) < 0.1] = np.nan
    values = values.astype(kind)
    shape = Envelopes(values)
    relative = ((values - shape.middle) / shape.half).astype(np.float32)
    for level, block in enumerate(shape.blocks):
        pieces = [shape.piece(level, i) for i in range(shape.n_pieces(level))]
        found = np.concatenate(pieces)
        if level == 0:
            np.testing.assert_array_equal(found, relative)
            continue
        assert found.shape == (-(-n // block), 2, 2)
        for b in range(len(found)):
            part = relative[b * block : (b + 1) * block]
            for c in range(2):
                known = part[~np.isnan(part[:, c]), c]
                wanted = [known.min(), known.max()] if len(known) else [np.nan, np.nan]
                np.testing.assert_allclose(found[b, c], wanted, rtol=1e-5)


@pytest.mark.parametrize("n", [100_000, 3_000_000])
def test_the_coarsest_level_is_small_and_all_pieces_too(n):
    shape = Envelopes(np.zeros((n, 1), np.float32))
    last = len(shape.blocks) - 1
    assert n / shape.blocks[last] <= COARSEST
    assert len(shape.piece(last, 0)) <= PIECE
    assert shape.piece(last, 0)[0].tolist() == [[0, 0]]


def test_the_largest_numbers_have_a_finite_range():
    largest = np.finfo(np.float64).max
    shape = Envelopes(np.array([[-largest, 1e308], [largest, -1e308]] * 20))
    assert np.isfinite([shape.middle, shape.half]).all()
    assert np.abs(shape.piece(0, 0)).max() <= 2
