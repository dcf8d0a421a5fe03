"""The format of a file, from its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..base.errors import InputError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TEXTS = (*_DELIMITERS, ".gz")  # the ends of the names of text files
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class FileFormat:
    """``delimiter`` is None for Parquet; ``compression`` is that of the whole file."""

    delimiter: str | None
    compression: str | None = None


def file_format(path: Path) -> FileFormat:
    """The format, from the end of the name in upper or lower case.

    Raises
    ------
    InputError
        If the end is not known.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    suffix = "".join(suffixes[-2:-1] if compressed else suffixes[-1:])
    if suffix in _DELIMITERS:
        return FileFormat(_DELIMITERS[suffix], "gzip" if compressed else None)
    if suffix in PARQUET and not compressed:
        return FileFormat(None)
    raise InputError(
        f"{path} is of no known kind; its name must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet"
    )
