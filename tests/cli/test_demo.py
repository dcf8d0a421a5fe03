"""``mlat demo``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli_runs import refused, run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("demo") / "pictures"
    return place, run("demo", "--out", place)[0]


def test_demo_shows_that_order_in_time_is_what_tells(demo):
    rows = re.findall(r"│ .*?(?:step|guessing).*│", demo[1])
    shares = [[float(share) / 100 for share in re.findall(r"([\d.]+)%", row)] for row in rows]
    single, euclidean, lmnn, admm, filtered, together, guessing = (row[0] for row in shares)
    assert guessing == pytest.approx(0.25, abs=0.01)
    for _, balanced, *recall in shares[:-1]:
        assert balanced == pytest.approx(sum(recall) / 4, abs=0.006)
    assert single < 0.32  # chance is 0.25
    assert euclidean < lmnn < min(admm, filtered) - 0.05
    assert single < together
    assert "The committee weighs its experts" in demo[1]
    assert "between different moments" in demo[1]


def test_demo_writes_pictures(demo):
    names = {"overview.png", "stream.png", "blocks.png", "history.png"}
    assert {file.name for file in demo[0].iterdir()} == names
    assert all(name in demo[1] for name in names)
    for name in names:
        assert (demo[0] / name).read_bytes().startswith(b"\x89PNG")


def test_demo_refuses_a_file_in_the_way(in_folder):
    Path("demo").touch()
    assert "demo cannot be a folder" in refused("demo")
