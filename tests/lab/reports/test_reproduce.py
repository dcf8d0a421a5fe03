"""The runner, the tables and the report, on small imitations of people."""

import csv
import errno
import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from imitations import SMALL, broken, compute, experiment, imitate, lmnn, slow_experiment
from mlat import InputError, sliding_windows
from mlat.cli import app
from mlat.errors import DiskError
from mlat.lab.experiments import runner
from mlat.lab.experiments.journal import FIELDS, Job, Journal
from mlat.lab.experiments.people import uci_people
from mlat.lab.experiments.runner import Experiment, TimeLeft, plan, run_jobs
from mlat.lab.experiments.systems import ALL, FEW, SYSTEMS, System, ThinnedLDMLT, describe
from mlat.lab.reports import paper, tables
from mlat.lab.reports.findings import findings, losses
from mlat.lab.reports.report import write_reports
from mlat.lab.reports.summary import ON_ALL, TABLE_2, Footing, Section, summarise
from mlat.lab.reports.tables import Figure, Scores
from mlat.metric.estimators import MLAT

# The package's attribute of this name is the function.
command = importlib.import_module("mlat.cli.reproduce")


def timeless(results):
    return [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in results]


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return compute(experiment(), folder)[0], folder


# ---------------------------------------------------------------- jobs


def test_the_plan_holds_what_the_tables_need():
    exp = experiment()
    everything = plan(exp, ["holdout"], 2)
    trained = {(job.system, job.size) for job in everything}
    rivals = {(name, size) for name in ("ED", "LMNN") for size in (FEW, ALL)}
    assert trained == rivals | {("MLAT", ALL)}
    assert len(everything) == len(set(everything)) == 2 * 4 * 5
    assert [job.run for job in everything] == [0] * 20 + [1] * 20, "everyone's first run first"
    table_2 = {(job.system, job.size) for job in plan(exp, ["holdout"], 1, [2])}
    assert table_2 == {("ED", FEW), ("LMNN", FEW), ("MLAT", ALL)}
    assert {(job.system, job.size) for job in plan(exp, ["holdout"], 1, [3])} == rivals


def test_results_do_not_depend_on_the_number_of_processes(computed, tmp_path):
    results, _ = computed
    two, done = compute(experiment(), tmp_path, n_workers=2)
    assert timeless(two) == timeless(results)
    assert len(done) == len(two)
    assert all(set(result) == {*Job._fields, *FIELDS} for result in two)


def test_all_systems_are_judged_on_the_same_windows(computed):
    by_split = {}
    for r in computed[0]:
        key = r["data_set"], r["person"], r["run"], r["protocol"]
        by_split.setdefault(key, set()).add((json.dumps(r["total"]), r["n_test"]))
    assert all(len(seen) == 1 for seen in by_split.values())


def test_accuracy_is_of_the_labels_counted(computed):
    for r in computed[0]:
        assert r["accuracy"] == pytest.approx(
            100 * sum(r["right"].values()) / sum(r["total"].values())
        )
        assert sum(r["total"].values()) == r["n_test"]


# ---------------------------------------------------------------- going on


def test_a_second_run_computes_nothing(computed):
    results, folder = computed
    again, done = compute(experiment(), folder)
    assert again == results
    assert done == []


def test_more_runs_and_people_are_added_to_what_is_there(computed, tmp_path):
    results, folder = computed
    (tmp_path / "journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes())
    more, done = compute(experiment(n_people=4), tmp_path, n_runs=3)
    assert len(done) == len(more) - len(results)
    assert [r for r in more if r["run"] < 2 and r["person"] != "p3"] == results


@pytest.mark.parametrize("cut", [1, 30, 400])
def test_a_torn_last_line_is_done_again(computed, tmp_path, cut):
    results, folder = computed
    content = (folder / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content[:-cut])
    lost = content[-cut:].count(b"\n")
    again, done = compute(experiment(), tmp_path)
    assert timeless(again) == timeless(results)
    # Cutting only the line end tears nothing but that: the line itself is whole.
    assert len(done) == (0 if cut == 1 else lost)
    again, done = compute(experiment(), tmp_path)
    assert done == []


def test_lines_that_are_no_results_are_passed_over(computed, tmp_path):
    results, folder = computed
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    noise = [b"\n", b"null\n", b"[1, 2]\n", b'{"data_set": "one"}\n', b"\xff\x00\n"]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines[:5] + noise + lines[5:]))
    again, done = compute(experiment(), tmp_path)
    assert again == results
    assert done == []


