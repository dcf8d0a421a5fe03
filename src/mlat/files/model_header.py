"""The header of a model file, read and believed only after every field has been checked."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..errors import InputError
from ..lifts import Lift

FORMAT = "mlat.StreamClassifier"
VERSION = 2
MAX_HEADER = 4 << 20  # bytes; names of states and channels are all that makes it long
# The arrays that describe each kind of metric; MLAT has one set for each of its solvers.
METRIC_ARRAYS: dict[str, list[set[str]]] = {
    "euclidean": [set()],
    "LMNN": [{"components"}],
    "MLAT": [{"taps"}, {"components", "blocks"}],
}

Shapes = dict[str, tuple[str, tuple[int, ...]]]


def read_header(file: Path) -> dict[str, Any]:
    """The JSON header, with every field that is used later known to be of its type."""
    not_a_model = f"{file} is not an mlat model"
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            prefix = stream.read(8)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check the path") from None
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
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    number = _is_number
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
        or not number(header.get("unknown_rate"), 0, 1)
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
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


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
    # Its ring is kept for every stream: a header must not ask for all the memory there is.
    if not plain or isinstance(reach, bool) or not _is_number(reach, 1, 1 << 20):
        return False
    try:
        return Lift(maps, reach).n_features(n_channels) > 0
    except InputError:
        return False


def expected_tensors(header: dict[str, Any], file: Path) -> Shapes:
    """The type and shape that each array must have, from the header alone."""
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
