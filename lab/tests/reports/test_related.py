"""The report of the related systems; what the command writes is in test_reproduce_related.py."""

from imitations import SMALL, experiment
from mlat_lab.experiments.experiment import System, plan
from mlat_lab.experiments.journal import Journal
from mlat_lab.experiments.runner import run_jobs
from mlat_lab.reports.related import related_report


def test_a_result_of_both_footings_is_written_once(tmp_path):
    exp = experiment({**SMALL, "DECADE": System("DECADE", SMALL["ED"].make)}, n_people=1)
    with Journal(tmp_path / "journal.jsonl") as journal:
        few = run_jobs(exp, plan(exp, ["holdout"], 1, [2]), journal)
        on_all = run_jobs(exp, plan(exp.on_all_windows(), ["holdout"], 1, [2]), journal)
    report = related_report(few, on_all, exp)
    assert len(list(report.results)) == 2 * (4 + 3), "MLAT is on all windows in both"
    assert list(report.figures) == ["table 2", "all windows"]
    assert list(related_report(few, [], exp).figures) == ["table 2"]
    text = "\n".join(report.text([("a picture", "plots/a.png")]))
    assert "![a picture](plots/a.png)" in text
    assert "points to DECADE" in text
    assert "points to ED" not in text, "in short are the related systems alone"
