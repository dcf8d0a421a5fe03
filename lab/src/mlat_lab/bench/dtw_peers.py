"""Time one other library's nearest neighbours under DTW; run as a script, by any Python.

``python dtw_peers.py NAME WINDOWS.npz RESULT.npz`` reads ``train`` (m, w, d) and ``test`` (n, w, d)
and writes ``nearest`` (n,), ``distances`` (n,), ``seconds`` of CPU time and the ``version``. It
needs numpy and the peer only, so the peers can live in an environment of their own. Exit status 3:
not installed.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

NOT_INSTALLED = 3


def dtaidistance(train: Any, test: Any) -> Any:
    """The C library's matrix of all pairs, which is its fastest way: it has no search."""
    dtw_ndim = import_module("dtaidistance.dtw_ndim")
    n = len(test)
    series = np.concatenate([test, train])
    block = ((0, n), (n, len(series)))
    compact = dtw_ndim.distance_matrix_fast(
        series, test.shape[2], block=block, compact=True, parallel=False
    )
    return _smallest(np.asarray(compact).reshape(n, len(train)))


def aeon_pairwise(train: Any, test: Any) -> Any:
    distances = import_module("aeon.distances")
    matrix = distances.dtw_pairwise_distance(test.transpose(0, 2, 1), train.transpose(0, 2, 1))
    return _smallest(np.sqrt(matrix))


def aeon(train: Any, test: Any) -> Any:
    neighbors = import_module("aeon.classification.distance_based")
    model = neighbors.KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw")
    model.fit(train.transpose(0, 2, 1), np.arange(len(train)) % 2)
    distances, nearest = model.kneighbors(test.transpose(0, 2, 1))
    return np.sqrt(np.ravel(distances)), np.ravel(nearest)


def tslearn(train: Any, test: Any) -> Any:
    neighbors = import_module("tslearn.neighbors")
    model = neighbors.KNeighborsTimeSeriesClassifier(n_neighbors=1, metric="dtw")
    model.fit(train, np.arange(len(train)) % 2)
    distances, nearest = model.kneighbors(test)
    return np.ravel(distances), np.ravel(nearest)


PEERS = {
    "dtaidistance": dtaidistance,
    "aeon": aeon,
    "aeon-pairwise": aeon_pairwise,
    "tslearn": tslearn,
}


def _smallest(matrix: Any) -> Any:
    nearest = matrix.argmin(axis=1)
    return matrix[np.arange(len(matrix)), nearest], nearest


def main(name: str, windows: str, result: str) -> int:
    arrays = np.load(windows)
    train, test = arrays["train"], arrays["test"]
    peer = PEERS[name]
    try:
        peer(train[:20], test[:5])  # compiles what is compiled on first use
    except ImportError as error:
        print(error, file=sys.stderr)
        return NOT_INSTALLED
    begin = time.process_time()
    distances, nearest = peer(train, test)
    seconds = time.process_time() - begin
    np.savez(
        result,
        distances=distances,
        nearest=nearest,
        seconds=seconds,
        version=version(name.partition("-")[0]),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
