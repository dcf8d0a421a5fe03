"""The table beyond the paper's: incomplete journals, figures, the report and the command."""

import csv
import importlib
import json
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import imitations
from mlat import InputError, sliding_windows
from mlat.cli import app
from mlat.lab.experiments import beyond
from mlat.lab.experiments.aeon_worker import METHODS
from mlat.lab.experiments.beyond import AUTO, AUTO_FILTERED, ONE_SECOND, TEN_STEPS, Decimated
from mlat.lab.experiments.journal import FIELDS, Job, Journal, read_results
from mlat.lab.experiments.people import People
from mlat.lab.experiments.runner import Experiment, run_jobs
from mlat.lab.experiments.systems import ALL, System
from mlat.lab.reports import beyond_report
from mlat.lab.reports.beyond_results import common_runs, gather, planned
from mlat.lab.reports.beyond_tables import PLAIN, WITH_FILTER, summarise
from mlat.lab.reports.tables import holm
from mlat.lab.rivals import EuclideanKNN

# The package's attribute of this name is the function.
command = importlib.import_module("mlat.cli.reproduce")


# ---------------------------------------------------------------- small systems


class StreamKNN(BaseEstimator):
    """Stands in for the classifier of streams: the nearest window, and the last five together."""

    n_fits = 0

    def __init__(self, width=10):
        self.width = width

    def fit(self, stream):
        StreamKNN.n_fits += 1
        windows = sliding_windows(stream, self.width)
        self.knn_ = EuclideanKNN().fit(windows.X, windows.y)
        self.selection_ = SimpleNamespace(chosen=f"{self.width} steps, Euclidean distance")
        return self

    def predict(self, stream, filtered=False):
        windows = sliding_windows(stream, self.width, labelled=False)
        states = np.full(len(stream), "", dtype=self.knn_.classes_.dtype)
        ends = windows.start + self.width - 1
        states[ends] = self.knn_.predict(windows.X)
        if not filtered:
            return states
        last = [Counter(states[max(0, i - 4) : i + 1].tolist()) for i in range(len(states))]
        return np.array([count.most_common(1)[0][0] for count in last])


def _ed(data_set, size):
    return EuclideanKNN()


def _thin(data_set, size):
    return Decimated(EuclideanKNN(), most_steps=4)


def _auto(data_set, size):
    return StreamKNN()


SMALL = {
    "ED": System("ED", _ed, (ALL,)),
    "MDTW": System("MDTW", _thin, (ALL,)),
    "LMNN": System("LMNN", imitations.lmnn, (ALL,)),
    "QUANT": System("QUANT", _ed, (ALL,)),
    AUTO: System(AUTO, _auto, (ALL,), on_streams=True),
    AUTO_FILTERED: System(AUTO_FILTERED, _auto, (ALL,), on_streams=True, filtered=True),
}
GROUPS = [("one", "p0"), ("one", "p1"), ("one", "p2"), ("two", "p7")]


def small_experiments(of_sets=None, python=None):
    ten = imitations.experiment(SMALL)
    wide = {name: replace(p, width=6, given=42) for name, p in ten.people.items()}
    return {TEN_STEPS: ten, ONE_SECOND: replace(ten, people=wide)}


def run(experiment, path, n_runs=1):
    with Journal(path) as journal:
        return run_jobs(experiment, planned(experiment, n_runs), journal)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return {
        name: run(experiment, folder / name, n_runs)
        for (name, experiment), n_runs in zip(small_experiments().items(), (2, 1), strict=True)
    }


def test_everyone_is_on_all_windows_of_holdout():
    jobs = planned(small_experiments()[TEN_STEPS], 2)
    assert [job.run for job in jobs] == [0] * 24 + [1] * 24, "everyone's first run first"
    assert {(job.protocol, job.size) for job in jobs} == {("holdout", ALL)}
    assert {(job.data_set, job.person, job.system) for job in jobs} == {
        (*group, name) for group in GROUPS for name in SMALL
    }


