"""What happened so far, counted, and as Prometheus reads it.

The text format is small enough to be written here; the tests read it with Prometheus's own parser.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.steps import Prediction


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds

# What a session counts, as it names it, and what Prometheus is told.
_SESSION = {
    "late": ("mlat_late_total", "Steps that came after their place was given up."),
    "duplicate": ("mlat_duplicates_total", "Steps that had come before."),
    "rejected": ("mlat_rejected_total", "Steps refused for a missing value."),
    "held": ("mlat_held_total", "Missing values replaced by the last one."),
    "gaps": ("mlat_gaps_total", "Gaps after which a window began anew."),
}

Sample = tuple[str, Mapping[str, str], float]


class Histogram:
    """How often a value fell below each bound.

    Parameters
    ----------
    bounds : increasing numbers
    """

    def __init__(self, bounds: Sequence[float] = LAG_BOUNDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def samples(self, name: str) -> list[Sample]:
        seen, samples = 0, []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            seen += count
            samples.append((f"{name}_bucket", {"le": bound}, float(seen)))
        return [*samples, (f"{name}_sum", {}, self.total), (f"{name}_count", {}, float(seen))]


class Counts:
    """Everything that is counted while a stream is watched.

    Attributes
    ----------
    steps, frames, dropped, taught : int
        Steps with a prediction, frames made, frames dropped for slow pages, windows taught.
    unknown : Counter
        Steps without a state, by reason; which channel is dead is no part of the reason.
    source_refused : int
        What came from the source and was no step.
    refused : Counter
        Requests that were refused, by reason.
    lag : Histogram
        Seconds from a step's arrival to its prediction.
    """

    def __init__(self) -> None:
        self.steps = self.frames = self.dropped = self.taught = self.source_refused = 0
        self.unknown: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.lag = Histogram()

    def add(self, predictions: Sequence[Prediction], lag: float) -> None:
        self.steps += len(predictions)
        for p in predictions:
            if p.why:
                self.unknown[reason(p.why)] += 1
        if lag >= 0:  # a NaN or a clock that was set back tells nothing
            self.lag.observe(lag, len(predictions))


def reason(why: str) -> str:
    """Why a step is unknown, in a few fixed words: a label for every channel would be many."""
    return "dead channel" if why.startswith("dead channel") else why


def exposition(
    counts: Counts, session: Mapping[str, int], *, clients: int, age: float | None
) -> str:
    """All figures in Prometheus's text format, version 0.0.4.

    Parameters
    ----------
    counts : Counts
    session : mapping
        The session's own counters.
    clients : int
        Pages that are watching.
    age : float or None
        Seconds since the last step.
    """
    single = [
        ("mlat_steps_total", "Steps with a prediction.", counts.steps),
        ("mlat_frames_total", "Frames made for pages.", counts.frames),
        ("mlat_frames_dropped_total", "Frames dropped for slow pages.", counts.dropped),
        ("mlat_taught_total", "Windows taught from the page.", counts.taught),
        ("mlat_source_refused_total", "Messages that were no step.", counts.source_refused),
        *((name, about, session.get(key, 0)) for key, (name, about) in _SESSION.items()),
    ]
    lines = [
        line
        for name, about, value in single
        for line in _family(name, "counter", about, [(name, {}, float(value))])
    ]
    for name, about, by_reason in (
        ("mlat_unknown_total", "Steps without a state, by reason.", counts.unknown),
        ("mlat_requests_refused_total", "Requests refused, by reason.", counts.refused),
    ):
        samples = [(name, {"reason": why}, float(n)) for why, n in sorted(by_reason.items())]
        lines += _family(name, "counter", about, samples)
    lines += _family("mlat_clients", "gauge", "Pages watching.", [("mlat_clients", {}, clients)])
    if age is not None:
        name = "mlat_last_step_age_seconds"
        lines += _family(name, "gauge", "Seconds since the last step.", [(name, {}, age)])
    name = "mlat_lag_seconds"
    about = "Seconds from a step's arrival to its prediction."
    lines += _family(name, "histogram", about, counts.lag.samples(name))
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for sample, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{sample}{{{inside}}} {value!r}" if inside else f"{sample} {value!r}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
