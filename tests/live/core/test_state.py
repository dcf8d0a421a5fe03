import contextlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_models import ENERGY, EXACT, STREAM, TRAIN, fitted, sizes, two_channels
from live_oracles import comparable, push_all
from mlat import InputError, Stream, StreamClassifier
from mlat.base.checksummed import pack, unpack
from mlat.live import LiveModel

STORED = Path(__file__).parents[2] / "live_snapshot_v1"


@given(
    st.sampled_from(["euclidean", "lifted", "neighbours"]),
    st.integers(0, 60),
    sizes,
    st.booleans(),
)
@settings(max_examples=40)
def test_a_restored_session_goes_on_as_the_first(name, step, sizes, filtered):
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
    assert comparable(push_all(other, values[step:], sizes)) == comparable(live.push(values[step:]))
    assert other.snapshot() == live.snapshot()


def test_a_snapshot_is_small():
    rng = np.random.default_rng(0)
    # 2,505 references of 27 channels.
    maps = ["identity", "running_magnitude", "running_deviation", "running_difference"]
    lift = mlat.Lift(maps, reach=100)
    values = rng.normal(size=(2523, 27))
    train = Stream(values, np.repeat(["a", "b", "c"], [841, 841, 841]))
    clf = StreamClassifier(10, metric="euclidean", lift=lift).fit(train)
    live = clf.live(search="exact")
    live.push(rng.normal(size=(300, 27)))
    assert len(clf.windows_) >= 2490
    assert len(live.snapshot()) < 96 * 1024
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
    assert comparable(again.push(STREAM.values[30:])) == comparable(live.push(STREAM.values[30:]))


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
    with pytest.raises(InputError, match="format version 9, this mlat reads versions 1 to 3"):
        live.restore(changed(good, lambda h, a: h.update(version=9)))
    assert live.snapshot() == good


def changed(snapshot, change):
    """The snapshot with its header or arrays changed, and the checksum made right again."""
    header, arrays, _ = unpack(snapshot, "no snapshot")
    change(header, arrays)
    return pack(header, arrays)


def test_a_flipped_bit_anywhere_in_a_snapshot_is_noticed():
    live = two_channels("plain").live(**EXACT)
    live.push(ENERGY.values[:2])
    good = live.snapshot()
    for place in range(0, 8 * len(good), 3):  # some bits of every byte
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        with pytest.raises(InputError):
            live.restore(bytes(bad))
    assert live.snapshot() == good


def ordered_session(order_by="seq"):
    """A session with something in every field: steps that wait, given up and taught ones."""
    live = fitted("lifted").live(**EXACT, reorder=3, order_by=order_by, rate=100.0)
    seq = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22])
    live.push(STREAM.values[: len(seq)], seq=seq, time=seq / 100)
    live.teach("new")
    return live


@pytest.mark.parametrize("order_by", ["seq", "time"])
def test_a_session_with_something_in_every_field_is_restored(order_by):
    live, other = ordered_session(order_by), ordered_session(order_by)
    other.push(STREAM.values[:3], seq=[30, 31, 32], time=[0.3, 0.31, 0.32])
    other.restore(live.snapshot())
    assert other.waiting == live.waiting > 0
    assert other.snapshot() == live.snapshot()


HEADER_CHANGES = [
    ("first", "0"),
    ("first", None),
    ("first", 10**6),
    ("reached", 2.5),
    ("reached", 10**30),
    ("reached", 10**6),
    ("last_seq", 1.5),
    ("last_seq", [3]),
    ("last_time", "now"),
    ("last_time", 10**400),
    ("last_time", float("inf")),
    ("behind", [1]),
    ("behind", [1, -1]),
    ("waiting", []),
    ("waiting", [[1, 2, 3]]),
    ("waiting", [[20, 21, 0.2], [22, 22, 0.22]]),
    ("waiting", [[22, 22, 0.22], [20, 20, 0.2]]),
    ("waiting", [["20", 20, 0.2], ["22", 22, 0.22]]),
    ("length", -1),
    ("length", 3),
    ("length", 10**9),
    ("length", True),
    ("lift_count", -5),
    ("lift_count", 3),
    ("lift_count", 10**30),
    ("why", "far"),
    ("why", ["gap"]),
    ("refused", 0),
    ("fresh", None),
    ("names", ["a", "b"]),
    ("names", [5]),
    ("names", [""]),
    ("names", [["new"]]),
    ("names", ["\ud800"]),
    ("names", ["{known}"]),
    ("named", []),
    ("named", [0]),
    ("named", [5]),
    ("lessons", [0, 0]),
    ("lessons", [1, 2]),
    ("lessons", [1]),
    ("lessons", [1, -1]),
    ("counters", {}),
    ("counters", {"accepted": "many"}),
    ("warnings", "none"),
    ("warnings", [1]),
    ("options", []),
    ("options", {"hold": [1]}),
    ("model", None),
    ("search", 3),
    ("format", []),
    ("version", [1]),
    ("version", 1),
    ("more", 1),
]


