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
        self.under = under
        self.clf, self.code = clf, write_c(model or PlainModel.of(clf), **options)
        self.n_states = len(clf.classes_) + options.get("new_states", 0)
        (folder / "mlat.h").write_text(self.code.header)
        (folder / "mlat.c").write_text(self.code.source)
        self.program = folder / "program"
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
