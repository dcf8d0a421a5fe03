"""The folders that are written of a model in C.

One has the library, examples, and steps to check it by; the other is WebAssembly, for a browser or
Node. Its compiler is zig's, from the package ziglang. The module imports nothing: no system, and of
a C library only what the compiler brings itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..base.checks import Ints
from ..base.errors import InputError, require_package
from ..classifier.classifier import StreamClassifier
from ..live.page.model_view import describe
from ..stream.stream import Stream
from .c_source import CSource, text_of
from .decisions import Judged, decided
from .plain_model import PlainModel

# Where each file is. Those of a person's own stay as they are, once they are there.
FILES = {
    "README.md": "README.md",
    "Makefile": "Makefile",
    "CMakeLists.txt": "CMakeLists.txt",
    "library.json": "library.json",
    "library.properties": "library.properties",
    "examples/lines/main.c": "main.c",
    "examples/state/state.ino": "state.ino",
}
N_STRETCHES, STRETCH = 8, 30  # of the training stream
CLEAR = 0.05  # more probable than the next state: the last digit of a number does not matter

# All that the C uses of these headers, which a target without a system lacks.
HEADERS = {
    "math.h": "float fabsf(float); float sqrtf(float); float logf(float); float expf(float);\n"
    "double fabs(double); double sqrt(double); double log(double); double exp(double);\n",
    "string.h": "#include <stddef.h>\nvoid *memset(void *, int, size_t);\n",
}
KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "txt": "text/plain"}
FLAGS = ["-target", "wasm32-freestanding", "-O2", "-s", "-Wl,--no-entry"]


def c_folder(
    code: CSource,
    clf: StreamClassifier,
    rows: Ints,
    *,
    about: str,
    fits: str = "",
    prefix: str = "mlat",
    filtered: bool = False,
    far: float | None = None,
) -> dict[str, str]:
    """The files by their places.

    Parameters
    ----------
    rows : array
        Which of the references are in the code.
    about, fits : str
        Sentences for the README: which model it is, and what it takes.
    prefix : str
        What the names of files, functions, types and macros begin with.
    filtered, far
        As in :func:`~mlat.export.c_source.write_c`.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", prefix, flags=re.ASCII):
        raise InputError(f"prefix must be a name in C, such as walk, not {prefix!r}")
    model = code.stored
    marks = {
        "/*ABOUT*/": about,
        "/*FITS*/": fits,
        "/*NEEDS*/": "`memset`" if code.bounds else "`memset`, and `log`, `exp` and `sqrt`",
        "/*MISSING*/": f"`{prefix.upper()}_NO_VALUE`" if code.bounds else "NaN",
        "/*STATES*/": _listed(model.states),
        "/*CHANNELS*/": _listed(model.channels),
        "/*WIDTH*/": str(model.width),
    }
    found = {**code.files(), "vectors.csv": vectors(code, clf, rows, filtered=filtered, far=far)}
    for place, name in FILES.items():
        found[place] = text_of(f"folder/{name}")
    if prefix != "mlat":
        found = {_renamed(name, prefix): _renamed(text, prefix) for name, text in found.items()}
    for mark, value in marks.items():
        found["README.md"] = found["README.md"].replace(mark, value)
    return found


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{i} {re.sub(r'[^ -~]|[`|<*]', '?', name)}" for i, name in enumerate(names))


