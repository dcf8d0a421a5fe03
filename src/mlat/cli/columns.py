"""The options that say which column of a file is what, for every command that reads a stream."""

from __future__ import annotations

import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from numpy.typing import NDArray

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..label.label_table import only_of, read_spans, with_spans
from ..stream.pieces import Pieces, cut_stream, read_pieces
from ..stream.read import read_channels, read_stream
from ..stream.stream import Stream

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
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that mlat fit wrote.", show_default=False)
]
Label = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of states.", show_default=False)
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
Filtered = Annotated[
    bool,
    typer.Option(
        "--filtered", help="Filter the states over time: steadier, and later at a switch."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Work on this device of PyTorch, such as cuda; default the processor.",
    ),
]


@dataclass(frozen=True)
class Columns:
    """Which column is what. A command takes these options by :func:`with_columns`."""

    recording: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Column that says which recording a step belongs to; default by its name.",
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of time: numbers or dates; default by its name."),
    ] = None
    max_gap: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            help="The longest time between two steps that is not a gap, in seconds for dates; "
            "default 1.5 times the median.",
        ),
    ] = None
    channels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,C",
            help="Columns of the channels, in order; default those that the model was learned "
            "on, for mlat fit all that are left and are no time, recording or row number.",
        ),
    ] = None
    unlabelled: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE", help="Entry of the label column that means no state; repeatable."
        ),
    ] = None

    sep: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            help='What separates the fields of a text file, such as ";" or "\\t"; default by its '
            "name.",
        ),
    ] = None
    decimal: Annotated[
        str, typer.Option(metavar="CHAR", help='How decimals are written: "." or ",".')
    ] = "."

    def read(self, files: Path | list[Path], label: str | None, past: int | None = None) -> Stream:
        """Read the stream in a file, or in several; ``past`` is that of :func:`read_stream`."""
        reader = read_stream if past is None else partial(read_stream, past=past)
        return self._read(reader, files, label, split_names(self.channels))

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
        place = _place_of_states(file, label, labels)
        _check_kind(classifier, place, stream.classes, stream.no_state)
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
            yield cut_stream(self.read_for_model(classifier, model, file, label, labels))
            return
        names = self._own_channels(classifier, model)
        with standard_input(file) as there:
            pieces = read_pieces(
                there,
                names or classifier.channels_,
                named=bool(names),
                **self._options(label),
            )
            self._print_notes(file, pieces.notes)
            place = _place_of_states(file, label, None)
            _check_kind(classifier, place, pieces.classes, pieces.no_state)
            yield pieces

    def _own_channels(self, classifier: StreamClassifier, model: Path) -> list[str] | None:
        names = split_names(self.channels)
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
            stream = reader(there, channels=channels, **self._options(label))
        self._print_notes(files, stream.notes)
        return stream

    def _options(self, label: str | None) -> dict[str, Any]:
        return {
            "sep": "\t" if self.sep == "\\t" else self.sep,
            "decimal": self.decimal,
            "label": label,
            "recording": self.recording,
            "time": self.time,
            "unlabelled": self.unlabelled or None,
            "max_gap": self.max_gap,
        }

    def _print_notes(self, files: Path | list[Path], notes: Sequence[str]) -> None:
        for note in notes:
            print(f"mlat: {title_of(files)}: {note}", file=sys.stderr)


def _check_kind(
    classifier: StreamClassifier, place: str, classes: NDArray[Any], no_state: Any
) -> None:
    """Refuse states that are names where the model's are numbers, or the other way round."""
    if len(classes) and no_state != classifier.unknown_:
        kind = "names" if classifier.unknown_ == "" else "numbers"
        known = ", ".join(str(state) for state in classifier.classes_[:10])
        raise InputError(
            f"{place} holds states such as {classes[0]!s}, but the "
            f"model's states are {kind}: {known}; write both in the same way"
        )


def _place_of_states(file: Path | list[Path], label: str | None, labels: Path | None) -> str:
    return f"{title_of(file)}: column {label!r}" if labels is None else f"{labels}: it"


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


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Columns`, which it gets as its parameter ``columns``."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    option_hints = get_type_hints(Columns, include_extras=True)
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=option_hints[field.name],
        )
        for field in fields(Columns)
    ]
    own = [
        # Typer passes everything by name.
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in signature.parameters.items()
        if name != "columns"
    ]
    parameters = [*own, *options]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        command(
            columns=Columns(**{option.name: given.pop(option.name) for option in options}), **given
        )

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def split_names(given: Sequence[str] | None, option: str = "--channels") -> list[str] | None:
    """Names from ``a,b`` or from an option that is repeated."""
    if not given:
        return None
    names = [name.strip() for part in given for name in part.split(",")]
    if "" in names:
        raise InputError(f"{option} {','.join(given)} has an empty name; write them as a,b,c")
    return names
