"""Several groups (people, machines): learned for one that nobody has seen."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import mlat
from mlat import Stream, StreamClassifier
from mlat.base.errors import InputError
from mlat.classifier.enrolment import in_units
from mlat.classifier.experts import Design, fair_references, fair_rows, learn_metric
from mlat.classifier.held_out import GROUP, RUN, Evidence, evidence, expect, far_folds
from mlat.features.features import Units, in_common_units
from mlat.metric.estimators import MLAT
from mlat.synthetic import rotating_states

WHO = ("ann", "bob", "cy", "dee")


def person(seed, moved=True):
    """Somebody whose sensors have levels and scales of their own."""
    stream = rotating_states(runs_per_state=3, random_state=seed)
    rng = np.random.default_rng(1000 + seed)
    offset, scale = 30 * rng.normal(size=8), np.exp(rng.normal(size=8))
    return stream.with_values(stream.values * scale + offset) if moved else stream


people = [person(seed) for seed in range(4)]
new = person(9)


@pytest.fixture(scope="module", params=["auto", "euclidean"])
def learned(request):
    return StreamClassifier(8, metric=request.param).fit(people, groups=WHO)


def test_groups_of_recordings_and_of_steps_are_the_same(learned):
    joined = Stream.join(people)
    steps = np.repeat(WHO, [len(one) for one in people])
    again = StreamClassifier(8, metric=learned.metric).fit(joined, groups=steps)
    np.testing.assert_array_equal(again.predict(people[0]), learned.predict(people[0]))


def test_what_is_expected_is_of_another_group(learned):
    assert learned.committee_.expected.of == GROUP
    truth = in_units(learned, Units.of(new)).score(new)
    assert learned.committee_.expected.low < truth < learned.committee_.expected.high


def test_the_interval_is_as_wide_as_groups_differ():
    codes, group = np.tile([0, 1], 30), np.repeat(["a", "b", "c"], 20)
    found = Evidence(np.zeros(60, np.int64), GROUP, 3.0)
    told = expect(found, codes, codes, np.arange(60), group)
    assert 0.7 < told.low < told.accuracy == told.high == 1.0
    wrong = np.where(group == "c", 1 - codes, codes)
    told = expect(found, wrong, codes, np.arange(60), group)
    assert told.accuracy == pytest.approx(2 / 3)
    assert (told.low, told.high) == (0.0, 1.0)


def test_no_group_is_on_both_sides():
    joined = Stream.join(people).with_groups(np.repeat(WHO, [len(p) for p in people]))
    folds = far_folds(joined, 8, 3)
    assert len(folds) == 3
    for fold in folds:
        there = set(fold.train.groups[fold.train.labelled])
        values = {row.tobytes() for row in fold.judged.values}
        judged = {
            who
            for who, one in zip(WHO, people, strict=True)
            if values & {row.tobytes() for row in one.values}
        }
        assert judged
        assert there
        assert there.isdisjoint(judged)


def test_one_group_says_nothing_of_another():
    one = people[0].with_groups(["ann"] * len(people[0]))
    assert evidence(one, 8).of == RUN
    assert StreamClassifier(8, metric="euclidean").fit(one).units_ is None


def test_common_units_are_chosen_where_people_differ_in_them_and_not_where_they_tell(learned):
    assert learned.units_ is not None
    assert not learned.units_.adapted
    alike = [person(seed, moved=False) for seed in range(4)]
    levels = [  # where the level of a channel is the state, and each has them in other shares
        Stream(
            np.random.default_rng(seed).normal(size=(400, 2)) * 0.3
            + np.where(states == "up", 3.0, 0.0)[:, None],
            states,
        )
        for seed, share in enumerate((0.2, 0.8, 0.3, 0.7))
        for states in [np.where(np.arange(400) % 100 < 100 * share, "up", "down")]
    ]
    for streams in (alike, levels):
        clf = StreamClassifier(8, metric="euclidean").fit(streams, groups=WHO)
        score = clf.adapt(streams[0]).score(streams[0]) if clf.units_ else clf.score(streams[0])
        assert score > 0.9
    assert clf.units_ is None


def test_a_new_person_is_predicted_once_the_model_is_adapted(learned):
    with pytest.warns(UserWarning, match="adapt it to a recording"):
        before = learned.score(new)
    adapted = learned.adapt(new.values)  # without states
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adapted.score(new) > before + 0.1
    assert not learned.units_.adapted


def test_the_units_of_the_last_one_count(learned):
    once = in_units(learned, Units.of(new))
    there_and_back = in_units(in_units(learned, Units.of(people[0])), Units.of(new))
    np.testing.assert_allclose(there_and_back.mean_, once.mean_)
    np.testing.assert_allclose(there_and_back.windows_.values, once.windows_.values)


def test_distances_in_units_of_ones_own_are_those_in_common_units(learned):
    """The slow way: the new stream is brought to the units that the model was learned in."""
    same = new.with_values(Units.of(new).converted(new.values, learned.units_))
    moved = in_units(learned, Units.of(new))
    np.testing.assert_allclose(moved.class_distances(new), learned.class_distances(same), rtol=1e-6)


def test_what_is_surest_of_a_recording_joins_the_references(learned):
    adapted = learned.adapt(new)
    n = len(adapted.windows_) - len(learned.windows_)
    assert 0.7 * len(mlat.sliding_windows(new, 8)) < n < len(new)
    joined = adapted.windows_.take(np.arange(len(learned.windows_), len(adapted.windows_)))
    every = sliding_window_view(new.values, 8, axis=0).transpose(0, 2, 1)
    place = [np.flatnonzero((every == window).all(axis=(1, 2)))[0] for window in joined.X]
    assert (np.diff(place) > 0).all()
    # What it is surest of is right more often than what it says of all.
    assert (joined.y == new.states[np.add(place, 7)]).mean() >= learned.adapt(new).score(new) - 0.02
    # The same states for the same values, whatever states these have.
    none = new.with_states(np.full(len(new), ""))
    np.testing.assert_array_equal(learned.adapt(none).predict(new), adapted.predict(new))


@pytest.mark.parametrize("metric", ["auto", "euclidean"])
def test_a_recording_that_lacks_states_is_not_adapted_to(metric):
    """Its mean and deviation would make of one state all of them."""

    def alike(seed):  # people who differ less than states do
        stream = rotating_states(runs_per_state=3, random_state=seed)
        rng = np.random.default_rng(50 + seed)
        moved = stream.values * np.exp(0.3 * rng.normal(size=8)) + 0.3 * rng.normal(size=8)
        return stream.with_values(moved + np.where(stream.states == "fast", 4.0, 0.0)[:, None])

    clf = StreamClassifier(8, metric=metric).fit([alike(seed) for seed in range(4)], groups=WHO)
    assert clf.units_ is not None
    whole = alike(9)
    one_state = whole[: int(whole.runs.length[0])]
    with pytest.warns(UserWarning, match="the usual states in their usual shares"):
        not_adapted = clf.adapt(one_state)
    with pytest.warns(UserWarning, match="adapt it"):
        np.testing.assert_array_equal(not_adapted.predict(whole), clf.predict(whole))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clf.adapt(whole).units_.adapted


def test_of_a_recording_without_windows_nothing_joins(learned):
    short = new[:7]
    np.testing.assert_array_equal(
        learned.adapt(short).windows_.X, in_units(learned, Units.of(short)).windows_.X
    )


def test_an_adapted_model_is_saved_and_runs_live(learned, tmp_path):
    adapted = learned.adapt(new)
    for model in (learned, adapted):
        model.save(tmp_path / "model.mlat")
        back = mlat.load(tmp_path / "model.mlat")
        assert back.units_.adapted == model.units_.adapted
        np.testing.assert_array_equal(back.units_.scale, model.units_.scale)
    expected = adapted.predict(new)
    np.testing.assert_array_equal(back.predict(new), expected)
    live = adapted.live()
    told = [p.state for chunk in np.array_split(new.values[:90], 7) for p in live.push(chunk)]
    assert told == expected[:90].tolist()


def test_enrolling_adapts_first(learned):
    seconds = new.states.copy()
    seconds[60:] = ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enrolled = learned.enrol(new.with_states(seconds))
        assert enrolled.units_.adapted
        assert enrolled.score(new[60:]) > 0.5


def test_a_model_of_one_group_is_adapted_without_units():
    clf = StreamClassifier(8, metric="euclidean").fit(people[0])
    adapted = clf.adapt(person(7, moved=False).with_values(people[0].values))
    assert adapted.units_ is None
    assert len(adapted.windows_) > len(clf.windows_)


def test_groups_must_fit():
    clf = StreamClassifier(8, metric="euclidean")
    with pytest.raises(InputError, match="groups must have one entry per step"):
        clf.fit(people[0], groups=["ann", "bob"])
    with pytest.raises(InputError, match="the group is missing at step 3"):
        clf.fit(people[0], groups=["ann"] * 3 + [None] * (len(people[0]) - 3))
    named = people[0].with_groups(["ann"] * len(people[0]))
    with pytest.raises(InputError, match="say it of all"):
        Stream.join([named, people[1]])


def test_a_part_of_a_stream_keeps_its_groups_and_a_new_one_ends_a_run():
    both = Stream(np.zeros((6, 1)), ["a"] * 6, groups=list("xxxyyy"))
    assert both[2:4].groups.tolist() == ["x", "y"]
    assert [(start, stop) for start, stop, _ in both.runs] == [(0, 3), (3, 6)]
    assert both[:3].followed_by(both[3:]).groups.tolist() == both.groups.tolist()


# Nobody dominates


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1), st.integers(3, 40))
def test_each_group_gives_as_many_windows_of_a_state_as_it_can(pairs, most):
    labels, groups = (np.array(column) for column in zip(*pairs, strict=True))
    rows = fair_rows(labels, most, groups)
    assert (np.diff(rows) > 0).all()
    for state in np.unique(labels):
        mine = labels == state
        there, taken = (np.bincount(groups[r], minlength=4) for r in (mine, rows[mine[rows]]))
        assert taken.sum() <= max(2 * 4, most)
        short = taken < there
        if short.any():  # who gives fewer than there are gives about as many as anybody
            assert taken.max() - taken[short].min() <= 2


def test_of_a_group_with_very_many_references_some_are_kept():
    long = np.repeat([0, 1, 2], [100, 100, 1000])
    states = np.where(np.arange(1200) % 100 < 50, "a", "b")
    stream = Stream(np.random.default_rng(0).normal(size=(1200, 1)), states, groups=long)
    windows = mlat.sliding_windows(stream, 5)
    kept = fair_references(windows, stream)
    of = [np.bincount(long[w.start[w.y == "a"]], minlength=3) for w in (windows, kept)]
    assert of[0].tolist() == [46, 46, 460]
    assert of[1].tolist() == [46, 46, 92]


def test_targets_of_mlat_are_of_other_groups():
    stream = Stream.join(people).with_groups(np.repeat(WHO, [len(p) for p in people]))
    stream, _ = in_common_units(stream)
    windows = mlat.sliding_windows(stream, 4, stride=8)
    group = np.unique(stream.groups, return_inverse=True)[1][windows.start]
    metric = MLAT(n_targets=1, max_iter=5)
    learned = learn_metric(Design("one", 4, metric=metric), windows, groups=group)
    far = 10 * len(stream)
    expected = metric.fit(windows.X, windows.y, start=windows.start + far * group, run=group)
    np.testing.assert_allclose(learned.taps_, expected.taps_, rtol=1e-6)
    alone = MLAT(n_targets=1, max_iter=5).fit(windows, windows.y)
    assert not np.allclose(alone.taps_, expected.taps_, rtol=1e-3)


@given(st.integers(0, 9), st.floats(0.01, 100), st.floats(-1000, 1000))
def test_units_there_and_back(seed, scale, mean):
    stream = person(seed)
    own, to = Units.of(stream), Units(np.full(8, mean), np.full(8, scale))
    there = own.converted(stream.values, to)
    np.testing.assert_allclose(there.mean(axis=0), mean, atol=1e-9 * (abs(mean) + scale))
    np.testing.assert_allclose(there.std(axis=0), scale)
    np.testing.assert_allclose(to.converted(there, own), stream.values, rtol=1e-7, atol=1e-7)
