"""The pages that a newcomer follows: every block of them runs, in order, in a folder of its own."""

import contextlib
import importlib
import inspect
import os
import pkgutil
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from PIL import Image
from typer.main import get_command

import mlat
from doc_examples import DOCS, written_by_hand
from mlat.base.errors import MissingPackageError
from mlat.cli import app
from mlat_lab.cli.bench import benchmark_command
from mlat_lab.cli.commands import app as laboratory

SOURCE = str(DOCS.parent / "src")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INSTALL = re.compile(r"^pip install ", re.MULTILINE)


def blocks(page):
    """The language and text of each block that a reader would run."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not INSTALL.search(text):
            yield language, text


def test_start_can_be_followed_and_makes_the_files_of_the_first_pages(tmp_path):
    found = list(blocks(DOCS / "start" / "index.md"))
    assert len(found) > 3
    for language, text in found:
        if language == "python":
            _run([sys.executable, "-c", text], tmp_path)
            continue
        for line in text.splitlines():
            words = shlex.split(line)
            assert words[0] == "mlat", line
            command = [sys.executable, "-c", "from mlat.cli import main; main()", *words[1:]]
            if "--serve" in words:
                _serves(command, tmp_path)
            else:
                # A newcomer's first model is worth something.
                assert "warning" not in _run(command, tmp_path).stderr
    assert (tmp_path / "states.csv").read_text(encoding="utf-8").count("\n") > 100
    # The lines of the home page and of the README are about the same files.
    for page in (DOCS / "index.md", DOCS.parent / "README.md"):
        ((_, text),) = ((language, text) for language, text in blocks(page) if language == "python")
        _run([sys.executable, "-c", text], tmp_path)


def _run(command, folder):
    # Also for an environment that mlat is not installed in. With another numba in one place, each
    # would discard the other's compiled code.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])}
    if command[0] != sys.executable:
        env["NUMBA_CACHE_DIR"] = str(Path(command[0]).parents[1] / "numba")
    result = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result


def _serves(command, folder):
    """The page answers while the command runs; at a free port, for the page's own may be taken."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [re.sub(r"^127\.0\.0\.1:\d+$", f"127.0.0.1:{port}", word) for word in command]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    try:
        deadline = time.monotonic() + 240  # compiling comes first
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
                    assert b"<html" in page.read()
                    break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
    finally:
        process.terminate()
        process.wait()


# The gallery

