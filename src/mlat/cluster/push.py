"""What a Python worker of Spark does with the new rows of one key: the pure live step.

Spark keeps the state as bytes: it passes them in, and takes the next state back. The worker keeps
nothing but the model, so a batch that is repeated gives the same predictions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..classifier.model_file import load
from ..live.core.model import LiveModel
from ..live.core.state import LiveState
from ..live.core.steps import Prediction, Steps

MICRO = 1e6
MODELS = 4  # that a worker keeps loaded

_models: dict[tuple[Any, ...], LiveModel] = {}


@dataclass(frozen=True, slots=True)
class Task:
    """What is sent to a worker.

    Attributes
    ----------
    model : pyspark.Broadcast
        The bytes of the model file.
    digest : str
        Of these bytes, by which a worker knows them again.
    options : tuple of (str, value)
        Of the live session.
    columns : tuple of str
        Of the predictions, the keys first.
    n_keys : int
        The rows have so many key columns, then ``seq`` and ``time`` where there are any, then one
        with an array of all values: what Spark does for each key takes time for each column.
    has_seq : bool
    time : "none", "seconds", "micros" or "stamp"
        What the time comes as, and goes as.
    """

    model: Any
    digest: str
    options: tuple[tuple[str, Any], ...]
    columns: tuple[str, ...]
    n_keys: int
    has_seq: bool
    time: str


def loaded_model(task: Task) -> LiveModel:
    """The model, loaded once in each worker."""
    name = (task.digest, task.options)
    if name not in _models:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            file.write_bytes(task.model.value)
            loaded = LiveModel(load(file), **dict(task.options))
        while len(_models) >= MODELS:
            del _models[next(iter(_models))]
        _models[name] = loaded
    return _models[name]


def stateful(task: Task) -> Callable[..., Iterator[Any]]:
    """The state function for ``applyInPandasWithState``; the state is one column of bytes."""

    def push(key: tuple[Any, ...], frames: Iterable[Any], kept: Any) -> Iterator[Any]:
        model = loaded_model(task)
        state = _restore(model, kept.get[0], key) if kept.exists else model.start()
        state, predictions = model.push(state, steps_of(task, frames))
        kept.update((state.to_bytes(),))
        if predictions:
            yield frame_of(task, key, predictions)

    return push


def whole_streams(task: Task) -> Callable[..., Any]:
    """For ``applyInPandas``: all rows of a key at once, and none that waits is left waiting."""

    def push(key: tuple[Any, ...], frame: Any) -> Any:
        model = loaded_model(task)
        state, predictions = model.push(model.start(), steps_of(task, [frame]))
        return frame_of(task, key, [*predictions, *model.flush(state)[1]])

    return push


def _restore(model: LiveModel, data: bytes, key: tuple[Any, ...]) -> LiveState:
    try:
        return model.state_from_bytes(bytes(data))
    except InputError as error:
        name = key[0] if len(key) == 1 else key
        raise InputError(
            f"the checkpoint's state of {name} cannot be gone on from: {error}; or give the query "
            "a new checkpointLocation"
        ) from None


def steps_of(task: Task, frames: Iterable[Any]) -> Steps:
    """The rows in their order, whatever order they come in and however they are cut."""
    # Columns one by one: looking them up by place in a frame costs more than all that follows.
    parts = [[column.to_numpy() for _, column in frame.items()] for frame in frames]
    joined = [np.concatenate(c) for c in zip(*parts, strict=True)][task.n_keys :]
    seq = joined.pop(0).astype(np.int64) if task.has_seq else None
    time = None if task.time == "none" else _seconds(joined.pop(0), task.time)
    values = np.array([*joined.pop(0)], np.float64)
    first = dict(task.options)["order_by"]
    keys = [k for k in ((seq, time) if first == "seq" else (time, seq)) if k is not None]
    # Rows of one number are ordered by their values, so that the same one is kept whenever
    # the batch is done again: a shuffle brings them in any order.
    order = np.lexsort([*values.T[::-1], *keys[::-1]])
    return Steps(
        values[order],
        None if seq is None else seq[order],
        None if time is None else time[order],
    )


def _seconds(array: Any, comes_as: str) -> Any:
    if comes_as == "stamp":
        array = array.astype("datetime64[us]").astype(np.int64)
    return array.astype(np.float64) / (1.0 if comes_as == "seconds" else MICRO)


def frame_of(task: Task, key: tuple[Any, ...], predictions: Sequence[Prediction]) -> Any:
    """One row for each prediction; what is not known is missing."""
    import pandas as pd

    predictions = [*predictions]
    # Arrays of numbers and of objects, whose types pandas need not find out.
    time: Any = np.array([p.time for p in predictions], np.float64)
    if task.time in ("micros", "stamp"):
        # A double holds today's seconds to a quarter of a microsecond: rounding gives them back.
        time = np.rint(time * MICRO).astype(np.int64)
        time = time.astype("datetime64[us]") if task.time == "stamp" else time
    seq = [p.seq for p in predictions]
    columns = [
        *[_objects([part] * len(predictions)) for part in key],
        np.array([p.step for p in predictions], np.int64),
        np.array(seq, np.int64) if task.has_seq else _objects(seq),
        time,
        _objects([p.state for p in predictions]),
        np.array([p.proba for p in predictions], np.float64),
        np.array([p.distance for p in predictions], np.float64),
        _objects([p.why for p in predictions]),
        _objects([p.neighbours for p in predictions]),
        np.array([p.agreement for p in predictions], np.float64),
    ]
    return pd.DataFrame(dict(zip(task.columns, columns, strict=True)), copy=False)


def _objects(things: list[Any]) -> Any:
    array = np.empty(len(things), object)
    array[:] = things
    return array
