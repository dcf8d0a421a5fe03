"""Live classification: what a step costs, and how many streams one core carries.

Everything is in one run and one thread. Steps to be compared are taken in turn, a few at a time,
so that whatever else the machine does slows them alike.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ..files.atomic import atomic_write
from .live_problems import CHANNELS, live_values, model
from .live_soak import soak
from .live_timing import (
    Ticks,
    brute_step,
    bytes_of_a_step,
    flat_step,
    in_turn,
    reading,
    real_time,
    session_step,
)

ROUNDS, PER_ROUND = 20, 50
LONG = 200


@dataclass(frozen=True)
class Steps:
    """Microseconds, and the bytes that a step reads and writes.

    ``short`` is the search at w=10, ``brute`` scikit-learn's query there, ``read`` reading as many
    bytes as the short search does; ``long_few`` and ``long`` are the searches at w=200 with as few
    taps and with all of them. ``session`` and ``session_long`` are whole steps of a session, from
    raw channels to a prediction, at w=10 and at w=200 with all taps.
    """

    short: float
    brute: float
    read: float
    long_few: float
    long: float
    session: float
    session_long: float
    n_bytes: int
    n_references: int


def measure_steps(console: Console, *, rounds: int = ROUNDS) -> Steps:
    """One stream, one step at a time."""
    console.print(f"learning three metrics over {CHANNELS} channels, two of {LONG} steps ...")
    values = live_values(2000)
    short, long = model(10, 20), model(LONG, None)
    search, step = flat_step(short, values)
    n_bytes = bytes_of_a_step(search)
    taken = in_turn(
        {
            "short": step,
            "brute": brute_step(short, values),
            "read": reading(n_bytes),
            "long_few": flat_step(model(LONG, 20), values)[1],
            "long": flat_step(long, values)[1],
            "session": session_step(short, values),
            "session_long": session_step(long, values),
        },
        rounds,
        PER_ROUND,
    )
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    return Steps(**us, n_bytes=n_bytes, n_references=len(short.windows_))


def show_steps(steps: Steps, console: Console) -> None:
    table = Table(title=f"One step against {steps.n_references:,} references, d={CHANNELS}")
    for heading in ("what", "µs", "ratio", "asked"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    short, session = steps.short, steps.session
    table.add_row("scikit-learn, brute force, one query", f"{steps.brute:.0f}", "", "")
    for name, time in (("a session's step", session), ("its search alone", short)):
        table.add_row(f"{name}, w=10", f"{time:.0f}", f"1/{steps.brute / time:.0f} of it", "1/5")
    for name, time, base in (
        (f"a session's step, w={LONG}, all taps", steps.session_long, session),
        (f"its search alone, w={LONG}, all taps", steps.long, short),
        (f"its search alone, w={LONG}, 20 taps", steps.long_few, short),
    ):
        table.add_row(name, f"{time:.0f}", f"{time / base:.2f} of w=10", "1.5")
    ratio = f"search: {short / steps.read:.1f} of it"
    table.add_row("reading the search's bytes", f"{steps.read:.0f}", ratio, "")
    console.print(table)
    speed = steps.n_bytes / steps.read / 1e3
    console.print(
        f"a step moves {steps.n_bytes / 1e6:.2f} MB, at {steps.n_bytes / short / 1e3:.0f} GB/s of "
        f"the {speed:.0f} GB/s that reading alone reaches"
    )


def show_ticks(ticks: Ticks, console: Console) -> None:
    table = Table(
        title=f"{ticks.n_streams} streams of {CHANNELS} channels at {ticks.rate:g} Hz, one core"
    )
    for heading in ("what", "measured", "asked"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_row("latency, median", f"{ticks.p50:.1f} ms", "")
    table.add_row("latency, 99 in 100", f"{ticks.p99:.1f} ms", "20 ms")
    table.add_row("latency, worst", f"{ticks.worst:.1f} ms", "")
    table.add_row("median on a core of its own, by processor time", f"{ticks.own_p50:.1f} ms", "")
    table.add_row("99 in 100 there", f"{ticks.own_p99:.1f} ms", "20 ms")
    table.add_row("share of the core", f"{ticks.share:.0%}", "")
    table.add_row("memory per stream", f"{ticks.bytes_per_stream / 1024:.1f} KB", "64 KB")
    table.add_row("windows compared exactly", f"{ticks.exact:.2%}", "")
    console.print(table)


def main(
    streams: Annotated[int, typer.Option(help="How many streams at once.")] = 500,
    rate: Annotated[float, typer.Option(help="Steps a second of each.")] = 100.0,
    seconds: Annotated[float, typer.Option(help="How long they run, in real time.")] = 20.0,
    soak_steps: Annotated[
        int, typer.Option("--soak", help="Only push this many steps through running sums.")
    ] = 0,
    steps: Annotated[bool, typer.Option(help="Compare single steps, too.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Live: a step against scikit-learn and against longer windows, and many streams at once."""
    console = Console()
    figures: dict[str, object] = {}
    with threadpool_limits(1):
        if soak_steps:
            soaked = soak(soak_steps, console)
            figures["soak"] = asdict(soaked)
            console.print(
                f"{soaked.n_steps:,} steps in {soaked.seconds:.0f} s; at {soaked.n_checked:,} of "
                f"them squared distances differ from exact ones by at most "
                f"{soaked.difference:.2g}, which is {soaked.share:.2%} of the bound there; "
                f"{soaked.wrong} states differ; memory {soaked.early_mb:.1f} MB, "
                f"then {soaked.end_mb:.1f} MB"
            )
        else:
            if steps:
                measured = measure_steps(console)
                figures["steps"] = asdict(measured)
                show_steps(measured, console)
            ticks = real_time(
                model(10, 20), live_values(5000), n_streams=streams, rate=rate, seconds=seconds
            )
            figures["ticks"] = asdict(ticks)
            show_ticks(ticks, console)
    if out is not None:
        with atomic_write(out) as temporary:
            temporary.write_text(json.dumps(figures, indent=1))
