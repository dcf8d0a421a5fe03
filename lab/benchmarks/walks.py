"""How many files of mlat one reads to follow a fit of a CSV, a prediction, and one live step.

    python lab/benchmarks/walks.py [--files]

Counted by a trace of all Python calls: the files whose functions are called, the calls, and the
switches, which are calls from one file into another. Everything is run once before, so that imports
and compilation do not count.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

import mlat
from mlat.synthetic import rotating_states
from mlat_lab.bench.harness import Bench, Row, with_options

ROOT = Path(mlat.__file__).parent


class Walk:
    """The calls of mlat's functions while it is entered.

    Attributes
    ----------
    calls : Counter
        By file.
    switches : int
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.switches = 0

    def __enter__(self) -> Walk:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(str(ROOT)):
            return
        self.calls[name] += 1
        before = frame.f_back
        while before is not None and not before.f_code.co_filename.startswith(str(ROOT)):
            before = before.f_back
        self.switches += before is not None and before.f_code.co_filename != name


def walks(
    bench: Bench,
    files: Annotated[bool, typer.Option("--files", help="Name each file, with its calls.")] = False,
) -> None:
    """Files, calls and switches of a fit of a CSV, a prediction, and a live step."""
    with tempfile.TemporaryDirectory() as folder:
        csv, model = Path(folder) / "walk.csv", Path(folder) / "walk.mlat"
        stream = rotating_states(random_state=0)
        mlat.write_stream(csv, stream)
        mlat.StreamClassifier().fit(stream).save(model)
        live = mlat.load(model).live()
        values = rotating_states(random_state=1).values
        live.push(values[:100])

        def fit() -> None:
            mlat.StreamClassifier().fit(mlat.read_stream(csv, label="state"))

        def predict() -> None:
            mlat.load(model).predict(mlat.read_stream(csv, label="state"))

        steps = iter(values[100:])
        parts: dict[str, Callable[[], Any]] = {
            "fit of a CSV": fit,
            "predict of a CSV": predict,
            "live step": lambda: live.push(next(steps)),
        }
        rows: list[Row] = []
        for name, part in parts.items():
            part()
            with Walk() as walk:
                part()
            rows.append(
                {
                    "what": name,
                    "files": len(walk.calls),
                    "calls": walk.calls.total(),
                    "switches": walk.switches,
                }
            )
            for file, n in sorted(walk.calls.items()) if files else ():
                bench.say(f"{n:7} {Path(file).relative_to(ROOT)}")
    bench.keep(rows)
    bench.table("Walks", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    typer.run(with_options(walks))
