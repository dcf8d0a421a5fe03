"""Rows of numbers from UCI's text files, read strictly and fast."""

from __future__ import annotations

import io
import re

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from ..errors import InputError

# UCI's files separate by comma, comma and space, tabs, or one and two spaces by turns, and end
# lines with LF or CRLF. None of that carries meaning.
_SEPARATORS = bytes.maketrans(b",\t\r", b"   ")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def tidy(data: bytes) -> bytes:
    """The same fields, separated by one space, without blank lines or spaces at the ends.

    Both the parser and the checksums work on this form, so a copy whose line ends were converted
    is still the same copy.
    """
    text = data.translate(_SEPARATORS)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    return text.strip(b" \n")


def parse_rows(data: bytes, n_columns: int, where: str) -> NDArray[np.float64]:
    """Parse rows of ``n_columns`` numbers, after any ``#`` lines at the top.

    Parameters
    ----------
    data : bytes
        The content of the file.
    n_columns : int
    where : str
        The name of the file, for the error.

    Returns
    -------
    array of shape (n_rows, n_columns)

    Raises
    ------
    InputError
        If the file has no rows, or a row has another number of fields or one that is not a finite
        number; it names the line.
    """
    text = tidy(data)
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    if not text:
        raise InputError(f"{where} has no rows; get a fresh copy of the file")
    names = [str(i) for i in range(n_columns)]
    try:
        table = csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float64()), null_values=[]
            ),
        )
    except pa.ArrowInvalid as error:
        # Arrow counts rows of the tidied text; the reader of the message has the original.
        raise _first_bad_line(data, n_columns, where, str(error)) from None
    values = np.empty((table.num_rows, n_columns))
    for i, column in enumerate(table.columns):
        values[:, i] = column.to_numpy()
    if not np.isfinite(values).all():
        raise _first_bad_line(data, n_columns, where, "a value is not finite")
    return values


def _first_bad_line(data: bytes, n_columns: int, where: str, reason: str) -> InputError:
    for number, line in enumerate(data.split(b"\n"), 1):
        fields = tidy(line).split()
        if not fields or (fields[0].startswith(b"#")):
            continue
        if len(fields) != n_columns:
            return InputError(
                f"{where}, line {number}: {len(fields)} fields where UCI's file has {n_columns}; "
                "the file is cut short or damaged, get a fresh copy"
            )
        for i, field in enumerate(fields, 1):
            if not _NUMBER.fullmatch(field):
                shown = field[:20].decode("ascii", "replace")
                return InputError(
                    f"{where}, line {number}, field {i}: {shown!r} is not a number; "
                    "get a fresh copy of the file"
                )
    return InputError(f"{where} cannot be read ({reason}); get a fresh copy of the file")
