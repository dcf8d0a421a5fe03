"""Windows for a fit on a cluster: those that are here, on the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..margin_metric import encode_states
from ..stream import Stream
from ..windows import Windows, sliding_windows
from .pieces import Index, Ints, cut_piece


@dataclass(frozen=True, eq=False)
class HereSource:
    """Windows on the client, which sends each part's windows to its worker."""

    windows: Windows
    index: Index

    def piece(self, client: Any, rows: Ints, worker: str) -> Any:
        """A future of the :class:`Piece` of these windows, on that worker."""
        windows = self.windows
        cut = cut_piece(windows.values, self.index.start[rows], windows.width, rows)
        return client.scatter(cut, workers=[worker], hash=False)


def source_of_windows(windows: Windows) -> HereSource:
    """From windows that are here."""
    if not len(windows):
        raise InputError("there are no windows to learn from")
    names, codes = encode_states(windows.y)
    index = Index(
        windows.width,
        int(windows.values.shape[1]),
        names,
        codes,
        np.asarray(windows.start, dtype=np.int64),
        np.asarray(windows.run, dtype=np.int64),
    )
    return HereSource(windows, index)


def source_of_streams(streams: Sequence[Stream], width: int | None, step: int) -> HereSource:
    """From streams that are here, one after the other."""
    if width is None:
        raise InputError("streams need the steps per window: give the metric a width, MLAT(width)")
    return source_of_windows(sliding_windows(Stream.join(streams), width, step=step))
