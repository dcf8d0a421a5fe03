"""Models to export: every kind that there is, and streams to try them on."""

from hypothesis import strategies as st

from mlat import LMNN, MLAT, Lift, StreamClassifier
from mlat.features.lifts import MAPS
from mlat.metric import Forest
from mlat.synthetic import rotating_states

TRAIN = rotating_states(n_channels=3, run_length=60, runs_per_state=2, random_state=0)
FRESH = rotating_states(n_channels=3, run_length=40, runs_per_state=1, random_state=1)

SHAPES = {
    "euclidean": {"metric": "euclidean"},
    "mlat": {"metric": MLAT(max_iter=5), "width": 6},
    "one tap": {"metric": MLAT(n_taps=1, max_iter=5), "width": 6},
    "admm": {"metric": MLAT(solver="admm", max_iter=5), "width": 4},
    "lmnn": {"metric": LMNN(max_iter=5), "width": 5},
    "votes": {"metric": "euclidean", "n_neighbors": 5},
    "whitened lift": {
        "metric": MLAT(max_iter=3),
        "lift": Lift(["identity", "rectified", "running_deviation", "running_difference"], 7),
        "whiten": True,
    },
    "levels": {
        "metric": MLAT(n_taps=1, max_iter=3),
        "width": 5,
        "lift": Lift(["identity", "low_pass", "running_magnitude", "difference"], 6),
        "whiten": True,
    },
    "some channels": {
        "metric": "euclidean",
        "lift": Lift({"log_magnitude": [2, 0], "difference": None, "low_pass": [1]}, 5),
    },
    "unknown": {"metric": "euclidean", "unknown_rate": 0.2},
    "unscaled": {"metric": "euclidean", "scale": False},
    "forest": {"metric": Forest(20), "width": 4},
    "forest of steps": {
        "metric": Forest(20),
        "width": 1,
        "lift": Lift(["difference", "running_deviation", "identity"], 6),
    },
    "every map": {"metric": "euclidean", "width": 3, "lift": Lift(tuple(MAPS), 6)},
    "committee": {},
}

LIFTS = st.lists(
    st.sampled_from(tuple(MAPS)),
    min_size=1,
    max_size=3,
    unique=True,
)


@st.composite
def random_models(draw):
    """A small classifier of any kind, learned in a moment."""
    metric = draw(st.sampled_from(["euclidean", MLAT(max_iter=2), LMNN(max_iter=2), Forest(9)]))
    return StreamClassifier(
        width=draw(st.integers(1, 6)),
        metric=metric,
        lift=Lift(draw(LIFTS), draw(st.integers(2, 9))),
        whiten=draw(st.booleans()) and not isinstance(metric, Forest),
        n_neighbors=draw(st.sampled_from([1, 1, 3])),
        unknown_rate=draw(st.sampled_from([0.0, 0.1])),
    ).fit(TRAIN)
