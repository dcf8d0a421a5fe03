"""``mlat export``."""

import re
import subprocess
import sys

import numpy as np
import pytest

from cli_runs import refused, run, write_csv
from compiled_c import Compiled
from mlat import Lift, StreamClassifier, load
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
    run("export", model, "--c", tmp_path)
    sketch = tmp_path / "examples" / "state" / "state.ino"
    sketch.write_text("// my own sensor\n")
    (tmp_path / "mlat.h").write_text("")
    _, said = run("export", model, "--c", tmp_path)
    assert "state.ino" in said
    assert sketch.read_text() == "// my own sensor\n"
    assert (tmp_path / "mlat.h").read_text()


def test_the_model_is_not_overwritten(model, tmp_path):
    mine = tmp_path / "mlat.c"
    mine.write_bytes(model.read_bytes())
    assert "is what is read" in refused("export", mine, "--c", tmp_path)
    assert mine.read_bytes() == model.read_bytes()


def test_the_folder_is_a_library_with_examples(model, tmp_path):
    run("export", model, "--c", tmp_path / "lib", "--bits", "8", "--spare", "2", "--prefix", "walk")
    found = {str(p.relative_to(tmp_path / "lib")) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {
        "walk.h", "walk.c", "walk_tables.h", "README.md", "Makefile", "CMakeLists.txt",
        "library.json", "library.properties", "vectors.csv", "examples/state/state.ino",
        "examples/lines/main.c",
    }  # fmt: skip
    assert "#define WALK_SPARE 2" in (tmp_path / "lib/walk.h").read_text()
    assert "walk.mlat, sha256 " in (tmp_path / "lib/README.md").read_text()


@pytest.mark.parametrize("target", ["cortex-m4", "rp2040"])
def test_a_target_says_what_it_takes_and_what_was_given_up(model, target, tmp_path):
    said = " ".join(run("export", model, "--c", tmp_path, "--target", target)[0].split())
    assert re.search(r"about [\d,]+ µs a step at \d+ MHz, estimated from cycles", said)
    assert re.search(r"Of the limits it takes: .*; (flash|RAM|time) binds", said)
    assert bool(re.search(r"time \d+%", said)) != ("how long a step is: --max-us" in said)
    assert "The next step down, to" in said
    same = float(re.search(r"([\d.]+)% of the decisions are those of the model", said)[1])
    least = float(re.search(r"Expect (\d+)% to 100% on new steps", said)[1])
    assert same > 90
    assert 100 - 2.4 * max(100 - same, 1) <= least < same


@pytest.mark.slow
def test_time_is_a_limit(model, tmp_path):
    both = []
    for us in ("1000000", "700"):
        arguments = ["--c", tmp_path, "--target", "cortex-m4", "--max-us", us]
        said = " ".join(run("export", model, *arguments)[0].split())
        both.append(float(re.search(r"about ([\d,]+) µs", said)[1].replace(",", "")))
    assert both[1] <= 700
    assert both[1] <= both[0]


def test_it_fits_where_it_must(tmp_path):
    stream = rotating_states(n_channels=3, run_length=60, runs_per_state=2, random_state=0)
    lift = Lift(["identity", "low_pass", "running_deviation", "difference"], 12)
    model = tmp_path / "walk.mlat"
    StreamClassifier(metric="euclidean", lift=lift, whiten=True).fit(stream).save(model)
    said = run("export", model, "--c", tmp_path, "--bits", "8", "--max-kb", "3")[0]
    assert "references in 8 bits there are" in " ".join(said.split())
    assert float(re.search(r"states: ([\d.]+) kB of tables", said)[1]) <= 3
    said = run("export", model, "--c", tmp_path, "--bits", "8", "--max-kb", "2.5")[0]
    assert "references in 8 bits" in said
    said = run("export", model, "--c", tmp_path, "--max-references", "100")[0]
    assert int(re.search(r"^(\d+) references", said, re.M)[1]) <= 100


def test_the_report_writes_nothing(model, in_folder):
    said = run("export", model, "--report")[0]
    assert "same decisions" in said
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "say what to write"),
        (["--c", "out", "--bits", "7"], "bits must be one of 64, 32, 16, 8"),
        (["--c", "out", "--max-kb", "0.5"], "times the flash that there is"),
        (["--c", "out", "--target", "z80"], "--target must be cortex-m4, esp32"),
        (["--c", "out", "--max-us", "5"], "say which with --target"),
        (["--c", "out", "--prefix", "9x"], "prefix must be a name in C"),
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


@pytest.mark.parametrize("options", [["--bits", "8"], ["--fixed", "--bits", "8", "--max-kb", "30"]])
def test_what_it_says_is_what_the_compiled_library_does(model, options, tmp_path):
    """The figure is of the very tables that are written."""
    fresh = rotating_states(n_channels=3, run_length=200, runs_per_state=1, random_state=5)
    write_csv(tmp_path / "new.csv", fresh)
    out = tmp_path / "c"
    given = ["--on", tmp_path / "new.csv", "--label", "state"]
    said = " ".join(run("export", model, "--c", out, *options, *given)[0].split())
    same, right, of_model = map(
        float,
        re.search(
            r"([\d.]+)% of the decisions are those of the model, .*? ([\d.]+)% are right, of the "
            r"model ([\d.]+)%",
            said,
        ).groups(),
    )
    assert "Expect" not in said  # they were counted
    clf = load(model)
    told = Compiled.of_files(clf, out).push(fresh.values)[0]
    wanted = clf.predict(fresh)
    known = wanted != clf.unknown_
    assert abs(100 * (told == wanted)[known].mean() - same) < 0.4
    assert abs(100 * (told == fresh.states)[known].mean() - right) < 0.4
    assert abs(100 * (wanted == fresh.states)[known].mean() - of_model) < 0.1


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_the_example_beside_a_graph_tells_what_predict_does(model, more, tmp_path):
    pytest.importorskip("onnxruntime")
    run("export", model, "--onnx", tmp_path / "walk.onnx", *more)
    clf = load(model)
    values = rotating_states(n_channels=3, run_length=20, runs_per_state=1, random_state=1).values
    lines = [",".join(clf.channels_), *(",".join(map(str, row)) for row in values)]
    (tmp_path / "walk.csv").write_text("\n".join(lines))
    command = [sys.executable, "walk_example.py", "walk.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    wanted = clf.predict(values)
    wanted[wanted == clf.unknown_] = ""
    assert (np.array(done.stdout.split("\n")[:-1]) == wanted).mean() > 0.97
