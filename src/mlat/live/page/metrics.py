"""What is counted while a stream is watched, and the same as Prometheus reads it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, cast

from ..core.steps import Predictions

# prometheus_client's own constant names version 1.0.0 of the format in its newer releases. The two
# differ only in names beyond ASCII, and there are none here.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_STATES, OTHER = 200, "(other)"  # states with figures of their own, and all the rest
UNKNOWN = "(unknown)"
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds

# The session's own counters, with the names and descriptions that Prometheus gets.
_SESSION = {
    "late": ("mlat_late", "Steps that came after their place was given up."),
    "duplicate": ("mlat_duplicates", "Steps that had come before."),
    "rejected": ("mlat_rejected", "Steps refused for a missing value."),
    "held": ("mlat_held", "Missing values replaced by the last one."),
    "gaps": ("mlat_gaps", "Gaps after which a window began anew."),
}


class Counts:
    """Everything that is counted while a stream is watched.

    Attributes
    ----------
    steps, frames, dropped, taught : int
        Steps with a prediction, frames made, frames dropped for slow pages, windows taught.
    unknown : Counter
        Steps without a state, by reason; the name of a dead channel is not part of the reason.
    source_refused, doubtful : int
        What came from the source and was no step; steps that may have come before.
    refused : Counter
        Requests that were refused, by reason.
    lags, total_lag : list of int, float
        Of the seconds from a step's arrival to its prediction: how many steps had at most each of
        ``LAG_BOUNDS`` and no less, or more than all; and their sum. (prometheus_client's
        ``Histogram`` has no way to count a value several times at once.)
    state : str
        The present one; empty where it is unknown.
    seconds, switches : Counter
        By state: for how long it was the present one, and how often it became that.
    distance : float
        From the last window to the nearest reference; NaN without one.
    """

    def __init__(self) -> None:
        self.steps = self.frames = self.dropped = self.taught = 0
        self.source_refused = self.doubtful = 0
        self.unknown: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.lags, self.total_lag = [0] * (len(LAG_BOUNDS) + 1), 0.0
        self.state, self.distance, self._at = "", math.nan, math.nan
        self.seconds: Counter[str] = Counter()
        self.switches: Counter[str] = Counter()

    def add(self, part: Predictions, lag: float, now: float = math.nan) -> None:
        """Count predictions that came at a time ``now``; steps that came at once share the time."""
        self.steps += len(part)
        passed = (now - self._at) / max(len(part), 1)
        self._at = now
        columns = (part.codes.tolist(), part.why.tolist(), part.distance.tolist())
        for code, reason, distance in zip(*columns, strict=True):
            why = part.reasons[reason]
            state = "" if why else str(part.names[code])
            if state not in self.seconds and len(self.seconds) >= MOST_STATES:
                state = OTHER
            self.seconds[state] += passed if passed > 0 else 0  # type: ignore[assignment]
            if state != self.state:
                self.switches[state] += 1
            self.state, self.distance = state, math.nan if why else distance
            if why:
                # One reason for all dead channels: a label for each of them would be too many.
                self.unknown["dead channel" if why.startswith("dead channel") else why] += 1
        if lag >= 0:  # not NaN, and not negative because a clock was set back
            self.lags[bisect_left(LAG_BOUNDS, lag)] += len(part)
            self.total_lag += lag * len(part)


def exposition(
    counts: Counts,
    session: Mapping[str, int],
    *,
    clients: int,
    age: float | None,
    drift: Mapping[str, float] | None = None,
) -> str:
    """All figures in Prometheus's text format.

    Parameters
    ----------
    counts : Counts
    session : mapping
        The session's own counters.
    clients : int
        Pages that are watching.
    age : float or None
        Seconds since the last step.
    drift : mapping, optional
        By how many deviations channels lie outside what the references cover.
    """
    from prometheus_client import generate_latest
    from prometheus_client.core import CounterMetricFamily as counter  # noqa: N813
    from prometheus_client.core import GaugeMetricFamily as gauge  # noqa: N813
    from prometheus_client.core import HistogramMetricFamily

    def families() -> Iterator[Any]:
        for name, about, value in (
            ("mlat_steps", "Steps with a prediction.", counts.steps),
            ("mlat_frames", "Frames made for pages.", counts.frames),
            ("mlat_frames_dropped", "Frames dropped for slow pages.", counts.dropped),
            ("mlat_taught", "Windows taught from the page.", counts.taught),
            ("mlat_source_refused", "Messages that were no step.", counts.source_refused),
            ("mlat_doubtful", "Steps that may have come before; publish seq.", counts.doubtful),
            *((name, about, session.get(key, 0)) for key, (name, about) in _SESSION.items()),
        ):
            yield counter(name, about, value)
        unknown, refused = "Steps without a state, by reason.", "Requests refused, by reason."
        lasting = "For how long each state was the present one."
        switched = "How often each state became that."
        unlike = "Deviations by which a channel is not as in training."
        present = {state: float(state == counts.state) for state in counts.seconds}
        labelled: tuple[tuple[Any, str, str, str, Mapping[str, float]], ...] = (
            (counter, "mlat_unknown", "reason", unknown, counts.unknown),
            (counter, "mlat_requests_refused", "reason", refused, counts.refused),
            (counter, "mlat_state_seconds", "state", lasting, counts.seconds),
            (counter, "mlat_state_switches", "state", switched, counts.switches),
            (gauge, "mlat_state", "state", "1 for the present state.", present),
            (gauge, "mlat_drift", "channel", unlike, drift or {}),
        )
        for kind, name, label, about, by_label in labelled:
            family = kind(name, about, labels=[label])
            for entry, n in sorted(by_label.items()):
                family.add_metric([entry or UNKNOWN], n)
            yield family
        nearest = "Distance from the last window to the nearest reference."
        for name, about, figure in (
            ("mlat_distance", nearest, None if math.isnan(counts.distance) else counts.distance),
            ("mlat_clients", "Pages watching.", clients),
            ("mlat_last_step_age_seconds", "Seconds since the last step.", age),
        ):
            if figure is not None:
                yield gauge(name, about, figure)
        bounds = [*map(str, LAG_BOUNDS), "+Inf"]
        yield HistogramMetricFamily(
            "mlat_lag_seconds",
            "Seconds from a step's arrival to its prediction.",
            buckets=list(zip(bounds, accumulate(counts.lags), strict=True)),
            sum_value=counts.total_lag,
        )

    return generate_latest(cast(Any, SimpleNamespace(collect=families))).decode()