@pytest.mark.parametrize(("name", "value"), HEADER_CHANGES)
def test_a_snapshot_with_a_wrong_field_and_a_right_checksum_is_refused(name, value):
    live = ordered_session()
    if value == ["{known}"]:
        value = [str(live.classes[0])]
    good = live.snapshot()
    with pytest.raises(InputError):
        live.restore(changed(good, lambda h, a: h.update({name: value})))
    if name != "more":
        with pytest.raises(InputError):
            live.restore(changed(good, lambda h, a: h.pop(name)))
    assert live.snapshot() == good


@pytest.mark.parametrize("search", ["exact", "incremental"])
def test_a_snapshot_with_a_wrong_array_and_a_right_checksum_is_refused(search):
    live = fitted("filter").live(search=search)
    live.push(STREAM.values[:15])
    live.teach("new", 2)
    good = live.snapshot()
    names = unpack(good, "").arrays
    assert len(names) == (21 if search == "incremental" else 17)
    for name in names:
        for make in (
            lambda a: a.astype(np.float32),
            lambda a: a[None],
            lambda a: a[:-1] if len(a) else np.ones((7, 7)),
            lambda a: np.concatenate([a] * 300) if len(a) else np.ones((7, 7)),
            lambda a: a * 0 - 1 if a.dtype.kind == "i" and a.size else a[..., None],
            lambda a: np.full_like(a, np.inf) if a.dtype.kind == "f" and a.size else a[..., None],
        ):
            change = lambda h, a, name=name, make=make: a.update({name: make(a[name])})  # noqa: E731
            with pytest.raises(InputError):
                live.restore(changed(good, change))
    # Snapshots of before have neither; one alone is of no snapshot.
    for name in {"flat.products", "flat.sums"} & names.keys():
        with pytest.raises(InputError, match="its search has no"):
            live.restore(changed(good, lambda h, a, name=name: a.pop(name)))
    with pytest.raises(InputError, match="all taught windows are forgotten"):
        live.restore(changed(good, lambda h, a: a["windows"].__setitem__((slice(None), 1), 1)))
    with pytest.raises(InputError, match="teachable"):
        live.restore(changed(good, lambda h, a: h["options"].update(teachable="16")))
    with pytest.raises(InputError, match="the belief is no probability"):
        live.restore(changed(good, lambda h, a: a.update(belief=a["belief"] * 2)))
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


def test_a_state_can_be_pickled():
    model = LiveModel(fitted("lifted"), **EXACT)
    state, _ = model.push(model.start(), STREAM.values[:20])
    sent = pickle.loads(pickle.dumps(state))
    there, here = (model.push(s, STREAM.values[20:])[1] for s in (sent, state))
    assert comparable(there) == comparable(here)


def test_a_snapshot_of_version_1_still_opens():
    clf = mlat.load(STORED / "model.safetensors")
    live = clf.live(missing="hold", reorder=2, order_by="seq", rate=100.0, search="exact")
    live.restore((STORED / "snapshot.bin").read_bytes())
    assert live.counters["accepted"] == 12
    assert live.waiting == 1
    assert live.classes == ["a", "b", "c", "new"]
    assert live.counters["taught"] == 2
    assert live.examples == []  # too long ago to be undone
    with pytest.raises(InputError, match="2 windows were taught with an older mlat"):
        live.taught_model()
    # What the version that wrote it said next.
    told = live.push([[21.0, 20.0], [np.nan, 19.0]], seq=[12, 14], time=[0.12, 0.14])
    assert [(p.step, p.seq, p.state) for p in told] == [(i, i, "new") for i in (12, 13, 14)]
    np.testing.assert_allclose([p.distance**2 for p in told], [24, 9, 22], rtol=1e-12)


def test_a_snapshot_with_the_old_name_of_the_incremental_search_still_opens():
    clf = mlat.load(STORED / "model.safetensors")
    stored = (STORED / "snapshot_flat.bin").read_bytes()
    for search in ("incremental", "flat"):
        live = clf.live(search=search)
        assert live.model.search == live.model.options.search == "incremental"
        live.restore(stored)
        again = clf.live(search=search)
        again.restore(live.snapshot())
        assert again.snapshot() == live.snapshot()
        # The predictions that followed in the version that wrote it.
        after = live.push([[2.5, 1.5], [0.5, -0.5], [5.0, 4.0]])
        assert [(p.step, p.state) for p in after] == [(12, "a"), (13, "a"), (14, "a")]
        np.testing.assert_allclose([p.distance**2 for p in after], [5.5, 9.5, 23.0], rtol=1e-6)
    with pytest.raises(InputError, match="made with search='flat', this session has search='auto'"):
        clf.live().restore(stored)


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h.update(lessons=[9, 0]),  # examples that have no windows
        lambda h, a: h.update(named=[2], lessons=[2, 0]),  # a state that is named after its windows
        lambda h, a: h["counters"].update(accepted=1 << 62),
    ],
)
def test_forged_examples_and_counters_are_refused(change):
    live = ordered_session()
    good = live.snapshot()
    with pytest.raises(InputError, match="the snapshot is damaged"):
        live.restore(changed(good, change))
    live.restore(good)
    live.undo()


@pytest.mark.parametrize("state", ["a\0b", "a\0", "\0"])
def test_a_name_with_a_null_cannot_be_taught(state):
    """No model file holds it."""
    live = ordered_session()
    with pytest.raises(InputError, match="holds the character 0"):
        live.teach(state)