def test_killed_outright_it_goes_on_without_repeating_or_losing_work(tmp_path):
    journal = tmp_path / "journal.jsonl"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "if __name__ == '__main__':\n"
        "    import pathlib, imitations as t\n"
        "    t.compute(t.slow_experiment(), pathlib.Path(sys.argv[1]), n_workers=2, n_runs=1)\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path)], start_new_session=True)
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers = _children(process.pid)
    process.kill()
    process.wait()
    kept = journal.read_bytes()
    n_kept = kept.count(b"\n")
    while any(_alive(pid) for pid in workers):  # they notice by themselves
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    results, done = compute(slow_experiment(), tmp_path, n_runs=1)
    assert 3 <= n_kept < len(results)
    assert len(done) == len(results) - n_kept
    assert journal.read_bytes().startswith(kept)
    whole, _ = compute(slow_experiment(), _folder(tmp_path, "whole"), n_runs=1)
    assert timeless(results) == timeless(whole)


def _children(pid):
    """The processes started by a process, where the system tells."""
    try:
        return [
            int(word)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for word in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _folder(parent, name):
    folder = parent / name
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "other", [experiment(width=5), experiment(n_test=14)], ids=["width", "n_test"]
)
def test_other_settings_are_computed_anew(computed, tmp_path, other):
    results, folder = computed
    (tmp_path / "journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes())
    again, done = compute(other, tmp_path)
    assert len(done) == len(again) == len(results)
    # And those of before are still there.
    assert compute(experiment(), tmp_path) == (results, [])


def test_another_version_or_parameter_is_another_result(monkeypatch):
    exp = experiment()
    jobs = {system: Job("one", "p0", 0, "holdout", system, ALL) for system in SMALL}
    before = {system: exp.fingerprint(job) for system, job in jobs.items()}
    assert len(set(before.values())) == len(before)
    monkeypatch.setitem(SMALL, "MLAT", System("MLAT", lmnn, (ALL,)))
    changed = {system for system, job in jobs.items() if exp.fingerprint(job) != before[system]}
    assert changed == {"MLAT"}
    monkeypatch.setattr(runner, "__version__", "99")
    assert all(exp.fingerprint(job) != before[system] for system, job in jobs.items())


def test_a_person_that_cannot_be_read_stops_it_in_one_line_and_keeps_the_rest(tmp_path):
    for n_workers in (1, 2):
        folder = _folder(tmp_path, f"with {n_workers}")
        with pytest.raises(InputError, match=r"p2\.csv, line 7: .*; get a fresh copy"):
            compute(experiment(load=broken), folder, n_workers=n_workers)
        kept = (folder / "journal.jsonl").read_bytes().count(b"\n")
        results, done = compute(experiment(), folder)
        assert len(done) == len(results) - kept


def test_two_runs_do_not_write_to_one_journal(tmp_path):
    pytest.importorskip("fcntl")
    with (
        Journal(tmp_path / "journal.jsonl"),
        pytest.raises(DiskError, match="in use by another run"),
    ):
        Journal(tmp_path / "journal.jsonl")


def test_a_full_disk_is_said_in_one_line_and_what_is_there_stays(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    first = next(iter(compute(slow_experiment(), tmp_path, n_runs=1)[0]))
    before = (tmp_path / "journal.jsonl").read_bytes()
    with Journal(tmp_path / "journal.jsonl") as journal:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"No space left on device.*stays"):
            journal.add(first)
    assert (tmp_path / "journal.jsonl").read_bytes().startswith(before)


def test_time_left():
    jobs = plan(experiment(), ["holdout"], 1)
    left = TimeLeft(jobs, [], n_workers=2)
    assert left.seconds is None
    for i, job in enumerate(jobs):
        left.done({**job._asdict(), "fit_seconds": 3.0, "predict_seconds": 1.0})
        assert left.seconds == pytest.approx(4.0 * (len(jobs) - i - 1) / 2)


# ---------------------------------------------------------------- figures


def scored(accuracy, protocol="holdout"):
    """Results from {(set, person): {(system, size): accuracies of the runs}}."""
    return [
        {
            "data_set": data_set, "person": person, "run": run, "protocol": protocol,
            "system": system, "size": size, "accuracy": value,
            "right": {"a": value, "b": 0.0}, "total": {"a": 100, "b": 100},
            "left_out": {}, "fit_seconds": 1.0, "predict_seconds": 0.0,
        }
        for (data_set, person), by in accuracy.items()
        for (system, size), values in by.items()
        for run, value in enumerate(values)
    ]  # fmt: skip


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
    inside = [low < 50 < high for low, high in map(tables.bootstrap, samples)]
    assert np.mean(inside) > 0.85
    assert tables.bootstrap(samples[0]) == tables.bootstrap(samples[0])


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
    assert tables.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert tables.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_the_critical_difference_is_demsars():
    # Demšar (2006): q is 2.569 for four systems, 2.850 for six.
    assert tables.critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)
    assert tables.critical_difference(6, 30) == pytest.approx(2.850 * np.sqrt(42 / 180), abs=1e-3)


