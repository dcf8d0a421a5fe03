"""Figures against those computed directly."""

import numpy as np
import pytest
from scipy import stats

from imitations import compute, experiment, scored
from mlat_lab.experiments.experiment import ALL, FEW
from mlat_lab.reports.statistics import (
    Scores,
    bootstrap,
    cliques,
    common_runs,
    critical_difference,
    holm,
    left_out,
)


def test_figures_are_the_mean_over_people_of_the_mean_over_runs():
    a, b = ("x", FEW), ("x", ALL)
    scores = Scores(
        scored({
            ("s", "1"): {a: [10, 20], b: [30, 50]},
            ("s", "2"): {a: [40, 40], b: [40, 50]},
            ("t", "1"): {a: [0, 0], b: [1, 1]},
        }),
        "holdout",
    )  # fmt: skip
    figure = scores.figure(a, "s")
    assert figure.mean == pytest.approx(27.5)
    assert figure.deviation == pytest.approx(np.sqrt((np.var([10, 20], ddof=1) + 0) / 2))
    assert 15 <= figure.low < figure.mean < figure.high <= 40
    assert figure.n_people == 2
    assert scores.figure(a, "t").low is None
    assert scores.gain("x", FEW, ALL, "s").mean == pytest.approx(((20 + 30) / 2 + 5) / 2)
    without = Scores(scored({("s", "1"): {a: [10]}, ("s", "2"): {a: [40]}}), "holdout", {"s": "1"})
    assert without.groups == [("s", "2")]
    assert without.figure(a, "s").deviation is None


def test_the_bootstrap_is_seeded_and_covers():
    rng = np.random.default_rng(0)
    samples = rng.normal(50, 10, size=(200, 15))
    inside = [low < 50 < high for low, high in map(bootstrap, samples)]
    assert np.mean(inside) > 0.85
    assert bootstrap(samples[0]) == bootstrap(samples[0])


def test_ranks_tests_and_wins():
    rng = np.random.default_rng(1)
    names = [("a", ALL), ("b", ALL), ("c", ALL)]
    accuracy = {("s", str(i)): {n: [rng.normal(50 + 3 * j)] for j, n in enumerate(names)}
                for i in range(20)}  # fmt: skip
    accuracy["s", "tie"] = {names[0]: [5], names[1]: [7], names[2]: [7]}
    scores = Scores(scored(accuracy), "holdout")
    values = np.array([[by[n][0] for n in names] for by in accuracy.values()])
    expected = stats.rankdata(-values, axis=1).mean(axis=0)
    np.testing.assert_allclose(scores.ranks(names), expected)
    first, second = scores.compare(names[2], names[:2])
    assert first.p == pytest.approx(stats.wilcoxon(values[:, 2] - values[:, 0]).pvalue)
    assert first.difference == pytest.approx((values[:, 2] - values[:, 0]).mean())
    assert (second.wins, second.losses, second.ties) == (
        int((values[:, 2] > values[:, 1]).sum()),
        int((values[:, 2] < values[:, 1]).sum()),
        1,
    )
    same = Scores(scored({("s", "1"): {n: [5] for n in names}}), "holdout")
    assert same.compare(names[0], names[1:])[0].p == 1.0


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_the_critical_difference_is_demsars():
    # Demšar (2006): q is 2.569 for four systems, 2.850 for six.
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)
    assert critical_difference(6, 30) == pytest.approx(2.850 * np.sqrt(42 / 180), abs=1e-3)


def test_cliques_are_maximal():
    assert cliques([1.0, 1.4, 2.0, 4.0], 1.0) == [(0, 2)]
    assert cliques([1.0, 2.0, 3.0, 4.0], 1.5) == [(0, 1), (1, 2), (2, 3)]
    assert cliques([4.0, 1.0, 2.5], 0.5) == []


def runs_of(accuracy):
    """Results from {(set, person): {system: accuracies of the runs}}."""
    return scored({g: {(n, ALL): v for n, v in by.items()} for g, by in accuracy.items()})


def test_runs_that_all_have():
    a, b = ("s", "1"), ("s", "2")
    whole = runs_of({a: {"x": [1, 2, 3], "y": [1, 2]}, b: {"x": [1, 2, 3], "y": [1, 2, 3]}})
    kept, n_runs = common_runs(whole)
    assert n_runs == 2
    assert kept == [r for r in whole if r["run"] < 2]
    # Who lacks somebody does not hold the others up, and is kept where it has as many runs.
    partly = runs_of({a: {"x": [1, 2], "y": [1]}, b: {"x": [1, 2]}, ("t", "1"): {
        "x": [1, 2], "y": [1, 2]}})  # fmt: skip
    kept, n_runs = common_runs(partly)
    assert n_runs == 2
    assert [(r["data_set"], r["run"]) for r in kept if r["system"] == "y"] == [("t", 0), ("t", 1)]
    # A first run that is missing is a hole, not a run less.
    holed = [r for r in whole if (r["system"], r["person"], r["run"]) != ("y", "1", 0)]
    kept, n_runs = common_runs(holed)
    assert n_runs == 3
    assert {r["person"] for r in kept if r["system"] == "y"} == {"2"}
    assert common_runs([]) == ([], 1)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return compute(experiment(), folder)[0], folder


def test_labels_left_out_are_reported(computed):
    results = [{**r, "left_out": {"odd": "no test windows"}} for r in computed[0]]
    rows = left_out(results)
    assert {(row["label"], row["why"], row["runs"]) for row in rows} == {
        ("odd", "no test windows", 2)
    }
    assert len(rows) == 4 * 2


def test_a_label_that_was_never_recorded_is_left_out_too(computed):
    results = []
    for r in computed[0]:
        total = {k: v for k, v in r["total"].items() if (r["person"], k) != ("p1", "still")}
        results.append({**r, "total": total})
    rows = left_out(results)
    assert {(row["person"], row["label"], row["why"], row["runs"]) for row in rows} == {
        ("p1", "still", "no recording", 2)
    }
