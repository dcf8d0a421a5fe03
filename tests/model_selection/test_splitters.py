"""Splitters keep what lies together in time on one side, in scikit-learn's own tools."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import mlat
from mlat import InputError, Stream, StreamClassifier
from mlat.model_selection import GappedBlocks, WholeRecordings, WholeRuns
from mlat.synthetic import rotating_states


@st.composite
def streams(draw):
    """States in runs of 3 to 30 steps, some steps missing or unlabelled, with recordings."""
    runs = draw(st.lists(st.tuples(st.sampled_from("ab "), st.integers(3, 30)), max_size=8))
    runs = [("a", 12), ("b", 12), *runs, ("a", 12), ("b", 12)]
    states = np.repeat([state.strip() for state, _ in runs], [length for _, length in runs])
    values = np.arange(2.0 * len(states)).reshape(-1, 2) ** 2 % 1999
    values[draw(st.lists(st.integers(0, len(states) - 1), max_size=3)), 0] = np.nan
    recordings = np.arange(len(states)) * draw(st.integers(1, 3)) // len(states)
    return Stream(values, states, recordings=recordings, channels=["p", "q"])


def steps_of(stream, part, width):
    """The steps of every window in a part of a stream, by their place in the whole."""
    windows = mlat.sliding_windows(stream[part], width, labelled=False)
    return {int(step) for start in windows.start for step in part[start : start + width]}


@settings(max_examples=40)
@given(streams(), st.integers(1, 6))
def test_parts_are_apart_and_every_labelled_run_is_judged_once(stream, width):
    for cv in (WholeRuns(2), GappedBlocks(2, gap=4)):
        judged = []
        for train, test in cv.split(stream):
            assert (np.diff(train) > 0).all()
            assert (np.diff(test) > 0).all()
            assert not steps_of(stream, train, width) & steps_of(stream, test, width)
            judged += test.tolist()
        assert sorted(judged) == np.flatnonzero(stream.labelled & ~stream.missing).tolist()


@settings(max_examples=40)
@given(streams(), st.integers(0, 2))
def test_blocks_keep_their_gap(stream, gap):
    for train, test in GappedBlocks(3, gap=gap).split(stream):
        nearest = np.abs(train[:, None] - test).min(axis=1)
        assert nearest.min() > gap
        assert set(stream.states[test]) == {"a", "b"}


@settings(max_examples=40)
@given(streams(), st.integers(2, 4), st.integers(1, 3))
def test_windows_on_two_sides_share_no_step(stream, width, every):
    windows = mlat.sliding_windows(stream, width, stride=every)
    if len(windows) < 8:
        return
    for cv, groups in ((WholeRuns(2), windows.run), (GappedBlocks(2, gap=width), None)):
        try:
            folds = list(cv.split(windows.X, windows.y, groups))
        except InputError:  # too few runs or rows
            continue
        for train, test in folds:
            before, after = windows.start[train], windows.start[test]
            assert np.abs(before[:, None] - after).min() >= width


@pytest.mark.parametrize("cv", [WholeRuns(2), GappedBlocks(2, gap=5), WholeRecordings(2)], ids=repr)
def test_a_copy_is_on_neither_side(cv):
    noise = np.random.default_rng(0).normal(size=(3, 80, 2))
    one = Stream(np.concatenate(noise), np.tile(np.repeat(["a", "b"], 20), 6))
    whole = Stream.join([one[:120], one[120:], one])
    with pytest.warns(UserWarning, match="240 of 480 rows are copies of earlier ones"):
        folds = list(cv.split(whole))
    assert all(max(train.max(), test.max()) < 240 for train, test in folds)
    with pytest.warns(UserWarning, match="copies"), pytest.raises(InputError, match="too few"):
        list(WholeRecordings(2).split(Stream.join([one, one])))


def test_whole_runs_deal_out_every_state_evenly():
    y = np.repeat(["a", "b"] * 6, np.tile([5, 9], 6))
    parts = [test for _, test in WholeRuns(3).split(np.zeros((len(y), 1)), y)]
    assert {(y[test] == "a").sum() for test in parts} == {10}
    assert {(y[test] == "b").sum() for test in parts} == {18}


def test_whole_recordings_and_people():
    groups = np.repeat(["eve", "adam", "seth"], [30, 20, 10])
    y = np.tile(["a", "b"], 30)
    for train, test in WholeRecordings(3).split(np.zeros((60, 1)), y, groups):
        assert len(set(groups[test])) == 1
        assert not set(groups[train]) & set(groups[test])
    stream = Stream(np.zeros((60, 1)), y, recordings=groups)
    by_stream = [test.tolist() for _, test in WholeRecordings(3).split(stream)]
    assert by_stream == [t.tolist() for _, t in WholeRecordings(3).split(y, y, groups)]


def test_a_state_of_one_recording_is_said():
    y, groups = np.repeat(["a", "b"], [30, 10]), np.repeat([0, 1], 20)
    with pytest.warns(UserWarning, match="state b is in the recordings of fold"):
        list(WholeRecordings(2).split(y, y, groups))


@pytest.mark.parametrize(
    ("cv", "y", "groups", "message"),
    [
        (WholeRuns(2), ["a"] * 9 + ["b"] * 9, None, "one run only.*GappedBlocks"),
        (WholeRuns(7), ["a", "b"] * 3, None, "n_splits of at most 6"),
        (WholeRuns(1), ["a", "b"] * 3, None, "n_splits must be"),
        (WholeRecordings(3), ["a", "b"] * 3, [0, 0, 0, 1, 1, 1], "2 recordings are too few"),
        (WholeRecordings(3), ["a", "b"] * 3, None, "give groups"),
        (
            GappedBlocks(2, gap=50),
            ["a"] * 9 + ["b"] * 9,
            None,
            "nothing of state a is left to learn",
        ),
        (GappedBlocks(4), ["a", "b"] * 3, None, "too few for 4 folds"),
        (WholeRuns(2), None, None, "give y"),
    ],
)
def test_what_cannot_be_split(cv, y, groups, message):
    with pytest.raises(InputError, match=message):
        list(cv.split(np.zeros((18 if y is None else len(y), 1)), y, groups))


@pytest.fixture(scope="module")
def stream():
    return rotating_states(run_length=100, n_channels=3)


@pytest.mark.parametrize("cv", [WholeRuns(2), GappedBlocks(3, gap=20)])
def test_a_grid_search_over_streams(stream, cv):
    """Each fold is what fit and score on that part of the stream give."""
    clf = StreamClassifier(metric="euclidean")
    search = GridSearchCV(clf, {"width": [4, 12]}, cv=cv).fit(stream)
    by_hand = [
        StreamClassifier(12, metric="euclidean").fit(stream[train]).score(stream[test])
        for train, test in cv.split(stream)
    ]
    found = [search.cv_results_[f"split{i}_test_score"][1] for i in range(len(by_hand))]
    assert found == by_hand
    named = GridSearchCV(clf, {"width": [4, 12]}, cv=cv).fit(stream, stream.states)
    np.testing.assert_array_equal(
        named.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


def test_a_frame_is_cut_as_a_stream_is(stream):
    frame = pd.DataFrame(stream.values, columns=["a", "b", "c"])
    clf, cv = StreamClassifier(6, metric="euclidean"), GappedBlocks(3, gap=20)
    whole = cross_val_score(clf, stream, stream.states, cv=cv)
    np.testing.assert_array_equal(cross_val_score(clf, frame, stream.states, cv=cv), whole)


def test_an_array_is_cut_as_a_stream_is_with_its_time(stream):
    clf, cv = StreamClassifier(6, metric="euclidean"), GappedBlocks(3, gap=20)
    whole = cross_val_score(clf, stream, stream.states, cv=cv)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = clf.set_fit_request(time=True).set_score_request(time=True)
        with_time = cross_val_score(
            clf, stream.values, stream.states, cv=cv, params={"time": np.arange(len(stream))}
        )
    np.testing.assert_array_equal(with_time, whole)


def test_groups_are_routed_to_the_splitter():
    groups = np.repeat([0, 1, 2], 40)
    y = np.tile(np.repeat(["a", "b"], 20), 3)
    X = np.random.default_rng(0).normal(size=(120, 2)) + (y == "a")[:, None]
    clf = KNeighborsClassifier(1)
    expected = cross_val_score(clf, X, y, groups=groups, cv=WholeRecordings(3))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_val_score(clf, X, y, params={"groups": groups}, cv=WholeRecordings(3))
    np.testing.assert_array_equal(routed, expected)


def said_of_overlap(cv, windows, X, **params):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pipeline = make_pipeline(mlat.MLAT(width=6, max_iter=3), KNeighborsClassifier(1))
        search = GridSearchCV(pipeline, {"mlat__push_weight": [0.1]}, cv=cv, **params)
        search.fit(X, windows.y, groups=windows.run)
    return any(
        "overlap with windows that the metric was learned from" in str(w.message) for w in said
    )


def test_overlapping_windows_meet_a_splitter(stream):
    windows = mlat.sliding_windows(stream, 6)
    X = windows.X.reshape(len(windows), -1)
    assert said_of_overlap(KFold(3, shuffle=True, random_state=0), windows, X)
    assert said_of_overlap(3, windows, X)  # plain folds, which cut runs
    assert not said_of_overlap(GappedBlocks(3, gap=6), windows, X)
    assert not said_of_overlap(WholeRuns(2), windows, X, return_train_score=True)
