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


# The full data sets, which are optional: the variable that names a copy, and a folder beside the
# checkout. Without a copy the tests of what is in it are left out; all others have small files.
DATA = {"uci": "MLAT_DATA", "streams_data": "MLAT_STREAMS"}
BESIDE = {"uci": "uci", "streams_data": "streams"}


def _copy(fixture):
    place = os.environ.get(DATA[fixture])
    return Path(place) if place else Path(__file__).parents[1] / "shared" / BESIDE[fixture]


@pytest.fixture(scope="session")
def uci():
    """UCI's own files."""
    return _copy("uci")


@pytest.fixture(scope="session")
def streams_data():
    """The sets of whole streams."""
    return _copy("streams_data")


def _slow_too(config):
    """Whether slow tests run: all of them, or those that are named one by one."""
    named = any("::" in argument for argument in config.args)
    return bool(os.environ.get("MLAT_SLOW") or config.option.markexpr or named)


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, those of data that is not there, and those in the file MLAT_PASSED."""
    passed = os.environ.get("MLAT_PASSED")
    known = set(Path(passed).read_text(encoding="utf-8").splitlines()) if passed else set()
    slow_too = _slow_too(config)
    no_copy = {fixture for fixture in DATA if not _copy(fixture).exists()}
    kept, left_out = [], []
    for item in items:
        is_left_out = not slow_too and item.get_closest_marker("slow") is not None
        is_left_out = is_left_out or not no_copy.isdisjoint(item.fixturenames)
        (left_out if is_left_out or item.nodeid in known else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter, config):
    if not _slow_too(config):
        terminalreporter.write_line("Slow tests were left out; MLAT_SLOW=1 runs them, too.")
    for fixture, variable in DATA.items():
        if not _copy(fixture).exists():
            terminalreporter.write_line(
                f"Tests of the full data were left out: {variable} names no copy of it "
                "(docs/evidence/datasets.md)."
            )


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
