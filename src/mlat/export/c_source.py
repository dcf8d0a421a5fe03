"""A classifier as C99: one header and one source, without allocation.

The algorithm is in the C files beside this one: ``in_reals.c`` or ``in_wholes.c``, which is the
arithmetic with or without floating point, then what is the same in both. What is written here are
the sizes and the tables. References are stored as steps, which overlapping windows share, in
32, 16 or 8 bits; all sums are in single precision, with 64 bits in double precision, or in whole
numbers (:mod:`mlat.export.arithmetic`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Annotated, NamedTuple

import numpy as np

from ..base.checks import Ints, Limits
from ..base.errors import InputError
from ..classifier.state_filter import StateFilter, extended_filter
from ..features.lifts import DEVIATION, NOW, OVERS, TAKES, PreparedLift
from .arithmetic import RealNumbers, WholeNumbers
from .plain_forest import SHORT_MOST, PlainForest, add_forest, forest_types
from .plain_model import PlainExpert, PlainModel, not_known
from .tables import ABOVE, STORED, Tables, quantised

ALGORITHM = ("lift.c", "search.c", "trees.c", "decide.c", "stream.c")
MOST_STATES = 2**15
MOST_STEPS = 2**31 - 1  # that a channel may be constant: an int


# What the header says of each of its numbers.
MEANING = {
    "CHANNELS": "values of a step",
    "STATES": "that can be told, with those that can be taught",
    "NEW_STATES": "of these, which the model does not know",
    "SPARE": "references that can be taught",
    "WIDTH": "steps of a window",
    "STEP_US": "microseconds from step to step in training; 0 where that is not known",
    "HOLD": "steps in a row for which a missing value is the last one",
    "DEAD_CHANNELS": "1 if a channel that is constant for too long makes the state unknown",
    "FILTERED": "1 if states go through the filter over states",
    "FEATURES": "computed from the channels at each step",
    "REFERENCES": "windows of training that the newest one is compared with",
    "EXPERTS": "metrics by which they are compared",
    "NEIGHBORS": "references that vote",
    "FORESTS": "experts that are forests",
    "POINTS": "numbers of a window in all forests",
    "LARGEST": "numbers of a window that one expert sees, at the most",
    "MEMORY": "steps that are remembered for features",
    "REACH": "of these, that running features are of",
    "RUNS": "of references that follow each other",
    "EVERY": "steps from one of them to the next",
    "STEPS": "of the references",
    "ROWS": "of their table that a reference is, at the most",
    "PARTS": "of a metric by lags times a window, which are carried from step to step",
    "SUMS": "that are carried from step to step",
    "KEPT": "steps of features that are kept",
    "NARROW": "the largest number that rows of 8 bits are multiplied with; 0 where they are not",
}


class Work(NamedTuple):
    """What a step takes at the most: multiplications with the metric, with steps of references and
    with their points; rows of the table of steps that these are of; splits of trees; steps that
    running features are of; features."""

    metric: int
    steps: int
    points: int
    rows: int
    splits: int
    remembered: int
    features: int

    @property
    def products(self) -> int:
        return self.metric + self.steps + self.points


@dataclass(frozen=True)
class CSource:
    """The text of a library, and what it takes.

    Attributes
    ----------
    header, algorithm : str
        Of ``mlat.h``, and of ``mlat.c`` before its tables.
    tables : Tables
        Those of ``mlat_tables.h``.
    flash : int
        Bytes of its tables.
    ram : int
        Bytes of one stream's memory, ``sizeof(mlat)`` but for padding.
    work : Work
        Of a step.
    bounds : sequence of (float, float)
        Of each expert how far whole numbers may change a distance, see
        :class:`~mlat.export.arithmetic.WholeNumbers`; none for floating point.
    stored : PlainModel
        What the tables say, with all that is rounded in them.
    input_bits : array of shape (d,), optional
        A value v is given as ``round(v * 2**input_bits)``; None in floating point.
    """

    header: str
    algorithm: str
    tables: Tables
    flash: int
    ram: int
    work: Work
    bounds: Sequence[tuple[float, float]]
    stored: PlainModel
    input_bits: Ints | None

    def files(self) -> dict[str, str]:
        """The library: the interface, the algorithm, and its tables."""
        return {
            "mlat.h": self.header,
            "mlat.c": self.algorithm,
            "mlat_tables.h": self.tables.text(),
        }

    @property
    def is_narrow(self) -> bool:
        """Whether rows are multiplied in 16 bits."""
        return "#define MLAT_NARROW 0 " not in self.header

    @property
    def rounding(self) -> float:
        """How far whole numbers may change a typical distance at most, in typical ones."""
        typical = [one.typical for one in self.stored.experts]
        return max(
            (
                (moved + min(np.sqrt(square), square / usual)) / usual
                for (moved, square), usual in zip(self.bounds, typical, strict=False)
            ),
            default=0.0,
        )


Arithmetic = RealNumbers | WholeNumbers


def write_c(
    model: PlainModel,
    *,
    bits: int = 32,
    fixed: bool = False,
    filtered: bool = False,
    hold: Annotated[int, Limits(0)] = 0,
    far: float | None = None,
    dead: bool = False,
    spare: Annotated[int, Limits(0)] = 0,
    new_states: Annotated[int, Limits(0)] = 0,
    incremental: bool = False,
    told: str = "",
) -> CSource:
    """The C of a model.

    Parameters
    ----------
    bits : 64, 32, 16 or 8
        Of a stored number of a reference; with 64 everything is in double precision.
    fixed : bool
        Whole numbers only: no floating point at all. With 16 or 8 bits.
    filtered : bool
        Whether states go through the state filter.
    hold : int
        Steps in a row for which a missing value is the last one.
    far : float, optional
        Unknown beyond so many times the farthest in training; a live session has 3. See
        :meth:`PlainModel.limit`.
    dead : bool
        Unknown while a channel is constant far longer than in training.
    spare : int
        References that can be taught on the device.
    new_states : int
        States that can be taught, beside the model's.
    incremental : bool
        Carry a sum for each reference from step to step: more RAM, fewer products. For experts
        whose metric has no lags; the sums of a step follow from those of the one before.
    told : str
        What the library says of the model it is, at run time.

    Raises
    ------
    InputError
    """
    if bits not in STORED:
        raise InputError(f"bits must be one of {', '.join(map(str, STORED))}, not {bits}")
    if new_states > spare:
        raise InputError(
            f"{new_states} new states need at least as many spare references, not {spare}"
        )
    n_states = len(model.states) + new_states
    if n_states > MOST_STATES or len(model.steps) >= 2**31 // max(1, model.steps.shape[1]):
        raise InputError("the model has too many states or references for tables in C")
    limit = model.limit(far)
    F = model.steps.shape[1]
    steps, unit = quantised(model.steps, bits)
    blocks = _blocks(model)
    d, n, lift = len(model.channels), len(model.start), model.lift
    forests = model.forests
    largest = max(
        *(one.width * len(one.columns) for one in model.experts),
        *(one.leaves.shape[1] for one in forests),
        1,
    )
    memory = lift.size

    apart = np.diff(model.start)
    every = int(np.bincount(apart[apart > 0]).argmax()) if (apart > 0).any() else 1
    # Wider than the two steps that enter and leave.
    sums = [
        incremental
        and every == 1
        and isinstance(one, PlainExpert)
        and one.n_lags == 1
        and one.width > 2
        for one in model.experts
    ]
    runs = _runs(model.start, model.codes, every)
    sizes: dict[str, int] = {
        "CHANNELS": d, "STATES": n_states, "NEW_STATES": new_states, "SPARE": spare,
        "WIDTH": model.width, "STEP_US": round(1e6 * (model.usual_step or 0.0)),
        "HOLD": hold, "DEAD_CHANNELS": int(dead), "FILTERED": int(filtered),
        "FEATURES": F, "REFERENCES": n, "EXPERTS": len(model.experts),
        "NEIGHBORS": model.n_neighbors, "FORESTS": len(forests),
        "POINTS": sum(one.leaves.shape[1] for one in forests), "LARGEST": largest,
        "MEMORY": memory if lift.remembers else 1, "REACH": memory - 1,
        "RUNS": len(runs), "EVERY": every, "STEPS": len(steps), "ROWS": 1, "PARTS": 0,
        "SUMS": n * sum(sums), "KEPT": model.width + any(sums), "NARROW": 0,
    }  # fmt: skip
    if bits == 8 and not any(sums):
        sizes["NARROW"] = min(SHORT_MOST, 2**30 // (STORED[8][1] * largest))
    short = bits == 8  # beside their rounding that of squares is small
    arithmetic: Arithmetic = (
        WholeNumbers(model, bits, largest, short_squares=short, narrow=sizes["NARROW"])
        if fixed
        else RealNumbers(bits, short_squares=short)
    )
    stored = STORED[bits][0]
    tables = Tables("" if bits == 64 else "f")
    arithmetic.add_channels(tables, model)
    tables.whole("mlat_feature_channel", lift.channels, "unsigned short")
    tables.whole("mlat_feature_takes", lift.takes, "unsigned char")
    tables.whole("mlat_feature_over", lift.overs, "unsigned char")
    arithmetic.add_features(tables, model, unit)
    of_blocks = [steps[:, block].ravel() for block in blocks]
    # Without a sign, which a small processor would have to extend.
    step, above = ("unsigned char", ABOVE) if sizes["NARROW"] else (stored, 0)
    past = np.zeros(every * F + 3)  # what pairs of references and fours may read
    tables.stored("mlat_steps", np.concatenate([*of_blocks, past]) + above, step)
    place = "unsigned short" if len(steps) < 2**16 else "int"
    tables.whole("mlat_run_start", runs[:, 0], place)
    tables.whole("mlat_run_size", runs[:, 1], place)
    tables.whole("mlat_run_state", runs[:, 2], "unsigned char" if n_states <= 256 else "short")
    if dead:
        tables.whole("mlat_dead_after", np.minimum(model.dead_after, MOST_STEPS), "int")
    if filtered:
        learned = StateFilter(model.transition, model.tempering)
        filters = [extended_filter(learned, new) for new in range(new_states + 1)]
        of_filters = [one.transition.ravel() for one in filters]
        arithmetic.add_probabilities(tables, "mlat_transition", np.concatenate(of_filters))
        stationary = [one.stationary for one in filters]
        arithmetic.add_probabilities(tables, "mlat_stationary", np.concatenate(stationary))
    in_bits = [one.in_bits(unit, bits) for one in forests]
    types = forest_types(in_bits, bits) if forests else {}
    experts: list[str] = []
    stored_experts: list[PlainExpert | PlainForest] = []
    of_forests: list[str] = []
    of_metric = of_steps = of_points = n_rows = n_points = 0
    for number, whole in enumerate(model.experts):
        if isinstance(whole, PlainForest):
            trees, n_values = in_bits[len(of_forests)], whole.leaves.shape[1]
            stored_experts.append(trees.in_reals(unit))
            tables.whole(f"columns_{number}", whole.columns, "unsigned short")
            fields = [str(whole.width), str(len(whole.columns)), *("0" * 3), f"columns_{number}"]
            fields += [*("0" * 3), "-1", "-1", str(len(of_forests))]
            fields.append(f"{{{', '.join(arithmetic.of_forest(trees))}}}")
            experts.append(f"    {{{', '.join(fields)}}},")
            fields = [*map(str, (len(whole.sizes), n_values, n_points, trees.grain))]
            again = runs[:, 1:] if model.n_neighbors > 1 else None
            more, n_stored_points = add_forest(
                tables, number, trees, model.codes, types, bits, again
            )
            of_forests.append(f"    {{{', '.join([*fields, *more])}}},")
            n_points += n_values
            of_points += (n_stored_points + spare) * n_values
            continue
        one = whole.rounded(unit) if bits <= 16 else whole
        n_lags, c = one.n_lags, len(one.columns)
        size = one.width * c
        before = np.cumsum([0, *map(len, blocks[:-1])]).tolist()
        both = zip(before, blocks, strict=True)
        own = [(first, len(block)) for first, block in both if block[0] in one.columns]
        lengths = [n_in for _, n_in in own] * one.width if len(own) > 1 else [size]
        rows_of_one = len(lengths)
        sizes["ROWS"] = max(sizes["ROWS"], rows_of_one)
        tables.whole(f"columns_{number}", one.columns, "unsigned short")
        tables.whole(f"blocks_{number}", np.array(own).ravel(), "unsigned short")
        squares = one.squares(steps * unit, model.start + model.width - one.width)
        fields = [
            *(str(one.width), str(c), str(n_lags), str(int(not n_lags))),
            str(len(own)),
            *(f"columns_{number}", f"blocks_{number}", f"metric_{number}", f"squares_{number}"),
            str(n * sum(sums[:number]) if sums[number] else -1),
            str(sizes["PARTS"] if n_lags > 1 else -1),
            *(["-1"] if forests else []),
            f"{{{', '.join(arithmetic.add_expert(tables, number, one, squares, unit))}}}",
        ]
        experts.append(f"    {{{', '.join(fields)}}},")
        stored_experts.append(replace(one, kept=arithmetic.squares[-1]))
        sizes["PARTS"] += sizes["KEPT"] * (one.width + 1) * c * (n_lags > 1)
        of_metric += (
            size * size if not n_lags else c * c * (one.width if n_lags == 1 else 2 * n_lags - 1)
        )
        of_one = sum(-(-length // 4) * 4 for length in lengths)  # rows are multiplied by fours
        products, rows = n * of_one, n * rows_of_one
        if sums[number]:  # two steps; some begin anew
            begins = int(np.maximum(1, np.ceil(runs[:, 1] / arithmetic.anchor)).sum())
            of_metric += c * c
            products = begins * of_one + (n - begins) * 2 * c
            rows = begins * rows_of_one + (n - begins) * 2 * len(own)
        of_steps += products + (spare + 2) * size
        n_rows += rows
    constants = {
        "ABOVE": str(above),
        "MOST_APART": "INT32_MAX" if types.get("mlat_apart") == "int32_t" else "MLAT_HUGE",
        **_of_lift(lift),
        **arithmetic.constants(model, limit),
    }
    named = (*model.states, *(f"new state {i + 1}" for i in range(new_states)))
    names = [
        f"const char *const {name}[] = {{\n    " + ",\n    ".join(map(c_string, values)) + "\n};"
        for name, values in (("mlat_state_names", named), ("mlat_channel_names", model.channels))
    ]
    algorithm = "\n".join(text_of(name) for name in ("includes.c", arithmetic.source, *ALGORITHM))
    before = [
        "/* The numbers of a model, written by `mlat export`; see mlat.h. */\n",
        *(f"#define MLAT_{name} {value}" for name, value in constants.items()),
        f"\ntypedef {stored} mlat_stored;",
        f"typedef {step} mlat_step;",
        f"typedef {arithmetic.square_type} mlat_stored_square;",
        f"typedef {arithmetic.metric_type} mlat_metric;",
        *(f"typedef {kind} {name};" for name, kind in types.items()),
        "",
        *names,
        f"const char mlat_model[] = {c_string(told)};",
        "",
    ]
    tables.before = "\n".join(before)
    for mark, text in {
        "/*EXPERTS*/": "\n".join(experts),
        "/*FORESTS*/": "\n".join(of_forests),
        "/*WINDOW*/\n": "\n" + text_of("window.c"),
        "/*MATHEMATICS*/": "" if fixed else "#include <math.h>",
    }.items():
        algorithm = algorithm.replace(mark, text)
    header = text_of("interface.h")
    for mark, text in {
        "/*SIZES*/": "\n".join(f"#define MLAT_{k} {sizes[k]} /* {MEANING[k]} */" for k in MEANING),
        "/*TYPES*/": arithmetic.types
        + f"typedef {'int32_t' if bits <= 16 else 'mlat_real'} mlat_point;\n",
        "/*MISSING*/": arithmetic.missing,
        "/*MODEL*/": re.sub(r"[^\w .,:()-]", "?", told, flags=re.ASCII),
    }.items():
        header = header.replace(mark, text)
    return CSource(
        header,
        algorithm,
        tables,
        tables.n_bytes + sum(len(name.encode()) + 5 for name in (*named, *model.channels)),
        _ram(sizes, arithmetic.bytes_of_real, arithmetic.bytes_of_square),
        Work(
            *(of_metric, of_steps, of_points, n_rows),
            sum(len(one.sizes) * one.depth for one in forests),
            (memory - 1) * int(((lift.overs != NOW) + (lift.overs == DEVIATION)).sum()),
            F,
        ),
        arithmetic.bounds,
        replace(model, steps=steps * unit, experts=tuple(stored_experts)),
        arithmetic.input_bits,
    )


def _of_lift(lift: PreparedLift) -> dict[str, str]:
    """The codes of what features are made of, by name; what ``lift.c`` does not know is refused."""
    codes = {}
    for kind, names, used in (("TAKES", TAKES, lift.takes), ("OVER", OVERS, lift.overs)):
        for code, name in enumerate(names):
            codes[f"{kind}_{name.upper()}"] = str(code)
            if code in used and f"case MLAT_{kind}_{name.upper()}:" not in text_of("lift.c"):
                raise not_known("the C", name)
    return codes


def _runs(start: Ints, codes: Ints, every: int) -> Ints:
    """References that follow each other: where the first begins, how many, and their state."""
    begins = np.flatnonzero(np.append(True, (np.diff(start) != every) | (np.diff(codes) != 0)))
    sizes = np.diff(np.append(begins, len(start)))
    return np.stack([start[begins], sizes, codes[begins]], axis=1)


def _blocks(model: PlainModel) -> list[Ints]:
    """The features that are stored of steps, in blocks that an expert sees all or nothing of."""
    columns = np.flatnonzero(model.is_compared)
    if not len(columns):
        return []
    seen = np.stack([np.isin(columns, one.columns) for one in model.matrices])
    return np.split(columns, np.flatnonzero((seen[:, 1:] != seen[:, :-1]).any(axis=0)) + 1)


def c_string(text: str) -> str:
    """A text as a C string of ASCII, from which nothing in it can break out.

    >>> c_string('a"b')
    '"a\\\\042b"'
    """
    safe = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;=()")
    # Always three digits, so that one that follows is not taken for a part of it.
    return '"' + "".join(chr(b) if b in safe else f"\\{b:03o}" for b in text.encode()) + '"'


def _ram(sizes: dict[str, int], real: int, square: int) -> int:
    d, S, F, w = (sizes[name] for name in ("CHANNELS", "STATES", "FEATURES", "WIDTH"))
    reals = sizes["KEPT"] * F + 2 * sizes["LARGEST"] + (1 + sizes["MEMORY"]) * d
    squares, wholes = S, d + 5
    if sizes["SUMS"]:
        squares, wholes = squares + sizes["SUMS"], wholes + sizes["EXPERTS"]
    squares += sizes["PARTS"]
    factors = sizes["LARGEST"] + 3 * sizes["ROWS"]
    if sizes["NARROW"]:
        wholes += factors
    else:
        reals += factors
    if sizes["NEIGHBORS"] > 1:
        squares, wholes = squares + sizes["NEIGHBORS"], wholes + sizes["NEIGHBORS"]
    if sizes["FILTERED"]:
        reals, squares, wholes = reals + S, squares + S, wholes + 1
    if sizes["DEAD_CHANNELS"]:
        reals, wholes = reals + d, wholes + d
    if sizes["SPARE"]:
        reals += sizes["SPARE"] * (w * F + sizes["POINTS"])
        squares += sizes["SPARE"] * sizes["EXPERTS"]
        wholes += sizes["SPARE"] + 2 + bool(sizes["NEW_STATES"])
    return real * reals + square * squares + 4 * wholes


def text_of(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
