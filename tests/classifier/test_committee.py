"""The committee: the product of its experts, and what it is learned from."""

import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mlat
from mlat import MLAT, InputError, Stream, StreamClassifier
from mlat.classifier.committee import (
    MOST_CHANGE,
    MOST_TAKEN,
    SOFT,
    Committee,
    HeldOut,
    Member,
    Prior,
    _cross_fitted,
    _logs,
    _shares,
    fit_weights,
    typical_distance,
)
from mlat.classifier.experts import (
    Design,
    default_plan,
    default_reach,
    fair_rows,
    learn_metric,
    run_length,
)
from mlat.classifier.held_out import evidence
from mlat.classifier.model_file import to_bytes
from mlat.cli.demo import SENSORS
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import sliding_windows
from mlat.synthetic import rotating_states
from naive import naive_expert_distances, naive_product
from state_streams import clusters, energy_states

TRAIN = rotating_states(run_length=40, runs_per_state=2, n_channels=2, noise=0.3)
FRESH = rotating_states(run_length=12, runs_per_state=1, n_channels=2, noise=0.3, random_state=1)


def fit(stream, **options):
    """A warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return StreamClassifier(**options).fit(stream)


@pytest.fixture(scope="module", params=[6, 12], ids=["as wide", "wider and narrower"])
def clf(request):
    return fit(TRAIN, width=request.param, reach=7)


# The product


def test_distances_are_those_of_plain_loops(clf):
    values = FRESH.values.copy()
    values[20, 1] = np.nan
    stream = Stream(values)
    naive = naive_expert_distances(clf, stream)
    there = clf.ends_window(stream)
    assert there.sum() > 10
    for fast, slow in zip(clf.expert_distances(stream), naive, strict=True):
        np.testing.assert_allclose(fast[there], slow[there], rtol=1e-6)
    weights, typical = clf.committee_.powers
    product = naive_product(naive, weights, typical, SOFT)
    np.testing.assert_allclose(clf.class_distances(stream), product, rtol=1e-6)
    near = np.sort(product[there], axis=1)
    assert (near[:, 1] > near[:, 0] * (1 + 1e-5)).all()
    np.testing.assert_array_equal(
        clf.predict(stream)[there], clf.classes_[product[there].argmin(axis=1)]
    )
    assert (clf.predict(stream)[~there] == "").all()


def test_probabilities_fall_with_a_power_of_the_distance(clf):
    distances, proba = clf.class_distances(FRESH), clf.predict_proba(FRESH)
    there = clf.ends_window(FRESH)
    calibration = clf.confidence_.calibration
    powers = (distances[there] / calibration.typical + calibration.soft) ** -calibration.beta
    np.testing.assert_allclose(proba[there], powers / powers.sum(axis=1, keepdims=True), rtol=1e-9)
    assert np.isnan(proba[~there]).all()


def test_neighbours_are_those_of_each_expert(clf):
    distances, rows = clf.kneighbors(FRESH, 3)
    assert distances.shape == rows.shape == (len(clf.experts_), len(FRESH), 3)
    for number, expert in enumerate(clf.experts_):
        own = expert.neighbours(FRESH, 3)
        np.testing.assert_array_equal(distances[number], own[0])
        np.testing.assert_array_equal(rows[number], own[1])
    nearest = clf.expert_distances(FRESH)
    there = clf.ends_window(FRESH)
    for number in range(len(clf.experts_)):
        np.testing.assert_array_equal(
            distances[number, there, 0], nearest[number][there].min(axis=1)
        )


def test_experts_share_references_and_features(clf):
    weights, _ = clf.committee_.powers
    assert weights.sum() == pytest.approx(1)
    assert len(weights) == len(clf.experts_) == len(clf.committee_.deciding)
    for expert in clf.experts_:
        assert expert.features is clf.features_
        np.testing.assert_array_equal(
            expert.windows.start + expert.windows.width, clf.windows_.start + clf.width_
        )
    assert clf.width_ == max(expert.windows.width for expert in clf.experts_)
    with pytest.raises(AttributeError, match="a metric for each expert"):
        _ = clf.metric_


@given(
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_the_product_grows_with_the_distance_of_each_expert(weights, seed):
    """On which the live search relies for its bounds."""
    rng = np.random.default_rng(seed)
    total = sum(weights)
    members = [Member(f"e{i}", w / total, 0.5, rng.uniform(0.1, 9)) for i, w in enumerate(weights)]
    committee = Committee(tuple(members))
    nearest = rng.exponential(size=(len(weights), 5, 3))
    farther = nearest * (1 + rng.exponential(size=nearest.shape))
    assert (committee.combine(list(nearest)) <= committee.combine(list(farther))).all()
    # A row is what it is alone, to the last bit.
    whole = committee.combine(list(nearest))
    for row in range(5):
        alone = committee.combine(list(nearest[:, row : row + 1]))
        np.testing.assert_array_equal(alone[0], whole[row])


def test_one_metric_is_one_expert():
    for metric in ("mlat", "lmnn", "euclidean", MLAT(max_iter=2)):
        clf = fit(TRAIN, width=6, metric=metric)
        (only,), (member,) = clf.experts_, clf.committee_.members
        assert member.weight == 1
        assert 0 <= member.accuracy == clf.committee_.accuracy <= 1
        assert only is clf.references_
        np.testing.assert_array_equal(clf.class_distances(FRESH), only.class_distances(FRESH))
        assert clf.kneighbors(FRESH)[0].shape == (len(FRESH), 1)


def test_a_committee_says_who_decides_and_why():
    told = fit(energy_states(0, n_runs=2), reach=30).committee_
    assert all(f"{member.name} {member.weight:.0%}" in str(told) for member in told.deciding)
    assert 0 < told.accuracy <= 1
    assert told.n_runs > 0
    assert all(0 <= member.accuracy <= 1 for member in told.members)
    unjudged = fit(clusters(0, [40, 40])).committee_
    assert unjudged.why.startswith("usual weights: ")
    assert np.isnan(unjudged.accuracy)
    assert len({member.weight for member in unjudged.members}) == 1
    unheld = fit(energy_states(0), held_out=False)
    assert unheld.committee_.why == "usual weights: nothing was held out to judge them by"
    assert unheld.held_out_ is None


# Weights


def judged_by(seed, good, n=60, n_states=3):
    """Experts whose own state is ``good[m]`` times as near as the others."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_states), n // n_states)
    nearest = rng.uniform(0.7, 1.3, size=(len(good), n, n_states))
    for m, factor in enumerate(good):
        nearest[m, np.arange(n), codes] *= factor
    return HeldOut(
        nearest, codes, np.arange(n) // 5, np.arange(n) % 2, np.arange(n) == 0, codes, np.zeros(n)
    )


