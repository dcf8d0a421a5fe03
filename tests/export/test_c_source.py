"""The exported C, compiled and run: it says what ``predict`` says."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiled_c import (
    COMPILER,
    PUSH,
    RESET,
    STRICT,
    TEACH,
    Compiled,
)
from export_models import FRESH, SHAPES, TRAIN
from mlat import InputError, Stream, StreamClassifier, load
from mlat.base.checksummed import pack, unpack
from mlat.export import PlainModel, write_c
from mlat.export.c_source import c_string
from mlat.export.tables import quantised
from mlat.metric import Forest
from state_streams import lasting

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="module", params=SHAPES)
def clf(request):
    return StreamClassifier(**SHAPES[request.param]).fit(TRAIN)


def near_ties(clf, values, bound):
    """Where the two nearest states are within a bound of each other, relative to the distances."""
    nearest = np.sort(clf.class_distances(Stream(values)), axis=1)
    return nearest[:, 1] - nearest[:, 0] <= bound * nearest[:, 1]


def assert_same(clf, told, values, *, filtered=False, rtol=1e-9):
    states, _, distances, proba = told
    stream = Stream(values)
    known = ~np.isnan(clf.class_distances(stream)).any(axis=1)
    np.testing.assert_allclose(distances[known], clf.class_distances(stream)[known], rtol, 1e-6)
    wanted = clf.predict_proba(stream, filtered=filtered)[known]
    np.testing.assert_allclose(proba[known], wanted, rtol=1e-5, atol=1e-5)
    assert states.tolist() == clf.predict(stream, filtered=filtered).tolist()


def test_in_double_precision_it_is_predict(clf, tmp_path):
    told = Compiled(clf, tmp_path, bits=64).push(FRESH.values)
    assert_same(clf, told, FRESH.values)


@pytest.mark.parametrize("name", ["mlat", "votes", "committee"])
def test_the_filter_is_that_of_predict(name, tmp_path):
    clf = lasting(StreamClassifier(**SHAPES[name]).fit(TRAIN))
    values = FRESH.values.copy()
    values[[60, 61, 100], 1] = np.nan
    told = Compiled(clf, tmp_path, bits=64, filtered=True).push(values)
    assert_same(clf, told, values, filtered=True)


def test_in_single_precision_only_ties_differ(clf, tmp_path):
    states, _, distances, _ = Compiled(clf, tmp_path).push(FRESH.values)
    wanted = clf.predict(FRESH)
    differ = states != wanted
    if clf.n_neighbors_ == 1 and not clf.unknown_rate:
        assert not (differ & ~near_ties(clf, FRESH.values, 1e-3)).any()
    assert differ.mean() < 0.02
    known = ~np.isnan(clf.class_distances(FRESH)).any(axis=1)
    np.testing.assert_allclose(distances[known], clf.class_distances(FRESH)[known], rtol=5e-3)


@pytest.mark.parametrize(("bits", "least"), [(16, 0.99), (8, 0.9)])
def test_fewer_bits_change_few_states(bits, least, tmp_path):
    clf = StreamClassifier().fit(TRAIN)
    small = Compiled(clf, tmp_path, bits=bits)
    states = small.push(FRESH.values)[0]
    assert (states == clf.predict(FRESH)).mean() >= least
    whole = write_c(PlainModel.of(clf))
    assert small.code.flash < whole.flash


def test_quantised_steps_are_within_half_a_unit():
    steps = np.random.default_rng(0).normal(size=(50, 4)) * [1, 1e-3, 100, 0]
    for bits in (8, 16):
        stored, unit = quantised(steps, bits)
        assert (np.abs(stored * unit - steps) <= 0.5001 * unit).all()
        assert (stored == np.rint(stored)).all()


COMMITTEE = StreamClassifier(width=5, reach=6).fit(TRAIN)


POLICIES = {
    "far": 1.2, "dead": True, "hold": 2, "spare": 3, "new_states": 2, "filtered": True,
    "incremental": True,
}  # fmt: skip


@pytest.fixture(scope="module", params=[{}, POLICIES], ids=["plain", "all policies"])
def teachable(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachable")
    options = {"bits": 64, "spare": 3, **request.param}
    return Compiled(COMMITTEE, folder, **options), request.param


@given(
    seed=st.integers(0, 10**6),
    missing=st.lists(st.integers(0, 79), max_size=6),
    gaps=st.lists(st.integers(1, 79), max_size=2),
    examples=st.lists(st.tuples(st.integers(10, 79), st.integers(0, 5)), max_size=5),
    still=st.integers(0, 79),
    wild=st.integers(0, 79),
)
@settings(max_examples=25, deadline=None)
def test_it_is_a_live_session(teachable, seed, missing, gaps, examples, still, wild):
    compiled, policies = teachable
    rng = np.random.default_rng(seed)
    values = FRESH.values[:80] + rng.normal(size=(80, 3)) * 0.1
    values[missing, rng.integers(0, 3)] = np.nan
    values[still : still + 30, 1] = values[still, 1]  # dead, if it stays so for long
    values[wild : wild + 4, 0] *= 20  # far
    live = COMMITTEE.live(
        search="exact",
        far=policies.get("far"),
        dead="auto" if policies.get("dead") else "off",
        max_taught=3,
        missing="hold" if policies.get("hold") else "abstain",
        hold=policies.get("hold", 1),
        filtered=policies.get("filtered", False),
    )
    names = [*COMMITTEE.classes_.tolist(), "new 1", "new 2"]
    rows, wanted, seq = [], [], 0
    for t, row in enumerate(values):
        if t in gaps:
            rows.append([RESET, 0, 0, 0])
            seq += 1
        rows.append([PUSH, *row])
        wanted += live.push(row[None], seq=[seq])
        seq += 1
        for at, state in examples:
            n_told = len(live.classes)
            most = n_told if policies.get("new_states") else 3
            if at == t and wanted[-1].probabilities and state <= min(most, 5):
                live.teach(names[state], 1)
                rows.append([TEACH + state, 0, 0, 0])
    states, why, _, proba = compiled.run(rows, names)
    assert why == [p.why.split(" ")[0] for p in wanted]
    assert states.tolist() == [p.state for p in wanted]
    for found, prediction in zip(proba, wanted, strict=True):
        of = prediction.probabilities
        np.testing.assert_allclose(found[: len(of)], of, atol=1e-5)


def broken_stream():
    """Missing values, and one that is wildly wrong, long before the end."""
    values = FRESH.values.copy()
    values[[20, 21, 90], 1] = np.nan
    values[60, 0] = 1e9
    return values


@pytest.mark.slow
@pytest.mark.parametrize("name", ["euclidean", "votes", "one tap", "levels"])
@pytest.mark.parametrize("bits", [64, 32])
def test_going_on_from_the_step_before_changes_nothing(name, bits, tmp_path):
    clf = StreamClassifier(**SHAPES[name]).fit(TRAIN)
    told = []
    for incremental in (False, True):
        (tmp_path / str(incremental)).mkdir()
        compiled = Compiled(clf, tmp_path / str(incremental), bits=bits, incremental=incremental)
        told.append(compiled.push(broken_stream()))
    assert "#define MLAT_SUMS 0" not in compiled.code.header
    assert told[0][1] == told[1][1]
    close = 1e-9 if bits == 64 else 2e-3
    np.testing.assert_allclose(told[1][2], told[0][2], rtol=close, atol=close)
    differ = told[0][0] != told[1][0]
    assert not (differ & ~near_ties(clf, broken_stream(), 1e-9 if bits == 64 else 1e-3)).any()


def test_sums_cost_ram_and_save_products():
    plain = PlainModel.of(StreamClassifier(**SHAPES["levels"]).fit(TRAIN))
    anew, going_on = (write_c(plain, incremental=one) for one in (False, True))
    assert going_on.ram > anew.ram
    assert going_on.work.products < anew.work.products
    assert going_on.flash == anew.flash


def test_examples_of_states_that_cannot_be_are_refused(tmp_path):
    compiled = Compiled(COMMITTEE, tmp_path, spare=2, new_states=1)
    steps = [[PUSH, *row] for row in FRESH.values[:20]]
    compiled.run([*steps, [TEACH + 4, 0, 0, 0]])
    for examples in ([TEACH + 5], [TEACH + 4, TEACH + 5]):
        with pytest.raises(subprocess.CalledProcessError):
            compiled.run([*steps, *([example, 0, 0, 0] for example in examples)])
    with pytest.raises(InputError, match="at least as many spare references"):
        write_c(PlainModel.of(COMMITTEE), new_states=1)


def test_missing_values_are_held(tmp_path):
    held = Compiled(COMMITTEE, tmp_path, bits=64, hold=2)
    values = FRESH.values.copy()
    values[[10, 20, 21, 30, 31, 32], 1] = np.nan
    live = COMMITTEE.live(search="exact", far=None, dead="off", missing="hold", hold=2)
    wanted = live.push(values)
    states, why, _, _ = held.push(values)
    assert states.tolist() == [p.state for p in wanted]
    assert why == [p.why for p in wanted]


def test_values_that_are_no_numbers_are_missing(tmp_path):
    compiled = Compiled(COMMITTEE, tmp_path)
    values = FRESH.values.copy()
    for i, bad in enumerate([np.inf, -np.inf, np.nan, 1e30, -1e300]):
        values[40 + 20 * i, i % 3] = bad
    states, why, distances, _ = compiled.push(values)
    for i in range(5):
        assert why[40 + 20 * i] == "missing"
        assert states[40 + 20 * i] == ""
    assert np.isfinite(distances).all()


def test_it_is_cplusplus_too(tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    clf = StreamClassifier(**SHAPES["votes"]).fit(TRAIN)
    flags = ("-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror")
    told = Compiled(clf, tmp_path, bits=64, flags=flags, compiler=compiler).push(FRESH.values)
    assert told[0].tolist() == clf.predict(FRESH).tolist()


def test_on_arm_it_tells_the_same(tmp_path):
    compiler, emulator = shutil.which("arm-linux-gnueabihf-gcc"), shutil.which("qemu-arm")
    if compiler is None or emulator is None:
        pytest.skip("no compiler for ARM or no emulator of it (gcc-arm-linux-gnueabihf, qemu-user)")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    clf = StreamClassifier().fit(TRAIN)
    arm = Compiled(
        clf, there, flags=(*STRICT, "-static"), compiler=compiler, under=[emulator], bits=8, spare=2
    )
    states, why, distances, _ = arm.push(FRESH.values)
    own = Compiled(clf, here, bits=8, spare=2).push(FRESH.values)
    assert (states == own[0]).mean() > 0.99  # logarithms may differ in their last bit
    assert why == own[1]
    np.testing.assert_allclose(distances, own[2], rtol=1e-3)


@pytest.mark.parametrize("name", ['"; system("x"); //', "a\\", "*/", "??/", "\u00fc\u4e2d", "%s\n"])
def test_names_cannot_break_out(name, tmp_path):
    states = np.where(TRAIN.states == "still", name, TRAIN.states)
    clf = StreamClassifier(metric="euclidean").fit(Stream(TRAIN.values, states))
    told = Compiled(clf, tmp_path, bits=64).push(FRESH.values)
    assert told[0].tolist() == clf.predict(FRESH).tolist()


@given(st.text(max_size=20))
def test_strings_are_ascii_and_closed(text):
    written = c_string(text)
    assert written.isascii()
    assert written[0] == written[-1] == '"'
    assert '"' not in written[1:-1]
    assert written[1:-1].encode().decode("unicode_escape").encode("latin-1").decode() == text


def test_numbers_that_no_stream_leads_to_are_refused(tmp_path):
    file = tmp_path / "model.mlat"
    StreamClassifier(**SHAPES["levels"]).fit(TRAIN).save(file)
    found = unpack(file.read_bytes(), "no model")
    wild = {"0.taps": 1e-20, "0.mixing": 1e200, "scale": 1e200}
    for name, factor in wild.items():
        forged = {**found.arrays, name: found.arrays[name] * factor}
        file.write_bytes(pack(found.header, forged))
        with np.errstate(all="ignore"), pytest.raises(InputError, match="of the model is"):
            PlainModel.of(load(file))


def test_a_metric_of_zeros_is_exported_in_every_size(tmp_path):
    plain = PlainModel.of(COMMITTEE)
    none = tuple(replace(one, metric=np.zeros_like(one.metric)) for one in plain.matrices)
    for bits in (8, 16, 32, 64):
        write_c(replace(plain, experts=none), bits=bits)


def test_trees_of_one_leaf_are_exported_and_trees_over_whitened_features_refused(tmp_path):
    few = StreamClassifier(2, metric=Forest(5, min_samples_leaf=150)).fit(TRAIN)
    assert (
        0
        in np.diff(np.append(few.experts_[0].metric.roots_, len(few.experts_[0].metric.child_))) - 1
    )
    told = Compiled(few, tmp_path, bits=64).push(FRESH.values)
    assert_same(few, told, FRESH.values)
    whitened = StreamClassifier(2, metric=Forest(5), whiten=True).fit(TRAIN)
    with pytest.raises(InputError, match="whitened features cannot be exported"):
        PlainModel.of(whitened)


def test_its_size_is_told(tmp_path):
    compiled = Compiled(COMMITTEE, tmp_path, spare=2, flags=STRICT)
    said = subprocess.run(["size", tmp_path / "program"], capture_output=True, text=True)
    if said.returncode == 0:
        text, data, bss = map(int, said.stdout.splitlines()[1].split()[:3])
        assert compiled.code.flash < text + data < compiled.code.flash + 20_000
        assert compiled.code.ram <= bss < compiled.code.ram + 200


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
def test_far_beyond_training_states_differ_in_ties_alone(scale, tmp_path):
    """Single precision cannot tell states apart there; with ``far`` they are unknown."""
    clf = StreamClassifier(**SHAPES["mlat"]).fit(TRAIN)
    values = FRESH.values[:60] * scale
    states, why, distances, _ = Compiled(clf, tmp_path, bits=32).push(values)
    wanted, exact = clf.predict(Stream(values)), clf.class_distances(Stream(values))
    known = ~np.isnan(exact).any(axis=1)
    np.testing.assert_allclose(distances[known], exact[known], rtol=1e-6)
    assert (near_ties(clf, values, 1e-6) | (states == wanted))[known].all()
    states, why, *_ = Compiled(clf, tmp_path, bits=32, far=3.0).push(values)
    assert {*states[known].tolist()} == {""}
    assert {*why[known.nonzero()[0][0] :]} == {"far"}