EXAMPLES = sorted((DOCS.parent / "examples" / "gallery").glob("*.py"))
NEEDS = re.compile(r"^(?:import|from) (mne|pylsl|pyxdf|pyspark|aeon|river)\b", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_runs(example, tmp_path):
    python = sys.executable
    for package in NEEDS.findall(example.read_text(encoding="utf-8")):
        # aeon and river have environments of their own, beside which versions differ.
        python = os.environ.get(f"MLAT_{package.upper()}_PYTHON", sys.executable)
        if python == sys.executable:
            pytest.importorskip(package)
        if package == "pyspark" and not shutil.which("java"):
            pytest.skip("Spark needs Java")
    if '"cc"' in example.read_text(encoding="utf-8") and not shutil.which("cc"):
        pytest.skip("no C compiler")
    _run([python, example], tmp_path)


def test_kept_pictures_are_of_the_examples_as_they_are(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    keep = importlib.import_module("keep_pictures")
    for example in EXAMPLES:
        pictures = keep.kept(example.stem)
        for picture in pictures:
            with Image.open(picture) as drawn:
                assert drawn.info[keep.DIGEST] == keep.digest_of(example), (
                    f"{example.name} has changed: python docs/keep_pictures.py {example}"
                )
        text = example.read_text(encoding="utf-8")
        if NEEDS.search(text):  # it does not run where the site is built
            assert pictures, example.name
            assert f"# sphinx_gallery_thumbnail_path = 'images/gallery/{pictures[0].name}'" in text


# Pages that show commands which take long, or need data: that there are such commands and options
# is checked all the same.

PROMPT = re.compile(r"^(?:\$ )?(mlat(?:-lab)? [^#\n\\]*(?:\\\n[^#\n\\]*)*)", re.MULTILINE)
FENCES = re.compile(r"^```(?:sh|console|text)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = written_by_hand(DOCS.parent / "README.md")


def commands_of(page):
    for block in FENCES.findall(page.read_text(encoding="utf-8")):
        for command in PROMPT.findall(block):
            yield re.sub(r"\s+", " ", command.replace("\\\n", " ")).strip()


def test_every_command_on_a_page_has_these_options():
    wrong, n_found = [], 0
    for page in PAGES:
        for line in commands_of(page):
            n_found += 1
            first, *words = shlex.split(line.split(" | ")[0].split(" > ")[0].split(" && ")[0])
            command = get_command(laboratory if first == "mlat-lab" else app)
            while words and words[0] in getattr(command, "commands", {}):
                group, name = command.name, words.pop(0)
                command = command.commands[name]
                if group == "bench":  # which hands all that follows on to the benchmark
                    with contextlib.suppress(MissingPackageError):  # that it compares with
                        command = get_command(benchmark_command(name))
                        continue
                    words = []
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            known |= {"--help", "--version"}
            if hasattr(command, "commands") and words and not words[0].startswith("-"):
                wrong.append(f"{page.name}: {line}: no command {words[0]}")
            wrong += [
                f"{page.name}: {line}: {word}"
                for word in words
                if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known
            ]
    assert n_found > 40
    assert not wrong, "\n".join(wrong)


# The page of evidence: each figure that it quotes stands in the report that its section is about.

SECTION = re.compile(r"^### \[[^\]]*\]\(([^)]+)\)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def test_the_figures_on_the_page_of_evidence_are_those_of_the_reports():
    folder = DOCS / "evidence"
    sections = SECTION.findall((folder / "index.md").read_text(encoding="utf-8"))
    assert len(sections) > 7
    for report, text in sections:
        known = set(FIGURE.findall((folder / report).read_text(encoding="utf-8")))
        quoted = set(FIGURE.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)))
        assert len(quoted) > 2, report
        assert not quoted - known, report


CELL = re.compile(r"`((?:src|tests)/[\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?")


def test_the_page_from_paper_to_code_names_what_is_there():
    text = (DOCS / "paper-to-code.md").read_text(encoding="utf-8")
    found = CELL.findall(text)
    assert len(found) > 30
    for file, names in found:
        source = (DOCS.parent / file).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^(?:def|class) {name}\b", source, re.MULTILINE), f"{file}: {name}"
    for number in range(1, 11):
        assert re.search(rf"Equations?[^|]*\b{number}\b", text), f"Equation {number}"


def test_the_picture_of_the_rooms_has_every_room():
    page = (DOCS.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = re.search(r"^```\n(base.*?)```", page, re.DOTALL | re.MULTILINE)[1].split()
    drawn = (DOCS / "images" / "architecture.svg").read_text(encoding="utf-8")
    words = set(re.findall(r"[\w/]+", " ".join(re.findall(r">([^<>]+)</text>", drawn)).lower()))
    assert len(rooms) > 12
    assert not set(rooms) - words


def test_the_reference_has_every_public_name_and_no_private_one(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    generate = importlib.import_module("generate")
    modules = [module for group in generate.REFERENCE.values() for module in group]
    shown = {name for module in modules for name in generate.public_names(module)}
    assert not [name for name in shown if name.startswith("_")]
    rooms = [m.name for m in pkgutil.iter_modules(mlat.__path__, "mlat.")]
    for room in ["mlat", "mlat_lab.datasets", "mlat_lab.rivals", *rooms]:
        module = importlib.import_module(room)
        names = [
            name
            for name in getattr(module, "__all__", ())
            if not inspect.ismodule(getattr(module, name))
        ]
        # Rooms that the root shows the names of, and those behind commands, have no page.
        if names and not set(names) <= shown:
            assert room in WITHOUT_PAGE, f"{room}: {set(names) - shown}"


WITHOUT_PAGE = {
    "mlat.stream",
    "mlat.features",
    "mlat.neighbours",
    "mlat.base",
    "mlat.cli",
}
