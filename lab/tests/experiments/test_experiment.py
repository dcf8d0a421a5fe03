"""Which jobs a table needs, and what makes two of them the same."""

from dataclasses import replace

from imitations import BEYOND, GROUPS, SMALL, beyond_experiments, experiment, lmnn, run_all
from mlat_lab.experiments import experiment as module
from mlat_lab.experiments.experiment import ALL, FEW, System, gather, plan
from mlat_lab.experiments.journal import Job
from mlat_lab.experiments.systems import TEN_STEPS


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


def test_another_version_or_parameter_is_another_result(monkeypatch):
    exp = experiment()
    jobs = {system: Job("one", "p0", 0, "holdout", system, ALL) for system in SMALL}
    before = {system: exp.fingerprint(job) for system, job in jobs.items()}
    assert len(set(before.values())) == len(before)
    monkeypatch.setitem(SMALL, "MLAT", System("MLAT", lmnn, (ALL,)))
    changed = {system for system, job in jobs.items() if exp.fingerprint(job) != before[system]}
    assert changed == {"MLAT"}
    monkeypatch.setattr(module, "__version__", "99")
    assert all(exp.fingerprint(job) != before[system] for system, job in jobs.items())


def test_the_same_jobs_as_table_2_and_those_of_the_related():
    exp = experiment()
    with_related = experiment({**SMALL, "other": System("other", SMALL["ED"].make)})
    ours = plan(exp, ["holdout", "within"], 2, [2])
    jobs = plan(with_related, ["holdout", "within"], 2, [2])
    assert [job for job in jobs if job.system != "other"] == ours
    assert {job.size for job in jobs if job.system == "other"} == {FEW}
    assert all(exp.fingerprint(job) == with_related.fingerprint(job) for job in ours)
    everyone = plan(with_related.on_all_windows(), ["holdout"], 1, [2])
    assert {job.system for job in everyone} == {"ED", "LMNN", "other", "MLAT"}
    assert {job.size for job in everyone} == {ALL}


def test_everyone_is_on_all_windows_of_holdout():
    jobs = plan(beyond_experiments()[TEN_STEPS], ["holdout"], 2, [2])
    assert [job.run for job in jobs] == [0] * 32 + [1] * 32, "everyone's first run first"
    assert {(job.protocol, job.size) for job in jobs} == {("holdout", ALL)}
    assert {(job.data_set, job.person, job.system) for job in jobs} == {
        (*group, name) for group in GROUPS for name in BEYOND
    }


def test_gather_takes_what_is_of_the_experiment(tmp_path):
    experiment = beyond_experiments()[TEN_STEPS]
    computed = run_all(experiment, tmp_path / "journal", 2)
    by_key = {(Job(*(r[f] for f in Job._fields)), r["fingerprint"]): r
              for r in computed}  # fmt: skip
    assert gather(experiment, by_key) == (computed, {})
    assert gather(experiment, by_key, 1)[0] == [r for r in computed if r["run"] == 0]
    assert gather(experiment, {}) == ([], {})
    some = {key: r for key, r in by_key.items() if r["system"] != "LMNN" or r["person"] == "p1"}
    assert gather(experiment, some)[0] == [r for r in computed if r in some.values()]
    found, stale = gather(replace(experiment, n_test=14), by_key)
    assert (found, stale) == ([], dict.fromkeys(BEYOND, 8))
