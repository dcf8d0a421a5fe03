"""The synthetic suite: kinds of streams of which it is known what tells their states.

Each kind is a set, and each seed somebody recorded twice by the same sensors: the first recording
is to learn from, the second, with runs in another order, to test on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mlat.base.checks import Floats
from mlat.base.errors import InputError
from mlat.stream.stream import Stream
from mlat.synthetic import rotating_states

from .people import People

STATES = ("a", "b", "c", "d")
TEST_RUNS = 4  # of each state
N_SEEDS = 20  # of the report, from 0 on
DEVELOPMENT_SEED = 100  # the first of those that defaults, and these kinds, were chosen on


@dataclass(frozen=True)
class Kind:
    """What tells the states of a stream, and what gets in the way.

    Attributes
    ----------
    what : str
        In words.
    runs : int
        Of each state, to learn from.
    run_length : int
    n_channels : int
    n_telling : int
        The channels that tell the states; the others are the same in all of them.
    level, energy, rhythm : float
        How far the states differ: in the level of each channel, in the logarithm of the size of its
        noise, and by oscillations of this amplitude, each with a frequency of its own.
    noise : float
    offset : float
        Of every channel, drawn anew for each run: it marks the run, and not the state.
    drift : float
        Of every channel, from each round of runs to the next, in one direction.
    put_on_anew : bool
        There is a gap before each run, and only channels that tell nothing have the offset.
    order : bool
        Rotations instead, which only their direction and speed tell.
    """

    what: str
    runs: int = 3
    run_length: int = 100
    n_channels: int = 6
    n_telling: int = 6
    level: float = 0.0
    energy: float = 0.0
    rhythm: float = 0.0
    noise: float = 1.0
    offset: float = 0.0
    drift: float = 0.0
    put_on_anew: bool = False
    order: bool = False


_MIXED = Kind("everything tells", level=0.35, energy=0.25, rhythm=0.5)

KINDS: Mapping[str, Kind] = {
    "order": Kind("only the order in time tells", order=True, noise=1.1),
    "level": Kind("only the level tells", level=0.35),
    "energy": Kind("only the energy tells", energy=0.5),
    "offset": Kind(
        "an offset marks the run; a rhythm in two of six channels tells the state",
        n_telling=2, rhythm=1.5, noise=0.3, offset=1.5,
    ),
    "put on anew": Kind(
        "a gap and a large offset mark each run; a weak rhythm in two of six channels "
        "tells the state",
        n_telling=2, rhythm=0.8, noise=0.5, offset=2.5, put_on_anew=True,
    ),
    "drift": replace(_MIXED, what="everything tells; the level drifts from run to run", drift=0.35),
    "one run": replace(_MIXED, what="everything tells; one run a state", runs=1),
    "two runs": replace(_MIXED, what="everything tells; two runs a state", runs=2),
    "six runs": replace(_MIXED, what="everything tells; six runs a state", runs=6),
    "short runs": replace(_MIXED, what="everything tells; runs of 25 steps", runs=8, run_length=25),
    "useless": Kind(
        "the level of two channels tells, ten others wander",
        n_channels=12, n_telling=2, level=1.2, offset=0.5,
    ),
}  # fmt: skip


def synthetic_stream(kind: str, seed: int) -> Stream:
    """Two recordings of a kind by the same sensors: one to learn from, one to test on."""
    spec = KINDS[kind]
    if spec.order:
        parts = [_rotations(spec, seed, i) for i in range(2)]
    else:
        rng = np.random.default_rng([zlib.crc32(kind.encode()), seed])
        sensors = _Sensors(spec, rng)
        parts = [sensors.record(rng, spec.runs), sensors.record(rng, TEST_RUNS)]
    return Stream.join(parts)


def suite_people(
    kinds: Iterable[str] | None = None, n_seeds: int = N_SEEDS, first_seed: int = 0
) -> dict[str, People]:
    """The kinds as sets and their seeds as people."""
    names = list(kinds or KINDS)
    for name in names:
        if name not in KINDS:
            raise InputError(f"no kind of stream {name!r}; there are {', '.join(KINDS)}")
    seeds = tuple(map(str, range(first_seed, first_seed + n_seeds)))
    return {
        name: People(seeds, partial(_load, name), options={"kind": repr(KINDS[name])})
        for name in names
    }


def _load(kind: str, seed: str) -> Stream:
    return synthetic_stream(kind, int(seed))


def _rotations(spec: Kind, seed: int, recording: int) -> Stream:
    return rotating_states(
        n_channels=spec.n_channels,
        run_length=spec.run_length,
        runs_per_state=TEST_RUNS if recording else spec.runs,
        noise=spec.noise,
        random_state=2 * seed + recording,
        mixture_state=seed,
    )


class _Sensors:
    """What the states of a kind are like, and recordings of them."""

    def __init__(self, spec: Kind, rng: np.random.Generator) -> None:
        shape = len(STATES), spec.n_channels
        tells = np.arange(spec.n_channels) < spec.n_telling
        self.spec = spec
        self.level = spec.level * rng.normal(size=shape) * tells
        self.size = spec.noise * np.exp(spec.energy * rng.normal(size=shape) * tells)
        # Of the rhythm, per step: in every channel each state has its own quarter.
        quarters = rng.permuted(np.tile(np.arange(len(STATES)), (spec.n_channels, 1)), axis=1).T
        self.turns = 0.03 + 0.06 * (quarters + 0.7 * rng.random(shape))
        self.rhythm = spec.rhythm * tells
        self.drift = spec.drift * rng.normal(size=spec.n_channels)
        self.rounds = 0

    def record(self, rng: np.random.Generator, n_runs: int) -> Stream:
        """A recording of as many runs of each state, in rounds of all of them."""
        values: list[Floats] = []
        states: list[str] = []
        for _ in range(n_runs):
            order = rng.permutation(len(STATES))
            while states and STATES[order[0]] == states[-1]:  # every run ends with a switch
                order = rng.permutation(len(STATES))
            for state in order:
                values.append(self._run(rng, state))
                states.append(STATES[state])
            self.rounds += 1
        length = self.spec.run_length
        apart: dict[str, Any] = {}
        if self.spec.put_on_anew:
            number = np.repeat(np.arange(len(values)), length)
            apart = {"time": np.arange(len(number)) + 1000.0 * number, "max_gap": 10.0}
        return Stream(np.concatenate(values), np.repeat(states, length), **apart)

    def _run(self, rng: np.random.Generator, state: int) -> Floats:
        spec = self.spec
        step = np.arange(spec.run_length)[:, None]
        offset = self.level[state] + self.rounds * self.drift
        marked = spec.offset * rng.normal(size=spec.n_channels)
        if spec.put_on_anew:
            marked *= np.arange(spec.n_channels) >= spec.n_telling
        offset = offset + marked
        phase = rng.random(spec.n_channels)
        rhythm = self.rhythm * np.sin(2 * np.pi * (self.turns[state] * step + phase))
        noise = self.size[state] * rng.normal(size=(spec.run_length, spec.n_channels))
        values: Floats = offset + rhythm + noise
        return values
