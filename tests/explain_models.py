"""Classifiers of every kind of metric over one stream, to be explained."""

from functools import cache

import numpy as np

import mlat
from mlat.synthetic import rotating_states

WIDTH = 6
LIFT = ["identity", "running_deviation"]
train = rotating_states(n_channels=3, drift=0.3, noise=0.3)
test = rotating_states(n_channels=3, drift=0.3, noise=0.3, random_state=1)

KINDS = {
    "euclidean": {"metric": "euclidean"},
    "whitened": {"metric": "euclidean", "whiten": True},
    "filter": {"metric": mlat.MLAT(max_iter=5)},
    "admm": {"metric": mlat.MLAT(solver="admm", max_iter=3)},
    "lmnn": {"metric": mlat.LMNN(max_iter=5), "n_neighbors": 3},
    "lifted": {"metric": mlat.MLAT(max_iter=5), "lift": LIFT},
    "all": {"metric": mlat.LMNN(max_iter=5), "lift": LIFT, "whiten": True, "n_neighbors": 2},
}


def plain(**options):
    return mlat.StreamClassifier(WIDTH, metric="euclidean", **options).fit(train)


COMMITTEE_WIDTH = 12  # the experts over running features are narrower


@cache
def committee():
    return mlat.StreamClassifier(COMMITTEE_WIDTH).fit(train)


def split_vote(clf, stream):
    """Steps at which an expert would decide otherwise than all together."""
    decided = clf.class_distances(stream)
    said = [np.nan_to_num(D).argmin(axis=1) for D in clf.expert_distances(stream)]
    others = np.array(said) != np.nan_to_num(decided).argmin(axis=1)
    return np.flatnonzero(others.any(axis=0) & ~np.isnan(decided[:, 0]))
