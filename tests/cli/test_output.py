"""Places to write to are checked before the long work, and inputs are never overwritten."""

from __future__ import annotations

import pytest

from cli_runs import refused


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
