"""What MLAT-auto says of itself."""

import pytest

from mlat_lab.experiments.systems import AUTO
from mlat_lab.reports.committee import (
    calibration_error,
    pooled,
    reliability_lines,
    weights_lines,
    weights_of,
)


def result(data_set, bins, chosen="a 60%, b 40%", system=AUTO):
    ten = [[0, 0.0, 0] for _ in range(10)]
    for tenth, row in bins.items():
        ten[tenth] = row
    return {"data_set": data_set, "system": system, "reliability": ten, "chosen": chosen}


def test_the_bins_of_all_people_are_one():
    results = [
        result("scma", {8: [100, 85.0, 80]}),
        result("scma", {8: [100, 85.0, 90], 5: [100, 55.0, 30]}),
        result("scma", {9: [1000, 950.0, 0]}, system="ED"),
        result("arem", {9: [10, 9.5, 10]}),
    ]
    bins = pooled(results)
    assert bins["scma"][8] == [200, 170, 170]
    assert calibration_error(bins["scma"]) == pytest.approx(25 / 300)
    assert calibration_error(bins["arem"]) == pytest.approx(0.05)
    lines = [line for line in reliability_lines(bins, "##") if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    by_title = {row[0]: row[1:] for row in cells}
    assert by_title["SCMA"][0] == "0.083"
    told = dict(zip(cells[0][2:], by_title["SCMA"][1:], strict=True))
    assert told["80–90 %"] == "85%"
    assert told["50–60 %"] == "30%"
    # Ten steps say nothing.
    assert set(by_title["AReM"][1:]) == {"–"}


def test_weights_are_means_over_people():
    results = [result("emg", {}), result("emg", {}, "a 100%")]
    assert weights_of(results) == {"emg": {"a": 80.0, "b": 20.0}}
    assert any("80 %" in line for line in weights_lines(weights_of(results), "##"))


def test_nothing_said_is_nothing_told():
    assert weights_lines({}, "##") == reliability_lines({}, "##") == []
