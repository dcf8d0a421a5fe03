"""The folder that ``mlat export --c`` writes: the library, examples, and steps to check it by."""

from __future__ import annotations

import re

import numpy as np

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..features.lifts import NOW, VALUE
from ..stream.stream import Stream
from .c_source import CSource, text_of
from .decisions import Judged, decide
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
N_VECTORS = 240  # steps
CLEAR = 0.05  # more probable than the next state: the last digit of a number does not matter


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
    """Steps like those of training, with the state that the tables say of each.

    A question mark stands for a state that is hardly more probable than the next one.
    """
    whole = PlainModel.of(clf)
    values = _steps_like_training(whole)
    if "#define MLAT_HOLD 0 " in code.header:
        values[len(values) // 2, 0] = np.nan
    lines = [[f"{value:.6g}" for value in row] for row in values]
    stream = Stream(np.array(lines, np.float64))
    known = np.flatnonzero(clf.predict_proba(stream)[:, 0] >= 0)
    told = decide(code.stored, Judged.of_steps(clf, stream, known), whole, rows)
    proba = np.full((len(values), len(whole.states)), np.nan)
    proba[known] = told.proba
    if filtered:
        starts = np.zeros(len(values), bool)
        starts[0] = True
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


def _steps_like_training(model: PlainModel) -> Floats:
    """Stretches of references, whose channels are known where they are features; else a walk."""
    rng = np.random.default_rng(0)
    n, d = N_VECTORS, len(model.channels)
    scaled = np.cumsum(rng.normal(size=(n, d)), axis=0) / np.sqrt(n)
    lift = model.lift
    own = (lift.takes == VALUE) & (lift.overs == NOW) & (lift.floors == 0)
    if len(model.start):
        first = model.start[np.linspace(0, len(model.start) - 1, 8).astype(int)]
        steps = np.concatenate([np.arange(a, a + n // 8) for a in first]) % len(model.steps)
        raw = model.steps[steps] * model.feature_scale + model.feature_mean
        for f in np.flatnonzero(own):
            scaled[:, lift.channels[f]] = raw[:, f]
    scaled += 1e-3 * rng.normal(size=scaled.shape)  # no channel stands still
    return np.asarray(scaled * model.channel_scale + model.channel_mean)
