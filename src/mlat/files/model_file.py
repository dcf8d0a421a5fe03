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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize
from sklearn.utils.validation import check_is_fitted

from .. import toeplitz
from ..calibration import Calibration
from ..classifier import StreamClassifier
from ..confidence import Confidence
from ..errors import InputError
from ..estimators import LMNN, MLAT
from ..features import Features, Scaling
from ..lifts import Lift
from ..persistence import Persistence
from ..setup import Setup, no_metric
from ..windows import Windows
from .atomic import atomic_write
from .model_header import FORMAT, VERSION, Shapes, expected_tensors, read_header
from .selection_record import read_selection, record_selection

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
    # Only the steps that are needed, so that the file holds no more than it needs.
    steps, start = needed_steps(windows, between=classifier.features_.lift.memory > 0)
    tensors: Tensors = {
        "steps": steps,
        "start": start,
        "run": windows.run,
        "code": np.searchsorted(classifier.classes_, windows.y).astype(np.int64),
        "mean": classifier.mean_,
        "scale": classifier.scale_,
        "feature_mean": classifier.features_.lifted.mean,
        "feature_scale": classifier.features_.lifted.scale,
        "transition": classifier.confidence_.persistence.transition,
        **metric_tensors,
    }
    if classifier.features_.mixing is not None:
        tensors["mixing"] = classifier.features_.mixing
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "width": int(windows.width),
        "step": int(classifier.step),
        "n_neighbors": int(classifier.n_neighbors_),
        "scaled": bool(classifier.scale),
        "channels": list(classifier.channels_),
        "classes": classifier.classes_.tolist(),
        "n_windows": len(windows),
        "n_steps": len(steps),
        "metric": metric,
        "lift": _describe_lift(classifier.features_.lift),
        "whitened": classifier.features_.mixing is not None,
        "confidence": _describe_confidence(classifier.confidence_),
        "unknown_rate": float(classifier.unknown_rate),
        "selection": record_selection(classifier.selection_),
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
        or (tensors["feature_scale"] <= 0).any()
        or (tensors["transition"] <= 0).any()
        or (np.abs(tensors["transition"].sum(axis=1) - 1) > 1e-9).any()
    ):
        raise InputError(f"{file} is damaged: windows or scales are out of range")
    if not np.isin(np.arange(len(classes)), code).all():
        raise InputError(f"{file} is damaged: a state has no windows")
    metric = _rebuild_metric(header, tensors, file)
    features = Features(
        Scaling(tensors["mean"], tensors["scale"]),
        Lift(**header["lift"]),
        Scaling(tensors["feature_mean"], tensors["feature_scale"]),
        tensors.get("mixing"),
    )
    # As one would ask for the same again: what was chosen counts as given.
    classifier = StreamClassifier(
        width,
        metric="euclidean" if metric is None else type(metric)(**metric.get_params()),
        lift=features.lift,
        whiten=header["whitened"],
        n_neighbors=header["n_neighbors"],
        scale=header["scaled"],
        step=header["step"],
        unknown_rate=header["unknown_rate"],
    )
    selection = read_selection(header["selection"], file)
    setup = Setup(
        width, features.lift, header["whitened"], header["n_neighbors"], no_metric, selection
    )
    windows = Windows(tensors["steps"], width, start, run, classes[code])
    classifier._remember(windows, features, metric, tuple(header["channels"]), setup)
    classifier.confidence_ = _rebuild_confidence(header["confidence"], tensors["transition"])
    return classifier


def _describe_lift(lift: Lift) -> dict[str, Any]:
    if isinstance(lift.maps, Mapping):
        maps: Any = {
            name: None if chosen is None else [int(i) for i in chosen]
            for name, chosen in lift.maps.items()
        }
    else:
        maps = list(lift.maps)
    return {"maps": maps, "reach": int(lift.reach)}


def _describe_confidence(confidence: Confidence) -> dict[str, Any]:
    # JSON has no infinity and no NaN: a threshold that is never passed is null, and so is a
    # farthest distance that is not known.
    return {
        "beta": confidence.calibration.beta,
        "typical": confidence.calibration.typical,
        "tempering": confidence.persistence.tempering,
        "threshold": confidence.threshold if np.isfinite(confidence.threshold) else None,
        "farthest": confidence.farthest if np.isfinite(confidence.farthest) else None,
    }


def _rebuild_confidence(record: dict[str, Any], transition: NDArray[Any]) -> Confidence:
    # A file of before the farthest distance was kept has no such field.
    threshold, farthest = record["threshold"], record.get("farthest")
    return Confidence(
        Calibration(record["beta"], record["typical"]),
        Persistence(transition, record["tempering"]),
        np.inf if threshold is None else threshold,
        np.nan if farthest is None else farthest,
    )


def needed_steps(windows: Windows, between: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The steps inside some window, and where each window starts among them.

    ``between`` keeps those between the windows of a run too: a lift may look back at them.
    """
    start, stop = windows.start, windows.start + windows.width
    if between:
        runs = [rows for _, rows in windows.by_run()]
        start = np.array([start[rows].min() for rows in runs])
        stop = np.array([stop[rows].max() for rows in runs])
    covered = np.zeros(len(windows.values) + 1, np.int64)
    np.add.at(covered, start, 1)
    np.add.at(covered, stop, -1)
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
    metric.width_, metric.n_channels_ = header["width"], len(tensors["feature_mean"])
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
