"""Progressive validation beside river's classifiers: each step is predicted, then learned.

The streams are those that defaults are chosen on. Of each run the first steps are taken, and of a
run without a state as many, so that every switch is there and a file takes minutes. What is judged
is the labelled steps. A label comes at once, or so many steps after its step: then the label that
came last is an old one, and repeating it says little. Ours looks at windows of steps, river's at
single ones; so river's are also given the same past, every value of as many steps as a feature.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import river
import typer
from river import ensemble, forest, linear_model, neighbors, preprocessing, tree

from mlat import __version__
from mlat.adapters.river import MLATClassifier
from mlat.base.checks import Ints
from mlat.base.disk import atomic_write
from mlat.base.errors import InputError
from mlat.stream.stream import Stream

from ..datasets.catalog import STREAM_SETS
from ..datasets.streams import load_streams
from .harness import Bench, Row, Stopwatch

LAST = "the label that came last"
OURS, EUCLIDEAN = "MLATClassifier()", "MLATClassifier(learn_from=0)"
SAME_PAST = ", same past"
RIVALS: dict[str, Callable[[], Any]] = {
    "KNNClassifier(), scaled": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
    "SoftmaxRegression(), scaled": lambda: (
        preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    ),
    "HoeffdingTreeClassifier()": tree.HoeffdingTreeClassifier,
    "ARFClassifier(seed=0)": lambda: forest.ARFClassifier(seed=0),
    "AMFClassifier(seed=0)": lambda: forest.AMFClassifier(seed=0),
    "SRPClassifier(seed=0)": lambda: ensemble.SRPClassifier(seed=0),
}
SYSTEMS = [LAST, OURS, EUCLIDEAN, *(f"{name}{SAME_PAST}" for name in RIVALS), *RIVALS]
BEGIN, END = "<!-- written by mlat-lab bench river -->", "<!-- end -->"


class _LastLabel:
    """Repeats the label that it was told last."""

    def __init__(self) -> None:
        self._last: Any = None

    def predict_one(self, x: dict[Any, Any]) -> Any:
        return self._last

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        self._last = y


def make(system: str, delay: int) -> Any:
    if system == LAST:
        return _LastLabel()
    if system in (OURS, EUCLIDEAN):
        return MLATClassifier(delay=delay, **({} if system == OURS else {"learn_from": 0}))
    return RIVALS[system.removesuffix(SAME_PAST)]()


def with_past(steps: Sequence[dict[str, float]], width: int) -> list[dict[str, float]]:
    """Each step with the ``width - 1`` before it; before the first a stream stood still."""
    return [
        {
            f"{name}, {ago} ago": v
            for ago in range(width)
            for name, v in steps[max(t - ago, 0)].items()
        }
        for t in range(len(steps))
    ]


def first_steps(stream: Stream, per_run: int) -> Ints:
    """The first ``per_run`` steps of each stretch of one state, or of none, in one recording."""
    codes = stream.codes
    begins = np.ones(len(codes), bool)
    begins[1:] = codes[1:] != codes[:-1]
    begins[stream.segments.start] = True
    starts = np.flatnonzero(begins)
    place = np.arange(len(codes)) - starts[np.cumsum(begins) - 1]
    return np.flatnonzero((place < per_run) & ~stream.missing)


def validate(
    model: Any, steps: Sequence[dict[str, float]], labels: Sequence[Any], delay: int
) -> Iterator[Any]:
    """What the model predicts for each step before it is told the label; None for no label.

    Steps without a label are observed by ours, and are nothing to the others.
    """
    ours = isinstance(model, MLATClassifier)
    late: deque[tuple[dict[str, float], Any]] = deque()
    for x, y in zip(steps, labels, strict=True):
        if y is not None or (ours and delay):
            yield model.predict_one(x)
        else:
            yield None
        if not delay:
            if y is not None or ours:
                model.learn_one(x, y)
            continue
        late.append((x, y))
        if len(late) > delay:
            x, y = late.popleft()
            if y is not None:
                model.learn_one(x, y)


def measure(data: str | None, per_run: int, job: tuple[str, str, int, str]) -> Row:
    """One system on one file."""
    data_set, person, delay, system = job
    stream = load_streams(data_set, data, [person])[person]
    rows = first_steps(stream, per_run)
    names = list(stream.channels)
    steps = [dict(zip(names, row, strict=True)) for row in stream.values[rows].tolist()]
    labels = [
        state if known else None
        for state, known in zip(stream.states[rows].tolist(), stream.labelled[rows], strict=True)
    ]
    if system.endswith(SAME_PAST):
        steps = with_past(steps, MLATClassifier().width)
    with Stopwatch() as spent:
        # A label after ``delay`` more steps: the step itself is one of the last ``delay + 1``.
        model = make(system, delay + 1 if delay else 0)
        predicted = list(validate(model, steps, labels, delay))
    judged = [(p == y, y) for p, y in zip(predicted, labels, strict=True) if y is not None]
    right = np.array([one[0] for one in judged])
    true = np.array([one[1] for one in judged])
    recall = [right[true == state].mean() for state in np.unique(true)]
    return {
        "set": data_set,
        "file": person,
        "delay": delay,
        "system": system,
        "steps": len(steps),
        "accuracy": float(right.mean()),
        "balanced": float(np.mean(recall)),
        "ms_a_step": 1e3 * spent.cpu / len(steps),
    }


def as_page(scores: Sequence[Row], per_run: int) -> str:
    """The scores as Markdown, a table for each delay."""
    sets = list(dict.fromkeys(score["set"] for score in scores))
    lines = [BEGIN, ""]
    for delay in sorted({score["delay"] for score in scores}):
        some = [score for score in scores if score["delay"] == delay]
        n_files = {s: len({o["file"] for o in some if o["set"] == s}) for s in sets}
        when = f"{delay} steps after its step" if delay else "at once"
        lines += [f"A label comes {when}:", ""]
        heads = [f"{name}, {n_files[name]}" for name in sets]
        lines += ["| | " + " | ".join([*heads, "mean", "ms a step"]) + " |"]
        lines += ["|---" * (len(sets) + 3) + "|"]
        for system in SYSTEMS:
            own = [score for score in some if score["system"] == system]
            means = [
                np.mean([(o["accuracy"], o["balanced"]) for o in own if o["set"] == s], axis=0)
                for s in sets
            ]
            cells = [f"{a:.3f}, {b:.3f}" for a, b in [*means, np.mean(means, axis=0)]]
            steps = [o["steps"] for o in own]
            spent = np.average([o["ms_a_step"] for o in own], weights=steps)
            lines += [f"| {system} | " + " | ".join([*cells, f"{spent:.1f}"]) + " |"]
        lines += [""]
    total = sum(o["steps"] for o in scores if o["delay"] == 0 and o["system"] == LAST)
    lines += [
        f"Accuracy, balanced accuracy: means over the files, whose number follows the name of the "
        f"set; {total:,} steps in all, the first {per_run} of every run; river "
        f"{river.__version__}, mlat {__version__}.",
        "",
        END,
    ]
    return "\n".join(lines)


def write_page(path: Path, section: str) -> None:
    """Put the section in its place in a page, or make a page of it.

    Raises
    ------
    InputError
        If the page has no place for it.
    """
    text = section + "\n"
    if path.exists():
        old = path.read_text(encoding="utf-8")
        if old.count(BEGIN) != 1 or END not in old.partition(BEGIN)[2]:
            raise InputError(f"{path} has no place for the table: {BEGIN} and {END}")
        before, _, rest = old.partition(BEGIN)
        text = before + section + rest.partition(END)[2]
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def progressive(
    bench: Bench,
    data: Annotated[
        Path | None, typer.Option(help="Where the sets of streams are; default MLAT_STREAMS.")
    ] = None,
    sets: Annotated[list[str] | None, typer.Option(help="Several times; default all.")] = None,
    files: Annotated[
        int | None, typer.Option(min=1, help="Of each set; default all development files.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of each run at most.")] = 100,
    delay: Annotated[
        list[int] | None, typer.Option(min=0, help="Steps; several times; default 0 and 100.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One file of two sets, 20 steps a run.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    page: Annotated[
        Path | None, typer.Option(help="Write the tables into this Markdown page.")
    ] = None,
) -> None:
    """River: progressive validation beside its kNN, regression, tree, forests and patches."""
    if quick:
        sets, files, steps = sets or ["gesture_phase", "phone_watch"], 1, 20
    unknown = set(sets or ()) - set(STREAM_SETS)
    if unknown:
        raise InputError(f"there is no set {', '.join(sorted(unknown))}: {', '.join(STREAM_SETS)}")
    delays = delay or ([0, 20] if quick else [0, 100])
    todo = [
        (name, person, late, system)
        for name in sets or STREAM_SETS
        for person in STREAM_SETS[name].development[:files]
        for late in delays
        for system in SYSTEMS
    ]
    work = partial(measure, None if data is None else str(data), steps)
    if jobs == 1:
        scores = [work(job) for job in todo]
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            scores = list(pool.map(work, todo))
    bench.table("Progressive validation", scores, left=4)
    if page is not None:
        write_page(page, as_page(scores, steps))
    bench.keep(scores)
