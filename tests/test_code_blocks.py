"""Every block of code on the site runs, or says on the page why it does not.

Examples with prompts (``>>>``) are doctests, which other tests run; that each page with some is run
is checked here. All others run here: Python as one program for each page, commands in order. Beside
the files that a page speaks of, some pages need names that they do not make themselves.
"""

import ast
import asyncio
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import mlat
from cli_runs import run, write_csv
from doc_examples import DOCS, written_by_hand
from mlat.synthetic import rotating_states

ROOT = DOCS.parent
FENCE = re.compile(
    r"^(?:<!-- not run: ([^\n]*) -->\n)?```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
LANGUAGES = {"python", "sh", "console", "text", "c", "js"}
# Why a block does not run, and how many there are of each: one more is a decision.
NOT_RUN = {
    "takes a minute": 1,  # mlat demo, which tests/cli/test_demo.py runs
    "takes minutes": 2,
    "takes hours": 6,  # mlat-lab reproduce; its small runs are in tests/cli
    "needs the data sets": 3,
    "needs recordings of several people": 1,  # tests/cli has some
    "needs the files above": 2,
    "downloads": 1,
    "needs another environment": 3,
    "needs a cluster": 1,  # tests/test_dask.py has one
    "needs a broker": 1,  # tests/live has one
    "needs a browser": 1,
    "waits for a person": 1,
}


PAGES = written_by_hand(ROOT / "CONTRIBUTING.md")


def name_of(page):
    return str(page.relative_to(DOCS if DOCS in page.parents else ROOT))


def blocks(page):
    """Why it does not run or "", the language and the text of each block."""
    for reason, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if not language.startswith("{"):  # of Sphinx
            yield reason, language, text


def test_every_block_says_its_language_and_why_it_does_not_run():
    reasons = Counter()
    for page in PAGES:
        for reason, language, text in blocks(page):
            assert language in LANGUAGES, f"{name_of(page)}: {language!r}: {text[:60]}"
            assert not (reason and language == "text"), f"{name_of(page)}: text never runs"
            reasons[reason] += 1
    del reasons[""]
    assert reasons == NOT_RUN


def test_every_page_of_examples_is_run():
    files = [path for place in ("tests", "lab/tests") for path in (ROOT / place).rglob("*.py")]
    tests = [path.read_text(encoding="utf-8") for path in files]
    runners = [text for text in tests if "run_examples" in text or "examples_of" in text]
    for page in PAGES:
        if any(">>> " in text for _, _, text in blocks(page)):
            assert any(f'"{name_of(page)}"' in text for text in runners), name_of(page)


# The others. What a page takes for granted:
GIVEN = {
    "evidence/baselines.md": """
import mlat
from mlat.synthetic import rotating_states
windows = mlat.sliding_windows(rotating_states(n_channels=2, run_length=20), 4, stride=4)
X, Y = windows.X[:5], windows.X
x, y = X[0], X[1]
""",
    "how-to/export.md": """
import mlat
windows = mlat.read_stream("walk.csv", label="state").values[None, :40]
""",
    "live/page.md": """
import mlat
from mlat.live import Steps
clf = mlat.load("walk.mlat")
async def some():
    yield Steps(mlat.read_stream("today.csv").values[:5])
source = some()
""",
}
RUN = [
    name_of(page)
    for page in PAGES
    if name_of(page) not in ("start/index.md", "index.md")  # which tests/test_site.py follows
    and any(
        not reason and language in ("python", "sh", "console", "c") and ">>> " not in text
        for reason, language, text in blocks(page)
    )
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that pages speak of, small, and a model that is learned in no time."""
    folder = tmp_path_factory.mktemp("pages")
    shape = {"n_channels": 3, "noise": 0.3, "run_length": 30}
    labelled = ["walk", "again", "other", "train", "test", "eve"]
    bare = ["today", "monday", "tuesday"]
    for seed, name in enumerate([*labelled, *bare]):
        stream = rotating_states(**shape, random_state=seed)
        if name in labelled:
            write_csv(folder / f"{name}.csv", stream)
            continue
        head = ",".join(stream.channels)
        np.savetxt(folder / f"{name}.csv", stream.values, "%.4f", ",", header=head, comments="")
        spans = [f"{start},{stop},{stream.classes[code]}" for start, stop, code in stream.runs]
        (folder / f"{name}-labels.csv").write_text("start,end,state\n" + "\n".join(spans) + "\n")
    quick = mlat.StreamClassifier(8, metric="euclidean").fit(
        mlat.read_stream(folder / "walk.csv", label="state")
    )
    quick.save(folder / "walk.mlat")
    return folder


@pytest.mark.parametrize("page", RUN)
def test_blocks_run(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {}
    exec(GIVEN.get(page, ""), names)
    for reason, language, text in blocks(DOCS / page):
        if reason or ">>> " in text:
            continue
        if language == "python":
            _python(text, names)
        elif language in ("sh", "console"):
            for command, said in _commands(language, text):
                _command(command, said)
        elif language == "c":
            _compile(text)


def _python(text, names):
    if "onnxruntime" in text:
        pytest.importorskip("onnxruntime")
    text = text.replace("8765", "0")  # a port that is free
    code = compile(text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:

        async def wait():
            await eval(code, names)

        asyncio.run(wait())
    else:
        exec(code, names)


def _commands(language, text):
    """Each command, and what the page says that it prints."""
    if language == "sh":
        return [(line.partition("  #")[0].strip(), "") for line in text.splitlines()]
    _, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    return [tuple(part.partition("\n")[::2]) for part in parts]


LEARNED = set()


def _command(command, said):
    first, _, _ = command.partition(" | ")
    program, *words = shlex.split(first)
    assert program == "mlat", command
    if words[0] == "fit" and command in LEARNED:  # once is enough
        return
    for option, package in (("--onnx", "onnx"), ("--wasm", "ziglang")):
        if option in words:
            pytest.importorskip(package)
    if words[0] == "live":  # which minds signals, as a program of its own does
        code = "from mlat.cli import main; main()"
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
    elif re.fullmatch(r"mlat: [^\n]*\n", said):  # the line that says what is wrong
        assert said.partition("; the columns")[0].split("? ")[0] in run(*words, status=2)[1]
    else:
        out, _ = run(*words)
        if "--json" in words:
            (key,) = re.findall(r"\| jq \.(\w+)", command)
            assert key in json.loads(out)
    if words[0] == "fit":
        LEARNED.add(command)


def _compile(text):
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    flags = ["-std=c99", "-fsyntax-only", "-Ifirmware", "-include", "stdio.h", "-x", "c", "-"]
    done = subprocess.run(["cc", *flags], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
