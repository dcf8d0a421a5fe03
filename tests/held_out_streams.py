"""Distances in synthetic streams: of training windows, their own time held out, and of new ones."""

from dataclasses import dataclass

import numpy as np

from mlat.classifier.held_out import held_out_gap, rows_nearby, time_blocks
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import sliding_windows
from mlat.synthetic import rotating_states

TURNS = {"backwards": -0.11, "forwards": 0.11, "still": 0.0}
WIDTH = 16


@dataclass(frozen=True)
class Learned:
    """The references of a stream, and the distances among them with their own time held out."""

    search: ClassDistances
    held_out: np.ndarray
    codes: np.ndarray
    blocks: np.ndarray

    def nearest(self, stream):
        """The distances at every step of another stream; NaN before the first window."""
        windows = sliding_windows(stream, WIDTH, labelled=False)
        result = np.full((len(stream), len(TURNS)), np.nan)
        result[windows.start + WIDTH - 1] = self.search.query(flat(windows.X))
        return result


def flat(X):
    return X.reshape(len(X), -1)


def turning(seed, turns=TURNS, **options):
    return rotating_states(turns, random_state=seed, **{"noise": 0.5, **options})


def learn(train):
    windows = sliding_windows(train, WIDTH)
    codes = np.searchsorted(sorted(TURNS), windows.y)
    search = ClassDistances(flat(windows.X), codes, len(TURNS))
    gap = held_out_gap(windows.start, codes, WIDTH)
    held_out = search.query(flat(windows.X), exclude=rows_nearby(windows.start, codes, gap))
    return Learned(search, held_out, codes, time_blocks(windows.start, codes, 2 * WIDTH))
