"""The commands, mostly in this process; what only a process of its own shows, in one."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from mlat.cli import screen
from mlat.cli.one_line import line_for
from mlat.progress import report
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labelled stream, a second one of the same sensors, and a model of the first."""
    place = tmp_path_factory.mktemp("cli")
    write_csv(place / "walk.csv", rotating_states(**SENSORS))
    write_csv(place / "again.csv", rotating_states(**SENSORS, random_state=1))
    where = ["--label", "state", "--width", WIDTH, "-o", place / "walk.mlat"]
    run("fit", place / "walk.csv", "--metric", "mlat", *where)
    return place


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The command itself


def test_version_and_help():
    assert run("--version")[0] == f"mlat {mlat.__version__}\n"
    listed = run("--help")[0]
    for command in ("demo", "fit", "predict", "inspect", "data", "bench", "reproduce"):
        assert re.search(rf"\b{command}\b", listed)


@pytest.mark.parametrize("arguments", [[], ["data"], ["bench"]])
def test_without_arguments_it_shows_help(arguments):
    out, error = run(*arguments, status=2)
    assert "Usage: " in out + error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk"], "No such command 'walk'; see mlat --help"),
        (["--quick"], "--quick"),
        (["fit", "walk.csv", "-o", "x.mlat"], "Missing option '--label'; see mlat fit --help"),
        (["fit", "walk.csv", "--label", "state"], "Missing option"),
        (["fit", "walk.csv", "--label", "state", "-o", "x.mlat", "--width", "0"], "'--width'"),
        (["fit", "walk.csv", "--label", "state", "-o", "x.mlat", "--solver", "sgd"], "'sgd'"),
        (["predict", "walk.mlat"], "STREAM"),
    ],
)
def test_wrong_usage_is_said_in_one_line(arguments, words):
    assert words in refused(*arguments)


def test_an_error_in_the_program_is_not_taken_for_bad_input():
    assert line_for(RuntimeError("a bug")) is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (mlat.InputError("no\nsuch  thing"), "no such thing"),
        (
            MemoryError("Unable to allocate 8 TiB"),
            "not enough memory (Unable to allocate 8 TiB); take fewer channels, a smaller "
            "--width or a larger --step",
        ),
        (
            OSError(28, "No space left on device", "out.csv"),
            "out.csv: No space left on device; free some space, or choose another place",
        ),
        (OSError("strange\nand long"), "strange"),
        (PermissionError(), "PermissionError"),
    ],
)
def test_errors_in_words(error, line):
    assert line_for(error) == line


# fit


def test_fit_says_what_it_learned_from(folder, tmp_path):
    stream = rotating_states(**SENSORS)
    values, states = stream.values.copy(), stream.states.copy()
    values[3, 1] = np.nan  # leaves a run of three steps
    states[100:104] = ""
    file = write_csv(tmp_path / "gaps.csv", mlat.Stream(values, states, channels=stream.channels))
    where = ["--label", "state", "-o", tmp_path / "m.mlat", "--width", WIDTH]
    out, error = run("fit", file, "--metric", "mlat", *where)
    assert error == ""
    assert "480 steps of 4 channels: sensor 1, sensor 2, sensor 3, sensor 4" in out
    assert (
        "Left out: 4 steps without a state, 1 step with a missing value, "
        "3 steps in runs of fewer than 8 steps."
    ) in out
    assert re.search(r"forwards +│ +3 │ +120 │ +102 ", out)  # 60 - 4 - 7 and 60 - 7
    assert re.search(r"MLAT, solver filter: loss [\d.]+ → [\d.]+, \d+ iterations in [\d.]+ s", out)
    assert re.search(r"Model: .*m\.mlat \([\d.]+ kB\)", out)


@pytest.mark.parametrize(
    ("options", "metric", "says"),
    [
        (["--metric", "euclidean"], None, "nothing is learned"),
        (["--metric", "lmnn", "--gap", "8"], mlat.LMNN, "LMNN: loss"),
        (
            ["--metric", "mlat", "--solver", "admm", "--step", "6", "--targets", "1"],
            mlat.MLAT,
            "solver admm",
        ),
    ],
)
def test_fit_by_every_metric(folder, tmp_path, options, metric, says):
    model = tmp_path / "m.mlat"
    where = ["--label", "state", "--width", "4", "-o", model]
    assert says in run("fit", folder / "walk.csv", *where, *options)[0]
    assert isinstance(mlat.load(model).metric_, metric or type(None))