def _renamed(text: str, prefix: str) -> str:
    """Other names of all that a linker sees; not of the command, and of nothing that is told."""

    def other(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        return prefix.upper() + "_" if name == "MLAT_" else prefix

    told = r'(?<!include )"[^"\n]*"'
    return re.sub(rf"{told}|(?P<name>\bMLAT_|\bmlat(?! export| authors)(?=\b|_))", other, text)


def vectors(
    code: CSource, clf: StreamClassifier, rows: Ints, *, filtered: bool, far: float | None
) -> str:
    """Stretches of the training stream, with the state that the tables say of each step.

    A question mark stands for a state that is hardly more probable than the next one.
    """
    whole, given = PlainModel.of(clf), clf.windows_
    begins = given.start[np.linspace(0, len(given.start) - 1, N_STRETCHES).astype(int)]
    steps = (begins[:, None] + np.arange(STRETCH)).ravel() % len(given.values)
    noise = np.random.default_rng(0).normal(size=(len(steps), len(whole.channels)))
    values = given.values[steps] + 1e-3 * whole.channel_scale * noise  # no channel stands still
    if "#define MLAT_HOLD 0 " in code.header:
        values[len(values) // 2, 0] = np.nan
    lines = [[f"{value:.6g}" for value in row] for row in values]
    stream = Stream(np.array(lines, np.float64))
    known = np.flatnonzero(clf.predict_proba(stream)[:, 0] >= 0)
    told = decided(code.stored, Judged.of_steps(clf, stream, known), whole, rows)
    proba = np.full((len(values), len(whole.states)), np.nan)
    proba[known] = told.proba
    if filtered:
        starts = np.arange(len(values)) == 0
        proba, _ = clf.confidence_.filter(starts, proba, whole.n_neighbors)
    codes = told.codes if not filtered else proba[known].argmax(axis=1)
    expected = np.full(len(values), "-1", "U8")
    expected[known] = codes.astype(str)
    two = np.sort(proba[known], axis=1)[:, -2:]
    limit = whole.limit(far)
    expected[known[told.distance > limit]] = "-1"
    unclear = (two[:, -1] - two[:, 0] < CLEAR) & (proba.shape[1] > 1)
    unclear |= np.abs(told.distance - limit) < CLEAR * limit if np.isfinite(limit) else False
    expected[known[unclear]] = "?"
    rows_of_text = [",".join([*row, state]) for row, state in zip(lines, expected, strict=True)]
    channels = re.sub(r"[^ -~]", "?", ",".join(whole.channels))
    return f"# {channels},expected state\n" + "\n".join(rows_of_text) + "\n"


def browser_files(code: CSource, clf: StreamClassifier) -> dict[str, bytes]:
    """``mlat.wasm``, the module that loads it, ``mlat.js``, and the live page with both in it.

    Raises
    ------
    MissingPackageError
        Without ziglang.
    InputError
        If the model is in whole numbers, or does not compile.
    """
    if code.bounds:
        raise InputError("a browser has floating point; write whole numbers as C")
    require_package("ziglang", "wasm", "an export to WebAssembly")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sources = {**code.files(), "browser.c": text_of("browser.c")}
        for name, text in {**sources, **HEADERS}.items():
            (place / name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*(sys.executable, "-m", "ziglang", "cc", *FLAGS, "-I."), "mlat.c", "browser.c",
             *("-o", "mlat.wasm")],
            cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise InputError(f"the model does not compile to WebAssembly: {done.stderr[:500]}")
        module = (place / "mlat.wasm").read_bytes()
    script = text_of("browser.js").encode()
    return {"mlat.wasm": module, "mlat.js": script, "index.html": _page(clf, module, script)}


def _page(clf: StreamClassifier, module: bytes, script: bytes) -> bytes:
    """The live page in one file, whose steps come from the device that it is opened on."""
    found = {
        entry.name: entry.read_bytes()
        for package in ("mlat.live.web", "mlat.live.page")
        for entry in files(package).joinpath("static").iterdir()
    }
    found |= {"mlat.js": script, "connection.js": text_of("device.js").encode()}
    page = found.pop("index.html").decode()
    places = {}
    for name, data in found.items():
        # A module that is in an address has no folder: what it imports is in the import map.
        named = re.sub(rb'from "\./', b'from "mlat/', data) if name.endswith(".js") else data
        kind = KINDS[name.rpartition(".")[2]]
        places[name] = f"data:{kind};base64,{b64encode(named).decode()}"
    imports = json.dumps({"imports": {f"mlat/{name}": place for name, place in places.items()}})
    section = text_of("device.html").replace("/*WASM*/", b64encode(module).decode())
    about = json.dumps({**describe(clf), "experts": []}).replace("<", "\\u003c")
    page = re.sub(r"/page/([\w.]+)", lambda match: places[match[1]], page)
    page = page.replace("<head>", f'<head>\n<script type="importmap">{imports}</script>')
    return page.replace("<main>", "<main>\n" + section.replace("/*ABOUT*/", about)).encode()
