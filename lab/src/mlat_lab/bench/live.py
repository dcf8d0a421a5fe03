"""Live classification: what a step costs, and how many streams one core carries.

Everything is in one run and one thread. Steps to be compared are taken in turn, a few at a time,
so that whatever else the machine does slows all of them equally.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats
from mlat.base.compiled import jit
from mlat.classifier.classifier import StreamClassifier
from mlat.live.search.incremental import IncrementalSearch
from mlat.live.search.many import Many
from mlat.metric.estimators import MLAT
from mlat.stream.stream import Stream
from mlat.synthetic import rotating_states

from .output import bench_console, table, write_json

N_STATES = 5
PER_STATE = 501  # windows; 2,505 references in all
CHANNELS = 27


def recording(
    n_steps: int, channels: int = CHANNELS, n_states: int = N_STATES, seed: int = 1
) -> Stream:
    """One run of ``n_steps`` for each of some states that turn at speeds of their own."""
    speeds = np.linspace(-0.3, 0.3, n_states)
    return rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=channels,
        run_length=n_steps,
        runs_per_state=1,
        drift=1.5,
        noise=0.5,
        random_state=seed,
    )


def model(
    width: int,
    n_taps: int | None,
    *,
    channels: int = CHANNELS,
    n_states: int = N_STATES,
    per_state: int = PER_STATE,
) -> StreamClassifier:
    """A classifier with so many references, its metric learned just far enough to be a full one."""
    metric = MLAT(n_taps=n_taps, n_targets=1, max_iter=1)
    training = recording(per_state + width - 1, channels, n_states)
    return StreamClassifier(width=width, metric=metric).fit(training)


def committee(
    width: int,
    *,
    channels: int = CHANNELS,
    n_states: int = N_STATES,
    per_state: int = PER_STATE,
) -> StreamClassifier:
    """The default, with as many references, and with all of its experts.

    With many channels it is no wider than ten steps, whatever the width that is asked for.
    """
    training = recording(per_state + min(width, 10) - 1, channels, n_states)
    return StreamClassifier(width=width, budget=0).fit(training)


def live_values(n_steps: int, channels: int = CHANNELS, seed: int = 2) -> NDArray[np.float64]:
    """Steps of the same sensors at another time."""
    values = recording(-(-n_steps // N_STATES), channels, seed=seed).values[:n_steps]
    return values.astype(np.float64)


# A soak: millions of steps through running sums, checked against distances computed anew.

CHUNK = 1000
CHECK = 100  # chunks between two checks
SOAK_WIDTH, SOAK_CHANNELS = 10, 3


@dataclass(frozen=True)
class Soak:
    """What was seen at the checks.

    ``difference`` is the largest between a running squared distance and the exact one, ``share``
    the largest fraction of the bound that any was, ``wrong`` how many states were not those of the
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
    clf = model(SOAK_WIDTH, None, channels=SOAK_CHANNELS, n_states=3, per_state=100)
    search = IncrementalSearch.of(clf.references_)
    assert search is not None
    pool = clf.features_.channels(live_values(50_000, SOAK_CHANNELS))
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
            starts = np.arange(CHUNK - SOAK_WIDTH + 1)
            Z = np.concatenate([Z for _, Z in clf.references_.embed_steps(seen, starts)])
            exact = clf.references_.by_class.query(Z)
            apart = np.abs(result.nearest[SOAK_WIDTH - 1 :] ** 2 - exact**2).max(axis=1)
            difference = max(difference, float(apart.max()))
            share = max(share, float((apart / result.bound[SOAK_WIDTH - 1 :]).max()))
            wrong += int((result.codes[SOAK_WIDTH - 1 :] != exact.argmin(axis=1)).sum())
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


# How long live steps take: one stream, many streams in real time, and what memory allows.


@dataclass(frozen=True)
class Ticks:
    """Many streams in real time; latencies in milliseconds, from when a tick was due.

    ``own_p50`` and ``own_p99`` are what they would be on a core that does nothing else: from the
    processor time of each tick, and how it would have kept the next ones waiting.
    """

    n_streams: int
    rate: float
    p50: float
    p99: float
    worst: float
    own_p50: float
    own_p99: float
    share: float
    bytes_per_stream: int
    exact: float


def in_turn(
    steps: dict[str, Callable[[int], object]], rounds: int, per_round: int
) -> dict[str, float]:
    """Seconds of each, a few at a time in turn: whatever else runs, slows all equally.

    What a tenth of them took at most: steps that nothing interrupted.
    """
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(0)
    for r in range(rounds):
        for name, step in steps.items():
            for i in range(per_round):
                begin = time.perf_counter()
                step(r * per_round + i)
                taken[name].append(time.perf_counter() - begin)
    return {name: float(np.quantile(times, 0.1)) for name, times in taken.items()}


def incremental_step(
    clf: StreamClassifier, values: Floats
) -> tuple[IncrementalSearch, Callable[[int], object]]:
    """One step of one stream."""
    search = IncrementalSearch.of(clf.references_)
    assert search is not None
    seen = clf.features_(Stream(values))
    state = search.start()
    search.push(state, seen[: clf.width_])
    n = len(seen)
    return search, lambda i: search.push(state, seen[i % n : i % n + 1])


