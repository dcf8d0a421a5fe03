"""The table of whole streams: figures by hand, who is of the development, and the report."""

import csv
import json

import numpy as np
import pytest

from imitations import run_all, streams_experiments, table_below
from mlat_lab.experiments.systems import AUTO, AUTO_FILTERED, ED_FILTERED, streams_development
from mlat_lab.reports.page import write_report
from mlat_lab.reports.standing import EQUAL, WINDOWS, WITH_FILTER
from mlat_lab.reports.streams import DEVELOPMENT, OTHERS, streams_report


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return {
        protocol: run_all(experiment, folder / protocol, protocol=protocol)
        for protocol, experiment in streams_experiments().items()
    }


def test_who_defaults_were_chosen_on():
    files = streams_development("stream")
    assert files["phone_watch"] == ("s01", "s05", "s09", "s13", "s17", "s21")
    assert files["scma"] == ("1", "2")
    assert files["gesture_phase"][:2] == ("persona_story1", "persona_story3")
    twice = streams_development("second")
    assert twice["phone_watch"] == files["phone_watch"]
    assert twice["gesture_phase"] == ("persona", "personb", "personc"), "one of two files will do"
    assert twice["scma"] == twice["wisdm_watch"] == ()


def test_figures_over_all_over_the_development_and_over_the_others(computed):
    found = streams_report(computed, streams_experiments()).figures.parts["stream"]
    accuracy = {(r["data_set"], r["person"]): r["accuracy"] for r in computed["stream"]
                if r["system"] == AUTO}  # fmt: skip
    chosen_on = {("phone_watch", "s01"), ("phone_watch", "s05"), ("scma", "1")}
    for section, groups in (
        (found.everyone, set(accuracy)),
        (found.others[DEVELOPMENT], chosen_on),
        (found.others[OTHERS], set(accuracy) - chosen_on),
    ):
        assert set(section.groups) == groups
        for one, figure in section.accuracy[AUTO].items():
            own = [accuracy[group] for group in groups if group[0] == one]
            assert figure.mean == pytest.approx(np.mean(own))
    ranked = {name: set(footing.ranks) for name, footing in found.everyone.footings.items()}
    assert list(ranked) == [EQUAL, WITH_FILTER, WINDOWS], "the same past is told first"
    assert ranked[EQUAL] == {"QUANT-past", "Forest-features", AUTO}
    assert ranked[WITH_FILTER] - ranked[EQUAL] == {AUTO_FILTERED, ED_FILTERED}
    assert ranked[WINDOWS] == {"ED", "MDTW", "LMNN", "QUANT", AUTO}


def test_delays_are_medians_over_people(computed):
    some = [dict(r) for r in computed["stream"] if r["system"] == "ED"]
    delays = iter([3.0, None, 8.0, None, None])
    for r in some:
        r["delay"] = next(delays)
        r["missed"] = 0.75 if r["delay"] is None else 0.25
    found = streams_report({"stream": some}, streams_experiments()).figures.parts["stream"]
    assert found.delays["ED"]["phone_watch"].steps == 8
    assert found.delays["ED"]["phone_watch"].missed == pytest.approx(1.25 / 3)
    assert found.delays["ED"]["scma"].steps is None
    some[0]["n_switches"] = some[1]["n_switches"] = some[2]["n_switches"] = 0
    found = streams_report({"stream": some}, streams_experiments()).figures.parts["stream"]
    assert "phone_watch" not in found.delays["ED"]
    page = streams_report({"stream": some}, streams_experiments()).text([])
    rows = table_below("\n".join(page), "### Delay")
    assert rows == [["ED", "∞ (75%)"]]


def test_the_report(computed, tmp_path):
    report = streams_report(computed, streams_experiments())
    files = list(write_report(report, tmp_path, tmp_path / "doc.md"))
    assert [path.name for path in files] == [
        "results.csv", "summary.json", "headline.md", "report.md", "doc.md",
    ]  # fmt: skip
    with open(tmp_path / "results.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == sum(map(len, computed.values()))
    assert {row["protocol"] for row in rows} == {"stream", "second"}
    assert all(row["n_switches"] for row in rows)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["settings"]["test_windows_per_label"] == 30
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "5 people or recordings under `stream` and 3 people or recordings under `second`" in page
    cells = {row[0]: row for row in table_below(page, "## Whole recordings")}
    for name, row in cells.items():
        means = [float(cell.strip("*")) for cell in row[1:4]]
        assert means[2] == pytest.approx(np.mean(means[:2]), abs=0.11), name
    for heading in ("### The files that defaults were chosen on", "### The other files",
                    "## The second recording", "## States left out"):  # fmt: skip
        assert heading in page
    for name in ("accuracy-stream", "critical-difference-stream", "accuracy-second"):
        assert f"(doc/{name}.png)" in (tmp_path / "doc.md").read_text(encoding="utf-8")
        assert (tmp_path / "doc" / f"{name}.png").exists()


def test_who_lacks_somebody_has_no_rank(computed):
    lost = [r for r in computed["stream"] if (r["system"], r["person"]) != ("LMNN", "s03")]
    lost = [r for r in lost if "QUANT" not in r["system"]]
    report = streams_report({"stream": lost, "second": []}, streams_experiments())
    assert "LMNN" not in report.figures.parts["stream"].everyone.footings[WINDOWS].ranks
    page = "\n".join(report.text([]))
    assert "- † LMNN not run on phone, watch s03." in page
    assert "Not run: QUANT, same past; QUANT." in page
    assert "## The second recording\n\nNot run." in page


def test_with_development_alone_there_are_no_parts(computed):
    own = [r for r in computed["stream"] if r["person"] in ("s01", "s05", "1")]
    found = streams_report({"stream": own}, streams_experiments()).figures.parts["stream"]
    assert not found.others
    assert ("phone_watch", "s03") in found.nobody
