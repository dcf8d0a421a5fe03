import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mlat
from mlat import InputError, Lift, Stream
from mlat.features.lifts import FLOOR, MAPS, RUNNING
from naive import naive_lift

ALL = tuple(MAPS)


def steps(seed, n, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * rng.choice([0.1, 1, 3], size=(n, 1))


def whole_steps(seed, n, d=1):
    """Whole numbers: their sums are exact, so a running sum forgets to the last bit."""
    return np.random.default_rng(seed).integers(-50, 50, size=(n, d)).astype(float)


@pytest.mark.parametrize("reach", [1, 2, 7, 50, 400])
@pytest.mark.parametrize("name", ALL)
def test_every_map_is_what_it_says(name, reach):
    values = steps(reach, 130)
    lifted = Lift([name], reach).transform(values)
    # One step does not deviate at all: what is seen is the root of what rounding left, 1e-8.
    near = 1e-8 / FLOOR * 10 if (name, reach) == ("running_deviation", 1) else 1e-9
    np.testing.assert_allclose(lifted, naive_lift(values, name, reach), rtol=1e-9, atol=near)


@settings(max_examples=60)
@given(st.data())
def test_however_a_stream_is_cut_the_result_is_the_same_bit_by_bit(data):
    reach = data.draw(st.integers(1, 12))
    lift = Lift(data.draw(st.lists(st.sampled_from(ALL), min_size=1, unique=True)), reach)
    values = steps(data.draw(st.integers(0, 99)), data.draw(st.integers(0, 60)))
    state, parts, at = lift.start(2), [], 0
    for size in data.draw(st.lists(st.integers(0, 9) | st.sampled_from([0, 1]))):
        state, part = lift.push(state, values[at : at + size])
        parts.append(part)
        at += size
    state, part = lift.push(state, values[at:])
    whole = lift.push(lift.start(2), values)
    np.testing.assert_array_equal(np.concatenate([*parts, part]), whole[1])
    assert state.count == whole[0].count == len(values)
    np.testing.assert_array_equal(state.ring, whole[0].ring)
    np.testing.assert_array_equal(state.sums, whole[0].sums)


def test_pushing_changes_neither_the_state_nor_the_chunk():
    lift = Lift(ALL, 5)
    state, _ = lift.push(lift.start(2), steps(0, 17))
    ring, sums, chunk = state.ring.copy(), state.sums.copy(), steps(1, 9)
    first = lift.push(state, chunk)[1]
    np.testing.assert_array_equal(state.ring, ring)
    np.testing.assert_array_equal(state.sums, sums)
    np.testing.assert_array_equal(chunk, steps(1, 9))
    assert state.count == 17
    np.testing.assert_array_equal(lift.push(state, chunk)[1], first)  # so it can be tried twice


def test_every_segment_is_lifted_on_its_own():
    values = steps(3, 120)
    values[40, 1] = np.nan
    time = np.arange(120) + np.where(np.arange(120) >= 70, 30, 0)
    stream = Stream(values, recordings=np.arange(120) >= 90, time=time)
    lift = Lift(ALL, 20)
    lifted = lift.transform(stream)
    assert np.isnan(lifted[40]).all()
    for start, stop in [(0, 40), (41, 70), (70, 90), (90, 120)]:
        np.testing.assert_array_equal(lifted[start:stop], lift.transform(values[start:stop]))
    assert lifted.shape == (120, lift.n_features(2))


@pytest.mark.parametrize("name", ALL)
def test_the_future_never_changes_the_past(name):
    values = steps(4, 80)
    lifted = Lift([name], 9).transform(values)
    for t in (0, 1, 13, 79):
        changed = values.copy()
        changed[t + 1 :] = 1e6
        np.testing.assert_array_equal(Lift([name], 9).transform(changed)[: t + 1], lifted[: t + 1])


@pytest.mark.parametrize("reach", [1, 2, 5, 12])
@pytest.mark.parametrize("name", ALL)
def test_memory_is_exactly_how_far_back_a_step_counts(name, reach):
    lift = Lift([name], reach)
    values = whole_steps(5, 70)
    lifted = lift.transform(values)
    farthest = 0
    for t in (20, 33, 50):
        changed = values.copy()
        changed[t] += 700
        if (name, reach) == ("running_deviation", 1):  # always nothing
            continue
        moved = np.flatnonzero((lift.transform(changed) != lifted).any(axis=1))
        assert moved.min() == t
        farthest = max(farthest, moved.max() - t)
    assert farthest == lift.memory


def test_memory_of_several_maps_is_the_longest():
    assert Lift(["identity", "difference"], 30).memory == 1
    assert Lift(["low_pass", "difference"], 30).memory == 29
    assert Lift({"running_difference": [0], "low_pass": None}, 30).memory == 30


def test_of_a_stream_shorter_than_the_reach_it_takes_what_there_is():
    values = steps(6, 8)
    np.testing.assert_array_equal(
        Lift(RUNNING, 8).transform(values), Lift(RUNNING, 1000).transform(values)
    )
    assert Lift(ALL, 1000).transform(np.empty((0, 3))).shape == (0, 3 * len(ALL))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1e9])
