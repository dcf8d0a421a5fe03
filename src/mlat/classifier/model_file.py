"""The model file: a JSON header and arrays under one checksum (:mod:`mlat.sealed.container`).

The file holds what predicting needs: the references as steps of the training stream and where each
window starts, the scaling, the metric and the confidence. What is read is checked in this order:
the checksum of every byte, the header by the table ``MODEL``, the arrays by the header, and that
what they say fits together. What passes can be used without a surprise. ``save`` checks the same,
so that it writes nothing that ``load`` refuses.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..checks import SMALLEST, Ints
from ..disk import atomic_write
from ..errors import DiskError, InputError
from ..features.features import Features, Scaling
from ..features.lifts import MAPS, Lift
from ..metric import toeplitz
from ..metric.estimators import LMNN, MLAT
from ..neighbours.references import References, steps_inside
from ..sealed.container import Arrays, check_arrays, seal, unseal
from ..sealed.fields import (
    COUNT,
    FLAG,
    MEASURED,
    NAME,
    SIZE,
    TEXT,
    Kind,
    chosen_by,
    either,
    listed,
    mapped,
    number,
    one_of,
    optional,
    record,
    whole,
)
from ..stream.windows import Windows
from .classifier import StreamClassifier
from .confidence import Calibration, Confidence
from .selection import LIFTS, Choice, Selection, Trial
from .state_filter import StateFilter

FORMAT = "mlat.StreamClassifier"
VERSION, UNSEALED = 3, 2  # the version that is written, and the older one that is read, too
# What a model may need in memory beyond a fixed amount, relative to the size of its file.
MEMORY, MEMORY_RATIO = 256 << 20, 64
METRICS = {"MLAT": MLAT, "LMNN": LMNN}

# The header, field by field.

_METRIC_PARAMETERS: dict[str, Kind] = {
    "width": optional(SIZE),
    "n_targets": optional(SIZE),
    "target_gap": either(one_of("run"), COUNT),
    "push_weight": number(0, 1),
    "shrinkage": number(0),
    "max_iter": SIZE,
    "tol": number(0),
}
_MLAT_PARAMETERS: dict[str, Kind] = {
    "solver": one_of("filter", "admm"),
    "rho": number(SMALLEST),
    "n_taps": optional(SIZE),
    "n_filters": optional(SIZE),
}
# Attributes of a fitted metric.
_FITTED: dict[str, Kind] = {
    "loss_": MEASURED,
    "initial_loss_": MEASURED,
    "scale_": MEASURED,
    "n_iter_": COUNT,
    "converged_": FLAG,
    "message_": TEXT,
    "history_": listed(mapped(TEXT, MEASURED)),
}


def _metric(parameters: dict[str, Kind]) -> Kind:
    return record(
        {
            "kind": TEXT,
            "parameters": record({}, may=parameters),
            "shapes": mapped(TEXT, listed(SIZE)),
            "fitted": record(_FITTED),
        }
    )


_CHOICE = record(
    {"lift": one_of(*LIFTS), "reach": SIZE, "width": SIZE},
    may={
        "whiten": FLAG,
        "metric": one_of("euclidean", *METRICS),
        "shrinkage": number(0),
        "solver": one_of("filter", "admm"),
        "n_taps": optional(SIZE),
        "n_targets": SIZE,
        "n_neighbors": SIZE,
    },
)
_SELECTION = record(
    {
        "choice": _CHOICE,
        "trials": listed(
            record(
                {
                    "choice": _CHOICE,
                    "score": MEASURED,
                    "accuracy": MEASURED,
                    "error": MEASURED,
                    "seconds": MEASURED,
                    "kept": FLAG,
                }
            )
        ),
        "why": TEXT,
        "seconds": MEASURED,
    }
)
# One lift, width and metric with their references. Its arrays have names as "0.steps".
_EXPERT = record(
    {
        "width": SIZE,
        "step": SIZE,
        "n_neighbors": SIZE,
        "n_windows": SIZE,
        "n_steps": SIZE,
        "scaled": FLAG,
        "whitened": FLAG,
        "lift": record(
            {
                "maps": either(
                    mapped(one_of(*MAPS), optional(listed(COUNT, 1, different=True)), 1),
                    listed(one_of(*MAPS), 1, different=True),
                ),
                "reach": SIZE,
            }
        ),
        "metric": chosen_by(
            "kind",
            {
                "euclidean": record({"kind": TEXT}),
                "LMNN": _metric(_METRIC_PARAMETERS),
                "MLAT": _metric(_METRIC_PARAMETERS | _MLAT_PARAMETERS),
            },
        ),
        "confidence": record(
            {
                "beta": number(0, 1e6),
                "typical": number(1e-300, 1e300),
                "tempering": number(0, 1),
                "threshold": optional(number(0)),
                "farthest": optional(number(0)),
            }
        ),
    }
)
MODEL = record(
    {
        "format": one_of(FORMAT),
        "version": one_of(VERSION),
        "channels": listed(TEXT, 1, different=True),
        "classes": either(listed(whole(), 2, different=True), listed(NAME, 2, different=True)),
        "unknown_rate": number(0, np.nextafter(1, 0)),
        "usual_step": optional(number(SMALLEST)),
        "selection": optional(_SELECTION),
        "experts": listed(_EXPERT, 1, 1),
    }
)


def save(classifier: StreamClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier; the file appears whole or not at all.

    Raises
    ------
    InputError
        If no file can hold the model.
    DiskError
        If it cannot be written.
    """
    content = to_bytes(classifier)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def to_bytes(classifier: StreamClassifier) -> bytes:
    """The content of a model file."""
    check_is_fitted(classifier)
    expert, tensors = _describe(classifier)
    arrays = {f"0.{name}": np.ascontiguousarray(array) for name, array in tensors.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "channels": list(classifier.channels_),
        "classes": classifier.classes_.tolist(),
        "unknown_rate": float(classifier.unknown_rate),
        "usual_step": classifier.usual_step_,
        "selection": None if classifier.selection_ is None else asdict(classifier.selection_),
        "experts": [expert],
    }
    # As it will be read: numbers of numpy are plain ones then.
    header = json.loads(json.dumps(header, default=lambda number: number.item()))
    content = seal(header, arrays)
    _check(header, arrays, len(content), "the model cannot be saved")
    return content


