"""Predicting a file: short gaps are filled on wish, and steps without a state counted and told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.pieces import GAP, PiecePredictor, Predicted
from ..stream.pieces import Pieces
from ..stream.stream import Stream

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
        self._fill = None if fill is None else _parse_fill(fill)
        self._n_steps = self._n_first = self._n_far = self._n_filled = 0
        self._longest_part = self._longest_gap = self._open_gap = 0
        self._after_missing = np.zeros(classifier.n_channels_, np.int64)

    def __iter__(self) -> Iterator[tuple[Stream, Predicted]]:
        classifier, n_steps = self._classifier, self._pieces.n_steps
        predictor = PiecePredictor(classifier, filtered=self._filtered, n_steps=n_steps)
        for piece in self._pieces if self._fill is None else self._filled(*self._fill):
            predicted = predictor.push(piece.with_channels(classifier.channels_))
            self._count(piece, predicted)
            yield piece, predicted

    def _filled(self, amount: float, in_seconds: bool) -> Iterator[Stream]:
        """The pieces, with short gaps filled by the policy "hold" of a live session."""
        from ..live.core.missing import Held, fill_missing
        from ..live.core.options import LiveOptions
        from ..live.core.steps import Counters

        held, counters, hold = Held.start(self._classifier.n_channels_), Counters(), 0
        for piece in self._pieces:
            step = piece.usual_step or self._classifier.usual_step_
            hold = hold or _n_steps(amount, in_seconds, step)
            options = LiveOptions(missing="hold", hold=hold)
            values = np.asarray(piece.values, dtype=np.float64)
            filled = piece[:]
            filled.values = fill_missing(held, values, piece.gap_before, options, counters).values
            self._n_filled = counters["held"]
            yield filled

    def _count(self, piece: Stream, predicted: Predicted) -> None:
        by, width = predicted.broken_by, self._classifier.width_
        is_unknown = predicted.states == self._classifier.unknown_
        self._n_steps += len(piece)
        self._n_first += int((by == GAP).sum())
        self._after_missing += np.bincount(by[by >= 0], minlength=len(self._after_missing))
        self._n_far += int((predicted.complete & is_unknown).sum())
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
        }


def _steps(n: int) -> str:
    return f"{n} step{'' if n == 1 else 's'}"


def _parse_fill(fill: str) -> tuple[float, bool]:
    """A number, and whether it is of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s?)", fill.strip(), re.ASCII)
    amount = 0.0 if found is None else float(found[1])
    in_seconds = found is not None and found[2] == "s"
    if not amount or not (in_seconds or amount.is_integer()):
        raise InputError(f"--fill must be steps or seconds, such as 5 or 0.1s, not {fill!r}")
    return amount, in_seconds


def _n_steps(amount: float, in_seconds: bool, step: float | None) -> int:
    if not in_seconds:
        return int(amount)
    if step is None:
        raise InputError(
            f"--fill {amount:g}s: nothing says how long a step is; name the column of time "
            "(--time), or give a number of steps"
        )
    if amount < step:
        raise InputError(f"--fill {amount:g}s is shorter than a step, which is {step:g} s")
    return int(amount / step + 1e-6)
