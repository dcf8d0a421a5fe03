"""The options that say which column of a file is what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..files.stream_file import read_stream
from ..stream import Stream

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


def split_names(given: Sequence[str] | None) -> list[str] | None:
    """``a,b`` and repeated options alike."""
    if not given:
        return None
    names = [name.strip() for part in given for name in part.split(",")]
    if "" in names:
        raise InputError(f"--channels {','.join(given)} has an empty name; write them as a,b,c")
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
    """The stream in a file, with remedies that name options instead of Python's arguments."""
    try:
        return read_stream(
            file,
            label=label,
            recording=recording,
            time=time,
            channels=channels,
            unlabelled=unlabelled or None,
            max_gap=max_gap,
        )
    except InputError as error:
        line = str(error).replace("channels=[…]", "--channels a,b,c").replace("`time`", "--time")
        raise InputError(line.replace("`label`", "--label")) from None