def load(path: str | os.PathLike[str]) -> StreamClassifier:
    """Read a classifier that :meth:`StreamClassifier.save` wrote.

    Raises
    ------
    InputError
        If the file is not a model of a known version, or is damaged.
    DiskError
        If it cannot be read.
    """
    file = Path(path)
    try:
        if file.exists() and not file.is_dir() and not file.is_file():
            raise InputError(f"{file} is not an mlat model: it is not an ordinary file")
        content = file.read_bytes()
    except OSError as error:
        raise DiskError(f"{file} cannot be read ({error.strerror}); check the path") from None
    return from_bytes(content, str(file))


def from_bytes(content: bytes, name: str) -> StreamClassifier:
    """The classifier in the content of a model file, which has a name for messages.

    Raises
    ------
    InputError
    """
    header, arrays = _open(content, name)
    _check(header, arrays, len(content), f"{name} is damaged")
    return _rebuild(header, arrays)


def needed_steps(windows: Windows, between: bool) -> tuple[NDArray[Any], Ints]:
    """The steps inside some window, and where each window starts among them.

    ``between`` adds those between the windows of a run: a lift may look back at them.
    """
    inside = steps_inside(windows, between=between)
    place = np.cumsum(inside) - 1
    return windows.values[inside].astype(np.float64), place[windows.start].astype(np.int64)


# Reading: versions, and what the parts of a file must have in common


