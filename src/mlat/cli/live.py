"""``mlat live``: classify a stream as it arrives."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import InputError
from ..live.core.options import LiveOptions
from .options import ModelFile, Options, Token, with_options


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"
    NONE = "none"


class Fsync(StrEnum):
    ALWAYS = "always"
    OFF = "off"


POLICIES = Options(
    LiveOptions,
    "missing hold order_by reorder rate max_gap far dead search filtered adapt",
    metavars={"rate": "HZ", "max_gap": "S", "far": "X|off"},
)


@with_options(policies=POLICIES)
def live(
    model: ModelFile,
    policies: dict[str, Any],
    source: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            help="Where steps come from: - (lines on standard input), replay:FILE or "
            "replay:FILE@RATE, mqtt://HOST:PORT/TOPIC or lsl:NAME.",
            show_default=False,
        ),
    ],
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep every step and prediction there before it is shown; the same command goes "
            "on from there.",
        ),
    ] = None,
    serve: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve a page that shows the stream.")
    ] = None,
    token: Token = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Of the predictions on standard output; default json, and none on a terminal "
            "while a page is served.",
            show_default=False,
        ),
    ] = None,
    fsync: Annotated[
        Fsync,
        typer.Option(help="Flush every record to the disk; off may lose some at a power failure."),
    ] = Fsync.ALWAYS,
    again: Annotated[
        int | None,
        typer.Option(
            metavar="STEP", min=0, help="First print what the journal holds from this step on."
        ),
    ] = None,
    snapshot_every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Steps between snapshots of the session.")
    ] = 10_000,
    segment_size: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Of the journal's files.")
    ] = 64_000_000,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Delete the journal's old files, but never the newest N or what a restart needs; "
            "default keeps all.",
        ),
    ] = None,
) -> None:
    """Predict the state of every step as it arrives.

    Predictions go to standard output, a line each; notices go to standard error. Ctrl-C ends it.
    """
    from ..classifier.model_file import load
    from ..live.core.session import LiveSession
    from ..live.page.hub import MOST_STEPS
    from ..live.sources import open_source
    from ..live.web.server import token_for
    from .live_program import Program

    of_journal = {
        "--fsync off": fsync is Fsync.OFF,
        "--again": again is not None,
        "--keep": keep is not None,
    }
    if journal is None and any(of_journal.values()):
        option = next(option for option, given in of_journal.items() if given)
        raise InputError(f"{option} is about the journal; add --journal DIR")
    address = None if serve is None else parse_address(serve)
    if address is None and token is not None:
        raise InputError("--token is for the page, and there is none; add --serve HOST:PORT")
    if address is not None:  # before anything is read or compiled
        token = token_for(address[0], token)
    opened = open_source(source)
    # Examples reach as far back as a page shows.
    session = LiveSession(load(model), **policies, teachable=MOST_STEPS)
    program = Program(
        session=session,
        source=opened,
        # Predictions would run over a terminal beside a page.
        form=str(form or (Format.NONE if serve and sys.stdout.isatty() else Format.JSON)),
        folder=journal,
        journal_options={"fsync": fsync is Fsync.ALWAYS, "segment_size": segment_size},
        again=again,
        snapshot_every=snapshot_every,
        keep=keep,
        address=address,
        token=token,
        model=model,
    )
    raise typer.Exit(program.run())


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[::1]:PORT``, or a port on this machine alone."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InputError(f"--serve {text}: give a host and a port, such as 127.0.0.1:8765")
    return host, int(port)
