"""Predicting and searching on a Dask cluster: what one machine would say, to the last bit."""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("distributed")

import mlat
import mlat.cluster
from cluster_processes import SECONDS, Cluster, shared_cluster, worker_of
from mlat import InputError, Stream, StreamClassifier
from mlat.cluster import ShardedNeighbors
from mlat.cluster.dask.tasks import Team
from mlat.neighbours.search import NearestNeighbors
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def client():
    return shared_cluster().client


def stream_of(seed, length=60):
    return rotating_states(
        {"a": -0.3, "b": 0.2}, n_channels=3, run_length=length, runs_per_state=2, random_state=seed
    )


@pytest.fixture(scope="module")
def clf():
    return StreamClassifier(6, metric=mlat.MLAT(max_iter=5)).fit(stream_of(0))


def test_states_are_those_of_predict(client, clf, tmp_path):
    streams = [stream_of(seed) for seed in range(1, 6)]
    holes = streams[2].values.copy()
    holes[10] = np.nan
    streams[2] = Stream(holes, streams[2].states)
    streams.append(stream_of(9)[:3])  # too short for a window
    for filtered in (False, True):
        found = mlat.cluster.predict(client, clf, streams, filtered=filtered)
        for stream, states in zip(streams, found, strict=True):
            np.testing.assert_array_equal(states, clf.predict(stream, filtered=filtered))
    file = tmp_path / "one.csv"
    rows = [",".join(streams[0].channels), *(",".join(map(repr, r)) for r in
            streams[0].values.tolist())]  # fmt: skip
    file.write_text("\n".join(rows) + "\n")
    (states,) = mlat.cluster.predict(client, clf, [file])
    np.testing.assert_array_equal(states, clf.predict(streams[0]))
    assert mlat.cluster.predict(client, clf, []) == []


def test_a_committee_predicts_as_it_does_here(client):
    clf = StreamClassifier(12, reach=7).fit(stream_of(0))
    assert len(clf.experts_) == 3
    streams = [stream_of(seed) for seed in range(1, 4)]
    holes = streams[1].values.copy()
    holes[25] = np.nan
    streams[1] = Stream(holes, streams[1].states)
    for filtered in (False, True):
        found = mlat.cluster.predict(client, clf, streams, filtered=filtered)
        for stream, states in zip(streams, found, strict=True):
            np.testing.assert_array_equal(states, clf.predict(stream, filtered=filtered))


def test_what_is_wrong_with_a_stream_is_said_in_a_line(client, clf, tmp_path):
    with pytest.raises(InputError, match="X has 2 features, but StreamClassifier is expecting 3"):
        mlat.cluster.predict(client, clf, [np.zeros((20, 2))])
    with pytest.raises(InputError, match="put the one into a list"):
        mlat.cluster.predict(client, clf, stream_of(1))
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        mlat.cluster.predict(client, clf, [tmp_path / "nowhere.csv"])


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**16),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([-900, 0, 900]),
)
def test_sharded_neighbours_are_the_neighbours(client, seed, shards, k, ties, power):
    rng = np.random.default_rng(seed)
    references, points = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))
    if ties:
        references, points = np.round(references), np.round(points)
    references, points = np.ldexp(references, power), np.ldexp(points, power)
    expected = NearestNeighbors(references).query(points, k)
    search = ShardedNeighbors(client, references, shards)
    distances, rows = search.query(points, k)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_array_equal(distances, expected[0])
    search.release()


def test_references_that_are_on_the_workers_are_searched_there(client):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) for n in (5, 1, 12)]
    points = rng.normal(size=(7, 3))
    search = ShardedNeighbors(client, client.scatter(parts))
    distances, rows = search.query(points, 6)
    expected = NearestNeighbors(np.concatenate(parts)).query(points, 6)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)
    assert len(search) == 18
    with pytest.raises(InputError, match="n_neighbors is 19, but there are 18"):
        search.query(points, 19)


@pytest.fixture(scope="module")
def mortal():
    """A cluster of which a worker is killed, and another one comes."""
    with Cluster(2) as cluster:
        yield cluster


def test_a_worker_that_dies_loses_no_stream_and_no_reference(mortal, clf):
    streams = [stream_of(seed, 1000) for seed in range(12)]
    references = np.random.default_rng(0).normal(size=(200, 3))
    search = ShardedNeighbors(mortal.client, references, 2)
    search.query(references[:5])
    victim = mortal.workers[0]
    address = mortal.address_of(victim)
    stop = threading.Event()

    def kill_while_busy():
        while not stop.wait(0.002) and not mortal.client.processing([address])[address]:
            pass
        mortal.kill(victim)

    thread = threading.Thread(target=kill_while_busy)
    thread.start()
    try:
        found = mlat.cluster.predict(mortal.client, clf, streams)
    finally:
        stop.set()
        thread.join(SECONDS)
    assert address not in mortal.client.nthreads()
    for states, stream in zip(found, streams, strict=True):
        np.testing.assert_array_equal(states, clf.predict(stream))
    _, rows = search.query(references, 1)
    np.testing.assert_array_equal(rows[:, 0], np.arange(200))


def test_parts_move_to_a_worker_that_has_come(mortal):
    client = mortal.client
    assert len(client.nthreads()) == 1
    team = Team(client, 2, lambda i, worker: client.scatter(i, workers=[worker], hash=False), "")
    assert len(set(team.ask(worker_of))) == 1
    mortal.add_worker()
    client.wait_for_workers(2, timeout=SECONDS)
    both = team.ask(worker_of)
    assert len(set(both)) == 2
    assert team.ask(worker_of) == both