def test_the_real_systems_and_widths():
    of_sets = {name: People(("1",), imitations.imitate, given=None if name == "arem" else 510)
               for name in ("scma", "arem", "emg", "vicon")}  # fmt: skip
    ten, second = beyond.beyond_experiments(of_sets, "peer/python").values()
    assert list(ten.systems)[:4] == ["ED", "MDTW", "LMNN", "MLAT-paper"]
    assert list(ten.systems)[-5:] == [*METHODS, AUTO, AUTO_FILTERED]
    assert [ten.width_of(name) for name in of_sets] == [10] * 4
    assert [second.width_of(name) for name in of_sets] == [52, 4, 1000, 200]
    assert [p.given for p in second.people.values()] == [552, None, 1500, 700]
    assert [s.filtered for s in ten.systems.values() if s.on_streams] == [False, True]


def test_every_mth_step_with_the_last():
    thin = Decimated(EuclideanKNN(), most_steps=52, most_values=600)
    assert [thin.every(w, d) for w, d in ((10, 27), (52, 3), (1000, 8), (200, 27), (4, 6))] == [
        1, 1, 20, 10, 1,
    ]  # fmt: skip
    X = np.random.default_rng(0).normal(size=(8, 7, 2))
    y = np.arange(8)
    model = Decimated(EuclideanKNN(), most_steps=3).fit(X, y)
    assert model.every_ == 3
    plain = EuclideanKNN().fit(X[:, [0, 3, 6]], y)
    other = np.random.default_rng(1).normal(size=(50, 7, 2))
    assert (model.predict(other) == plain.predict(other[:, [0, 3, 6]])).all()


def test_streams_are_judged_where_the_windows_end(computed):
    accuracy = {}
    for name, results in computed.items():
        for r in results:
            key = name, r["data_set"], r["person"], r["run"]
            accuracy.setdefault(key, {})[r["system"]] = r["accuracy"]
    # The imitation is the Euclidean distance over the same windows, so it must be right as often.
    assert all(by[AUTO] == by["ED"] for by in accuracy.values())
    assert any(by[AUTO_FILTERED] != by["ED"] for by in accuracy.values())


def test_what_was_chosen_is_written_down_for_streams_alone(computed):
    for name, width in ((TEN_STEPS, 4), (ONE_SECOND, 6)):
        for r in computed[name]:
            on_stream = r["system"] in (AUTO, AUTO_FILTERED)
            assert set(r) == {*Job._fields, *FIELDS, *(["chosen"] if on_stream else [])}
            assert r.get("chosen") == (f"{width} steps, Euclidean distance" if on_stream else None)


def test_with_and_without_the_filter_it_is_one_fit(tmp_path):
    experiment = small_experiments()[TEN_STEPS]
    before = StreamKNN.n_fits
    run(experiment, tmp_path / "journal")
    assert StreamKNN.n_fits - before == len(GROUPS)


# ---------------------------------------------------------------- what is there


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


def test_gather_takes_what_is_of_the_experiment(computed, tmp_path):
    experiment = small_experiments()[TEN_STEPS]
    by_key = {(Job(*(r[f] for f in Job._fields)), r["fingerprint"]): r
              for r in computed[TEN_STEPS]}  # fmt: skip
    assert gather(experiment, by_key) == (computed[TEN_STEPS], {})
    assert gather(experiment, by_key, 1)[0] == [r for r in computed[TEN_STEPS] if r["run"] == 0]
    assert gather(experiment, {}) == ([], {})
    some = {key: r for key, r in by_key.items() if r["system"] != "LMNN" or r["person"] == "p1"}
    assert gather(experiment, some)[0] == [r for r in computed[TEN_STEPS] if r in some.values()]
    found, stale = gather(replace(experiment, n_test=14), by_key)
    assert (found, stale) == ([], dict.fromkeys(SMALL, 8))


