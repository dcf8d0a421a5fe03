"""CSV and TSV files: Arrow reads them fast, and where it fails the file is read line by line.

The slow reading finds the line and the column at fault, for the error message.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from ..base.errors import DiskError, InputError, NamesError
from .arrow import pa
from .sources import FileFormat

# The remedy for a column that does not hold numbers.
NAME_COLUMNS = "name the columns to use (channels)"
# What Arrow and pandas take for a missing value; also after a space, as in "1, nan".
_MISSING = [*pa.csv.ConvertOptions().null_values]
_MISSING += [f" {text}" for text in _MISSING]
_NUMBER = re.compile(
    r"\s*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity)\s*", re.ASCII | re.IGNORECASE
)
_DAY_FIRST = r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})[ T]*(.*?)\s*$"
_OF_DAY = r"^\s*(\d\d:\d\d:\d\d)"
_LOOKED_AT = 50  # lines, to see how numbers are written
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
_WITH_COMMA = "write decimals with a point, or say that they have a comma (decimal)"
_TEXTS = pa.dictionary(pa.int32(), pa.string())
# The types that Arrow tries for a column, in its order.
_LOOSER = [pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s")]
_LOOSER += [pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")]
_LOOSER += [pa.float64(), pa.string()]


class TextTable:
    """A file with a header line and one line per step.

    ``columns`` are the names in the header, without the spaces around them; of a file without one
    they are numbers. ``notes`` say what was recognised.

    Parameters
    ----------
    path : path
    form : FileFormat
    decimal : "." or ",", optional
        Default by the first lines.
    sep_given : bool, default=False
        The separator is that of ``form``, and is not looked for.
    """

    def __init__(
        self, path: Path, form: FileFormat, decimal: str | None = None, *, sep_given: bool = False
    ) -> None:
        assert form.delimiter is not None
        self.path = path
        self._delimiter, self._decimal = form.delimiter, decimal or "."
        self._compressed = form.compression is not None
        # In a file of one column an empty line is a missing value; elsewhere it is ignored.
        self._keep_empty = False
        self.notes: list[str] = []
        if not sep_given:
            self._recognise_separator()
        if decimal is None:
            self._recognise_decimal()
        lines = self._lines()
        self._header_line, header = next(lines, (0, []))
        if not header:
            raise InputError(f"{path} is empty; it needs a header line and one line per step")
        self._header_end = self._header_line + sum(name.count("\n") for name in header)
        self.columns = tuple(name.strip() for name in header)
        if self._is_step(self.columns):
            self._header_line = self._header_end = 0
            self.columns = tuple(map(str, range(len(header))))
            self.notes.append(
                "there is no header line: columns are named by their numbers, 0 to "
                f"{len(header) - 1}"
            )
        self._check_header()
        self._keep_empty = len(self.columns) == 1
        if self._header_line and next(lines, None) is None:
            raise InputError(f"{path} has a header but no steps; add one line per step")
        lines.close()

    def _recognise_separator(self) -> None:
        """Take what the first line has instead, if it is one column but for decimal commas."""
        usual, line = self._delimiter, self._delimiter.join(next(self._lines(), (0, [""]))[1])
        for other in ";\t|,".replace(usual, ""):
            parts = line.split(other)
            if len(parts) > 1 and all(usual not in p or _DECIMAL_COMMA.fullmatch(p) for p in parts):
                self._delimiter = other
                self.notes.append(f"fields are separated by {self._separator}")
                return

    def _recognise_decimal(self) -> None:
        """Take a comma for the decimal point, if no number of the first lines has a point."""
        rows = itertools.islice(self._lines(), _LOOKED_AT)
        fields = [text for _, row in rows for text in row]
        commas = sum(_DECIMAL_COMMA.fullmatch(text) is not None for text in fields)
        if commas and not any("." in text and _NUMBER.fullmatch(text) for text in fields):
            self._decimal = ","
            self.notes.append("decimals are written with a comma")

    def _is_step(self, names: Sequence[str]) -> bool:
        """Whether a first line has values, not names; pandas' default names are numbers, too."""
        numbers = [name for name in names if self._is_number(name)]
        if len(numbers) == len(names):
            return numbers != [str(i) for i in range(len(names))]
        return any(self._decimal in name for name in numbers)

    def where(self, steps: Sequence[int]) -> str:
        """The lines of some steps, or of the header, as the beginning of an error message."""
        if not steps:
            return f"{self.path}, line {max(self._header_line, 1)}: "
        upto = itertools.islice(self._steps(), max(steps) + 1)
        lines = [str(line) for step, (line, _) in enumerate(upto) if step in steps]
        return f"{self.path}, line{'s' if len(lines) > 1 else ''} {' and '.join(lines)}: "

    def read(self, channels: Sequence[str], roles: Mapping[str, str]) -> dict[str, Any]:
        """Arrow columns by name: channels as floats, label and recording as encoded texts."""
        with self._explained(channels, roles):
            table = pa.csv.read_csv(self._file(), *self._options(channels, roles))
        return self._checked(table, roles)

    def pieces(
        self,
        channels: Sequence[str],
        roles: Mapping[str, str],
        size: int,
        types: Mapping[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The same columns, some steps at a time. ``types`` are those of columns of other roles."""
        with self._explained(channels, roles):
            reader = pa.csv.open_csv(self._file(), *self._options(channels, roles, types))
            for table in in_pieces(reader, size):
                yield self._checked(table, roles)

    def type_of(self, column: str) -> Any:
        """The Arrow type of a column that holds no texts by its role: as of reading it whole."""
        kind = None
        while True:
            types: dict[str, Any] = {} if kind is None else {column: kind}
            try:
                reader = pa.csv.open_csv(self._file(), *self._options([], {column: "row"}, types))
                kind = reader.schema.field(column).type  # as the first lines have it
                for _ in reader:
                    pass
                return kind
            except pa.ArrowInvalid:
                if kind is None or pa.types.is_string(kind):
                    raise
                kind = _LOOSER[_LOOSER.index(kind) + 1]

    def _file(self) -> Any:
        return pa.input_stream(str(self.path), compression="gzip" if self._compressed else None)

    def _options(
        self,
        channels: Sequence[str],
        roles: Mapping[str, str],
        types: Mapping[str, Any] | None = None,
    ) -> tuple[Any, Any, Any]:
        kinds = dict.fromkeys(channels, pa.float64()) | dict.fromkeys(_texts(roles), _TEXTS)
        return (
            pa.csv.ReadOptions(column_names=self.columns, skip_rows=self._header_end),
            pa.csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                ignore_empty_lines=not self._keep_empty,
            ),
            pa.csv.ConvertOptions(
                column_types=kinds | dict(types or {}),
                include_columns=[*channels, *roles],
                null_values=_MISSING,
                decimal_point=self._decimal,
                strings_can_be_null=True,
            ),
        )

    @contextmanager
    def _explained(self, channels: Sequence[str], roles: Mapping[str, str]) -> Iterator[None]:
        """Say which line is wrong where Arrow fails."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            label_it = "" if "label" in roles.values() else "give it as the label (label), or "
            self._explain(channels, [*channels, *roles], label_it + NAME_COLUMNS)
            raise InputError(f"{self.path}: {str(error).splitlines()[0]}") from None

    def _checked(self, table: Any, roles: Mapping[str, str]) -> dict[str, Any]:
        for name in _texts(roles):
            self._refuse_open_quote(name, table.column(name))
        columns = {name: table.column(name) for name in table.column_names}
        for name, role in roles.items():
            if role in ("time", "row") and pa.types.is_string(columns[name].type):
                columns[name] = _as_dates(columns[name])
                if role == "time" and pa.types.is_string(columns[name].type):
                    self._explain_time(name)
        return columns

    def _lines(self) -> Generator[tuple[int, list[str]]]:
        form = FileFormat(self._delimiter, "gzip" if self._compressed else None)
        return rows_of(self.path, form, keep_empty=self._keep_empty)

    def _steps(self) -> Iterator[tuple[int, list[str]]]:
        return (row for row in self._lines() if row[0] > self._header_line)

    def _check_header(self) -> None:
        for name in self.columns:
            refuse_bytes(self.path, self._header_line, name, "the header")
        if len(self.columns) == 1 and re.search(r"[;\t|,]", self.columns[0]):
            raise InputError(
                f"{self.where([])}the header {self.columns[0]!r} looks like several columns; "
                "separate them by commas in a .csv and by tabs in a .tsv file, or say what "
                "separates them (sep)"
            )
        first: dict[str, int] = {}
        for i, name in enumerate(self.columns, 1):
            if name and first.setdefault(name, i) != i:
                raise InputError(
                    f"{self.where([])}columns {first[name]} and {i} are both named {name!r}; "
                    "rename one"
                )

    def _explain(self, channels: Sequence[str], wanted: Sequence[str], remedy: str) -> None:
        """Raise an InputError about the first line that is wrong."""
        numeric = [(self.columns.index(name), name) for name in channels]
        read = [(self.columns.index(name), name) for name in wanted]
        for line, fields in self._steps():
            if len(fields) != len(self.columns):
                count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
                raise InputError(
                    f"{self.path}, line {line} has {count}, the header has {len(self.columns)}; "
                    f"complete the line, or quote a field that holds {self._separator}"
                )
            for i, name in read:
                refuse_bytes(self.path, line, fields[i], f"column {name!r}")
            for i, name in numeric:
                text = fields[i]
                if self._is_number(text) or text in _MISSING:
                    continue
                first = (
                    _WITH_COMMA
                    if _DECIMAL_COMMA.fullmatch(text)
                    else "say that it is the time (time)"
                    if re.match(_DAY_FIRST, text) or _kind_of_time(text.strip())
                    else None
                )
                error = (InputError if first else NamesError)(
                    f"{self.path}, line {line}, column {name!r}: {text[:40]!r} is not a number; "
                    f"{first or 'correct it'}, or {remedy}"
                )
                error.column = name  # type: ignore[attr-defined]
                raise error

    @property
    def _separator(self) -> str:
        return {",": "a comma", "\t": "a tab", ";": "a semicolon"}.get(
            self._delimiter, repr(self._delimiter)
        )

    def _is_number(self, text: str) -> bool:
        if self._decimal != ".":
            text = text.replace(".", "x").replace(self._decimal, ".")
        return _NUMBER.fullmatch(text) is not None

    def _explain_time(self, time: str) -> None:
        """Raise an InputError about the first text that is not a time like the first one."""
        position = self.columns.index(time)
        kind: Any = None
        for line, fields in self._steps():
            text = fields[position].strip()
            found = _kind_of_time(text)
            kind = kind or found
            if text not in _MISSING and (found is None or found != kind):
                raise InputError(
                    f"{self.path}, line {line}, column {time!r}: {text[:40]!r} is not a time"
                    f"{'' if kind is None else ' written like those before it'}; "
                    f"write a number, or a date like 2024-05-31T12:00:00.5, or {NAME_COLUMNS}"
                )
        raise InputError(f"{self.path}, column {time!r}: not numbers, nor dates that can be read")

    def _refuse_open_quote(self, name: str, column: Any) -> None:
        # Arrow reads on to the end of the file after an open quote: steps would be lost silently.
        texts = [text for chunk in column.chunks for text in chunk.dictionary.to_pylist()]
        if not any("\n" in text or "\r" in text for text in texts):
            return
        position = self.columns.index(name)
        for line, fields in self._steps():
            if "\n" in fields[position] or "\r" in fields[position]:
                raise InputError(
                    f"{self.path}, line {line}, column {name!r}: {fields[position][:40]!r} goes on "
                    "over several lines; close the quote"
                )


def rows_of(
    path: Path, form: FileFormat, *, keep_empty: bool = False
) -> Generator[tuple[int, list[str]]]:
    """The number of the line on which each row of a text file begins, and the row's fields.

    Bytes that are not UTF-8 pass as surrogates, so that an error can name line and column.

    Raises
    ------
    InputError, DiskError
        If the file cannot be read; the message names the line.
    """
    opener: Any = gzip.open if form.compression else open
    line = 1
    try:
        with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            reader = csv.reader(file, delimiter=form.delimiter or ",")
            for fields in reader:
                if fields or keep_empty:
                    yield line, fields or [""]
                line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}; is a quote left open?") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except OSError as error:
        raise DiskError(f"{path} cannot be read: {error}") from None


def refuse_bytes(path: Path, line: int, field: str, column: str) -> None:
    """Raise `InputError` for a field that is not UTF-8."""
    found = None if field.isascii() else re.search("[\udc80-\udcff]", field)
    if found:
        byte = ord(found.group()) - 0xDC00
        raise InputError(
            f"{path}, line {line}: {column} is not UTF-8 (byte 0x{byte:02x}); "
            "save the file as UTF-8"
        )


def in_pieces(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Arrow tables of ``size`` rows each, and a last one of fewer, from batches of any size."""
    held: list[Any] = []
    n_held = 0
    for batch in batches:
        rest = batch
        while len(rest):
            part = rest.slice(0, size - n_held)
            rest = rest.slice(len(part))
            held.append(part)
            n_held += len(part)
            if n_held == size:
                yield pa.Table.from_batches(held)
                held, n_held = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _texts(roles: Mapping[str, str]) -> list[str]:
    return [column for column, role in roles.items() if role in ("label", "recording", "group")]


def _as_dates(column: Any) -> Any:
    """Dates like 30.04.2024 12:00:00,5 and times of day as time; other texts as they are."""
    order = pa.compute.replace_substring_regex(column, _DAY_FIRST, r"\3-0\2-0\1 \4")
    padded = pa.compute.replace_substring_regex(order, r"-0(\d\d)", r"-\1")
    dated = pa.compute.replace_substring_regex(padded, _OF_DAY, r"1970-01-01 \1")
    points = pa.compute.utf8_trim_whitespace(pa.compute.replace_substring(dated, ",", "."))
    try:
        time = pa.compute.cast(points, pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return column
    if not pa.compute.all(pa.compute.match_substring_regex(column, _OF_DAY)).as_py():
        return time
    return pa.compute.divide(pa.compute.cast(time.cast(pa.int64()), pa.float64()), 1e9)  # seconds


def _kind_of_time(text: str) -> str | None:
    if _NUMBER.fullmatch(text):
        return "number"
    try:
        return "date" if datetime.fromisoformat(text).tzinfo is None else "date with a zone"
    except ValueError:
        return None
