"""How far back lifts may look."""

from __future__ import annotations

import numpy as np

from ..stream import Stream

STEPS = 100
# The share of a run for which, after a switch, a lift still looks back into the state before. The
# windows that judge never lie across a switch, so this lag must be bounded beforehand.
SHARE_OF_RUN = 1 / 5


def longest_reach(width: int) -> int:
    """100 steps, or two widths where that is more."""
    return max(STEPS, 2 * width)


def default_reach(stream: Stream, width: int) -> int:
    """The longest, but no more than a fifth of the usual run, or the width if that is more."""
    return max(1, min(longest_reach(width), max(width, int(SHARE_OF_RUN * run_length(stream)))))


def run_length(stream: Stream) -> float:
    """The median length of the runs of a labelled stream; a missing value does not end one."""
    ends = np.flatnonzero(stream._gap_before[1:] | (np.diff(stream.codes) != 0)) + 1
    begins = np.concatenate([[0], ends])
    lengths = np.diff(np.append(begins, len(stream)))
    labelled = stream.codes[begins] >= 0
    return float(np.median(lengths[labelled])) if labelled.any() else 0.0
