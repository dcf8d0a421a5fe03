"""Places to write to are checked before the long work, and inputs are never overwritten."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from cli_runs import refused, run


def test_a_place_that_cannot_be_written_is_refused_before_reading(in_folder):
    assert "there is no folder" in refused("fit", "no.csv", "--label", "a", "-o", "no/x.mlat")
    assert "is a folder" in refused("fit", "no.csv", "--label", "a", "-o", ".")


@pytest.mark.parametrize("through_a_link", [False, True])
def test_what_is_read_is_never_overwritten(folder, tmp_path, through_a_link):
    files = {}
    for name in ("walk.csv", "walk.mlat"):
        files[name] = tmp_path / name
        files[name].write_bytes((folder / name).read_bytes())
    before = {name: file.read_bytes() for name, file in files.items()}
    stream, model = files.values()
    targets = {stream: stream, model: model}
    if through_a_link:
        for file in files.values():
            targets[file] = tmp_path / f"link-to-{file.stem}{file.suffix}"
            targets[file].symlink_to(file)
    line = "is what is read; choose another file to write to"
    assert line in refused("fit", stream, "--label", "state", "-o", targets[stream])
    assert line in refused("predict", model, stream, "-o", targets[stream])
    renamed = tmp_path / "model.csv"  # a kind of file that states can be written to
    renamed.write_bytes(before["walk.mlat"])
    assert line in refused("predict", renamed, stream, "-o", renamed)
    drawn = tmp_path / "stream.png"
    drawn.write_bytes(before["walk.mlat"])
    assert line in refused("explain", drawn, stream, "-o", drawn)
    assert {name: file.read_bytes() for name, file in files.items()} == before


def test_a_file_of_a_folder_or_pattern_that_is_read_is_never_overwritten(folder, in_folder):
    (in_folder / "days").mkdir()
    days = [in_folder / "days" / name for name in ("monday.csv", "tuesday.csv")]
    for day in days:
        day.write_bytes((folder / "walk.csv").read_bytes())
    for given in ("days", "days/*.csv"):
        said = refused("fit", given, "--label", "state", "-o", "days/tuesday.csv")
        assert "is what is read" in said
    assert days[0].read_bytes() == days[1].read_bytes()


@pytest.mark.parametrize("command", ["fit", "enrol", "predict"])
def test_a_file_of_another_kind_is_not_overwritten(folder, in_folder, command):
    """A slip of the keyboard must not cost a recording, or labels made by hand."""
    others = {name: (folder / "walk.csv").read_bytes() for name in ("tuesday.csv", "tuesday.mlat")}
    others["labels.csv"] = b"start,end,state\n0,9,walk\n"
    others["other.csv.gz"] = gzip.compress(others["labels.csv"])
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, 2.0]}), "other.parquet")
    others["other.parquet"] = Path("other.parquet").read_bytes()
    model, stream, label = folder / "walk.mlat", folder / "walk.csv", ["--label", "state"]
    arguments = {
        "fit": [stream, *label, "--metric", "euclidean"],
        "enrol": [model, stream, *label],
        "predict": [model, stream],
    }[command]
    for name, content in others.items():
        if command == "predict" and name.endswith(".mlat"):
            continue
        Path(name).write_bytes(content)
        assert "is of another kind" in refused(command, *arguments, "-o", name), name
        assert Path(name).read_bytes() == content
    for name in ("new.csv.gz", "new.parquet", "new.tsv") if command == "predict" else ("new",):
        Path(name).write_bytes(b"")
        for _ in range(2):  # what it wrote itself is written over
            run(command, *arguments, "-o", name)
