"""Model files of what is chosen, lifted and whitened: the same again, or one line that says why."""

import numpy as np
import pytest

import mlat
from mlat import InputError, Lift, Stream, StreamClassifier
from mlat.synthetic import rotating_states
from model_rewriting import put, put_tensor, read_header, rewrite
from state_streams import clusters, energy_states

MAPPED = Lift({"identity": [2, 0], "running_deviation": None, "log_magnitude": [1]}, reach=9)
MODELS = {
    "auto": {"unknown_rate": 0.05},
    "auto, nothing tried": {"budget": 0},
    "auto, five neighbours": {"n_neighbors": 5, "budget": 1, "reach": 20},
    "lifted": {"metric": "euclidean", "lift": MAPPED},
    "lifted, every 25th window": {"metric": "euclidean", "lift": MAPPED, "step": 25},
    "whitened": {"metric": "euclidean", "whiten": True},
    "lifted and whitened": {
        "metric": mlat.MLAT(max_iter=3, n_taps=2),
        "lift": MAPPED,
        "whiten": True,
        "unknown_rate": 0.2,
        "scale": False,
    },
    "all of it": {
        "metric": mlat.LMNN(max_iter=3),
        "lift": ["difference", "low_pass"],
        "whiten": True,
        "n_neighbors": 3,
        "step": 3,
        "unknown_rate": 0.1,
    },
}


def make_stream(seed=0):
    stream = energy_states(seed, run_length=120, n_runs=2, n_channels=3, factors=(0.6, 2.0))
    values = stream.values.copy()
    values[100, 1] = np.nan
    return Stream(values, stream.states, channels=["left", "right", "up"])


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_what_was_written(tmp_path, name):
    clf = StreamClassifier(**{"width": 6, **MODELS[name]}).fit(make_stream())
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat")
    fresh = make_stream(1)
    for filtered in (False, True):
        np.testing.assert_array_equal(
            clf.predict(fresh, filtered=filtered), again.predict(fresh, filtered=filtered)
        )
        np.testing.assert_array_equal(
            clf.predict_proba(fresh, filtered=filtered),
            again.predict_proba(fresh, filtered=filtered),
        )
    np.testing.assert_array_equal(clf.class_distances(fresh), again.class_distances(fresh))
    np.testing.assert_array_equal(clf.features(fresh), again.features(fresh))
    np.testing.assert_array_equal(clf.metric_matrix(), again.metric_matrix())
    for old, new in zip(clf.kneighbors(fresh), again.kneighbors(fresh), strict=True):
        np.testing.assert_array_equal(old, new)
    assert again.feature_names_ == clf.feature_names_
    assert (again.width_, again.n_neighbors_) == (clf.width_, clf.n_neighbors_)
    assert again.unknown_rate == clf.unknown_rate
    # What was chosen and why, and how sure it is.
    assert again.selection_ == clf.selection_
    assert (again.selection_ is None) == ("auto" not in name)
    assert again.confidence_.calibration == clf.confidence_.calibration
    assert again.confidence_.threshold == clf.confidence_.threshold
    old, new = clf.confidence_.persistence, again.confidence_.persistence
    assert new.tempering == old.tempering
    np.testing.assert_array_equal(new.transition, old.transition)
    # Written again it is the same to the last byte.
    again.save(tmp_path / "n.mlat")
    assert (tmp_path / "n.mlat").read_bytes() == (tmp_path / "m.mlat").read_bytes()


@pytest.mark.parametrize("name", ["lifted", "all of it", "auto, nothing tried"])
def test_what_is_read_can_be_fitted_anew(tmp_path, name):
    """What was chosen counts as given: the same stream gives the same states."""
    clf = StreamClassifier(**{"width": 6, **MODELS[name]}).fit(make_stream())
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat").fit(make_stream())
    assert again.selection_ is None
    fresh = make_stream(1)
    np.testing.assert_array_equal(again.predict_proba(fresh), clf.predict_proba(fresh))


def test_a_lift_finds_the_steps_between_windows_again(tmp_path):
    """Every 25th window of 6 steps: what lies between is no reference, but looked back at."""
    clf = StreamClassifier(width=6, step=25, metric="euclidean", lift=MAPPED).fit(make_stream())
    clf.save(tmp_path / "m")
    again = mlat.load(tmp_path / "m")
    for old, new in zip(clf.windows_.start, again.windows_.start, strict=True):
        np.testing.assert_allclose(
            clf.reference_features_[old : old + 6], again.reference_features_[new : new + 6]
        )
    StreamClassifier(width=6, step=25, metric="euclidean").fit(make_stream()).save(tmp_path / "n")
    plain = read_header(tmp_path / "n")
    assert plain["n_steps"] == 6 * plain["n_windows"]  # without a lift they are not kept


def test_nothing_could_be_judged_is_kept_too(tmp_path):
    clf = StreamClassifier().fit(clusters(0, [40, 40]))
    clf.save(tmp_path / "m")
    assert mlat.load(tmp_path / "m").selection_ == clf.selection_
    assert clf.selection_.trials == []


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "auto.mlat"
    stream = rotating_states(run_length=70, n_channels=3, noise=0.5, runs_per_state=1)
    StreamClassifier(width=6, budget=0, unknown_rate=0.1).fit(stream).save(path)
    header = read_header(path)
    assert header["whitened"]
    assert "running_deviation" in header["lift"]["maps"]
    assert len(header["selection"]["trials"]) == 1
    return path


