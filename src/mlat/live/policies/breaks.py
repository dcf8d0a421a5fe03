"""Where the accepted steps of a chunk fall apart into stretches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .missing import Settled

Ints = NDArray[np.int64]


def pieces(
    anew: bool, settled: Settled, dead: Ints | None
) -> Iterator[tuple[int, int, bool, bool]]:
    """Stretches ``[begin, end)`` of accepted steps, whether they start anew or are broken.

    A broken one is a single step without a value, or with a dead channel.

    Parameters
    ----------
    anew : bool
        Whether nothing that could be continued comes before the first step.
    settled : Settled
    dead : array of shape (n,), optional
        A dead channel at each step, or -1.
    """
    n = len(settled.values)
    if dead is None and settled.unbroken:
        yield 0, n, anew, False
        return
    broken = settled.missing.copy()
    if dead is not None:
        broken |= dead >= 0
    starts = settled.gap.copy()
    starts[0] |= anew
    starts[1:] |= broken[:-1]
    edges = np.flatnonzero(starts | broken)
    edges = edges if len(edges) and edges[0] == 0 else np.append(0, edges)
    for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), n], strict=True):
        yield begin, end, bool(starts[begin] and not broken[begin]), bool(broken[begin])
