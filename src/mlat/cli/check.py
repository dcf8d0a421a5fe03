"""``mlat check``: what was understood of a recording, before anything is learned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..base.checks import Floats
from ..base.errors import InputError, NamesError
from ..stream.column_roles import usual_rate
from ..stream.conversion import changes, in_seconds
from ..stream.signs import without_copies
from ..stream.stream import Stream
from .columns import Columns, LabelTable, StreamFiles, labelled_by, title_of, with_columns
from .options import Label
from .output import check_can_write
from .screen import AsJson, Screen, console, percent, print_json, stream_of, table_of, working

STATE_NAMES = {"state", "label", "class", "activity", "target"}
MANY = 0.01  # of the steps
LONG_STEP = 5  # seconds, if that is what the time counts
SHORT = 10  # steps of a window: shorter copies are no copies
FAR_APART = 1000  # times the spread of another channel: of another unit, or one of them is dead


@with_columns
def check(
    stream: StreamFiles,
    columns: Columns,
    label: Label = None,
    labels: LabelTable = None,
    out: Path | None = None,
    picture: bool = True,
    as_json: AsJson = False,
) -> None:
    """Say what is understood of a recording: columns, rate, gaps, states and missing values.

    Parameters
    ----------
    out : PICTURE
        Where to draw it (.png, .svg or .pdf); default STREAM-check.png.
    picture
        Draw a picture at all.
    """
    file = out or Path(f"{stream[0].stem if str(stream[0]) != '-' else 'stream'}-check.png")
    if picture:
        check_can_write(file, *stream, labels)
    with working(f"reading {title_of(stream)}"):
        read = labelled_by(_read(columns, stream, label), stream, labels)
        without_copies(read, SHORT)  # says so where there are any
    told = {**stream_of(read), "time": _time(read), "values": _values(read)}
    told["hints"] = [*_hints(read, told["values"]), *hints_on_time(read)]
    if picture:
        from ..plots.figure import save_figure
        from ..plots.timeline import plot_stream

        with working("drawing"):
            save_figure(plot_stream(read), file)
    if as_json:
        print_json(told)
        return
    screen = console()
    dated = read.time is not None and read.time.dtype.kind in "mM"
    screen.print(f"{len(read)} steps of {read.n_channels} channels. {_words(told['time'], dated)}")
    _print_table(screen, "channel", told["values"])
    _print_table(screen, "state", told["states"])
    for hint in told["hints"]:
        screen.say(hint)
    if picture:
        screen.say(f"Picture: {file}")


def _read(columns: Columns, files: list[Path], label: str | None) -> Stream:
    """The stream; a column of names is taken for the states where nobody says what it is."""
    try:
        return columns.read(files, label)
    except NamesError as error:
        if label is not None or not error.column:
            raise
        try:
            read = columns.read(files, error.column)
        except NamesError as other:
            raise InputError(f"{error}; with that as the label, {other}") from None
        states = (str(state).replace(",", ".").lstrip("+-") for state in read.classes)
        if any(state[:1] in "0123456789." for state in states):  # one wrong entry among numbers
            raise
        note = f"column {error.column!r} holds names, and is taken for the states (--label)"
        print(f"mlat: {title_of(files)}: {note}", file=sys.stderr)
        return read


def _time(stream: Stream) -> dict[str, Any]:
    """How the steps follow each other."""
    begins = changes(stream.recordings, len(stream))
    told: dict[str, Any] = {"recordings": 1 + int(begins.sum())}
    step = stream.usual_step
    if stream.time is None or not step:
        return told
    elapsed = in_seconds(np.diff(stream.time))[~begins[1:]]
    jitter = np.abs(elapsed[elapsed <= 1.5 * step] - step)
    return {
        **told,
        "rate": 1 / step,
        "gaps": int((stream.gap_before & ~begins)[1:].sum()),
        "longest_gap": float(elapsed.max()),
        "jitter": float(np.mean(jitter) / step) if len(jitter) else 0.0,
    }


def _words(time: dict[str, Any], dated: bool) -> str:
    n = time["recordings"]
    said = f"{n} recording{'s' if n > 1 else ''}"
    if "rate" not in time:
        return f"{said}; no time: every step is taken to follow the one before it."
    gaps = f"{time['gaps']} gaps, the longest {time['longest_gap']:.4g} s" if time["gaps"] else ""
    per = "a second" if dated else "a second, if that is what it counts"
    return (
        f"{said}, {time['rate']:.4g} steps {per}; {gaps or 'no gaps'}; steps vary by "
        f"{time['jitter']:.0%}."
    )


def _values(stream: Stream) -> list[dict[str, Any]]:
    told = []
    for name, column in zip(stream.channels, stream.values.T, strict=True):
        seen: Floats = column[~np.isnan(column)].astype(np.float64)
        low, middle, high = np.quantile(seen, [0, 0.5, 1]).tolist() if len(seen) else [np.nan] * 3
        told.append(
            {
                "channel": name,
                "least": low,
                "median": middle,
                "greatest": high,
                "deviation": float(seen.std()) if len(seen) else np.nan,
                "missing": 1 - len(seen) / max(len(column), 1),
            }
        )
    return told


def _hints(stream: Stream, values: list[dict[str, Any]]) -> list[str]:
    """What a person should look at before learning."""
    spread = {one["channel"]: one["deviation"] for one in values}
    dead = [name for name, deviation in spread.items() if not deviation > 0]
    found = [f"{name} never changes: leave it out (--channels)." for name in dead]
    found += [
        f"{name} has the name of states, and is taken for a channel: say so (--label {name})."
        for name in spread
        if name.lower() in STATE_NAMES
    ]
    alive = {name: deviation for name, deviation in spread.items() if deviation > 0}
    least, most = (f(alive, key=alive.__getitem__, default="") for f in (min, max))
    if alive and alive[most] > FAR_APART * alive[least]:
        found.append(
            f"{most} varies {alive[most] / alive[least]:.0f} times as much as {least}: channels "
            "are scaled before they are compared, so units need not agree; see that they are right."
        )
    rows = int(stream.missing.sum())
    if rows:
        found.append(
            f"{rows} steps miss a value ({percent(rows / len(stream))}): no window of mlat fit has "
            "them; mlat predict fills one or two in a row where that is harmless (--fill)."
        )
    unlabelled = int((~stream.labelled).sum())
    if 0 < unlabelled < len(stream):
        found.append(f"{unlabelled} steps have no state: nothing is learned from them.")
    few = [str(s) for c, s in enumerate(stream.classes) if (stream.runs.code == c).sum() < 2]
    if few and len(stream.runs):
        found.append(
            f"One run only of {', '.join(few)}: nothing can be held out to judge by; record each "
            "state twice."
        )
    return found


def hints_on_time(stream: Stream) -> list[str]:
    """What ends runs and can be mended by equal steps; and a time that is not in seconds."""
    step, found = stream.usual_step, list[str]()
    if stream.time is None or not step:
        return found
    n_gaps = int(stream.gap_before[1:].sum())
    rate = usual_rate(in_seconds(np.diff(stream.time)))
    remedy = f"equal steps can be made of them (--rate {rate})."
    if n_gaps > MANY * len(stream):
        found.append(f"{n_gaps} gaps in time end runs: {remedy}")
    if stream.missing.mean() > MANY:
        found.append(f"Many steps miss values, as where sensors have rates of their own: {remedy}")
    if step >= LONG_STEP and stream.time.dtype.kind not in "mM":
        found.append(
            f"A step is {step:g} of the time's units. If these are not seconds (milliseconds?), "
            "give --width and --reach in steps, and --rate in steps per unit."
        )
    return found


def _print_table(screen: Screen, first: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = table_of(first, *list(rows[0])[1:])
    for row in rows:
        cells = [percent(v) if k == "missing" else f"{v:.4g}" for k, v in list(row.items())[1:]]
        table.add_row(str(row[first]), *cells)
    screen.print(table)
