"""``mlat-lab reproduce --table enrol`` and ``--table active-learning``, on imitations."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from imitations import recorded, table_below
from mlat import Stream
from mlat_lab.cli.commands import app
from mlat_lab.datasets import STREAM_SETS
from mlat_lab.experiments import active_learning, enrolment
from mlat_lab.experiments.people import People


def call(*arguments):
    asked = ["reproduce", "--jobs", 1, *arguments]
    return CliRunner().invoke(app, list(map(str, asked)))


def of_levels(person):
    """Runs whose level tells the state, the same for everyone but for an offset."""
    rng = np.random.default_rng(int(person.removeprefix("s")))
    order = ["sit", "walk", "turn"] * 4
    states = np.repeat(order, 60)
    level = {"sit": 0.0, "walk": 4.0, "turn": 8.0}
    values = np.array([level[s] for s in states])[:, None] + rng.normal(size=(len(states), 2))
    return Stream(values + rng.normal(size=2), states, channels=["a", "b"])


@pytest.fixture
def imitated(monkeypatch):
    asked = []

    def people(*arguments):
        asked.append(arguments)
        return {"stream": {"phone_watch": People(("s01", "s05"), of_levels)}}

    place = "mlat_lab.experiments.people"
    monkeypatch.setattr(f"{place}.stream_people", people)
    monkeypatch.setattr(f"{place}.whole_sets", lambda data: (["phone_watch"], {}))
    return asked


def test_enrol_quick(imitated, tmp_path, monkeypatch):
    monkeypatch.setattr(enrolment, "SECONDS", (1, 2, 30))
    page = tmp_path / "enrol.md"
    out = tmp_path / "out"
    first = call("--table", "enrol", "--quick", "--out", out, "--report", page)
    assert first.exit_code == 0, first.output
    ((sets, people, _),) = imitated
    assert sets == ["phone_watch"]
    assert all(one.split(":")[1] in STREAM_SETS["phone_watch"].development for one in people)
    again = call("--table", "enrol", "--quick", "--out", out)
    assert "2 jobs, 2 of them done before" in again.stderr
    results = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    for result in results:
        for found in result["by_seconds"].values():
            assert set(found["accuracy"]) == set(enrolment.SYSTEMS)
            assert found["accuracy"][enrolment.ENROLLED] > 60
        assert result["by_seconds"]["1"]["given"] == pytest.approx(1.0)
        assert result["by_seconds"]["30"]["given"] < 2  # at most 35 % of what there is
        assert set(result["without_labels"]) == {
            "default",
            "default, filtered",
            "units alone",
            "live",
            "not adapted",
            "Forest-features",
            "Forest-features, filtered",
            "Forest-features, self-trained",
        }
        assert "QUANT-past" not in result["without_labels"]  # without a Python that has aeon
        assert result["expected"]["of"] == "run"  # of the only other person
    text = page.read_text(encoding="utf-8")
    mean = np.mean([r["by_seconds"]["1"]["accuracy"]["enrolled"] for r in results])
    rows = table_below(text, "## With some seconds of the new person")
    assert f"{mean:.1f}" in rows[0][4]
    mean = np.mean([r["without_labels"]["default"] for r in results])
    rows = table_below(text, "## Without a label of the new person")
    assert f"{mean:.1f}" in rows[0][3]


def test_somebody_alone_cannot_be_left_out(imitated, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "mlat_lab.experiments.people.stream_people",
        lambda *arguments: {"stream": {"phone_watch": People(("s01",), recorded)}},
    )
    result = call("--table", "enrol", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "nobody is left to learn from" in result.stderr


def test_active_learning_quick(imitated, tmp_path, monkeypatch):
    page, out = tmp_path / "active.md", tmp_path / "out"
    first = call("--table", "active-learning", "--quick", "--out", out, "--report", page)
    assert first.exit_code == 0, first.output
    ((_, people, _),) = imitated
    assert all(one.split(":")[1] in STREAM_SETS["phone_watch"].development for one in people)
    text = page.read_text(encoding="utf-8")
    assert "fewer labelled seconds" in text
    for picture in ("seconds.png", "spans.png"):
        assert (tmp_path / "active" / picture).read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    found = summary["sets"]["phone_watch"]
    assert set(found) == set(active_learning.STRATEGIES)
    assert found["random"]["share of random"] == pytest.approx(1.0)
    rows = table_below(text, "## With the default classifier")
    assert [row[0] for row in rows] == ["phone, watch s01"]
    again = call("--table", "active-learning", "--quick", "--out", out)
    assert "0 of them done" not in again.stderr


@pytest.mark.parametrize("table", ["enrol", "active-learning"])
def test_options_that_would_be_ignored_are_refused(table, tmp_path):
    for option in (["--runs", "2"], ["--protocol", "within"], ["--systems", "ED"]):
        result = call("--table", table, "--out", tmp_path, *option)
        assert result.exit_code == 2
        assert option[0] in result.stderr
