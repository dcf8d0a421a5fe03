import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import mlat
from mlat import InputError, Stream, StreamClassifier
from mlat.explain import explain
from mlat.synthetic import rotating_states
from naive import naive_neighbors
from state_streams import energy_states


@pytest.fixture(scope="module")
def train():
    return rotating_states(run_length=50, n_channels=3, noise=0.5)


@pytest.fixture(scope="module")
def test():
    return rotating_states(run_length=60, n_channels=3, noise=0.5, random_state=1)


@pytest.fixture(scope="module")
def classifier(train):
    return StreamClassifier(width=8, metric=mlat.MLAT(max_iter=20)).fit(train)


def test_a_state_per_step_and_unknown_before_the_first_window(classifier, test):
    predicted = classifier.predict(test)
    assert predicted.shape == (len(test),)
    assert (predicted[:7] == "").all()
    assert set(predicted[7:]) <= set(classifier.classes_)
    assert classifier.unknown_ == ""


@pytest.mark.parametrize("k", [1, 4])
def test_prediction_is_plain_nearest_neighbours(train, test, k):
    clf = StreamClassifier(width=8, metric=mlat.LMNN(max_iter=5), n_neighbors=k).fit(train)
    mean, sd = train.values.mean(axis=0), train.values.std(axis=0)

    def embed(windows):
        return clf.metric_.transform((windows.X - mean) / sd)

    references, queries = mlat.sliding_windows(train, 8), mlat.sliding_windows(test[:90], 8)
    windows = mlat.sliding_windows(test[:90], 8, labelled=False)
    _, rows = naive_neighbors(embed(windows), embed(references), k)
    distances, found = clf.kneighbors(test[:90])
    np.testing.assert_array_equal(found[7:], rows)
    assert (found[:7] == -1).all()
    assert np.isnan(distances[:7]).all()
    proba = clf.predict_proba(test[:90])
    assert np.isnan(proba[:7]).all()
    np.testing.assert_allclose(proba[7:].sum(axis=1), 1)
    predicted = clf.predict(test[:90])[7:]
    if k == 1:  # calibrated: see below
        np.testing.assert_array_equal(predicted, references.y[rows[:, 0]])
    else:
        for fractions, row in zip(proba[7:], rows, strict=True):
            for state, value in zip(clf.classes_, fractions, strict=True):
                assert value == pytest.approx(np.mean(references.y[row] == state))
        assert (
            proba[7:].max(axis=1)
            == [np.mean(references.y[r] == p) for r, p in zip(rows, predicted, strict=True)]
        ).all()
    # Each window of one state is among those of every step, with the same neighbours.
    _, rows = naive_neighbors(embed(queries), embed(references), k)
    np.testing.assert_array_equal(found[queries.start + 7], rows)


def test_distances_to_every_state_are_plain_and_give_the_probabilities(classifier, test):
    part = test[:60]
    windows = mlat.sliding_windows(part, 8, labelled=False)
    queries = classifier.metric_.transform((windows.X - classifier.mean_) / classifier.scale_)
    references = mlat.sliding_windows(rotating_states(run_length=50, n_channels=3, noise=0.5), 8)
    embedded = classifier.metric_.transform((references.X - classifier.mean_) / classifier.scale_)
    expected = [
        naive_neighbors(queries, embedded[references.y == state], 1)[0][:, 0]
        for state in classifier.classes_
    ]
    nearest = classifier.class_distances(part)
    assert np.isnan(nearest[:7]).all()
    np.testing.assert_allclose(nearest[7:], np.transpose(expected), rtol=1e-9)
    proba = classifier.predict_proba(part)
    # The nearer the more probable, and nothing else: the order of the states is kept.
    np.testing.assert_array_equal(
        np.argsort(-proba[7:], axis=1, kind="stable"),
        np.argsort(nearest[7:], axis=1, kind="stable"),
    )
    np.testing.assert_array_equal(proba, classifier.confidence_.calibration.proba(nearest))


def test_metric_matrix_is_the_distance():
    """Over windows of features, whitening included: kneighbors by hand."""
    train = energy_states(0, run_length=100)
    for metric in ("euclidean", mlat.MLAT(max_iter=3)):
        lift = ["identity", "running_deviation"]
        clf = StreamClassifier(4, metric=metric, lift=lift, whiten=True).fit(train)
        M, fresh = clf.metric_matrix(), energy_states(1, run_length=20)
        distances, rows = clf.kneighbors(fresh)
        query = clf.features(fresh)[30:34].ravel()
        start = clf.windows_.start[rows[33, 0]]
        off = query - clf.reference_features_[start : start + 4].ravel()
        assert distances[33, 0] == pytest.approx(np.sqrt(off @ M @ off))