def prior(n, waits=(), several=False):
    """Equal coefficients; some experts wait for more runs."""
    return Prior(np.ones(n), np.isin(np.arange(n), waits), several)


def test_the_better_expert_weighs_more():
    judged = judged_by(0, [0.3, 1.0, 0.9])
    typical = np.array([typical_distance(nearest) for nearest in judged.nearest])
    beta, _ = fit_weights(judged, typical, prior(3, several=True))
    assert beta[0] > 2 * beta[2]
    assert beta.argmax() == 0
    # Of one run a state little is known: the same order, and no factor above the largest.
    few, _ = fit_weights(judged, typical, prior(3))
    assert few.argmax() == 0
    assert few.max() <= MOST_CHANGE * (1 + 1e-9)
    assert few.min() >= (1 - 1e-9) / MOST_CHANGE


def test_two_runs_take_nothing_from_a_metric_that_needs_several_and_seems_to_guess():
    """After one run MLAT looks as if it guessed; after two it decides what only the order tells."""
    judged = judged_by(0, [1.0, 0.5, 0.8])
    typical = np.array([typical_distance(nearest) for nearest in judged.nearest])
    few, waiting = fit_weights(judged, typical, prior(3, waits=[0]))
    assert waiting
    assert few[0] == 1.0
    assert few[1] == 1.0  # the best of the others gains nothing
    assert 1 / MOST_TAKEN <= few[2] < 1.0
    assert fit_weights(judged, typical, prior(3, [0], several=True))[0][0] < 0.1
    # One that tells something is judged as any other.
    for some in ((), (1,)):
        told, waiting = fit_weights(judged, typical, prior(3, some))
        assert not waiting
        np.testing.assert_array_equal(told, fit_weights(judged, typical, prior(3))[0])


