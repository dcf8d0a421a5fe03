"""Where a model is to run, and the smallest one that decides as the whole.

A model is made smaller by one choice at a time: fewer bits, fewer trees, fewer stretches of
references, or fewer references of each. While a limit is exceeded it is the one that saves most of
it for each decision that changes; then, as long as ``KEEP`` of them stay, the one after which most
do. That is done for each number of bits to begin with. Decisions are counted for that on some
windows, and told of others (:class:`~mlat.export.decisions.Agreement`).

Time is estimated from cycles that an emulator counted (``TARGETS``): that of a board differs with
its memory, cache and compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter

import numpy as np

from ..base.checks import Ints
from ..base.errors import InputError
from ..classifier.thin import Thinning
from .c_source import CSource
from .decisions import Agreement
from .plain_model import PlainModel

KEEP = 0.99
FEWER = 0.7  # of the references and trees, each time
LEAST_TREES = 5
LEAST_COST = 0.002  # of the decisions: fewer cannot be told from none


@dataclass(frozen=True)
class Target:
    """A processor: what a model may take of it.

    ``flash`` and ``ram`` are bytes, infinite for as much as there is; ``code`` is what the compiled
    algorithm takes of the flash, with what it needs of the C library. ``cycles`` are those of each
    kind of :class:`~mlat.export.c_source.Work` and of a step, in 8 bits and in more.
    """

    title: str
    flash: float
    ram: float
    mhz: float
    fixed: bool
    code: int
    cycles: tuple[tuple[float, ...], tuple[float, ...]]

    def microseconds(self, code: CSource) -> float:
        """Of a step, about."""
        in_8_bits, in_more = self.cycles
        cycles = in_8_bits if code.is_narrow else in_more
        return float(np.dot(cycles, (*code.work, 1))) / self.mhz


# Fitted to cycles of the exported C (gcc -O2) by `mlat-lab bench export-cycles`: each of 16 models
# of four development streams is within 5 % in 8 bits, and 13 % in 16. They are counted in an
# emulator by the tables of ARM's manuals, for a Cortex-M4 in single precision and an M0+ in whole
# numbers, from memory that makes neither wait. The ESP32 was not counted: it is taken to be as an
# M4 without the instructions for two products.
M4 = (
    (6.3, 2.6, 14.9, 20.6, 6.4, 8.8, 605.0, 10400.0),
    (7.9, 9.6, 10.3, 31.3, 2.1, 8.4, 711.0, 10600.0),
)
M0 = (
    (54.4, 6.6, 28.5, 22.9, 7.0, 26.0, 4670.0, 20300.0),
    (69.6, 88.4, 78.8, 97.7, 3.4, 33.9, 3930.0, 30500.0),
)
ESP = (6.6, 6.5, *M4[0][2:]), M4[1]
ANY = (1.0,) * 8, (1.0,) * 8
TARGETS = {
    "cortex-m4": Target("a Cortex-M4", 128e3, 32e3, 100.0, False, 7_500, M4),
    "esp32": Target("an ESP32", 1e6, 128e3, 240.0, False, 7_500, ESP),
    "rp2040": Target("an RP2040", 1e6, 128e3, 125.0, True, 11_000, M0),
    "cortex-m0": Target("a Cortex-M0+", 64e3, 16e3, 48.0, True, 11_000, M0),
    "host": Target("this machine", np.inf, np.inf, np.inf, False, 0, ANY),
}


@dataclass(frozen=True)
class Limits:
    """In bytes and microseconds."""

    flash: float = np.inf
    ram: float = np.inf
    us: float = np.inf

    def taken(self, code: CSource, target: Target) -> dict[str, float]:
        """What share of each a model takes."""
        return {
            "flash": (code.flash + target.code) / self.flash,
            "RAM": code.ram / self.ram,
            "time": target.microseconds(code) / self.us,
        }


@dataclass(frozen=True)
class Size:
    """How much of a model there is: of so many references one of ``every`` few."""

    bits: int
    trees: int
    references: int
    every: int = 1

    def __str__(self) -> str:
        of = f"one in {self.every} of " if self.every > 1 else ""
        said = [f"{of}{self.references:,} references in {self.bits} bits"]
        said += [f"{self.trees} trees of each forest"] * (self.trees > 0)
        return ", ".join(said)


@dataclass(frozen=True)
class Made:
    """A model of some size, its C, the references in it, and the share of decisions that stay."""

    size: Size
    model: PlainModel
    code: CSource
    rows: Ints
    same: float


@dataclass(frozen=True)
class Fitted:
    """What was found, the way down to it, and what would be next."""

    made: Made
    whole: Made
    next: Made | None
    path: list[Made]
    binds: str
    taken: dict[str, float]


def fit_into(
    target: Target,
    limits: Limits,
    *,
    whole: PlainModel,
    thinning: Callable[[], Thinning],
    agreement: Agreement,
    write: Callable[[PlainModel, int], CSource],
    start: Size,
    free: frozenset[str],
    keep: float = KEEP,
) -> Fitted:
    """The smallest model that keeps so many decisions, or, within the limits, the most.

    Parameters
    ----------
    write : callable
        From a model and bits to its C.
    start : Size
        The largest to be tried.
    free : set of str
        Which numbers of a size may be less than that.
    """
    thinned = cache(thinning)

    @cache
    def make(size: Size) -> Made:
        rows = np.arange(len(whole.start))
        if size.references < len(rows):
            rows = thinned().keep(size.references).rows
        first = np.unique(whole.codes[rows], return_index=True)[1]  # a state keeps one
        rows = np.union1d(rows[:: size.every], rows[first])
        model = (whole.with_trees(size.trees) if size.trees else whole).take(rows)
        code = write(model, size.bits)
        return Made(size, model, code, rows, agreement.chosen_by(code.stored, rows))

    def largest_share(made: Made) -> float:
        return max(limits.taken(made.code, target).values())

    def way_down(start: Size, free: frozenset[str]) -> tuple[list[Made], Made | None]:
        """From there to where the next one would not keep as many, and that one."""
        path = [make(start)]
        while True:
            made = path[-1]
            takes = attrgetter("code.flash", "code.ram", "code.work")
            smaller = [make(size) for size in _smaller(made.size, free)]
            smaller = [one for one in smaller if takes(one) != takes(made)]
            if not smaller:
                return path, None
            share = largest_share(made)
            following = max(smaller, key=lambda one: (one.same, -one.code.flash))
            if share <= 1 and following.same < keep:
                return path, following
            if share > 1:  # what brings it nearest to the limit for each decision that it costs
                gains = [np.log(share / largest_share(one)) for one in smaller]
                costs = [max(made.same - one.same, 0.0) + LEAST_COST for one in smaller]
                following = smaller[int(np.argmax(np.divide(gains, costs)))]
            path.append(following)

    def worth(way: tuple[list[Made], Made | None]) -> tuple[bool, float, float]:
        last = way[0][-1]
        return largest_share(last) <= 1, min(last.same, keep), -last.code.flash

    ways = [way_down(start, free)]
    if limits != Limits() and "bits" in free:  # what many bits cost is seen only further down
        fewer = [replace(start, bits=bits) for bits in (16, 8) if bits < start.bits]
        fewer += [replace(start, bits=8, every=2)] * ("references" in free)
        ways += [way_down(size, free - {"bits"}) for size in fewer]
    path, following = max(ways, key=worth)
    made = path[-1]
    taken = limits.taken(made.code, target)
    binds = max(taken, key=lambda name: taken[name])
    if taken[binds] > 1:
        raise InputError(
            f"the smallest model takes {taken[binds]:.1f} times the {binds} that there is: "
            f"{made.size}; allow more, or fit a narrower or plainer model"
        )
    return Fitted(made, make(start), following, path, binds, taken)


def _smaller(size: Size, free: frozenset[str]) -> list[Size]:
    """Each with one choice less."""
    found = []
    if "bits" in free and size.bits > 8:
        found.append(replace(size, bits=size.bits // 2))
    if "trees" in free and size.trees > LEAST_TREES:
        found.append(replace(size, trees=int(FEWER * size.trees)))
    if "references" in free and size.references > 1:
        found.append(replace(size, references=int(FEWER * size.references)))
        found.append(replace(size, every=size.every + 1))
    return found
