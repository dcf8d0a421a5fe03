"""Exported C behind standard input and output."""

import shutil
import subprocess
from pathlib import Path

import numpy as np

from mlat.export import PlainModel, write_c

COMPILER = shutil.which("gcc") or shutil.which("cc")
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1"]
CHECKED = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
PUSH, RESET, TEACH = 0, 1, 2
WHY = ["", "filling", "missing", "gap", "far", "dead"]


class Compiled:
    """A compiled library behind standard input and output."""

    def __init__(
        self,
        clf,
        folder,
        *,
        flags=(*STRICT, *CHECKED),
        compiler=COMPILER,
        under=(),
        model=None,
        **options,
    ):
        code = write_c(model or PlainModel.of(clf), **options)
        for name, text in code.files().items():
            (folder / name).write_text(text)
        self._compile(clf, folder, flags, compiler, under)
        self.code, self.n_states = code, len(clf.classes_) + options.get("new_states", 0)

    @classmethod
    def of_files(cls, clf, folder):
        """Of a library that is written already."""
        made = cls.__new__(cls)
        made._compile(clf, folder, STRICT, COMPILER, ())
        made.n_states = len(clf.classes_)
        return made

    def _compile(self, clf, folder, flags, compiler, under):
        self.clf, self.under, self.program = clf, under, folder / "program"
        main = Path(__file__).parent / "export" / "stdin.c"
        files = [str(main), str(folder / "mlat.c")]
        subprocess.run(
            [compiler, *flags, f"-I{folder}", *files, "-o", str(self.program), "-lm"], check=True
        )

    def run(self, rows, names=None):
        """What it tells of each step pushed: states, why, distances, probabilities."""
        rows = np.ascontiguousarray(rows, np.float64)
        done = subprocess.run(
            [*self.under, self.program], input=rows.tobytes(), capture_output=True, check=True
        )
        S = self.n_states
        told = np.frombuffer(done.stdout).reshape(-1, 3 + 2 * S)
        names = [*(names or self.clf.classes_.tolist()), self.clf.unknown_]
        states = np.array(names)
        return (
            states[told[:, 0].astype(int)],
            [WHY[int(why)] for why in told[:, 1]],
            told[:, 3 : 3 + S],
            told[:, 3 + S :],
        )

    def push(self, values):
        return self.run(np.column_stack([np.zeros(len(values)), values]))
