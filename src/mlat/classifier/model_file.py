"""The model file: a JSON header and arrays under one checksum.

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
from sklearn.utils.validation import check_is_fitted

from ..base.checks import SMALLEST, Floats, annotations_of, finite
from ..base.checksummed import (
    COUNT,
    FLAG,
    MEASURED,
    NAME,
    SIZE,
    TEXT,
    Arrays,
    Kind,
    as_annotated,
    check_arrays,
    chosen_by,
    either,
    listed,
    mapped,
    number,
    one_of,
    optional,
    pack,
    record,
    row,
    unpack,
    whole,
)
from ..base.disk import atomic_write
from ..base.errors import DiskError, InputError
from ..features.features import Features, Scaling, Units, View
from ..features.lifts import MAPS, Lift
from ..metric.embedding import Mahalanobis, linear_map
from ..metric.estimators import LMNN, MLAT
from ..metric.forest import Forest
from ..neighbours.references import References, compact
from ..stream.windows import Windows
from .classifier import StreamClassifier, Thinned
from .committee import SOFT, Committee, Member
from .confidence import Calibration, Confidence
from .held_out import ADAPTED, GROUP, RECORDING, RUN, Expected
from .state_filter import StateFilter

FORMAT = "mlat.StreamClassifier"
VERSION, OLDER, OLDEST = 4, 3, 2  # the version that is written, and older ones that are read
# What a model may need in memory beyond a fixed amount, relative to the size of its file.
MEMORY, MEMORY_RATIO = 256 << 20, 64
_PARAMETERS = ("width", "n_targets", "target_gap", "push_weight", "shrinkage", "max_iter", "tol")
# The metrics that are stored as what they are, and which of their parameters are.
METRICS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "LMNN": (LMNN, _PARAMETERS),
    "MLAT": (MLAT, (*_PARAMETERS, "solver", "rho", "n_taps", "n_filters")),
    "Forest": (Forest, ("n_estimators", "min_samples_leaf", "random_state")),
}
_NODES = ("roots", "feature", "threshold", "child", "value")  # the arrays of a forest
_WHOLE = ("roots", "feature", "child")  # which of them are of whole numbers

# The header, field by field.

_SHAPES = mapped(TEXT, listed(SIZE))
# Attributes of a fitted MLAT or LMNN; then of one that was learned from a working set.
_FITTED: dict[str, Kind] = {
    "loss_": MEASURED,
    "initial_loss_": MEASURED,
    "scale_": MEASURED,
    "n_iter_": COUNT,
    "converged_": FLAG,
    "message_": TEXT,
    "history_": listed(mapped(TEXT, MEASURED)),
}
_OF_WORKING_SET: dict[str, Kind] = {"n_windows_used_": SIZE, "loss_bound_": MEASURED}


def _stored(kind: str) -> Kind:
    metric, names = METRICS[kind]
    parameters = {name: as_annotated(annotations_of(metric)[name]) for name in names}
    fitted = {} if kind == "Forest" else {"fitted": record(_FITTED, may=_OF_WORKING_SET)}
    needed = {"kind": TEXT, "parameters": record({}, may=parameters), "shapes": _SHAPES}
    return record(needed | fitted)


_FRACTION = optional(number(0, 1))  # null where it is not known
_COMMITTEE = record(
    {
        "members": listed(
            record(
                {
                    "name": NAME,
                    "weight": number(0, 1),
                    "accuracy": _FRACTION,
                    "typical": optional(number(1e-300, 1e300)),
                },
                may={"power": optional(number(0, 1))},
            ),
            1,
        ),
        "soft": number(0, 1e6),
        "accuracy": _FRACTION,
        "n_runs": COUNT,
        "why": TEXT,
    },
    may={"expects": optional(row(one_of(GROUP, RECORDING, RUN, ADAPTED), *[number(0, 1)] * 3))},
)
# What an expert has of its own. Its arrays have names as "0.taps".
_EXPERT = record(
    {
        "width": SIZE,
        "columns": optional(listed(COUNT, 1, different=True)),
        "whitened": FLAG,
        "metric": chosen_by(
            "kind",
            {
                "euclidean": record({"kind": TEXT}),
                "Mahalanobis": record({"kind": TEXT, "name": optional(TEXT), "shapes": _SHAPES}),
                **{kind: _stored(kind) for kind in METRICS},
            },
        ),
    }
)
_EXPERTS = listed(_EXPERT, 1)
MODEL = record(
    {
        "format": one_of(FORMAT),
        "version": one_of(VERSION),
        "channels": listed(TEXT, 1, different=True),
        "classes": either(listed(whole(), 2, different=True), listed(NAME, 2, different=True)),
        "unknown_rate": number(0, np.nextafter(1, 0)),
        "usual_step": optional(number(SMALLEST)),
        "width": SIZE,
        "step": SIZE,
        "n_neighbors": SIZE,
        "n_windows": SIZE,
        "n_steps": SIZE,
        "scaled": FLAG,
        "auto": FLAG,  # whether the experts are the default ones
        "lift": record(
            {
                "maps": either(
                    mapped(one_of(*MAPS), optional(listed(COUNT, 1, different=True)), 1),
                    listed(one_of(*MAPS), 1, different=True),
                ),
                "reach": SIZE,
            }
        ),
        "confidence": record(
            {
                "beta": number(0, 1e6),
                "typical": number(1e-300, 1e300),
                "soft": number(0, 1e6),
                "tempering": number(0, 1),
                "threshold": optional(number(0)),
                "farthest": optional(number(0)),
            }
        ),
        "experts": _EXPERTS,
        "committee": _COMMITTEE,
    },
    # Of a model without some of its references: how many there were, and what it was asked for.
    # Of one that was taught: that steps before the first window of a run are stored, too.
    # Of one that was learned in common units: whether it is adapted; the units are two arrays.
    may={
        "led": FLAG,
        "adapted": FLAG,
        "thinned": record(
            {"n_all": SIZE, "agreement": number(0, 1), "max_references": number(SMALLEST)}
        ),
    },
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
    header, arrays = _describe(classifier)
    # As it will be read: numbers of numpy are plain ones then.
    header = json.loads(json.dumps(header, default=lambda number: number.item()))
    content = pack(header, arrays)
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


# Reading: versions, and what the parts of a file must have in common


def _open(content: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays as this version writes them, with a right checksum."""
    header, arrays, intact = unpack(content, f"{name} is not an mlat model")
    if header.get("format") != FORMAT:
        raise InputError(f"{name} is not an mlat model: it is a safetensors file of something else")
    version = header.get("version")
    if version not in (VERSION, OLDER, OLDEST) or isinstance(version, bool):
        raise InputError(
            f"{name} has format version {str(version)[:20]}, this mlat reads versions {OLDEST} "
            f"to {VERSION}; use the mlat that wrote it, or fit again"
        )
    if version == OLDEST:
        intact = header.get("sha256") == checksum_of_version_2(arrays)
        newer = sorted(header.keys() & {"usual_step", "experts", "committee"})
        if newer:
            raise InputError(f"{name} is damaged: version {OLDEST} has no {', '.join(newer)}")
        header, arrays = _version_3(header, arrays)
    if not intact:
        raise InputError(f"{name} is damaged: its checksum does not match; copy it again")
    return (header, arrays) if version == VERSION else _version_4(header, arrays, name)


