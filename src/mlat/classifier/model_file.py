"""The model file: safetensors with a JSON header. Nothing in it is ever executed.

The file holds what predicting needs: the references as steps of the training stream and where each
window starts, the scaling, the metric and the confidence. A file is trusted only after its version,
names, types, sizes and checksum have been checked, in this order. No array is read before its size
is known to be the one that the header states.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize
from sklearn.utils.validation import check_is_fitted

from ..checks import Ints, is_real, is_whole
from ..disk import atomic_write
from ..errors import DiskError, InputError
from ..features.features import Features, Scaling
from ..features.lifts import Lift
from ..metric import toeplitz
from ..metric.estimators import LMNN, MLAT
from ..neighbours.references import References, steps_inside
from ..stream.windows import Windows
from .classifier import StreamClassifier
from .confidence import Calibration, Confidence
from .selection import LIFTS, Choice, Selection, Trial
from .state_filter import StateFilter

FORMAT = "mlat.StreamClassifier"
VERSION = 2
MAX_HEADER = 4 << 20  # bytes; names of states and channels are all that makes it long
# The arrays that describe each kind of metric; MLAT has one set for each of its solvers.
METRIC_ARRAYS: dict[str, list[set[str]]] = {
    "euclidean": [set()],
    "LMNN": [{"components"}],
    "MLAT": [{"taps"}, {"components", "blocks"}],
}

METRICS = {"MLAT": MLAT, "LMNN": LMNN}
# Parameters of a metric that predicting does not need: arrays and randomness.
NOT_STORED = {"init", "random_state", "verbose"}
# Attributes of a fitted metric that are stored in the header.
FITTED = (
    "loss_",
    "initial_loss_",
    "scale_",
    "n_iter_",
    "converged_",
    "message_",
    "history_",
)
# The values that a choice of ``metric="auto"`` may have.
CHOICES = {
    "lift": tuple(LIFTS),
    "metric": ("euclidean", "MLAT", "LMNN"),
    "solver": ("filter", "admm"),
}

Tensors = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]


def save(classifier: StreamClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier; the file appears whole or not at all."""
    check_is_fitted(classifier)
    metric, metric_tensors = _describe_metric(classifier.metric_)
    windows = classifier.windows_
    steps, start = needed_steps(windows, between=classifier.features_.lift.memory > 0)
    tensors: Tensors = {
        "steps": steps,
        "start": start,
        "run": windows.run,
        "code": classifier.references_.codes,
        "mean": classifier.mean_,
        "scale": classifier.scale_,
        "feature_mean": classifier.features_.lifted.mean,
        "feature_scale": classifier.features_.lifted.scale,
        "transition": classifier.confidence_.state_filter.transition,
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
        "selection": None if classifier.selection_ is None else asdict(classifier.selection_),
        "sha256": checksum(tensors),
    }
    with atomic_write(path) as temporary:
        temporary.write_bytes(serialize(tensors, metadata={"mlat": json.dumps(header)}))


def load(path: str | os.PathLike[str]) -> StreamClassifier:
    """Read a classifier that :meth:`StreamClassifier.save` wrote.

    Raises
    ------
    InputError
        If the file is not a model of this version, or is damaged.
    DiskError
        If it cannot be read.
    """
    file = Path(path)
    header = read_header(file)
    expected = expected_tensors(header, file)
    tensors = _read_tensors(file, expected)
    if checksum(tensors) != header["sha256"]:
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
    # The parameters that give the same model again: what was chosen is now given.
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
    windows = Windows(tensors["steps"], width, start, run, classes[code])
    classifier._set_fitted(
        References(windows, features, metric),
        tuple(header["channels"]),
        header["n_neighbors"],
        _read_selection(header["selection"], file),
    )
    classifier.confidence_ = _rebuild_confidence(header["confidence"], tensors["transition"])
    return classifier


def needed_steps(windows: Windows, between: bool) -> tuple[NDArray[Any], Ints]:
    """The steps inside some window, and where each window starts among them.

    ``between`` adds those between the windows of a run: a lift may look back at them.
    """
    inside = steps_inside(windows, between=between)
    place = np.cumsum(inside) - 1
    return windows.values[inside].astype(np.float64), place[windows.start].astype(np.int64)


# The header, as a reader checks it


