"""The report of the paper's tables, on small imitations of people."""

import csv
import json
import re

import numpy as np
import pytest

from imitations import compute, experiment, scored
from mlat_lab.experiments.experiment import ALL, plan
from mlat_lab.experiments.journal import Journal
from mlat_lab.experiments.runner import run_jobs
from mlat_lab.reports import paper
from mlat_lab.reports.page import write_report
from mlat_lab.reports.paper_tables import (
    ON_ALL,
    TABLE_2,
    PaperSection,
    findings,
    losses,
    paper_report,
)
from mlat_lab.reports.statistics import Figure, Footing


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return compute(experiment(), folder)[0], folder


def test_losses_name_the_labels():
    ours, ed = ("MLAT", ALL), ("ED", ALL)
    found = losses(
        scored({("s", "1"): {ours: [50, 40], ed: [60, 50]}, ("s", "2"): {ours: [9], ed: [8]}}),
        "holdout",
    )
    assert [(loss.person, loss.difference) for loss in found] == [("1", pytest.approx(-10))]
    assert found[0].by_label == (("a", pytest.approx(-10)), ("b", 0))


def section_of(accuracy, gains):
    def figure(mean):
        return Figure(mean, 2.0, mean - 3, mean + 3, 5)

    systems = ("ED", "MDTW", "LDMLT", "LMNN", "MLAT-paper")
    by_set = {n: {s: figure(by[s]) for s in systems} for n, by in accuracy.items()}
    footing = Footing(
        tuple((s, ALL) for s in systems), by_set, dict.fromkeys(systems, 1.0), 1.0, {}
    )
    gained = {n: {s: figure(by[s]) for s in by} for n, by in gains.items()}
    return PaperSection((), {TABLE_2: footing, ON_ALL: footing}, gained)


def test_the_papers_own_figures_agree_with_the_paper():
    accuracy = {n: {s: mean for s, (mean, _) in by.items()} for n, by in paper.TABLE_2.items()}
    found = findings(section_of(accuracy, paper.TABLE_3))
    assert len(found) == 4 * 5 + 4 + 1
    assert [finding.text for finding in found if not finding.agrees] == []


def test_what_is_the_other_way_round_differs():
    turned = {n: {s: 100 - m for s, (m, _) in by.items()} for n, by in paper.TABLE_2.items()}
    gains = {n: {s: -gain for s, gain in by.items()} for n, by in paper.TABLE_3.items()}
    assert [finding.text for finding in findings(section_of(turned, gains)) if finding.agrees] == []


def test_the_files_of_a_run(computed, tmp_path):
    results, _ = computed
    written = list(write_report(paper_report(results, experiment()), tmp_path, tmp_path / "doc.md"))
    names = ["results.csv", "summary.json", "headline.md", "report.md", "doc.md"]
    assert [path.name for path in written] == names
    with open(tmp_path / "results.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results)
    assert [float(row["accuracy"]) for row in rows] == [r["accuracy"] for r in results]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    figure = summary["parts"]["holdout"]["everyone"]["footings"][ON_ALL]["accuracy"]["one"]["ED"]
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
    list(write_report(paper_report(results, exp, chosen), tmp_path))
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert ("### Table 2" in text) == (2 in chosen)
    assert ("### Table 3" in text) == (3 in chosen)
    assert "is behind ED on all windows" not in text, "either is lacking on all windows"