def session_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """The same as a person takes it: from raw channels to a prediction, with all policies."""
    session = clf.live(search="incremental")
    session.push(values[: clf.width_])
    n = len(values)
    return lambda i: session.push(values[i % n])


def brute_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """scikit-learn's search for one window, already in the learned space."""
    peer = KNeighborsClassifier(n_neighbors=1, algorithm="brute")
    peer.fit(clf.references_.embedded(), clf.references_.codes)
    seen = clf.features_(Stream(values))
    starts = np.arange(len(seen) - clf.width_ + 1)
    Z = np.concatenate([Z for _, Z in clf.references_.embed_steps(seen, starts)])
    return lambda i: peer.predict(Z[i % len(Z) : i % len(Z) + 1])


def bytes_of_a_step(search: IncrementalSearch) -> int:
    """What one step of one stream reads of the references and of its own sums, and writes."""
    r = search.references
    shared = (r.right, r.squared, r.direct, r.causal, r.anticausal)
    own = search.start()
    return sum(array.nbytes for array in shared) + own.ring.nbytes + 2 * own.products.nbytes


def reading(n_bytes: int) -> Callable[[int], object]:
    """Read so many bytes once, from wherever the caches have left them."""
    array = np.ones(n_bytes // 4, np.float32)
    return lambda i: _read(array)


@jit(fastmath=True)
def _read(array):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(len(array)):
        total += array[i]
    return total


def real_time(
    clf: StreamClassifier, values: Floats, *, n_streams: int, rate: float, seconds: float
) -> Ticks:
    """A step of every stream, ``rate`` times a second, on one thread.

    A tick that is late because the one before it took long is late all the same.
    """
    many = Many(clf, n_streams)
    offset = np.random.default_rng(0).integers(0, len(values), n_streams)
    for i in range(-2 * clf.width_, 0):
        many.push(values[(offset + i) % len(values)])
    n_ticks = int(seconds * rate)
    latency, work = np.empty(n_ticks), np.empty(n_ticks)
    exact = 0
    begin = time.perf_counter() + 0.01
    for i in range(n_ticks):
        due = begin + i / rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        cpu = time.process_time()
        many.push(values[(offset + i) % len(values)])
        work[i] = time.process_time() - cpu
        latency[i] = time.perf_counter() - due
    for i in range(n_ticks, n_ticks + 100):
        exact += int(many.results(values[(offset + i) % len(values)]).exact.sum())
    p50, p99 = np.quantile(1e3 * latency, [0.5, 0.99])
    own_p50, own_p99 = np.quantile(1e3 * waiting(work, 1 / rate), [0.5, 0.99])
    return Ticks(
        n_streams,
        rate,
        float(p50),
        float(p99),
        float(1e3 * latency.max()),
        float(own_p50),
        float(own_p99),
        float(work.mean() * rate),
        many.bytes_per_stream,
        exact / (100 * n_streams),
    )


def waiting(work: Floats, period: float) -> Floats:
    """From when each piece of work is due to its end, one core doing them in order.

    >>> waiting(np.array([1.0, 7.0, 1.0, 1.0]), 5.0).tolist()
    [1.0, 7.0, 3.0, 1.0]
    """
    latency = np.empty(len(work))
    free = 0.0
    for i, taken in enumerate(work):
        free = max(free, i * period) + taken
        latency[i] = free - i * period
    return latency


ROUNDS, PER_ROUND = 20, 50
LONG = 200


@dataclass(frozen=True)
class Steps:
    """Microseconds, and the bytes that a step reads and writes.

    ``short`` is the search at w=10, ``brute`` scikit-learn's query there, ``read`` reading as many
    bytes as the short search does; ``long_few`` and ``long`` are the searches at w=200 with as few
    taps and with all of them. ``session`` and ``session_long`` are whole steps of a session, from
    raw channels to a prediction, at w=10 and at w=200 with all taps; ``committee`` and
    ``committee_long`` those of the default, which has ``n_experts``, and whose snapshot takes
    ``snapshot`` bytes; ``one_snapshot`` is that of one expert.
    """

    short: float
    brute: float
    read: float
    long_few: float
    long: float
    session: float
    session_long: float
    committee: float
    committee_long: float
    n_bytes: int
    n_references: int
    n_experts: int
    snapshot: int
    one_snapshot: int


def measure_steps(console: Console, *, rounds: int = ROUNDS) -> Steps:
    """One stream, one step at a time."""
    console.print(f"learning three metrics and two committees over {CHANNELS} channels ...")
    values = live_values(2000)
    short, long, together = model(10, 20), model(LONG, None), committee(10)
    search, step = incremental_step(short, values)
    n_bytes = bytes_of_a_step(search)
    taken = in_turn(
        {
            "short": step,
            "brute": brute_step(short, values),
            "read": reading(n_bytes),
            "long_few": incremental_step(model(LONG, 20), values)[1],
            "long": incremental_step(long, values)[1],
            "session": session_step(short, values),
            "session_long": session_step(long, values),
            "committee": session_step(together, values),
            "committee_long": session_step(committee(LONG), values),
        },
        rounds,
        PER_ROUND,
    )
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    return Steps(
        **us,
        n_bytes=n_bytes,
        n_references=len(short.windows_),
        n_experts=len(together.experts_),
        snapshot=snapshot_bytes(together, values),
        one_snapshot=snapshot_bytes(short, values),
    )


def snapshot_bytes(clf: StreamClassifier, values: Floats) -> int:
    """The length of a snapshot of a session in which every buffer is full."""
    session = clf.live(search="incremental")
    session.push(values[:500])
    return len(session.snapshot())


def show_steps(steps: Steps, console: Console) -> None:
    short, session = steps.short, steps.session
    rows = [("scikit-learn, brute force, one query", f"{steps.brute:.0f}", "", "")]
    for name, took in (("a session's step", session), ("its search alone", short)):
        rows.append((f"{name}, w=10", f"{took:.0f}", f"1/{steps.brute / took:.0f} of it", "1/5"))
    for name, took, base in (
        (f"a session's step, w={LONG}, all taps", steps.session_long, session),
        (f"its search alone, w={LONG}, all taps", steps.long, short),
        (f"its search alone, w={LONG}, 20 taps", steps.long_few, short),
    ):
        rows.append((name, f"{took:.0f}", f"{took / base:.2f} of w=10", "1.5"))
    together = steps.committee
    of_one = f"{together / session:.1f} of one expert's"
    name = f"a step of a committee of {steps.n_experts}"
    rows.append((f"{name}, w=10", f"{together:.0f}", of_one, "3, and 300 µs"))
    flat = f"{steps.committee_long / together:.2f} of w=10"
    rows.append((f"{name}, w={LONG}", f"{steps.committee_long:.0f}", flat, "1.5"))
    ratio = f"search: {short / steps.read:.1f} of it"
    rows.append(("reading the search's bytes", f"{steps.read:.0f}", ratio, ""))
    title = f"One step against {steps.n_references:,} references, d={CHANNELS}"
    console.print(table(title, ("what", "µs", "ratio", "goal"), rows))
    console.print(
        f"a snapshot takes {steps.one_snapshot / 1024:.0f} KB with one expert, "
        f"{steps.snapshot / 1024:.0f} KB with {steps.n_experts} (goal 128 KB)"
    )
    speed = steps.n_bytes / steps.read / 1e3
    console.print(
        f"a step moves {steps.n_bytes / 1e6:.2f} MB, at {steps.n_bytes / short / 1e3:.0f} GB/s of "
        f"the {speed:.0f} GB/s that reading alone reaches"
    )


def show_ticks(ticks: Ticks, console: Console, who: str = "one expert") -> None:
    rows = [
        ("latency, median", f"{ticks.p50:.1f} ms", ""),
        ("latency, 99 in 100", f"{ticks.p99:.1f} ms", "20 ms"),
        ("latency, worst", f"{ticks.worst:.1f} ms", ""),
        ("median on a core of its own, by processor time", f"{ticks.own_p50:.1f} ms", ""),
        ("99 in 100 there", f"{ticks.own_p99:.1f} ms", "20 ms"),
        ("fraction of the core", f"{ticks.share:.0%}", ""),
        (
            "memory per stream",
            f"{ticks.bytes_per_stream / 1024:.1f} KB",
            "64 KB" if who == "one expert" else "",
        ),
        ("windows compared exactly", f"{ticks.exact:.2%}", ""),
    ]
    what = f"{ticks.n_streams} streams of {CHANNELS} channels at {ticks.rate:g} Hz"
    title = f"{what}, one core, {who}"
    console.print(table(title, ("what", "measured", "goal"), rows))


def main(
    streams: Annotated[int, typer.Option(help="How many streams at once.")] = 500,
    committee_streams: Annotated[
        int, typer.Option(help="How many streams at once with a committee.")
    ] = 200,
    rate: Annotated[float, typer.Option(help="Steps a second of each.")] = 100.0,
    seconds: Annotated[float, typer.Option(help="How long they run, in real time.")] = 20.0,
    soak_steps: Annotated[
        int, typer.Option("--soak", help="Only push this many steps through running sums.")
    ] = 0,
    steps: Annotated[bool, typer.Option(help="Compare single steps, too.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Live: a step against scikit-learn and against longer windows, and many streams at once."""
    console = bench_console()
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
            for name, clf, n, who in (
                ("ticks", model(10, 20), streams, "one expert"),
                ("committee_ticks", committee(10), committee_streams, "a committee"),
            ):
                if n:
                    ticks = real_time(
                        clf, live_values(5000), n_streams=n, rate=rate, seconds=seconds
                    )
                    figures[name] = asdict(ticks)
                    show_ticks(ticks, console, who)
    write_json(out, figures)
