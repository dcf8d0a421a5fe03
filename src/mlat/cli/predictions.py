"""Predicting a file: short gaps are filled on wish, and steps without a state counted and told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

from ..classifier.classifier import StreamClassifier
from ..classifier.pieces import GAP, UNLIKE, PiecePredictor, Predicted, unlike_beyond
from ..stream.pieces import Pieces
from ..stream.stream import Stream
from .options import Seconds, steps_or_seconds

Fill = Annotated[
    str | None,
    typer.Option(
        metavar="STEPS|TIME",
        help="Fill missing values with the last one of the channel, for at most so many steps in a "
        "row, such as 5, or so long, such as 0.1s; default none is filled.",
    ),
]


class Predictions:
    """The pieces of a stream, each with what is predicted for it.

    Parameters
    ----------
    classifier : fitted StreamClassifier
    pieces : Pieces
    filtered : bool
        Apply the state filter.
    fill : str, optional
        As the option ``--fill``.
    """

    def __init__(
        self, classifier: StreamClassifier, pieces: Pieces, *, filtered: bool, fill: str | None
    ) -> None:
        self._classifier, self._pieces, self._filtered = classifier, pieces, filtered
        self._fill = None if fill is None else steps_or_seconds(fill, "--fill")
        self._n_steps = self._n_first = self._n_far = self._n_filled = self._n_unlike = 0
        self._longest_part = self._longest_gap = self._open_gap = 0
        self._after_missing = np.zeros(classifier.n_channels_, np.int64)

    def __iter__(self) -> Iterator[tuple[Stream, Predicted]]:
        classifier, n_steps = self._classifier, self._pieces.n_steps
        predictor = PiecePredictor(classifier, filtered=self._filtered, n_steps=n_steps)
        for piece in self._pieces if self._fill is None else self._filled(self._fill):
            predicted = predictor.push(piece.with_channels(classifier.channels_))
            self._count(piece, predicted)
            yield piece, predicted

    def _filled(self, most: int | Seconds) -> Iterator[Stream]:
        """The pieces, with short gaps filled by the policy "hold" of a live session."""
        from ..classifier.intake import held_values

        n_channels, hold = self._classifier.n_channels_, 0
        last, missing_for = np.full(n_channels, np.nan), np.zeros(n_channels, np.int64)
        for piece in self._pieces:
            step = piece.usual_step or self._classifier.usual_step_
            hold = hold or (most.steps(step, "--fill") if isinstance(most, Seconds) else most)
            values = np.asarray(piece.values, dtype=np.float64)
            filled = piece[:]
            filled.values = held_values(values, piece.gap_before, hold, last, missing_for)
            whole = ~np.isnan(filled.values).any(axis=1)
            self._n_filled += int((whole & piece.missing).sum())
            yield filled

    def _count(self, piece: Stream, predicted: Predicted) -> None:
        by, width = predicted.broken_by, self._classifier.width_
        is_unknown = predicted.states == self._classifier.unknown_
        self._n_steps += len(piece)
        self._n_first += int((by == GAP).sum())
        self._after_missing += np.bincount(by[by >= 0], minlength=len(self._after_missing))
        self._n_far += int((predicted.complete & is_unknown).sum())
        farther = predicted.distance > unlike_beyond(self._classifier)
        # Not at a switch, where a window holds two states.
        lengths = np.diff(
            np.flatnonzero(np.diff(farther & ~is_unknown, prepend=False, append=False))
        )
        self._n_unlike += int(lengths[::2][lengths[::2] > width].sum())
        self._longest_part = max(self._longest_part, int(predicted.since.max(initial=0)))
        missing = np.append(np.ones(self._open_gap, dtype=bool), piece.missing)
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        gaps = np.minimum(edges[1::2] - edges[::2], width)
        self._open_gap = int(gaps[-1]) if missing[-1:].any() else 0
        self._longest_gap = max(self._longest_gap, int(gaps[gaps < width].max(initial=0)))

    @property
    def n_lost(self) -> int:
        """Steps without a prediction."""
        return self._n_first + int(self._after_missing.sum()) + self._n_far

    def words(self) -> str:
        """How many steps have no prediction and why, and what was filled; empty for neither."""
        width, why, remedy = self._classifier.width_, [], ""
        if self._longest_part < width:
            why.append(
                f"no part of the stream has a full window of {width} steps, the longest has "
                f"{self._longest_part}"
            )
        elif self._n_first:
            why.append(
                f"{self._n_first} before the first full window of {width} steps of a recording or "
                "after a gap in time"
            )
        if n_missing := int(self._after_missing.sum()):
            worst = np.argsort(-self._after_missing, kind="stable")[
                : np.sum(self._after_missing > 0)
            ]
            named = [f"{self._classifier.channels_[c]} {self._after_missing[c]}" for c in worst[:5]]
            named += [f"{len(worst) - 5} more"] if len(worst) > 5 else []
            why.append(f"{n_missing} with a missing value in their window ({', '.join(named)})")
            if self._longest_gap and self._fill is None:
                remedy = f"; --fill {self._longest_gap} fills gaps of at most so many steps"
        if self._n_far:
            why.append(f"{self._n_far} unlike anything the model knows")
        said = [f"{_steps(self._n_filled)} filled"] if self._n_filled else []
        if why:
            lost = f"{self.n_lost} of {_steps(self._n_steps)} have no prediction"
            said.append(f"{lost}: {', '.join(why)}{remedy}")
        if self._n_unlike:
            said.append(
                f"{_steps(self._n_unlike)} named although unlike anything the model knows, more "
                f"than {UNLIKE:g} times as far from every reference as is usual: perhaps a state "
                "that it never saw"
            )
        return "; ".join(said)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "n_steps": self._n_steps,
            "n_filled": self._n_filled,
            "n_without_prediction": self.n_lost,
            "before_the_first_window": self._n_first,
            "missing_value_by_channel": dict(
                zip(self._classifier.channels_, self._after_missing.tolist(), strict=True)
            ),
            "unlike_all_references": self._n_far,
            "named_although_unlike": self._n_unlike,
        }


def _steps(n: int) -> str:
    return f"{n} step{'' if n == 1 else 's'}"
