"""Live classification: what a step costs, and how many streams one core carries.

Everything is in one run and one thread. Steps to be compared are taken in turn, a few at a time,
so that whatever else the machine does slows all of them equally.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats
from mlat.base.compiled import jit
from mlat.classifier.classifier import StreamClassifier
from mlat.classifier.decision import ExpertSearches, incremental_searches
from mlat.label.recording import read_journal_recording
from mlat.live.core.many import Many
from mlat.live.core.steps import Steps
from mlat.live.journal.journal import Identity, Journal, read_journal
from mlat.live.journal.records import Batch
from mlat.live.page.hub import Hub
from mlat.live.sources.source import Arrival
from mlat.metric.estimators import MLAT
from mlat.neighbours.incremental import IncrementalSearch
from mlat.stream.stream import Stream

from .fit import recording
from .harness import Bench, Row, in_turn

N_STATES = 5
PER_STATE = 501  # windows; 2,505 references in all
CHANNELS = 27


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
    return StreamClassifier(width=width, held_out=False).fit(training)


def live_values(n_steps: int, channels: int = CHANNELS, seed: int = 2) -> NDArray[np.float64]:
    """Steps of the same sensors at another time."""
    values = recording(-(-n_steps // N_STATES), channels, seed=seed).values[:n_steps]
    return values.astype(np.float64)


# A soak: millions of steps through running sums, checked against distances computed anew.

CHUNK = 1000
CHECK = 100  # chunks between two checks
SOAK_WIDTH, SOAK_CHANNELS = 10, 3


def soak(n_steps: int, bench: Bench) -> Row:
    """Push so many steps through one search, in chunks, and look at some of them.

    ``difference`` is the largest between a running squared distance and the exact one,
    ``of_the_bound`` the largest fraction of the bound that any was, ``wrong`` how many states were
    not those of the exact search; memory is that early on and at the end.
    """
    clf = model(SOAK_WIDTH, None, channels=SOAK_CHANNELS, n_states=3, per_state=100)
    experts = incremental_experts(clf)
    pool = clf.features_.channels(live_values(50_000, SOAK_CHANNELS))
    rng = np.random.default_rng(3)
    states = experts.start()
    n_chunks = -(-n_steps // CHUNK)
    checked = wrong = 0
    difference = share = early = 0.0
    begin = time.perf_counter()
    for chunk in range(n_chunks):
        at = int(rng.integers(0, len(pool) - CHUNK))
        # Now and then a loud one: what it leaves behind must not stay.
        seen = pool[at : at + CHUNK] * (10.0 if chunk % 20 == 19 else 1.0)
        found = experts.push(states, seen)
        assert found is not None
        if chunk % CHECK == CHECK - 1 or chunk == n_chunks - 1:
            starts = np.arange(CHUNK - SOAK_WIDTH + 1)
            Z = np.concatenate([Z for _, Z in clf.references_.embed_steps(seen, starts)])
            exact = clf.references_.by_class.query(Z)
            found = found.at((slice(None), slice(SOAK_WIDTH - 1, None)))
            ready = np.ones(len(Z), bool)
            decision = experts.decide(partial(experts.seen, seen, len(Z)), ready, found)
            apart = np.abs(found.nearest[0] ** 2 - exact**2).max(axis=1)
            difference = max(difference, float(apart.max()))
            share = max(share, float((apart / found.bound[0]).max()))
            wrong += int((decision.codes != exact.argmin(axis=1)).sum())
            checked += len(apart)
            early = early or resident_mb()
            if (chunk + 1) % (10 * CHECK) == 0:
                bench.say(f"  {(chunk + 1) * CHUNK:,} steps, {resident_mb():.1f} MB")
    return {
        "steps": n_chunks * CHUNK,
        "seconds": time.perf_counter() - begin,
        "checked": checked,
        "difference": difference,
        "of_the_bound": share,
        "wrong": wrong,
        "early_MB": early,
        "end_MB": resident_mb(),
    }


def resident_mb() -> float:
    """The memory this process has now; where the system does not tell, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


# How long live steps take: one stream, many streams in real time, and what memory allows.


def incremental_step(
    clf: StreamClassifier, values: Floats
) -> tuple[IncrementalSearch, Callable[[int], object]]:
    """One step of one stream."""
    experts = incremental_experts(clf)
    search = experts.searches[0]
    assert isinstance(search, IncrementalSearch)
    seen = clf.features_(Stream(values))
    states = experts.start()
    experts.push(states, seen[: clf.width_])
    n, ready = len(seen) - clf.width_, np.ones(1, bool)

    def step(i: int) -> object:
        end = i % n + clf.width_
        found = experts.push(states, seen[end : end + 1])
        return experts.decide(partial(experts.seen, seen[: end + 1], 1), ready, found)

    return search, step


