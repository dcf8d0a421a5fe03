"""What a page shows of the model: names, the usual range of each channel, reference windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import finite
from ...classifier.classifier import StreamClassifier, unlike_beyond
from .hub import json_state

MOST_SAMPLED = 20_000  # steps from which the usual range of a channel is estimated


def describe(clf: StreamClassifier) -> dict[str, Any]:
    """Channels with their usual ranges, states, width and experts, as a page needs them."""
    values = clf.windows_.values
    middle, half = usual_range(values[:: max(1, len(values) // MOST_SAMPLED)])
    return {
        "channels": list(clf.channels_),
        "middle": middle.tolist(),
        "half": half.tolist(),
        "states": [json_state(state) for state in clf.classes_],
        "width": int(clf.width_),
        "references": len(clf.windows_),
        "unlike": finite(unlike_beyond(clf)),
        "experts": [
            {"name": member.name, "weight": member.weight}
            for member in (clf.committee_.deciding if len(clf.experts_) > 1 else ())
        ],
    }


def usual_range(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The middle and half the height of the range of 98 % of each channel's values; both (d,)."""
    middle, half = np.zeros(values.shape[1]), np.ones(values.shape[1])
    for c, column in enumerate(values.T):
        known = column[np.isfinite(column)]
        if len(known):
            low, high = np.quantile(known / 4, [0.01, 0.99])  # so that no sum is infinite
            middle[c] = 2 * (low + high)
            half[c] = 2 * (high - low) or max(abs(4 * float(high)), 1.0)
    return middle, half


def reference(clf: StreamClassifier, session: Any, row: int) -> dict[str, Any] | None:
    """A reference window by its row, learned or taught; None if there is none.

    ``values`` are its channels (d, w), or None where only their lifted features were kept.
    """
    n = len(clf.windows_)
    values: NDArray[Any] | None
    if row < n:
        start = int(clf.windows_.start[row])
        values = clf.windows_.values[start : start + clf.width_]
        state = clf.windows_.y[row]
    else:
        taught = getattr(getattr(session, "state", None), "taught", None)
        if taught is None or row - n >= len(taught):
            return None
        state = session.classes[int(taught.codes[row - n])]
        values = _channels(clf, taught.windows[row - n])
    return {
        "row": row,
        "state": json_state(state),
        "taught": row >= n,
        "values": values if values is None else [[_short(v) for v in c] for c in values.T],
    }


def _channels(clf: StreamClassifier, features: NDArray[Any]) -> NDArray[Any] | None:
    """From features (w, d') back to channels; None where no feature is a channel as it is."""
    made, d = clf.features_, len(clf.channels_)
    maps = made.lift.maps
    if not isinstance(maps, list | tuple) or "identity" not in maps:
        return None
    begin = list(maps).index("identity") * d
    lifted = (features * made.lifted.scale + made.lifted.mean)[:, begin : begin + d]
    return np.asarray(lifted * made.channels.scale + made.channels.mean)


def _short(value: Any) -> float | None:
    """To five digits, which is more than a screen shows."""
    return finite(float(f"{value:.5g}"))
