"""``mlat export``."""

import re

import pytest

from cli_runs import refused, run
from mlat import Lift, StreamClassifier
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    stream = rotating_states(n_channels=3, run_length=60, runs_per_state=2, random_state=0)
    file = tmp_path_factory.mktemp("export") / "walk.mlat"
    StreamClassifier().fit(stream).save(file)
    return file


def test_the_library_is_written(model, tmp_path):
    said = run("export", model, "--c", tmp_path / "c")[0]
    assert re.search(
        r"4 states: [\d.]+ kB of tables, [\d.]+ kB RAM .* multiplications a step", said
    )
    assert "mlat_push" in (tmp_path / "c" / "mlat.h").read_text()
    assert (tmp_path / "c" / "mlat.c").stat().st_size > 1000


def test_whole_numbers_say_how_they_round(model, tmp_path):
    arguments = ["--fixed", "--far", "3", "--dead", "--spare", "2", "--new-states", "1"]
    said = run("export", model, "--c", tmp_path, *arguments)[0]
    assert re.search(r"off by at most \d[\d.e-]*\s+of\s+its\s+typical\s+one", said)
    header = (tmp_path / "mlat.h").read_text()
    assert "int32_t mlat_real" in header
    assert "#define MLAT_STATES 5" in header


def test_a_sketch_that_was_edited_is_kept(model, tmp_path):
    run("export", model, "--arduino", tmp_path)
    sketch = tmp_path / "examples" / "state" / "state.ino"
    sketch.write_text("// my own sensor\n")
    (tmp_path / "src" / "mlat.h").write_text("")
    _, said = run("export", model, "--arduino", tmp_path)
    assert "state.ino" in said
    assert sketch.read_text() == "// my own sensor\n"
    assert (tmp_path / "src" / "mlat.h").read_text()


def test_the_model_is_not_overwritten(model, tmp_path):
    mine = tmp_path / "mlat.c"
    mine.write_bytes(model.read_bytes())
    assert "is what is read" in refused("export", mine, "--c", tmp_path)
    assert mine.read_bytes() == model.read_bytes()


def test_the_arduino_library_has_its_places(model, tmp_path):
    run("export", model, "--arduino", tmp_path / "lib", "--bits", "8", "--spare", "2")
    found = {str(p.relative_to(tmp_path / "lib")) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {
        "library.properties", "src/mlat.h", "src/mlat.c", "examples/state/state.ino"
    }  # fmt: skip
    assert "#define MLAT_SPARE 2" in (tmp_path / "lib/src/mlat.h").read_text()


def test_it_fits_where_it_must(tmp_path):
    stream = rotating_states(n_channels=3, run_length=60, runs_per_state=2, random_state=0)
    lift = Lift(["identity", "low_pass", "running_deviation", "difference"], 12)
    model = tmp_path / "walk.mlat"
    StreamClassifier(metric="euclidean", lift=lift, whiten=True).fit(stream).save(model)
    said = run("export", model, "--c", tmp_path, "--bits", "8", "--max-kb", "3")[0]
    assert re.search(r"Kept \d+ of \d+ references; [\d.]+% of the decisions stay the same", said)
    assert float(re.search(r"states: ([\d.]+) kB of tables", said)[1]) <= 3
    said = run("export", model, "--c", tmp_path, "--bits", "8", "--max-kb", "2.5")[0]
    assert "Slow features are stored at one step of" in said
    said = run("export", model, "--c", tmp_path, "--max-references", "100")[0]
    assert int(re.search(r"^(\d+) references", said, re.M)[1]) <= 100


def test_the_report_writes_nothing(model, in_folder):
    said = run("export", model, "--report")[0]
    assert "same decisions" in said
    assert re.search(r"--incremental has [\d.]+ kB RAM and [\d,]+ products a step", said)
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "say what to write"),
        (["--c", "out", "--bits", "7"], "bits must be one of 64, 32, 16, 8"),
        (["--c", "out", "--max-kb", "0.5"], "store fewer bits"),
        (["--c", "out", "--fixed", "--bits", "32"], "stored in 16 or 8 bits"),
        (["--c", "out", "--new-states", "1"], "at least as many spare references"),
        (["--c", "file/out"], "a file of that name is in the way"),
    ],
)
def test_what_cannot_be_is_one_line(model, in_folder, arguments, says):
    (in_folder / "file").write_text("")
    assert says in refused("export", model, *arguments)
    assert not (in_folder / "out").exists()


def test_what_is_no_model_exports_nothing(tmp_path):
    (tmp_path / "x.mlat").write_bytes(b"no model")
    assert "is not an mlat model" in refused("export", tmp_path / "x.mlat", "--c", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_onnx_is_written(model, tmp_path):
    pytest.importorskip("onnx")
    said = run("export", model, "--onnx", tmp_path / "walk.onnx", "--max-references", "100")[0]
    assert "kB of ONNX, windows at a time" in said
    said = run("export", model, "--onnx", tmp_path / "live.onnx", "--stream", "--filtered")[0]
    assert "one step of a stream at a time" in said
    assert b"belief" in (tmp_path / "live.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--onnx", "x.onnx", "--spare", "2"], "cannot be taught"),
        (["--onnx", "x.onnx", "--every", "4"], "has all steps"),
        (["--onnx", "x.onnx", "--fixed"], "are for floating point"),
        (["--onnx", "x.onnx", "--dead"], "dead channels are not in the graph"),
        (["--onnx", "x.onnx", "--filtered"], "the state filter needs the past of a stream"),
        (["--c", "out", "--stream"], "--stream is a choice of --onnx"),
        (["--onnx", "nowhere/x.onnx"], "there is no folder"),
    ],
)
def test_what_onnx_cannot_say_is_one_line(model, in_folder, arguments, says):
    pytest.importorskip("onnx")
    assert says in refused("export", model, *arguments)
    assert list(in_folder.iterdir()) == []
