import contextlib
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import mlat
from mlat import InputError, Lift, Stream, StreamClassifier
from mlat.base.errors import DiskError
from mlat.classifier import model_file
from mlat.synthetic import rotating_states
from model_rewriting import (
    leave_out,
    put,
    put_inside,
    put_tensor,
    read_header,
    rewrite,
    rewrite_as_version_2,
)
from state_streams import clusters, energy_states

METRICS = {
    "filter": mlat.MLAT(max_iter=3),
    "admm": mlat.MLAT(solver="admm", max_iter=2, target_gap=5),
    "lmnn": mlat.LMNN(max_iter=3, shrinkage=0.5),
    "euclidean": "euclidean",
}


def expert_with(**values):
    """Other fields of the first expert."""

    def change(header, tensors):
        header["experts"][0] |= values

    return change


@pytest.fixture(scope="module")
def stream():
    return rotating_states(run_length=30, n_channels=3)


@pytest.fixture(scope="module")
def model(stream, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "walk.mlat"
    StreamClassifier(width=6, metric=mlat.MLAT(max_iter=3)).fit(stream).save(path)
    return path


@pytest.mark.parametrize("name", METRICS)
def test_a_saved_model_predicts_the_same(stream, tmp_path, name):
    clf = StreamClassifier(width=6, metric=METRICS[name], n_neighbors=3, stride=2).fit(stream)
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat")
    other = rotating_states(run_length=30, n_channels=3, random_state=5)
    np.testing.assert_array_equal(clf.predict(other), again.predict(other))
    for old, new in zip(clf.kneighbors(other), again.kneighbors(other), strict=True):
        np.testing.assert_array_equal(old, new)
    assert again.channels_ == clf.channels_
    assert again.classes_.tolist() == clf.classes_.tolist()
    if name != "euclidean":
        np.testing.assert_array_equal(again.metric_.metric_, clf.metric_.metric_)
        assert again.metric_.history_ == clf.metric_.history_
        same = {k: v for k, v in clf.metric_.get_params().items() if k != "init"}
        assert same.items() <= again.metric_.get_params().items()
    # What was read can be written, and is the same to the last byte.
    again.save(tmp_path / "n.mlat")
    assert (tmp_path / "n.mlat").read_bytes() == (tmp_path / "m.mlat").read_bytes()
    # And what was read can be fitted anew.
    np.testing.assert_array_equal(again.fit(stream).predict(other), clf.predict(other))


def test_numbered_states_stay_numbers(stream, tmp_path):
    codes = stream.codes + 3
    StreamClassifier(width=6, metric="euclidean").fit(stream.values, codes).save(tmp_path / "m")
    again = mlat.load(tmp_path / "m")
    assert again.classes_.dtype.kind == "i"
    assert again.predict(stream.values)[0] == -1


def test_the_usual_step_is_kept(stream, tmp_path):
    timed = Stream(stream.values, stream.states, time=0.3 * np.arange(len(stream)))
    clf = StreamClassifier(6, metric="euclidean").fit(timed)
    clf.save(tmp_path / "m")
    assert mlat.load(tmp_path / "m").usual_step_ == clf.usual_step_ == pytest.approx(0.3)
    for wrong in (0, -1.0, "fast", True, float("inf"), float("nan")):
        with pytest.raises(InputError, match="usual_step is"):
            mlat.load(rewrite(tmp_path / "m", tmp_path / "bad", put("usual_step", wrong)))


def test_only_the_steps_inside_windows_are_kept(tmp_path):
    stream = rotating_states(run_length=30, n_channels=3)
    states = stream.states.copy()
    states[30:90] = ""
    clf = StreamClassifier(width=6, metric="euclidean").fit(stream.values, states)
    clf.save(tmp_path / "m")
    assert len(load_file(tmp_path / "m")["steps"]) == len(stream) - 60
    other = rotating_states(run_length=30, n_channels=3, random_state=5)
    np.testing.assert_array_equal(
        clf.predict(other.values), mlat.load(tmp_path / "m").predict(other.values)
    )


def put_at(array, place, value):
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format", "other"), "safetensors file of something else"),
        (put("version", 99), "format version 99, this mlat reads versions 2 to 4"),
        (put("version", 1), "format version 1, .*; use the mlat that wrote it, or fit again"),
        (put("version", 2), "version 2 has no committee, experts, usual_step"),
        (put("version", True), "format version True"),
        (put("width", -3), "width is -3, not a whole number from 1 to"),
        (put("width", 10**9), "no expert has the width of the windows"),
        (expert_with(width=7), "the metric does not fit its width|no expert has the width"),
        (expert_with(width=10**9), "the metric does not fit its width|GB of memory"),
        (expert_with(columns=[0, 1, 3]), "an expert sees feature 3 of 3"),
        (expert_with(columns=[0, 0, 1]), r"experts\[0\].columns names one of its entries twice"),
        (expert_with(columns=[0, 1]), "does not fit its width and channels"),
        (expert_with(whitened=True), "it holds"),
        (put("n_windows", 10**13), "n_windows is 10000000000000, not a whole number"),
        (put("n_windows", 10**11), r"start is int64 \(\d+,\), not int64 \(100000000000,\)"),
        (put("n_steps", True), "n_steps is True"),
        (put("channels", ["a", "a", "b"]), "channels names one of its entries twice"),
        (put("channels", ["a", "b"]), "does not fit its width and channels"),
        (put("channels", "abc"), "channels is 'abc', not a list"),
        (put("channels", ["a", "b", "\ud800"]), r"channels\[2\] is .*, not a text"),
        (put("classes", ["b", "a", "c", "d"]), "classes must be sorted"),
        (put("classes", ["a", 1, "c", "d"]), r"classes\[1\] is 1, not a name"),
        (put("classes", ["a", "b\0", "c", "d"]), r"classes\[1\] is .*, not a name"),
        (put("classes", [-1, 1, 2, 3]), "without the unknown state -1"),
        (put("classes", [0, 1, 2, 10**30]), "classes"),
        (put("metric", {"kind": "Pickle"}), "metric.kind is 'Pickle', not 'euclidean' or"),
        (put("metric", {"kind": ["MLAT"]}), "metric.kind is a list, not"),
        (put("metric", {"kind": "MLAT"}), "metric.parameters is missing"),
        (put("metric", {"kind": "euclidean"}), "it holds"),
        (put("n_neighbors", 10**6), "fewer windows than n_neighbors, 1000000"),
        (put("n_windows", "many"), "n_windows is 'many'"),
        (put("scaled", 3), "scaled is 3, not true or false"),
        (put("experts", []), "experts has 0 entries"),
        (put("more", 1), "'more' is not known"),
        (expert_with(more=1), r"experts\[0\].'more' is not known"),
        (leave_out("step"), "step is missing"),
        (put_inside("metric", evil=1), "metric.'evil' is not known"),
        *[
            (
                lambda h, t, name=name, value=value: (
                    h["experts"][0]["metric"][part].update({name: value})
                    if (part := "fitted" if name.endswith("_") else "parameters")
                    else None
                ),
                f"metric.*{name}",
            )
            for name, value in [
                ("evil", 1),
                ("max_iter", 0.5),
                ("max_iter", "all"),
                ("tol", None),
                ("rho", 10**400),
                ("rho", 0),
                ("solver", ["filter"]),
                ("n_taps", "2"),
                ("target_gap", "walk"),
                ("target_gap", {}),
                ("loss_", "low"),
                ("loss_", 10**400),
                ("n_iter_", None),
                ("converged_", 1),
                ("message_", 3),
                ("history_", "long"),
                ("history_", [{"loss": "low"}]),
            ]
        ],
        (lambda h, t: h["experts"][0]["metric"]["fitted"].pop("loss_"), "loss_ is missing"),
        (
            lambda h, t: h["experts"][0]["metric"]["parameters"].update(solver="admm"),
            "does not fit its width",
        ),
        (
            lambda h, t: h["experts"][0]["metric"]["shapes"].update(taps=[6, 3]),
            "does not fit its width",
        ),
        (lambda h, t: t.pop("mean"), "it holds"),
        (lambda h, t: t.update(more=np.zeros(3)), "it holds"),
        (put_tensor("mean", lambda a: a.astype(np.float32)), "mean is float32"),
        (put_tensor("mean", lambda a: a[:2]), r"mean is float64 \(2,\), not float64 \(3,\)"),
        (put_tensor("steps", lambda a: a * np.nan), "steps holds NaN or infinity"),
        (put_tensor("start", lambda a: a + 10**6), "windows are out of range"),
        (put_tensor("start", lambda a: a - 10**6), "windows are out of range"),
        (put_tensor("start", lambda a: a[::-1]), "windows are out of range or out of order"),
        (put_tensor("start", lambda a: a - a % 10), "windows are out of range or out of order"),
        (put_tensor("start", lambda a: put_at(a, 5, -(1 << 63))), "windows are out of range"),
        (put_tensor("run", lambda a: put_at(a, 5, -(1 << 63))), "runs are out of order"),
        (put_tensor("run", lambda a: put_at(a, 5, (1 << 63) - 1)), "runs are out of order"),
        (put_tensor("run", lambda a: a[::-1]), "runs are out of order"),
        (put_tensor("run", np.zeros_like), "a run is of two states"),
        (put_tensor("run", lambda a: np.arange(len(a))), "runs are out of order"),
        (put_tensor("code", lambda a: a + 50), "of unknown states"),
        (put_tensor("code", lambda a: a.clip(0, 2)), "a state has no windows"),
        (put_tensor("code", lambda a: np.arange(len(a)) % 4), "a run is of two states"),
        (put_tensor("scale", lambda a: a * 0), "a scale is not positive"),
    ],
)
def test_a_hostile_file_gets_one_line(model, tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        mlat.load(rewrite(model, tmp_path / "bad.mlat", change))
    assert "\n" not in str(caught.value)
    assert "bad.mlat" in str(caught.value)


def test_a_flipped_bit_anywhere_is_noticed():
    """In the header, the names, the arrays and the checksum itself: each bit of a small model."""
    stream = rotating_states(run_length=8, runs_per_state=1, n_channels=2)
    raw = model_file.to_bytes(StreamClassifier(2, metric="euclidean", stride=3).fit(stream))
    for place in range(8 * len(raw)):
        broken = bytearray(raw)
        broken[place // 8] ^= 1 << place % 8
        with pytest.raises(InputError):
            model_file.from_bytes(bytes(broken), "bad.mlat")


STORED = Path(__file__).parents[1] / "stored_models_v2"


@pytest.mark.parametrize("name", sorted(path.stem for path in STORED.glob("*.safetensors")))
def test_a_model_of_version_2_still_opens(tmp_path, name):
    """The files and what is told of them were written before the header had a checksum."""
    told = json.loads((STORED / "told.json").read_text())
    clf = mlat.load(STORED / f"{name}.safetensors")
    assert clf.predict(told["values"]).tolist() == told["states"][name]
    # Saved again it is of today's version, and the same model.
    clf.save(tmp_path / "m.mlat")
    assert read_header(tmp_path / "m.mlat")["version"] == 4
    again = mlat.load(tmp_path / "m.mlat")
    np.testing.assert_array_equal(
        again.predict_proba(told["values"]), clf.predict_proba(told["values"])
    )


STORED_3 = Path(__file__).parents[1] / "stored_models_v3"


@pytest.mark.parametrize("name", ["whitened", "votes", "euclidean", "committee"])
def test_a_model_of_version_3_still_opens(tmp_path, name):
    """Written before one metric was a committee of one."""
    told = json.loads((STORED_3 / "told.json").read_text())
    values, states, proba = told["values"], told["states"][name], told["proba"][name]
    clf = mlat.load(STORED_3 / f"{name}.safetensors")
    assert clf.predict(values).tolist() == states
    np.testing.assert_allclose(np.nan_to_num(clf.predict_proba(values), nan=-1), proba, atol=1e-9)
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat")
    np.testing.assert_array_equal(again.predict_proba(values), clf.predict_proba(values))
    if name in told["rest"]:  # a session goes on from its snapshot
        live = clf.live()
        live.restore((STORED_3 / f"{name}.snapshot").read_bytes())
        for made, (step, state, distance) in zip(
            live.push(np.array(values[20:])), told["rest"][name], strict=True
        ):
            assert (made.step, made.state) == (step, state)
            # The committee's was known up to the bound of a search that is no longer there.
            assert made.distance == pytest.approx(distance, abs=1e-9, rel=1e-3)
            nearest = clf.class_distances(values)[step].min()
            assert made.distance == pytest.approx(nearest, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, t: h.update(width=-3), "width is -3"),
        (lambda h, t: h.pop("lift"), "lift is missing"),
        (lambda h, t: h.update(confidence=3), "confidence is 3"),
        (lambda h, t: h.pop("classes"), "classes is missing"),
        (lambda h, t: h.update(metric=3), "metric is 3"),
    ],
)
def test_a_hostile_file_of_version_2_gets_one_line(model, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        mlat.load(rewrite_as_version_2(model, tmp_path / "bad.mlat", change))
    mlat.load(rewrite_as_version_2(model, tmp_path / "good.mlat"))


def many_channels(header, tensors):
    """A model of 600 channels and no more than two windows."""
    d = 600
    header |= {"channels": [f"c{i}" for i in range(d)], "classes": ["a", "b"]}
    header |= {"n_windows": 2, "n_steps": 4, "width": 2}
    header["lift"] = {"maps": ["identity"], "reach": 5}
    header["experts"][0] |= {"width": 2, "metric": EUCLIDEAN}
    for name in [*tensors]:
        tensors.pop(name)
    tensors |= {name: np.arange(2) for name in ("run", "code")}
    tensors |= {"start": np.array([0, 2]), "steps": np.random.default_rng(0).normal(size=(4, d))}
    tensors |= {name: np.ones(d) for name in ("mean", "scale", "feature_mean", "feature_scale")}
    tensors["transition"] = np.full((2, 2), 0.5)


EUCLIDEAN = {"kind": "euclidean"}


def bomb(kind):
    def change(header, tensors):
        many_channels(header, tensors)
        expert = header["experts"][0]
        if kind == "reach":
            header["lift"] = {"maps": ["low_pass"], "reach": 1 << 20}
        elif kind == "MLAT":
            expert["width"] = 400
            header |= {"width": 400, "n_steps": 401}
            tensors["start"] = np.array([0, 1])
            tensors["steps"] = np.zeros((401, 600))
            taps = {"taps": [1, 1, 600]}
            fitted = dict.fromkeys(["loss_", "initial_loss_", "scale_"], 1.0)
            fitted |= {"n_iter_": 1, "converged_": True, "message_": "", "history_": []}
            expert["metric"] = {"kind": kind, "parameters": {}, "shapes": taps, "fitted": fitted}
            tensors["0.taps"] = np.ones((1, 1, 600))
        elif kind == "maps":
            header["lift"]["maps"] = ["identity"] * 1000
        elif kind == "channels":
            header["lift"]["maps"] = {"identity": [0] * 100_000}

    return change


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("reach", "a reach of 1048576 steps with 600 channels needs 5.0 GB of memory"),
        ("MLAT", r"a width of 400 steps with 600 channels needs 1.2 GB of memory, for a file of 2"),
        ("maps", "maps names one of its entries twice"),
        ("channels", "maps"),
    ],
)
def test_a_small_file_cannot_ask_for_much_memory(model, tmp_path, kind, message):
    mlat.load(rewrite(model, tmp_path / "good.mlat", bomb("nothing")))
    with pytest.raises(InputError, match=message):
        mlat.load(rewrite(model, tmp_path / "bad.mlat", bomb(kind)))


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    stream = rotating_states(run_length=30, n_channels=3)
    lift = Lift(["low_pass"], reach=1 << 41)
    clf = StreamClassifier(6, metric="euclidean").fit(stream)
    clf.features_ = replace(clf.features_, lift=lift)
    with pytest.raises(InputError, match=r"cannot be saved: lift.reach is 2199"):
        clf.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("keep", [0, 3, 8, 100, 0.5, 0.99])
