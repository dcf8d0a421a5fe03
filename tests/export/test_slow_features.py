"""Slow features stored at some steps only."""

from dataclasses import replace

import numpy as np
import pytest

from compiled_c import COMPILER, STRICT, Compiled
from export_models import FRESH, SHAPES, TRAIN
from mlat import InputError, StreamClassifier
from mlat.export import PlainModel, write_c
from mlat.export.differences import with_leads
from mlat.export.slow_features import between_knots, with_knots


@pytest.fixture(scope="module", params=["levels", "whitened lift", "some channels"])
def clf(request):
    return StreamClassifier(**SHAPES[request.param]).fit(TRAIN)


def with_lines(model, every):
    """The model whose references are the lines themselves, stored at every step."""
    there, n_fast = with_knots(with_leads(model), every)
    return replace(there, steps=between_knots(there.steps, every, n_fast), identity=None)


@pytest.mark.parametrize("every", [2, 3, 8, 40])
def test_references_are_as_before_but_for_slow_features(clf, every):
    plain = PlainModel.of(clf)
    there, n_fast = with_knots(plain, every)
    order = np.argsort(plain.lift.sources < 4, kind="stable")
    lines = between_knots(there.steps, every, n_fast)
    for i in (0, 7, len(plain.start) - 1):
        old = plain.steps[plain.start[i] : plain.start[i] + plain.width, order]
        new = there.steps[there.start[i] : there.start[i] + plain.width]
        np.testing.assert_array_equal(new, old)
        line = lines[there.start[i] : there.start[i] + plain.width]
        np.testing.assert_array_equal(line[:, :n_fast], old[:, :n_fast])
        assert (np.abs(np.diff(line[:, n_fast:], 2, axis=0)) < 1e-9).any() or every == 2
    assert (lines[::every] == there.steps[::every]).all()


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("every", [2, 5])
def test_distances_to_lines_are_exact(clf, every, tmp_path):
    (tmp_path / "lines").mkdir()
    lines = with_lines(PlainModel.of(clf), every)
    wanted = Compiled(clf, tmp_path / "lines", model=lines, bits=64, flags=STRICT)
    stored = Compiled(clf, tmp_path, bits=64, every=every)
    told, exact = stored.push(FRESH.values), wanted.push(FRESH.values)
    assert told[0].tolist() == exact[0].tolist()
    np.testing.assert_allclose(told[2], exact[2], rtol=1e-9, atol=1e-7)
    assert stored.code.flash < write_c(PlainModel.of(clf), bits=64).flash
    assert stored.code.work.products < wanted.code.work.products


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_in_whole_numbers_too(clf, tmp_path):
    (tmp_path / "real").mkdir()
    whole = Compiled(clf, tmp_path, bits=16, every=4, fixed=True).push(FRESH.values)
    real = Compiled(clf, tmp_path / "real", bits=16, every=4, flags=STRICT).push(FRESH.values)
    assert (whole[0] == real[0]).mean() >= 0.99
    typical = clf.confidence_.calibration.typical  # 1 for a committee
    np.testing.assert_allclose(whole[2] * typical, real[2], rtol=5e-3, atol=5e-3)


def test_a_model_without_slow_features_is_as_it_was():
    plain = PlainModel.of(StreamClassifier(metric="euclidean").fit(TRAIN))
    assert write_c(plain, every=4).files() == write_c(plain).files()
    with pytest.raises(InputError, match="every must be from 1 to 64"):
        write_c(plain, every=0)
