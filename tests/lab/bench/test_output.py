import json

from rich.console import Console

from mlat.lab.bench.output import table, write_json


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
