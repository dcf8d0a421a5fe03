"""The process that learns classifiers, so that the page never waits for one.

It takes jobs through a pipe and answers each; while it learns it sends progress. It ends when the
pipe is closed, and so with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from threadpoolctl import threadpool_limits

from ..base.checks import Floats, finite
from ..base.errors import InputError, MlatError
from ..base.work import Report, listen
from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load, to_bytes
from ..explain.confusions import count_confusions
from ..stream.stream import Stream

SAY_EVERY = 0.1  # seconds between two words on progress
USUAL = 20.0  # seconds of learning, to say how far it is where it does not say so itself
LEAST_MAPPED = 12  # windows that a map needs
MOST_WINDOWS = 5000  # kept as references

Say = Callable[[str, float], None]


def work(pipe: Connection) -> None:
    """Do jobs until the pipe is closed: ``(name, arguments)`` to ``(kind, result)``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # the page comes first
    jobs = Jobs()
    with contextlib.suppress(EOFError, OSError):
        while True:
            name, arguments = pipe.recv()
            said = 0.0

            def say(task: str, fraction: float) -> None:
                nonlocal said
                if time.monotonic() - said > SAY_EVERY:
                    said = time.monotonic()
                    pipe.send(("progress", (task, fraction)))

            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    pipe.send(("done", getattr(jobs, name)(say, *arguments)))
            except MlatError as error:
                pipe.send(("failed", str(error)))
            except MemoryError:
                pipe.send(("failed", "there is too little memory to learn from so many labels"))
            except Exception as error:  # of mlat itself: what it is, and the page goes on
                pipe.send(("failed", f"learning failed ({type(error).__name__}: {error})"))


