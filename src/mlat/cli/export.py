"""``mlat export``: a model as C for a device, as ONNX or as WebAssembly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from .. import __version__
from ..base.checks import joined_by_or
from ..base.disk import atomic_write
from ..base.errors import InputError
from ..classifier.model_file import load
from ..classifier.thin import Thinning
from ..export.c_source import CSource, text_of, write_c
from ..export.decisions import Agreement
from ..export.folder import browser_files, c_folder
from ..export.onnx_graph import write_onnx
from ..export.plain_model import PlainModel
from ..export.targets import KEEP, TARGETS, Fitted, Limits, Size, Target, fit_into
from .options import Filtered, Label, ModelFile, Options, flag_of, with_options
from .output import check_can_be_folder, check_can_write, make_folder
from .screen import console, size_of, working

LEAST_REPORTED = 0.9  # of the decisions: the report goes no further down
WRITTEN = Options(
    write_c,
    "bits fixed hold far dead spare new_states incremental",
    metavars={"far": "TIMES"},
    words={
        "bits": "Of a stored number of a reference: 64, 32, 16 or 8; default 32, 16 with --fixed"
    },
)


@with_options(given=WRITTEN)
def export(
    model: ModelFile,
    given: dict[str, Any],
    c: Path | None = None,
    onnx: Path | None = None,
    stream: bool = False,
    wasm: Path | None = None,
    max_references: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep at most N references, those that decide most."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Find the smallest model for {joined_by_or([*TARGETS])} that keeps {KEEP:.0%} of "
            "the decisions.",
        ),
    ] = None,
    max_kb: Annotated[
        float | None,
        typer.Option(min=0, metavar="KB", help="Flash: a model that fits in it is found."),
    ] = None,
    max_us: Annotated[
        float | None,
        typer.Option(min=0, metavar="US", help="Microseconds of a step on the target, the same."),
    ] = None,
    prefix: str = "mlat",
    filtered: Filtered = False,
    on: Path | None = None,
    label: Label = None,
    report: bool = False,
) -> None:
    """Write a model as C99 that needs no memory of its own, as ONNX or as WebAssembly.

    Parameters
    ----------
    c : DIR
        Write a C library there, with examples.
    onnx : FILE
        Write an ONNX graph there: windows in, states and distances out.
    stream
        With --onnx: a graph for one step, which carries a stream's state.
    wasm : DIR
        Write WebAssembly there, and a module that loads it.
    prefix : NAME
        What the names in C begin with.
    on : FILE
        Count on this recording how many decisions stay the same; default on windows of the training
        stream, each mixed with one of another time.
    report
        Only say what each choice would take.
    """
    if not (c or onnx or wasm or report):
        raise InputError(
            "say what to write: --c DIR, --onnx FILE, --wasm DIR; or --report, to write nothing"
        )
    if target is not None and target not in TARGETS:
        raise InputError(f"--target must be {joined_by_or([*TARGETS])}, not {target!r}")
    if max_us is not None and target is None:
        raise InputError("--max-us is of a processor; say which with --target")
    if onnx is not None:
        check_can_write(onnx, model)
        _check_onnx(given)
    elif stream:
        raise InputError("--stream is a choice of --onnx FILE; what is written in C takes steps")
    for folder in (c, wasm):
        if folder is not None:
            check_can_be_folder(folder)
    classifier = load(model)
    whole = PlainModel.of(classifier)
    stream_on = None
    if on is not None:
        from ..stream.read import read_stream

        stream_on = read_stream(on, label=label, channels=whole.channels)
    place = TARGETS[target or "host"]
    bits = given.pop("bits", None)
    fixed = given.pop("fixed", False) or place.fixed
    incremental = given.pop("incremental", False)
    told = f"{model.name}, sha256 {sha256(model.read_bytes()).hexdigest()[:16]}, mlat {__version__}"
    options: dict[str, Any] = {"fixed": fixed, "filtered": filtered, **given}
    of_graph: dict[str, Any] = {
        name: options[name] for name in ("filtered", "hold", "far") if name in options
    }
    of_graph["stream"] = stream

    def write(some: PlainModel, bits: int) -> CSource:
        ways = {incremental}
        if target and any(one.n_lags == 1 for one in some.matrices):
            ways = {False, True}  # where there is RAM for it, what is faster
        codes = [
            write_c(some, bits=bits, told=told, incremental=one, **options) for one in sorted(ways)
        ]
        code = min(codes, key=lambda one: (one.ram > place.ram, place.microseconds(one)))
        if onnx is None:
            return code
        graph = len(write_onnx(some, bits=bits, **of_graph))
        return replace(code, flash=max(graph, code.flash if c or wasm else 0))

    most, n_trees = len(whole.start), max((len(one.sizes) for one in whole.forests), default=0)
    start = Size(bits or (16 if fixed else 32), n_trees, min(max_references or most, most))
    write(whole.take(np.unique(whole.codes, return_index=True)[1]), start.bits)
    free = {"trees", "references"} | ({"bits"} if bits is None else set())
    step_us = 1e6 * (whole.usual_step or np.inf)
    limits = Limits(
        min(place.flash, np.inf if max_kb is None else 1000 * max_kb),
        place.ram,
        step_us if max_us is None else max_us,
    )
    screen = console()
    with working("making it small" if target or max_kb or report else "writing"):
        agreement = Agreement(classifier, whole, stream_on)
        if target or max_kb is not None or report:
            whole = whole.ranked(agreement.for_choice)
        fitted = fit_into(
            place,
            Limits() if report and not target else limits,
            whole=whole,
            thinning=lambda: Thinning(classifier, by_steps=True),
            agreement=agreement,
            write=write,
            start=start,
            free=frozenset(free if target or max_kb is not None or report else ()),
            keep=LEAST_REPORTED if report else KEEP if target else np.inf,
        )
    made = fitted.made
    if report:
        _report(fitted, place, agreement)
        return
    code, size = made.code, made.size
    agreed = agreement.of(code.stored, made.rows)
    takes = (
        f"{len(made.rows):,} references of {whole.width} steps, {len(whole.states)} states: "
        f"{size_of(code.flash)} of tables, {size_of(code.ram)} RAM for each stream, "
        f"{code.work.products:,} multiplications a step."
    )
    written = []
    if onnx is not None:
        data = write_onnx(made.model, bits=size.bits, **of_graph)
        with atomic_write(onnx) as file:
            file.write_bytes(data)
        example = text_of("folder/onnx_example.py").replace("/*GRAPH*/", onnx.name)
        written += [onnx, *_write(onnx.parent, {f"{onnx.stem}_example.py": example}, model)]
        screen.print(
            f"{size_of(len(data))} of ONNX, {'one step of a stream' if stream else 'windows'} at a "
            "time."
        )
    files = browser_files(code, classifier) if wasm is not None else {}
    if c is not None:
        in_c = c_folder(
            code, classifier, made.rows, about=f"Of the model {told}.", fits=f"{takes} {agreed}",
            prefix=prefix, filtered=filtered, far=given.get("far"),
        )  # fmt: skip
        written += _write(c, in_c, model)
    if wasm is not None:
        written += _write(wasm, files, model)
    screen.print(takes)
    if made.size != fitted.whole.size:
        screen.print(f"Of {fitted.whole.size} there are {size}.")
    screen.print(str(agreed))
    if target or max_kb is not None:
        _say_limits(fitted, place, limits)
    if fixed:
        screen.print(
            "Whole numbers: a distance of an expert is off by at most "
            f"{code.rounding:.2g} of its typical one, beside the rounding of what is stored"
            + (" and splits that go the other way." if whole.forests else ".")
        )
    console().say(f"Written: {', '.join(map(str, written))}")


def _say_limits(fitted: Fitted, place: Target, limits: Limits) -> None:
    """Which limit binds, and what one more step down would save and cost."""
    made, following = fitted.made, fitted.next
    said = []
    if np.isfinite(place.mhz):
        said.append(
            f"On {place.title}: about {place.microseconds(made.code):,.0f} µs a step at "
            f"{place.mhz:g} MHz, estimated from cycles that an emulator counted; "
            f"{size_of(made.code.flash + place.code)} of flash with the code."
        )
    finite = {k: v for k, v in fitted.taken.items() if v > 0}
    if finite:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in finite.items())
        said.append(f"Of the limits it takes: {shares}; {fitted.binds} binds.")
    if np.isinf(limits.us) and np.isfinite(place.mhz):
        said.append("The model does not know how long a step is: --max-us limits it.")
    if following is not None:
        saved = made.code.flash - following.code.flash
        products = made.code.work.products - following.code.work.products
        said.append(
            f"The next step down, to {following.size}, saves {size_of(max(saved, 0))} and "
            f"{max(products, 0):,} multiplications, and keeps "
            f"{following.same:.1%} of the decisions by which it is chosen."
        )
    console().print(" ".join(said))


def _report(fitted: Fitted, place: Target, agreement: Agreement) -> None:
    """Every step on the way down."""
    table = Table("references", "bits", "trees", "tables", "RAM", "products a step")
    if np.isfinite(place.mhz):
        table.add_column("µs")
    table.add_column("same decisions")
    for made in fitted.path:
        size, code = made.size, made.code
        row = [f"{len(made.rows):,}", str(size.bits), str(size.trees or "")]
        row += [size_of(code.flash), size_of(code.ram), f"{code.work.products:,}"]
        if np.isfinite(place.mhz):
            row.append(f"{place.microseconds(code):,.0f}")
        table.add_row(*row, f"{agreement.of(code.stored, made.rows).same:.1%}")
    console().print(table)
    console().print(f"Same decisions: {agreement.where}.")


def _check_onnx(given: dict[str, Any]) -> None:
    """Refuse what ONNX cannot say."""
    reasons = {
        "fixed": "the operators of ONNX are for floating point",
        "spare": "a graph of ONNX cannot be taught",
        "incremental": "a graph of ONNX compares with all references anew",
        "dead": "dead channels are not in the graph: a runtime gets every step from you",
    }
    for name, reason in reasons.items():
        if given.get(name):
            raise InputError(f"{reason}; leave {flag_of(name)} out, or write --c DIR")


def _write(folder: Path, files: Mapping[str, str | bytes], model: Path) -> list[Path]:
    written = []
    for name, text in files.items():
        place, content = folder / name, text if isinstance(text, bytes) else text.encode()
        is_own = place.suffix in (".ino", ".md", ".py") and place.is_file()
        if is_own and place.read_bytes() != content:
            console(stderr=True).say(f"Kept as it is: {place}")
            continue  # a sketch that somebody went on with
        make_folder(place.parent)
        check_can_write(place, model)
        with atomic_write(place) as file:
            file.write_bytes(content)
        written.append(place)
    return written
