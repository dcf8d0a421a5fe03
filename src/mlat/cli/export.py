"""``mlat export``: a model as C for a device, as ONNX or as WebAssembly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from ..base.disk import atomic_write
from ..base.errors import InputError
from ..classifier.model_file import load
from ..classifier.thin import Thinning
from ..export.arduino import arduino_files
from ..export.browser import browser_files
from ..export.c_source import write_c
from ..export.onnx_graph import write_onnx
from ..export.plain_model import PlainModel
from .columns import Filtered, ModelFile
from .output import check_can_be_folder, check_can_write, make_folder
from .screen import console, size_of, working

EVERY = (1, 2, 4, 8, 16)  # tried in turn, before references are dropped
FEWER = (1.0, 0.5, 0.25, 0.1, 0.05)  # fractions of the references in the report


def export(
    model: ModelFile,
    c: Annotated[
        Path | None, typer.Option("--c", metavar="DIR", help="Write mlat.h and mlat.c there.")
    ] = None,
    arduino: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write an Arduino library there, with a sketch."),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write an ONNX graph there: windows in, states and distances out."
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="With --onnx: a graph for one step, which carries a stream's state."
        ),
    ] = False,
    wasm: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write WebAssembly there, and a module that loads it."),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            help="Of a stored number of a reference: 64, 32, 16 or 8; default 32, 16 with --fixed.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="K",
            help="In C: store features over many steps at every K-th step only; default 1, or with "
            "--max-kb what lets all references fit, up to 16.",
            show_default=False,
        ),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Whole numbers only: no floating point at all.")
    ] = False,
    max_references: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep at most N references, those that decide most."),
    ] = None,
    max_kb: Annotated[
        float | None,
        typer.Option(min=0, metavar="KB", help="Keep as many references as fit in KB of tables."),
    ] = None,
    filtered: Filtered = False,
    hold: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Steps in a row for which a missing value is the last one."
        ),
    ] = 0,
    far: Annotated[
        float | None,
        typer.Option(
            metavar="TIMES",
            help="Unknown beyond so many times the farthest in training; a live session has 3.",
        ),
    ] = None,
    dead: Annotated[
        bool,
        typer.Option(
            "--dead", help="Unknown while a channel is constant far longer than in training."
        ),
    ] = False,
    spare: Annotated[
        int, typer.Option(min=0, metavar="N", help="References that can be taught on the device.")
    ] = 0,
    new_states: Annotated[
        int, typer.Option(min=0, metavar="N", help="States that can be taught, beside the model's.")
    ] = 0,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Carry a sum for each reference from step to step: more RAM, fewer products.",
        ),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Only say what each choice would take.")
    ] = False,
) -> None:
    """Write a model as C99 that needs no memory of its own, as ONNX or as WebAssembly."""
    if not (c or arduino or onnx or wasm or report):
        raise InputError(
            "say what to write: --c DIR, --arduino DIR, --onnx FILE, --wasm DIR; or --report, to "
            "write nothing"
        )
    if onnx is not None:
        check_can_write(onnx, model)
        _check_onnx(
            {
                "--fixed": fixed,
                "--spare": spare,
                "--dead": dead,
                "--every": (every or 1) > 1,
                "--incremental": incremental,
            }
        )
    elif stream:
        raise InputError("--stream is a choice of --onnx FILE; what is written in C takes steps")
    for folder in (c, arduino, wasm):
        if folder is not None:
            check_can_be_folder(folder)
    classifier = load(model)
    plain = PlainModel.of(classifier)
    bits = bits or (16 if fixed else 32)
    write = partial(
        write_c,
        fixed=fixed,
        filtered=filtered,
        hold=hold,
        far=far,
        dead=dead,
        spare=spare,
        new_states=new_states,
    )
    searches = [partial(write, incremental=one) for one in (False, True)]
    write = searches[incremental]
    graph = partial(write_onnx, bits=bits, stream=stream, filtered=filtered, hold=hold, far=far)
    in_c = bool(c or arduino or wasm)
    if every is None and max_kb is not None and in_c:
        sizes = [write(plain, bits=bits, every=k).flash for k in EVERY]
        fits = [k for k, size in zip(EVERY, sizes, strict=True) if size <= 1000 * max_kb]
        every = fits[0] if fits else EVERY[-1]
    write = partial(write, every=every or 1)
    first = plain.take(np.unique(plain.codes, return_index=True)[1])
    write(first, bits=bits)  # refuses what cannot be written
    if onnx is not None:
        graph(first)
    screen = console()
    if report:
        with working("thinning the references"):
            thinning = Thinning(classifier, by_steps=True)
        table = Table(
            "references", "bits", "every", "tables", "RAM", "products a step", "same decisions"
        )
        for fraction in FEWER:
            kept = thinning.keep(max(1, int(fraction * len(plain.start))))
            for one, k in [(b, k) for b in ((16, 8) if fixed else (32, 16, 8)) for k in (1, 4)]:
                code = write(plain.take(kept.rows), bits=one, every=k)
                table.add_row(
                    *(f"{len(kept.rows):,}", str(one), str(k)),
                    *(size_of(code.flash), size_of(code.ram)),
                    *(f"{code.products:,}", f"{kept.agreement:.1%}"),
                )
        screen.print(table)
        anew, going_on = (one(plain, bits=bits, every=every or 1) for one in searches)
        screen.print(
            f"With all references in {bits} bits, --incremental has {size_of(going_on.ram)} RAM "
            f"and {going_on.products:,} products a step; without it there are "
            f"{size_of(anew.ram)} and {anew.products:,}."
        )
        screen.print(
            "Same decisions: by fewer references, on training windows that had no part in choosing "
            "them; what fewer bits and steps change is not in it."
        )
        return
    if max_references is not None or max_kb is not None:
        with working("thinning the references"):

            def size(some: PlainModel) -> int:
                of_c = write(some, bits=bits).flash if in_c else 0
                return max(of_c, len(graph(some)) if onnx else 0)

            plain, said = _thin(
                Thinning(classifier, by_steps=True), plain, max_references, max_kb, size
            )
        if bits < 32 or (every or 1) > 1:
            said += " What fewer bits and steps change is not in it."
        screen.print(said)
    written = []
    if onnx is not None:
        data = graph(plain)
        with atomic_write(onnx) as file:
            file.write_bytes(data)
        written.append(onnx)
        screen.print(
            f"{len(plain.start):,} references of {plain.width} steps, {len(plain.states)} states: "
            f"{size_of(len(data))} of ONNX, {'one step of a stream' if stream else 'windows'} at a "
            "time."
        )
    if not in_c:
        _say_written(written)
        return
    code = write(plain, bits=bits)
    for_browser = browser_files(code) if wasm is not None else {}
    if c is not None:
        written += _write(c, {"mlat.h": code.header, "mlat.c": code.source}, model)
    if arduino is not None:
        written += _write(arduino, arduino_files(code), model)
    if wasm is not None:
        written += _write(wasm, for_browser, model)
    screen.print(
        f"{len(plain.start):,} references of {plain.width} steps, {len(plain.states)} states: "
        f"{size_of(code.flash)} of tables, {size_of(code.ram)} RAM for each stream, "
        f"{code.products:,} multiplications a step."
        + (f" Slow features are stored at one step of {every}." if (every or 1) > 1 else "")
    )
    if fixed:
        screen.print(
            "Whole numbers: a distance of an expert is off by at most "
            f"{code.rounding:.2g} of its typical one, beside the rounding of what is stored"
            + (" and splits that go the other way." if plain.forests else ".")
        )
    _say_written(written)


def _say_written(files: list[Path]) -> None:
    console().print(f"Written: {', '.join(map(str, files))}", soft_wrap=True)


def _check_onnx(wanted: dict[str, object]) -> None:
    """Refuse what ONNX cannot say."""
    reasons = {
        "--fixed": "the operators of ONNX are for floating point",
        "--spare": "a graph of ONNX cannot be taught",
        "--every": "a graph of ONNX has all steps",
        "--incremental": "a graph of ONNX compares with all references anew",
        "--dead": "dead channels are not in the graph: a runtime gets every step from you",
    }
    for option, reason in reasons.items():
        if wanted[option]:
            raise InputError(f"{reason}; leave {option} out, or write --c DIR")


def _thin(
    thinning: Thinning,
    plain: PlainModel,
    max_references: int | None,
    max_kb: float | None,
    size_of_model: Callable[[PlainModel], int],
) -> tuple[PlainModel, str]:
    """The model with fewer references, and what to say of it."""

    def size(n: int) -> int:
        return size_of_model(plain.take(thinning.keep(n).rows))

    most = len(plain.start) if max_references is None else max_references
    room = np.inf if max_kb is None else 1000 * max_kb
    if size(most) > room:
        least = 1
        if size(least) > room:
            raise InputError(
                f"a block of references of each state takes {size_of(size(least))} already, more "
                f"than {max_kb:g} kB; store fewer bits, or fit a narrower or plainer model"
            )
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if size(middle) <= room else (least, middle)
        most = least
    kept = thinning.keep(most)
    said = (
        f"Kept {len(kept.rows):,} of {len(plain.start):,} references; {kept.agreement:.1%} of the "
        "decisions stay the same, on training windows that had no part in choosing them."
    )
    return plain.take(kept.rows), said


def _write(folder: Path, files: Mapping[str, str | bytes], model: Path) -> list[Path]:
    written = []
    for name, text in files.items():
        place, content = folder / name, text if isinstance(text, bytes) else text.encode()
        if place.is_file() and place.stem != "mlat" and place.read_bytes() != content:
            console(stderr=True).print(f"Kept as it is: {place}", soft_wrap=True)
            continue  # a sketch that somebody went on with
        make_folder(place.parent)
        check_can_write(place, model)
        with atomic_write(place) as file:
            file.write_bytes(content)
        written.append(place)
    return written
