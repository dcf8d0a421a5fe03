"""Simulated labelling: the annotator, the judge, the strategies."""

import numpy as np
import pytest

from mlat import InputError, Stream
from mlat_lab.experiments.active_learning import (
    GOAL,
    LASTING,
    OURS,
    STRATEGIES,
    UNIFORM,
    Curve,
    Simulation,
    _half_turned,
    balanced,
)


def recording(rare=60, seed=0):
    rng = np.random.default_rng(seed)
    lengths = [600, 60, 500, rare, 700, 80, 600]
    states = ["rest", "walk", "rest", "fall", "rest", "walk", "rest"]
    level = {"rest": 0.0, "walk": 3.0, "fall": 7.0}
    steps = np.repeat(states, lengths)
    values = np.array([level[s] for s in steps])[:, None] + rng.normal(size=(len(steps), 2))
    return Stream(values, steps, channels=["a", "b"])


@pytest.fixture(scope="module")
def simulation():
    return Simulation(recording())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_rest_is_judged_by_the_nearest_answered_window(simulation, strategy):
    """The slow way: after the last answer, each window of the rest by all answered ones."""
    curve, answered = simulation._ask(strategy, 0, 0.3)
    queries, truth = simulation.queries, simulation.truth
    known = answered[queries.ends] & (truth >= 0)
    rest = ~answered[queries.ends] & (truth >= 0)
    slow = np.linalg.norm(queries.features[rest][:, None] - queries.features[known], axis=2)
    expected = balanced(truth[known][slow.argmin(axis=1)], truth[rest])
    assert curve.accuracy[-1] == pytest.approx(expected)
    assert curve.steps[-1] == answered.sum()
    assert (np.diff(curve.steps) > 0).all()
    again, _ = simulation._ask(strategy, 0, 0.3)
    assert again.accuracy == curve.accuracy


def test_ours_finds_rare_states_before_random_does(simulation):
    ours = simulation.reached(simulation.run(OURS))[0]
    random = [simulation.reached(simulation.run("random", seed))[0] for seed in range(5)]
    assert ours < 0.7 * np.mean(random)


def test_uniform_spans_halve_the_gaps(simulation):
    assert [_half_turned(k) for k in (1, 2, 3, 4)] == [0.5, 0.25, 0.75, 0.125]
    _, answered = simulation._ask(UNIFORM, 0, 0.1)
    gaps = np.diff(np.flatnonzero(answered))
    assert gaps.max() < len(answered) / 4


def test_the_goal_must_last(simulation):
    goal = GOAL * simulation.all_labels
    curve = Curve()
    curve.accuracy = [0.0, goal + 0.01, 0.0, 0.0, goal, goal, goal + 0.001]
    curve.steps = [30, 60, 90, 120, 150, 180, 210]
    assert simulation.reached(curve) == (150.0, 5.0)
    curve.accuracy = [0.0] * (LASTING + 1)
    assert simulation.reached(curve)[0] == len(simulation.stream)


def test_curves_on_their_grids():
    curve = Curve()
    curve.steps, curve.accuracy = [10, 20, 40], [0.2, 0.5, 0.6]
    shares = curve.by_share(1000)
    assert shares[:4] == [0.2, 0.5, 0.5, 0.6]
    assert np.isnan(shares[4:]).all()
    assert curve.by_spans()[:3] == [0.2, 0.5, 0.6]


def test_a_recording_of_one_state_is_refused():
    stream = recording()
    with pytest.raises(InputError, match="fewer than two states"):
        Simulation(stream.with_states(["rest"] * len(stream)))
