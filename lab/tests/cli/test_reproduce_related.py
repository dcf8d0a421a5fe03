"""``mlat-lab reproduce --table related``, on small imitations of people."""

import csv
import json
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from imitations import SMALL, experiment
from mlat_lab.cli.commands import app
from mlat_lab.experiments.experiment import ALL, FEW, Experiment, System
from mlat_lab.experiments.systems import NEED_TORCH, RELATED


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", "--table", "related", *map(str, arguments)])


def imitate(monkeypatch, need_torch=()):
    """The command on imitations: quick systems under the related systems' names."""
    exp = experiment()
    monkeypatch.setattr(
        "mlat_lab.experiments.people.uci_people", lambda sets, people, data: exp.people
    )
    rest = {name: SMALL[name] for name in ("ED", "LMNN")}
    ours = {"MLAT": SMALL["MLAT"]}

    def systems(without=()):
        # LMNN-DTW has LMNN's results, DECADE and the LSTM those of ED.
        makers = zip(RELATED, ("LMNN", "ED", "ED"), strict=True)
        others = {
            name: System(name, SMALL[like].make, needs="torch" if name in need_torch else None)
            for name, like in makers
        }
        return {**rest, **{n: s for n, s in others.items() if n not in without}, **ours}

    monkeypatch.setattr("mlat_lab.cli.tables.related_systems", systems)
    monkeypatch.setattr(
        "mlat_lab.cli.tables.Experiment",
        lambda people, systems: Experiment(people, systems, width=4, n_few=10, n_test=15),
    )


@pytest.fixture
def imitated(monkeypatch):
    """Imitations, none of which needs PyTorch."""
    imitate(monkeypatch)


def test_the_report(imitated, tmp_path):
    out, report = tmp_path / "out", tmp_path / "doc.md"
    result = call("--out", out, "--runs", 2, "--runs-all", 1, "--jobs", 1, "--report", report)
    assert result.exit_code == 0, result.output
    # 4 people, 2 runs, 2 protocols, 6 systems; and 5 rivals on all windows of the first run.
    assert f"{4 * 2 * 2 * 6 + 4 * 5} jobs, 0 of them done before" in result.output
    text = report.read_text(encoding="utf-8")
    assert text.startswith("# The related systems, on the windows of Table 2")
    headings = re.findall(r"^##+ (.+)$", text, flags=re.MULTILINE)
    assert headings == [
        *["In short", "Holdout", "Table 2: rivals on 10 windows per label, MLAT on all"],
        *["Ranks and tests over 4 groups", "Within"],
        *["Table 2: rivals on 10 windows per label, MLAT on all", "Ranks and tests over 4 groups"],
        *["All windows", "Everyone on all windows", "Ranks and tests over 4 groups"],
        *["Pictures", "Labels left out", "Time"],
    ]
    pictures = re.findall(r"\]\((.+?\.png)\)", text)
    assert len(pictures) == 2 + 2 + 1
    assert all((tmp_path / path).stat().st_size > 1000 for path in pictures)
    with open(out / "results.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 2 * 2 * 6 + 4 * 5, "MLAT's results are in both tables, and here once"
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    for part, footing, size, runs in (
        ("table 2", "table 2", FEW, "01"),
        ("all windows", "all windows", ALL, "0"),
    ):
        everyone = summary[part]["parts"]["holdout"]["everyone"]
        figures = everyone["footings"][footing]["accuracy"]["one"]
        expected = [
            float(row["accuracy"])
            for row in rows
            if row["system"] == "DECADE" and row["size"] == size and row["run"] in runs
            and row["protocol"] == "holdout" and row["data_set"] == "one"
        ]  # fmt: skip
        assert figures["DECADE"]["mean"] == pytest.approx(np.mean(expected))
        assert figures["DECADE"]["mean"] == figures["ED"]["mean"]
        assert f"{figures['LMNN-DTW']['mean']:.1f}" in text
    took = [float(row["fit_seconds"]) + float(row["predict_seconds"]) for row in rows
            if row["system"] == "MLAT"]  # fmt: skip
    assert re.search(rf"\| MLAT, ours \| all \|.*\| {sum(took) / 60:.1f} \|", text)


@pytest.mark.slow
def test_what_is_done_is_done(imitated, tmp_path):
    call("--out", tmp_path, "--runs", 1, "--runs-all", 0, "--jobs", 1)
    again = call("--out", tmp_path, "--runs", 1, "--jobs", 1)
    assert f"{48 + 20} jobs, 48 of them done before" in again.output, again.output
    assert "## All windows" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_one_protocol(imitated, tmp_path):
    result = call("--out", tmp_path, "--runs", 1, "--protocol", "within", "--jobs", 1)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## Within" in text
    assert "## Holdout" not in text
    assert "## All windows" not in text, "that is under holdout"


def test_quick_is_one_run_of_holdout(imitated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("--quick", "--jobs", 1)
    assert "24 jobs" in result.output, result.output
    assert (tmp_path / "related-quick" / "report.md").exists()


def test_without_pytorch_the_others_go_on(tmp_path, monkeypatch):
    imitate(monkeypatch, need_torch=NEED_TORCH)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = call("--out", tmp_path, "--quick", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "without DECADE, LSTM: either needs PyTorch" in result.stderr
    assert "pip install 'mlat[deep]'" in result.stderr
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "LMNN-DTW" in text
    assert "DECADE" not in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--runs-all", "-1"], "--runs-all"),
        (["--runs-all", "1", "--protocol", "within"], "--runs-all is under holdout"),
        (["--systems", "ED"], "--systems is for --table beyond"),
        (["--table", "2", "--runs-all", "1"], "--runs-all is for --table related"),
        (["--table", "beyond", "--runs-all", "1"], "--runs-all is for --table related"),
    ],
)
def test_bad_input_is_one_line(imitated, tmp_path, arguments, line):
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
