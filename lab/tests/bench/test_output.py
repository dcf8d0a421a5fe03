import json

from rich.console import Console

from mlat_lab.bench import dtw, fit, live, scale, scale_spark
from mlat_lab.bench.output import bench_console, table, write_json


def test_a_table_shows_its_rows_and_text_stands_left(tmp_path):
    with (tmp_path / "table.txt").open("w") as text:
        console = Console(file=text, width=60)
        console.print(table("A title", ("what", "seconds"), [("fit", "1"), ("a search", "20")]))
    shown = (tmp_path / "table.txt").read_text()
    assert "A title" in shown
    assert "fit      │       1" in shown


def test_measurements_are_written_where_a_path_is_given(tmp_path):
    write_json(None, [1])
    write_json(tmp_path / "out.json", [{"seconds": 1.5}])
    assert json.loads((tmp_path / "out.json").read_text()) == [{"seconds": 1.5}]
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_every_table_fits_in_a_hundred_columns(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    fits = [
        fit.Fit(str(fit.SIZES["C"]), system, 1234.5, 1.0, 12345.0, 1000, 123.45, to_peer=1234.5)
        for system in (*fit.OURS, *fit.PEERS)
    ]
    scaled = [
        scale.ClusterFit(
            "a problem", "filter", where, 10, 123.4, 12.34, 12.34, 1e7, 1000, 1e4, 1, x
        )
        for where, x in (("local", None), ("2 workers", 1e-12))
    ]
    queries = [
        scale_spark.Query(
            *(store, search, 10_000, 100, 123.45, 1e6, 1e6, 12.34, 12.34, 12_345, 123_456, 123_456)
        )
        for store in ("memory", "rocksdb")
        for search in ("incremental", "exact")
    ]
    searches = [
        dtw.Search("stream", 27, 3500, 2000, "aeon-pairwise", "1.2.10", 1234.567, 1234.5, True)
    ]
    tables = {
        "fit": lambda console: fit.show(fits, console),
        "scale": lambda console: scale.show(scaled, console),
        "spark": lambda console: scale_spark.show(queries, console, "Keyed streams"),
        "dtw": lambda console: dtw._show(searches, console),
    }
    for name, show in tables.items():
        with (tmp_path / name).open("w") as text, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", text)
            show(bench_console())
        rows = [line for line in (tmp_path / name).read_text().splitlines() if line[:1] == "│"]
        assert all(len(line) <= 100 for line in rows)
        # A row that had no room would go on in a line whose first cell is empty.
        assert all(line[1:].partition("│")[0].strip() for line in rows), name
        assert not any("…" in line for line in rows), name
        assert len(rows) == {"fit": 6, "scale": 2, "spark": 4, "dtw": 1}[name]


def test_a_table_says_which_figure_is_a_goal(capsys):
    times = (100, 500, 50, 120, 130, 140, 150, 280, 290)
    live.show_steps(live.Steps(*times, 1_000_000, 2505, 3, 98_000, 40_000), Console())
    assert "goal" in capsys.readouterr().out
