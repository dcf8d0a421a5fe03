"""``mlat label``: label recordings in the browser, with proposals."""

from __future__ import annotations

import asyncio
import signal
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.checks import check_text
from ..base.errors import InputError
from ..stream.sources import file_format
from .columns import Columns, title_of, with_columns
from .live import parse_address
from .one_line import INTERRUPTED
from .options import Seconds, Token, steps_or_seconds
from .output import check_can_write
from .screen import working

if TYPE_CHECKING:
    from ..label.recording import Recording
    from ..label.session import LabelSession
    from ..label.span_list import Stretch


@with_columns
def label(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING…",
            help="Files with one row per step, or the journal of a live session.",
            show_default=False,
        ),
    ],
    columns: Columns,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="LABELS",
            help="The table of labels (.csv, .tsv or .parquet), which is also where a later call "
            "goes on; default RECORDING.labels.csv beside the recording.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="A model that proposes from the beginning."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COL", help="A column of states that are taken as first labels."),
    ] = None,
    media: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A video or audio file, shown in step with the cursor."),
    ] = None,
    offset: Annotated[
        float,
        typer.Option(
            metavar="S", help="The second of the recording at which the media file begins."
        ),
    ] = 0.0,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="N|TIME",
            help="Steps per window of what is learned, or seconds, such as 1s; default as "
            "for mlat fit.",
        ),
    ] = None,
    serve: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where to serve the page; port 0 for any."),
    ] = "127.0.0.1:0",
    token: Token = None,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed",
            help="Go on although a recording has changed since, or another program has changed "
            "the table; its changes are taken as an edit, which undo takes back.",
        ),
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the page by itself.")
    ] = False,
) -> None:
    """Label recordings in the browser: a page on this machine, with proposals for the rest.

    Every edit is on disk before it is shown as done. Ctrl-C ends it; the same command goes on.
    """
    from ..label.session import LabelSession
    from ..live.web.server import token_for

    address = parse_address(serve)
    token = token_for(address[0], token)
    for given in (model, media):
        if given is not None and not given.is_file():
            raise InputError(f"{given} is no file; check the name")
    first = recordings[0]
    table = out or first.with_name(f"{first.stem}.labels.csv")
    file_format(table)
    check_can_write(table, *recordings, model, media)
    read: list[Recording] = []
    for path in recordings:
        with working(f"reading {path.name}"):
            one = _read(path, columns, label)
        if any(other.name == one.name for other in read):
            raise InputError(f"two recordings are called {one.name}; rename one of them")
        if read and one.stream.channels != read[0].stream.channels:
            raise InputError(
                f"{one.name} has the channels {', '.join(one.stream.channels)}, {read[0].name} has "
                f"{', '.join(read[0].stream.channels)}; label recordings of other sensors by "
                "themselves"
            )
        if not len(one):
            raise InputError(f"{path} holds no step")
        read.append(one)
    if model is not None:
        with working(f"reading {model.name}"):
            _check_channels(model, read[0])
    first_labels = {number: one.labels() for number, one in enumerate(read)} if label else {}
    if label and not any(first_labels.values()):
        raise InputError(f"{title_of(recordings)}: column {label!r} names no state; leave it out")
    try:
        session = LabelSession(read, table, changed=changed)
    except InputError as error:
        said = str(error).replace("pass changed=True", "give --changed")
        raise InputError(said.replace("another table", "another table with -o")) from None
    try:
        if session.version and first_labels:
            first_labels = {}
            session.notes.append(f"--label is left out: there are labels in {table} already")
        for note in filter(None, [*session.notes, session.table_error]):
            _say(note)
        stem = table.name.removesuffix(table.suffix).removesuffix(".labels")
        more: dict[str, Any] = {
            "width": _width(read, width),
            "model_out": table.with_name(f"{stem}.mlat") if model is None else model,
            "model": model,
            "media": media,
            "offset": offset,
        }
        opens = not no_browser and sys.stdout.isatty()
        raise typer.Exit(asyncio.run(_serve(session, first_labels, (*address, token), more, opens)))
    finally:
        session.close()


def _read(path: Path, columns: Columns, label: str | None) -> Recording:
    from ..label.recording import Recording, is_journal, read_journal_recording

    check_text(path.name, "the name of the recording")
    if is_journal(path):
        return replace(read_journal_recording(path), given_rate=columns.rate)
    return Recording(path.name, columns.read(path, label), given_rate=columns.rate)


def _check_channels(model: Path, one: Recording) -> None:
    from ..classifier.model_file import load

    channels = load(model).channels_
    if {*channels} != {*one.stream.channels}:
        raise InputError(
            f"{model} knows the channels {', '.join(channels)}, {one.name} has "
            f"{', '.join(one.stream.channels)}; give a model of the same sensors"
        )


def _width(read: Sequence[Recording], given: str | None) -> int | None:
    if given is None:
        return None
    width, rate = steps_or_seconds(given, "--width"), read[0].rate
    step = 1 / rate if rate else None
    return width.steps(step, "--width") if isinstance(width, Seconds) else width


async def _serve(
    session: LabelSession,
    first_labels: Mapping[int, Sequence[Stretch]],
    address: tuple[str, int, str | None],
    more: dict[str, Any],
    opens: bool,
) -> int:
    """Serve the page until a signal comes; return the exit status."""
    from ..label.page.server import serve

    server = await serve(session, *address, **more, say=_say)
    try:
        if first_labels:  # now that nothing else can be refused
            await asyncio.to_thread(session.fill, first_labels)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def end(number: int) -> None:
            if not ended.done():
                ended.set_result(INTERRUPTED if number == signal.SIGINT else 0)

        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not in every thread
                asyncio.get_running_loop().add_signal_handler(number, end, number)
        _say(f"page at {server.url}; labels in {session.table}; Ctrl-C ends it")
        if opens:
            await asyncio.to_thread(webbrowser.open, server.url)
        status = await ended
        labelled = sum(len(spans) for spans in session.lists)
        _say(session.table_error or f"{labelled} spans in {session.table}")
        return status
    finally:
        await server.close()


def _say(line: str) -> None:
    print(f"mlat: {line}", file=sys.stderr, flush=True)
