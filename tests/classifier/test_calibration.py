import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from left_out_streams import learn, stream
from mlat import InputError
from mlat.classifier.confidence import SOFT, Calibration, fit_calibration

seeds = st.integers(0, 2**32 - 1)


def random_distances(seed, n=30):
    """Distances of many scales, with equal ones and zeros."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(1, 6))
    nearest = np.exp(rng.normal(scale=rng.choice([0.1, 3.0]), size=(n, n_classes)))
    if rng.random() < 0.5:
        nearest = np.floor(nearest)
    return nearest * 10.0 ** rng.integers(-30, 30)


def drawn_by_the_model(beta, rng, n=4000, n_classes=4):
    """Distances, and states drawn with the probabilities that the model gives them."""
    nearest = np.exp(rng.normal(scale=0.5, size=(n, n_classes)))
    typical = np.median(nearest.min(axis=1))
    weight = (nearest / typical + SOFT) ** -beta
    proba = weight / weight.sum(axis=1, keepdims=True)
    codes = (rng.random((n, 1)) > np.cumsum(proba, axis=1)).sum(axis=1)
    return nearest, codes


def calibration_error(proba, codes, n_bins=10):
    """Expected calibration error of the most probable state."""
    sure, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    place = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    return sum(
        abs(sure[place == b].mean() - right[place == b].mean()) * (place == b).mean()
        for b in np.unique(place)
    )


@given(seeds, st.floats(0.02, 400))
def test_probabilities_fall_with_the_distance(seed, beta):
    nearest = random_distances(seed)
    proba = Calibration(beta, float(np.median(nearest)) or 1.0).proba(nearest)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba >= 0).all()
    for d, p in zip(nearest, proba, strict=True):
        order = np.argsort(d, kind="stable")
        assert (np.diff(p[order]) <= 0).all()
        for value in np.unique(d):
            assert len(set(p[d == value])) == 1


@given(seeds)
def test_the_unit_of_distance_does_not_matter(seed):
    nearest = random_distances(seed)
    codes = np.random.default_rng(seed).integers(0, nearest.shape[1], len(nearest))
    one = fit_calibration(nearest, codes)
    other = fit_calibration(nearest * 2.0**40, codes)
    np.testing.assert_allclose(other.beta, one.beta, rtol=1e-6)
    np.testing.assert_allclose(other.proba(nearest * 2.0**40), one.proba(nearest), atol=1e-6)


def test_probabilities_are_the_formula():
    nearest = np.array([[1.0, 3.0, 0.2]])
    weight = (nearest[0] / 2.0 + SOFT) ** -1.7
    np.testing.assert_allclose(Calibration(1.7, 2.0).proba(nearest)[0], weight / weight.sum())


def test_duplicates_share_and_missing_windows_have_none():
    nearest = np.array([[0.0, 0.0, 1.0], [np.nan] * 3, [0.0, 0.0, 0.0], [1.0, np.inf, 1.0]])
    proba = Calibration(300.0, 1.0).proba(nearest)
    np.testing.assert_allclose(proba[0], [0.5, 0.5, 0], atol=1e-12)
    assert np.isnan(proba[1]).all()
    np.testing.assert_allclose(proba[2], 1 / 3)
    np.testing.assert_allclose(proba[3], [0.5, 0, 0.5])
    assert np.isnan(Calibration(1.0, 1.0).proba(np.full((1, 2), np.inf))).all()
    assert Calibration(1.0, 1.0).proba(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("beta", [0.5, 3.0, 12.0])
def test_the_right_power_is_found_and_comes_true(beta):
    rng = np.random.default_rng(0)
    calibration = fit_calibration(*drawn_by_the_model(beta, rng))
    assert calibration.beta == pytest.approx(beta, rel=0.1)
    nearest, codes = drawn_by_the_model(beta, rng)
    assert calibration_error(calibration.proba(nearest), codes) < 0.03


@given(seeds)
def test_the_log_loss_is_the_least(seed):
    """Of the smoothed targets, against a plain search over powers."""
    nearest = random_distances(seed)
    n_classes = nearest.shape[1]
    codes = np.random.default_rng(seed + 1).integers(0, n_classes, len(nearest))
    calibration = fit_calibration(nearest, codes)
    smoothing = 2 / (len(codes) + 2)
    target = np.eye(n_classes)[codes] * (1 - smoothing) + smoothing / n_classes

    def loss(beta):
        proba = Calibration(beta, calibration.typical).proba(nearest)
        return -(target * np.log(np.maximum(proba, 1e-300))).sum(axis=1).mean()

    assert loss(calibration.beta) <= min(map(loss, np.exp(np.linspace(-4, 6, 60)))) + 1e-4


def test_copies_of_few_windows_do_not_make_it_sure():
    """All right: only the number of independent windows limits how sure it may be."""
    nearest = np.tile([[1.0, 2.0], [2.0, 1.0]], (50, 1))
    codes = np.tile([0, 1], 50)
    alone = fit_calibration(nearest, codes)
    blocks = fit_calibration(nearest, codes, np.arange(100) // 25)
    assert alone.proba(nearest).max() == pytest.approx(101 / 102, abs=1e-3)  # Platt's targets
    assert blocks.proba(nearest).max() == pytest.approx(5 / 6, abs=1e-3)


def test_windows_without_a_reference_are_passed_over():
    rng = np.random.default_rng(3)
    nearest, codes = drawn_by_the_model(2.0, rng, n=200)
    known = fit_calibration(nearest, codes)
    more = np.concatenate([nearest, [[np.nan] * 4, [np.inf, 1.0, 1.0, 1.0]]])
    assert fit_calibration(more, np.append(codes, [0, 0])) == known


def test_nothing_to_learn_from_is_hardly_a_preference():
    for nearest in (np.empty((0, 2)), np.full((3, 2), np.nan), np.full((3, 2), np.inf)):
        calibration = fit_calibration(nearest, np.zeros(len(nearest), int))
        proba = calibration.proba(np.array([[1.0, 2.0]]))[0]
        assert 0.5 < proba[0] < 0.51
    same = fit_calibration(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(same.proba(np.zeros((1, 2))), 0.5)


def test_it_is_a_few_numbers():
    calibration = fit_calibration(*drawn_by_the_model(2.0, np.random.default_rng(0), n=100))
    assert Calibration(**json.loads(json.dumps(asdict(calibration)))) == calibration


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"not \(3, 2\) and \(2,\)"):
        fit_calibration(np.ones((3, 2)), np.zeros(2, int))


def test_on_a_stream_it_comes_true_and_beats_certainty():
    errors, losses, uniform = [], [], np.log(3)
    for seed in range(4):
        learned = learn(stream(seed, runs_per_state=4, noise=1.1))
        calibration = fit_calibration(learned.left_out, learned.codes, learned.blocks)
        new = stream(100 + seed, runs_per_state=8, noise=1.1)
        proba = calibration.proba(learned.nearest(new))
        known = ~np.isnan(proba[:, 0])
        codes = new.codes[known]
        errors.append(calibration_error(proba[known], codes))
        losses.append(-np.log(proba[known][np.arange(len(codes)), codes]).mean())
    assert np.mean(errors) < 0.1
    assert np.mean(losses) < 0.8 * uniform
