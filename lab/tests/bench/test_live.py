import numpy as np

import mlat
from mlat import Stream
from mlat.live.core.many import Many
from mlat_lab.bench import live
from mlat_lab.bench.harness import Bench, in_turn


def test_the_benchmark_measures_what_it_says():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(180, 3)) + 1.2 * np.repeat(np.eye(3), 60, axis=0)
    clf = mlat.StreamClassifier(width=5, metric=mlat.MLAT(max_iter=2, n_targets=1))
    clf.fit(Stream(values, np.repeat(["a", "b", "c"], 60)))
    ticks = live.real_time(clf, values, n_streams=20, rate=200.0, seconds=0.1)
    assert 0 < ticks["p50"] <= ticks["p99"] <= ticks["worst"]
    assert ticks["bytes_per_stream"] == Many(clf, 2).bytes_per_stream
    search, step = live.incremental_step(clf, values)
    steps = {
        "incremental": step,
        "brute": live.brute_step(clf, values),
        "product": live.product_step(clf, values),
        "read": live.reading(live.bytes_of_a_step(search)),
    }
    # The peers have the same nearest references, in no more coordinates than a window has values.
    Y, Z = live.smallest_space(clf, values)
    assert Y.shape[1] == Z.shape[1] <= 15
    rows = clf.kneighbors(Stream(values))[1][4:, 0]
    assert [steps["product"](i) for i in range(20)] == rows[:20].tolist()
    assert [int(steps["brute"](i)[1][0, 0]) for i in range(20)] == rows[:20].tolist()
    taken = in_turn(steps, 2, 5)
    assert set(taken) == set(steps)
    assert all(seconds > 0 for seconds in taken.values())


def test_a_short_soak():
    soaked = live.soak(3000, Bench())
    assert soaked["steps"] == 3000
    assert soaked["checked"] == 991
    assert soaked["wrong"] == 0
    assert 0 < soaked["of_the_bound"] < 1


def test_a_committee_is_measured_beside_one_expert():
    clf = live.committee(10, channels=3, n_states=3, per_state=60)
    assert len(clf.experts_) == 4
    assert len(clf.windows_) == 180
    values = live.live_values(600, 3)
    ticks = live.real_time(clf, values, n_streams=5, rate=200.0, seconds=0.1)
    assert ticks["bytes_per_stream"] == Many(clf, 2).bytes_per_stream
    session = clf.live(search="incremental")
    session.push(values[:500])
    assert live.snapshot_bytes(clf, values) == len(session.snapshot())
    live.session_step(clf, values)(3)
