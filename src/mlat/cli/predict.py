"""``mlat predict``: a state for every step of a stream.

Short gaps are filled on wish, and steps without a state are counted and told.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..base.checks import Floats, Ints
from ..base.disk import atomic_write
from ..base.errors import InputError
from ..classifier.classifier import (
    GAP,
    UNLIKE,
    PiecePredictor,
    Predicted,
    StreamClassifier,
    unlike_beyond,
)
from ..classifier.drift import DriftWatch
from ..classifier.intake import held_values
from ..classifier.model_file import load
from ..explain.confusions import ConfusionCounter
from ..stream.pieces import Pieces
from ..stream.sources import FileFormat, file_format
from ..stream.stream import Stream
from ..stream.write import states_table, write_tables
from .columns import Columns, StreamFile, title_of, with_columns
from .options import Filtered, ModelFile, Seconds, TrueStates, steps_or_seconds
from .output import STATES, check_can_write
from .screen import AsJson, console, print_json, print_score, score_of, working

Fill = Annotated[
    str | None,
    typer.Option(
        metavar="STEPS|TIME|off",
        help="Fill missing values with the last one of the channel, for at most so many steps in a "
        "row, such as 5, or so long, such as 0.1s; default 2, where trying it on complete windows "
        "of the stream hardly changes a state, else off.",
    ),
]
CELLS = 2  # missing in a row, that are filled unasked where that is harmless
HARMLESS = 0.99  # of the states stay the same, where cells are hidden and filled
MANY = 0.1  # of the steps: lost to gaps in time
NAMED = 3  # channels that are not as in training
LEAST_TRIED, MOST_TRIED = 50, 5000  # windows with a hidden cell; steps that are tried


@with_columns
def predict(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
    out: Path | None = None,
    label: TrueStates = None,
    filtered: Filtered = False,
    confidence: bool = False,
    fill: Fill = None,
    as_json: AsJson = False,
) -> None:
    """Predict the state of every step, from the window that ends there.

    A step without a complete window gets none; how many, and why, goes to standard error, and with
    --label the score. The stream may be larger than memory.

    Parameters
    ----------
    out : OUT
        Where to write the states: .csv, .tsv (also .gz) or .parquet; default CSV on standard
        output.
    confidence
        Add how probable each state is, as a column.
    """
    to_screen = out is None or str(out) == "-"
    if as_json and to_screen:
        raise InputError("--json goes with -o OUT: the states would be on standard output, too")
    if out is not None and not to_screen:
        file_format(out)
        check_can_write(out, model, stream, mark=STATES)
    classifier = load(model)
    with contextlib.ExitStack() as stack:
        with working(f"reading {title_of(stream)}"):
            pieces = stack.enter_context(columns.pieces_for_model(classifier, model, stream, label))
        target = stack.enter_context(
            _to_screen() if out is None or to_screen else atomic_write(out)
        )
        form = FileFormat(",") if out is None or to_screen else file_format(out)
        predictions = Predictions(classifier, pieces, filtered=filtered, fill=fill)
        counter, labelled = ConfusionCounter(classifier.classes_), len(pieces.classes) > 0
        named = [classifier.classes_, pieces.classes]
        named += [] if pieces.recordings is None else [pieces.recordings]
        texts = [text for names in named if names.dtype.kind == "U" for text in names.tolist()]
        nobody = classifier.unknown_ if confidence else None
        with working("predicting"):
            write_tables(target, form, _tables(predictions, counter, nobody, labelled), texts)
    found = counter.found() if labelled else None
    if as_json:
        print_json(
            {
                "model": str(model),
                "stream": str(stream),
                "out": str(out),
                "prediction": predictions.as_dict(),
                "score": score_of(found) if found is not None and found.n_judged else None,
            }
        )
        return
    if words := predictions.words():
        print(f"mlat: {title_of(stream)}: {words}", file=sys.stderr)
    if found is None:
        return
    if found.n_judged:
        print_score(console(stderr=True), found, classifier.classes_)
        return
    console(stderr=True).print(
        f"No score: no labelled step ends a complete window of {classifier.width_} steps."
    )


def _tables(
    predictions: Predictions, counter: ConfusionCounter, nobody: Any, labelled: bool
) -> Iterator[Any]:
    """The rows to write of each piece, which is counted on the way.

    With the confidence in all states but ``nobody``, if that is given.
    """
    first = 0
    for piece, (states, proba, complete, *_) in predictions:
        extra = {}
        if nobody is not None:
            extra["confidence"] = np.where(states == nobody, np.nan, proba.max(axis=1))
        counter.add(piece.states, states, complete, piece.recordings)
        yield states_table(piece, states, extra, with_states=labelled, first=first)
        first += len(piece)


@contextlib.contextmanager
def _to_screen() -> Iterator[Path]:
    """A file whose content goes to standard output, if the block succeeds: all of it or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "states.csv")
        yield file
        sys.stdout.flush()
        with file.open("rb") as states:
            shutil.copyfileobj(states, sys.stdout.buffer)
        sys.stdout.buffer.flush()


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
        # 0 fills nothing; None is settled at the first value that is missing
        self._fill: int | Seconds | None = 0
        if fill != "off":
            self._fill = None if fill is None else steps_or_seconds(fill, "--fill")
        self._unchanged: float | None = None  # of the states, where cells were hidden and filled
        self._n_steps = self._n_first = self._n_far = self._n_filled = self._n_unlike = 0
        self._longest_part = self._longest_gap = self._open_gap = self._n_gaps = 0
        self._after_missing = np.zeros(classifier.n_channels_, np.int64)
        self._drift = DriftWatch(classifier)

    def __iter__(self) -> Iterator[tuple[Stream, Predicted]]:
        classifier, n_steps = self._classifier, self._pieces.n_steps
        predictor = PiecePredictor(classifier, filtered=self._filtered, n_steps=n_steps)
        for piece in self._pieces if self._fill == 0 else self._filled():
            predicted = predictor.push(piece.with_channels(classifier.channels_))
            self._drift.push(piece.values)
            self._count(piece, predicted)
            yield piece, predicted

    def _filled(self) -> Iterator[Stream]:
        """The pieces, with short gaps filled by the policy "hold" of a live session."""
        hold, memory = 0, _nothing_held(self._classifier.n_channels_)
        pieces, head, n_first = iter(self._pieces), list[Stream](), 0
        # It is tried on the first steps, however the stream is cut into pieces.
        while (
            self._fill is None
            and n_first < MOST_TRIED
            and (piece := next(pieces, None)) is not None
        ):
            head.append(piece)
            n_first += len(piece)
        before = None
        for piece in chain(head, pieces):
            if self._fill is None and piece.missing.any():
                self._fill = self._fill_unasked(reduce(Stream.followed_by, head))
                if before is not None:
                    _hold(memory, before, self._fill)
            before = piece
            most = self._fill or 0
            if isinstance(most, Seconds):
                step = piece.usual_step or self._classifier.usual_step_
                most = hold = hold or most.steps(step, "--fill")
            filled, n = _hold(memory, piece, most)
            self._n_filled += n
            yield filled

    def _fill_unasked(self, piece: Stream) -> int:
        """How many cells in a row are filled: some, if hiding others hardly changes a state."""
        classifier, width = self._classifier, self._classifier.width_
        piece = piece[:MOST_TRIED].with_channels(classifier.channels_)
        before = PiecePredictor(classifier).push(piece)
        hidden = piece[:]
        hidden.values = np.array(piece.values, dtype=np.float64)
        places = np.flatnonzero(before.complete)[:: 2 * width]
        channels = np.random.default_rng(0).integers(0, piece.n_channels, len(places))
        spoiled = np.zeros(len(piece), dtype=bool)
        for place, channel in zip(places.tolist(), channels.tolist(), strict=True):
            hidden.values[place : place + CELLS, channel] = np.nan
            spoiled[place : place + width] = True
        filled = _hold(_nothing_held(piece.n_channels), hidden, CELLS)[0]
        after = PiecePredictor(classifier).push(filled)
        tried = before.complete & after.complete & spoiled
        if tried.sum() < LEAST_TRIED:
            return 0
        self._unchanged = float((before.states == after.states)[tried].mean())
        return CELLS if self._unchanged >= HARMLESS else 0

    def _count(self, piece: Stream, predicted: Predicted) -> None:
        by, width = predicted.broken_by, self._classifier.width_
        is_unknown = predicted.states == self._classifier.unknown_
        self._n_steps += len(piece)
        self._n_first += int((by == GAP).sum())
        if piece.time is not None:
            within = piece.gap_before[1:]
            if piece.recordings is not None:
                within = within & (piece.recordings[1:] == piece.recordings[:-1])
            self._n_gaps += int(within.sum())
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
            if self._longest_gap and not (self._fill and self._unchanged is None):
                longest = self._longest_gap + int(self._fill or 0)
                remedy = f"; --fill {longest} fills gaps of at most so many steps"
        many_gaps = self._n_gaps and self._n_first > MANY * self._n_steps
        if not remedy and (many_gaps or (n_missing and self._longest_part < width)):
            remedy = (
                "; --rate HZ resamples an irregular time, or sensors with rates of their own, "
                "across gaps of at most --max-gap"
            )
        if self._n_far:
            why.append(f"{self._n_far} unlike anything the model knows")
        said = [f"{_steps(self._n_filled)} filled"] if self._n_filled else []
        if self._n_filled and self._unchanged is not None:
            said[0] += (
                f" (at most {CELLS} in a row; where it was tried on complete windows "
                f"{self._unchanged:.1%} of the states stayed the same; --fill off fills none)"
            )
        if why:
            lost = f"{self.n_lost} of {_steps(self._n_steps)} have no prediction"
            said.append(f"{lost}: {', '.join(why)}{remedy}")
        if self._n_unlike:
            said.append(
                f"{_steps(self._n_unlike)} named although unlike anything the model knows, more "
                f"than {UNLIKE:g} times as far from every reference as is usual: perhaps a state, "
                "a person or a place of the sensors that it never saw"
            )
        if drifts := self._drift.found():
            more = f" (and {len(drifts) - NAMED} more channels)" if len(drifts) > NAMED else ""
            said.append(
                f"not as in training: {', '.join(map(str, drifts[:NAMED]))}{more}; if a sensor "
                "sits otherwise or it is somebody new, label a few seconds for mlat enrol"
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
            "drift": [one._asdict() for one in self._drift.found()],
        }


def _steps(n: int) -> str:
    return f"{n} step{'' if n == 1 else 's'}"


def _nothing_held(n_channels: int) -> tuple[Floats, Ints]:
    """The last value of each channel, and for how many steps it has been missing, at first."""
    return np.full(n_channels, np.nan), np.zeros(n_channels, np.int64)


def _hold(held: tuple[Floats, Ints], piece: Stream, most: int) -> tuple[Stream, int]:
    """A piece with the last value of each channel for at most so many steps; how many it is for."""
    if not most:
        return piece, 0
    filled, values = piece[:], np.asarray(piece.values, dtype=np.float64)
    filled.values = held_values(values, piece.gap_before, most, *held)
    return filled, int((piece.missing & ~np.isnan(filled.values).any(axis=1)).sum())