def test_predictions_do_not_depend_on_the_future(classifier, test):
    whole = classifier.predict(test)
    for stop in (1, 8, 100):
        np.testing.assert_array_equal(classifier.predict(test[:stop]), whole[:stop])


def test_missing_values_gaps_and_recordings_make_the_state_unknown(classifier, test):
    values = test.values.copy()
    values[20, 1] = np.nan
    time = np.arange(len(test)) + np.where(np.arange(len(test)) >= 60, 100, 0)
    recordings = np.arange(len(test)) // 100
    stream = Stream(values, recordings=recordings, time=time, channels=test.channels)
    unknown = np.flatnonzero(classifier.predict(stream) == "")
    expected = {t for begin in (0, 21, 60, 100, 200, 300, 400) for t in range(begin, begin + 7)}
    assert set(unknown) == {t for t in expected | {20} if t < len(test)}


def test_the_scale_is_that_of_the_training_stream(train):
    clf = StreamClassifier(width=8, metric="euclidean").fit(train)
    scaled = Stream(train.values * 100 + 7, train.states, channels=train.channels)
    again = StreamClassifier(width=8, metric="euclidean").fit(scaled)
    part = train[:100]
    np.testing.assert_array_equal(
        clf.predict(part), again.predict(Stream(part.values * 100 + 7, channels=part.channels))
    )
    raw = StreamClassifier(width=8, metric="euclidean", scale=False).fit(train)
    np.testing.assert_array_equal(raw.mean_, 0)
    np.testing.assert_array_equal(raw.scale_, 1)


def test_numbered_states_and_arrays(train, test):
    number = {name: i + 1 for i, name in enumerate(train.classes)}
    states = np.array([number[s] for s in train.states])
    clf = StreamClassifier(width=8, metric="euclidean").fit(train.values, states)
    predicted = clf.predict(test.values)
    assert clf.unknown_ == -1
    assert predicted.dtype.kind == "i"
    assert (predicted[:7] == -1).all()
    assert clf.score(test.values, [number[s] for s in test.states]) > 0.5


def test_score_counts_labelled_steps_with_a_full_window(classifier, test):
    predicted = classifier.predict(test)
    expected = np.mean(predicted[7:] == test.states[7:])
    assert classifier.score(test) == pytest.approx(expected)
    with pytest.raises(InputError, match="no labelled step"):
        classifier.score(test[:5])


def test_any_transformer_can_be_the_metric(train, test):
    expected = StreamClassifier(width=8, metric=_WindowPCA(n_components=4)).fit(train)
    clf = StreamClassifier(width=8, metric=PCA(n_components=4)).fit(train)
    assert clf.metric_.components_.shape == (4, 8 * train.n_channels)
    assert clf.score(test) > 0.3
    np.testing.assert_array_equal(clf.predict(test), expected.predict(test))
    np.testing.assert_allclose(clf.class_distances(test), expected.class_distances(test))


class _WindowPCA(PCA):
    """Takes windows (n, w, d)."""

    def fit(self, X, y=None):
        assert X.ndim == 3
        return super().fit(X.reshape(len(X), -1))

    def transform(self, X):
        assert X.ndim == 3
        return super().transform(X.reshape(len(X), -1))


@pytest.mark.parametrize(
    "metric",
    [
        PCA(n_components=4),
        PCA(n_components=4, whiten=True),
        LinearDiscriminantAnalysis(),
        NeighborhoodComponentsAnalysis(n_components=2, max_iter=5, random_state=0),
        make_pipeline(StandardScaler(), PCA(n_components=4)),
        make_pipeline(mlat.MLAT(max_iter=3), PCA(n_components=4)),
        FunctionTransformer(),
    ],
    ids=["PCA", "PCA whiten", "LDA", "NCA", "pipeline", "MLAT in a pipeline", "nothing"],
)
def test_transformers_of_scikit_learn(train, test, metric):
    clf = StreamClassifier(width=8, metric=metric, whiten=True, n_neighbors=1).fit(train)
    predicted = clf.predict(test)
    assert np.isfinite(clf.predict_proba(test)[7:]).all()
    live = clf.live()
    told = [prediction.state for row in test.values[:60] for prediction in live.push(row)]
    assert told == predicted[:60].tolist()
    M = clf.metric_matrix()
    features = clf.features(test)
    window = features[7:15].ravel() - clf.reference_features_[:8].ravel()
    distances, rows = clf.kneighbors(test, len(clf.windows_))
    at = distances[14][list(rows[14]).index(0)]
    assert window @ M @ window == pytest.approx(at**2)
    assert explain(clf, test, 30).own.distances[0] >= 0