def read_header(file: Path) -> dict[str, Any]:
    """The JSON header, with the type of every field checked."""
    not_a_model = f"{file} is not an mlat model"
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            prefix = stream.read(8)
    except OSError as error:
        raise DiskError(f"{file} cannot be read ({error.strerror}); check the path") from None
    if len(prefix) < 8:
        raise InputError(f"{not_a_model}: it has only {size} bytes")
    length = struct.unpack("<Q", prefix)[0]
    if length > min(size - 8, MAX_HEADER):
        raise InputError(f"{not_a_model}, or it was cut short; fit and save it again")
    try:
        with safe_open(file, framework="numpy") as opened:
            header = json.loads((opened.metadata() or {}).get("mlat", "null"))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{not_a_model}, or it was cut short ({error})") from None
    except (ValueError, RecursionError):
        raise InputError(f"{not_a_model}: its header is not JSON") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{not_a_model}: it is a safetensors file of something else")
    version = header.get("version")
    if version != VERSION:
        raise InputError(
            f"{file} has format version {version!r}, this mlat reads version {VERSION}; "
            "use the mlat that wrote it, or fit again"
        )
    _check_header(header, file)
    return header


def _check_header(header: dict[str, Any], file: Path) -> None:
    def whole(value: Any, low: int = 1, high: int = 1 << 40) -> bool:
        return is_whole(value) and low <= value <= high

    channels: Any = header.get("channels")
    classes: Any = header.get("classes")
    metric: Any = header.get("metric")
    texts = isinstance(classes, list) and all(isinstance(c, str) and c for c in classes)
    numbers = isinstance(classes, list) and all(whole(c, -(1 << 62), 1 << 62) for c in classes)
    problem = None
    for name in ("width", "step", "n_neighbors", "n_windows", "n_steps"):
        if not whole(header.get(name)):
            problem = f"{name} is {header.get(name)!r}"
    if (
        not isinstance(channels, list)
        or not channels
        or not all(isinstance(c, str) for c in channels)
        or len(set(channels)) != len(channels)
    ):
        problem = "channels must be different names"
    elif not (texts or numbers) or len(classes) < 2 or sorted(set(classes)) != classes:
        problem = "classes must be different states, sorted"
    elif not isinstance(metric, dict) or metric.get("kind") not in list(METRIC_ARRAYS):
        problem = "the metric is of no known kind"
    elif metric["kind"] != "euclidean" and not all(
        isinstance(metric.get(part), dict) for part in ("parameters", "shapes", "fitted")
    ):
        problem = "the metric is not described"
    elif (
        not all(isinstance(header.get(name), bool) for name in ("scaled", "whitened"))
        or not isinstance(header.get("sha256"), str)
        or not _is_number(header.get("unknown_rate"), 0, 1)
        or header["unknown_rate"] == 1
    ):
        problem = "fields are missing"
    elif problem is None and header["n_neighbors"] > header["n_windows"]:
        problem = f"it has fewer windows than n_neighbors, {header['n_neighbors']}"
    elif not _is_lift(header.get("lift"), len(channels)):
        problem = "the lift is of no known kind"
    elif not _is_confidence(header.get("confidence")):
        problem = "how sure it is, is not described"
    if problem is not None:
        raise InputError(f"{file} is damaged: {problem}")


def _is_number(value: Any, low: float, high: float) -> bool:
    return is_real(value) and low <= value <= high