class Jobs:
    """The jobs; the classifier that was learned or loaded last is kept for predictions."""

    clf: StreamClassifier

    def load(self, say: Say, model: Path) -> list[str]:
        """Take a model from its file; its states."""
        self.clf = load(model)
        return [str(state) for state in self.clf.classes_.tolist()]

    def learn(
        self, say: Say, stream: Stream, width: int, old: Path | None
    ) -> tuple[list[str], bytes]:
        """Learn from a labelled stream and an old model's references: the states, and a file."""
        with _reporting(say):
            self.clf = learn_from(_with_references(stream, old), width)
        return [str(state) for state in self.clf.classes_.tolist()], to_bytes(self.clf)

    def reach(self, say: Say) -> tuple[int, int]:
        """The width of the classifier, and how many steps before a step its state depends on."""
        return self.clf.width_, self.clf.width_ + self.clf.features_.lift.memory

    def predict(self, say: Say, part: Stream, skip: int, n: int, size: int) -> tuple[Any, Any]:
        """States and certainties of the cells of ``n`` steps, after the first ``skip`` of a part.

        The window of a step ends there; it says most about the steps in its middle, so a state is
        taken half a window later.
        """
        proba = self.clf.predict_proba(part)
        later = np.minimum(np.arange(skip, skip + n) + self.clf.width_ // 2, len(part) - 1)
        # Not from the other side of a gap.
        segment = np.cumsum(part.gap_before)
        later = np.where(
            segment[later] == segment[skip : skip + n], later, np.arange(skip, skip + n)
        )
        proba = proba[later]
        known = ~np.isnan(proba[:, 0])
        begins = np.arange(0, n, size)
        counts = np.add.reduceat(known.astype(np.float64), begins)
        sums = np.add.reduceat(np.where(known[:, None], proba, 0), begins, axis=0)
        smooth = max(1, self.clf.width_ // size)
        sums, counts = _moving_sum(sums, smooth), _moving_sum(counts[:, None], smooth)[:, 0]
        means = sums / np.maximum(counts, 1)[:, None]
        codes = np.where(counts > 0, means.argmax(axis=1), -1)
        return codes, means.max(axis=1).astype(np.float32)

    def place(self, say: Say, features: Floats, parts: list[Stream]) -> Floats:
        """Places from 0 to 1 (n, 2) of windows: the nearer two of them, the more they are alike.

        By t-SNE, of the committee's distances between the windows that end the parts, or without
        parts of those between features (n, f).
        """
        from sklearn.manifold import TSNE

        D = squareform(pdist(features)) if not parts else _distances(self.clf, parts)
        if len(D) < LEAST_MAPPED:
            raise InputError(f"a map needs {LEAST_MAPPED} windows; the recording has {len(D)}")
        # By itself: its threads wait for each other where others have the processors.
        with _reporting(say, "mapping"), threadpool_limits(1):
            embedding = TSNE(metric="precomputed", init="random", random_state=0)
            embedding.set_params(perplexity=min(30.0, len(D) / 4))
            places = embedding.fit_transform(D)
        low, high = places.min(axis=0), places.max(axis=0)
        return np.asarray((places - low) / np.maximum(high - low, 1e-9), dtype=np.float64)

    def compare(
        self, say: Say, old: Path | None, learning: Stream, tests: Stream, width: int
    ) -> list[dict[str, Any] | None]:
        """How the old model, and one learned from other spans, predict the test spans."""
        with _reporting(say):
            new = learn_from(_with_references(learning, old), width)
        return [None if old is None else _judge(load(old), tests), _judge(new, tests)]


def _distances(clf: StreamClassifier, parts: list[Stream]) -> Floats:
    """The committee's distances (n, n) between the windows at the ends of parts."""
    features = clf.features(Stream.join(parts))
    ends = np.cumsum([len(part) for part in parts])
    by_expert = []
    for expert in clf.experts_:
        steps = ends[:, None] - np.arange(expert.windows.width, 0, -1)
        by_expert.append(squareform(pdist(expert.embed(expert.view(features[steps])))))
    D = clf.committee_.combine(by_expert)
    np.fill_diagonal(D, 0.0)
    return np.asarray(D)


def learn_from(stream: Stream, width: int) -> StreamClassifier:
    """A committee; of very many windows every few are kept."""
    lengths = stream.runs.length
    windows = int(np.maximum(lengths - width + 1, 0).sum())
    stride = max(1, -(-windows // MOST_WINDOWS))
    return StreamClassifier(width, stride=stride).fit(stream)


def _with_references(stream: Stream, model: Path | None) -> Stream:
    """A labelled stream after the references of a model, as a recording of their own."""
    if model is None:
        return stream
    clf = load(model)
    windows = clf.windows_
    states = np.full(len(windows.values), "", dtype=f"U{max(len(str(s)) for s in clf.classes_)}")
    for start, state in zip(windows.start.tolist(), windows.y.tolist(), strict=True):
        states[start : start + clf.width_] = str(state)
    inside = np.flatnonzero(states != "")
    order = [clf.channels_.index(name) for name in stream.channels]
    before = Stream(np.asarray(windows.values)[:, order], states, channels=stream.channels)
    return Stream.join([before[inside], stream])


def _judge(clf: StreamClassifier, tests: Stream) -> dict[str, Any]:
    """The balanced accuracy, where it is of more than one state, and the recall of each."""
    truth = tests
    if tests.states.dtype.kind != clf.classes_.dtype.kind:  # numbers here, names there
        as_text = np.where(tests.codes >= 0, tests.states.astype(str), "")
        truth = tests.with_states(as_text)
        predicted = clf.predict(tests).astype(str)
        predicted[predicted == str(clf.unknown_)] = ""
    else:
        predicted = clf.predict(tests)
    complete = clf.ends_window(tests)
    found = count_confusions(truth, predicted, known=truth.classes, complete=complete)
    recall = zip(found.states, found.recall, strict=True)
    return {
        "balanced": finite(found.balanced_accuracy) if len(truth.classes) > 1 else None,
        "recall": {str(state): finite(value) for state, value in recall},
        "steps": int(found.n_judged),
    }


def _moving_sum(values: Any, k: int) -> Any:
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    at = np.arange(len(values))
    low, high = np.maximum(at - k // 2, 0), np.minimum(at - k // 2 + k, len(values))
    return sums[high] - sums[low]


@contextlib.contextmanager
def _reporting(say: Say, what: str = "") -> Iterator[None]:
    """Say how far learning is: by its own reports, or by the time that it may take."""
    begun, furthest = time.monotonic(), 0.0
    if what:
        say(what, 0.0)

    def show(report: Report) -> None:
        nonlocal furthest
        of_time = (time.monotonic() - begun) / USUAL
        of_steps = report.step / report.total if report.total and report.task == "experts" else 0
        furthest = min(0.99, max(furthest, of_time, of_steps))
        say(report.task, furthest)

    with listen(show):
        yield
