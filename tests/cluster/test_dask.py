"""Predicting on a Dask cluster: what one machine would say, to the last bit."""

import threading

import numpy as np
import pytest

pytest.importorskip("distributed")

import mlat
import mlat.cluster
from cluster_processes import SECONDS, Cluster, die, shared_cluster, too_much
from mlat import InputError, Stream, StreamClassifier
from mlat.base.errors import ServiceError, WorkerError
from mlat.cluster.dask import MOST_TRIES, flow
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
    with pytest.raises(InputError, match=r"must be a dask.distributed.Client, not str"):
        mlat.cluster.predict("tcp://127.0.0.1:8786", clf, [stream_of(1)])


@pytest.fixture(scope="module")
def mortal():
    """A cluster of which a worker is killed, and another one comes."""
    with Cluster(2) as cluster:
        yield cluster


def test_a_worker_that_dies_loses_no_stream(mortal, clf):
    streams = [stream_of(seed, 1000) for seed in range(12)]
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


def test_want_of_memory_and_workers_that_keep_dying_are_said_in_a_line(clf):
    with Cluster(MOST_TRIES) as cluster:
        client = cluster.client

        def run(function):
            return list(
                flow(client, 1, lambda _: client.submit(function, 0, pure=False), advice="More.")
            )

        with pytest.raises(WorkerError, match="a worker is out of memory; More"):
            run(too_much)
        with pytest.raises(WorkerError, match=r"workers died|a worker is out of memory"):
            run(die)


def test_a_worker_of_another_version_is_refused(clf, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import mlat\nmlat.__version__ = '9.9'\n")
    with Cluster(0) as cluster:
        with pytest.raises(ServiceError, match="has no workers; start some: dask worker tcp://"):
            mlat.cluster.predict(cluster.client, clf, [stream_of(1)])
        cluster.add_worker("--preload", str(other))
        cluster.client.wait_for_workers(1, timeout=SECONDS)
        with pytest.raises(WorkerError, match=r"has mlat 9.9, this client 0\.\d"):
            mlat.cluster.predict(cluster.client, clf, [stream_of(1)])