def _version_3(header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """A model of version 2, which had one expert and all fields on one level."""
    gone = ("sha256", "selection", "metric")
    new = {name: value for name, value in header.items() if name not in gone}
    if isinstance(new.get("confidence"), dict):
        new["confidence"] = {"farthest": None, "soft": SOFT, **new["confidence"]}
    expert = {
        "width": header.get("width"),
        "columns": None,
        "whitened": False,
        "metric": header.get("metric"),
    }
    own = {"taps", "components", "blocks"}
    renamed = {f"0.{name}" if name in own else name: array for name, array in arrays.items()}
    new |= {"version": OLDER, "usual_step": None, "experts": [expert], "committee": None}
    return new, renamed


def _version_4(header: dict[str, Any], arrays: Arrays, name: str) -> tuple[dict[str, Any], Arrays]:
    """A model of version 3, where one expert was no committee and had its whitening elsewhere."""
    new = {key: value for key, value in header.items() if key not in ("whitened", "committee")}
    committee, experts = header.get("committee"), header.get("experts")
    new |= {"version": VERSION, "auto": committee is not None, "committee": committee}
    if isinstance(committee, dict):
        gone = ("beta", "expected", "seconds")
        told = {key: value for key, value in committee.items() if key not in gone}
        new["committee"] = {**told, "soft": SOFT}
    elif committee is None:
        _EXPERTS(experts, f"{name} is damaged: experts")
        assert experts is not None
        metric = experts[0]["metric"]
        kind = metric["name"] if metric["kind"] == "Mahalanobis" else metric["kind"]
        title = "Euclidean distance" if kind == "euclidean" else kind or "Mahalanobis"
        if header.get("whitened") is True:
            new["experts"] = [{**experts[0], "whitened": True}, *experts[1:]]
            arrays = {"0.mixing" if key == "mixing" else key: a for key, a in arrays.items()}
        member = {"name": title, "weight": 1.0, "accuracy": None, "typical": 1.0}
        told = {"members": [member], "soft": 0.0, "accuracy": None, "n_runs": 0, "why": ""}
        new["committee"] = told
    return new, arrays


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
    if header["n_neighbors"] > header["n_windows"]:
        raise InputError(f"{where}: fewer windows than n_neighbors, {header['n_neighbors']}")
    try:
        n_features = Lift(**header["lift"]).n_features(len(header["channels"]))
        expected = _shared_shapes(header, n_features)
        for i, expert in enumerate(header["experts"]):
            shapes = _expert_shapes(expert, n_features)
            expected |= {f"{i}.{name}": ("float64", shape) for name, shape in shapes.items()}
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    _check_memory(header, n_features, size, where)
    check_arrays(arrays, expected, where)
    problem = _unfit_experts(header) or _inconsistent(header, arrays)
    for i, expert in enumerate(header["experts"]):
        if expert["metric"]["kind"] == "Forest":
            nodes = {name: arrays[f"{i}.{name}"] for name in _NODES}
            problem = problem or _unfit_forest(nodes, expert["width"] * _seen(expert, n_features))
    scales = [arrays[name] for name in ("scale", "feature_scale", "units_scale") if name in arrays]
    if problem or any((scale <= 0).any() for scale in scales):
        raise InputError(f"{where}: {problem or 'a scale is not positive'}")


def _shared_shapes(
    header: dict[str, Any], n_features: int
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and shape of each array that all experts share, by the header alone."""
    n, d, n_states = header["n_windows"], len(header["channels"]), len(header["classes"])
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "steps": ("float64", (header["n_steps"], d)),
        **dict.fromkeys(("start", "run", "code"), ("int64", (n,))),
        **dict.fromkeys(("mean", "scale"), ("float64", (d,))),
        **dict.fromkeys(("feature_mean", "feature_scale"), ("float64", (n_features,))),
        "transition": ("float64", (n_states, n_states)),
    }
    if header.get("led"):
        expected["since"] = ("int64", (n,))
    if "adapted" in header:
        expected |= dict.fromkeys(("units_mean", "units_scale"), ("float64", (d,)))
    return expected


def _seen(expert: dict[str, Any], n_features: int) -> int:
    """How many of the features an expert sees."""
    columns = expert["columns"]
    return n_features if columns is None else len(columns)


def _expert_shapes(expert: dict[str, Any], n_features: int) -> dict[str, tuple[int, ...]]:
    """The shape of each array of an expert."""
    columns, d = expert["columns"], _seen(expert, n_features)
    if columns is not None and max(columns) >= n_features:
        raise InputError(f"an expert sees feature {max(columns)} of {n_features}")
    shapes = expert["metric"].get("shapes", {})
    rules = _rules(expert["metric"], expert["width"], d)
    if set(shapes) != set(rules) or any(
        len(shape) != len(rules[name])
        or any(want not in (None, have) for have, want in zip(shape, rules[name], strict=True))
        for name, shape in shapes.items()
    ):
        raise InputError("the metric does not fit its width and channels")
    expected = {name: tuple(shape) for name, shape in shapes.items()}
    return expected | ({"mixing": (d, d)} if expert["whitened"] else {})


def _rules(metric: dict[str, Any], width: int, d: int) -> dict[str, tuple[int | None, ...]]:
    """The shape of each array of a metric over windows (width, d); None is any number."""
    kind = metric["kind"]
    if kind == "euclidean":
        return {}
    if kind == "Forest":
        n = next(iter(metric["shapes"].get("value", ())), 0)
        return {"roots": (None,), **dict.fromkeys(_NODES[1:4], (n,)), "value": (n, None)}
    if kind == "MLAT" and metric["parameters"].get("solver", "filter") == "filter":
        return {"taps": (None, None, d)}
    return {"components": (None, width * d)} | ({"blocks": (width, d, d)} if kind == "MLAT" else {})


def _unfit_forest(nodes: Arrays, n_seen: int) -> str:
    """What is wrong with the nodes of a forest, on which no search may end nowhere."""
    roots, feature, _, child, value = (nodes[name] for name in _NODES)
    n, inner = len(feature), np.flatnonzero(feature >= 0)
    if (
        not all(np.array_equal(nodes[name], np.rint(nodes[name])) for name in _WHOLE)
        or not ((roots >= 0) & (roots < n)).all()
        or not ((feature >= -1) & (feature < n_seen)).all()
        or not ((child[inner] > inner) & (child[inner] < n - 1)).all()
        or not ((value >= 0) & (value <= 1)).all()
    ):
        return "a forest has impossible nodes"
    return ""


def _unfit_experts(header: dict[str, Any]) -> str:
    """What is wrong with experts and committee together; empty if nothing is."""
    experts, committee = header["experts"], header["committee"]
    if max(expert["width"] for expert in experts) != header["width"]:
        return "no expert has the width of the windows"
    deciding = [member for member in committee["members"] if member["weight"] > 0]
    if len(deciding) != len(experts) or any(one["typical"] is None for one in deciding):
        return "the committee does not fit the experts"
    if abs(sum(member["weight"] for member in deciding) - 1) > 1e-9:
        return "the weights of the committee are wrong"
    if len(experts) > 1 and header["n_neighbors"] > 1:
        return "several experts have one neighbour each"
    if committee["soft"] == 0 and (len(experts) > 1 or deciding[0]["typical"] != 1):
        return "the distances of the committee are wrong"
    return ""


def _check_memory(header: dict[str, Any], n_features: int, size: int, where: str) -> None:
    """Refuse a model that would need far more memory than its file is long.

    Everything else in memory is of the order of an array in the file.
    """
    lift, n_channels = Lift(**header["lift"]), len(header["channels"])
    numbers = {f"a reach of {lift.reach} steps": (lift.reach + 1) * n_channels}
    for expert in header["experts"]:
        width, n_seen = expert["width"], _seen(expert, n_features)
        matrix = {"euclidean": 0, "MLAT": width * n_seen**2}
        numbers[f"a width of {width} steps"] = matrix.get(
            expert["metric"]["kind"], (width * n_seen) ** 2
        )
    for what, needed in numbers.items():
        if 8 * needed > MEMORY + MEMORY_RATIO * size:
            raise InputError(
                f"{where}: {what} with {n_channels} channels needs {8 * needed / 1e9:.1f} GB of "
                f"memory, for a file of {size / 1e6:.1f} MB"
            )


def _inconsistent(header: dict[str, Any], arrays: Arrays) -> str:
    """What is wrong with the windows or the transitions; empty if nothing is."""
    width = header["width"]
    start, run, code = (arrays[name] for name in ("start", "run", "code"))
    since, transition = arrays.get("since", start), arrays["transition"]
    # First the range: differences of numbers out of it could overflow, and look right.
    if start.min() < 0 or start.max() > header["n_steps"] - width or (np.diff(start) <= 0).any():
        return "windows are out of range or out of order"
    # Runs come one after the other, have one state and share no step.
    begins = run[1:] != run[:-1]
    if (run[1:] < run[:-1]).any() or (np.diff(start)[begins] < width).any():
        return "runs are out of order"
    # A run is lifted from one step on, which no run before it has.
    ends = np.append(0, start[:-1][begins] + width)
    first = np.append(0, np.flatnonzero(begins) + 1)
    if header.get("led") and (
        (since < 0).any()
        or (since != np.repeat(since[first], np.diff(np.append(first, len(run))))).any()
        or (since[first] > start[first]).any()
        or (since[first] < ends).any()
    ):
        return "the steps before a run are out of order"
    if ((code[1:] != code[:-1]) & ~begins).any():
        return "a run is of two states"
    if not np.array_equal(np.unique(code), np.arange(len(header["classes"]))):
        return "windows are of unknown states, or a state has no windows"
    if (transition <= 0).any() or (np.abs(transition.sum(axis=1) - 1) > 1e-9).any():
        return "transitions are no probabilities"
    return ""


# What is written, and what is made of it again


def _describe(classifier: StreamClassifier) -> tuple[dict[str, Any], Arrays]:
    features, confidence = classifier.features_, classifier.confidence_
    lift = features.lift
    windows = compact(classifier.windows_, between=lift.memory > 0)
    arrays: Arrays = {
        "steps": windows.values,
        "start": windows.start,
        "run": windows.run,
        "code": classifier.references_.codes,
        "mean": features.channels.mean,
        "scale": features.channels.scale,
        "feature_mean": features.lifted.mean,
        "feature_scale": features.lifted.scale,
        "transition": confidence.state_filter.transition,
    }
    if windows.since is not None:
        arrays["since"] = windows.since
    experts = []
    for i, expert in enumerate(classifier.experts_):
        described, own = _describe_expert(expert)
        experts.append(described)
        arrays |= {f"{i}.{name}": array for name, array in own.items()}
    chosen = lift.maps.items() if isinstance(lift.maps, Mapping) else ()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "channels": list(classifier.channels_),
        "classes": classifier.classes_.tolist(),
        "unknown_rate": float(classifier.unknown_rate),
        "usual_step": classifier.usual_step_,
        "width": int(windows.width),
        "step": int(classifier.stride),
        "n_neighbors": int(classifier.n_neighbors_),
        "n_windows": len(windows),
        "n_steps": len(windows.values),
        "scaled": bool(classifier.scale),
        "auto": isinstance(classifier.metric, str) and classifier.metric == "auto",
        "lift": {
            "maps": {k: None if v is None else [int(i) for i in v] for k, v in chosen}
            or list(lift.maps),
            "reach": int(lift.reach),
        },
        # A threshold that is never exceeded is null.
        "confidence": {
            **asdict(confidence.calibration),
            "tempering": confidence.state_filter.tempering,
            "threshold": finite(confidence.threshold),
            "farthest": finite(confidence.farthest),
        },
        "experts": experts,
        "committee": _describe_committee(classifier.committee_),
    }
    if windows.since is not None:
        header["led"] = True
    if classifier.units_ is not None:
        arrays["units_mean"], arrays["units_scale"], header["adapted"] = classifier.units_
    if classifier.thinned_ is not None:
        header["thinned"] = {
            **classifier.thinned_._asdict(),
            "max_references": classifier.max_references,
        }
    return header, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _describe_committee(committee: Committee) -> dict[str, Any]:
    told = _or_null(asdict(committee))
    told["expects"] = told.pop("expected")
    return {**told, "members": [_or_null(asdict(member)) for member in committee.members]}


def _or_null(told: dict[str, Any]) -> dict[str, Any]:
    return {k: finite(v) if isinstance(v, float) else v for k, v in told.items()}


def _describe_expert(expert: References) -> tuple[dict[str, Any], Arrays]:
    metric, arrays = _describe_metric(expert)
    columns, mixing = expert.view.columns, expert.view.mixing
    if "shapes" in metric:
        metric["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    return {
        "width": int(expert.windows.width),
        "columns": None if columns is None else columns.tolist(),
        "whitened": mixing is not None,
        "metric": metric,
    }, arrays if mixing is None else arrays | {"mixing": mixing}


def _describe_metric(expert: References) -> tuple[dict[str, Any], Arrays]:
    metric, kind = expert.metric, type(expert.metric).__name__
    if metric is None:
        return {"kind": "euclidean"}, {}
    own, stored = METRICS.get(kind, (None, ()))
    if type(metric) is not own:
        name, components = _as_linear(expert)
        told: dict[str, Any] = {"kind": "Mahalanobis", "name": name, "shapes": {}}
        return told, {"components": components}
    parameters = {k: v for k, v in metric.get_params().items() if k in stored}
    told = {"kind": kind, "parameters": parameters, "shapes": {}}
    if kind == "Forest":
        return told, {name: getattr(metric, f"{name}_").astype(np.float64) for name in _NODES}
    fitted = [*_FITTED, *(_OF_WORKING_SET if metric.n_windows_used_ is not None else ())]
    told["fitted"] = {name: getattr(metric, name) for name in fitted}
    if hasattr(metric, "taps_"):
        return told, {"taps": metric.taps_}
    of_admm = {"blocks": metric.blocks_} if kind == "MLAT" else {}
    return told, {"components": metric.components_, **of_admm}


def _as_linear(expert: References) -> tuple[str | None, Floats]:
    """The name and the L of a metric of one's own. No file holds its code, but its map it can."""
    metric = expert.metric
    if isinstance(metric, Mahalanobis):
        return metric.name, metric.components_
    columns = expert.view.columns
    n_features = expert.features.n_features if columns is None else len(columns)
    name = type(metric).__name__
    try:
        return name, linear_map(metric, expert.windows.width, n_features)
    except InputError as error:
        raise InputError(
            f"a model with the metric {name} cannot be saved: {error}; MLAT, LMNN, the Euclidean "
            "distance and linear transformers can be saved"
        ) from None


def _rebuild(header: dict[str, Any], arrays: Arrays) -> StreamClassifier:
    features = Features(
        Scaling(arrays["mean"], arrays["scale"]),
        Lift(**header["lift"]),
        Scaling(arrays["feature_mean"], arrays["feature_scale"]),
    )
    states = np.array(header["classes"])[arrays["code"]]
    windows = Windows(
        *(arrays["steps"], header["width"], arrays["start"], arrays["run"], states),
        arrays.get("since"),
    )
    steps = features.of_runs(windows)
    experts = []
    for i, described in enumerate(header["experts"]):
        own = {n.removeprefix(f"{i}."): a for n, a in arrays.items() if n.startswith(f"{i}.")}
        columns = described["columns"]
        view = View(None if columns is None else np.array(columns), own.get("mixing"))
        metric = _rebuild_metric(described, _seen(described, features.n_features), own)
        experts.append(References(windows.last(described["width"]), features, metric, steps, view))
    classifier = _with_parameters(header, experts[0])
    classifier._set_fitted(
        experts,
        _rebuild_committee(header["committee"]),
        tuple(header["channels"]),
        header["n_neighbors"],
    )
    classifier.usual_step_ = header["usual_step"]
    if "adapted" in header:
        units = arrays["units_mean"], arrays["units_scale"], header["adapted"]
        classifier.units_ = Units(*units)
    if thinned := header.get("thinned"):
        classifier.max_references = thinned["max_references"]
        classifier.thinned_ = Thinned(thinned["n_all"], thinned["agreement"])
    told = header["confidence"]
    classifier.confidence_ = Confidence(
        Calibration(*(told[name] for name in ("beta", "typical", "soft"))),
        StateFilter(arrays["transition"], told["tempering"]),
        np.inf if told["threshold"] is None else told["threshold"],
        _or_nan(told["farthest"]),
    )
    return classifier


def _with_parameters(header: dict[str, Any], expert: References) -> StreamClassifier:
    """A classifier with the parameters that would give the same model again."""
    lift, metric = expert.features.lift, expert.metric
    shared = {
        "width": header["width"],
        "scale": header["scaled"],
        "stride": header["step"],
        "unknown_rate": header["unknown_rate"],
    }
    if header["auto"]:
        return StreamClassifier(**shared, reach=lift.reach)
    return StreamClassifier(
        **shared,
        metric="euclidean" if metric is None else type(metric)(**metric.get_params()),
        lift=lift,
        whiten=expert.view.mixing is not None,
        n_neighbors=header["n_neighbors"],
    )


def _rebuild_committee(told: dict[str, Any]) -> Committee:
    members = tuple(
        Member(**{name: _or_nan(value) for name, value in member.items()})
        for member in told["members"]
    )
    expected = None if told.get("expects") is None else Expected(*told["expects"])
    known = _or_nan(told["accuracy"]), told["n_runs"], told["why"], expected
    return Committee(members, told["soft"], *known)


def _or_nan(value: Any) -> Any:
    return np.nan if value is None else value


def _rebuild_metric(expert: dict[str, Any], n_features: int, arrays: Arrays) -> Any:
    described, width = expert["metric"], expert["width"]
    kind = described["kind"]
    if kind == "euclidean":
        return None
    if kind == "Mahalanobis":
        metric: Any = Mahalanobis(arrays["components"], width, described["name"])
    else:
        metric = METRICS[kind][0](**described["parameters"])
    metric.width_, metric.n_channels_ = width, n_features
    metric.n_features_in_ = width * n_features
    if "fitted" in described:  # files of before lack the first two
        fitted = {"n_windows_used_": None, "loss_bound_": 0.0, **described["fitted"]}
        for name, value in fitted.items():
            setattr(metric, name, value)
    for name in described["shapes"]:
        array = arrays[name]
        setattr(metric, f"{name}_", array.astype(np.int64) if name in _WHOLE else array)
    return metric