def test_fit_passes_its_options_on(folder, tmp_path):
    model = tmp_path / "m.mlat"
    options = [
        "--metric=mlat",
        "--shrinkage=2.5",
        "--neighbors=3",
        "--step=4",
        "--targets=2",
        "--width=5",
    ]
    chosen = ["--channels", "sensor 3,sensor 1", "--channels", "sensor 2"]
    chosen += ["--lift", "rectified,low_pass", "--reach", "7", "--whiten", "--unknown-rate=0.02"]
    run("fit", folder / "walk.csv", "--label", "state", *options, *chosen, "-o", model)
    classifier = mlat.load(model)
    assert (classifier.width, classifier.step, classifier.n_neighbors) == (5, 4, 3)
    assert classifier.channels_ == ("sensor 3", "sensor 1", "sensor 2")
    assert (classifier.metric_.shrinkage, classifier.metric_.n_targets) == (2.5, 2)
    assert list(classifier.features_.lift.maps) == ["rectified", "low_pass"]
    assert classifier.features_.lift.reach == 7
    assert classifier.features_.mixing.shape == (6, 6)
    assert classifier.unknown_rate == 0.02
    assert np.isfinite(classifier.confidence_.threshold)


def test_fit_reads_recordings_time_and_unlabelled(tmp_path):
    stream = rotating_states(**SENSORS)
    steps = np.arange(len(stream))
    file = write_csv(tmp_path / "s.csv", stream, t=steps + 5.0 * (steps >= 30), rec=steps // 240)
    model = tmp_path / "m.mlat"
    where = ["--label", "state", "--time", "t", "--recording", "rec", "-o", model]
    where += ["--metric", "euclidean"]
    out, _ = run("fit", file, *where, "--unlabelled", "fast")
    assert "of 4 channels" in out
    assert "120 steps without a state" in out
    assert re.search(r"forwards +│ +3 ", out)  # the gap in time parts a run
    assert mlat.load(model).classes_.tolist() == ["backwards", "forwards", "still"]
    assert re.search(r"forwards +│ +2 ", run("fit", file, *where, "--max-gap", "7")[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "stat"], "did you mean 'state'?"),
        (
            ["--label", "state", "--metric", "lmnn", "--gap", "near"],
            '--gap must be "run" or a whole number',
        ),
        (["--label", "state", "--width", "900"], "choose a width of at most 60"),
        (["--label", "state", "--channels", "sensor 1,,sensor 2"], "has an empty name"),
        (["--label", "state", "--max-gap", "3"], "needs the time of the steps (time)"),
        (["--label", "sensor 1"], "column 'state'"),
    ],
)
def test_fit_refuses(folder, in_folder, options, words):
    assert words in refused("fit", folder / "walk.csv", *options, "-o", "x.mlat")
    assert not list(in_folder.iterdir())


def test_fit_names_the_line_and_an_option_as_remedy(in_folder):
    Path("s.csv").write_text("a,note,state\n1,2,x\n2,oops,x\n")
    line = refused("fit", "s.csv", "--label", "state", "-o", "x.mlat")
    assert "s.csv, line 3" in line
    assert "'note'" in line
    assert "name the columns to use (channels)" in line


def test_fit_refuses_a_column_without_states(in_folder):
    Path("s.csv").write_text("a,state\n1,\n2,\n")
    line = refused("fit", "s.csv", "--label", "state", "-o", "x.mlat")
    assert "column 'state' names no state" in line


def test_a_place_that_cannot_be_written_is_refused_before_reading(in_folder):
    assert "there is no folder" in refused("fit", "no.csv", "--label", "a", "-o", "no/x.mlat")
    assert "is a folder" in refused("fit", "no.csv", "--label", "a", "-o", ".")


def test_a_failed_fit_leaves_the_old_model(folder, tmp_path):
    model = tmp_path / "old.mlat"
    model.write_bytes(b"old")
    refused("fit", folder / "walk.csv", "--label", "state", "--width", "900", "-o", model)
    assert model.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [model]


