"""Steps in lines of CSV, with or without a header."""

from __future__ import annotations

import csv
import math

from .rows import MalformedError, Row, check_finite, check_seq, check_time, shown

# What `read_stream` takes for a missing value in a text file.
_MISSING = frozenset(
    {"", "na", "nan", "-nan", "n/a", "null", "#na", "#n/a", "#n/a n/a"}
    | {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)


class CsvRows:
    """Reads one line after the other.

    A first line that is not all numbers is a header. It names the model's channels in any order,
    among other columns; those called "seq" and "time" are used, the rest is ignored. Without a
    header a line holds the channels' values in the model's order. A later line that names all
    channels is a header again: two files one after the other, a logger that was restarted.
    """

    def __init__(self, channels: tuple[str, ...], first: bytes) -> None:
        self._channels = channels
        self._delimiter = b"\t" if b"\t" in first and b"," not in first else b","
        self._begun = False
        self._fits = True  # False between a header that lacks a channel and one that does not
        self._n_columns = len(channels)
        self._columns = list(range(len(channels)))
        self._in_order = True
        self._seq: int | None = None
        self._time: int | None = None

    def read(self, line: bytes) -> Row | None:
        """The step of a line; None for a header, a comment or an empty line."""
        if not self._begun:
            return self._read_first(line)
        if self._skips(line):
            return None
        fields = line.split(self._delimiter)
        if self._fits and len(fields) == self._n_columns:
            picked = fields if self._in_order else [fields[i] for i in self._columns]
            try:
                values = list(map(float, picked))
            except ValueError:
                pass
            else:
                if b"_" not in line:  # which float() would allow among digits
                    check_finite(values, self._channels)
                    return Row(
                        values,
                        None if self._seq is None else _whole(_text(fields[self._seq])),
                        None if self._time is None else _seconds(_text(fields[self._time])),
                    )
        return self._read_with_care(self._split(line))

    def _read_first(self, line: bytes) -> Row | None:
        if self._skips(line):
            return None
        self._begun = True
        fields = self._split(line)
        if all(_is_number(field) for field in fields):
            return self._read_with_care(fields)
        self._adopt_header(fields)
        return None

    def _read_with_care(self, fields: list[str]) -> Row | None:
        if set(self._channels) <= set(fields):
            self._adopt_header(fields)
            return None
        if not self._fits:
            raise MalformedError("no header names the model's channels yet; see the first refusal")
        if len(fields) != self._n_columns:
            wanted = (
                f"the model has {self._n_columns} channels"
                if self._in_order and self._n_columns == len(self._channels)
                else f"the header has {self._n_columns}"
            )
            raise MalformedError(f"{len(fields)} columns where {wanted}")
        values = [
            _number(fields[at], name)
            for at, name in zip(self._columns, self._channels, strict=True)
        ]
        check_finite(values, self._channels)
        return Row(
            values,
            None if self._seq is None else _whole(fields[self._seq]),
            None if self._time is None else _seconds(fields[self._time]),
        )

    def _adopt_header(self, names: list[str]) -> None:
        absent = [name for name in self._channels if name not in names]
        if absent:
            self._fits = False
            more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
            raise MalformedError(
                f"the header {shown(','.join(names))} lacks the model's channel "
                f"{', '.join(map(repr, absent[:3]))}{more}; name the columns as in training"
            )
        twice = [name for name in self._channels if names.count(name) > 1]
        if twice:
            self._fits = False
            raise MalformedError(f"the header names {twice[0]!r} twice; name each channel once")
        self._fits = True
        self._n_columns = len(names)
        self._columns = [names.index(name) for name in self._channels]
        self._in_order = self._columns == list(range(len(names)))
        self._seq = self._role("seq", names)
        self._time = self._role("time", names)

    def _role(self, role: str, names: list[str]) -> int | None:
        return names.index(role) if role in names and role not in self._channels else None

    def _skips(self, line: bytes) -> bool:
        if not line or line.isspace():
            # As in a file: where a line holds one number, an empty one is a missing number.
            return self._n_columns > 1 or not self._begun
        return is_comment(line)

    def _split(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", "replace")
        delimiter = self._delimiter.decode()
        try:
            fields = next(csv.reader([text], delimiter=delimiter)) if '"' in text else None
        except (csv.Error, StopIteration):
            fields = None
        return [field.strip() for field in (fields or text.split(delimiter))]


def is_comment(line: bytes) -> bool:
    return line.startswith(b"#") and not line.startswith((b"#N", b"#n"))  # "#N/A" is missing


def _text(field: bytes) -> str:
    return field.decode("utf-8", "replace").strip()


def _is_number(field: str) -> bool:
    try:
        _number(field, "")
    except MalformedError:
        return False
    return True


def _number(field: str, channel: str) -> float:
    if field.lower() in _MISSING:
        return math.nan
    try:
        # float() also reads 1_000 and the digits of other scripts, which are typing errors here.
        if "_" in field or not field.isascii():
            raise ValueError
        return float(field)
    except ValueError:
        raise MalformedError(
            f"channel {channel!r} is {shown(field)}, which is not a number; "
            "leave a missing value empty"
        ) from None


def _whole(field: str) -> int:
    try:
        if "_" in field or not field.isascii():
            raise ValueError
        try:
            return check_seq(int(field))
        except ValueError as error:
            if isinstance(error, MalformedError):
                raise
            number = float(field)  # "7.0", as a table with a missing number writes it
        if not number.is_integer() or abs(number) > 2**53:
            raise ValueError
        return int(number)
    except MalformedError:
        raise
    except ValueError:
        raise MalformedError(f"seq must be a whole number, not {shown(field)}") from None


def _seconds(field: str) -> float:
    try:
        if "_" in field or not field.isascii():
            raise ValueError
        return check_time(float(field))
    except MalformedError:
        raise
    except ValueError:
        raise MalformedError(f"time must be a number of seconds, not {shown(field)}") from None