def _open(content: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays as this version writes them, with a right checksum."""
    header, arrays, sealed = unseal(content, f"{name} is not an mlat model")
    if header.get("format") != FORMAT:
        raise InputError(f"{name} is not an mlat model: it is a safetensors file of something else")
    version = header.get("version")
    if version not in (VERSION, UNSEALED) or isinstance(version, bool):
        raise InputError(
            f"{name} has format version {str(version)[:20]}, this mlat reads versions {UNSEALED} "
            f"and {VERSION}; use the mlat that wrote it, or fit again"
        )
    if version == UNSEALED:
        sealed = header.get("sha256") == checksum_of_version_2(arrays)
        header, arrays = _upgraded(header, arrays)
    if not sealed:
        raise InputError(f"{name} is damaged: its checksum does not match; copy it again")
    return header, arrays


def _upgraded(header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """A model of version 2, which had one expert and all fields on one level."""
    shared = ("format", "channels", "classes", "unknown_rate", "selection")
    new = {name: header[name] for name in shared if name in header}
    expert = {
        name: value for name, value in header.items() if name not in (*shared, "version", "sha256")
    }
    if isinstance(expert.get("confidence"), dict):
        expert["confidence"] = {"farthest": None, **expert["confidence"]}
    renamed = {f"0.{name}": array for name, array in arrays.items()}
    return new | {"version": VERSION, "usual_step": None, "experts": [expert]}, renamed


def checksum_of_version_2(arrays: Arrays) -> str:
    """Of the names and values of the arrays, not of the header."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _check(header: dict[str, Any], arrays: Arrays, size: int, where: str) -> None:
    """Raise `InputError` unless header and arrays make a model; ``size`` is that of the file."""
    MODEL(header, where)
    classes = header["classes"]
    if sorted(classes) != classes or -1 in classes:
        raise InputError(f"{where}: classes must be sorted, without the unknown state -1")
    expected: dict[str, tuple[str, tuple[int, ...]]] = {}
    for i, expert in enumerate(header["experts"]):
        try:
            shapes = _shapes(expert, len(header["channels"]), len(classes))
        except InputError as error:
            raise InputError(f"{where}: experts[{i}]: {error}") from None
        _check_memory(expert, len(header["channels"]), size, where)
        expected |= {f"{i}.{name}": shape for name, shape in shapes.items()}
    check_arrays(arrays, expected, where)
    for i, expert in enumerate(header["experts"]):
        own = {name: arrays[f"{i}.{name}"] for name in ("start", "run", "code", "transition")}
        problem = _inconsistent(expert, len(classes), **own)
        scales = [arrays[f"{i}.{name}"] for name in ("scale", "feature_scale")]
        if problem or any((scale <= 0).any() for scale in scales):
            raise InputError(f"{where}: {problem or 'a scale is not positive'}")


def _shapes(
    expert: dict[str, Any], n_channels: int, n_states: int
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and shape that each array must have, by the header alone."""
    n, width = expert["n_windows"], expert["width"]
    lifted = Lift(**expert["lift"]).n_features(n_channels)
    metric = expert["metric"]
    rules: dict[str, tuple[int | None, ...]] = {
        "taps": (None, None, lifted),
        "components": (None, width * lifted),
        "blocks": (width, lifted, lifted),
    }
    wanted = {"euclidean": [], "LMNN": ["components"], "MLAT": ["components", "blocks"]}
    names = set(wanted[metric["kind"]])
    if metric["kind"] == "MLAT" and metric["parameters"].get("solver", "filter") == "filter":
        names = {"taps"}
    shapes = metric.get("shapes", {})
    if set(shapes) != names or any(
        len(shape) != len(rules[name])
        or any(want not in (None, have) for have, want in zip(shape, rules[name], strict=True))
        for name, shape in shapes.items()
    ):
        raise InputError("the metric does not fit its width and channels")
    if expert["n_neighbors"] > n:
        raise InputError(f"it has fewer windows than n_neighbors, {expert['n_neighbors']}")
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "steps": ("float64", (expert["n_steps"], n_channels)),
        **dict.fromkeys(("start", "run", "code"), ("int64", (n,))),
        **dict.fromkeys(("mean", "scale"), ("float64", (n_channels,))),
        **dict.fromkeys(("feature_mean", "feature_scale"), ("float64", (lifted,))),
        "transition": ("float64", (n_states, n_states)),
        **{name: ("float64", tuple(shape)) for name, shape in shapes.items()},
    }
    if expert["whitened"]:
        expected["mixing"] = ("float64", (lifted, lifted))
    return expected


def _check_memory(expert: dict[str, Any], n_channels: int, size: int, where: str) -> None:
    """Refuse a model that would need far more memory than its file is long.

    Everything else in memory is of the order of an array in the file.
    """
    lift, width = Lift(**expert["lift"]), expert["width"]
    lifted = lift.n_features(n_channels)
    matrix = {"euclidean": 0, "MLAT": width * lifted**2, "LMNN": (width * lifted) ** 2}
    numbers = {
        f"a reach of {lift.reach} steps": (lift.reach + 1) * n_channels,
        f"a width of {width} steps": matrix[expert["metric"]["kind"]],
    }
    for what, needed in numbers.items():
        if 8 * needed > MEMORY + MEMORY_RATIO * size:
            raise InputError(
                f"{where}: {what} with {n_channels} channels needs {8 * needed / 1e9:.1f} GB of "
                f"memory, for a file of {size / 1e6:.1f} MB"
            )


def _inconsistent(
    expert: dict[str, Any],
    n_states: int,
    *,
    start: Ints,
    run: Ints,
    code: Ints,
    transition: NDArray[Any],
) -> str:
    """What is wrong with the windows or the transitions; empty if nothing is."""
    width = expert["width"]
    # First the range: differences of numbers out of it could overflow, and look right.
    if start.min() < 0 or start.max() > expert["n_steps"] - width or (np.diff(start) <= 0).any():
        return "windows are out of range or out of order"
    # Runs come one after the other, have one state and share no step.
    begins = run[1:] != run[:-1]
    if (run[1:] < run[:-1]).any() or (np.diff(start)[begins] < width).any():
        return "runs are out of order"
    if ((code[1:] != code[:-1]) & ~begins).any():
        return "a run is of two states"
    if not np.array_equal(np.unique(code), np.arange(n_states)):
        return "windows are of unknown states, or a state has no windows"
    if (transition <= 0).any() or (np.abs(transition.sum(axis=1) - 1) > 1e-9).any():
        return "transitions are no probabilities"
    return ""


# One expert: what is written, and what is made of it again


def _describe(classifier: StreamClassifier) -> tuple[dict[str, Any], Arrays]:
    windows, features = classifier.windows_, classifier.features_
    confidence, lift = classifier.confidence_, features.lift
    metric, tensors = _describe_metric(classifier.metric_)
    steps, start = needed_steps(windows, between=lift.memory > 0)
    tensors |= {
        "steps": steps,
        "start": start,
        "run": windows.run,
        "code": classifier.references_.codes,
        "mean": features.channels.mean,
        "scale": features.channels.scale,
        "feature_mean": features.lifted.mean,
        "feature_scale": features.lifted.scale,
        "transition": confidence.state_filter.transition,
    }
    if features.mixing is not None:
        tensors["mixing"] = features.mixing
    chosen = lift.maps.items() if isinstance(lift.maps, Mapping) else ()
    return {
        "width": int(windows.width),
        "step": int(classifier.step),
        "n_neighbors": int(classifier.n_neighbors_),
        "n_windows": len(windows),
        "n_steps": len(steps),
        "scaled": bool(classifier.scale),
        "whitened": features.mixing is not None,
        "lift": {
            "maps": {k: None if v is None else [int(i) for i in v] for k, v in chosen}
            or list(lift.maps),
            "reach": int(lift.reach),
        },
        "metric": metric,
        # JSON has no infinity and no NaN: null is a threshold that is never exceeded, or a farthest
        # distance that is not known.
        "confidence": {
            "beta": confidence.calibration.beta,
            "typical": confidence.calibration.typical,
            "tempering": confidence.state_filter.tempering,
            "threshold": confidence.threshold if np.isfinite(confidence.threshold) else None,
            "farthest": confidence.farthest if np.isfinite(confidence.farthest) else None,
        },
    }, tensors


def _describe_metric(metric: Any) -> tuple[dict[str, Any], Arrays]:
    if metric is None:
        return {"kind": "euclidean"}, {}
    kind = type(metric).__name__
    if METRICS.get(kind) is not type(metric):
        raise InputError(
            f"a model with the metric {kind} cannot be saved; only MLAT, LMNN and the Euclidean "
            "distance can"
        )
    tensors: Arrays = {}
    if hasattr(metric, "taps_"):
        tensors["taps"] = metric.taps_
    else:
        tensors["components"] = metric.components_
        if kind == "MLAT":
            tensors["blocks"] = metric.blocks_
    stored = _METRIC_PARAMETERS | _MLAT_PARAMETERS
    return {
        "kind": kind,
        "parameters": {k: v for k, v in metric.get_params().items() if k in stored},
        "shapes": {name: list(array.shape) for name, array in tensors.items()},
        "fitted": {name: getattr(metric, name) for name in _FITTED},
    }, tensors


def _rebuild(header: dict[str, Any], arrays: Arrays) -> StreamClassifier:
    (expert,) = header["experts"]
    tensors = {name.removeprefix("0."): array for name, array in arrays.items()}
    features = Features(
        Scaling(tensors["mean"], tensors["scale"]),
        Lift(**expert["lift"]),
        Scaling(tensors["feature_mean"], tensors["feature_scale"]),
        tensors.get("mixing"),
    )
    metric = _rebuild_metric(expert, features.n_features, tensors)
    # The parameters that give the same model again: what was chosen is now given.
    classifier = StreamClassifier(
        expert["width"],
        metric="euclidean" if metric is None else type(metric)(**metric.get_params()),
        lift=features.lift,
        whiten=expert["whitened"],
        n_neighbors=expert["n_neighbors"],
        scale=expert["scaled"],
        step=expert["step"],
        unknown_rate=header["unknown_rate"],
    )
    states = np.array(header["classes"])[tensors["code"]]
    windows = Windows(tensors["steps"], expert["width"], tensors["start"], tensors["run"], states)
    classifier._set_fitted(
        References(windows, features, metric),
        tuple(header["channels"]),
        expert["n_neighbors"],
        _rebuild_selection(header["selection"]),
    )
    classifier.usual_step_ = header["usual_step"]
    told = expert["confidence"]
    classifier.confidence_ = Confidence(
        Calibration(told["beta"], told["typical"]),
        StateFilter(tensors["transition"], told["tempering"]),
        np.inf if told["threshold"] is None else told["threshold"],
        np.nan if told["farthest"] is None else told["farthest"],
    )
    return classifier


def _rebuild_metric(expert: dict[str, Any], n_features: int, tensors: Arrays) -> Any:
    described = expert["metric"]
    if described["kind"] == "euclidean":
        return None
    metric = METRICS[described["kind"]](**described["parameters"])
    for name, value in described["fitted"].items():
        setattr(metric, name, value)
    metric.width_, metric.n_channels_ = expert["width"], n_features
    metric.n_features_in_ = metric.width_ * metric.n_channels_
    if "taps" in tensors:
        metric.taps_ = tensors["taps"]
        metric.blocks_ = toeplitz.autocorrelation(metric.taps_, metric.width_)
    else:
        metric.components_ = tensors["components"]
        if "blocks" in tensors:
            metric.blocks_ = tensors["blocks"]
    return metric


def _rebuild_selection(told: dict[str, Any] | None) -> Selection | None:
    if told is None:
        return None
    trials = [Trial(**{**trial, "choice": Choice(**trial["choice"])}) for trial in told["trials"]]
    return Selection(Choice(**told["choice"]), trials, told["why"], told["seconds"])