def incremental_experts(clf: StreamClassifier) -> ExpertSearches:
    """The incremental search of a classifier."""
    searches = incremental_searches(clf)
    assert searches is not None
    return ExpertSearches(clf, searches)


def session_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """The same as a person takes it: from raw channels to a prediction, with all policies."""
    session = clf.live(search="incremental")
    session.push(values[: clf.width_])
    n = len(values)
    return lambda i: session.push(values[i % n])


def smallest_space(clf: StreamClassifier, values: Floats) -> tuple[Floats, Floats]:
    """References and windows in the smallest space that has the same distances, contiguous.

    The learned space has as many coordinates as a convolution gives, the windows under it span no
    more than the values of a window.
    """
    seen = clf.features_(Stream(values))
    starts = np.arange(len(seen) - clf.width_ + 1)
    Z = np.concatenate([Z for _, Z in clf.references_.embed_steps(seen, starts)])
    Y = clf.references_.embedded()
    centre = Y.mean(axis=0)
    _, size, basis = np.linalg.svd(np.concatenate([Y, Z]) - centre, full_matrices=False)
    basis = basis[size > 1e-10 * size[0]].T
    return np.ascontiguousarray((Y - centre) @ basis), np.ascontiguousarray((Z - centre) @ basis)


def brute_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """scikit-learn's search for one window, already in the smallest exact space."""
    Y, Z = smallest_space(clf, values)
    peer = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(Y)
    return lambda i: peer.kneighbors(Z[i % len(Z) : i % len(Z) + 1])


def product_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """The floor: one product of BLAS with squares that are stored, and its least."""
    Y, Z = smallest_space(clf, values)
    squares = (Y**2).sum(axis=1)
    return lambda i: (squares - 2.0 * (Y @ Z[i % len(Z)])).argmin()