def _is_confidence(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    threshold, farthest = record.get("threshold"), record.get("farthest")
    return (
        _is_number(record.get("beta"), 0, 1e6)
        and _is_number(record.get("typical"), 1e-300, 1e300)
        and _is_number(record.get("tempering"), 0, 1)
        and (threshold is None or _is_number(threshold, 0, 1e300))
        and (farthest is None or _is_number(farthest, 0, 1e300))
    )


def _is_lift(record: Any, n_channels: int) -> bool:
    if not isinstance(record, dict) or set(record) != {"maps", "reach"}:
        return False
    maps = record["maps"]
    names = list(maps) if isinstance(maps, list | dict) else [None]
    chosen = list(maps.values()) if isinstance(maps, dict) else []
    plain = all(isinstance(name, str) for name in names) and all(
        of is None or (isinstance(of, list) and all(isinstance(i, int) for i in of))
        for of in chosen
    )
    reach = record["reach"]
    # Each stream has a ring buffer of this size: a header must not take all the memory.
    if not plain or not _is_number(reach, 1, 1 << 20):
        return False
    try:
        return Lift(maps, reach).n_features(n_channels) > 0
    except InputError:
        return False


def expected_tensors(header: dict[str, Any], file: Path) -> Shapes:
    """The type and shape that each array must have, by the header alone."""
    n, d, width = header["n_windows"], len(header["channels"]), header["width"]
    lifted = Lift(**header["lift"]).n_features(d)
    n_states = len(header["classes"])
    expected: Shapes = {
        "steps": ("F64", (header["n_steps"], d)),
        "start": ("I64", (n,)),
        "run": ("I64", (n,)),
        "code": ("I64", (n,)),
        "mean": ("F64", (d,)),
        "scale": ("F64", (d,)),
        "feature_mean": ("F64", (lifted,)),
        "feature_scale": ("F64", (lifted,)),
        "transition": ("F64", (n_states, n_states)),
    }
    if header["whitened"]:
        expected["mixing"] = ("F64", (lifted, lifted))
    shapes = header["metric"].get("shapes", {})
    rules: dict[str, tuple[int | None, ...]] = {
        "taps": (None, None, lifted),
        "components": (None, width * lifted),
        "blocks": (width, lifted, lifted),
    }
    wanted = METRIC_ARRAYS[header["metric"]["kind"]]
    fits = set(shapes) in wanted and all(
        isinstance(shape, list)
        and len(shape) == len(rules[name])
        and all(
            isinstance(have, int) and have >= 1 and want in (None, have)
            for have, want in zip(shape, rules[name], strict=True)
        )
        for name, shape in shapes.items()
    )
    if not fits:
        raise InputError(f"{file} is damaged: the metric does not fit its width and channels")
    return expected | {name: ("F64", tuple(shape)) for name, shape in shapes.items()}


# The arrays


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
    except SafetensorError as error:
        raise InputError(f"{file} cannot be read ({error})") from None
    except OSError as error:
        raise DiskError(f"{file} cannot be read ({error})") from None


def checksum(tensors: Tensors) -> str:
    """SHA-256 of the names and values of the arrays, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


# The parts: lift, confidence, metric, selection


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
    # JSON has no infinity and no NaN: null is a threshold that is never exceeded, or a farthest
    # distance that is not known.
    return {
        "beta": confidence.calibration.beta,
        "typical": confidence.calibration.typical,
        "tempering": confidence.state_filter.tempering,
        "threshold": confidence.threshold if np.isfinite(confidence.threshold) else None,
        "farthest": confidence.farthest if np.isfinite(confidence.farthest) else None,
    }


def _rebuild_confidence(record: dict[str, Any], transition: NDArray[Any]) -> Confidence:
    # Older files have no farthest distance.
    threshold, farthest = record["threshold"], record.get("farthest")
    return Confidence(
        Calibration(record["beta"], record["typical"]),
        StateFilter(transition, record["tempering"]),
        np.inf if threshold is None else threshold,
        np.nan if farthest is None else farthest,
    )


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
    parameters = {k: v for k, v in metric.get_params().items() if k not in NOT_STORED}
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
        metric.check_parameters()
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
    elif isinstance(metric, MLAT):
        metric.components_, metric.blocks_ = tensors["components"], tensors["blocks"]
    else:
        metric.components_ = tensors["components"]
    return metric


def _read_selection(record: Any, file: Path) -> Selection | None:
    """The record of what was chosen; predicting does not depend on it, but it must be valid."""
    if record is None:
        return None
    try:
        trials = [_trial(trial) for trial in record["trials"]]
        return Selection(
            _choice(record["choice"]), trials, str(record["why"]), float(record["seconds"])
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InputError(f"{file} is damaged: what was chosen cannot be read") from None


def _trial(record: Any) -> Trial:
    return Trial(
        choice=_choice(record["choice"]),
        score=float(record["score"]),
        balanced_accuracy=_balanced_accuracy(record),
        error=float(record["error"]),
        seconds=float(record["seconds"]),
        kept=bool(record["kept"]),
    )


def _balanced_accuracy(record: Any) -> float:
    if "accuracy" in record:  # in files of earlier versions, in per cent
        return float(record["accuracy"]) / 100
    return float(record["balanced_accuracy"])


def _choice(record: Any) -> Choice:
    choice = Choice(**record)
    for field in fields(Choice):
        value = getattr(choice, field.name)
        if field.name in CHOICES:
            valid = value in CHOICES[field.name]
        elif field.name == "whiten":
            valid = isinstance(value, bool)
        elif field.name == "shrinkage":
            valid = is_real(value)
        else:
            valid = is_whole(value) or (field.name == "n_taps" and value is None)
        if not valid:
            raise ValueError(field.name)
    return choice
