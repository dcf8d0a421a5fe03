"""Predicting a whole stream, beside scikit-learn's search in the cheapest exact form.

CPU seconds of one thread, by turns, and the least of some rounds: what is compared is the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats
from mlat.classifier.classifier import StreamClassifier
from mlat.stream.stream import Stream

from .fit import recording
from .harness import Bench, Row, Stopwatch
from .live import committee, model, smallest_space

AT_A_TIME = 256  # windows of a product, which stays in a core's cache


def predicting(
    bench: Bench,
    n_steps: Annotated[int, typer.Option("--steps", help="Of the stream.")] = 20_000,
    channels: Annotated[int, typer.Option(help="Channels.")] = 27,
    width: Annotated[int, typer.Option(help="Steps per window.")] = 10,
    states: Annotated[int, typer.Option(help="States.")] = 5,
    per_state: Annotated[int, typer.Option(help="References of each state.")] = 501,
    rounds: Annotated[int, typer.Option(help="How often each is measured.")] = 3,
    peers: Annotated[bool, typer.Option(help="scikit-learn and BLAS, too.")] = True,
) -> None:
    """Predict a stream with the default, MLAT and Euclidean distance, and search it with peers."""
    size = {"channels": channels, "n_states": states, "per_state": per_state}
    stream = recording(-(-n_steps // states), channels, states, seed=2)[:n_steps]
    stream = Stream(stream.values)
    with threadpool_limits(1):
        bench.say("learning three models ...")
        training = recording(per_state + width - 1, channels, states)
        euclidean = StreamClassifier(width, metric="euclidean").fit(training)
        mlat = model(width, None, **size)
        works: dict[str, Callable[[], object]] = {
            "predict, the default": _of(committee(width, **size), stream),
            "predict, MLAT alone": _of(mlat, stream),
            "predict, Euclidean": _of(euclidean, stream),
        }
        if peers:
            Y, Z = smallest_space(mlat, stream.values.astype(float))
            brute = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(Y)
            dimensions = f"{Y.shape[1]} coordinates"
            works |= {
                f"scikit-learn, brute force, {dimensions}": lambda: brute.kneighbors(Z),
                f"products of BLAS and their least, {dimensions}": lambda: _products(Y, Z),
            }
        taken = dict.fromkeys(works, float("inf"))
        for _ in range(rounds + 1):  # the first compiles, where nothing is cached
            for name, work in works.items():
                with Stopwatch() as spent:
                    work()
                taken[name] = min(taken[name], spent.cpu)
    least = taken[list(works)[3]] if peers else None
    rows: list[Row] = [
        {
            "what": name,
            "CPU_s": seconds,
            "µs_a_step": 1e6 * seconds / n_steps,
            "of_the_search": seconds / least if least else None,
        }
        for name, seconds in taken.items()
    ]
    n = states * per_state
    bench.keep(rows)
    bench.table(f"{n_steps:,} steps, {n:,} references, d={channels}, w={width}", rows)


def _of(clf: StreamClassifier, stream: Stream) -> Callable[[], object]:
    return lambda: clf.predict(stream)


def _products(Y: Floats, Z: Floats) -> None:
    squares = (Y**2).sum(axis=1)
    for begin in range(0, len(Z), AT_A_TIME):
        (squares - 2.0 * (Z[begin : begin + AT_A_TIME] @ Y.T)).argmin(axis=1)