def test_warnings_are_one_line(tmp_path):
    stream = rotating_states(**SENSORS)
    states = stream.states.copy()
    states[:3] = "short"
    file = write_csv(
        tmp_path / "s.csv", mlat.Stream(stream.values, states, channels=stream.channels)
    )
    where = ["--label", "state", "-o", tmp_path / "m.mlat", "--metric", "euclidean"]
    _, error = run("fit", file, *where)
    assert re.fullmatch(r"mlat: warning: no run of short is 10 steps long, .*\n", error)


def test_names_are_not_markup(in_folder):
    values = np.random.default_rng(0).normal(size=(40, 1))
    stream = mlat.Stream(values, ["[bold]a[/bold]"] * 20 + [":cat:"] * 20, channels=["[x"])
    write_csv(Path("s.csv"), stream)
    out, _ = run("fit", "s.csv", "--label", "state", "-o", "m.mlat", "--metric", "euclidean")
    assert "[bold]a[/bold]" in out
    assert ":cat:" in out
    assert "1 channels: [x" in out


# predict


def test_predict_is_what_the_library_predicts(folder):
    out, error = run("predict", folder / "walk.mlat", folder / "again.csv")
    assert error == ""
    rows = list(csv.DictReader(out.splitlines()))
    again = rotating_states(**SENSORS, random_state=1)
    predicted = mlat.load(folder / "walk.mlat").predict(again)
    assert [row["predicted"] for row in rows] == predicted.tolist()


def test_predict_scores_where_the_stream_has_states(folder, tmp_path):
    file = tmp_path / "states.csv"
    model, again = folder / "walk.mlat", folder / "again.csv"
    out, error = run("predict", model, again, "--label", "state", "-o", file)
    assert out == ""
    score = mlat.load(model).score(mlat.read_stream(again, label="state"))
    assert f"Accuracy {score:.1%}: " in error
    assert "most often taken for" in error
    assert "predicted →" in error
    assert file.read_text() == run("predict", model, again, "--label", "state")[0]
    counted = [int(n) for n in re.findall(r"│ +(\d+)(?= │)", error.split("Confusions")[1])]
    assert sum(counted) == len(rotating_states(**SENSORS)) - WIDTH + 1


