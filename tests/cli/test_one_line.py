"""Errors of the commands: one line, a status, no traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mlat
from cli_runs import SENSORS, refused, run, write_csv
from mlat.cli.one_line import line_for
from mlat.synthetic import rotating_states


def test_version_and_help():
    assert run("--version")[0] == f"mlat {mlat.__version__}\n"
    listed = run("--help")[0]
    for command in ("demo", "fit", "predict", "inspect"):
        assert re.search(rf"\b{command}\b", listed)


@pytest.mark.skipif(os.name == "nt", reason="no terminals as files")
def test_a_terminal_is_told_that_a_command_is_being_loaded():
    ours, terminal = os.openpty()
    try:
        program = "from mlat.cli import main; main()"
        command = [sys.executable, "-c", program, "inspect", "--help"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=terminal, check=True)
        said = os.read(ours, 100).decode(errors="replace")
    finally:
        os.close(ours)
        os.close(terminal)
    assert said.startswith("loading")
    assert said.endswith(" \r")  # and nothing is left of it
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_without_arguments_it_shows_help():
    out, error = run(status=2)
    assert "Usage: " in out + error


@pytest.mark.parametrize("arguments", [["data", "fetch"], ["bench", "--help"], ["reproduce"]])
def test_commands_of_the_laboratory_say_where_they_went(arguments):
    assert f"a package of its own: mlat-lab {arguments[0]} (" in refused(*arguments)
    assert arguments[0] not in run("--help")[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk"], "No such command 'walk'; see mlat --help"),
        (["--quick"], "--quick"),
        (["fit", "walk.csv"], "Missing option '-o' / '--out'; see mlat fit --help"),
        (["fit", "walk.csv", "--label", "state"], "Missing option"),
        (
            ["fit", "walk.csv", "--label", "state", "-o", "x.mlat", "--width", "0"],
            "--width must be",
        ),
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
            "--width or a larger --stride",
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


COMMAND = [sys.executable, "-c", "from mlat.cli import main; main()"]


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *(str(a) for a in arguments)],
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
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
    assert (process.returncode, error) == (1, "mlat: again.csv: 1 column is ignored: state\n")


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


@pytest.mark.parametrize("module", ["mlat.cli.fit", "mlat.cli.one_line", "typer"])
def test_process_interrupted_while_it_imports(module):
    code = (
        "import sys, mlat.cli\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['mlat', 'fit', '--help']\n"
        "mlat.cli.main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "mlat: interrupted\n")


# Standard streams that are closed, or not for writing


def closing(*streams: int):
    """To be called in the new process: close these streams, as a shell does for ``>&-``."""
    return lambda: [os.close(stream) for stream in streams]


OUTPUT_CLOSED = f"mlat: standard output is closed; send it to a file, or to {os.devnull}\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["predict", "walk.mlat", "again.csv"], 2),
        (["predict", "walk.mlat", "again.csv", "-o", "out.csv"], 0),  # which prints nothing
        *(
            pytest.param(command, 2, marks=pytest.mark.slow)
            for command in (
                ["inspect", "walk.mlat", "--no-pictures"],
                ["--help"],
                ["fit", "--help"],
                ["live", "walk.mlat", "--source", "replay:again.csv"],
            )
        ),
    ],
)
def test_process_with_standard_output_closed(folder, tmp_path, command, status):
    for name in ("walk.mlat", "again.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    process = start(*command, cwd=tmp_path, stdout=None, preexec_fn=closing(1))
    _, error = process.communicate(timeout=240)
    assert process.returncode == status
    assert (error.splitlines(keepends=True)[-1:] == [OUTPUT_CLOSED]) == (status == 2)
    assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_process_with_standard_error_closed_keeps_its_status(folder, closed):
    where = (folder / "walk.mlat", folder / "none.csv")
    process = start("predict", *where, stderr=None, preexec_fn=closing(*closed))
    out, _ = process.communicate(timeout=240)
    assert (process.returncode, out) == (2, "")


def test_process_with_a_standard_error_that_cannot_be_written(folder):
    with open(os.devnull) as unwritable:
        process = start("predict", folder / "walk.mlat", folder / "none.csv", stderr=unwritable)
        out, _ = process.communicate(timeout=240)
    assert (process.returncode, out) == (2, "")


# Help


@pytest.mark.parametrize("command", [[], ["fit"], ["export"], ["evaluate"]])
def test_help_names_no_type_of_a_flag(command):
    told = run(*command, "--help")[0]
    assert "--help" in told
    assert "bool" not in told.lower()


def test_process_interrupted_while_llvm_calls_back(folder, tmp_path):
    code = (
        "import signal, sys\n"
        "from numba.core.codegen import CPUCodeLibrary\n"
        "hook = CPUCodeLibrary._object_compiled_hook\n"
        "def interrupted(*given):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return hook(*given)\n"
        "CPUCodeLibrary._object_compiled_hook = classmethod(\n"
        "    lambda cls, *given: interrupted(*given)\n"
        ")\n"
        "from mlat.cli import main\n"
        "main()\n"
    )
    files = (str(folder / "walk.mlat"), str(folder / "again.csv"))
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", *files],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mlat: interrupted\n")