def inside(name, **values):
    def change(header, tensors):
        header[name] |= values

    return change


def without(name):
    return lambda header, tensors: header.pop(name)


def chosen(**values):
    def change(header, tensors):
        header["selection"]["choice"] |= values

    return change


def tried(**values):
    def change(header, tensors):
        header["selection"]["trials"][0] |= values

    return change


LIFT, SURE, CHOSEN = "the lift is of no known kind", "how sure it is", "what was chosen cannot be"
INFINITE = np.full((4, 4), np.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *[(without(name), "fields are missing") for name in ("whitened", "unknown_rate")],
        (without("lift"), LIFT),
        (put("lift", ["identity"]), LIFT),
        (put("lift", {"maps": ["identity"]}), LIFT),
        (inside("lift", more=1), LIFT),
        (inside("lift", maps=[]), LIFT),
        (inside("lift", maps="identity"), LIFT),
        (inside("lift", maps=["identity", "cube"]), LIFT),
        (inside("lift", maps=["identity", ["low_pass"]]), LIFT),
        (inside("lift", maps={"identity": [7]}), LIFT),
        (inside("lift", maps={"identity": [10**30]}), LIFT),
        (inside("lift", maps={"identity": "all"}), LIFT),
        (inside("lift", maps={"identity": [0.5]}), LIFT),
        (inside("lift", maps={"identity": []}), LIFT),
        (inside("lift", maps={"__class__": None}), LIFT),
        *[(inside("lift", reach=reach), LIFT) for reach in (0, -5, 2.5, True, "far", None, 10**9)],
        (inside("lift", maps=["identity"]), "is damaged"),
        (put("whitened", 1), "fields are missing"),
        (put("whitened", False), "it holds"),
        (put("unknown_rate", "often"), "fields are missing"),
        *[(put("unknown_rate", rate), "fields are missing") for rate in (-0.1, 1, 1.5, True, None)],
        (without("confidence"), SURE),
        (put("confidence", 3), SURE),
        *[(inside("confidence", beta=beta), SURE) for beta in (-1, "1", None, float("nan"), 1e9)],
        *[(inside("confidence", typical=typical), SURE) for typical in (0, -1, None, True)],
        *[(inside("confidence", tempering=power), SURE) for power in (-1, 2, "1", None)],
        *[(inside("confidence", threshold=far), SURE) for far in (-1, "far", float("nan"), [1])],
        *[(put("selection", record), CHOSEN) for record in (3, "auto", [], {}, {"choice": {}})],
        (chosen(lift="cubes"), CHOSEN),
        (chosen(lift=["running energies"]), CHOSEN),
        (chosen(metric="Pickle"), CHOSEN),
        (chosen(solver="exec"), CHOSEN),
        (chosen(width="wide"), CHOSEN),
        (chosen(width=True), CHOSEN),
        (chosen(n_taps=1.5), CHOSEN),
        (chosen(whiten=1), CHOSEN),
        (chosen(shrinkage="1"), CHOSEN),
        (chosen(evil=1), CHOSEN),
        (tried(score="high"), CHOSEN),
        (tried(score=[1]), CHOSEN),
        (tried(seconds=10**400), CHOSEN),
        (tried(choice=None), CHOSEN),
        (lambda h, t: h["selection"]["trials"].append("one more"), CHOSEN),
        (lambda h, t: h["selection"].update(trials=7), CHOSEN),
        (lambda h, t: t.pop("mixing"), "it holds"),
        (lambda h, t: t.pop("transition"), "it holds"),
        (put_tensor("mixing", lambda a: a[:-1]), "mixing is F64"),
        (put_tensor("mixing", lambda a: a.astype(np.float32)), "mixing is F32"),
        (put_tensor("mixing", lambda a: a * np.nan), "mixing holds NaN or infinity"),
        (put_tensor("feature_mean", lambda a: a[:-1]), "feature_mean is F64"),
        (put_tensor("feature_mean", lambda a: a + np.inf), "feature_mean holds NaN"),
        (put_tensor("feature_scale", lambda a: -a), "out of range"),
        (put_tensor("feature_scale", lambda a: a * 0), "out of range"),
        (put_tensor("transition", lambda a: a[:2]), "transition is F64"),
        (put_tensor("transition", lambda a: a * 2), "out of range"),
        (put_tensor("transition", lambda a: a - 2 * a * np.eye(4)), "out of range"),
        (put_tensor("transition", lambda a: np.eye(4)), "out of range"),
        (put_tensor("transition", lambda a: INFINITE), "transition holds NaN or infinity"),
    ],
)
def test_a_hostile_file_gets_one_line(model, tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        mlat.load(rewrite(model, tmp_path / "bad.mlat", change))
    assert "\n" not in str(caught.value)
    assert "bad.mlat" in str(caught.value)


def test_what_is_told_of_the_choice_is_not_needed(model, tmp_path):
    clf = mlat.load(rewrite(model, tmp_path / "m.mlat", put("selection", None)))
    assert clf.selection_ is None
    stream = rotating_states(run_length=20, n_channels=3)
    np.testing.assert_array_equal(clf.predict(stream), mlat.load(model).predict(stream))
