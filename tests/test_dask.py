"""Predicting on a Dask cluster, which needs nothing of mlat: what one machine would say."""

import threading

import numpy as np
import pytest

pytest.importorskip("distributed")

import mlat
from cluster_processes import SECONDS, Cluster
from mlat import Stream, StreamClassifier
from mlat.synthetic import rotating_states


def stream_of(seed, length=60):
    return rotating_states(
        {"a": -0.3, "b": 0.2}, n_channels=3, run_length=length, runs_per_state=2, random_state=seed
    )


def states(stream, clf):
    return clf.predict(stream)


@pytest.mark.parametrize(
    "clf",
    [StreamClassifier(6, metric=mlat.MLAT(max_iter=5)), StreamClassifier(12, reach=7)],
    ids=["one metric", "committee"],
)
def test_a_worker_that_dies_loses_no_stream(clf):
    clf.fit(stream_of(0))
    streams = [stream_of(seed, 1000) for seed in range(12)]
    holes = streams[1].values.copy()
    holes[25] = np.nan
    streams[1] = Stream(holes, streams[1].states)
    with Cluster(2) as cluster:
        client, victim = cluster.client, cluster.workers[0]
        address = cluster.address_of(victim)
        stop = threading.Event()

        def kill_while_busy():
            while not stop.wait(0.002) and not client.processing([address])[address]:
                pass
            cluster.kill(victim)

        thread = threading.Thread(target=kill_while_busy)
        thread.start()
        try:
            model = client.scatter(clf, broadcast=True)
            found = client.gather(client.map(states, streams, clf=model))
        finally:
            stop.set()
            thread.join(SECONDS)
        assert address not in client.nthreads()
        for said, stream in zip(found, streams, strict=True):
            np.testing.assert_array_equal(said, clf.predict(stream))