def test_cliques_are_maximal():
    assert tables.cliques([1.0, 1.4, 2.0, 4.0], 1.0) == [(0, 2)]
    assert tables.cliques([1.0, 2.0, 3.0, 4.0], 1.5) == [(0, 1), (1, 2), (2, 3)]
    assert tables.cliques([4.0, 1.0, 2.5], 0.5) == []


def test_losses_name_the_labels():
    ours, ed = ("MLAT", ALL), ("ED", ALL)
    found = losses(
        scored({("s", "1"): {ours: [50, 40], ed: [60, 50]}, ("s", "2"): {ours: [9], ed: [8]}}),
        "holdout",
    )
    assert [(loss.person, loss.difference) for loss in found] == [("1", pytest.approx(-10))]
    assert found[0].by_label == (("a", pytest.approx(-10)), ("b", 0))


# ---------------------------------------------------------------- against the paper


def section_of(accuracy, gains):
    def figure(mean):
        return Figure(mean, 2.0, mean - 3, mean + 3, 5)

    systems = ("ED", "MDTW", "LDMLT", "LMNN", "MLAT-paper")
    by_set = {n: {s: figure(by[s]) for s in systems} for n, by in accuracy.items()}
    footing = Footing(
        tuple((s, ALL) for s in systems), by_set, dict.fromkeys(systems, 1.0), 1.0, {}
    )
    gained = {n: {s: figure(by[s]) for s in by} for n, by in gains.items()}
    return Section((), {TABLE_2: footing, ON_ALL: footing}, gained)


def test_the_papers_own_figures_agree_with_the_paper():
    accuracy = {n: {s: mean for s, (mean, _) in by.items()} for n, by in paper.TABLE_2.items()}
    found = findings(section_of(accuracy, paper.TABLE_3))
    assert len(found) == 4 * 5 + 4 + 1
    assert [finding.text for finding in found if not finding.agrees] == []


def test_what_is_the_other_way_round_differs():
    turned = {n: {s: 100 - m for s, (m, _) in by.items()} for n, by in paper.TABLE_2.items()}
    gains = {n: {s: -gain for s, gain in by.items()} for n, by in paper.TABLE_3.items()}
    assert [finding.text for finding in findings(section_of(turned, gains)) if finding.agrees] == []


# ---------------------------------------------------------------- the report