def bytes_of_a_step(search: IncrementalSearch) -> int:
    """What one step of one stream reads of the references and of its own sums, and writes."""
    r = search.references
    shared = (r.right, r.squared, r.direct, r.causal, r.anticausal)
    own = search.start()
    return sum(array.nbytes for array in shared) + own["ring"].nbytes + 2 * own["products"].nbytes


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
) -> Row:
    """A step of every stream, ``rate`` times a second, on one thread.

    Latencies are in milliseconds from when a tick was due: one that is late because the one before
    it took long is late all the same. Those of ``own`` are what they would be on a core that does
    nothing else: from the processor time of each tick, and how it would have kept the next ones
    waiting.
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
        exact += int(many.results(values[(offset + i) % len(values)])[1].doubt.sum())
    p50, p99 = np.quantile(1e3 * latency, [0.5, 0.99])
    own_p50, own_p99 = np.quantile(1e3 * waiting(work, 1 / rate), [0.5, 0.99])
    return {
        "streams": n_streams,
        "rate": rate,
        "p50": float(p50),
        "p99": float(p99),
        "worst": float(1e3 * latency.max()),
        "own_p50": float(own_p50),
        "own_p99": float(own_p99),
        "share": float(work.mean() * rate),
        "bytes_per_stream": many.bytes_per_stream,
        "exact": exact / (100 * n_streams),
    }


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


# From a process that has only just begun to its first prediction.

FIRST = """
import sys
from mlat.classifier.model_file import load
session = load(sys.argv[1]).live()
session.warm_up()
session.push(session.model.clf.windows_.values[:20])
"""


def measure_start(bench: Bench) -> Row:
    """CPU seconds of a process that loads a committee and predicts: nothing compiled yet, and all.

    The second process finds what the first has kept.
    """
    taken = []
    with TemporaryDirectory() as folder:
        committee(10).save(Path(folder) / "model.mlat")
        command = [sys.executable, "-c", FIRST, f"{folder}/model.mlat"]
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, env=os.environ | {"NUMBA_CACHE_DIR": folder})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            taken.append(user + system)
    nothing, cached = taken
    bench.say(f"first prediction: {cached:.1f} CPU s with compiled code, {nothing:.1f} with none")
    return {"cached": cached, "nothing": nothing}


# What is around a step: the journal, written and read again, and the page's hub.

JOURNAL_RECORDS = (1, 100)  # steps in a record: those of a live stream, and of one that is behind
JOURNAL_BLOCK = 1000  # steps that are classified before the clock starts


def measure_journal(n_steps: int, bench: Bench) -> Row:
    """Microseconds a step, of processor time, that the journal and the hub of a page take.

    Steps of a session are written (the disk is not waited for) and published in records of one
    step and of a hundred; a frame is made of four records. Then the journal is read, and read as
    a recording to be labelled. ``MB`` is how much memory that took at most.
    """
    clf = model(10, 20, per_state=21)
    values = live_values(5000)
    row: Row = {"steps": n_steps}
    for size in JOURNAL_RECORDS:
        session, hub = clf.live(), Hub()
        hub.subscribe()
        spent = dict.fromkeys(("write", "publish", "read", "label"), 0.0)
        with TemporaryDirectory() as folder:
            with Journal(folder, Identity.of(session), fsync=False) as journal:
                for begin in range(0, n_steps, JOURNAL_BLOCK):
                    at = range(begin, begin + JOURNAL_BLOCK, size)
                    arrived = [Steps(values[i % 5000 : i % 5000 + size]) for i in at]
                    told = [session.push(steps) for steps in arrived]
                    start = time.process_time()
                    for steps, some in zip(arrived, told, strict=True):
                        journal.append(Batch([Arrival(steps, "")], some))
                    written = time.process_time()
                    for i, (steps, some) in enumerate(zip(arrived, told, strict=True)):
                        hub.publish(steps, some, session, 0.001)
                        if i % 4 == 3:
                            hub.emit()
                    spent["publish"] += time.process_time() - written
                    spent["write"] += written - start
            for name, read in (("read", read_journal), ("label", read_journal_recording)):
                start = time.process_time()
                read(Path(folder))
                spent[name] = time.process_time() - start
        row |= {f"{name}_{size}": 1e6 * taken / n_steps for name, taken in spent.items()}
        row[f"MB_{size}"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        bench.say(
            f"{n_steps:,} steps, {size} a record: "
            + ", ".join(f"{name} {row[f'{name}_{size}']:.2f} µs" for name in spent)
            + f" a step; at most {row[f'MB_{size}']:.0f} MB"
        )
    return row


ROUNDS, PER_ROUND = 20, 50
LONG = 200


def measure_steps(bench: Bench) -> Row:
    """One stream, one step at a time; microseconds, and the bytes that a step reads and writes.

    ``short`` is the search at w=10, ``brute`` scikit-learn's query there and ``product`` one of
    BLAS, both in the smallest exact space, ``read`` reading as many bytes as the short search does;
    ``long_few`` and ``long`` are the searches at w=200 with as few taps and with all of them.
    ``session`` and ``session_long`` are whole steps of a session, from raw channels to a
    prediction, ``committee`` and ``committee_long`` those of the default.
    """
    bench.say(f"learning three metrics and two committees over {CHANNELS} channels ...")
    values = live_values(2000)
    short, long, together = model(10, 20), model(LONG, None), committee(10)
    search, step = incremental_step(short, values)
    n_bytes = bytes_of_a_step(search)
    taken = in_turn(
        {
            "short": step,
            "brute": brute_step(short, values),
            "product": product_step(short, values),
            "read": reading(n_bytes),
            "long_few": incremental_step(model(LONG, 20), values)[1],
            "long": incremental_step(long, values)[1],
            "session": session_step(short, values),
            "session_long": session_step(long, values),
            "committee": session_step(together, values),
            "committee_long": session_step(committee(LONG), values),
        },
        ROUNDS,
        PER_ROUND,
    )
    return {name: 1e6 * seconds for name, seconds in taken.items()} | {
        "n_bytes": n_bytes,
        "n_references": len(short.windows_),
        "n_experts": len(together.experts_),
        "snapshot": snapshot_bytes(together, values),
        "one_snapshot": snapshot_bytes(short, values),
    }


def snapshot_bytes(clf: StreamClassifier, values: Floats) -> int:
    """The length of a snapshot of a session in which every buffer is full."""
    session = clf.live(search="incremental")
    session.push(values[:500])
    return len(session.snapshot())


def show_steps(steps: Row, bench: Bench) -> None:
    short, session, brute = steps["short"], steps["session"], steps["brute"]
    together, later = steps["committee"], steps["committee_long"]
    experts = f"a step of a committee of {steps['n_experts']}"
    lines = [
        ("scikit-learn, brute force, one query", brute, "", ""),
        ("a product of BLAS, and its least", steps["product"], "", ""),
        ("a session's step, w=10", session, f"1/{brute / session:.1f} of the query", "1/5"),
        ("its search alone, w=10", short, f"1/{brute / short:.1f} of the query", "1/5"),
        *(
            (f"{name}, w={LONG}{taps}", steps[key], f"{steps[key] / base:.2f} of w=10", "1.5")
            for name, taps, key, base in (
                ("a session's step", ", all taps", "session_long", session),
                ("its search alone", ", all taps", "long", short),
                ("its search alone", ", 20 taps", "long_few", short),
            )
        ),
        (f"{experts}, w=10", together, f"1/{brute / together:.1f} of the query", "1/3"),
        (f"{experts}, w={LONG}", later, f"{later / together:.2f} of w=10", "1.5"),
        ("reading the search's bytes", steps["read"], f"search: {short / steps['read']:.1f}", ""),
    ]
    rows = [dict(zip(("what", "µs", "ratio", "goal"), line, strict=True)) for line in lines]
    bench.table(f"One step against {steps['n_references']:,} references, d={CHANNELS}", rows)
    n_bytes = steps["n_bytes"]
    bench.say(
        f"a snapshot takes {steps['one_snapshot'] / 1024:.0f} KB with one expert, "
        f"{steps['snapshot'] / 1024:.0f} KB with {steps['n_experts']} (goal 128 KB)\n"
        f"a step moves {n_bytes / 1e6:.2f} MB, at {n_bytes / short / 1e3:.0f} GB/s of "
        f"the {n_bytes / steps['read'] / 1e3:.0f} GB/s that reading alone reaches"
    )


def show_ticks(ticks: Row, bench: Bench, who: str) -> None:
    memory = f"{ticks['bytes_per_stream'] / 1024:.1f} KB"
    lines = [
        ("latency, median", f"{ticks['p50']:.1f} ms", ""),
        ("latency, 99 in 100", f"{ticks['p99']:.1f} ms", "20 ms"),
        ("latency, worst", f"{ticks['worst']:.1f} ms", ""),
        ("median on a core of its own, by processor time", f"{ticks['own_p50']:.1f} ms", ""),
        ("99 in 100 there", f"{ticks['own_p99']:.1f} ms", "20 ms"),
        ("fraction of the core", f"{ticks['share']:.0%}", ""),
        ("memory per stream", memory, "64 KB" if who == "one expert" else ""),
        ("windows compared exactly", f"{ticks['exact']:.2%}", ""),
    ]
    rows = [dict(zip(("what", "measured", "goal"), line, strict=True)) for line in lines]
    what = f"{ticks['streams']} streams of {CHANNELS} channels at {ticks['rate']:g} Hz"
    bench.table(f"{what}, one core, {who}", rows)


def stepping(
    bench: Bench,
    streams: Annotated[int, typer.Option(help="How many streams at once.")] = 500,
    committee_streams: Annotated[
        int, typer.Option(help="How many streams at once with a committee.")
    ] = 200,
    rate: Annotated[float, typer.Option(help="Steps a second of each.")] = 100.0,
    seconds: Annotated[float, typer.Option(help="How long they run, in real time.")] = 20.0,
    soak_steps: Annotated[
        int, typer.Option("--soak", help="Only push this many steps through running sums.")
    ] = 0,
    journal_steps: Annotated[
        int, typer.Option("--journal", help="Only write, read and show this many steps.")
    ] = 0,
    start: Annotated[
        bool, typer.Option("--start", help="Only begin processes: how long to a prediction.")
    ] = False,
    steps: Annotated[bool, typer.Option(help="Compare single steps, too.")] = True,
) -> None:
    """Live: a step against scikit-learn and against longer windows, and many streams at once."""
    figures: dict[str, object] = {}
    with threadpool_limits(1):
        if soak_steps:
            soaked = soak(soak_steps, bench)
            bench.say(
                "{steps:,} steps in {seconds:.0f} s; at {checked:,} of them squared distances "
                "differ from exact ones by at most {difference:.2g}, which is {of_the_bound:.2%} "
                "of the bound there; {wrong} states differ; memory {early_MB:.1f} MB, then "
                "{end_MB:.1f} MB".format(**soaked)
            )
            bench.keep({"soak": soaked})
            return
        if start:
            bench.keep({"start": measure_start(bench)})
            return
        if journal_steps:
            bench.keep({"journal": measure_journal(journal_steps, bench)})
            return
        if steps:
            figures["steps"] = measured = measure_steps(bench)
            show_steps(measured, bench)
        for name, clf, n, who in (
            ("ticks", model(10, 20), streams, "one expert"),
            ("committee_ticks", committee(10), committee_streams, "a committee"),
        ):
            if n:
                ticks = real_time(clf, live_values(5000), n_streams=n, rate=rate, seconds=seconds)
                figures[name] = ticks
                show_ticks(ticks, bench, who)
    bench.keep(figures)