def test_what_waits_may_tell_everything_and_the_interval_says_so():
    """Only the order in time tells: much less than it is after learning from both runs."""
    train, test = (rotating_states(run_length=55, random_state=i, **SENSORS) for i in (20, 21))
    clf = StreamClassifier(16).fit(train)
    expected, truth = clf.committee_.expected, clf.score(test)
    assert truth > expected.accuracy + 0.1
    assert expected.low < truth < expected.high == 1.0


def test_who_waits_for_another_run():
    one, two, three = (rotating_states(runs_per_state=n, random_state=0) for n in (1, 2, 3))
    plan = default_plan(two, 10, None, True)
    found = [Prior.of(plan, evidence(stream, 10)) for stream in (one, two, three)]
    # Parts of one run are judged by what learned from one run, as the classifier does.
    assert [known.waits.tolist() for known in found] == [
        [False] * 4,
        [True, False, False, False],
        [False] * 4,
    ]
    assert [known.several for known in found] == [False, False, True]


def test_an_expert_that_guesses_has_no_weight_whatever_its_scale():
    judged = judged_by(2, [0.5, 1.0])
    wide = judged._replace(nearest=judged.nearest ** np.array([1.0, 5.0])[:, None, None])
    for one in (judged, wide):
        typical = np.array([typical_distance(nearest) for nearest in one.nearest])
        power, weight = _shares(
            fit_weights(one, typical, prior(2, several=True))[0], _logs(one, typical)
        )
        assert weight[0] > 0.9
        np.testing.assert_allclose([power.sum(), weight.sum()], 1)


def test_the_windows_of_a_run_count_as_one_piece_of_evidence():
    judged = judged_by(1, [0.5, 0.8])
    typical = np.ones(2)
    twice = HeldOut(*(np.concatenate([a, a], axis=-1 - (a.ndim == 3)) for a in judged))
    once, again = (fit_weights(j, typical, prior(2, several=True))[0] for j in (judged, twice))
    np.testing.assert_allclose(once, again, rtol=1e-3)


def test_held_out_steps_are_decided_with_weights_from_others():
    """Wrong states of one fold change what is said of the other folds, and nothing of its own."""
    judged = judged_by(0, [0.3, 1.0, 0.9])
    typical, first = np.ones(3), judged.fold == 0
    wrong = judged._replace(codes=np.where(first, (judged.codes + 1) % 3, judged.codes))
    said, again = (_cross_fitted(j, typical, prior(3, several=True)) for j in (judged, wrong))
    np.testing.assert_array_equal(again[first], said[first])
    assert (again[~first] != said[~first]).any()


# What an expert learns from


@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.integers(1, 200))
def test_small_states_are_kept_whole(sizes, most):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = fair_rows(labels, most)
    assert (np.diff(rows) > 0).all()
    kept = np.bincount(labels[rows], minlength=len(sizes))
    assert kept.sum() <= max(most, 2 * len(sizes))
    if sum(sizes) <= most:
        np.testing.assert_array_equal(rows, np.arange(len(labels)))
    # Nobody who gave up windows has fewer than one who kept all of them, and two at least.
    cut = kept < sizes
    if cut.any():
        assert kept[cut].min() >= min(2, most)
        assert kept[cut].min() + 1 >= kept[~cut].max(initial=0)
        assert np.ptp(kept[cut]) <= 1
    for state in np.flatnonzero(cut):  # evenly spaced, from the first to the last
        mine = rows[labels[rows] == state]
        assert mine[0] == np.flatnonzero(labels == state)[0]
        assert mine[-1] == np.flatnonzero(labels == state)[-1]
        assert np.ptp(np.diff(mine)) <= 1


def test_a_state_of_one_window_is_not_learned_from():
    design = Design("MLAT over channels", 10, ("identity",), metric=MLAT(max_iter=5))
    windows = sliding_windows(clusters(0, [60, 60, 10]), 10)
    assert (windows.y == "c").sum() == 1
    metric = learn_metric(design, windows, 500)
    without = learn_metric(design, windows.take(windows.y != "c"), 500)
    np.testing.assert_array_equal(metric.blocks_, without.blocks_)
    assert learn_metric(design, sliding_windows(clusters(0, [60, 10, 10]), 10), 500) is None
    assert learn_metric(replace(design, metric=None), windows, 500) is None