def test_predict_chooses_columns_by_the_model(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    turned = mlat.Stream(again.values[:, ::-1], again.states, channels=again.channels[::-1])
    notes = ["x"] * len(again)
    file = write_csv(tmp_path / "s.csv", turned, note=notes)
    expected = run("predict", folder / "walk.mlat", folder / "again.csv")[0]
    assert run("predict", folder / "walk.mlat", file)[0] == expected


def test_predict_with_other_names(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    renamed = mlat.Stream(again.values, again.states, channels=list("abcd"))
    file = write_csv(tmp_path / "s.csv", renamed)
    expected = run("predict", folder / "walk.mlat", folder / "again.csv")[0]
    assert run("predict", folder / "walk.mlat", file, "--channels", "a,b,c,d")[0] == expected
    line = refused("predict", folder / "walk.mlat", file)
    assert "no column 'sensor 1' (channels)" in line
    line = refused("predict", folder / "walk.mlat", file, "--channels", "a,b")
    assert "--channels names 2 columns" in line
    assert "learned on 4 channels: sensor 1, sensor 2" in line


def test_predict_judges_states_the_model_never_saw_as_wrong(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    states = np.where(again.states == "still", "resting", again.states)
    file = write_csv(tmp_path / "s.csv", mlat.Stream(again.values, states, channels=again.channels))
    _, error = run("predict", folder / "walk.mlat", file, "--label", "state")
    assert "The model never saw resting" in error
    assert re.search(r"resting +│ +120 │ +0\.0%", error)


def test_predict_refuses_numbers_for_names(folder, tmp_path):
    again = rotating_states(**SENSORS, random_state=1)
    file = write_csv(
        tmp_path / "s.csv", mlat.Stream(again.values, again.codes, channels=again.channels)
    )
    line = refused("predict", folder / "walk.mlat", file, "--label", "state")
    assert "the model's states are names: backwards, fast" in line


def test_predict_without_a_complete_window(folder, tmp_path):
    short = rotating_states(**SENSORS)[: WIDTH - 1]
    file = write_csv(tmp_path / "s.csv", short)
    out, error = run("predict", folder / "walk.mlat", file, "--label", "state")
    assert error == "No score: no labelled step ends a complete window of 8 steps.\n"
    assert all(row["predicted"] == "" for row in csv.DictReader(out.splitlines()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk.csv", "again.csv"], "is not an mlat model"),
        (["none.mlat", "again.csv"], "none.mlat cannot be read"),
        (["walk.mlat", "none.csv"], "none.csv is not there"),
        (["walk.mlat", "again.csv", "-o", "out.txt"], "out.txt is of no known kind"),
        (["walk.mlat", "again.csv", "-o", "no/out.csv"], "there is no folder"),
    ],
)
def test_predict_refuses(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert words in refused("predict", *arguments)
    assert sorted(folder.iterdir()) == before


def test_predict_many_states_without_confusions(in_folder):
    states = np.repeat(np.arange(20), 10)
    values = states[:, None] + np.random.default_rng(0).normal(size=(200, 1)) * 0.1
    write_csv(Path("s.csv"), mlat.Stream(values, states))
    where = ["--label", "state", "--width", "2", "-o", "m.mlat", "--metric", "euclidean"]
    run("fit", "s.csv", *where)
    _, error = run("predict", "m.mlat", "s.csv", "--label", "state")
    assert "By state" in error
    assert "Confusions" not in error


# inspect


def test_inspect_tells_and_draws(folder, in_folder):
    out, error = run("inspect", folder / "walk.mlat")
    assert error == ""
    assert "windows of 8 steps of 4 channels" in out
    assert "Metric: MLAT, solver filter: block Toeplitz." in out
    assert re.search(r"Eigenvalues: .*effective rank [\d.]+ of 32", out)
    assert out.count("━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ │") >= 2  # the full bars
    pictures = in_folder / "walk-pictures"
    drawn = sorted(p.name for p in pictures.iterdir())
    assert drawn == ["blocks.png", "history.png", "usage.png"]


def test_inspect_without_pictures(folder, in_folder):
    run("inspect", folder / "walk.mlat", "--no-pictures")
    assert not list(in_folder.iterdir())


def test_inspect_other_metrics(folder, in_folder):
    stream = mlat.read_stream(folder / "walk.csv", label="state")
    for name, metric in {
        "euclidean": "euclidean",
        "lmnn": mlat.LMNN(max_iter=2),
        "admm": mlat.MLAT(solver="admm", max_iter=2),
    }.items():
        mlat.StreamClassifier(4, metric=metric, step=4).fit(stream).save(f"{name}.mlat")
    out, _ = run("inspect", "euclidean.mlat")
    assert "Nothing was learned" in out
    assert not Path("euclidean-pictures").exists()
    out, _ = run("inspect", "lmnn.mlat", "--out", "a/b")
    assert re.search(r"LMNN: not block Toeplitz, relative residual [\d.]+;", out)
    assert Path("a/b/blocks.png").stat().st_size
    out, _ = run("inspect", "admm.mlat", "--no-pictures")
    assert "solver admm: block Toeplitz up to a relative residual of" in out
    assert "not converged: the iteration limit was reached" in out


def test_inspect_wide_windows_and_single_steps(in_folder):
    stream = rotating_states(n_channels=8, run_length=300, runs_per_state=1)
    for width in (260, 1):
        metric = mlat.MLAT(max_iter=1)
        mlat.StreamClassifier(width, metric=metric, step=20).fit(stream).save(f"{width}.mlat")
    out, _ = run("inspect", "260.mlat")
    assert "Eigenvalues: left out, for the matrix would have 2080 by 2080 entries" in out
    assert "│ 0–10 " in out
    assert "Windows of one step have no lags" in run("inspect", "1.mlat")[0]


def test_inspect_refuses_a_file_in_the_way(folder, in_folder):
    Path("taken").touch()
    _, error = run("inspect", folder / "walk.mlat", "--out", "taken", status=2)
    assert error.startswith("mlat: taken cannot be a folder")


# demo and bench


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("demo") / "pictures"
    return place, run("demo", "--out", place)[0]


def test_demo_shows_that_order_in_time_is_what_tells(demo):
    told = [float(share) / 100 for share in re.findall(r"│ +([\d.]+)% │", demo[1])]
    single, euclidean, lmnn, admm, filtered, chosen = told
    assert single < 0.32  # chance is 0.25
    assert euclidean < lmnn < min(admm, filtered) - 0.05
    assert single < chosen
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


def test_bench_hands_everything_on(monkeypatch):
    assert "--peer-python" in run("bench", "dtw", "--help")[0]
    assert "no case named 'x'" in refused("bench", "dtw", "--case", "x")
    assert "No such option: --nope" in refused("bench", "dtw", "--nope")
    monkeypatch.setitem(sys.modules, "mlat.lab.bench.dtw", None)
    assert "the benchmark dtw lacks itself" in refused("bench", "dtw")


# What the screen shows


def test_a_bar_on_a_terminal_and_nothing_elsewhere(monkeypatch, capsys):
    def work() -> None:
        with screen.working("learning"):
            for step in range(3):
                report("MLAT", step, 3, {"objective": 0.125})

    work()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    work()
    shown = capsys.readouterr().err
    assert "learning, MLAT" in shown
    assert "loss 0.125" in shown
    monkeypatch.setenv("TERM", "dumb")
    work()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("n_bytes", "said"), [(999, "999 bytes"), (52_100, "52.1 kB"), (3_000_000_000, "3.0 GB")]
)
def test_sizes(n_bytes, said):
    assert screen.size_of(n_bytes) == said


# In a process of its own

COMMAND = [sys.executable, "-c", "from mlat.cli import main; main()"]


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *(str(a) for a in arguments)],
        text=True,
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **options},
    )


