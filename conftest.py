"""Settings and fixtures for every test."""

import os
from pathlib import Path

# Read when SciPy is first imported: without it scikit-learn skips its array-API check.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import settings

# Times belong in benchmarks: a busy machine must not fail a property.
settings.register_profile("mlat", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "mlat"))


@pytest.fixture(scope="session")
def uci():
    """The real data: MLAT_DATA, or a `shared/uci` folder beside the checkout."""
    variable = os.environ.get("MLAT_DATA")
    place = Path(variable) if variable else Path(__file__).parents[1] / "shared" / "uci"
    if not place.exists():
        pytest.skip("no copy of the UCI data; set MLAT_DATA to one")
    return place


@pytest.fixture(scope="session")
def streams_data():
    """The sets of whole streams: MLAT_STREAMS, or a `shared/streams` folder beside the checkout."""
    variable = os.environ.get("MLAT_STREAMS")
    place = Path(variable) if variable else Path(__file__).parents[1] / "shared" / "streams"
    if not place.exists():
        pytest.skip("no copy of the sets of streams; set MLAT_STREAMS to one")
    return place


def _slow_too(config):
    """Whether slow tests run: all of them, or those that are named one by one."""
    named = any("::" in argument for argument in config.args)
    return bool(os.environ.get("MLAT_SLOW") or config.option.markexpr or named)


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, and those that MLAT_PASSED names, a file that an earlier run wrote."""
    passed = os.environ.get("MLAT_PASSED")
    known = set(Path(passed).read_text(encoding="utf-8").splitlines()) if passed else set()
    slow_too = _slow_too(config)
    kept, left_out = [], []
    for item in items:
        is_left_out = not slow_too and item.get_closest_marker("slow") is not None
        (left_out if is_left_out or item.nodeid in known else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter, config):
    if not _slow_too(config):
        terminalreporter.write_line("Slow tests were left out; MLAT_SLOW=1 runs them, too.")


def pytest_sessionfinish(session):
    """With MLAT_NO_SKIPS a skipped test fails the run: there, everything it needs is installed.

    With MLAT_WRITE_PASSED the names of those that passed go to that file.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker
        return
    if os.environ.get("MLAT_NO_SKIPS") and reporter.stats.get("skipped"):
        names = [report.nodeid for report in reporter.stats["skipped"]]
        reporter.write_line(f"MLAT_NO_SKIPS is set, but these were skipped: {', '.join(names)}")
        session.exitstatus = 1
    place = os.environ.get("MLAT_WRITE_PASSED")
    if place:
        names = [report.nodeid for report in reporter.stats.get("passed", [])]
        Path(place).write_text("\n".join(names) + "\n", encoding="utf-8")
