"""Progressive validation beside river's classifiers, in an environment that has river."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = os.pathsep.join(str(ROOT / place) for place in ("src", "lab/src", "lab/tests"))

# With small files, which this process cannot declare to be whole for that one.
MAIN = """
import os, pathlib
from uci_copies import count_as_whole
from mlat_lab.cli import main
count_as_whole(pathlib.Path(os.environ["MLAT_STREAMS"]))
main()
"""


def bench(python, streams, *arguments):
    return subprocess.run(
        [python, "-c", MAIN, "bench", "river", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": SOURCE,
            "MLAT_STREAMS": str(streams),
            "NUMBA_CACHE_DIR": str(Path(python).parents[1] / "numba"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def python():
    place = os.environ.get("MLAT_RIVER_PYTHON")
    if not place:
        pytest.skip("MLAT_RIVER_PYTHON names no Python that has river")
    return place


def test_quick_figures_and_page(python, gestures, tmp_path):
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(
        "Before.\n<!-- written by mlat-lab bench river -->\nold\n<!-- end -->\nAfter.\n"
    )
    few = ["--sets", "gesture_phase", "--files", "1", "--steps", "3"]
    more = ["--delay", "0", "--delay", "6"]
    done = bench(python, gestures, *few, *more, "--page", str(page), "--out", str(figures))
    assert done.returncode == 0, done.stderr
    rows = json.loads(figures.read_text())
    assert {row["delay"] for row in rows} == {0, 6}
    assert len(rows) == 2 * 15
    by_name = {(row["system"], row["delay"]): row for row in rows}
    last = "the label that came last"
    # A run has three steps: the last label is right at two of them, and of no use when it is late.
    assert by_name[last, 0]["accuracy"] == pytest.approx(2 / 3, abs=0.02)
    assert by_name[last, 6]["accuracy"] < 0.5
    assert all(row["steps"] == rows[0]["steps"] > 100 for row in rows)
    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("\nAfter.\n")
    assert "old" not in text
    assert f"| {by_name[last, 0]['accuracy']:.3f}, " in text


def test_an_unknown_set_is_refused_in_one_line(python, tmp_path):
    done = bench(python, tmp_path, "--sets", "nothing")
    assert done.returncode == 2
    assert "there is no set nothing" in done.stderr
