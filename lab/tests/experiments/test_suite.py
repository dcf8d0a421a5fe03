"""The synthetic suite: every kind is what it says, and has switches to test on."""

import numpy as np
import pytest

from mlat import InputError
from mlat_lab.experiments.stream_protocol import SECOND, split_stream
from mlat_lab.experiments.suite import KINDS, STATES, TEST_RUNS, suite_people, synthetic_stream


@pytest.mark.parametrize("name", KINDS)
def test_two_recordings_with_switches_alone(name):
    kind = KINDS[name]
    stream = synthetic_stream(name, 100)
    again = synthetic_stream(name, 100)
    np.testing.assert_array_equal(stream.values, again.values)
    assert not np.array_equal(stream.values, synthetic_stream(name, 101).values)
    assert stream.n_channels == kind.n_channels
    first, second = (stream.recordings == i for i in (0, 1))
    assert first.sum() == kind.runs * len(STATES) * kind.run_length
    assert second.sum() == TEST_RUNS * len(STATES) * kind.run_length
    assert (stream.runs.length == kind.run_length).all(), "no two runs of a state are joined"
    for state in stream.classes:
        assert (stream.states[second] == state).mean() == 1 / len(STATES)
    parts = split_stream(stream, SECOND)
    assert not parts.left_out
    n_switches = 0 if kind.put_on_anew else TEST_RUNS * len(STATES) - 1
    assert parts.delay(parts.test.y).n_switches == n_switches


def by_run(stream, of):
    """A figure of every run, (n_runs, d), and the runs' states."""
    runs = list(stream.runs)
    return np.array([of(stream.values[a:b]) for a, b, _ in runs]), np.array([c for *_, c in runs])


def spread(values, codes):
    """How far states differ, against how far the runs of a state do: an F ratio by channel."""
    means = np.array([values[codes == c].mean(axis=0) for c in np.unique(codes)])
    within = np.mean([values[codes == c].var(axis=0, ddof=1) for c in np.unique(codes)], axis=0)
    return means.var(axis=0, ddof=1) / (within / (len(codes) / len(means)))


@pytest.mark.parametrize(
    ("name", "level", "size"),
    [("level", True, False), ("energy", False, True), ("offset", False, False)],
)
def test_what_tells_and_what_does_not(name, level, size):
    """Over many seeds: states that do not differ have an F ratio of about 1."""
    levels, sizes = [], []
    for seed in range(100, 112):
        stream = synthetic_stream(name, seed)
        levels.append(spread(*by_run(stream, lambda run: run.mean(axis=0))).mean())
        sizes.append(spread(*by_run(stream, lambda run: np.log(run.std(axis=0)))).mean())
    assert (np.median(levels) > 5) == level
    if name != "offset":  # the rhythm has another phase in every run, not another size
        assert (np.median(sizes) > 5) == size


def test_useless_channels_do_not_tell():
    stream = synthetic_stream("useless", 100)
    ratio = spread(*by_run(stream, lambda run: run.mean(axis=0)))
    assert ratio[: KINDS["useless"].n_telling].mean() > 5 * ratio[2:].mean()


def test_drift_goes_on_from_run_to_run():
    plain, drifting = (synthetic_stream(name, 100) for name in ("six runs", "drift"))
    for stream, drifts in ((plain, False), (drifting, True)):
        first = stream.values[: len(STATES) * 100].mean(axis=0)
        last = stream.values[-len(STATES) * 100 :].mean(axis=0)
        assert (np.abs(last - first).mean() > 0.5) == drifts


def test_kinds_as_people():
    people = suite_people(["level"], 3, first_seed=7)
    assert list(people) == ["level"]
    assert people["level"].names == ("7", "8", "9")
    np.testing.assert_array_equal(
        people["level"].load("8").values, synthetic_stream("level", 8).values
    )
    with pytest.raises(InputError, match="no kind of stream 'levels'; there are order, level"):
        suite_people(["levels"])
