"""The model file: safetensors with a JSON header. Nothing in it is ever executed.

Everything that predicting needs is in the file: the references as the steps of the training
stream and where each window starts, the scaling, and the metric. A file is believed only after
its version, names, types, sizes and checksum have been checked, in this order, and no array is
read before its size is known to be the one the header promises.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize
from sklearn.utils.validation import check_is_fitted

from .. import toeplitz
from ..classifier import StreamClassifier
from ..errors import InputError
from ..estimators import LMNN, MLAT
from ..windows import Windows
from .atomic import atomic_write
from .model_header import FORMAT, VERSION, Shapes, expected_tensors, read_header

METRICS = {"MLAT": MLAT, "LMNN": LMNN}
# Parameters that are arrays or randomness are not needed to predict.
LEFT_OUT = {"init", "random_state", "verbose"}
# What a fitted metric tells of itself, as plain JSON.
FITTED = (
    "loss_",
    "initial_loss_",
    "scale_",
    "n_iter_",
    "converged_",
    "message_",
    "history_",
)

Tensors = dict[str, NDArray[Any]]


def save(classifier: StreamClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier; the file appears whole or not at all."""
    check_is_fitted(classifier)
    metric, metric_tensors = _describe_metric(classifier.metric_)
    windows = classifier.windows_
    # Only the steps that some window covers, so that the file holds no more than it needs.
    steps, start = _covered_steps(windows)
    tensors: Tensors = {
        "steps": steps,
        "start": start,
        "run": windows.run,
        "code": np.searchsorted(classifier.classes_, windows.y).astype(np.int64),
        "mean": classifier.mean_,
        "scale": classifier.scale_,
        **metric_tensors,
    }
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "width": int(windows.width),
        "step": int(classifier.step),
        "n_neighbors": int(classifier.n_neighbors),
        "scaled": bool(classifier.scale),
        "channels": list(classifier.channels_),
        "classes": classifier.classes_.tolist(),
        "n_windows": len(windows),
        "n_steps": len(steps),
        "metric": metric,
        "sha256": _digest(tensors),
    }
    with atomic_write(path) as temporary:
        temporary.write_bytes(serialize(tensors, metadata={"mlat": json.dumps(header)}))


def load(path: str | os.PathLike[str]) -> StreamClassifier:
    """Read a classifier that :meth:`StreamClassifier.save` wrote."""
    file = Path(path)
    header = read_header(file)
    expected = expected_tensors(header, file)
    tensors = _read_tensors(file, expected)
    if _digest(tensors) != header["sha256"]:
        raise InputError(f"{file} is damaged: its checksum does not match; copy it again")
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"{file} is damaged: {name} holds NaN or infinity")
    start, code, run = tensors["start"], tensors["code"], tensors["run"]
    n_steps, width = header["n_steps"], header["width"]
    classes = np.array(header["classes"])
    if (
        (start < 0).any()
        or (start > n_steps - width).any()
        or (code < 0).any()
        or (code >= len(classes)).any()
        or (tensors["scale"] <= 0).any()
    ):
        raise InputError(f"{file} is damaged: windows or scales are out of range")
    classifier = StreamClassifier(
        header["width"],
        metric="euclidean" if header["metric"]["kind"] == "euclidean" else None,
        n_neighbors=header["n_neighbors"],
        scale=header["scaled"],
        step=header["step"],
    )
    metric = _rebuild_metric(header, tensors, file)
    if metric is not None:
        classifier.metric = type(metric)(**metric.get_params())
    windows = Windows(tensors["steps"], width, start, run, classes[code])
    return classifier._remember(
        windows, classes, tensors["mean"], tensors["scale"], metric, tuple(header["channels"])
    )


def _covered_steps(windows: Windows) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The steps inside some window, and where each window starts among them."""
    covered = np.zeros(len(windows.values) + 1, np.int64)
    np.add.at(covered, windows.start, 1)
    np.add.at(covered, windows.start + windows.width, -1)
    inside = np.cumsum(covered[:-1]) > 0
    place = np.cumsum(inside) - 1
    return windows.values[inside].astype(np.float64), place[windows.start].astype(np.int64)


def _describe_metric(metric: Any) -> tuple[dict[str, Any], Tensors]:
    if metric is None:
        return {"kind": "euclidean"}, {}
    kind = type(metric).__name__
    if METRICS.get(kind) is not type(metric):
        raise InputError(
            f"a model with the metric {kind} cannot be saved; only MLAT, LMNN and the Euclidean "
            "distance can"
        )
    tensors: Tensors = {}
    if hasattr(metric, "taps_"):
        tensors["taps"] = metric.taps_
    else:
        tensors["components"] = metric.components_
        if kind == "MLAT":
            tensors["blocks"] = metric.blocks_
    parameters = {k: v for k, v in metric.get_params().items() if k not in LEFT_OUT}
    return {
        "kind": kind,
        "parameters": parameters,
        "shapes": {name: list(array.shape) for name, array in tensors.items()},
        "fitted": {name: getattr(metric, name) for name in FITTED},
    }, tensors


def _rebuild_metric(header: dict[str, Any], tensors: Tensors, file: Path) -> Any:
    description = header["metric"]
    if description["kind"] == "euclidean":
        return None
    kind = METRICS[description["kind"]]
    try:
        metric = kind(**description["parameters"])
        metric._check_parameters()
        fitted = description["fitted"]
        for name in FITTED:
            setattr(metric, name, fitted[name])
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"{file} describes no metric that this version knows ({error})") from None
    metric.width_, metric.n_channels_ = header["width"], len(header["channels"])
    metric.n_features_in_ = metric.width_ * metric.n_channels_
    if "taps" in tensors:
        metric.taps_ = tensors["taps"]
        metric.blocks_ = toeplitz.autocorrelation(metric.taps_, metric.width_)
        metric._components = None
    elif isinstance(metric, MLAT):
        metric._components, metric.blocks_ = tensors["components"], tensors["blocks"]
    else:
        metric.components_ = tensors["components"]
    return metric


def _read_tensors(file: Path, expected: Shapes) -> Tensors:
    try:
        with safe_open(file, framework="numpy") as opened:
            names = set(opened.keys())
            if names != set(expected):
                raise InputError(
                    f"{file} is damaged: it holds {', '.join(sorted(names))}, "
                    f"not {', '.join(sorted(expected))}"
                )
            for name, (dtype, shape) in expected.items():
                piece = opened.get_slice(name)
                if piece.get_dtype() != dtype or tuple(piece.get_shape()) != shape:
                    raise InputError(
                        f"{file} is damaged: {name} is {piece.get_dtype()} "
                        f"{tuple(piece.get_shape())}, not {dtype} {shape}"
                    )
            return {name: opened.get_tensor(name) for name in expected}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} cannot be read ({error})") from None


def _digest(tensors: Tensors) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
