"""Enrolment: the references of a new person, placement or day, under what was learned of others.

Kept are the scaling and the maps of the channels, what each expert sees, the whitening, the
metrics, the weights and typical distances of a committee, the calibration, and how states follow
each other. Taken anew are the references, and the threshold of the unknown state, which depends on
how dense they are. docs/how-to/enrol.md has what was tried, leaving one development person out:
scaling or whitening by the few new steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..neighbours.references import References
from ..stream.stream import Stream
from ..stream.windows import Windows, sliding_windows
from .committee import last_steps


def enrolled_experts(experts: Sequence[References], stream: Stream, step: int) -> list[References]:
    """The same experts with every ``step``-th window of a labelled stream as their references."""
    width = max(expert.windows.width for expert in experts)
    return experts_with(experts, sliding_windows(stream, width, step=step))


def experts_with(experts: Sequence[References], windows: Windows) -> list[References]:
    """The same experts with other references, windows of the widest expert's width."""
    widest = max(experts, key=lambda expert: expert.windows.width)
    plain = widest.features.of_runs(windows)
    return [
        References(
            last_steps(windows, expert.windows.width),
            widest.features,
            expert.metric,
            plain,
            expert.view,
        )
        for expert in experts
    ]