def test_a_journal_is_read_while_a_run_writes_to_it(computed, tmp_path):
    path = tmp_path / "journal.jsonl"
    assert read_results(path) == {}
    assert not path.exists()
    with Journal(path) as journal:
        journal.add(computed[TEN_STEPS][0])
        assert list(read_results(path).values()) == computed[TEN_STEPS][:1]
    with open(path, "ab") as file:
        file.write(b'{"data_set": "on')
    assert len(read_results(path)) == 1
    with pytest.raises(InputError, match="cannot be read"):
        read_results(tmp_path)


def test_runs_that_all_have():
    a, b = ("s", "1"), ("s", "2")
    whole = results_of({a: {"x": [1, 2, 3], "y": [1, 2]}, b: {"x": [1, 2, 3], "y": [1, 2, 3]}})
    kept, n_runs = common_runs(whole)
    assert n_runs == 2
    assert kept == [r for r in whole if r["run"] < 2]
    # Who lacks somebody does not hold the others up, and is kept where it has as many runs.
    partly = results_of({a: {"x": [1, 2], "y": [1]}, b: {"x": [1, 2]}, ("t", "1"): {
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


# ---------------------------------------------------------------- figures


def settings_of(accuracy):
    """Experiments in which these people and systems are all there is."""
    of_sets = {}
    for data_set, person in accuracy:
        of_sets[data_set] = (*of_sets.get(data_set, ()), person)
    names = dict.fromkeys(name for by in accuracy.values() for name in by)
    systems = {name: replace(SMALL[name], name=name) for name in names}
    sources = {name: People(who, imitations.imitate) for name, who in of_sets.items()}
    return {TEN_STEPS: Experiment(sources, systems, width=4)}


@pytest.fixture(scope="module")
def drawn():
    """Twelve groups of two sets, SCMA 1 and 2 among them, which are of the development."""
    rng = np.random.default_rng(0)
    names = ("ED", "LMNN", "QUANT", AUTO, AUTO_FILTERED)
    groups = [("scma", str(i)) for i in range(1, 9)] + [("emg", f"sub{i}") for i in range(1, 5)]
    return {
        group: {name: rng.integers(40, 60, size=2) + 4 * i for i, name in enumerate(names)}
        for group in groups
    }


def of_people(person):
    return imitations.imitate(person.removeprefix("sub"))


@pytest.fixture(scope="module")
def summary(drawn):
    experiments = settings_of(drawn)
    ten = experiments[TEN_STEPS]
    people = {name: replace(p, load=of_people) for name, p in ten.people.items()}
    results = results_of(
        drawn, chosen=lambda data_set, person: "odd" if person in "135" else "even"
    )
    return summarise({TEN_STEPS: results}, {TEN_STEPS: replace(ten, people=people)})


def mean_of(drawn, name, data_set=None):
    return np.array(
        [np.mean(by[name]) for group, by in drawn.items() if data_set in (None, group[0])]
    )


def test_accuracy_ranks_and_tests_are_those_computed_directly(drawn, summary):
    standing = summary.widths[TEN_STEPS].everyone
    names = list(standing.accuracy)
    for data_set in ("scma", "emg"):
        for name in names:
            assert standing.accuracy[name][data_set].mean == pytest.approx(
                mean_of(drawn, name, data_set).mean()
            )
    values = np.stack([mean_of(drawn, name) for name in names], axis=1)
    for footing, ours, n in ((PLAIN, AUTO, 4), (WITH_FILTER, AUTO_FILTERED, 5)):
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
        (summary.widths[TEN_STEPS].everyone, ()),
        (summary.widths[TEN_STEPS].without_development, DEVELOPED_ON),
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
    width = summarise({TEN_STEPS: results_of(accuracy)}, settings_of(accuracy)).widths[TEN_STEPS]
    assert [who for _, who, _ in width.everyone.harm.below] == ["1"]
    assert width.everyone.harm.n_groups == 3, "whoever has both"
    assert list(width.everyone.harm.by_set) == ["s"]


def test_seconds_and_choices(summary):
    width = summary.widths[TEN_STEPS]
    assert width.seconds["LMNN"] == {"scma": 1.5, "emg": 1.5}
    assert width.chosen == {"scma": {"even": 10, "odd": 6}, "emg": {"even": 8}}


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
    found = summarise({TEN_STEPS: results_of(accuracy)}, {TEN_STEPS: replace(ten, people=people)})
    return found.widths[TEN_STEPS], beyond_report.write_markdown(found, [])


def test_who_lacks_somebody_is_shown_but_not_ranked(drawn, incomplete):
    width, text = report_of(incomplete, drawn)
    standing = width.everyone
    assert list(standing.footings) == [PLAIN]
    assert list(standing.footings[PLAIN].ranks) == ["ED", AUTO]
    assert [test.other[0] for test in standing.footings[PLAIN].tests["all groups"]] == ["ED"]
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


def test_groups_that_nobody_was_run_on_do_not_count(drawn):
    some = {
        group: by for group, by in drawn.items() if group not in (("emg", "sub2"), ("scma", "4"))
    }
    width, text = report_of(some, drawn)
    assert not width.everyone.lacking
    assert "No system was run on SCMA 4; EMG sub2." in text
    scma = {group: by for group, by in drawn.items() if group[0] == "scma"}
    assert "No system was run on EMG." in report_of(scma, drawn)[1]


def table_below(text, heading):
    """The cells of the first table below a heading, without its head."""
    after = text[text.index(heading) :]
    lines = re.search(r"(?:^\|.*\|\n)+", after, re.MULTILINE).group().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# ---------------------------------------------------------------- the report


def test_the_files(computed, tmp_path):
    experiments = small_experiments()
    written = list(
        beyond_report.write_reports(computed, experiments, tmp_path, tmp_path / "doc.md")
    )
    assert [path.name for path in written] == [
        "results.csv", "summary.json", "headline.md", "report.md", "doc.md",
    ]  # fmt: skip
    with open(tmp_path / "results.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    everything = computed[TEN_STEPS] + computed[ONE_SECOND]
    assert [float(row["accuracy"]) for row in rows] == [r["accuracy"] for r in everything]
    assert [row["windows"] for row in rows] == [TEN_STEPS] * 48 + [ONE_SECOND] * 24
    assert [row["chosen"] for row in rows] == [r.get("chosen", "") for r in everything]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert {name: width["n_runs"] for name, width in summary["widths"].items()} == {
        TEN_STEPS: 2,
        ONE_SECOND: 1,
    }
    figure = summary["widths"][TEN_STEPS]["everyone"]["accuracy"]["LMNN"]["one"]
    expected = [r["accuracy"] for r in computed[TEN_STEPS]
                if r["system"] == "LMNN" and r["data_set"] == "one"]  # fmt: skip
    assert figure["mean"] == pytest.approx(np.mean(expected))
    assert figure["low"] <= figure["mean"] <= figure["high"]
    headline = (tmp_path / "headline.md").read_text(encoding="utf-8")
    assert headline.splitlines()[0] == "|  | one | two | mean rank |"
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
    found = summarise(computed, small_experiments())
    text = beyond_report.write_markdown(found, [])
    rows = {row[0]: row[1:] for row in table_below(text, "## What each system sees")}
    assert rows["channels"] == ["3", "3"]
    assert rows["ten steps: steps per window"] == ["4", "4"]
    assert rows["one second: steps per window"] == ["6", "6"]
    assert rows["one second: m of MDTW"] == ["2", "2"]
    assert "ten steps: m of MDTW" not in rows, "there it sees every step"
    assert "see every m-th step" in text
    alone = summarise({TEN_STEPS: computed[TEN_STEPS], ONE_SECOND: []}, small_experiments())
    text = beyond_report.write_markdown(alone, [])
    assert "see every m-th step" not in text
    assert "## Windows of one second\n\nNot run." in text


def test_one_system_of_one_person_can_be_reported(computed, tmp_path):
    for names in (["ED"], [AUTO], [AUTO_FILTERED], ["ED", AUTO]):
        some = [r for r in computed[TEN_STEPS] if r["system"] in names and r["person"] == "p7"]
        list(beyond_report.write_reports({TEN_STEPS: some}, small_experiments(), tmp_path))
        assert "## Windows of ten steps" in (tmp_path / "report.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------- the command


def call(*arguments):
    asked = ["reproduce", "--table", "beyond", "--jobs", 1, *arguments]
    return CliRunner().invoke(app, list(map(str, asked)))


NO_AEON = "python has no aeon (no module); install it and give its Python"


@pytest.fixture
def imitated(monkeypatch):
    """The command on imitations, with an aeon that is there or not."""
    monkeypatch.setattr(command, "uci_people", lambda sets, people, data: {})
    monkeypatch.setattr("mlat.cli.beyond.beyond_experiments", small_experiments)
    has = SimpleNamespace(aeon=True, torch="2.0")

    def aeon_versions(python):
        if not has.aeon:
            raise InputError(NO_AEON)
        return {"aeon": "1.0", "torch": has.torch}

    monkeypatch.setattr("mlat.cli.beyond.aeon_versions", aeon_versions)
    return has


def systems_in(folder, width):
    path = folder / f"journal-{width}.jsonl"
    return Counter(r["system"] for r in read_results(path).values())


def test_the_command(imitated, tmp_path):
    out, report = tmp_path / "new" / "out", tmp_path / "doc.md"
    result = call("--out", out, "--runs", 2, "--report", report)
    assert result.exit_code == 0, result.output
    assert "ten steps: 48 jobs, 0 of them done before" in result.stderr
    assert "one second: 24 jobs, 0 of them done before" in result.stderr
    assert systems_in(out, "ten-steps") == dict.fromkeys(SMALL, 8)
    assert systems_in(out, "one-second") == dict.fromkeys(SMALL, 4)
    assert (out / "headline.md").read_text(encoding="utf-8") in result.stdout
    assert report.read_text(encoding="utf-8").startswith("# Beyond the paper's tables")
    again = call("--out", out, "--runs", 2)
    assert "ten steps: 48 jobs, 48 of them done before" in again.stderr
    assert again.stdout.partition("\n\n")[2] == result.stdout.partition("\n\n")[2]


def test_some_systems_first_and_others_later(imitated, tmp_path):
    first = call("--out", tmp_path, "--runs", 1, "--runs-second", 0, "--systems", "LMNN,ED")
    assert first.exit_code == 0, first.output
    assert systems_in(tmp_path, "ten-steps") == {"ED": 4, "LMNN": 4}
    assert not (tmp_path / "journal-one-second.jsonl").exists()
    call("--out", tmp_path, "--runs", 2, "--runs-second", 0, "--systems", AUTO)
    assert systems_in(tmp_path, "ten-steps") == {"ED": 4, "LMNN": 4, AUTO: 8}
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [row[0] for row in table_below(text, "## Windows of ten steps")] == [
        "ED",
        "LMNN",
        "MLAT, auto",
    ]
    assert "1 run of 4 people" in text
    assert "4 results are not in these figures" in text


def test_only_the_report(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 2)
    journal = tmp_path / "journal-ten-steps.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-3]) + lines[-3][:40])
    before = journal.read_bytes()
    monkeypatch.setattr("mlat.cli.beyond.do_jobs", None)
    imitated.aeon = False
    result = call("--out", tmp_path, "--only-report", "--report", tmp_path / "doc.md")
    assert result.exit_code == 0, result.output
    assert journal.read_bytes() == before
    text = (tmp_path / "doc.md").read_text(encoding="utf-8")
    assert "1 run of 4 people" in text, "the second is not everyone's any more"
    call("--out", tmp_path, "--only-report", "--runs", 1)
    assert "are not in these figures" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_results_of_other_settings_are_not_reported_and_said(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 1, "--runs-second", 0, "--systems", "ED,LMNN")
    changed = {**SMALL, "LMNN": System("LMNN", _thin, (ALL,))}
    other = {name: replace(e, systems=changed) for name, e in small_experiments().items()}
    monkeypatch.setattr("mlat.cli.beyond.beyond_experiments", lambda people, python: other)
    result = call("--out", tmp_path, "--only-report")
    assert "another --peer-python: 4 of LMNN" in result.stderr
    assert "LMNN" not in (tmp_path / "headline.md").read_text(encoding="utf-8")


def test_quick_is_one_run_of_ten_steps_without_aeon(imitated, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(command, "uci_people", lambda *args: asked.append(args) or {})
    monkeypatch.chdir(tmp_path)
    imitated.aeon = False
    result = call("--quick")
    assert result.exit_code == 0, result.output
    assert "aeon" not in result.stderr
    assert asked == [(None, list(command.QUICK_PEOPLE), None)]
    others = {name: 4 for name in SMALL if name != "QUANT"}
    assert systems_in(tmp_path / "beyond-quick", "ten-steps") == others
    text = (tmp_path / "beyond-quick" / "report.md").read_text(encoding="utf-8")
    assert "Not run: QUANT." in text


@pytest.mark.parametrize("lacks", ["aeon", "torch"])
def test_without_aeon_the_others_go_on(imitated, tmp_path, lacks):
    imitated.aeon, imitated.torch = lacks != "aeon", None
    result = call("--out", tmp_path, "--runs", 1, "--runs-second", 0)
    assert result.exit_code == 0, result.output
    said = f"without QUANT: {NO_AEON} as --peer-python"
    said = said if lacks == "aeon" else "without QUANT: they need torch beside aeon"
    assert result.stderr.splitlines()[0] == said
    assert "QUANT" not in systems_in(tmp_path, "ten-steps")
    assert "Not run: QUANT." in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--systems", "ED,Rocket"], "no system 'Rocket'; there are ED, MDTW, LMNN, QUANT"),
        (["--systems", "QUANT"], NO_AEON),
        (["--peer-python", "nowhere/python"], NO_AEON),
        (["--only-report"], "no results in"),
        (["--protocol", "both"], "--table beyond knows no --protocol both"),
        (["--runs", "0"], "--runs"),
        (["--runs-second", "-1"], "--runs-second"),
        (["--table", "2", "--only-report"], "--only-report is for --table beyond"),
        (["--table", "both", "--systems", "ED"], "--systems is for --table beyond"),
        (["--table", "3", "--runs-second", "1"], "--runs-second is for --table beyond"),
        (["--table", "3", "--peer-python", "x"], "--peer-python is for --table beyond"),
    ],
)
def test_bad_input_is_one_line(imitated, tmp_path, arguments, line):
    imitated.aeon = False
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_one_line(imitated, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for option, where in (("--out", "file"), ("--report", "file/report.md")):
        result = call("--out", tmp_path / "out", option, tmp_path / where)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert str(tmp_path / "file") in result.stderr


def test_the_peer_python_is_one_from_whichever_folder(imitated, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "mlat.cli.beyond.beyond_experiments",
        lambda people, python: asked.append(python) or small_experiments(),
    )
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    for folder, name in ((tmp_path, "bin/python"), (tmp_path / "bin", "../bin/python")):
        monkeypatch.chdir(folder)
        call("--out", tmp_path / "out", "--peer-python", name, "--only-report")
    assert asked == [str(python)] * 2
