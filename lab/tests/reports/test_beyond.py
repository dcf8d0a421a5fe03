"""The table beyond the paper's: incomplete journals, figures and the report."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from imitations import BEYOND, beyond_experiments, imitate, run_all, table_below
from mlat_lab.experiments.experiment import ALL, Experiment
from mlat_lab.experiments.people import People
from mlat_lab.experiments.systems import AUTO, AUTO_FILTERED, ONE_SECOND, TEN_STEPS
from mlat_lab.reports.beyond import beyond_report
from mlat_lab.reports.page import write_report
from mlat_lab.reports.standing import EQUAL, WINDOWS, WITH_FILTER
from mlat_lab.reports.statistics import WITHOUT_DEVELOPMENT, holm


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return {
        name: run_all(experiment, folder / name, n_runs)
        for (name, experiment), n_runs in zip(beyond_experiments().items(), (2, 1), strict=True)
    }


def results_of(accuracy, seconds=1.0, chosen=None):
    """Results from {(set, person): {system: accuracies of the runs}}."""
    return [
        {
            "data_set": data_set, "person": person, "run": run, "protocol": "holdout",
            "system": system, "size": ALL, "accuracy": float(value),
            "right": {"a": value}, "total": {"a": 100}, "n_train": 9, "n_test": 9,
            "left_out": {}, "fit_seconds": seconds + run, "predict_seconds": 0.0,
            **({"chosen": chosen(data_set, person)} if chosen and system == AUTO else {}),
        }
        for (data_set, person), by in accuracy.items()
        for system, values in by.items()
        for run, value in enumerate(values)
    ]  # fmt: skip


def settings_of(accuracy):
    """Experiments in which these people and systems are all there is."""
    of_sets = {}
    for data_set, person in accuracy:
        of_sets[data_set] = (*of_sets.get(data_set, ()), person)
    names = dict.fromkeys(name for by in accuracy.values() for name in by)
    systems = {name: replace(BEYOND[name], name=name) for name in names}
    sources = {name: People(who, imitate) for name, who in of_sets.items()}
    return {TEN_STEPS: Experiment(sources, systems, width=4)}


@pytest.fixture(scope="module")
def drawn():
    """Twelve groups of two sets, SCMA 1 and 2 among them, which are of the development."""
    rng = np.random.default_rng(0)
    names = ("ED", "LMNN", "QUANT", AUTO, AUTO_FILTERED)
    groups = [("scma", str(i)) for i in range(1, 9)] + [("emg", f"sub{i}") for i in range(1, 5)]
    return {
        group: {name: rng.uniform(40, 60, size=2) + 4 * i for i, name in enumerate(names)}
        for group in groups
    }


def of_people(person):
    return imitate(person.removeprefix("sub"))


@pytest.fixture(scope="module")
def summary(drawn):
    experiments = settings_of(drawn)
    ten = experiments[TEN_STEPS]
    people = {name: replace(p, load=of_people) for name, p in ten.people.items()}
    results = results_of(
        drawn,
        chosen=lambda data_set, person: "odd 60%, even 40%" if person in "135" else "even 100%",
    )
    report = beyond_report({TEN_STEPS: results}, {TEN_STEPS: replace(ten, people=people)})
    return report.figures


def mean_of(drawn, name, data_set=None):
    return np.array(
        [np.mean(by[name]) for group, by in drawn.items() if data_set in (None, group[0])]
    )


def test_accuracy_ranks_and_tests_are_those_computed_directly(drawn, summary):
    standing = summary.parts[TEN_STEPS].everyone
    names = list(standing.accuracy)
    for data_set in ("scma", "emg"):
        for name in names:
            assert standing.accuracy[name][data_set].mean == pytest.approx(
                mean_of(drawn, name, data_set).mean()
            )
    values = np.stack([mean_of(drawn, name) for name in names], axis=1)
    for footing, ours, n in ((WINDOWS, AUTO, 4), (WITH_FILTER, AUTO_FILTERED, 5)):
        ranks = stats.rankdata(-values[:, :n], axis=1).mean(axis=0)
        assert list(standing.footings[footing].ranks) == names[:n]
        assert list(standing.footings[footing].ranks.values()) == pytest.approx(ranks)
        others = [i for i in range(n) if names[i] != ours]
        mine = values[:, names.index(ours)]
        p = [stats.wilcoxon(mine - values[:, i]).pvalue for i in others]
        tests = standing.footings[footing].tests["all groups"]
        assert [test.other[0] for test in tests] == [names[i] for i in others]
        assert [test.p for test in tests] == pytest.approx(p)
        assert [test.p_holm for test in tests] == pytest.approx(holm(p))


DEVELOPED_ON = [("scma", "1"), ("scma", "2"), ("emg", "sub1")]


def test_harm_is_counted_and_named(drawn, summary):
    ahead = {g: np.mean(by[AUTO]) - np.mean(by["ED"]) for g, by in drawn.items()}
    for standing, without in (
        (summary.parts[TEN_STEPS].everyone, ()),
        (summary.parts[TEN_STEPS].others[WITHOUT_DEVELOPMENT], DEVELOPED_ON),
    ):
        kept = {group: points for group, points in ahead.items() if group not in without}
        assert set(standing.groups) == set(kept)
        assert standing.harm.n_groups == len(kept)
        for data_set, points in standing.harm.by_set.items():
            assert points == pytest.approx(
                np.mean([v for g, v in kept.items() if g[0] == data_set])
            )
        assert {(one, who): by for one, who, by in standing.harm.below} == pytest.approx(
            {group: points for group, points in kept.items() if points < -2}
        )
        points = [by for _, _, by in standing.harm.below]
        assert points == sorted(points)


def test_two_points_below_are_no_harm_and_more_are():
    accuracy = {
        ("s", "0"): {"ED": [50.1, 50.2], AUTO: [48.1, 48.2]},
        ("s", "1"): {"ED": [50], AUTO: [47.9]},
        ("s", "2"): {"ED": [50], AUTO: [90]},
        ("t", "3"): {"ED": [50]},
    }
    report = beyond_report({TEN_STEPS: results_of(accuracy)}, settings_of(accuracy))
    width = report.figures.parts[TEN_STEPS]
    assert [who for _, who, _ in width.everyone.harm.below] == ["1"]
    assert width.everyone.harm.n_groups == 3, "whoever has both"
    assert list(width.everyone.harm.by_set) == ["s"]


def test_seconds_and_choices(summary):
    width = summary.parts[TEN_STEPS]
    assert width.seconds["LMNN"] == {"scma": 1.5, "emg": 1.5}
    assert width.weights == {
        "scma": {"even": (10 * 100 + 6 * 40) / 16, "odd": 6 * 60 / 16},
        "emg": {"even": 100},
    }


@pytest.fixture
def incomplete(drawn):
    """LMNN without EMG, QUANT without SCMA 3, and no filter."""
    lost = {("LMNN", "emg"), ("QUANT", "3")}
    return {
        group: {name: values for name, values in by.items()
                if name != AUTO_FILTERED and not lost & {(name, group[0]), (name, group[1])}}
        for group, by in drawn.items()
    }  # fmt: skip


def report_of(accuracy, settings_like=None):
    experiments = settings_of(settings_like or accuracy)
    ten = experiments[TEN_STEPS]
    people = {name: replace(p, load=of_people) for name, p in ten.people.items()}
    experiments = {TEN_STEPS: replace(ten, people=people)}
    report = beyond_report({TEN_STEPS: results_of(accuracy)}, experiments)
    return report.figures.parts[TEN_STEPS], "\n".join(report.text([]))


def test_who_lacks_somebody_is_shown_but_not_ranked(drawn, incomplete):
    width, text = report_of(incomplete, drawn)
    standing = width.everyone
    assert list(standing.footings) == [WINDOWS]
    assert list(standing.footings[WINDOWS].ranks) == ["ED", AUTO]
    assert [test.other[0] for test in standing.footings[WINDOWS].tests["all groups"]] == ["ED"]
    assert "- † LMNN not run on EMG." in text
    assert "- † QUANT not run on SCMA 3." in text
    assert "Not run: MLAT, auto + filter." in text
    rows = {row[0]: row for row in table_below(text, "## Windows of ten steps")}
    assert rows["LMNN †"][2:] == ["–", "–"]
    some = [
        np.mean(by["QUANT"]) for g, by in incomplete.items() if g[0] == "scma" and "QUANT" in by
    ]
    assert rows["QUANT †"][1].startswith(f"{np.mean(some):.1f} ±")
    assert rows["QUANT †"][1].endswith("†"), "it is over other people than the rest"
    assert "†" not in rows["QUANT †"][2]


def test_the_best_is_the_best_over_the_same_people(drawn):
    accuracy = {group: {name: by[name] for name in ("ED", "LMNN")} for group, by in drawn.items()}
    accuracy["scma", "1"] = {**accuracy["scma", "1"], "QUANT": [99.0, 99.0]}
    _, text = report_of(accuracy)
    rows = {row[0]: row for row in table_below(text, "## Windows of ten steps")}
    assert rows["QUANT †"][1] == "99.0 ± 0.0 †"
    assert rows["LMNN"][1].startswith("**")


def test_the_same_past_is_told_first_and_where_ours_does_not_win_it_is_said(drawn):
    """Ours is ahead of windows alone, and behind one of two with the same past."""
    points = {"ED": 0, "QUANT": 0, AUTO: 20, "QUANT-past": 40, "Forest-features": 20}
    rng = np.random.default_rng(1)
    accuracy = {
        group: {name: [40 + by + rng.normal()] for name, by in points.items()} for group in drawn
    }
    width, text = report_of(accuracy)
    assert list(width.everyone.footings) == [EQUAL, WINDOWS]
    first, second = [line for line in text.splitlines() if ": MLAT, auto has" in line]
    assert first.startswith("- Windows of ten steps, same past: MLAT, auto has the mean rank 2.")
    assert re.search(r"number [23] of 3, after QUANT, same past \(1\.00\)[.;] ", first)
    assert "Significantly ahead of nobody. Significantly behind QUANT, same past (-" in first
    assert "No significant difference from forest on our features (" in first
    assert "windows alone: MLAT, auto has the mean rank 1.00, number 1 of 3. " in second
    assert "Significantly behind nobody. No significant difference from nobody." in second
    assert "better with windows alone" not in text
    for by in accuracy.values():
        by["QUANT"] = [by["QUANT-past"][0] + 3]
    assert (
        "in the mean better with windows alone than with the same past: QUANT (+3.0)."
        in (report_of(accuracy)[1])
    )
    tests = [line for line in text.splitlines() if "against the others" in line]
    assert tests[0] == "### Same past: MLAT, auto against the others, over 12 groups"
    assert tests[1] == "### Windows alone: MLAT, auto against the others, over 12 groups"


def test_groups_that_nobody_was_run_on_do_not_count(drawn):
    some = {
        group: by for group, by in drawn.items() if group not in (("emg", "sub2"), ("scma", "4"))
    }
    width, text = report_of(some, drawn)
    assert not width.everyone.lacking
    assert "No system was run on SCMA 4; EMG sub2." in text
    scma = {group: by for group, by in drawn.items() if group[0] == "scma"}
    assert "No system was run on EMG." in report_of(scma, drawn)[1]


def test_the_files(computed, tmp_path):
    experiments = beyond_experiments()
    written = list(
        write_report(beyond_report(computed, experiments), tmp_path, tmp_path / "doc.md")
    )
    assert [path.name for path in written] == [
        "results.csv", "summary.json", "headline.md", "report.md", "doc.md",
    ]  # fmt: skip
    with open(tmp_path / "results.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    everything = computed[TEN_STEPS] + computed[ONE_SECOND]
    assert [float(row["accuracy"]) for row in rows] == [r["accuracy"] for r in everything]
    assert [row["windows"] for row in rows] == [TEN_STEPS] * 64 + [ONE_SECOND] * 32
    assert [row["past"] for row in rows] == [str(r.get("past", "")) for r in everything]
    assert [row["chosen"] for row in rows] == [r.get("chosen", "") for r in everything]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert {name: width["n_runs"] for name, width in summary["parts"].items()} == {
        TEN_STEPS: 2,
        ONE_SECOND: 1,
    }
    figure = summary["parts"][TEN_STEPS]["everyone"]["accuracy"]["LMNN"]["one"]
    expected = [r["accuracy"] for r in computed[TEN_STEPS]
                if r["system"] == "LMNN" and r["data_set"] == "one"]  # fmt: skip
    assert figure["mean"] == pytest.approx(np.mean(expected))
    assert figure["low"] <= figure["mean"] <= figure["high"]
    headline = (tmp_path / "headline.md").read_text(encoding="utf-8")
    assert headline.splitlines()[0] == "|  | one | two | rank, same past |"
    assert f"{figure['mean']:.1f}" in headline
    for name, folder in (("report.md", "plots"), ("doc.md", "doc")):
        text = (tmp_path / name).read_text(encoding="utf-8")
        for row in headline.splitlines()[2:]:
            assert row.strip("| ").split(" | ")[1] in text
        pictures = re.findall(r"\]\((.+?\.png)\)", text)
        assert [picture.removeprefix(f"{folder}/") for picture in pictures] == [
            "accuracy-ten-steps.png",
            "critical-difference-ten-steps.png",
            "accuracy-one-second.png",
            "critical-difference-one-second.png",
        ]
        assert all((tmp_path / path).stat().st_size > 1000 for path in pictures)


def test_the_opening_says_what_each_system_sees(computed):
    page = "\n".join(beyond_report(computed, beyond_experiments()).text([]))
    rows = {row[0]: row[1:] for row in table_below(page, "## What each system sees")}
    assert rows["channels"] == ["3", "3"]
    assert rows["ten steps: steps per window"] == ["4", "4"]
    assert rows["one second: steps per window"] == ["6", "6"]
    assert rows["ten steps: steps of the same past"] == ["12", "12"]
    assert rows["one second: steps of the same past"] == ["14", "14"]
    assert rows["ten steps: windows of these that are padded"] == ["22%", "22%"]
    assert rows["one second: m of MDTW"] == ["2", "2"]
    assert "ten steps: m of MDTW" not in rows, "there it sees every step"
    assert "see every m-th step" in page
    alone = {TEN_STEPS: computed[TEN_STEPS], ONE_SECOND: []}
    page = "\n".join(beyond_report(alone, beyond_experiments()).text([]))
    assert "see every m-th step" not in page
    assert "## Windows of one second\n\nNot run." in page


def test_one_system_of_one_person_can_be_reported(computed, tmp_path):
    for names in (["ED"], [AUTO], [AUTO_FILTERED], ["ED", AUTO]):
        some = [r for r in computed[TEN_STEPS] if r["system"] in names and r["person"] == "p7"]
        list(write_report(beyond_report({TEN_STEPS: some}, beyond_experiments()), tmp_path))
        assert "## Windows of ten steps" in (tmp_path / "report.md").read_text(encoding="utf-8")
