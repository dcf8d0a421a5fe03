"""Fewer references that decide as all of them do."""

from itertools import pairwise

import numpy as np
import pytest

from mlat import InputError, StreamClassifier, load
from mlat.classifier.thin import Thinning
from mlat.export import PlainModel
from mlat.synthetic import rotating_states

TRAIN = rotating_states(n_channels=3, run_length=60, runs_per_state=3, noise=0.3, random_state=0)
FRESH = rotating_states(n_channels=3, run_length=60, runs_per_state=2, noise=0.3, random_state=1)


@pytest.fixture(scope="module", params=["auto", "euclidean"])
def clf(request):
    return StreamClassifier(metric=request.param).fit(TRAIN)


@pytest.fixture(scope="module")
def thinning(clf):
    return Thinning(clf)


def test_all_of_them_decide_as_all_of_them(clf, thinning):
    kept = thinning.keep(10**6)
    assert kept.rows.tolist() == list(range(len(clf.windows_)))
    assert kept.agreement == 1.0


def test_few_are_kept_and_every_state_has_some(clf, thinning):
    codes = np.searchsorted(clf.classes_, clf.windows_.y)
    for n in (100, 250):
        rows = thinning.keep(n).rows
        assert len(rows) <= n
        assert set(codes[rows]) == set(codes)
    assert set(codes[thinning.keep(1).rows]) == set(codes)


def test_more_references_contain_the_fewer(thinning):
    sets = [set(thinning.keep(n).rows.tolist()) for n in (50, 120, 300, 600)]
    assert all(a <= b for a, b in pairwise(sets))


def test_a_tenth_decides_better_than_a_tenth_at_random():
    clf = StreamClassifier().fit(TRAIN)
    thinning = Thinning(clf)
    n = len(clf.windows_) // 10
    wanted = clf.predict(FRESH)[clf.width_ :]
    chosen = np.mean(decisions(clf, thinning.keep(n).rows) == wanted)
    rng = np.random.default_rng(0)
    block = np.arange(len(clf.windows_)) // clf.width_
    at_random = []
    for _ in range(10):
        blocks = rng.choice(block[-1] + 1, n // clf.width_, replace=False)
        at_random.append(np.mean(decisions(clf, np.flatnonzero(np.isin(block, blocks))) == wanted))
    assert chosen > np.mean(at_random)


def decisions(clf, rows):
    """The states by some of the references, by plain numpy."""
    found = []
    for expert in clf.experts_:
        starts = np.arange(clf.width_, len(FRESH)) - expert.windows.width + 1
        Z = np.concatenate([Z for _, Z in expert.embed_steps(expert.features(FRESH), starts)])
        Y, y = expert.embedded(rows), clf.windows_.y[rows]
        D = np.sqrt(((Z[:, None] - Y[None]) ** 2).sum(axis=2))
        columns = [D[:, y == state].min(axis=1, initial=np.inf) for state in clf.classes_]
        found.append(np.stack(columns, axis=1))
    together = clf.committee_.combine(found)
    return clf.classes_[together.argmin(axis=1)]


def test_what_is_kept_has_its_own_steps(clf, thinning):
    plain = PlainModel.of(clf)
    rows = thinning.keep(120).rows
    some = plain.take(rows)
    for i, row in enumerate(rows):
        begin, old = some.start[i], plain.start[row]
        np.testing.assert_array_equal(
            some.steps[begin : begin + plain.width], plain.steps[old : old + plain.width]
        )
    assert some.codes.tolist() == plain.codes[rows].tolist()
    assert len(some.steps) < len(plain.steps)


def test_votes_are_not_thinned():
    voting = StreamClassifier(metric="euclidean", n_neighbors=3).fit(TRAIN)
    with pytest.raises(InputError, match="several neighbours"):
        Thinning(voting)


@pytest.mark.parametrize("metric", ["auto", "euclidean"])
def test_a_classifier_with_fewer_references(metric, tmp_path):
    clf = StreamClassifier(metric=metric, max_references=150).fit(TRAIN)
    whole = StreamClassifier(metric=metric).fit(TRAIN)
    n_all, agreement = clf.thinned_
    assert n_all == len(whole.windows_) > 300
    assert all(len(expert) <= 150 for expert in clf.experts_)
    assert clf.classes_.tolist() == whole.classes_.tolist()
    # What it says of training windows holds of new ones, roughly.
    known = whole.predict(FRESH) != ""
    same = (clf.predict(FRESH) == whole.predict(FRESH))[known].mean()
    assert same == pytest.approx(agreement, abs=0.15)
    clf.save(tmp_path / "m.mlat")
    again = load(tmp_path / "m.mlat")
    assert again.thinned_ == clf.thinned_
    assert again.max_references == 150
    np.testing.assert_array_equal(again.predict_proba(FRESH), clf.predict_proba(FRESH))
    # References are those of the whole, with the same features.
    start = {int(s): i for i, s in enumerate(whole.windows_.start)}
    rows = [start[int(s)] for s in clf.windows_.start]
    for mine, all_of_them in zip(clf.experts_, whole.experts_, strict=True):
        np.testing.assert_array_equal(mine.embedded(), all_of_them.embedded(np.array(rows)))


def test_a_share_of_decisions():
    few, many = (
        StreamClassifier(metric="euclidean", max_references=share).fit(TRAIN)
        for share in (0.7, 0.97)
    )
    assert len(few.windows_) < len(many.windows_) < few.thinned_.n_all
    assert few.thinned_.agreement < many.thinned_.agreement
    assert many.thinned_.agreement > 0.85


def test_blocks_are_taken_in_the_order_of_their_worth(clf, thinning):
    """As if the worth of every block was computed anew for each that is taken."""
    state, weight = thinning._state, thinning._weight
    logs = thinning._logs[:, thinning._chooses].astype(np.float64)
    far = logs[np.isfinite(logs)].max()
    logs = np.minimum(logs, far)
    whole = np.stack([logs[:, :, state == s].min(axis=2) for s in np.unique(state)], axis=2)
    score = np.tensordot(weight, whole, 1)
    counts = score <= np.sort(score, axis=1)[:, 1, None]
    now = np.full_like(whole, far)
    for i, block in enumerate(thinning.order[:25]):
        worth = np.full(len(state), -1.0)
        for other in set(range(len(state))) - set(thinning.order[:i].tolist()):
            if i < whole.shape[2] and state[other] in state[thinning.order[:i]]:
                continue
            better = np.maximum(now[:, :, state[other]] - logs[:, :, other], 0.0)
            worth[other] = np.tensordot(weight, better, 1)[counts[:, state[other]]].sum()
        assert worth[block] == pytest.approx(worth.max(), rel=1e-5, abs=1e-6)
        now[:, :, state[block]] = np.minimum(now[:, :, state[block]], logs[:, :, block])


@pytest.mark.parametrize("wrong", [0, -3, 1.5, "many", True])
def test_a_wrong_number_of_references(wrong):
    with pytest.raises(InputError, match="max_references must be"):
        StreamClassifier(metric="euclidean", max_references=wrong).fit(TRAIN)
