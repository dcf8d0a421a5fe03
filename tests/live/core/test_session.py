import contextlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_oracles import BruteForce, alike, assert_as_batch, push_all, shares, states
from mlat import InputError, Stream, StreamClassifier
from mlat.classifier.selection import LIFTS
from mlat.live import LiveModel, Steps
from mlat.synthetic import rotating_states
from state_streams import clusters

STORED = Path(__file__).parents[2] / "live_snapshot_v1"
TRAIN = rotating_states(run_length=25, runs_per_state=2, n_channels=3, noise=0.3)
STREAM = rotating_states(run_length=20, runs_per_state=1, n_channels=3, noise=0.3, random_state=1)
SETTINGS = {
    "euclidean": {"metric": "euclidean"},
    "numbered": {"metric": "euclidean", "scale": False},
    "filter": {"metric": mlat.MLAT(max_iter=3)},
    "long filter": {"metric": mlat.MLAT(max_iter=1, n_taps=30), "width": 22},
    "admm": {"metric": mlat.MLAT(solver="admm", max_iter=2)},
    "lmnn": {"metric": mlat.LMNN(max_iter=3)},
    "neighbours": {"metric": mlat.LMNN(max_iter=3), "n_neighbors": 4, "step": 2},
    "lifted": {
        "metric": mlat.MLAT(max_iter=2),
        "lift": mlat.Lift(["identity", "log_magnitude", "running_deviation"], reach=7),
        "whiten": True,
    },
    "far": {"metric": "euclidean", "unknown_rate": 0.2},
    "auto": {"reach": 8},
}
EXACT = {"search": "exact", "far": None, "dead": "off"}


def fitted(name):
    if name not in MODELS:
        parameters = {"width": 6, **SETTINGS[name]}
        states = TRAIN.codes + 3 if name == "numbered" else TRAIN.states
        MODELS[name] = StreamClassifier(**parameters).fit(TRAIN.values, states)
    return MODELS[name]


MODELS = {}
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_step_by_step_is_predict(name, filtered):
    clf = fitted(name)
    live = clf.live(**EXACT, filtered=filtered)
    predictions = push_all(live, STREAM.values, [1])
    assert_as_batch(clf, predictions, STREAM.values, filtered=filtered)
    assert live.counters["accepted"] == len(STREAM)
    assert live.counters["unknown"] == states(predictions).count(clf.unknown_)


@given(st.sampled_from(sorted(SETTINGS)), sizes, st.integers(0, 2**32 - 1), st.booleans())
def test_any_chunking_is_predict(name, sizes, seed, filtered):
    clf = fitted(name)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, 3)) * rng.choice([0.1, 1.0, 5.0], size=3)
    live = clf.live(**EXACT, filtered=filtered)
    assert_as_batch(clf, push_all(live, values, sizes), values, filtered=filtered)


def test_one_channel_in_single_steps():
    # Where a chunk is one number, nothing is computed many at a time.
    rng = np.random.default_rng(0)
    values = np.where(np.arange(300) < 150, 1.0, 3.0) * rng.normal(size=300)
    lift = mlat.Lift(["rectified", "log_magnitude", "running_magnitude"], reach=9)
    clf = StreamClassifier(5, metric="euclidean", lift=lift, whiten=True).fit(
        values, np.repeat(["a", "b"], 150)
    )
    fresh = 2 * rng.normal(size=(200, 1))
    assert_as_batch(clf, push_all(clf.live(**EXACT), fresh, [1]), fresh)


def test_by_default_it_tells_what_predict_tells():
    clf = fitted("filter")
    predictions = push_all(clf.live(), STREAM.values, [3])
    assert states(predictions) == clf.predict(STREAM.values).tolist()
    np.testing.assert_allclose(shares(predictions, 4), clf.predict_proba(STREAM.values), atol=1e-6)


def test_the_step_function_is_pure():
    model = LiveModel(fitted("lifted"), **EXACT, filtered=True, missing="hold")
    state, _ = model.push(model.start(), STREAM.values[:20])
    before = state.to_bytes()
    holed = STREAM.values[20:40].copy()
    holed[5, 1] = np.nan
    after, told = model.push(state, Steps(holed))
    taught = model.teach(state, "new")
    assert state.to_bytes() == before
    assert after.to_bytes() != before != taught.to_bytes()
    # And again from the same state, to the same end.
    again, told_again = model.push(state, holed)
    assert again.to_bytes() == after.to_bytes()
    assert alike(told_again) == alike(told)


def test_what_arrives_may_be_changed_afterwards():
    clf = fitted("euclidean")
    live, chunk = clf.live(**EXACT), STREAM.values[:10].copy()
    live.push(chunk)
    chunk[:] = 1e6
    expected = clf.predict(STREAM.values[:30])[10:].tolist()
    assert states(live.push(STREAM.values[10:30])) == expected


