"""The exported C without floating point: it says what the same model says in double precision."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiled_c import COMPILER, PUSH, RESET, STRICT, TEACH, Compiled
from export_models import FRESH, SHAPES, TRAIN, random_models
from mlat import InputError, Stream, StreamClassifier
from mlat.export import PlainModel, c_source, onnx_graph, write_c, write_onnx
from mlat.export.arithmetic import WholeNumbers
from mlat.features.lifts import OVERS
from state_streams import lasting

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

SCALED = [name for name in SHAPES if name != "unscaled"]


@pytest.fixture(scope="module", params=SCALED)
def clf(request):
    return StreamClassifier(**SHAPES[request.param]).fit(TRAIN)


def as_stored(clf, bits):
    """The model with all that is stored, and the bounds: what is left is the arithmetic."""
    code = write_c(PlainModel.of(clf), bits=bits, fixed=True)
    return code.stored, code.bounds


def assert_within_the_bound(clf, model, bounds, told, exact):
    states, why, distances, proba = told
    assert why == exact[1]
    known = np.array(why) == ""
    if model.forests:
        assert_few_splits_differ(clf, model, known, told, exact)
        return
    if not clf.committee_.soft:
        ((moved, square),) = bounds
        found = distances * model.experts[0].typical
        allowed = moved + np.minimum(np.sqrt(square), square / np.maximum(exact[2], 1e-12))
        told_to = 2.0**-16 * model.experts[0].typical  # how finely it is told
        assert (np.abs(found - exact[2])[known] <= (allowed + told_to)[known]).all()
        apart = np.sort(exact[2], axis=1)
        tie = apart[:, 1] - apart[:, 0] <= 2 * allowed.max(axis=1)
    else:
        np.testing.assert_allclose(distances[known], exact[2][known], rtol=1e-3, atol=1e-4)
        apart = np.sort(exact[2], axis=1)
        tie = apart[:, 1] - apart[:, 0] <= 2e-3 * apart[:, 1]
    differ = states != exact[0]
    if clf.n_neighbors_ == 1 and not np.isfinite(model.threshold):
        assert not (differ & ~tie).any()
        np.testing.assert_allclose(proba[known], exact[3][known], atol=1e-3)
    assert differ.sum() <= 0.01 * len(differ) + 1


def assert_few_splits_differ(clf, model, known, told, exact):
    """A value as near to a threshold as rounding may fall on its other side."""
    unit = 1.0 if clf.committee_.soft else model.experts[0].typical
    apart = np.abs(told[2] * unit - exact[2])[known]
    assert (apart.max(axis=1) <= 1e-3 * exact[2][known].max(axis=1)).mean() > 0.8
    if not clf.committee_.soft:
        one = model.experts[0]
        assert apart.max() < 3 * np.sqrt(2) / len(one.sizes)  # of so many trees
    assert (told[0] != exact[0]).mean() <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("bits", [16, 8])
def test_only_ties_within_the_bound_differ(clf, bits, tmp_path):
    (tmp_path / "exact").mkdir()
    model, bounds = as_stored(clf, bits)
    exact = Compiled(clf, tmp_path / "exact", model=model, bits=64, flags=STRICT)
    whole = Compiled(clf, tmp_path, bits=bits, fixed=True)
    told, wanted = whole.push(FRESH.values), exact.push(FRESH.values)
    assert_within_the_bound(clf, model, bounds, told, wanted)
    assert whole.code.rounding < (0.5 if bits == 16 else 1.0)
    assert (told[0] == clf.predict(FRESH)).mean() >= (0.99 if bits == 16 else 0.85)


@given(clf=random_models(), bits=st.sampled_from([16, 8]), seed=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_any_model_and_stream(tmp_path_factory, clf, bits, seed):
    folder = tmp_path_factory.mktemp("any")
    (folder / "exact").mkdir()
    rng = np.random.default_rng(seed)
    values = FRESH.values[:60] + rng.normal(size=(60, 3)) * 0.1
    values[rng.integers(0, 60, 2), rng.integers(0, 3)] = np.nan
    model, bounds = as_stored(clf, bits)
    exact = Compiled(clf, folder / "exact", model=model, bits=64, flags=STRICT).push(values)
    told = Compiled(clf, folder, bits=bits, fixed=True).push(values)
    assert_within_the_bound(clf, model, bounds, told, exact)


def test_going_on_from_the_step_before_is_bit_for_bit_the_same(tmp_path):
    clf = StreamClassifier(**SHAPES["levels"]).fit(TRAIN)
    values = FRESH.values.copy()
    values[[20, 21, 90], 1] = np.nan
    values[60, 0] = 300.0  # a wild one, which leaves nothing behind
    told = []
    for incremental in (False, True):
        (tmp_path / str(incremental)).mkdir()
        compiled = Compiled(
            clf, tmp_path / str(incremental), bits=16, fixed=True,
            incremental=incremental,
        )  # fmt: skip
        told.append(compiled.push(values))
    assert "#define MLAT_SUMS 0" not in compiled.code.header
    for anew, going_on in zip(*told, strict=True):
        np.testing.assert_array_equal(anew, going_on)


@pytest.mark.parametrize("name", ["mlat", "votes", "committee"])
def test_the_filter_is_that_of_predict(name, tmp_path):
    clf = lasting(StreamClassifier(**SHAPES[name]).fit(TRAIN))
    values = FRESH.values.copy()
    values[[60, 61, 100], 1] = np.nan
    told = Compiled(clf, tmp_path, bits=16, fixed=True, filtered=True).push(values)
    stream = Stream(values)
    proba = clf.predict_proba(stream, filtered=True)
    known = ~np.isnan(proba).any(axis=1)
    apart = np.abs(told[3][known] - proba[known]).max(axis=1)
    forests = PlainModel.of(clf).forests
    assert apart.max() < (0.05 if forests else 2e-3)
    assert (apart < 2e-3).mean() > 0.8
    assert (told[0] == clf.predict(stream, filtered=True)).mean() >= 0.99


def test_it_is_taught_as_a_live_session(tmp_path):
    clf = StreamClassifier(width=5, reach=6).fit(TRAIN)
    options = {"far": 1.2, "dead": True, "hold": 2, "spare": 3, "new_states": 1}
    compiled = Compiled(clf, tmp_path, bits=16, fixed=True, **options)
    values = FRESH.values.copy()
    values[[30, 31, 32, 33], 1] = np.nan
    values[60:80, 0] = values[60, 0]
    values[100:104] *= 12
    live = clf.live(search="exact", far=1.2, dead="auto", missing="hold", hold=2, max_taught=3)
    names = [*clf.classes_.tolist(), "new"]
    examples = {20: 2, 45: 4, 50: 4, 110: 0, 130: 4}
    rows, wanted = [], []
    for t, row in enumerate(values):
        if t == 90:
            rows.append([RESET, 0, 0, 0])
        rows.append([PUSH, *row])
        wanted += live.push(row[None], seq=[t + (t >= 90)])
        if t in examples:
            live.teach(names[examples[t]])
            rows.append([TEACH + examples[t], 0, 0, 0])
    states, why, _, proba = compiled.run(rows, names)
    assert why == [p.why.split(" ")[0] for p in wanted]
    assert {"filling", "missing", "gap", "far", "dead"} <= set(why)
    assert (states == [p.state for p in wanted]).mean() > 0.99
    for found, prediction in zip(proba, wanted, strict=True):
        of = prediction.probabilities
        np.testing.assert_allclose(found[: len(of)], of, atol=0.05)  # a split may go the other way


def test_no_floating_point_is_left(tmp_path):
    code = write_c(
        PlainModel.of(StreamClassifier().fit(TRAIN)),
        bits=8, fixed=True, filtered=True, dead=True, far=2.0, spare=2, new_states=1,
    )  # fmt: skip
    text = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", "".join(code.files().values()), flags=re.DOTALL)
    assert not re.search(r"\b(float|double|math\.h|sqrt|log|exp)\b|\d\.\d|\d+f\b", text)
    for name, content in code.files().items():
        (tmp_path / name).write_text(content)
    # The compiler refuses floating point, and the linker has no library of mathematics.
    flags = [*STRICT, "-mgeneral-regs-only", "-c"]
    subprocess.run([COMPILER, *flags, "mlat.c", "-o", "mlat.o"], cwd=tmp_path, check=True)
    if shutil.which("nm"):
        done = subprocess.run(
            ["nm", "-u", "mlat.o"], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert set(done.stdout.split()) - {"U"} <= {"memset", "memcpy", "__stack_chk_fail"}


def test_wild_values_do_not_overflow(tmp_path):
    clf = StreamClassifier().fit(TRAIN)
    compiled = Compiled(clf, tmp_path, bits=16, fixed=True, filtered=True, spare=1)
    rng = np.random.default_rng(0)
    bits = WholeNumbers(PlainModel.of(clf), 16, 48, short_squares=False).input_bits
    whole = rng.integers(-(2**31), 2**31, (300, 3))
    whole[100:200] = rng.choice([-(2**31) + 1, 2**31 - 1, 0], (100, 3))
    whole[200:] = 2.0 ** rng.uniform(0, 31, (100, 3)) * rng.choice([-1, 1], (100, 3))
    _, why, _, proba = compiled.push(np.ldexp(whole.astype(float), -bits))
    assert set(why) <= {"", "filling", "missing"}
    assert (proba[np.array(why) == ""].sum(axis=1) > 0.99).all()


def test_on_arm_it_tells_the_same_bit_for_bit(tmp_path):
    compiler, emulator = shutil.which("arm-linux-gnueabihf-gcc"), shutil.which("qemu-arm")
    if compiler is None or emulator is None:
        pytest.skip("no compiler for ARM or no emulator of it (gcc-arm-linux-gnueabihf, qemu-user)")
    (tmp_path / "arm").mkdir()
    clf = StreamClassifier().fit(TRAIN)
    options = {"bits": 8, "fixed": True, "filtered": True}
    arm = Compiled(
        clf, tmp_path / "arm", flags=(*STRICT, "-static"), compiler=compiler, under=[emulator],
        **options,
    )  # fmt: skip
    there, here = arm.push(FRESH.values), Compiled(clf, tmp_path, **options).push(FRESH.values)
    for told, own in zip(there, here, strict=True):
        np.testing.assert_array_equal(told, own)


def test_what_whole_numbers_cannot_hold_is_refused():
    unscaled = StreamClassifier(metric="euclidean", scale=False).fit(TRAIN)
    with pytest.raises(InputError, match="channels that were scaled"):
        write_c(PlainModel.of(unscaled), bits=8, fixed=True)
    clf = StreamClassifier(metric="euclidean").fit(TRAIN)
    with pytest.raises(InputError, match="stored in 16 or 8 bits"):
        write_c(PlainModel.of(clf), bits=32, fixed=True)
    level = Stream(TRAIN.values * 1e-3 + 1e6, TRAIN.states)
    with pytest.raises(InputError, match="varies too little beside its level"):
        write_c(PlainModel.of(StreamClassifier(metric="euclidean").fit(level)), bits=8, fixed=True)


def test_what_c_and_onnx_do_not_know_is_refused_by_its_name(monkeypatch):
    model = PlainModel.of(StreamClassifier(**SHAPES["levels"]).fit(TRAIN))
    lift = model.lift._replace(overs=np.full_like(model.lift.overs, len(OVERS)))
    pytest.importorskip("onnx")
    for module, write, named in ((c_source, write_c, "the C"), (onnx_graph, write_onnx, "ONNX")):
        monkeypatch.setattr(module, "OVERS", (*OVERS, "maximum"))
        with pytest.raises(InputError, match=f"{named} knows no maximum of a channel yet"):
            write(replace(model, lift=lift))