def test_a_transformer_that_fails_says_why(train):
    with pytest.raises(ValueError, match="n_components"):
        StreamClassifier(width=8, metric=PCA(n_components=10**4)).fit(train)


def test_it_can_be_cloned_and_its_parameters_set(classifier):
    copy = clone(classifier).set_params(width=5, metric__max_iter=1)
    assert copy.width == 5
    assert copy.metric.max_iter == 1
    assert not hasattr(copy, "classes_")


def test_a_constant_channel_is_harmless(train, test):
    def with_constant(stream):
        return Stream(np.column_stack([stream.values, np.full(len(stream), 1e9)]), stream.states)

    clf = StreamClassifier(width=8, metric=mlat.MLAT(max_iter=10)).fit(with_constant(train))
    assert np.isfinite(clf.metric_.blocks_).all()
    assert clf.score(with_constant(test)) > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.values[:, :2], "X has 2 features, but StreamClassifier is expecting 3"),
        (lambda s: Stream(s.values, channels=["a", "b", "c"]), "channels are a, b, c; the model"),
        (lambda s: Stream(np.where(s.values > 1e9, 0, np.inf)), "infinite value at step 0"),
        (lambda s: "walk.csv", "values must have shape"),
    ],
)
def test_streams_that_do_not_fit(classifier, test, change, message):
    with pytest.raises(InputError, match=message):
        classifier.predict(change(test))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda s: StreamClassifier(n_neighbors=0).fit(s),
            "n_neighbors must be a whole",
        ),
        (lambda s: StreamClassifier(width=99).fit(s), "width 99 is longer than every run"),
        (lambda s: StreamClassifier(n_neighbors=9999).fit(s[:120]), "give one metric"),
        (
            lambda s: StreamClassifier(metric="euclidean", n_neighbors=9999).fit(s[:120]),
            "gives only",
        ),
        (lambda s: StreamClassifier().fit(s[:40]), "windows of one state only, forwards"),
        (lambda s: StreamClassifier().fit(s.values), "requires y to be passed.*values and states"),
        (lambda s: StreamClassifier(metric="cosine").fit(s), 'metric must be "auto", "euclidean"'),
        (lambda s: StreamClassifier().fit(Stream(s.values)), "the stream has no states"),
    ],
)
def test_bad_input_to_fit_gets_one_line(train, make, message):
    with pytest.raises(InputError, match=message) as caught:
        make(train)
    assert "\n" not in str(caught.value)


def test_predicting_an_empty_or_short_stream(classifier):
    assert classifier.predict(np.empty((0, 3))).shape == (0,)
    assert classifier.predict_proba(np.zeros((3, 3))).shape == (3, 4)


# Judged by itself