def test_a_step_comes_in_many_forms():
    clf = fitted("euclidean")
    pd = pytest.importorskip("pandas")
    row = STREAM.values[0]
    for chunk in (row, row[None], row.tolist(), [row.tolist()], pd.DataFrame([row])):
        assert len(clf.live().push(chunk)) == 1
    assert clf.live().push([]) == clf.live().push(np.empty((0, 3))) == []
    one = clf.live().push(row, seq=4, time=0.5)[0]
    assert (one.seq, one.time, one.step, one.why) == (4, 0.5, 0, "filling")


@pytest.mark.parametrize(
    ("chunk", "more", "message"),
    [
        (np.zeros((2, 4)), {}, "have 4 channels, the model was learned on 3"),
        ([[1.0, "walk", 2.0]], {}, "'walk'"),
        (np.array([["a", "b", "c"]]), {}, "must be numbers"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], {}, "2 channels at step 1"),
        (np.zeros((2, 3)), {"seq": [1]}, "one entry per step"),
        (np.zeros((2, 3)), {"seq": [1.5, 2.5]}, "whole numbers"),
        (np.zeros((2, 3)), {"time": [0.0, np.nan]}, "time is nan at step 1"),
        (np.zeros((2, 3)), {"time": ["now", "then"]}, "seconds as numbers"),
        (Steps(np.zeros((1, 3))), {"seq": [1]}, "of their own"),
    ],
)
def test_what_is_no_chunk_changes_nothing(chunk, more, message):
    live = fitted("euclidean").live(order_by="none")
    live.push(STREAM.values[:8])
    before = live.snapshot()
    with pytest.raises(InputError, match=message):
        live.push(chunk, **more)
    assert live.snapshot() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "guess"}, '"abstain", "hold" or "reject", not \'guess\''),
        ({"hold": 0}, "hold must be a whole number of at least 1"),
        ({"reorder": 3}, "reorder needs order_by"),
        ({"reorder": True}, "reorder must be"),
        ({"far": -1.0}, "far must be a positive number or None"),
        ({"rate": "fast"}, "rate must be"),
        ({"filtered": 1}, "filtered must be"),
        ({"speed": 1}, "no option speed; the options are missing, hold"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        fitted("euclidean").live(**options)


def test_steps_need_what_orders_them():
    with pytest.raises(InputError, match="the steps have no seq"):
        fitted("euclidean").live(order_by="seq").push(STREAM.values[:2])


def test_the_window_and_what_was_told_last():
    live = fitted("lifted").live()
    assert live.window.shape == (0, 3)
    predictions = push_all(live, STREAM.values[:30], [7])
    np.testing.assert_array_equal(live.window, STREAM.values[24:30])
    assert alike(live.recent) == alike(predictions)


# Snapshots


@given(
    st.sampled_from(["euclidean", "lifted", "neighbours"]),
    st.integers(0, 60),
    sizes,
    st.booleans(),
)
@settings(max_examples=40)
def test_a_restored_session_goes_on_alike(name, step, sizes, filtered):
    clf = fitted(name)
    values = STREAM.values[:70].copy()
    values[33, 1] = np.nan
    live = clf.live(**EXACT, filtered=filtered)
    push_all(live, values[:step], sizes)
    if step in range(10, 33) or step > 45:
        live.teach(clf.classes_[0].item(), 2)
        live.teach("seen now", 1)
    other = clf.live(**EXACT, filtered=filtered)
    other.push(values[:17])
    other.restore(live.snapshot())
    assert other.snapshot() == live.snapshot()
    assert alike(push_all(other, values[step:], sizes)) == alike(live.push(values[step:]))
    assert other.snapshot() == live.snapshot()


def test_a_snapshot_is_small():
    rng = np.random.default_rng(0)
    # 2,505 references of 27 channels, with the lift that auto takes most often.
    lift = mlat.Lift(LIFTS["channels and running energies"], reach=100)
    values = rng.normal(size=(2523, 27))
    train = Stream(values, np.repeat(["a", "b", "c"], [841, 841, 841]))
    clf = StreamClassifier(10, metric="euclidean", lift=lift).fit(train)
    live = clf.live(search="exact")
    live.push(rng.normal(size=(300, 27)))
    assert len(clf.windows_) >= 2490
    assert len(live.snapshot()) < 64 * 1024
    size = len(live.snapshot())
    live.push(rng.normal(size=(3000, 27)))
    assert len(live.snapshot()) <= size + 64  # counters have more digits


def test_a_snapshot_survives_saving_the_model(tmp_path):
    clf = fitted("lifted")
    live = clf.live(**EXACT)
    live.push(STREAM.values[:30])
    live.teach("new")
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat").live(**EXACT)
    again.restore(live.snapshot())
    assert alike(again.push(STREAM.values[30:])) == alike(live.push(STREAM.values[30:]))


def test_what_is_no_snapshot_is_refused():
    live = fitted("euclidean").live(**EXACT)
    live.push(STREAM.values[:9])
    good = live.snapshot()
    for bad in (b"", b"abc", b"\x00" * 40, good[:-3], good[: len(good) // 2], good + b"x", None):
        with pytest.raises(InputError) as caught:
            live.restore(bad)
        assert "\n" not in str(caught.value)
    flipped = bytearray(good)
    flipped[-5] ^= 1
    with pytest.raises(InputError, match="checksum"):
        live.restore(bytes(flipped))
    with pytest.raises(InputError, match="format version 9, this mlat reads version 1"):
        live.restore(good.replace(b'\\"version\\": 1', b'\\"version\\": 9'))
    assert live.snapshot() == good


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_no_byte_of_a_snapshot_can_make_it_crash(place, value):
    live = fitted("euclidean").live(**EXACT)
    live.push(STREAM.values[:9])
    good = live.snapshot()
    bad = bytearray(good)
    bad[place % len(bad)] = value
    with contextlib.suppress(InputError):
        live.restore(bytes(bad))
    assert len(live.push(STREAM.values[9:20])) == 11


def test_a_snapshot_belongs_to_its_model_and_options():
    snapshot = fitted("euclidean").live(**EXACT).snapshot()
    other = StreamClassifier(6, metric="euclidean").fit(TRAIN.values + 0.1, TRAIN.states)
    with pytest.raises(InputError, match="of another model"):
        other.live(**EXACT).restore(snapshot)
    with pytest.raises(InputError, match="made with hold=5, this session has hold=7"):
        fitted("euclidean").live(**EXACT, hold=7).restore(snapshot)


def test_a_state_can_be_sent_elsewhere():
    model = LiveModel(fitted("lifted"), **EXACT)
    state, _ = model.push(model.start(), STREAM.values[:20])
    sent = pickle.loads(pickle.dumps(state))
    there, here = (model.push(s, STREAM.values[20:])[1] for s in (sent, state))
    assert alike(there) == alike(here)


def test_a_snapshot_of_version_1_still_opens():
    clf = mlat.load(STORED / "model.safetensors")
    live = clf.live(missing="hold", reorder=2, order_by="seq", rate=100.0, search="exact")
    live.restore((STORED / "snapshot.bin").read_bytes())
    assert live.counters["accepted"] == 12
    assert live.waiting == 1
    assert live.classes == ["a", "b", "c", "new"]
    assert live.counters["taught"] == 2
    # What the version that wrote it said next.
    told = live.push([[21.0, 20.0], [np.nan, 19.0]], seq=[12, 14], time=[0.12, 0.14])
    assert [(p.step, p.seq, p.state) for p in told] == [(i, i, "new") for i in (12, 13, 14)]
    np.testing.assert_allclose([p.distance**2 for p in told], [24, 9, 22], rtol=1e-12)


# Teaching

PLACES = clusters(0, [30, 30, 30], n_channels=2)
PLAIN = StreamClassifier(4, metric="euclidean").fit(PLACES)
LEVELLED = StreamClassifier(
    4, metric=mlat.LMNN(max_iter=2), lift=mlat.Lift(["identity", "low_pass"], reach=5)
).fit(PLACES)
VOTING = StreamClassifier(4, metric="euclidean", n_neighbors=3).fit(PLACES)
FILTER = StreamClassifier(4, metric=mlat.MLAT(max_iter=2)).fit(PLACES)


def elsewhere(seed, n=40):
    """A walk from the first state's place to where no state is."""
    rng = np.random.default_rng(seed)
    return np.linspace([3.0, 1.0], [9.0, 9.0], n) + 0.2 * rng.normal(size=(n, 2))


def test_a_new_state_is_told_at_once():
    live = PLAIN.live(search="exact")
    values = elsewhere(0)
    strange = live.push(values)
    assert strange[-1].why == "far"
    live.teach("elsewhere")
    assert live.classes == ["a", "b", "c", "elsewhere"]
    told = live.push(values[-1:] + 0.01)[0]
    assert (told.state, told.why) == ("elsewhere", "")
    assert told.neighbours == (len(PLAIN.windows_),)
    assert len(told.shares) == 4
    assert told.shares[3] == told.proba == max(told.shares)


@pytest.mark.parametrize(
    ("clf", "search"),
    [(PLAIN, "exact"), (LEVELLED, "exact"), (PLAIN, "flat"), (FILTER, "flat")],
    ids=["plain", "lifted", "plain flat", "filter flat"],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    lessons=st.lists(
        st.tuples(
            st.integers(6, 39), st.sampled_from(["a", "c", "new", "newer"]), st.integers(1, 3)
        ),
        max_size=6,
    ),
    room=st.integers(3, 8),
    sizes=sizes,
)
@settings(max_examples=20)
def test_taught_windows_are_references_like_the_others(clf, search, seed, lessons, room, sizes):
    values = elsewhere(seed)
    live = clf.live(search=search, far=None, dead="off", max_taught=room)
    brute = BruteForce(clf)
    windows = brute.windows(Stream(values))
    names, taught, predictions, done = clf.classes_.tolist(), [], [], 0
    for step, name, n in [*sorted(lessons), (40, None, 0)]:
        for p in push_all(live, values[done:step], sizes):
            if windows[p.step] is None:
                continue
            nearest = brute.nearest(windows[p.step], taught)
            loose = 1e-4 if search == "flat" else 1e-12  # of squares, whose terms are about 100
            np.testing.assert_allclose(p.distance**2, nearest.min() ** 2, rtol=1e-9, atol=loose)
            if (np.sort(nearest)[1] - np.sort(nearest)[0]) > 1e-9:
                assert p.state == names[nearest.argmin()]
            predictions.append(p)
        done = step
        if name is not None:
            live.teach(name, n)
            names += [] if name in names else [name]
            code = names.index(name)
            taught += [(code, windows[step - n + i]) for i in range(n)]
            taught = taught[-room:]
    assert live.classes == names
    assert live.counters["taught"] == sum(n for _, _, n in lessons)


def test_votes_count_taught_windows():
    live = VOTING.live(search="exact", far=None)
    values = elsewhere(3)
    live.push(values)
    live.teach("elsewhere", 2)
    told = live.push(values[-2:])[-1]
    assert told.state == "elsewhere"
    assert told.proba == 2 / 3
    n = len(VOTING.windows_)
    assert set(told.neighbours[:2]) == {n, n + 1}
    assert told.neighbours[2] < n


def test_a_filtered_session_learns_a_new_state():
    live = PLAIN.live(search="exact", filtered=True)
    values = elsewhere(1)
    live.push(values)
    live.teach("elsewhere", 3)
    rng = np.random.default_rng(5)
    more = live.push(values[-1] + 0.2 * rng.normal(size=(30, 2)))
    assert states(more)[-10:] == ["elsewhere"] * 10
    for p in more:
        assert sum(p.shares) == pytest.approx(1.0)


def test_what_cannot_be_taught():
    live = PLAIN.live(max_taught=5, search="exact")
    live.push(elsewhere(0)[:6])
    before = live.snapshot()
    for arguments, message in [
        (("walk", 4), "4 windows are to be taught, but there are 3"),
        (("walk", 0), "n must be a whole number of windows"),
        (("walk", True), "n must be a whole number of windows"),
        ((3, 1), "states of this model are texts"),
        (("", 1), "states of this model are texts"),
    ]:
        with pytest.raises(InputError, match=message):
            live.teach(*arguments)
    live.push(elsewhere(0)[6:])
    with pytest.raises(InputError, match="only 5 are kept"):
        live.teach("walk", 6)
    live.push([[np.nan, 1.0]])
    with pytest.raises(InputError, match="there are 0: they reach back to where"):
        live.teach("walk")
    assert live.counters["taught"] == 0
    live.restore(before)


def test_numbered_states_are_taught_by_number():
    clf = StreamClassifier(4, metric="euclidean").fit(PLACES.values, PLACES.codes)
    live = clf.live(search="exact")
    live.push(elsewhere(0))
    for wrong in ("walk", -1, 1.5, True):
        with pytest.raises(InputError, match="whole numbers; teach one other than -1"):
            live.teach(wrong)
    live.teach(np.int64(7))
    assert live.classes == [0, 1, 2, 7]
    assert live.push(elsewhere(0)[-1:])[0].state == 7


def test_new_names_have_a_bound():
    live = PLAIN.live(max_taught=2, search="exact")
    live.push(elsewhere(0))
    live.teach("d")
    live.teach("e")
    live.teach("d")
    with pytest.raises(InputError, match="2 new states are taught already"):
        live.teach("f")
    # A state whose windows have all made room is known, and never the nearest.
    live.teach("a", 2)
    told = live.push(elsewhere(0)[-1:])[0]
    assert told.state == "a"
    assert told.shares[3:] == (0.0, 0.0)
