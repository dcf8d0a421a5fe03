"""Settings and fixtures for every test."""

import os
from pathlib import Path

# Read when SciPy is first imported: without it scikit-learn skips its array-API check.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import settings

# Times belong in benchmarks: a busy machine must not fail a property.
settings.register_profile("mlat", deadline=None)
settings.load_profile("mlat")


@pytest.fixture(scope="session")
def uci():
    """The real data: MLAT_DATA, or a `shared/uci` folder beside the checkout."""
    variable = os.environ.get("MLAT_DATA")
    place = Path(variable) if variable else Path(__file__).parents[2] / "shared" / "uci"
    if not place.exists():
        pytest.skip("no copy of the UCI data; set MLAT_DATA to one")
    return place


@pytest.fixture(scope="session")
def streams_data():
    """The sets of whole streams: MLAT_STREAMS, or a `shared/streams` folder beside the checkout."""
    variable = os.environ.get("MLAT_STREAMS")
    place = Path(variable) if variable else Path(__file__).parents[2] / "shared" / "streams"
    if not place.exists():
        pytest.skip("no copy of the sets of streams; set MLAT_STREAMS to one")
    return place


def pytest_sessionfinish(session):
    """With MLAT_NO_SKIPS a skipped test fails the run: there, everything it needs is installed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("MLAT_NO_SKIPS") and reporter and reporter.stats.get("skipped"):
        names = [report.nodeid for report in reporter.stats["skipped"]]
        reporter.write_line(f"MLAT_NO_SKIPS is set, but these were skipped: {', '.join(names)}")
        session.exitstatus = 1
