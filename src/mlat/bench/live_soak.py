"""A soak: millions of steps through running sums, checked against distances worked out anew."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from ..live.search.flat_search import FlatSearch
from .live_problems import live_values, model

CHUNK = 1000
CHECK = 100  # chunks between two checks
WIDTH, CHANNELS = 10, 3


@dataclass(frozen=True)
class Soak:
    """What was seen at the checks.

    ``difference`` is the largest between a running squared distance and the exact one, ``share``
    the largest share of the bound that any was, ``wrong`` how many states were not those of the
    exact search; memory in MB early on and at the end.
    """

    n_steps: int
    seconds: float
    n_checked: int
    difference: float
    share: float
    wrong: int
    early_mb: float
    end_mb: float


def soak(n_steps: int, console: Console | None = None) -> Soak:
    """Push so many steps through one search, in chunks."""
    clf = model(WIDTH, None, channels=CHANNELS, n_states=3, per_state=100)
    search = FlatSearch.of(clf)
    assert search is not None
    pool = clf.features_.channels(live_values(50_000, CHANNELS))
    rng = np.random.default_rng(3)
    state = search.start()
    n_chunks = -(-n_steps // CHUNK)
    checked = wrong = 0
    difference = share = early = 0.0
    begin = time.perf_counter()
    for chunk in range(n_chunks):
        at = int(rng.integers(0, len(pool) - CHUNK))
        # Now and then a loud one: what it leaves behind must not stay.
        seen = pool[at : at + CHUNK] * (10.0 if chunk % 20 == 19 else 1.0)
        result = search.push(state, seen)
        if chunk % CHECK == CHECK - 1 or chunk == n_chunks - 1:
            starts = np.arange(CHUNK - WIDTH + 1)
            Z = np.concatenate([*clf._search._embed(seen, starts)])
            exact = clf._search.by_class.query(Z)
            apart = np.abs(result.nearest[WIDTH - 1 :] ** 2 - exact**2).max(axis=1)
            difference = max(difference, float(apart.max()))
            share = max(share, float((apart / result.bound[WIDTH - 1 :]).max()))
            wrong += int((result.codes[WIDTH - 1 :] != exact.argmin(axis=1)).sum())
            checked += len(apart)
            early = early or resident_mb()
            if console is not None and (chunk + 1) % (10 * CHECK) == 0:
                console.print(f"  {(chunk + 1) * CHUNK:,} steps, {resident_mb():.1f} MB")
    return Soak(
        n_chunks * CHUNK,
        time.perf_counter() - begin,
        checked,
        difference,
        share,
        wrong,
        early,
        resident_mb(),
    )


def resident_mb() -> float:
    """The memory this process has now; where the system does not tell, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