def test_process_ends_with_status_and_one_line(folder):
    process = start("predict", folder / "walk.mlat", folder / "none.csv")
    out, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out == ""
    assert re.fullmatch(r"mlat: .*none\.csv is not there;.*\n", error)


def test_process_on_a_narrow_screen_without_unicode(folder):
    env = os.environ | {"COLUMNS": "20", "TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    process = start("inspect", folder / "walk.mlat", "--no-pictures", env=env)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    assert out.isascii()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_process_on_a_full_disk(folder):
    with Path("/dev/full").open("w") as full:
        process = start("inspect", folder / "walk.mlat", "--no-pictures", stdout=full)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert error == "mlat: No space left on device; free some space, or choose another place\n"


def test_process_whose_reader_has_seen_enough(folder, tmp_path):
    read, write = os.pipe()
    os.close(read)
    process = start("predict", folder / "walk.mlat", folder / "again.csv", stdout=write)
    os.close(write)
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (1, "")


def test_process_interrupted_leaves_nothing(folder, tmp_path):
    ready = tmp_path / "ready"
    code = (
        "import pathlib, time, mlat.cli\n"
        "from mlat.metric.estimators import MLAT\n"
        "def stuck(self, problem):\n"
        f"    pathlib.Path({str(ready)!r}).touch(); time.sleep(60)\n"
        "MLAT._solve = stuck\n"
        "mlat.cli.main()\n"
    )
    place = tmp_path / "out"
    place.mkdir()
    where = ["--label", "state", "--metric", "mlat", "-o", str(place / "m.mlat")]
    command = [sys.executable, "-c", code, "fit", str(folder / "walk.csv"), *where]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "mlat: interrupted\n"
    assert not list(place.iterdir())


def test_process_of_a_benchmark_interrupted(tmp_path):
    ready = tmp_path / "ready"
    code = (
        "import pathlib, sys, time, mlat.cli\n"
        "from mlat.lab.bench import dtw\n"
        "def stuck():\n"
        f"    pathlib.Path({str(ready)!r}).touch(); time.sleep(60)\n"
        "dtw.main = stuck\n"
        "sys.argv = ['mlat', 'bench', 'dtw']\n"
        "mlat.cli.main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], text=True, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert (run.returncode, error) == (130, "mlat: interrupted\n")


def test_process_interrupted_while_it_imports():
    code = (
        "import sys, mlat.cli\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mlat.cli.fit': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['mlat', '--help']\n"
        "mlat.cli.main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "mlat: interrupted\n")


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
