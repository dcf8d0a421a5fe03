"""What is written beside the library, compiled and run: it says what ``predict`` says."""

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from export_models import FRESH, TRAIN
from mlat import Stream, StreamClassifier
from mlat.export import PlainModel, write_c
from mlat.export.folder import c_folder

COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
HERE = Path(__file__).parent

# Readings of an analogue pin: whole numbers.
PINS = [np.rint(512 + 100 * one.values) for one in (TRAIN, FRESH)]
CLF = StreamClassifier(width=5, reach=6).fit(Stream(PINS[0], TRAIN.states))
# All options that change what a program sees of the library.
NUMBERS = [{"bits": 64}, {"bits": 32}, {"bits": 8}]
NUMBERS += [{"bits": bits, "fixed": True} for bits in (16, 8)]
TEACH_AT = 60
INTERFACES = [
    {**numbers, "spare": spare, "new_states": spare // 2, "dead": dead, "filtered": dead}
    for numbers, spare, dead in product(NUMBERS, (0, 2), (False, True))
]


def write(folder, prefix="mlat", **options):
    code = write_c(PlainModel.of(CLF), **options)
    more = {"filtered": options.get("filtered", False), "prefix": prefix}
    files = c_folder(code, CLF, np.arange(len(CLF.references_)), about="A model.", **more)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("options", INTERFACES, ids=lambda one: "-".join(map(str, one.values())))
def test_make_check_passes_and_lines_are_what_predict_says(options, tmp_path):
    write(tmp_path, **options)
    strict = "CFLAGS=-std=c99 -pedantic -O1 -Wall -Wextra -Werror -fsanitize=undefined,address"
    done = subprocess.run(["make", "-s", strict, "check"], cwd=tmp_path, capture_output=True)
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    n, of = map(int, re.search(r"(\d+) of (\d+) states are as expected", said).groups())
    assert n == of > 150
    lines = "\n".join(",".join(map(str, row)) for row in PINS[1])
    told = subprocess.run(
        [tmp_path / "lines"], input=lines, capture_output=True, text=True, check=True
    ).stdout.split("\n")[:-1]
    wanted = CLF.predict(Stream(PINS[1]), filtered=options["filtered"])
    assert len(told) == len(wanted)
    assert (np.array(told) == wanted).mean() >= (0.9 if options["bits"] == 8 else 0.99)


def test_a_check_that_is_not_passed_fails(tmp_path):
    write(tmp_path, bits=32)
    rows = (tmp_path / "vectors.csv").read_text().splitlines()
    changed = [row.rsplit(",", 1)[0] + ",9" if row[0] != "#" else row for row in rows]
    (tmp_path / "vectors.csv").write_text("\n".join(changed) + "\n")
    done = subprocess.run(["make", "-s", "check"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0


def test_two_models_link_into_one_program(tmp_path):
    for prefix in ("walk", "sit"):
        write(tmp_path / prefix, prefix=prefix, bits=16)
        assert not list((tmp_path / prefix).rglob("*mlat*"))
    main = """
        #include <stdio.h>
        #include "walk.h"
        #include "sit.h"
        static walk a;
        static sit b;
        int main(void) {
            walk_init(&a);
            sit_init(&b);
            puts(walk_model);
            return WALK_STATES - SIT_STATES;
        }
    """
    (tmp_path / "main.c").write_text(main)
    files = ["main.c", "walk/walk.c", "sit/sit.c", "-Iwalk", "-Isit", "-lm", "-o", "both"]
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", *files], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "both"], check=True)


def test_cmake_builds_and_checks(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    write(tmp_path, bits=32)
    for command in (["cmake", "-S.", "-Bbuild"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["ctest"], cwd=tmp_path / "build", check=True, capture_output=True)


def test_every_number_of_the_header_is_explained():
    header = write_c(PlainModel.of(CLF)).header
    for line in header.splitlines():
        if re.match(r"#define MLAT_\w+ -?\d+", line) and "MLAT_KNOWN" not in line:
            assert "/*" in line, line


@pytest.mark.parametrize("options", INTERFACES, ids=lambda one: "-".join(map(str, one.values())))
def test_the_sketch_tells_what_predict_does(options, tmp_path):
    write(tmp_path, **options)
    warned, place = ["-Wall", "-Wextra", "-Werror"], f"-I{tmp_path}"
    library, sketch = tmp_path / "mlat.c", tmp_path / "examples/state/state.ino"
    new, n_states = options["new_states"], len(CLF.classes_)
    taught = n_states if new else 1
    digit = [f"-DTEACH_AT={TEACH_AT}", f"-DTEACH='{taught}'"]
    as_cpp = [*digit, "-std=c++11", "-include", str(HERE / "arduino.h"), "-x", "c++", str(sketch)]
    for command in (
        ["gcc", "-std=c99", *warned, "-c", str(library), "-o", str(tmp_path / "mlat.o")],
        [COMPILER, *warned, place, *as_cpp, "-c", "-o", str(tmp_path / "sketch.o")],
        [COMPILER, *(str(tmp_path / name) for name in ("mlat.o", "sketch.o")), "-o",
         str(tmp_path / "sketch")],
    ):  # fmt: skip
        subprocess.run(command, check=True)
    pins = "\n".join(str(int(value)) for value in PINS[1].ravel())
    told = subprocess.run(
        [tmp_path / "sketch"], input=pins, capture_output=True, text=True, check=True
    ).stdout.split("\n")[:-1]
    live = CLF.live(
        search="exact", far=None, dead="auto" if options["dead"] else "off",
        max_taught=2, filtered=options["filtered"],
    )  # fmt: skip
    wanted = []
    for step, row in enumerate(PINS[1], 1):
        wanted += [one.state for one in live.push(row[None]) if not one.why]
        if step == TEACH_AT and options["spare"]:
            live.teach("new state 1" if new else CLF.classes_[1], 1)
    assert len(told) == len(wanted)
    assert ("new state 1" in told) == bool(new)
    least = 0.9 if options["bits"] == 8 else 0.99
    assert (np.array(told) == np.array(wanted)).mean() >= least