def test_a_channel_that_stands_still(level):
    lift = Lift(["difference", "low_pass", "running_deviation", "running_difference"], 50)
    lifted = lift.transform(np.full((300, 1), level))
    np.testing.assert_array_equal(lifted[:, [0, 2, 3]], [[0.0, np.log(FLOOR), np.log(FLOOR)]] * 300)
    np.testing.assert_allclose(lifted[:, 1], level, rtol=1e-13)


@pytest.mark.parametrize("outlier", [1e3, 1e9, 1e120, 1e200])
@pytest.mark.parametrize("at", [61, 62, 70, 77])
def test_an_outlier_is_forgotten(outlier, at):
    """Up to rounding after ``memory`` steps; to the last bit after ``2 * reach + 2``.

    Sums are taken anew every ``reach + 1`` steps. The first time that the outlier, and the step
    from it, are not among those summed is at most ``2 * reach + 2`` steps after it. Until then
    it leaves behind what rounding lost of it: eps times its square, in the running squares.
    """
    reach = 15
    lift = Lift(ALL, reach)
    values = steps(7, 200)
    changed = values.copy()
    changed[at] = outlier
    calm, shaken = lift.transform(values), lift.transform(changed)
    healed = at + 2 * reach + 2
    np.testing.assert_array_equal(shaken[healed:], calm[healed:])
    assert np.isfinite(shaken[healed:]).all()
    if outlier == 1e3:  # a thousand deviations: nothing to be seen as soon as it is out of reach
        after = slice(at + lift.memory + 1, None)
        np.testing.assert_allclose(shaken[after], calm[after], atol=1e-6)


def test_a_million_steps_do_not_drift():
    values = np.random.default_rng(8).normal(size=(200_000, 1)) + 3
    lifted = Lift(RUNNING, 50).transform(values)
    tail = Lift(RUNNING, 50).transform(values[-100:])
    np.testing.assert_allclose(lifted[-49:], tail[-49:], rtol=0, atol=1e-11)


def test_maps_of_some_channels():
    values = steps(9, 40, d=4)
    lift = Lift({"running_deviation": [2, 0], "identity": None, "difference": [3]}, 6)
    lifted = lift.transform(values)
    assert lift.n_features(4) == lifted.shape[1] == 7
    assert lift.channels(4).tolist() == [2, 0, 0, 1, 2, 3, 3]
    deviation = Lift(["running_deviation"], 6).transform(values)
    np.testing.assert_array_equal(lifted[:, :2], deviation[:, [2, 0]])
    np.testing.assert_array_equal(lifted[:, 2:6], values)
    np.testing.assert_array_equal(lifted[1:, 6], np.diff(values[:, 3]))
    assert lift.names(list("abcd"))[:3] == ("log deviation of c", "log deviation of a", "a")


def test_names_tell_the_maps_and_channels_apart():
    names = Lift(ALL).names(["left {0}", "right"])
    assert len(set(names)) == 2 * len(ALL)
    assert names[:2] == ("left {0}", "right")
    assert all("left {0}" in name for name in names[::2])
    assert Lift(ALL).channels(2).tolist() == [0, 1] * len(ALL)