def test_a_truncated_file_gets_one_line(model, tmp_path, keep):
    raw = model.read_bytes()
    size = keep if isinstance(keep, int) else int(keep * len(raw))
    (tmp_path / "cut.mlat").write_bytes(raw[:size])
    with pytest.raises(InputError, match=r"not an mlat model|cannot be read|cut short"):
        mlat.load(tmp_path / "cut.mlat")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_garbage_never_gets_further_than_an_input_error(model, tmp_path, data):
    raw = bytearray(model.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(len(raw) - 1, 3000)))
        raw[place] = data.draw(st.integers(0, 255))
    (tmp_path / "garbage.mlat").write_bytes(raw)
    with contextlib.suppress(InputError):
        mlat.load(tmp_path / "garbage.mlat")


def test_a_huge_header_length_is_refused_before_reading(tmp_path):
    (tmp_path / "huge.mlat").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(InputError, match="not an mlat model"):
        mlat.load(tmp_path / "huge.mlat")


def test_missing_files_folders_and_unwritable_places(model, tmp_path, stream):
    with pytest.raises(DiskError, match="cannot be read"):
        mlat.load(tmp_path / "absent.mlat")
    with pytest.raises(DiskError, match=r"cannot be read|not an mlat model"):
        mlat.load(tmp_path)
    clf = mlat.load(model)
    with pytest.raises(InputError, match="there is no folder"):
        clf.save(tmp_path / "no" / "m.mlat")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_old_model(model, tmp_path, monkeypatch):
    target = tmp_path / "m.mlat"
    target.write_bytes(b"the old one")
    clf = mlat.load(model)
    monkeypatch.setattr("mlat.classifier.model_file.pack", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.save(target)
    assert os.listdir(tmp_path) == ["m.mlat"]
    assert target.read_bytes() == b"the old one"


# What is chosen, lifted and whitened


MAPPED = Lift({"identity": [2, 0], "running_deviation": None, "log_magnitude": [1]}, reach=9)


MODELS = {
    "auto": {"unknown_rate": 0.05},
    "auto, nothing judged": {"held_out": False},
    "auto, every third window": {"stride": 3, "reach": 20, "width": 12},
    "lifted": {"metric": "euclidean", "lift": MAPPED},
    "lifted, every 25th window": {"metric": "euclidean", "lift": MAPPED, "stride": 25},
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
        "stride": 3,
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
    if len(clf.experts_) == 1:
        np.testing.assert_array_equal(clf.metric_matrix(), again.metric_matrix())
    for old, new in zip(clf.expert_distances(fresh), again.expert_distances(fresh), strict=True):
        np.testing.assert_array_equal(old, new)
    for old, new in zip(clf.kneighbors(fresh), again.kneighbors(fresh), strict=True):
        np.testing.assert_array_equal(old, new)
    assert again.feature_names_ == clf.feature_names_
    assert (again.width_, again.n_neighbors_) == (clf.width_, clf.n_neighbors_)
    assert again.unknown_rate == clf.unknown_rate
    # Who decides, with which weight and why, and its confidence.
    assert repr(again.committee_) == repr(clf.committee_)
    assert again.metric == "auto" if "auto" in name else again.metric != "auto"
    assert again.confidence_.calibration == clf.confidence_.calibration
    assert again.confidence_.threshold == clf.confidence_.threshold
    old, new = clf.confidence_.state_filter, again.confidence_.state_filter
    assert new.tempering == old.tempering
    np.testing.assert_array_equal(new.transition, old.transition)
    # Written again it is the same to the last byte.
    again.save(tmp_path / "n.mlat")
    assert (tmp_path / "n.mlat").read_bytes() == (tmp_path / "m.mlat").read_bytes()


@pytest.mark.parametrize("name", ["lifted", "all of it", "auto, nothing judged"])
def test_what_is_read_can_be_fitted_anew(tmp_path, name):
    """The parameters are those that were given: the same stream gives the same states."""
    clf = StreamClassifier(**{"width": 6, **MODELS[name]}).fit(make_stream())
    clf.save(tmp_path / "m.mlat")
    again = mlat.load(tmp_path / "m.mlat").set_params(held_out=clf.held_out).fit(make_stream())
    assert len(again.experts_) == len(clf.experts_)
    fresh = make_stream(1)
    np.testing.assert_array_equal(again.predict_proba(fresh), clf.predict_proba(fresh))


def test_a_lift_finds_the_steps_between_windows_again(tmp_path):
    """Every 25th window of 6 steps: what lies between is no reference, but looked back at."""
    clf = StreamClassifier(width=6, stride=25, metric="euclidean", lift=MAPPED).fit(make_stream())
    clf.save(tmp_path / "m")
    again = mlat.load(tmp_path / "m")
    for old, new in zip(clf.windows_.start, again.windows_.start, strict=True):
        np.testing.assert_allclose(
            clf.reference_features_[old : old + 6], again.reference_features_[new : new + 6]
        )
    StreamClassifier(width=6, stride=25, metric="euclidean").fit(make_stream()).save(tmp_path / "n")
    plain = read_header(tmp_path / "n")
    assert plain["n_steps"] == 6 * plain["n_windows"]  # without a lift they are not kept


def test_nothing_could_be_judged_is_kept_too(tmp_path):
    clf = StreamClassifier().fit(clusters(0, [40, 40]))
    clf.save(tmp_path / "m")
    again = mlat.load(tmp_path / "m").committee_
    assert repr(again) == repr(clf.committee_)
    assert again.why.startswith("usual weights")


@pytest.fixture(scope="module")
def auto_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "auto.mlat"
    stream = rotating_states(run_length=70, n_channels=3, noise=0.5, runs_per_state=1)
    StreamClassifier(width=6, held_out=False, unknown_rate=0.1).fit(stream).save(path)
    header = read_header(path)
    kinds = [expert["metric"]["kind"] for expert in header["experts"]]
    assert kinds == ["MLAT", "Forest", "Forest", "euclidean"]
    assert "running_deviation" in header["lift"]["maps"]
    assert len(header["committee"]["members"]) == 4
    return path


def member(**values):
    def change(header, tensors):
        header["committee"]["members"][0] |= values

    return change


LIFT = r"a reach of|: lift|: identity names|an expert sees"
CONFIDENCE, TOGETHER = ": confidence", ": committee|the committee|the weights of"


INFINITE = np.full((4, 4), np.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *[(leave_out(name), f"{name} is missing") for name in ("auto", "unknown_rate")],
        (leave_out("lift"), LIFT),
        (put("lift", ["identity"]), LIFT),
        (put("lift", {"maps": ["identity"]}), LIFT),
        (put_inside("lift", more=1), LIFT),
        (put_inside("lift", maps=[]), LIFT),
        (put_inside("lift", maps="identity"), LIFT),
        (put_inside("lift", maps=["identity", "cube"]), LIFT),
        (put_inside("lift", maps=["identity", ["low_pass"]]), LIFT),
        (put_inside("lift", maps={"identity": [7]}), LIFT),
        (put_inside("lift", maps={"identity": [10**30]}), LIFT),
        (put_inside("lift", maps={"identity": "all"}), LIFT),
        (put_inside("lift", maps={"identity": [0.5]}), LIFT),
        (put_inside("lift", maps={"identity": []}), LIFT),
        (put_inside("lift", maps={"__class__": None}), LIFT),
        *[
            (put_inside("lift", reach=reach), LIFT)
            for reach in (0, -5, 2.5, True, "far", None, 10**9)
        ],
        (put_inside("lift", maps=["identity"]), "is damaged"),
        (put("auto", 1), "auto is 1"),
        (put("unknown_rate", "often"), "unknown_rate is 'often'"),
        *[(put("unknown_rate", rate), "unknown_rate is") for rate in (-0.1, 1, 1.5, True, None)],
        (leave_out("confidence"), CONFIDENCE),
        (put("confidence", 3), CONFIDENCE),
        *[
            (put_inside("confidence", beta=beta), CONFIDENCE)
            for beta in (-1, "1", None, float("nan"), 1e9)
        ],
        *[
            (put_inside("confidence", typical=typical), CONFIDENCE)
            for typical in (0, -1, None, True)
        ],
        *[(put_inside("confidence", tempering=power), CONFIDENCE) for power in (-1, 2, "1", None)],
        *[
            (put_inside("confidence", threshold=far), CONFIDENCE)
            for far in (-1, "far", float("nan"), [1])
        ],
        *[(put("committee", record), TOGETHER) for record in (3, "auto", [], {}, {"members": []})],
        (put("committee", None), TOGETHER),
        (put_inside("committee", members=[]), TOGETHER),
        (put_inside("committee", members=7), TOGETHER),
        (put_inside("committee", soft=-1), TOGETHER),
        (put_inside("committee", soft=None), TOGETHER),
        (put_inside("committee", soft=0), "the distances of the committee are wrong"),
        (put_inside("committee", evil=1), TOGETHER),
        (put_inside("committee", accuracy=10**400), TOGETHER),
        (put_inside("committee", n_runs=1.5), TOGETHER),
        (member(weight=0), "the committee does not fit the experts"),
        (member(weight=0.9), "the weights of the committee are wrong"),
        (member(weight=-0.1), TOGETHER),
        (member(weight="all"), TOGETHER),
        (member(name=""), TOGETHER),
        (member(typical=0), TOGETHER),
        (member(typical=None), "the committee does not fit the experts"),
        (member(accuracy=2), TOGETHER),
        (member(evil=1), TOGETHER),
        (lambda h, t: h["committee"]["members"].append("one more"), TOGETHER),
        (lambda h, t: h["experts"].pop(), "the committee does not fit|it holds"),
        (put("n_neighbors", 2), "several experts have one neighbour each"),
        (lambda h, t: t.pop("1.child"), "it holds"),
        (lambda h, t: t.pop("transition"), "it holds"),
        (put_tensor("1.value", lambda a: a[:-1]), "value is float64"),
        (put_tensor("1.threshold", lambda a: a.astype(np.float32)), "threshold is float32"),
        (put_tensor("1.value", lambda a: a * np.nan), "value holds NaN or infinity"),
        (put_tensor("1.child", lambda a: np.where(a > 0, 0.0, a)), "impossible nodes"),
        (put_tensor("1.child", lambda a: a + 1e6), "impossible nodes"),
        (put_tensor("1.roots", lambda a: a - 1), "impossible nodes"),
        (put_tensor("1.feature", lambda a: a + 99), "impossible nodes"),
        (put_tensor("1.value", lambda a: 1 + a), "impossible nodes"),
        (put_tensor("feature_mean", lambda a: a[:-1]), "feature_mean is float64"),
        (put_tensor("feature_mean", lambda a: a + np.inf), "feature_mean holds NaN"),
        (put_tensor("feature_scale", lambda a: -a), "a scale is not positive"),
        (put_tensor("feature_scale", lambda a: a * 0), "a scale is not positive"),
        (put_tensor("transition", lambda a: a[:2]), "transition is float64"),
        (put_tensor("transition", lambda a: a * 2), "no probabilities"),
        (put_tensor("transition", lambda a: a - 2 * a * np.eye(4)), "no probabilities"),
        (put_tensor("transition", lambda a: np.eye(4)), "no probabilities"),
        (put_tensor("transition", lambda a: INFINITE), "transition holds NaN or infinity"),
    ],
)
def test_a_hostile_file_of_a_committee_gets_one_line(auto_model, tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        mlat.load(rewrite(auto_model, tmp_path / "bad.mlat", change))
    assert "\n" not in str(caught.value)
    assert "bad.mlat" in str(caught.value)