@pytest.mark.parametrize("k", [1, 3])
def test_each_side_is_predicted_from_the_other_alone(train, k):
    clf = StreamClassifier(width=8, metric="euclidean", n_neighbors=k).fit(train)
    told = clf.held_out_
    # Two runs of each state, in turn: the first of each is one side, the second the other.
    halves = [train[: len(train) // 2], train[len(train) // 2 :]]
    true, expected = [], []
    for judged, learned in (halves, halves[::-1]):
        other = StreamClassifier(width=8, metric="euclidean", n_neighbors=k).fit(learned)
        predicted = other.predict(judged)
        true += judged.states[predicted != ""].tolist()
        expected += predicted[predicted != ""].tolist()
    assert clf.classes_[told.codes].tolist() == true
    assert clf.classes_[told.predicted].tolist() == expected
    recall = [np.mean(told.predicted[told.codes == c] == c) for c in range(len(clf.classes_))]
    assert clf.committee_.accuracy == pytest.approx(np.mean(recall))
    assert clf.committee_.n_runs == len(train.runs)


def test_a_state_too_short_to_be_cut_is_not_judged():
    rng = np.random.default_rng(0)
    states = np.array(["a"] * 90 + [""] * 10 + ["b"] * 90 + ["short"] * 12)
    stream = Stream(rng.normal(size=(len(states), 2)), states)
    clf = StreamClassifier(width=5, metric="euclidean").fit(stream)
    told = clf.held_out_
    assert set(clf.classes_[told.codes]) == {"a", "b"}
    # The ends of a single run judge each other; 30 steps each, one after the other.
    assert len(told.codes) == 2 * (30 + 30 - 4)


def test_what_cannot_judge_itself_says_nothing_of_itself():
    rng = np.random.default_rng(0)
    stream = Stream(rng.normal(size=(24, 2)), ["a"] * 12 + ["b"] * 12)
    clf = StreamClassifier(width=5, metric="euclidean").fit(stream)
    assert clf.held_out_ is None
    assert np.isnan(clf.committee_.accuracy)


def test_what_is_fitted_has_a_short_text(train, classifier):
    live = classifier.live()
    live.push(train.values[:50])
    fitted = (classifier.windows_, classifier.features_, classifier.confidence_, train.runs)
    for one in (*fitted, live.state):
        assert len(repr(one)) < 800
        assert "\n" not in repr(one)
        assert "array([" not in repr(one)
    assert repr(classifier.windows_) == (
        "Windows(344 of 8 steps, 3 channels, states: backwards, fast, forwards, still)"
    )


def as_frame(stream, **columns):
    return pd.DataFrame({**columns, **dict(zip(stream.channels, stream.values.T, strict=True))})


@pytest.mark.parametrize("make", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_frame_with_time_and_persons(train, test, make):
    who = np.arange(len(train)) // 240
    clock = np.arange(len(train)) % 240 * 0.02
    frame = make(as_frame(train, Unnamed=0.0, time=clock, person=who).drop(columns="Unnamed"))
    clf = StreamClassifier(8, metric="euclidean").fit(frame, train.states)
    assert clf.channels_ == train.channels
    expected = StreamClassifier(8, metric="euclidean").fit(
        Stream(train.values, train.states, channels=train.channels, recordings=who, time=clock)
    )
    np.testing.assert_array_equal(clf.windows_.start, expected.windows_.start)
    # The frame that it learned from is taken, by the names of its channels in any order.
    turned = frame[list(frame.columns)[::-1]]
    within = Stream(train.values, channels=train.channels, recordings=who)
    for one in (frame, turned):
        np.testing.assert_array_equal(clf.predict(one), expected.predict(within))
    assert clf.score(frame, train.states) == pytest.approx(
        expected.score(Stream(within.values, train.states, recordings=who))
    )
    later = make(as_frame(test, k=np.arange(len(test))))  # a counter is no danger here
    np.testing.assert_array_equal(clf.predict(later), expected.predict(test))
    with pytest.raises(InputError, match="'k' only rises"):
        StreamClassifier(8, metric="euclidean").fit(later, test.states)
    named = ["k", *test.channels]
    fitted = StreamClassifier(8, metric="euclidean").fit(later, test.states, channels=named)
    assert fitted.channels_ == tuple(named)


def test_a_counter_in_an_array_is_warned_of_once(train):
    values = np.column_stack([np.arange(len(train)), train.values])
    with pytest.warns(UserWarning, match="column 0 of the array: equal steps"):
        clf = StreamClassifier(8, metric="euclidean").fit(values, train.states)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(values)
        clf.score(values, train.states)


def test_labels_of_plus_and_minus_one(train):
    states = np.where(train.states == train.classes[0], 1, -1)
    with pytest.raises(InputError, match=r"is -1, which stands for no state.*name them"):
        StreamClassifier(8, metric="euclidean").fit(train.values, states)
    some = np.where(train.states == train.classes[0], 0, states + 3)
    some[:40] = -1
    with pytest.warns(UserWarning, match="the state of 40 of .* steps is -1"):
        StreamClassifier(8, metric="euclidean").fit(train.values, some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = StreamClassifier(8, metric="euclidean").fit(train.values, some, unlabelled=-1)
        assert clf.classes_.tolist() == [0, 2]
        clf.score(train.values, some)  # whose -1 cannot be a state of the model


def test_rows_in_random_order(train):
    clf = StreamClassifier(2, metric="euclidean")
    frame = as_frame(train)
    with pytest.raises(ValueError, match="the index of the frame leaves rows out"):
        cross_val_score(
            clf, frame, train.states, cv=KFold(5, shuffle=True, random_state=0), error_score="raise"
        )
    blocks = cross_val_score(clf, frame, train.states, cv=KFold(2), error_score="raise")
    assert np.isfinite(blocks).all()
    rows, _ = next(ShuffleSplit(1, random_state=0).split(train.values))
    with pytest.warns(UserWarning, match="the steps seem to be in random order"):
        clf.fit(train.values[rows], train.states[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(train)
        noise = np.random.default_rng(0).normal(size=train.values.shape)
        clf.fit(noise, train.states)


TINY = rotating_states(run_length=20, runs_per_state=2, n_channels=2, noise=0.3)
FRESH = rotating_states(run_length=15, runs_per_state=1, n_channels=2, noise=0.3, random_state=1)
KINDS = {
    "euclidean": {"metric": "euclidean"},
    "filter": {"metric": mlat.MLAT(max_iter=4)},
    "admm": {"metric": mlat.MLAT(solver="admm", max_iter=3)},
    "lmnn": {"metric": mlat.LMNN(max_iter=4)},
    "neighbours": {"metric": "euclidean", "n_neighbors": 3, "unknown_rate": 0.2},
    "auto": {"reach": 6},
    "unscaled": {"metric": mlat.MLAT(max_iter=4), "scale": False},
    "lifted": {
        "metric": mlat.MLAT(max_iter=3),
        "lift": ["identity", "running_deviation", "difference"],
        "whiten": True,
    },
}
_told = {}


def told(kind, factor):
    """What a classifier says of the stream, learned from and given values times a factor."""
    key = kind, np.asarray(factor).tobytes()
    if key not in _told:
        clf = StreamClassifier(width=5, **KINDS[kind]).fit(TINY.values * factor, TINY.states)
        values = FRESH.values * factor
        live = [p.state for p in clf.live().push(values)]
        _told[key] = (
            clf.predict(values),
            clf.predict_proba(values),
            clf.predict(values, filtered=True),
            clf.kneighbors(values)[1],
            live,
        )
    return _told[key]


@settings(max_examples=30)
@given(st.sampled_from(sorted(KINDS)), st.integers(-900, 900))
@example("auto", 900)
@example("lifted", -900)
@example("unscaled", 900)
@example("admm", -900)
def test_data_in_any_unit_is_treated_alike(kind, power):
    """To the last bit, for units that are a power of two apart."""
    plain, other = told(kind, 1.0), told(kind, 2.0**power)
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=15)
@given(st.sampled_from(sorted(KINDS)), st.floats(-250, 250))
def test_any_factor_leaves_the_states(kind, power):
    plain, other = told(kind, 1.0), told(kind, 10.0**power)
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_allclose(plain[1], other[1], atol=1e-6)


@settings(max_examples=20)
@given(
    st.sampled_from(sorted(set(KINDS) - {"unscaled"})), st.integers(-900, 900), st.integers(-50, 50)
)
def test_every_channel_has_its_own_unit(kind, first, second):
    plain, other = told(kind, 1.0), told(kind, np.array([2.0**first, 2.0**second]))
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types_of_numbers_at_their_ends(dtype):
    size = 2.0**120 if dtype is np.float32 else 2.0**60
    values = (np.round(TINY.values * 100) / 1024 * size).astype(dtype)
    ends = StreamClassifier(width=5, metric="mlat").fit(values, TINY.states)
    same = np.round(TINY.values * 100) / 1024
    plain = StreamClassifier(width=5, metric="mlat").fit(same, TINY.states)
    np.testing.assert_array_equal(ends.predict(values), plain.predict(same))


def test_an_extreme_value_is_missing_and_said(classifier, test):
    values = test.values.copy()
    values[40, 1] = 1e155
    with pytest.warns(UserWarning, match=r"channel 'x1' is 1e\+155, where .* count as missing"):
        predicted = classifier.predict(values)
    missing = values.copy()
    missing[40, 1] = np.nan
    np.testing.assert_array_equal(predicted, classifier.predict(missing))
    with pytest.warns(UserWarning, match="count as missing"):
        proba = classifier.predict_proba(values)
    np.testing.assert_array_equal(proba, classifier.predict_proba(missing))
    assert np.isnan(proba[40:48]).all()


@pytest.mark.parametrize("huge", [1e9, 1e160, -1e308])
def test_a_value_beside_which_the_others_are_nothing_is_told(huge):
    stream = rotating_states(runs_per_state=2, run_length=60, random_state=0)
    values = stream.values.copy()
    values[5, 2] = huge
    with pytest.warns(UserWarning, match="1 of 480 values, such as .* at step 5, are more than"):
        clf = StreamClassifier().fit(Stream(values, stream.states))
    assert len(clf.predict(Stream(values))) == len(values)
