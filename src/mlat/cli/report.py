"""One file to send to somebody: how good a model is on a stream, where it is wrong, and why."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..base.disk import atomic_write
from ..classifier.classifier import StreamClassifier
from ..classifier.held_out import RUN
from ..explain.confusions import Confusions
from ..explain.explanation import explain
from ..plots.explain import draw_explanation
from ..plots.timeline import plot_stream
from ..stream.conversion import changes
from ..stream.stream import Stream
from .screen import OF, interval_of, most_often, percent

WORST = 3  # stretches that are shown
AROUND = 2  # windows before and after them
DPI = 100

STYLE = """
:root { color-scheme: light dark; --soft: #55626f; --line: #c3ccd5; }
@media (prefers-color-scheme: dark) { :root { --soft: #a2aeba; --line: #43505d; } }
body { max-width: 1000px; margin: 24px auto; padding: 0 16px; font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 24px } h2 { font-size: 19px; margin: 32px 0 8px }
.first { font-size: 20px; margin: 8px 0 } .soft { color: var(--soft) }
table { border-collapse: collapse } th, td { padding: 3px 16px 3px 0; text-align: right }
th:first-child, td:first-child, td.name { text-align: left }
th { color: var(--soft); font-weight: 400 } tr + tr td { border-top: 1px solid var(--line) }
.wide { overflow-x: auto } img { max-width: 100%; border-radius: 6px; margin: 4px 0 }
"""


class Wrong(NamedTuple):
    """Steps ``start`` to ``stop - 1`` are in one state, and taken for another."""

    start: int
    stop: int
    true: Any
    predicted: Any


def worst_stretches(stream: Stream, predicted: NDArray[Any], unknown: Any) -> list[Wrong]:
    """The longest stretches without a break in which one state is taken for another."""
    wrong = stream.labelled & (predicted != unknown) & (predicted != stream.states)
    n = len(stream)
    begins = changes(predicted, n, first=True) | changes(stream.codes, n) | stream.gap_before
    edges = np.append(np.flatnonzero(begins), n)
    found = [
        Wrong(a, b, stream.states[a], predicted[a])
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if wrong[a]
    ]
    return sorted(found, key=lambda one: one.start - one.stop)[:WORST]


def write_report(
    file: Path,
    classifier: StreamClassifier,
    stream: Stream,
    predicted: NDArray[Any],
    found: Confusions,
    *,
    title: tuple[str, str],
    notes: list[str],
    pictures: dict[str, Figure],
) -> None:
    """Write the report; ``title`` are the names of the model and of the stream."""
    model, name = map(html.escape, title)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{model} on {name}</title><style>{STYLE}</style>",
        f"<h1>{model} on {name}</h1>",
        f"<p class=first>Balanced accuracy <b>{percent(found.balanced_accuracy)}</b>, the mean of "
        f"the recall of each state; {html.escape(interval_of(found))} "
        f"Guessing: {percent(found.guessing)}.</p>",
        f"<p>{html.escape(_expected(classifier))}</p>",
        f"<p>Accuracy {percent(found.accuracy)}: {found.n_right} of {found.n_judged} labelled "
        f"steps in {found.n_runs} runs; always saying {html.escape(str(found.most_frequent[0]))} "
        f"has {percent(found.most_frequent[1])}.</p>",
        *(f"<p class=soft>{html.escape(note)}</p>" for note in notes),
        "<h2>By state</h2>",
        _table(found),
        *(["<h2>By recording</h2>", _recordings(found)] if found.by_recording else []),
    ]
    for heading, figure in pictures.items():
        parts += [f"<h2>{heading}</h2>", _image(figure, heading)]
    parts.append("<h2>The longest mistakes</h2>")
    worst = worst_stretches(stream, predicted, classifier.unknown_)
    parts += [] if worst else ["<p>There are none.</p>"]
    for one in worst:
        parts += _mistake(classifier, stream, predicted, one)
    with atomic_write(file) as temporary:
        temporary.write_text("\n".join(parts), encoding="utf-8")


def _expected(classifier: StreamClassifier) -> str:
    expected = classifier.committee_.expected
    if expected is None:
        return "When it was learned nothing was left out as a whole: no accuracy was expected."
    of = "its own recording, not of another" if expected.of == RUN else OF[expected.of]
    return (
        f"When it was learned, {expected.accuracy:.0%} were expected of {of}, nine times in ten "
        f"from {expected.low:.0%} to {expected.high:.0%}."
    )


def _table(found: Confusions) -> str:
    rows = ["<tr><th>state<th>steps<th>recall<th>precision<th>most often taken for"]
    for row, state in enumerate(found.states):
        cells = (found.n_steps[row], percent(found.recall[row]), percent(found.precision[row]))
        rows.append(
            f"<tr><td>{html.escape(str(state))}"
            + "".join(f"<td>{cell}" for cell in cells)
            + f"<td class=name>{html.escape(most_often(found, row))}"
        )
    return f"<div class=wide><table>{''.join(rows)}</table></div>"


def _recordings(found: Confusions) -> str:
    rows = ["<tr><th>recording<th>steps<th>balanced accuracy"]
    for name, one in found.by_recording.items():
        accuracy = percent(one.balanced_accuracy)
        rows.append(f"<tr><td>{html.escape(str(name))}<td>{one.n_judged}<td>{accuracy}")
    return f"<div class=wide><table>{''.join(rows)}</table></div>"


def _mistake(
    classifier: StreamClassifier, stream: Stream, predicted: NDArray[Any], one: Wrong
) -> list[str]:
    step = stream.usual_step
    length = f"{(one.stop - one.start) * step:.1f} s" if step else f"{one.stop - one.start} steps"
    said = f"{length} of {one.true!s} taken for {one.predicted!s}, from step {one.start}"
    around = AROUND * classifier.width_ + one.stop - one.start
    part = slice(max(0, one.start - around), min(len(stream), one.stop + around))
    middle = (one.start + one.stop - 1) // 2
    why = explain(classifier, stream, middle, predicted=one.predicted)
    signal = plot_stream(stream[part], predicted={"predicted": predicted[part]})
    axis = signal.axes[0]
    axis.set_xlabel(f"{axis.get_xlabel()}, counted from step {part.start}")
    return [
        f"<h3>{html.escape(said)}</h3>",
        _image(signal, said),
        _image(draw_explanation(why, classifier, stream), f"Why, at step {middle}"),
    ]


def _image(figure: Figure, words: str) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, facecolor="white")
    text = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/png;base64,{text}">'
