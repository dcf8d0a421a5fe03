"""What all benchmarks share."""

import json
import sys
from typing import Annotated

import typer
from typer.testing import CliRunner

from mlat_lab.bench import live
from mlat_lab.bench.harness import Bench, add_ratio, cpu_seconds, run_apart, with_options

ROWS = [
    {"what": "fit", "seconds": 1.2345, "same": 0.5, "exact": True, "_trace": [1, 2]},
    {"what": "a search", "seconds": 2034.5, "same": None, "exact": False},
    {"what": "nothing", "seconds": 3e-7, "n": 12345},
]


def test_a_table_has_a_column_for_each_key_and_text_stands_left(capsys):
    Bench().table("A title", ROWS, percent=("same",))
    shown = capsys.readouterr().out
    assert "A title" in shown
    assert "_trace" not in shown
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert [row for row in cells if row] == [
        ["fit", "1.23", "50.0%", "yes", ""],
        ["a search", "2,034", "", "NO", ""],
        ["nothing", "3e-07", "", "", "12,345"],
    ]
    Bench(markdown=True).table("A title", ROWS[:1], digits={"seconds": 2})
    assert "| fit | 1.2 |" in capsys.readouterr().out


def test_ratios_are_within_what_is_alike():
    rows = [
        {"n": n, "who": who, "s": s}
        for n, who, s in ((1, "we", 2.0), (1, "they", 6.0), (2, "they", 1.0), (1, "gone", None))
    ]
    add_ratio(rows, "x_we", "s", ("who", "we"), ["n"])
    assert [row["x_we"] for row in rows] == [1.0, 3.0, None, None]


def test_options_of_its_own_and_of_all(tmp_path):
    def benchmark(bench: Bench, size: Annotated[int, typer.Option(min=1)] = 3) -> None:
        """Measure a size."""
        bench.say("measuring")
        bench.keep([{"size": size}])
        bench.table("Sizes", bench.figures)

    app = typer.Typer()
    app.command()(with_options(benchmark))
    said = CliRunner().invoke(app, ["--help"]).output
    assert "Measure a size" in said
    assert all(option in said for option in ("--size", "--json", "--out", "--markdown"))
    done = CliRunner().invoke(app, ["--size", "7", "--json", "--out", str(tmp_path / "out.json")])
    assert json.loads(done.stdout) == [{"size": 7}]
    assert "measuring" in done.stderr
    assert "Sizes" in done.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == [{"size": 7}]


def test_the_first_call_is_not_timed():
    calls = []
    assert len(cpu_seconds(lambda: calls.append(1), 2)) == 2
    assert len(calls) == 3


def test_a_system_that_fails_in_its_process_is_said():
    assert "tslearn failed in" in str(run_apart("tslearn", {}, sys.executable))


def test_a_table_says_which_figure_is_a_goal_and_fits_in_a_hundred_columns(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = "short brute product read long_few long session session_long committee committee_long"
    steps = dict.fromkeys(names.split(), 1234.5)
    more = {"n_references": 2505, "n_experts": 3, "snapshot": 98_000, "one_snapshot": 40_000}
    live.show_steps(steps | more | {"n_bytes": 1_000_000}, Bench())
    shown = capsys.readouterr().out
    assert "goal" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown
