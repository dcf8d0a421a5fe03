import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_oracles import (
    alike,
    assert_as_batch,
    dead_naively,
    hold_naively,
    push_all,
    recordings,
    states,
)
from mlat import InputError, Stream, StreamClassifier
from mlat.live import LiveModel
from mlat.live.core.dead_channels import NEVER
from model_rewriting import rewrite
from state_streams import clusters, energy_states

ENERGY = energy_states(0, run_length=40, n_channels=2)
MODELS = {
    "plain": StreamClassifier(4, metric="euclidean").fit(ENERGY),
    "lifted": StreamClassifier(
        4,
        metric=mlat.MLAT(max_iter=2),
        lift=mlat.Lift(["identity", "difference", "running_magnitude"], reach=5),
        whiten=True,
    ).fit(ENERGY),
    "auto": StreamClassifier(5, reach=6).fit(ENERGY),
}
EXACT = {"search": "exact", "far": None}
names = st.sampled_from(sorted(MODELS))
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@st.composite
def holed(draw, n_steps=40):
    """Values of which some are missing, singly and in stretches."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=(n_steps, 2))
    for _ in range(draw(st.integers(0, 5))):
        start, length = draw(st.integers(0, n_steps - 1)), draw(st.integers(1, 5))
        values[start : start + length, draw(st.sampled_from([[0], [1], [0, 1]]))] = np.nan
    return values


# Missing values


@given(names, holed(), sizes, st.booleans())
def test_abstaining_is_predict_with_missing_values(name, values, sizes, filtered):
    clf = MODELS[name]
    live = clf.live(**EXACT, filtered=filtered)
    predictions = push_all(live, values, sizes)
    assert_as_batch(clf, predictions, values, filtered=filtered)
    missing = np.isnan(values).any(axis=1)
    assert all(predictions[t].why == "missing" for t in np.flatnonzero(missing))
    assert live.counters["missing"] == missing.sum()


@given(names, holed(), sizes, st.integers(1, 4), st.sets(st.integers(1, 39), max_size=2))
def test_holding_is_predict_on_the_filled_stream(name, values, sizes, hold, jumps):
    clf = MODELS[name]
    gap = np.isin(np.arange(len(values)), [*jumps])
    live = clf.live(**EXACT, missing="hold", hold=hold)
    predictions = push_all(live, values, sizes, seq=np.arange(len(values)) + 5 * np.cumsum(gap))
    filled = hold_naively(values, hold, gap)
    assert_as_batch(clf, predictions, Stream(filled, recordings=recordings(gap)))
    missing, lacking = np.isnan(filled).any(axis=1), np.isnan(values).any(axis=1)
    assert live.counters["missing"] == missing.sum()
    assert live.counters["held"] == (lacking & ~missing).sum()
    assert live.counters["gaps"] == gap.sum()


@given(names, holed(), sizes)
def test_rejecting_is_predict_without_these_steps(name, values, sizes):
    clf = MODELS[name]
    live = clf.live(**EXACT, missing="reject")
    predictions = push_all(live, values, sizes)
    kept = ~np.isnan(values).any(axis=1)
    after = np.cumsum(~kept)[kept]  # another recording after every refusal
    assert_as_batch(clf, predictions, Stream(values[kept], recordings=after))
    assert live.counters["rejected"] == (~kept).sum()
    assert live.counters["accepted"] == kept.sum()


def test_the_reasons_follow_each_other():
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[8, 0] = np.nan
    seq = np.arange(20) + (np.arange(20) >= 14)
    told = MODELS["plain"].live(**EXACT).push(values, seq=seq)
    assert [p.why for p in told] == (
        ["filling"] * 3 + [""] * 5 + ["missing"] * 4 + [""] * 2 + ["gap"] * 3 + [""] * 3
    )


@pytest.mark.parametrize("missing", ["abstain", "hold", "reject"])
def test_an_infinite_value_is_refused(missing):
    clf = MODELS["plain"]
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[9, 1], values[10, 0] = np.inf, -np.inf
    live = clf.live(**EXACT, missing=missing)
    kept = np.delete(np.arange(20), [9, 10])
    assert_as_batch(
        clf, push_all(live, values, [3]), Stream(values[kept], recordings=(kept > 10) * 1)
    )
    assert live.counters["infinite"] == live.counters["rejected"] == 2
    assert live.counters["gaps"] == 1


# Gaps


@given(names, sizes, st.lists(st.sampled_from([1, 1, 1, 1, 2, 7]), min_size=30, max_size=30))
def test_a_jump_in_the_numbers_is_a_recording_boundary(name, sizes, ticks):
    clf = MODELS[name]
    values = np.random.default_rng(1).normal(size=(30, 2))
    seq = 100 + np.cumsum(ticks)
    live = clf.live(**EXACT)
    gap = np.diff(seq, prepend=seq[0] - 1) != 1
    predictions = push_all(live, values, sizes, seq=seq)
    assert_as_batch(clf, predictions, Stream(values, recordings=recordings(gap)))
    assert [p.seq for p in predictions] == seq.tolist()
    assert live.counters["gaps"] == gap.sum()


@given(
    sizes,
    st.lists(st.sampled_from([0.01, 0.011, 0.009, 0.02, 1.0]), min_size=30, max_size=30),
    st.sampled_from([{"rate": 100.0}, {"max_gap": 0.5}, {"rate": 100.0, "max_gap": 0.1}, {}]),
)
def test_a_jump_in_time_is_a_gap(sizes, ticks, options):
    clf = MODELS["lifted"]
    values = np.random.default_rng(1).normal(size=(30, 2))
    time = np.cumsum(ticks)
    live = clf.live(**EXACT, **options)
    most = options.get("max_gap", 0.015 if options else np.inf)
    stream = Stream(values, time=time, max_gap=most)
    assert_as_batch(clf, push_all(live, values, sizes, time=time), stream)
    assert live.counters["gaps"] == len(stream.segments) - 1


def test_a_clock_that_is_set_back_is_a_gap():
    live = MODELS["plain"].live(**EXACT, rate=100.0)
    told = live.push(np.random.default_rng(0).normal(size=(4, 2)), time=[0.0, 0.01, -5.0, -4.99])
    assert [p.why for p in told] == ["filling", "filling", "gap", "gap"]


@pytest.mark.parametrize("unit", [1e3, 1e-3, 1e9])
def test_a_wrong_unit_of_time_is_said_once(unit):
    live = MODELS["plain"].live(rate=100.0)
    values = np.random.default_rng(0).normal(size=(60, 2))
    for i in range(60):
        live.push(values[i : i + 1], time=[i * 0.01 * unit])
    assert live.counters["accepted"] == 60
    assert live.counters["wrong_unit"] == 1
    assert len(live.warnings) == 1
    assert f"{0.01 * unit:g} apart in time" in live.warnings[0]
    assert ("it looks like milliseconds" in live.warnings[0]) == (unit == 1e3)


def test_the_right_unit_of_time_is_not_worth_a_word():
    live = MODELS["plain"].live(rate=100.0)
    live.push(np.ones((60, 2)), time=np.arange(60) * 0.02)
    assert live.warnings == []


# Order


@st.composite
def disordered(draw, n_steps=30):
    """Numbers of steps that arrive, some lost, some twice, none later than ``reorder`` allows."""
    reorder = draw(st.integers(0, 4))
    lost = draw(st.sets(st.integers(1, n_steps - 1), max_size=4))
    seq = [s for s in range(n_steps) if s not in lost]
    late = [0] + [draw(st.integers(0, reorder)) for _ in seq[1:]]
    order = sorted(range(len(seq)), key=lambda i: (i + late[i], i))
    arrived = [seq[i] for i in order]
    for _ in range(draw(st.integers(0, 3))):
        again = draw(st.integers(0, len(arrived) - 1))
        arrived.insert(draw(st.integers(again + 1, len(arrived))), arrived[again])
    return reorder, seq, arrived


@given(names, disordered(), sizes)
def test_steps_out_of_order_are_put_in_order(name, given_steps, sizes):
    reorder, seq, arrived = given_steps
    clf = MODELS[name]
    values = np.random.default_rng(2).normal(size=(30, 2))
    live = clf.live(**EXACT, order_by="seq", reorder=reorder)
    predictions = push_all(live, values[arrived], sizes, seq=np.array(arrived))
    assert live.waiting <= reorder
    predictions += live.flush()
    gap = np.diff(seq, prepend=seq[0] - 1) != 1
    assert [p.seq for p in predictions] == seq
    assert_as_batch(clf, predictions, Stream(values[seq], recordings=recordings(gap)))
    assert live.counters["duplicate"] == len(arrived) - len(seq)
    assert live.counters["late"] == 0
    assert live.waiting == 0


@given(disordered(), sizes, st.booleans())
def test_time_puts_steps_in_order_too(given_steps, sizes, rated):
    reorder, seq, arrived = given_steps
    clf = MODELS["lifted"]
    arrived = list(dict.fromkeys(arrived))  # each once: time does not tell what came again
    time = 0.01 * np.arange(30)
    values = np.random.default_rng(2).normal(size=(30, 2))
    options = {"rate": 100.0} if rated else {}
    live = clf.live(**EXACT, order_by="time", reorder=reorder, **options)
    predictions = push_all(live, values[arrived], sizes, time=time[arrived]) + live.flush()
    stream = Stream(values[seq], time=time[seq], max_gap=0.015 if rated else np.inf)
    assert [p.time for p in predictions] == time[seq].tolist()
    assert_as_batch(clf, predictions, stream)


@given(disordered(), sizes)
def test_how_steps_are_cut_changes_no_order(given_steps, sizes):
    _, _, arrived = given_steps
    values = np.random.default_rng(2).normal(size=(30, 2))
    # With less room than they would need some are late: the same ones in every chunking.
    one, other = (MODELS["plain"].live(**EXACT, order_by="seq", reorder=1) for _ in range(2))
    cut = push_all(one, values[arrived], sizes, seq=np.array(arrived)) + one.flush()
    whole = other.push(values[arrived], seq=np.array(arrived)) + other.flush()
    assert alike(cut) == alike(whole)
    assert one.snapshot() == other.snapshot()
    counts = one.counters
    assert counts["accepted"] + counts["late"] + counts["duplicate"] == len(arrived)


def test_late_steps_are_told_from_those_that_come_again():
    live = MODELS["plain"].live(**EXACT, order_by="seq", reorder=2)
    row = np.random.default_rng(0).normal(size=2)
    told = [live.push(row, seq=seq) for seq in (10, 11, 14, 15, 16, 17)]
    # 12 and 13 are given up when 16 comes.
    assert [[(p.seq, p.why) for p in ps] for ps in told] == [
        [(10, "filling")],
        [(11, "filling")],
        [],
        [],
        [(14, "gap"), (15, "gap"), (16, "gap")],
        [(17, "")],
    ]
    for seq in (12, 13, 9, 12):
        assert live.push(row, seq=seq) == []
    assert (live.counters["late"], live.counters["duplicate"]) == (4, 0)
    for seq in (10, 16, 17):
        assert live.push(row, seq=seq) == []
    assert (live.counters["late"], live.counters["duplicate"]) == (4, 3)
    assert len(live.push(row, seq=18)) == 1


def test_a_source_that_counts_anew_is_noticed():
    live = MODELS["plain"].live(order_by="seq")
    values = np.random.default_rng(0).normal(size=(200, 2))
    live.push(values, seq=np.arange(200))
    assert live.warnings == []
    live.push(values[:150], seq=np.arange(150))
    assert live.counters["duplicate"] == 150
    assert ["100 steps in a row came late or again" in text for text in live.warnings] == [True]


def test_the_buffer_is_kept_in_the_snapshot():
    clf = MODELS["lifted"]
    values = np.random.default_rng(0).normal(size=(12, 2))
    live, again = (clf.live(**EXACT, order_by="seq", reorder=3) for _ in range(2))
    live.push(values[[0, 1, 2, 5, 4]], seq=[0, 1, 2, 5, 4])
    again.restore(live.snapshot())
    assert again.waiting == 2
    rest = [3, 7, 9, 8, 11]
    told = [s.push(values[rest], seq=rest) + s.flush() for s in (live, again)]
    assert alike(told[0]) == alike(told[1])
    assert [p.seq for p in told[0]] == [3, 4, 5, 7, 8, 9, 11]


# Dead channels


def test_what_is_dead_is_learned_from_the_references():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(80, 4))
    values[10:17, 1] = 0.5  # stands still for 7 steps
    values[36:46, 2] = 0.5  # across a switch at 40: 4 and 6 steps
    values[:, 3] = 1.0
    clf = StreamClassifier(4, metric="euclidean").fit(values, np.repeat(["a", "b"], 40))
    after = LiveModel(clf).dead_after
    assert after.tolist() == [10, 14, 12, NEVER]


def test_a_saved_model_has_the_same_patience(tmp_path):
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=(40, 2)), 3, axis=0)
    for step in (1, 3, 6, 9):
        clf = StreamClassifier(4, metric="euclidean", step=step)
        clf.fit(values, np.repeat(["a", "b"], 60)).save(tmp_path / "m")
        after = LiveModel(mlat.load(tmp_path / "m")).dead_after
        np.testing.assert_array_equal(after, LiveModel(clf).dead_after)


@given(
    names,
    st.lists(st.tuples(st.integers(0, 60), st.integers(5, 25), st.integers(0, 1)), max_size=3),
    st.sets(st.integers(0, 69), max_size=2),
    sizes,
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_a_dead_channel_is_a_missing_value(name, still, missing, sizes, seed):
    clf = MODELS[name]
    values = np.random.default_rng(seed).normal(size=(70, 2))
    for start, length, channel in still:
        values[start : start + length, channel] = values[start, channel]
    values[[*missing], 0] = np.nan
    live = clf.live(**EXACT)
    predictions = push_all(live, values, sizes)
    dead = dead_naively(values, live.model.dead_after) & ~np.isnan(values).any(axis=1)[:, None]
    holes = np.where(dead.any(axis=1)[:, None], np.nan, values)
    assert_as_batch(clf, predictions, holes)
    assert live.counters["dead"] == dead.any(axis=1).sum()
    for t in np.flatnonzero(dead.any(axis=1)):
        assert predictions[t].why == f"dead channel {clf.channels_[dead[t].argmax()]}"
    off = push_all(clf.live(**EXACT, dead="off"), values, sizes)
    assert_as_batch(clf, off, values)


def test_a_dead_channel_recovers_within_a_window():
    live = MODELS["plain"].live(**EXACT)
    values = np.random.default_rng(0).normal(size=(60, 2))
    values[20:45, 1] = 3.0
    whys = [p.why for p in live.push(values)]
    assert (
        whys == ["filling"] * 3 + [""] * 26 + ["dead channel x1"] * 16 + ["filling"] * 3 + [""] * 12
    )


# Far


def test_far_is_unknown_and_says_what_it_would_have_been():
    clf = StreamClassifier(4, metric="euclidean").fit(clusters(0, [40, 40, 40]))
    stream = np.linspace([3.0, 1.6], [6.0, 6.0], 50)
    plain = clf.live(search="exact", far=None).push(stream)
    told = clf.live(search="exact").push(stream)
    limit = 3.0 * clf.confidence_.farthest
    nearest = np.nan_to_num(clf.class_distances(stream).min(axis=1))
    far = nearest > limit
    assert 5 < far.sum() < 45
    for p, q, is_far in zip(told, plain, far, strict=True):
        assert p.why == ("far" if is_far else q.why)
        assert p.state == (clf.unknown_ if is_far else q.state)
        assert (p.shares, p.neighbours) == (q.shares, q.neighbours)
    assert states(plain) == clf.predict(stream).tolist()


def test_farthest_is_the_largest_left_out_distance(tmp_path):
    stream = clusters(0, [40, 40, 40])
    clf = StreamClassifier(4, metric="euclidean").fit(stream)
    farthest = clf.confidence_.farthest
    Z = clf.references_.embedded()
    apart = np.abs(clf.windows_.start[:, None] - clf.windows_.start) >= 18  # half of a run
    other = clf.windows_.y[:, None] != clf.windows_.y
    D = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    assert farthest == pytest.approx(np.where(apart | other, D, np.inf).min(axis=1).max())
    clf.save(tmp_path / "m")
    assert mlat.load(tmp_path / "m").confidence_.farthest == farthest


def test_a_model_file_of_before_knows_no_farthest(tmp_path):
    clf = StreamClassifier(4, metric="euclidean").fit(clusters(0, [40, 40, 40]))
    clf.save(tmp_path / "m")
    old = mlat.load(
        rewrite(tmp_path / "m", tmp_path / "old", lambda h, t: h["confidence"].pop("farthest"))
    )
    assert np.isnan(old.confidence_.farthest)
    assert old.live().push(np.full((4, 2), 1e3))[-1].why == ""
    assert clf.live().push(np.full((4, 2), 1e3))[-1].why == "far"
    for wrong in (-1.0, "far", True):
        change = lambda h, t, wrong=wrong: h["confidence"].update(farthest=wrong)  # noqa: E731
        with pytest.raises(InputError, match="how sure it is, is not described"):
            mlat.load(rewrite(tmp_path / "m", tmp_path / "bad", change))


@pytest.mark.parametrize("far", [None, 3.0])
def test_a_rate_that_was_asked_for_is_that_of_predict(far):
    clf = StreamClassifier(4, metric="euclidean", unknown_rate=0.2).fit(ENERGY)
    values = energy_states(1, run_length=40).values
    live = clf.live(search="exact", far=far)
    assert_as_batch(clf, live.push(values), values)
    assert live.counters["far"] > 5


def test_order_needs_its_numbers():
    live = MODELS["plain"].live(order_by="time")
    with pytest.raises(InputError, match="the steps have no time"):
        live.push([[1.0, 2.0]], seq=[1])