@pytest.mark.parametrize(
    ("lift", "values", "message"),
    [
        (Lift("identity"), [[1.0]], "maps must list some of identity, .*, not 'identity'"),
        (Lift([]), [[1.0]], r"maps must list some of identity, .*, not \[\]"),
        (Lift(None), [[1.0]], "maps must list some of identity, .*, not None"),
        (Lift(3), [[1.0]], "maps must list some of identity, .*, not 3"),
        (Lift(["identity", "cube"]), [[1.0]], "maps must name some of identity, .*, not 'cube'"),
        (Lift([["identity"]]), [[1.0]], "maps must name some of"),
        (Lift(["low_pass"], 0), [[1.0]], "reach must be a whole number of at least 1, not 0"),
        (Lift(["low_pass"], -4), [[1.0]], "reach must be .* not -4"),
        (Lift(["low_pass"], 2.5), [[1.0]], r"reach must be .* not 2\.5"),
        (Lift(["low_pass"], True), [[1.0]], "reach must be .* not True"),
        (Lift({"identity": [1]}), [[1.0]], r"identity names channels \[1\], but there are 1"),
        (Lift({"identity": [-1]}), [[1.0]], r"identity names channels \[-1\]"),
        (Lift({"identity": []}), [[1.0]], r"identity names channels \[\]"),
        (Lift({"identity": [0.5]}), [[1.0]], "identity must name its channels by index"),
        (Lift({"identity": ["x"]}), [[1.0]], "identity must name its channels by index"),
        (Lift({"identity": 0}), [[1.0]], "identity must name its channels by index"),
        (Lift({"identity": [10**30]}), [[1.0]], "identity must name its channels by index"),
        (Lift(), [1.0, 2.0], r"steps must have shape \(t, d\), not \(2,\)"),
        (Lift(), [[1.0], [np.nan]], "steps miss values"),
    ],
)
def test_what_cannot_be_lifted_gets_one_line(lift, values, message):
    with pytest.raises(InputError, match=message) as caught:
        lift.transform(values)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=message):
        lift.start(1) if "steps" not in message else lift.push(lift.start(1), values)


def test_a_state_of_other_channels_or_of_another_lift_is_refused():
    state = Lift(["low_pass"], 5).start(2)
    with pytest.raises(InputError, match="the steps have 3 channels, but what is remembered"):
        Lift(["low_pass"], 5).push(state, np.ones((4, 3)))
    with pytest.raises(InputError, match=re.escape("or of another lift; begin with start(2)")):
        Lift(["low_pass"], 6).push(state, np.ones((4, 2)))


def test_it_is_an_estimator():
    lift = Lift({"identity": [0], "low_pass": None}, reach=7)
    copy = clone(lift)
    assert copy is not lift
    assert copy.get_params() == {"maps": {"identity": [0], "low_pass": None}, "reach": 7}
    assert copy.set_params(reach=3).memory == 2
    assert lift.reach == 7
    values = steps(10, 5)
    assert lift.fit(values) is lift
    np.testing.assert_array_equal(
        lift.fit(Stream(values)).transform(values), lift.transform(values)
    )
    with pytest.raises(InputError, match="reach must be"):
        Lift(reach=0).fit()
    assert mlat.Lift is Lift


def test_steps_of_any_number_type():
    values = np.arange(12).reshape(6, 2)
    expected = Lift(ALL, 3).transform(values.astype(float))
    for given_as in (values, values.astype(np.float32), values.tolist(), values.T.copy().T):
        np.testing.assert_array_equal(Lift(ALL, 3).transform(given_as), expected)


@pytest.mark.parametrize("name", RUNNING)
def test_over_one_step_nothing_is_rounded(name):
    values = steps(5, 200) * np.exp(steps(6, 200))
    lifted = Lift([name], reach=1).transform(values)
    wanted = naive_lift(values, name, 1)
    np.testing.assert_allclose(lifted, wanted, rtol=1e-12)
    if name in ("low_pass", "running_deviation"):
        np.testing.assert_array_equal(lifted, wanted)


@pytest.mark.parametrize("spike", [1e7, 1e16, 1e40, 1e99])
@pytest.mark.parametrize("name", RUNNING)
def test_a_spike_leaves_nothing_behind(name, spike):
    values = steps(3, 120)
    lift = Lift([name], reach=20)
    clean = lift.transform(values)
    values[[30, 31, 55], 1] = [spike, -spike, spike / 1e5]
    lifted = lift.transform(values)
    gone = np.ones(len(values), bool)
    for at in (30, 31, 55):
        gone[at : at + lift.memory + 1] = False
    np.testing.assert_allclose(lifted[gone], clean[gone], atol=1e-6)
    # In any chunks.
    state, parts = lift.start(2), []
    for begin in range(0, len(values), 7):
        state, part = lift.push(state, values[begin : begin + 7])
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), lifted)
