"""The options that say which column of a file is what, for every command that reads a stream."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..label.label_table import only_of, read_spans, with_spans
from ..stream.pieces import Pieces, StreamPieces, read_pieces
from ..stream.read import read_channels, read_stream
from ..stream.stream import Stream
from .options import Options, in_flags, with_options

KINDS = (
    "One row per step: a file (.csv, .tsv, .parquet, .feather, .npy, .mat, .edf, .xdf, …), a "
    'folder or a pattern ("*.csv") of recordings, or - for standard input.'
)
StreamFile = Annotated[
    Path, typer.Argument(metavar="STREAM", help=KINDS, show_default=False, allow_dash=True)
]
StreamFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="STREAM…",
        help=f"{KINDS} Each of several is a recording.",
        show_default=False,
        allow_dash=True,
    ),
]
LabelTable = Annotated[
    Path | None,
    typer.Option(
        metavar="LABELS",
        help="Table of labelled spans (start, end, state; and recording where there are several), "
        "instead of a column of states, or over it.",
        show_default=False,
    ),
]


class Columns:
    """Which column is what, as given by the options of ``COLUMNS``."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._channels: list[str] | None = given.pop("channels", None)
        if given.get("sep") == "\\t":
            given["sep"] = "\t"
        self._given = given
        self.rate: float | None = given.get("rate")

    def read(self, files: Path | list[Path], label: str | None, **more: Any) -> Stream:
        """Read the stream in a file, or in several; as :func:`read_stream` does with ``more``."""
        return self._read(partial(read_stream, **more), files, label, self._channels)

    def read_for_model(
        self,
        classifier: StreamClassifier,
        model: Path,
        file: Path | list[Path],
        label: str | None,
        labels: Path | None = None,
    ) -> Stream:
        """Read the stream in a file, with the channels of the model in the file ``model``."""
        names = self._own_channels(classifier, model)
        if names:
            stream = self.read(file, label).with_channels(classifier.channels_)
        else:
            stream = self._read(read_channels, file, label, classifier.channels_)
        stream = labelled_by(stream, file, labels)
        _check_kind(classifier, stream, file, label, labels)
        return stream

    @contextmanager
    def pieces_for_model(
        self,
        classifier: StreamClassifier,
        model: Path,
        file: Path,
        label: str | None,
        labels: Path | None = None,
    ) -> Iterator[Pieces]:
        """The same in pieces, so that memory does not grow with the file.

        Not with a table of spans, which are of the whole recording.
        """
        if labels is not None:
            yield StreamPieces(self.read_for_model(classifier, model, file, label, labels))
            return
        names = self._own_channels(classifier, model)
        with standard_input(file) as there:
            pieces = read_pieces(
                there, names or classifier.channels_, named=bool(names), label=label, **self._given
            )
            self._print_notes(file, pieces.notes)
            _check_kind(classifier, pieces, file, label, None)
            yield pieces

    def _own_channels(self, classifier: StreamClassifier, model: Path) -> list[str] | None:
        names = self._channels
        if names is not None and len(names) != classifier.n_channels_:
            raise InputError(
                f"--channels names {len(names)} columns, but {model} was learned on "
                f"{classifier.n_channels_} channels: {', '.join(classifier.channels_)}"
            )
        return names

    def _read(
        self,
        reader: Callable[..., Stream],
        files: Path | list[Path],
        label: str | None,
        channels: Sequence[str] | None,
    ) -> Stream:
        file = files[0] if isinstance(files, list) and len(files) == 1 else files
        with standard_input(file) as there:
            stream = reader(there, channels=channels, label=label, **self._given)
        self._print_notes(files, stream.notes)
        return stream

    def _print_notes(self, files: Path | list[Path], notes: Sequence[str]) -> None:
        for note in notes:
            said = in_flags(note, COLUMNS.names.split())
            print(f"mlat: {title_of(files)}: {said}", file=sys.stderr)


def _check_kind(
    classifier: StreamClassifier,
    read: Stream | Pieces,
    file: Path | list[Path],
    label: str | None,
    labels: Path | None,
) -> None:
    """Refuse states that are names where the model's are numbers, or the other way round."""
    if len(read.classes) and read.no_state != classifier.unknown_:
        place = f"{title_of(file)}: column {label!r}" if labels is None else f"{labels}: it"
        kind = "names" if classifier.unknown_ == "" else "numbers"
        known = ", ".join(str(state) for state in classifier.classes_[:10])
        raise InputError(
            f"{place} holds states such as {read.classes[0]!s}, but the model's states are {kind}: "
            f"{known}; write both in the same way"
        )


def check_labelled(label: str | None, labels: Path | None) -> None:
    """Refuse a command that is told nothing of the states."""
    if label is None and labels is None:
        raise InputError(
            "nothing says which states there are; name their column (--label COL) or a table of "
            "labelled spans (--labels LABELS)"
        )


def labelled_by(stream: Stream, files: Path | list[Path], labels: Path | None) -> Stream:
    """The stream with the states of a table of spans, if one is given, over those it has."""
    if labels is None:
        return stream
    file = files[0] if isinstance(files, list) and len(files) == 1 else files
    name = "" if isinstance(file, list) else file.name
    spans = read_spans(labels, stream, name=name)
    used = only_of(spans, stream, name=name)
    others = sorted({span.recording for span in spans} - {span.recording for span in used})
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        print(
            f"mlat: {labels}: labels of recordings that were not read are ignored: "
            f"{', '.join(others[:5])}{more}",
            file=sys.stderr,
        )
    return with_spans(stream, used, name=name, keep=True)


def title_of(files: Path | list[Path]) -> str:
    """The name of a file or of several, for a message."""
    if isinstance(files, list):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        return f"{title_of(files[0])}{more}"
    return "standard input" if str(files) == "-" else files.name


@contextmanager
def standard_input(file: Path | list[Path]) -> Iterator[Path | list[Path]]:
    """Where ``-`` can be read as a file; anything else unchanged."""
    if str(file) != "-":
        yield file
        return
    # Readers go back in a file; standard input does not.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard-input")
        with copy.open("wb") as target:
            shutil.copyfileobj(sys.stdin.buffer, target)
        with copy.open("rb") as source:
            magic = source.read(4)
        suffix = {b"PAR1": ".parquet", b"ARRO": ".arrow"}.get(magic, ".csv")
        named = copy.rename(copy.with_suffix(suffix))
        try:
            yield named
        except InputError as error:
            raise InputError(str(error).replace(str(named), "standard input")) from None


COLUMNS = Options(
    read_stream,
    "recording time max_gap rate between channels unlabelled sep decimal",
    metavars={
        **dict.fromkeys(("recording", "time"), "COL"),
        **dict.fromkeys(("sep", "decimal"), "CHAR"),
        "max_gap": "TIME",
        "rate": "HZ",
        "channels": "A,B,C",
        "unlabelled": "VALUE",
    },
    several=("channels", "unlabelled"),
    words={
        "channels": "Columns of the channels, in order; default those that the model was learned "
        "on, for mlat fit all that are left and are no time, recording or row number."
    },
    make=Columns,
)
with_columns = with_options(columns=COLUMNS)
