"""The options that say which column of a file is what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..stream.read import read_stream
from ..stream.stream import Stream

StreamFile = Annotated[
    Path,
    typer.Argument(
        metavar="STREAM",
        help="One row per step: .csv, .tsv (also .gz) or .parquet.",
        show_default=False,
    ),
]
Recording = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column that says which recording a step belongs to."),
]
Time = Annotated[str | None, typer.Option(metavar="COL", help="Column of time: numbers or dates.")]
MaxGap = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        help="The longest time between two steps that is not a gap, in seconds for dates; "
        "default 1.5 times the median.",
    ),
]
Unlabelled = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE", help="Entry of the label column that means no state; repeatable."
    ),
]
ModelChannels = Annotated[
    list[str] | None,
    typer.Option(
        "--channels",
        metavar="A,B,C",
        help="Columns that stand for the model's channels, in its order; default those of "
        "the same names.",
    ),
]
Filtered = Annotated[
    bool,
    typer.Option(
        "--filtered", help="Let states persist: steadier, and later at a switch of states."
    ),
]


def split_names(given: Sequence[str] | None, option: str = "--channels") -> list[str] | None:
    """``a,b`` and repeated options alike."""
    if not given:
        return None
    names = [name.strip() for part in given for name in part.split(",")]
    if "" in names:
        raise InputError(f"{option} {','.join(given)} has an empty name; write them as a,b,c")
    return names


def read(
    file: Path,
    *,
    label: str | None,
    recording: str | None,
    time: str | None,
    max_gap: float | None,
    channels: list[str] | None,
    unlabelled: list[str] | None,
) -> Stream:
    """The stream in a file; empty options count as not given."""
    return read_stream(
        file,
        label=label,
        recording=recording,
        time=time,
        channels=channels,
        unlabelled=unlabelled or None,
        max_gap=max_gap,
    )


def read_for_model(
    classifier: StreamClassifier,
    model: Path,
    file: Path,
    *,
    label: str | None,
    recording: str | None,
    time: str | None,
    max_gap: float | None,
    channels: list[str] | None,
    unlabelled: list[str] | None,
) -> Stream:
    """The stream in a file, as the model read from the file ``model`` knows its channels."""
    stream = read(
        file,
        label=label,
        recording=recording,
        time=time,
        max_gap=max_gap,
        channels=_columns(channels, classifier, model),
        unlabelled=unlabelled,
    )
    if channels:
        stream = _renamed(stream, classifier.channels_)
    if stream.labelled.any() and stream.no_state != classifier.unknown_:
        kind = "names" if classifier.unknown_ == "" else "numbers"
        raise InputError(
            f"{file}: column {label!r} holds states such as {stream.classes[0]!s}, but the "
            f"model's states are {kind}: {', '.join(str(c) for c in classifier.classes_[:10])}; "
            "write them alike"
        )
    return stream


def _columns(given: list[str] | None, classifier: StreamClassifier, model: Path) -> list[str]:
    names = split_names(given)
    if names is None:
        return list(classifier.channels_)
    if len(names) != classifier.n_channels_:
        raise InputError(
            f"--channels names {len(names)} columns, but {model} was learned on "
            f"{classifier.n_channels_} channels: {', '.join(classifier.channels_)}"
        )
    return names


def _renamed(stream: Stream, channels: tuple[str, ...]) -> Stream:
    return Stream(
        stream.values,
        stream.states,
        recordings=stream.recordings,
        time=stream.time,
        channels=channels,
        max_gap=stream.max_gap,
    )