@pytest.mark.parametrize(
    ("length", "width", "expected"),
    [(60, 10, 12), (510, 10, 100), (5000, 10, 100), (20, 10, 10), (5000, 80, 160), (100, 80, 80)],
)
def test_the_reach_is_a_fifth_of_a_run_at_most(length, width, expected):
    states = np.repeat(["a", "b", "a"], length)
    values = np.zeros((3 * length, 1))
    values[length // 2] = np.nan  # does not end a run
    stream = Stream(values, states)
    assert run_length(stream) == length
    assert default_reach(stream, width) == expected


def test_the_reach_can_be_given():
    assert fit(energy_states(0), reach=20, held_out=False).features_.lift.reach == 20


# Streams of all kinds


def with_constant(stream, channels):
    values = stream.values.copy()
    values[:, channels] = 7.1
    return Stream(values, stream.states, recordings=stream.recordings)


def fresh_clusters(seed, n_states, n_channels=2):
    """Without a switch: a lift that looks far back is as late at one as it looks back."""
    return clusters(seed, [60] * n_states, n_channels, recordings=True)


EDGES = {
    "one run of each state": lambda seed: clusters(seed, [150, 150, 150]),
    "two states": lambda seed: clusters(seed, [100, 100]),
    "60 channels": lambda seed: clusters(seed, [65, 65, 65], n_channels=60),
    "20 windows of each state": lambda seed: clusters(seed, [29, 29, 29]),
    "20 windows of each state, twice": lambda seed: clusters(seed, [29] * 6, states="abcabc"),
    "2000 windows against 30": lambda seed: clusters(seed, [2009, 39]),
    "2000 windows against 30, twice": lambda seed: clusters(seed, [1009, 24] * 2, states="abab"),
    "a channel that stands still": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [1]),
    "only one channel moves": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [0, 2]),
    "one state has no second episode": lambda seed: clusters(seed, [80, 80, 80], states="aba"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "60 channels" else n for n in EDGES]
)
def test_every_stream_gets_a_sensible_classifier(name):
    train = EDGES[name](0)
    clf = fit(train)
    fresh = fresh_clusters(1, len(train.classes), train.n_channels)
    if "channel" in name and "60" not in name:
        still = np.flatnonzero(np.ptp(train.values, axis=0) == 0)
        fresh = with_constant(fresh, still)
    assert clf.classes_.tolist() == train.classes.tolist()
    assert clf.score(fresh) > 0.95
    proba = clf.predict_proba(fresh)
    assert np.isfinite(proba).all(axis=1).sum() == (61 - clf.width_) * len(train.classes)


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_state_of_one_window_disturbs_no_other(repeats):
    """One window a run has no target to learn from; it is a reference, as good as it can be."""
    train = clusters(0, [90, 90, 10] * repeats, states="abc" * repeats)
    clf = fit(train)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert (clf.windows_.y == "c").sum() == repeats
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    assert clf.predict(train.values[:190], filtered=True).shape == (190,)


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_any_kind(seed):
    train, fresh = clusters(seed, [80, 80]), fresh_clusters(seed + 5, 2)
    clf = fit(train)
    single = fit(Stream(train.values.astype(np.float32), train.states))
    assert single.score(Stream(fresh.values.astype(np.float32), fresh.states)) > 0.9
    numbered = fit(Stream(np.round(10 * train.values).astype(int), train.codes + 4))
    predicted = numbered.predict(np.round(10 * fresh.values).astype(int))
    assert numbered.unknown_ == -1
    assert set(predicted) == {-1, 4, 5}
    assert np.mean(predicted == fresh.codes + 4) > 0.85
    assert clf.predict(fresh).dtype.kind == "U"


def test_missing_values_recordings_and_unlabelled_segments():
    train = clusters(0, [120, 120, 120, 120], states="abab")
    values, states = train.values.copy(), train.states.copy()
    values[[50, 130, 131, 300], [0, 1, 0, 1]] = np.nan
    states[200:240] = ""
    recordings = np.arange(480) // 160
    clf = fit(Stream(values, states, recordings=recordings))
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    fresh = clusters(1, [100, 100])
    broken = fresh.values.copy()
    broken[70, 1] = np.nan
    predicted = clf.predict(Stream(broken, recordings=np.arange(200) >= 150))
    unknown = np.flatnonzero(predicted == "")
    w = clf.width_ - 1
    expected = [*range(w), *range(70, 71 + w), *range(150, 150 + w)]
    assert unknown.tolist() == expected


