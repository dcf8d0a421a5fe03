"""Which steps judge what was learned from the others: nothing may leak from one to the other."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mlat import InputError, Lift, Stream, StreamClassifier
from mlat.classifier.held_out import (
    BOTH,
    EARLY,
    LATE,
    NEITHER,
    RECORDING,
    RUN,
    Evidence,
    _share_out,
    cut,
    evidence,
    expect,
    far_folds,
    far_sides,
    has_switches,
    held_out_gap,
    rows_nearby,
    time_blocks,
    told_by_one_value,
)
from mlat.features.features import learn_features
from mlat.neighbours.search import ClassDistances
from naive import naive_episodes

ENERGIES = ("identity", "low_pass", "running_magnitude", "running_deviation", "running_difference")


@st.composite
def streams(draw, max_run=90):
    """Runs of some states and of none, perhaps with recordings and lost values.

    The first channel is the number of the step, so that a step is known wherever it goes.
    """
    lengths = draw(st.lists(st.integers(1, max_run), min_size=2, max_size=9))
    names = [draw(st.sampled_from(["a", "b", "c", ""])) for _ in lengths]
    n = sum(lengths)
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n, 2))
    values[:, 0] = np.arange(n)
    for lost in draw(st.lists(st.integers(0, n - 1), max_size=2)):
        values[lost, 1] = np.nan
    recordings = np.cumsum(np.isin(np.arange(n), draw(st.lists(st.integers(1, n), max_size=2))))
    return Stream(
        values, np.repeat(names, lengths), recordings=recordings, channels=["number", "value"]
    )


def numbers(stream):
    """The numbers of steps in the whole stream, from channel 0."""
    return stream.values[:, 0].astype(int)


def can_be_cut(stream, width):
    return bool(len(stream.runs)) and (stream.runs.length >= width).any()


@settings(max_examples=200)
@given(stream=streams(), width=st.integers(1, 6), n_sides=st.integers(2, 4))
def test_what_judges_shares_no_step_with_what_teaches(stream, width, n_sides):
    assume(can_be_cut(stream, width))
    judged_once = []
    for fold in far_folds(stream, width, n_sides):
        teaching = set(numbers(fold.train)[fold.train.labelled].tolist())
        judging = set(numbers(fold.judged).tolist())
        assert fold.judged.labelled.all()
        assert not teaching & judging
        for start, stop, _ in stream.runs:
            run = set(range(start, stop))
            if teaching & run and judging & run:
                first, second = sorted([teaching & run, judging & run], key=min)
                # They lie one after the other, with at least two widths between them.
                assert min(second) - max(first) - 1 >= 2 * width
        assert {str(s) for s in fold.judged.classes} <= {str(s) for s in fold.train.classes}
        assert len(fold.judged.classes) >= 2
        judged_once += sorted(judging)
        # As the whole stream has them.
        for one in (fold.train, fold.judged):
            mine = numbers(one)[one.labelled]
            np.testing.assert_array_equal(one.states[one.labelled], stream.states[mine])
            np.testing.assert_array_equal(one.values[one.labelled], stream.values[mine])
    assert len(judged_once) == len(set(judged_once))


def test_what_is_judged_has_the_switches_of_the_stream():
    rng = np.random.default_rng(0)
    states = np.tile(np.repeat(["a", "b"], 60), 4)
    values = np.column_stack([np.arange(480), rng.normal(size=480)])
    names = ["number", "value"]
    whole = Stream(values, states, channels=names)
    cut_up = Stream(values, states, recordings=np.arange(480) // 60, channels=names)
    assert has_switches(whole)
    assert not has_switches(cut_up)
    for fold in far_folds(whole, 10, 2):
        assert len(fold.judged.segments) == 1
        assert len(fold.judged.runs) == 4
    for fold in far_folds(cut_up, 10, 2):
        assert len(fold.judged.segments) == 4


def test_evidence_is_counted_by_state():
    states = np.tile(np.repeat(["a", "b"], 60), 4)
    assert evidence(Stream(np.zeros((480, 1)), states), 10)[1:] == (RUN, 4)
    assert evidence(Stream(np.zeros((120, 1)), np.repeat(["a", "b"], 60)), 10)[1:] == ("", 1)
    assert evidence(Stream(np.zeros((4, 1)), ["", "", "", ""]), 10)[1:] == ("", 0)
    two = Stream(np.zeros((480, 1)), states, recordings=np.arange(480) // 240)
    assert evidence(two, 10)[1:] == (RECORDING, 2)
    apart = Stream(np.zeros((120, 1)), np.repeat(["a", "b"], 60), recordings=np.arange(120) // 60)
    assert evidence(apart, 10)[1:] == ("", 1), "no state is in two recordings"


def test_recordings_are_left_out_as_a_whole():
    states = np.tile(np.repeat(["a", "b", "c"], 60), 4)
    recordings = np.repeat([0, 1, 2, 2], 180)
    values = np.arange(720.0)[:, None]
    folds = far_folds(Stream(values, states, recordings=recordings), 10, 3)
    assert len(folds) == 3
    for fold in folds:
        judging = set(recordings[fold.judged.values[:, 0].astype(int)])
        teaching = set(recordings[fold.train.values[fold.train.labelled, 0].astype(int)])
        assert not judging & teaching
        assert fold.judged.classes.tolist() == ["a", "b", "c"]


def test_what_is_expected_is_what_was_right_and_surer_with_more_runs():
    widths = []
    for n_runs in (3, 12):
        run = np.repeat(np.arange(4 * n_runs), 50)
        codes = run % 4
        # Of every ten runs two are half wrong.
        right = (run % 5 > 0) | (np.arange(len(run)) % 2 > 0)
        predicted = np.where(right, codes, (codes + 1) % 4)
        found = expect(Evidence(run, RUN, n_runs), predicted, codes, run, run)
        assert found.of == RUN
        assert found.accuracy == pytest.approx(right.mean(), abs=0.02)
        assert 0 <= found.low < found.accuracy < found.high <= 1
        widths.append(found.high - found.low)
    assert widths[1] < widths[0]


def test_two_runs_expect_more_than_what_one_taught_and_one_run_expects_nothing():
    run = np.repeat(np.arange(8), 20)
    codes = run % 4
    predicted = np.where(np.arange(160) % 2, codes, (codes + 1) % 4)
    few, several = (expect(Evidence(run, RUN, n), predicted, codes, run, run) for n in (2, 3))
    assert few.accuracy > several.accuracy == pytest.approx(0.5)
    assert expect(Evidence(run, "", 1), predicted, codes, run, run) is None
    guessed = expect(Evidence(run, RUN, 2), (codes + 1) % 4, codes, run, run)
    assert guessed.accuracy == 0.25


@settings(max_examples=80)
@given(
    stream=streams(),
    width=st.integers(1, 5),
    reach=st.sampled_from([1, 3, 40, 500]),
    data=st.data(),
)
def test_lifted_values_of_one_side_do_not_know_the_other(stream, width, reach, data):
    assume(can_be_cut(stream, width))
    sides = far_sides(stream, width)
    part, on_side = cut(stream, sides)
    other = data.draw(st.sampled_from([EARLY, LATE]))
    values = stream.values.copy()
    values[sides == other] = 1e3 + np.random.default_rng(0).normal(size=2)
    changed, _ = cut(
        Stream(values, stream.states, recordings=stream.recordings),
        sides,
    )
    lift = Lift(ENERGIES, reach)
    before, after = (learn_features(s, lift, scale=False)[1] for s in (part, changed))
    # Not the side itself, the middle before it, nor the states that are on both sides.
    this = np.isin(on_side, [EARLY + LATE - other, BOTH])
    np.testing.assert_array_equal(before[this], after[this])


@settings(max_examples=150)
@given(stream=streams(max_run=150), width=st.integers(1, 6))
def test_sides_by_state(stream, width):
    assume(evidence(stream, width).of != RECORDING)
    """Whole episodes where there are several, thirds of one, and both sides of a short one."""
    assume(can_be_cut(stream, width))
    sides = far_sides(stream, width)
    used = np.zeros(len(stream), bool)
    for code in range(len(stream.classes)):
        runs = [(a, b) for a, b, c in stream.runs if c == code and b - a >= width]
        if not runs:
            continue
        steps = np.concatenate([np.arange(a, b) for a, b in runs])
        used[steps] = True
        number = np.repeat(np.arange(len(runs)), [b - a for a, b in runs])
        rows = np.arange(len(steps))
        episode = np.array([*naive_episodes(rows, steps, number, 5 * width).values()])
        mine = sides[steps]
        if episode[-1] > 0:
            of_episode = [set(mine[episode == e].tolist()) for e in set(episode.tolist())]
            assert all(len(side) == 1 for side in of_episode)
            assert set.union(*of_episode) == {EARLY, LATE}
            early, late = (mine == EARLY).sum(), (mine == LATE).sum()
            assert abs(early - late) <= np.bincount(episode).max()
        elif len(steps) // 3 < 2 * width:
            assert (mine == BOTH).all()
        else:
            third = len(steps) // 3
            assert (mine[:third] == EARLY).all()
            assert (mine[-third:] == LATE).all()
            assert (mine[third:-third] == NEITHER).all()
    assert (sides[~used] == NEITHER).all()


def test_a_state_too_short_is_learned_from_twice_and_never_judged():
    stream = Stream(
        np.random.default_rng(0).normal(size=(230, 1)), list("a" * 100 + "b" * 100 + "c" * 30)
    )
    values = np.column_stack([np.arange(230), stream.values])
    stream = Stream(values, stream.states)
    sides = far_sides(stream, 10)
    assert (sides[200:] == BOTH).all()
    folds = far_folds(stream, 10)
    assert len(folds) == 2
    for fold in folds:
        assert (fold.train.states == "c").sum() == 30
        assert set(fold.judged.states) == {"a", "b"}


def test_nothing_can_be_judged_of_one_long_state():
    stream = Stream(
        np.column_stack([np.arange(160), np.ones(160)]), ["a"] * 100 + ["b"] * 30 + ["c"] * 30
    )
    assert far_folds(stream, 10) == []


def test_a_lost_value_does_not_make_two_episodes():
    values = np.ones((400, 1))
    values[60] = np.nan
    sides = far_sides(Stream(values, ["a"] * 200 + ["b"] * 200), 10)
    assert (sides[:60] == EARLY).all()  # a third of 199 steps, and not one of two runs
    assert (sides[67:133] == NEITHER).all()
    assert (sides[134:200] == LATE).all()


def test_the_cut_stream_is_broken_at_every_edge():
    values = np.arange(300.0)[:, None]
    values[150] = np.nan
    states = ["a"] * 100 + [""] * 20 + ["b"] * 180
    sides = np.full(300, NEITHER)
    sides[:30], sides[70:100] = EARLY, LATE
    part, on_side = cut(Stream(values, states), sides)
    kept = [t for t in range(300) if not 100 <= t < 120 and t != 150]
    np.testing.assert_array_equal(part.values[:, 0], kept)
    np.testing.assert_array_equal(on_side, sides[kept])
    begins = part.values[part.segments.start, 0]
    np.testing.assert_array_equal(begins, [0, 30, 120, 151])
    assert [str(part.classes[c]) for c in part.runs.code] == ["a", "a", "b", "b"]


def test_episodes_go_to_the_side_that_has_less():
    episode = np.repeat([0, 1, 2, 3], [5, 10, 4, 2])
    side = _share_out(episode, 0 * episode, 2)
    # The longest first, 10; then 5 and 4 against it; then 2 to the side of 9.
    np.testing.assert_array_equal(side, np.repeat([LATE, EARLY, LATE, LATE], [5, 10, 4, 2]))
    third = LATE + 1
    np.testing.assert_array_equal(
        _share_out(episode, 0 * episode, 3), np.repeat([LATE, EARLY, third, third], [5, 10, 4, 2])
    )


@pytest.mark.parametrize("width", [1, 10])
def test_sides_of_no_windows_at_all(width):
    stream = Stream(np.zeros((20, 1)), [""] * 20)
    assert (far_sides(stream, width) == NEITHER).all()


# --- Which references to hold out ---------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)


def random_windows(seed):
    """Starts and states of windows in the order of a stream, with gaps and with time going back."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    start = np.cumsum(rng.choice([1, 1, 1, 2, 7], n))
    if rng.random() < 0.3:
        start[n // 2 :] -= start[n // 2]
    codes = np.repeat(rng.integers(0, 3, n), rng.integers(1, 9, n))[:n]
    return start, codes


def naive_nearby(start, codes, gap, i):
    """The rows around i that a walk to either side meets."""
    rows = {i}
    for way in (-1, 1):
        j = i + way
        while (
            0 <= j < len(start)
            and codes[j] == codes[i]
            and way * (start[j] - start[j - way]) > 0
            and abs(start[j] - start[i]) < gap
        ):
            rows.add(j)
            j += way
    return rows


@given(seeds, st.integers(1, 12))
def test_rows_nearby_are_those_a_walk_meets(seed, gap):
    start, codes = random_windows(seed)
    gaps = gap + np.arange(len(start)) % 3
    for every in (gap, gaps):
        rows = rows_nearby(start, codes, every)
        for i, (first, last) in enumerate(rows):
            own = every if np.isscalar(every) else every[i]
            assert set(range(first, last)) == naive_nearby(start, codes, own, i)


@given(seeds, st.integers(1, 10))
def test_blocks_are_short_and_of_one_state(seed, length):
    start, codes = random_windows(seed)
    blocks = time_blocks(start, codes, length)
    assert blocks[0] == 0
    assert set(np.diff(blocks)) <= {0, 1}
    for block in np.unique(blocks):
        rows = blocks == block
        assert len(np.unique(codes[rows])) == 1
        assert np.ptp(start[rows]) < length


def test_the_gap_is_ten_widths_or_half_of_a_short_state():
    start = np.concatenate([np.arange(500), 500 + np.arange(41)])
    codes = np.repeat([0, 1], [500, 41])
    gap = held_out_gap(start, codes, width=8)
    assert set(gap[codes == 0]) == {80}
    assert set(gap[codes == 1]) == {20}
    # So every window has a reference of its own state left.
    rows = rows_nearby(start, codes, gap)
    Z = np.zeros((len(start), 1))
    nearest = ClassDistances(Z, codes, 2).query(Z, exclude=rows)
    assert np.isfinite(nearest).all()


def test_windows_left_out_need_a_gap():
    with pytest.raises(InputError, match="gap must be at least 1, not 0"):
        rows_nearby(np.arange(3), np.zeros(3, int), 0)
    with pytest.raises(InputError, match="length must be at least 1, not 0"):
        time_blocks(np.arange(3), np.zeros(3, int), 0)
    assert rows_nearby(np.empty(0, int), np.empty(0, int), 1).shape == (0, 2)
    assert time_blocks(np.empty(0, int), np.empty(0, int), 1).shape == (0,)


def test_what_one_value_tells_warns_of_no_state_that_is_not_judged():
    # The last state is too short to be judged, but the nearest values of others are in it, too.
    lengths = [60, 60, 60, 12]
    values = np.random.default_rng(0).normal(size=(sum(lengths), 1))
    stream = Stream(values, np.repeat(["a", "b", "a", "c"], lengths))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (told,) = told_by_one_value(stream, 5)
    assert 0.2 < told < 0.8


def test_copies_of_noise_do_not_look_learnable():
    rng = np.random.default_rng(0)
    states = np.tile(np.repeat(["a", "b", "c"], 60), 4)
    one = Stream(rng.normal(size=(len(states), 2)), states)
    streams = Stream.join([one, one])
    with pytest.warns(UserWarning, match="720 of 1440 labelled steps are copies of earlier ones"):
        clf = StreamClassifier(8).fit(streams)
    assert clf.committee_.accuracy < 0.45
    alone = StreamClassifier(8).fit(one)
    again = Stream(rng.normal(size=(300, 2)))
    np.testing.assert_array_equal(clf.predict(again), alone.predict(again))