def test_the_files_of_a_run(computed, tmp_path):
    results, _ = computed
    written = list(write_reports(results, experiment(), (2, 3), tmp_path, tmp_path / "doc.md"))
    assert [path.name for path in written] == ["results.csv", "summary.json", "report.md", "doc.md"]
    with open(tmp_path / "results.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results)
    assert [float(row["accuracy"]) for row in rows] == [r["accuracy"] for r in results]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    figure = summary["protocols"]["holdout"]["footings"][ON_ALL]["accuracy"]["one"]["ED"]
    expected = [r["accuracy"] for r in results
                if r["protocol"] == "holdout" and r["data_set"] == "one"
                and r["system"] == "ED" and r["size"] == ALL]  # fmt: skip
    assert figure["mean"] == pytest.approx(np.mean(expected))
    for name, folder in (("report.md", "plots"), ("doc.md", "doc")):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert f"{figure['mean']:.1f}" in text
        assert "## Holdout" in text
        assert "## Within" in text
        pictures = re.findall(r"\]\((.+?\.png)\)", text)
        assert len(pictures) == 2 + 2 + 2
        assert all(path.startswith(f"{folder}/") for path in pictures)
        assert all((tmp_path / path).stat().st_size > 1000 for path in pictures)


@pytest.mark.parametrize("chosen", [(2,), (3,)])
def test_one_table_alone(tmp_path, chosen):
    exp = experiment(n_people=1)
    with Journal(tmp_path / "journal.jsonl") as journal:
        results = run_jobs(exp, plan(exp, ["holdout"], 1, chosen), journal)
    list(write_reports(results, exp, chosen, tmp_path))
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert ("### Table 2" in text) == (2 in chosen)
    assert ("### Table 3" in text) == (3 in chosen)
    assert "is behind ED on all windows" not in text, "either is lacking on all windows"


def test_labels_left_out_are_reported(computed):
    results = [{**r, "left_out": {"odd": "no test windows"}} for r in computed[0]]
    rows = summarise(results, experiment()).left_out
    assert {(row["label"], row["why"], row["runs"]) for row in rows} == {
        ("odd", "no test windows", 2)
    }
    assert len(rows) == 4 * 2


def test_a_label_that_was_never_recorded_is_left_out_too(computed):
    results = []
    for r in computed[0]:
        total = {k: v for k, v in r["total"].items() if (r["person"], k) != ("p1", "still")}
        results.append({**r, "total": total})
    rows = summarise(results, experiment()).left_out
    assert {(row["person"], row["label"], row["why"], row["runs"]) for row in rows} == {
        ("p1", "still", "no recording", 2)
    }


def test_points_have_a_sign_unless_they_round_to_nothing():
    assert [tables.signed(x) for x in (1.26, -0.04, 0.0, -3)] == ["+1.3", "0.0", "0.0", "-3.0"]


def test_the_six_systems():
    assert list(SYSTEMS) == ["ED", "MDTW", "LDMLT", "LMNN", "MLAT-paper", "MLAT"]
    for system in SYSTEMS.values():
        for data_set in ("scma", "emg"):
            json.dumps(describe(system.make(data_set, ALL)))
    assert describe(SYSTEMS["LMNN"].make("emg", ALL))["metric"]["target_gap"] == 0
    assert describe(SYSTEMS["MLAT"].make("emg", ALL))["metric"] == describe(MLAT())
    assert isinstance(SYSTEMS["LDMLT"].make("scma", ALL), ThinnedLDMLT)


def test_thinned_ldmlt_with_nothing_to_thin_is_ldmlt():
    windows = sliding_windows(imitate("p0"), 4, per_state=30, random_state=0)
    plain = SYSTEMS["LDMLT"].make("emg", ALL).fit(windows.X, windows.y)
    same = ThinnedLDMLT(max_per_label=30).fit(windows.X, windows.y)
    fewer = ThinnedLDMLT(max_per_label=10).fit(windows.X, windows.y)
    for found, expected in zip(same.kneighbors(windows.X, 3), plain.kneighbors(windows.X, 3),
                               strict=True):  # fmt: skip
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert not np.allclose(fewer.components_, plain.components_)
    assert fewer.kneighbors(windows.X)[1].max() > 30, "all windows are searched"


# ---------------------------------------------------------------- the command


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def imitated(monkeypatch):
    """The command on imitations, with few windows."""
    exp = experiment()
    monkeypatch.setattr(command, "uci_people", lambda sets, people, data: exp.people)
    monkeypatch.setattr(
        command,
        "Experiment",
        lambda people: Experiment(people, SMALL, width=4, n_few=10, n_test=15),
    )


def test_the_command(imitated, tmp_path):
    out, report = tmp_path / "new" / "out", tmp_path / "doc.md"
    result = call("--out", out, "--runs", 1, "--jobs", 1, "--report", report)
    assert result.exit_code == 0, result.output
    assert "40 jobs, 0 of them done before" in result.output
    assert "40/40" in result.output
    assert report.read_text(encoding="utf-8").startswith("# The paper's tables, run again")
    again = call("--out", out, "--runs", 1, "--jobs", 1)
    assert "40 jobs, 40 of them done before" in again.output


def test_what_other_settings_made_is_said(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 1, "--jobs", 1, "--table", 2)
    monkeypatch.setattr(runner, "__version__", "99")
    result = call("--out", tmp_path, "--runs", 1, "--jobs", 1, "--table", 2)
    assert "24 results in" in result.output
    assert "are of another version or other settings; they are computed anew" in result.output


def test_an_interrupt_keeps_what_is_done(imitated, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mlat.cli.jobs.run_jobs", interrupt)
    result = call("--out", tmp_path, "--runs", 1)
    assert result.exit_code == 130
    assert "the same command goes on" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--sets", "uci"], "unknown data set 'uci'; there are scma, arem, emg, vicon"),
        (["--people", "sub99"], "no person 'sub99' in the chosen sets"),
        (
            ["--sets", "emg", "--people", "sub7"],
            "no person 'sub7' in the chosen sets: emg has sub1",
        ),
        (["--protocol", "leaky"], "leaky"),
        (["--runs", "0"], "--runs"),
        (["--data", "nowhere"], "no data at nowhere"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, line):
    monkeypatch.chdir(tmp_path)
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_one_line(imitated, tmp_path, place):
    (tmp_path / "file").write_text("in the way")
    for option in ("--out", "--report"):
        where = tmp_path / place / "report.md" if option == "--report" else tmp_path / place
        result = call("--out", tmp_path / "out", option, where)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert str(tmp_path / "file") in result.stderr


def test_people_are_named_with_or_without_their_set(tmp_path, monkeypatch):
    monkeypatch.setattr("mlat.lab.experiments.people.open_set", lambda uci, data: _Nothing())
    people = uci_people(["emg", "vicon"], ["sub2", "vicon:3"])
    assert {name: p.names for name, p in people.items()} == {
        "emg": ("sub2",),
        "vicon": ("sub2", "sub3"),
    }
    quick = uci_people(None, command.QUICK_PEOPLE)
    assert list(quick) == ["scma", "arem", "emg", "vicon"]
    assert uci_people(["arem"])["arem"].given is None


class _Nothing:
    def __exit__(self, *_):
        return None
