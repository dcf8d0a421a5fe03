"""Fitted classifiers and streams for the tests of live sessions."""

from hypothesis import strategies as st

import mlat
from mlat import StreamClassifier
from mlat.synthetic import rotating_states
from state_streams import energy_states

TRAIN = rotating_states(run_length=25, runs_per_state=2, n_channels=3, noise=0.3)
STREAM = rotating_states(run_length=20, runs_per_state=1, n_channels=3, noise=0.3, random_state=1)
SETTINGS = {
    "euclidean": {"metric": "euclidean"},
    "numbered": {"metric": "euclidean", "scale": False},
    "filter": {"metric": mlat.MLAT(max_iter=3)},
    "long filter": {"metric": mlat.MLAT(max_iter=1, n_taps=30), "width": 22},
    "admm": {"metric": mlat.MLAT(solver="admm", max_iter=2)},
    "lmnn": {"metric": mlat.LMNN(max_iter=3)},
    "neighbours": {"metric": mlat.LMNN(max_iter=3), "n_neighbors": 4, "stride": 2},
    "lifted": {
        "metric": mlat.MLAT(max_iter=2),
        "lift": mlat.Lift(["identity", "log_magnitude", "running_deviation"], reach=7),
        "whiten": True,
    },
    "far": {"metric": "euclidean", "unknown_rate": 0.2},
    "auto": {"reach": 8},
}
# The options with which a session agrees with `predict` to the last bit.
EXACT = {"search": "exact", "far": None, "dead": "off"}

ENERGY = energy_states(0, run_length=40, n_channels=2)
# Classifiers of two channels, for streams with missing, late and constant values.
TWO_CHANNELS = {
    "plain": {"width": 4, "metric": "euclidean"},
    "lifted": {
        "width": 4,
        "metric": mlat.MLAT(max_iter=2),
        "lift": mlat.Lift(["identity", "difference", "running_magnitude"], reach=5),
        "whiten": True,
    },
    "auto": {"width": 5, "reach": 6},
}

names = st.sampled_from(sorted(TWO_CHANNELS))
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)
_fitted = {}


def fitted(name):
    """A classifier of three channels with these ``SETTINGS``."""
    if name not in _fitted:
        parameters = {"width": 6, **SETTINGS[name]}
        states = TRAIN.codes + 3 if name == "numbered" else TRAIN.states
        _fitted[name] = StreamClassifier(**parameters).fit(TRAIN.values, states)
    return _fitted[name]


def two_channels(name):
    """A classifier of two channels with these settings."""
    if ("two", name) not in _fitted:
        _fitted["two", name] = StreamClassifier(**TWO_CHANNELS[name]).fit(ENERGY)
    return _fitted["two", name]