def test_a_channel_that_stands_still_within_runs_adds_no_noise():
    """As a switch or a setting does: its deviation is nothing, and not the rounding of it."""

    def with_setting(stream, seed):
        level = np.random.default_rng(seed).choice([0.1, 0.7, 0.3], size=len(stream.runs))
        return Stream(
            np.column_stack([stream.values, np.repeat(level, stream.runs.length)]), stream.states
        )

    train = with_setting(energy_states(0, n_runs=3, run_length=150), 0)
    clf = fit(train, held_out=False)
    setting = clf.feature_channels_ == 2
    names = np.array(clf.feature_names_)[setting]
    features = clf.features(train)[10:]
    for name, feature in zip(names, features[:, setting].T, strict=True):
        if "deviation" in name or "difference" in name:
            reach = clf.features_.lift.reach
            inside = [feature[a:b][reach + 10 : -10] for a, b, _ in train.runs]
            assert max(np.abs(part).max() for part in inside) < 1e-9


@settings(max_examples=5)
@given(seed=st.integers(0, 99))
def test_the_same_stream_gives_the_same_classifier(seed):
    train, fresh = clusters(seed, [80, 80]), clusters(seed + 1, [60, 60])
    first, second = fit(train), fit(train)
    assert first.committee_.members == second.committee_.members or all(
        repr(a) == repr(b)
        for a, b in zip(first.committee_.members, second.committee_.members, strict=True)
    )
    np.testing.assert_array_equal(first.predict_proba(fresh), second.predict_proba(fresh))
    assert clone(first).get_params() == first.get_params()


def test_a_model_file_holds_the_committee_to_the_last_bit(tmp_path):
    clf = fit(TRAIN, width=12, reach=7, unknown_rate=0.1)
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat")
    for filtered in (False, True):
        np.testing.assert_array_equal(
            clf.predict_proba(FRESH, filtered=filtered),
            again.predict_proba(FRESH, filtered=filtered),
        )
        np.testing.assert_array_equal(
            clf.predict(FRESH, filtered=filtered), again.predict(FRESH, filtered=filtered)
        )
    for old, new in zip(clf.expert_distances(FRESH), again.expert_distances(FRESH), strict=True):
        np.testing.assert_array_equal(old, new)
    # A live session of either goes on from a snapshot of the other.
    live, other = clf.live(), again.live()
    live.push(FRESH.values[:20])
    other.restore(live.snapshot())
    assert repr(other.push(FRESH.values[20:])) == repr(live.push(FRESH.values[20:]))


def test_several_neighbours_need_one_metric():
    with pytest.raises(InputError, match='for 3 neighbours give one metric, such as metric="mlat"'):
        StreamClassifier(n_neighbors=3).fit(TRAIN)


def test_searches_among_many_references_are_in_memory_one_at_a_time(monkeypatch):
    stream = energy_states(0, run_length=40)
    kept = StreamClassifier(8).fit(stream)
    alive = weakref.WeakSet()
    build = ClassDistances.of_blocks

    def build_alone(*given):
        assert not len(alive)
        alive.add(search := build(*given))
        return search

    monkeypatch.setattr(ClassDistances, "of_blocks", build_alone)
    monkeypatch.setattr("mlat.neighbours.references.MANY_REFERENCES", 1)
    freed = StreamClassifier(8).fit(stream)
    assert len(freed.experts_) > 1
    assert to_bytes(freed) == to_bytes(kept)
    monkeypatch.setattr(ClassDistances, "of_blocks", build)
    np.testing.assert_array_equal(freed.predict_proba(stream), kept.predict_proba(stream))


def test_of_many_short_runs_late_steps_are_judged_too():
    # Right after a switch a window is mostly of the state before.
    rng = np.random.default_rng(0)
    codes = np.tile(np.repeat([0, 1], 24), 300)
    values = rng.normal(size=(len(codes), 1)) + 1.5 * codes[:, None]
    train = Stream(values, np.array(["a", "b"])[codes])
    clf = fit(train, width=8, metric="euclidean")
    rng.shuffle(values.reshape(-1, 48)[:, :24]), rng.shuffle(values.reshape(-1, 48)[:, 24:])
    truth = clf.score(Stream(values, train.states))
    assert truth > 0.8
    assert abs(clf.committee_.accuracy - truth) < 0.08
    assert len(clf.held_out_.codes) <= 3 * 2000
