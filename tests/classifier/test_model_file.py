import contextlib
import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import mlat
from mlat import InputError, StreamClassifier
from mlat.synthetic import rotating_states
from model_rewriting import put, put_tensor, rewrite

METRICS = {
    "filter": mlat.MLAT(max_iter=3),
    "admm": mlat.MLAT(solver="admm", max_iter=2, target_gap=5),
    "lmnn": mlat.LMNN(max_iter=3, shrinkage=0.5),
    "euclidean": "euclidean",
}


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
    clf = StreamClassifier(width=6, metric=METRICS[name], n_neighbors=3, step=2).fit(stream)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format", "other"), "safetensors file of something else"),
        (put("version", 99), "format version 99, this mlat reads version 2"),
        (put("version", 1), "format version 1, .*; use the mlat that wrote it, or fit again"),
        (put("width", -3), "width is -3"),
        (put("width", 10**9), "does not fit its width and channels|is damaged"),
        (put("n_windows", 10**12), "is damaged"),
        (put("n_steps", True), "n_steps is True"),
        (put("channels", ["a", "a", "b"]), "channels must be different names"),
        (put("channels", ["a", "b"]), "is damaged"),
        (put("channels", "abc"), "channels must be"),
        (put("classes", ["b", "a", "c", "d"]), "classes must be different states, sorted"),
        (put("classes", ["a", 1, "c", "d"]), "classes must be"),
        (put("metric", {"kind": "Pickle"}), "the metric is of no known kind"),
        (put("metric", {"kind": ["MLAT"]}), "the metric is of no known kind"),
        (put("metric", {"kind": "MLAT"}), "the metric is not described"),
        (put("n_neighbors", 10**6), "it has fewer windows than n_neighbors, 1000000"),
        (put("n_windows", "many"), "n_windows is 'many'"),
        (put("scaled", 3), "fields are missing"),
        (lambda h, t: h.pop("sha256"), "fields are missing"),
        (
            lambda h, t: h["metric"]["parameters"].update(evil=1),
            "no metric that this version knows",
        ),
        (lambda h, t: h["metric"]["fitted"].pop("loss_"), "no metric that this version knows"),
        (lambda h, t: h["metric"]["shapes"].update(taps=[6, 3]), "does not fit its width"),
        (lambda h, t: t.pop("mean"), "it holds"),
        (lambda h, t: t.update(more=np.zeros(3)), "it holds"),
        (put_tensor("mean", lambda a: a.astype(np.float32)), "mean is F32"),
        (put_tensor("mean", lambda a: a[:2]), r"mean is F64 \(2,\), not F64 \(3,\)"),
        (put_tensor("steps", lambda a: a * np.nan), "steps holds NaN or infinity"),
        (put_tensor("start", lambda a: a + 10**6), "out of range"),
        (put_tensor("start", lambda a: a - 10**6), "out of range"),
        (put_tensor("code", lambda a: a + 50), "out of range"),
        (put_tensor("scale", lambda a: a * 0), "out of range"),
    ],
)
def test_a_hostile_file_gets_one_line(model, tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        mlat.load(rewrite(model, tmp_path / "bad.mlat", change))
    assert "\n" not in str(caught.value)
    assert "bad.mlat" in str(caught.value)


def test_a_flipped_bit_anywhere_in_the_arrays_is_noticed(model, tmp_path):
    raw = bytearray(model.read_bytes())
    length = struct.unpack("<Q", raw[:8])[0]
    for place in np.linspace(8 + length, len(raw) - 1, 25).astype(int):
        broken = bytearray(raw)
        broken[place] ^= 1
        (tmp_path / "bad.mlat").write_bytes(broken)
        with pytest.raises(InputError, match="checksum"):
            mlat.load(tmp_path / "bad.mlat")


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
    with pytest.raises(InputError, match="cannot be read"):
        mlat.load(tmp_path / "absent.mlat")
    with pytest.raises(InputError, match=r"cannot be read|not an mlat model"):
        mlat.load(tmp_path)
    clf = mlat.load(model)
    with pytest.raises(InputError, match="there is no folder"):
        clf.save(tmp_path / "no" / "m.mlat")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_old_model(model, tmp_path, monkeypatch):
    target = tmp_path / "m.mlat"
    target.write_bytes(b"the old one")
    clf = mlat.load(model)
    monkeypatch.setattr("mlat.classifier.model_file.serialize", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.save(target)
    assert os.listdir(tmp_path) == ["m.mlat"]
    assert target.read_bytes() == b"the old one"
