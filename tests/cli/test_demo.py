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


def accuracies(text: str) -> list[float]:
    """The first figure of every system's row."""
    rows = re.findall(r"│ .*?(?:step|chosen by itself).*│", text)
    return [float(re.findall(r"([\d.]+)%", row)[0]) for row in rows]


@pytest.mark.slow
def test_demo_over_seeds_is_the_mean_of_its_tables(in_folder, demo):
    both = run("demo", "--seeds", 2)[0]
    assert "mean of 2 seeds" in both
    first, second = accuracies(demo[1]), accuracies(run("demo", "--seed", 1, "--seeds", 1)[0])
    assert len(first) == 6
    for mean, *parts in zip(accuracies(both), first, second, strict=True):
        assert mean == pytest.approx(sum(parts) / 2, abs=0.11)
    assert not list(in_folder.iterdir()), "no pictures"


def test_demo_refuses_a_file_in_the_way(in_folder):
    Path("demo").touch()
    assert "demo cannot be a folder" in refused("demo")
