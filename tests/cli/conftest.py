"""A model and streams as files, for the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runs import SENSORS, WIDTH, run, write_csv
from mlat.synthetic import rotating_states


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labelled stream, a second one of the same sensors, and a model of the first."""
    place = tmp_path_factory.mktemp("cli")
    write_csv(place / "walk.csv", rotating_states(**SENSORS))
    write_csv(place / "again.csv", rotating_states(**SENSORS, random_state=1))
    where = ["--label", "state", "--width", WIDTH, "-o", place / "walk.mlat"]
    run("fit", place / "walk.csv", "--metric", "mlat", *where)
    return place


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
