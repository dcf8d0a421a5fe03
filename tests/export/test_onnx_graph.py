"""The exported ONNX, in onnxruntime and in onnx's own evaluator: it says what ``predict`` says."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export_models import FRESH, SHAPES, TRAIN, random_models
from mlat import InputError, Stream, StreamClassifier
from mlat.export import PlainModel, write_onnx
from state_streams import lasting

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module", params=SHAPES)
def clf(request):
    return StreamClassifier(**SHAPES[request.param]).fit(TRAIN)


def written(clf, **options):
    return write_onnx(PlainModel.of(clf), **options)


class InOnnxruntime:
    def __init__(self, data):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            data, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = {one.name: one for one in self.session.get_inputs()}
        first = next(iter(self.inputs.values()))
        self.real = np.float64 if "double" in first.type else np.float32

    def __call__(self, **inputs):
        names = [one.name for one in self.session.get_outputs()]
        found = self.session.run(names, {k: v.astype(self.real) for k, v in inputs.items()})
        return dict(zip(names, found, strict=True))

    def stream(self, values):
        """State, distances and probabilities of each step of some streams (T, N, d)."""
        told = []
        N = values.shape[1]
        carried = {
            name: np.zeros((N, *one.shape[1:]))
            for name, one in self.inputs.items()
            if name != "values"
        }
        for row in values:
            out = self(values=row, **carried)
            carried = {name: out["next_" + name] for name in carried}
            told.append([out[name] for name in ("state", "distances", "probabilities")])
        return [np.stack(part) for part in zip(*told, strict=True)]


def states_of(clf, codes):
    return np.array([*clf.classes_.tolist(), clf.unknown_])[codes]


def recordings(values, length, every=5):
    """Overlapping recordings (N, length, d) of a stream."""
    begin = np.arange(0, len(values) - length + 1, every)
    return values[begin[:, None] + np.arange(length)]


def last_of_each(clf, windows):
    """What ``predict`` says of the last step of each recording."""
    n, length, d = windows.shape
    stream = Stream(windows.reshape(-1, d), recordings=np.repeat(np.arange(n), length))
    at = np.arange(length - 1, n * length, length)
    return (
        clf.predict(stream)[at],
        clf.class_distances(stream)[at],
        clf.predict_proba(stream)[at],
    )


def near_ties(clf, distances, bound):
    """Where rounding may decide: of two nearest states, of the limit, of a neighbour to vote."""
    nearest = np.sort(distances, axis=1)
    close = nearest[:, 1] - nearest[:, 0] <= bound * nearest[:, 1]
    limit = clf.confidence_.threshold
    return close | (np.abs(nearest[:, 0] - limit) <= bound * limit)


def assert_only_ties_differ(clf, told, wanted, bound):
    states, distances, proba = wanted
    known = ~np.isnan(distances).any(axis=1)
    np.testing.assert_array_equal(np.isnan(told[1]).any(axis=1), ~known)
    np.testing.assert_allclose(told[1][known], distances[known], rtol=bound, atol=bound)
    differ = states_of(clf, told[0]) != states
    if clf.n_neighbors_ == 1:
        np.testing.assert_allclose(told[2][known], proba[known], atol=20 * bound)
        assert not (differ[known] & ~near_ties(clf, distances[known], bound)).any()
    assert not differ[~known].any()
    assert differ.sum() <= 0.02 * len(differ) + 1


@pytest.mark.parametrize(("bits", "bound"), [(64, 1e-7), (32, 2e-3)])
def test_windows_are_those_of_predict(clf, bits, bound):
    graph = InOnnxruntime(written(clf, bits=bits))
    for length in (clf.width_, clf.width_ + 13, clf.width_ + 60):
        windows = recordings(FRESH.values, length)
        found = graph(windows=windows)
        told = [found[name] for name in ("state", "distances", "probabilities")]
        assert_only_ties_differ(clf, told, last_of_each(clf, windows), bound)


@pytest.mark.parametrize(("bits", "bound"), [(64, 1e-7), (32, 2e-3)])
def test_a_stream_is_that_of_predict(clf, bits, bound):
    values = FRESH.values.copy()
    values[50, 1] = np.nan
    values[100, 0] = np.inf
    told = InOnnxruntime(written(clf, bits=bits, stream=True)).stream(values[:, None])
    clean = np.where(np.isinf(values), np.nan, values)
    wanted = clf.predict(Stream(clean)), clf.class_distances(Stream(clean))
    wanted = (*wanted, clf.predict_proba(Stream(clean)))
    assert_only_ties_differ(clf, [part[:, 0] for part in told], wanted, bound)


def test_windows_that_lack_a_value_or_a_step_have_no_state():
    clf = StreamClassifier(**SHAPES["whitened lift"]).fit(TRAIN)
    graph = InOnnxruntime(written(clf, bits=64))
    w = clf.width_
    windows = recordings(FRESH.values, w + 20)
    windows[:4, 19, 1] = np.nan  # before the window: its lift begins again after it
    windows[4:8, -w, 0] = np.nan
    windows[8:12, -1] = np.nan
    windows[12, 3:7] = -np.inf
    found = graph(windows=windows)
    told = [found[name] for name in ("state", "distances", "probabilities")]
    clean = np.where(np.isinf(windows), np.nan, windows)
    assert_only_ties_differ(clf, told, last_of_each(clf, clean), 1e-7)
    assert (told[0][4:12] == -1).all()
    assert (graph(windows=FRESH.values[None, : w - 1])["state"] == -1).all()


@pytest.mark.parametrize("name", ["mlat", "votes", "committee"])
def test_the_filter_is_that_of_predict(name):
    clf = lasting(StreamClassifier(**SHAPES[name]).fit(TRAIN))
    values = FRESH.values.copy()
    values[70, 2] = np.nan
    told = InOnnxruntime(written(clf, bits=64, stream=True, filtered=True)).stream(values[:, None])
    stream = Stream(values)
    assert states_of(clf, told[0][:, 0]).tolist() == clf.predict(stream, filtered=True).tolist()
    proba = clf.predict_proba(stream, filtered=True)
    np.testing.assert_allclose(told[2][:, 0], proba, atol=1e-6)


def test_missing_values_are_held():
    clf = StreamClassifier().fit(TRAIN)
    values = FRESH.values.copy()
    values[[0, 10, 20, 21, 30, 31, 32, 60], 1] = np.nan
    values[[61, 62, 63], 2] = np.nan
    live = clf.live(search="exact", far=None, dead="off", missing="hold", hold=2)
    told = InOnnxruntime(written(clf, bits=64, stream=True, hold=2)).stream(values[:, None])
    assert states_of(clf, told[0][:, 0]).tolist() == [p.state for p in live.push(values)]


def test_far_is_that_of_a_live_session():
    clf = StreamClassifier(**SHAPES["levels"]).fit(TRAIN)
    values = FRESH.values.copy()
    values[80:90] *= 30
    live = clf.live(search="exact", far=1.5, dead="off")
    wanted = live.push(values)
    told = InOnnxruntime(written(clf, bits=64, stream=True, far=1.5)).stream(values[:, None])
    assert states_of(clf, told[0][:, 0]).tolist() == [p.state for p in wanted]
    assert "far" in {p.why for p in wanted}


def test_streams_side_by_side_do_not_mix():
    clf = StreamClassifier(**SHAPES["whitened lift"]).fit(TRAIN)
    graph = InOnnxruntime(written(clf, bits=64, stream=True))
    values = np.stack([FRESH.values[:80], FRESH.values[60:140], FRESH.values[30:110]], axis=1)
    values[40, 1, 0] = np.nan
    together = graph.stream(values)
    for i in range(3):
        alone = graph.stream(values[:, i : i + 1])
        assert together[0][:, i].tolist() == alone[0][:, 0].tolist()
        np.testing.assert_allclose(together[1][:, i], alone[1][:, 0], rtol=1e-9)


@pytest.mark.parametrize(("bits", "least"), [(16, 0.99), (8, 0.9)])
def test_fewer_bits_are_smaller_and_change_few_states(bits, least):
    clf = StreamClassifier().fit(TRAIN)
    data = written(clf, bits=bits)
    assert len(data) < len(written(clf))
    windows = recordings(FRESH.values, clf.width_ + 30, 1)
    states = states_of(clf, InOnnxruntime(data)(windows=windows)["state"])
    assert (states == last_of_each(clf, windows)[0]).mean() >= least


@given(clf=random_models(), bits=st.sampled_from([64, 32]), seed=st.integers(0, 10**6))
@settings(max_examples=12, deadline=None)
def test_any_model_and_stream(clf, bits, seed):
    rng = np.random.default_rng(seed)
    values = FRESH.values[:60] + rng.normal(size=(60, 3)) * 0.1
    values[rng.integers(0, 60, 2), rng.integers(0, 3)] = np.nan
    bound = 1e-7 if bits == 64 else 5e-3
    stream = Stream(values)
    wanted = clf.predict(stream), clf.class_distances(stream), clf.predict_proba(stream)
    told = InOnnxruntime(written(clf, bits=bits, stream=True)).stream(values[:, None])
    assert_only_ties_differ(clf, [part[:, 0] for part in told], wanted, bound)
    windows = recordings(values, clf.width_ + 8)
    found = InOnnxruntime(written(clf, bits=bits))(windows=windows)
    told = [found[name] for name in ("state", "distances", "probabilities")]
    assert_only_ties_differ(clf, told, last_of_each(clf, windows), bound)


@pytest.mark.parametrize("name", ["votes", "whitened lift", "forest", "committee"])
def test_the_reference_evaluator_says_the_same(name):
    from onnx.reference import ReferenceEvaluator

    clf = StreamClassifier(**SHAPES[name]).fit(TRAIN)
    data = written(clf)
    windows = recordings(FRESH.values, clf.width_ + 13, 10).astype(np.float32)
    names = ["state", "distances", "probabilities"]
    with np.errstate(invalid="ignore"):
        reference = ReferenceEvaluator(data).run(names, {"windows": windows})
    found = InOnnxruntime(data)(windows=windows)
    assert reference[0].tolist() == found["state"].tolist()
    np.testing.assert_allclose(reference[1], found["distances"], rtol=1e-3)
    np.testing.assert_allclose(reference[2], found["probabilities"], atol=1e-3)


def test_the_file_says_what_it_is():
    names = np.where(TRAIN.states == "still", 'a "state"\n', TRAIN.states)
    clf = StreamClassifier(metric="euclidean").fit(Stream(TRAIN.values, names))
    made = onnx.load_from_string(written(clf, stream=True))
    onnx.checker.check_model(made, full_check=True)
    notes = {note.key: note.value for note in made.metadata_props}
    assert json.loads(notes["states"]) == clf.classes_.tolist()
    assert json.loads(notes["channels"]) == list(clf.channels_)
    assert [one.version for one in made.opset_import] == [11]
    operators = {node.op_type for node in made.graph.node}
    assert not operators & {"Loop", "Scan", "If", "Einsum", "Conv"}


def test_what_needs_a_stream_is_refused():
    plain = PlainModel.of(StreamClassifier(metric="euclidean").fit(TRAIN))
    with pytest.raises(InputError, match="the state filter needs the past of a stream"):
        write_onnx(plain, filtered=True)
    with pytest.raises(InputError, match="holding values needs the past of a stream"):
        write_onnx(plain, hold=3)
    with pytest.raises(InputError, match="bits must be one of"):
        write_onnx(plain, bits=7)
