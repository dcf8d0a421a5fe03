"""A forest as plain numbers: fewer trees, fewer leaves."""

import numpy as np
import pytest

from export_models import FRESH, SHAPES, TRAIN
from mlat import StreamClassifier
from mlat.export import PlainModel


@pytest.fixture(scope="module")
def model():
    return PlainModel.of(StreamClassifier(**SHAPES["forest"]).fit(TRAIN))


def windows_of(model):
    steps = model.start[:, None] + np.arange(model.width)
    return model.steps[steps]


def test_the_order_of_trees_changes_no_point_and_the_first_are_nearer_to_all(model):
    windows = windows_of(model) + np.random.default_rng(0).normal(size=(1, model.width, 1)) / 4
    (one,), (ranked,) = model.forests, model.ranked(windows).forests
    seen = windows[..., one.columns]
    np.testing.assert_allclose(ranked.points_of(seen), one.points_of(seen), atol=1e-12)
    for n in (2, 5, 10):
        apart = [
            ((fewer.points_of(seen) - one.points_of(seen)) ** 2).sum()
            for fewer in (ranked.with_trees(n, seen), one.with_trees(n, seen))
        ]
        assert apart[0] < apart[1]


def test_in_8_bits_links_have_8_bits_and_points_stay_near(model):
    (one,) = model.forests
    assert len(one.leaves) > 10
    few = one._of_few_leaves(10)
    assert len(few.leaves) <= 10
    np.testing.assert_allclose(few.leaves.sum(axis=1), 1 / len(one.sizes))
    stored = one.in_bits(np.ones(model.steps.shape[1]) / 32, 8)
    assert len(stored.forest.leaves) + stored.forest.sizes.max() <= 256
    told = stored.in_reals(np.ones(model.steps.shape[1]) / 32)
    seen = windows_of(model)[..., one.columns]
    assert np.abs(told.points_of(seen) - one.points_of(seen)).mean() < 0.03


def test_fewer_trees_are_those_of_the_model_alone(model):
    (one,) = model.with_trees(3).forests
    assert len(one.sizes) == 3
    fresh = np.lib.stride_tricks.sliding_window_view(FRESH.values, model.width, axis=0)
    points = one.points_of(fresh.transpose(0, 2, 1))
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
