"""The report of the synthetic suite, from results made by hand and from a small run."""

import json
from dataclasses import replace

import pytest

from imitations import run_all, table_below
from mlat_lab.experiments.experiment import ALL, Experiment
from mlat_lab.experiments.suite import suite_people
from mlat_lab.experiments.systems import (
    AUTO,
    AUTO_FILTERED,
    ED_FILTERED,
    FOREST,
    LINEAR,
    suite_systems,
)
from mlat_lab.reports.page import write_report
from mlat_lab.reports.synthetic import synthetic_report


def results_of(system, accuracies, **more):
    return [
        {
            "data_set": "level", "person": str(seed), "run": 0, "protocol": "second",
            "system": system, "size": ALL, "accuracy": float(accuracy), "n_train": 9, "n_test": 9,
            "left_out": {}, "fit_seconds": 1.0, "predict_seconds": 0.0,
            **{name: values[seed] for name, values in more.items()},
        }
        for seed, accuracy in enumerate(accuracies)
    ]  # fmt: skip


@pytest.fixture
def results():
    experts = [{"one": 50.0, "two": 70.0}, {"one": 60.0}, {"one": 55.0}]
    return [
        *results_of("ED", [50, 60, 70]),
        *results_of("MLAT", [40, 50, 60]),
        *results_of(FOREST, [70, 80, 81]),
        *results_of(LINEAR, [30, 40, 50]),
        *results_of(ED_FILTERED, [50, 60, 70]),
        *results_of(AUTO, [60, 70, 80], experts=experts, expected=[65.0, 81.0, 70.0]),
        *results_of(AUTO_FILTERED, [61, 71, 81]),
    ]


@pytest.fixture
def experiment():
    return Experiment(suite_people(["level"], 3), suite_systems())


def test_figures(results, experiment):
    found = synthetic_report(results, experiment).figures.parts["level"]
    assert found.n_seeds == 3
    assert found.accuracy["ED"] == 60
    assert found.accuracy[AUTO] == 70
    assert found.best_expert == ("one", 55.0), "the other decides for too few of the seeds"
    assert found.expected == 72
    assert found.is_as_expected == pytest.approx(2 / 3)


def test_page(results, experiment, tmp_path):
    report = synthetic_report(results, experiment)
    assert [path.name for path in write_report(report, tmp_path)] == [
        "results.csv", "summary.json", "headline.md", "report.md",
    ]  # fmt: skip
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert table_below(page, "## Accuracy") == [
        [
            "level",
            "25",
            "60.0",
            "50.0",
            "**77.0**",
            "40.0",
            "60.0",
            "70.0",
            "71.0",
            "55.0 (one)",
            "72.0 (67%)",
        ]
    ]
    assert table_below(page, "## The default against the others") == [
        ["level", "+45.0", "+10.0", "-7.0", "+30.0", "+15.0", "-2.0"]
    ]
    assert json.loads((tmp_path / "summary.json").read_text())["parts"]["level"]["expected"] == 72


def test_a_rival_that_was_not_run_has_no_column(results, experiment, tmp_path):
    systems = {name: one for name, one in experiment.systems.items() if name != LINEAR}
    some = [result for result in results if result["system"] != LINEAR]
    list(write_report(synthetic_report(some, replace(experiment, systems=systems)), tmp_path))
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert table_below(page, "## The default against the others") == [
        ["level", "+45.0", "+10.0", "-7.0", "+15.0", "-2.0"]
    ]


def test_what_the_default_and_its_experts_are_is_measured(tmp_path):
    experiment = Experiment(suite_people(["level"], 1, 100), suite_systems(), n_test=50)
    results = run_all(experiment, tmp_path / "journal", protocol="second")
    (ours,) = [r for r in results if r["system"] == AUTO]
    assert set(ours["experts"]), "a committee has experts"
    assert all(0 <= accuracy <= 100 for accuracy in ours["experts"].values())
    assert 0 <= ours["expected"] <= 100
    report = synthetic_report(results, experiment)
    assert report.figures.parts["level"].best_expert is not None
