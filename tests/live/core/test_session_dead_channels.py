import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_models import names, sizes, two_channels
from live_oracles import (
    assert_as_batch,
    dead_naively,
    push_all,
)
from mlat import StreamClassifier
from mlat.classifier.intake import NEVER
from mlat.live import LiveModel

EXACT = {"search": "exact", "far": None}


def test_what_is_dead_is_learned_from_the_references():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(80, 4))
    values[10:17, 1] = 0.5  # stands still for 7 steps
    values[36:46, 2] = 0.5  # across a switch at 40: 4 and 6 steps
    values[:, 3] = 1.0
    clf = StreamClassifier(4, metric="euclidean").fit(values, np.repeat(["a", "b"], 40))
    after = LiveModel(clf).dead_after
    assert after.tolist() == [10, 14, 12, NEVER]


def test_a_saved_model_has_the_same_dead_after(tmp_path):
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=(40, 2)), 3, axis=0)
    for stride in (1, 3, 6, 9):
        clf = StreamClassifier(4, metric="euclidean", stride=stride)
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
    clf = two_channels(name)
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
    live = two_channels("plain").live(**EXACT)
    values = np.random.default_rng(0).normal(size=(60, 2))
    values[20:45, 1] = 3.0
    whys = [p.why for p in live.push(values)]
    assert (
        whys == ["filling"] * 3 + [""] * 26 + ["dead channel x1"] * 16 + ["filling"] * 3 + [""] * 12
    )
