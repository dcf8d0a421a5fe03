"""Running jobs: the same results however they are run, and going on where a run stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from imitations import (
    GROUPS,
    StreamKNN,
    beyond_experiments,
    broken,
    compute,
    experiment,
    run_all,
    slow_experiment,
    streams_experiments,
    timeless,
)
from mlat import InputError
from mlat_lab.experiments.experiment import plan
from mlat_lab.experiments.journal import FIELDS, Job
from mlat_lab.experiments.runner import TimeLeft
from mlat_lab.experiments.systems import (
    AUTO,
    AUTO_FILTERED,
    ONE_SECOND,
    TEN_STEPS,
    has_same_past,
)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return compute(experiment(), folder)[0], folder


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


@pytest.mark.slow
def test_killed_outright_it_goes_on_without_repeating_or_losing_work(tmp_path):
    journal = tmp_path / "journal.jsonl"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
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


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("as the first worker starts", marks=pytest.mark.slow),
        pytest.param("as all start", marks=pytest.mark.slow),
        "as they work",
    ],
)
def test_ctrl_c_ends_the_workers_without_a_word_of_theirs(tmp_path, when):
    journal = tmp_path / "journal.jsonl"
    script = tmp_path / "run.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "if __name__ == '__main__':\n"
        "    import pathlib, signal, imitations as t\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it\n"
        "    try:\n"
        "        t.compute(t.slow_experiment(), pathlib.Path(sys.argv[1]), n_workers=2, n_runs=1)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 120
    n_children = {"as the first worker starts": 2, "as all start": 3}.get(when)  # and a tracker

    def ready():
        if n_children is None:
            return journal.exists() and journal.read_bytes().count(b"\n") >= 1
        return len(_children(process.pid)) >= n_children

    while not ready():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    workers = _children(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # a terminal tells all of them
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 130
    while any(_alive(pid) for pid in workers):  # the tracker of resources is the last to notice
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)


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


@pytest.mark.slow
def test_a_person_that_cannot_be_read_stops_it_in_one_line_and_keeps_the_rest(tmp_path):
    for n_workers in (1, 2):
        folder = _folder(tmp_path, f"with {n_workers}")
        with pytest.raises(InputError, match=r"p2\.csv, line 7: .*; get a fresh copy"):
            compute(experiment(load=broken), folder, n_workers=n_workers)
        kept = (folder / "journal.jsonl").read_bytes().count(b"\n")
        results, done = compute(experiment(), folder)
        assert len(done) == len(results) - kept


def test_time_left():
    jobs = plan(experiment(), ["holdout"], 1)
    left = TimeLeft(jobs, [], n_workers=2)
    assert left.seconds is None
    for i, job in enumerate(jobs):
        left.done({**job._asdict(), "fit_seconds": 3.0, "predict_seconds": 1.0})
        assert left.seconds == pytest.approx(4.0 * (len(jobs) - i - 1) / 2)


@pytest.fixture(scope="module")
def on_streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return {
        name: run_all(experiment, folder / name, n_runs)
        for (name, experiment), n_runs in zip(beyond_experiments().items(), (2, 1), strict=True)
    }


def test_streams_are_judged_where_the_windows_end(on_streams):
    accuracy = {}
    for name, results in on_streams.items():
        for r in results:
            key = name, r["data_set"], r["person"], r["run"]
            accuracy.setdefault(key, {})[r["system"]] = r["accuracy"]
    # The imitation is the Euclidean distance over the same windows, so it must be right as often.
    assert all(by[AUTO] == by["ED"] for by in accuracy.values())
    assert any(by[AUTO_FILTERED] != by["ED"] for by in accuracy.values())


def test_what_was_chosen_is_written_down_for_streams_alone(on_streams):
    for name, width in ((TEN_STEPS, 4), (ONE_SECOND, 6)):
        for r in on_streams[name]:
            on_stream = r["system"] in (AUTO, AUTO_FILTERED)
            more = ["chosen", "expected"] if on_stream else []
            more += ["past"] if has_same_past(r["system"]) else []
            more += ["padded"] if r["system"] == "QUANT-past" else []
            more += ["reliability"] if r["system"] == AUTO else []
            assert set(r) == {*Job._fields, *FIELDS, *more}
            assert r.get("chosen") == (f"{width} steps, Euclidean distance" if on_stream else None)


def test_the_steps_are_counted_by_how_sure_they_are(on_streams):
    for r in on_streams[TEN_STEPS]:
        if r["system"] == AUTO:
            n, confidence, right = np.array(r["reliability"]).T
            assert n.tolist() == [r["n_test"] * (i == 8) for i in range(10)]
            assert confidence[8] == pytest.approx(0.85 * n[8])
            assert right[8] == sum(r["right"].values())


@pytest.fixture(scope="module")
def whole_streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return {
        protocol: run_all(experiment, folder / protocol, protocol=protocol)
        for protocol, experiment in streams_experiments().items()
    }


def test_whole_streams_are_judged_by_state_and_by_switch(whole_streams):
    for protocol, results in whole_streams.items():
        for r in results:
            recall = [r["right"][state] / r["total"][state] for state in r["total"]]
            assert r["accuracy"] == pytest.approx(100 * np.mean(recall))
            assert r["protocol"] == protocol
            assert sum(r["total"].values()) == r["n_test"]
            assert max(r["total"].values()) <= 30
            assert r["n_switches"] > 0
            assert 0 <= r["missed"] <= 1
            assert (r["delay"] is None) == (r["missed"] > 0.5)


def test_windows_and_streams_are_judged_at_the_same_steps(whole_streams):
    by_person = {}
    for results in whole_streams.values():
        for r in results:
            key = r["protocol"], r["data_set"], r["person"]
            by_person.setdefault(key, {})[r["system"]] = r
    assert len(by_person) == 8
    for by in by_person.values():
        assert len({(r["n_test"], r["n_train"], r["n_switches"]) for r in by.values()}) == 1
        # The imitation is the Euclidean distance over the same windows.
        for field in ("accuracy", "delay", "missed", "right"):
            assert by[AUTO][field] == by["ED"][field]


def test_experts_are_judged_by_themselves_where_asked(tmp_path):
    experiment = streams_experiments()["second"]
    alone = {AUTO: replace(experiment.systems[AUTO], alone=True)}
    results = run_all(replace(experiment, systems=alone), tmp_path / "journal", protocol="second")
    for r in results:
        assert r["experts"] == {"itself": r["accuracy"]}
        assert r["expected"] == 75.0


def test_with_and_without_the_filter_it_is_one_fit(tmp_path):
    experiment = beyond_experiments()[TEN_STEPS]
    before = StreamKNN.n_fits
    run_all(experiment, tmp_path / "journal")
    assert StreamKNN.n_fits - before == len(GROUPS)
