"""The files of a set: finding a copy, reading rows, and what UCI's files hold.

A copy is a folder or a zip in UCI's layout, or in that of the sets of streams. Its files are
checked against a manifest that is shipped with the library: the number of rows and the checksum of
every file.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from pyarrow import csv

from mlat.base.checks import Floats
from mlat.base.errors import DiskError, InputError

from .catalog import SETS, STREAM_SETS, DataSet, People, StreamSet, UciSet

DATA_VARIABLE = "MLAT_DATA"
STREAMS_VARIABLE = "MLAT_STREAMS"


def open_set(data_set: DataSet, data: str | os.PathLike[str] | None = None) -> SetFiles:
    """Open a copy of a set.

    Parameters
    ----------
    data_set : DataSet
    data : path, optional
        A zip of the set, the set's folder, or a folder with either in it or in its folder ``uci``
        or ``streams``, by the kind of the set. Default: the value of MLAT_DATA (for sets of streams
        that of MLAT_STREAMS first), else the cache folder that `fetch` fills.

    Raises
    ------
    InputError
        If the set is not there, or the zip is damaged.
    DiskError
        If the zip cannot be read.
    """
    place = data_folder(data, data_set)
    if place.is_file():
        return _open_zip(data_set, place)
    if not place.is_dir():
        other = "" if data is not None else f" (set {variables(data_set)[0]} for another place)"
        raise InputError(f"no data at {place}{other}; {data_set.remedy}")
    for folder in (place, place / data_set.home):
        if (copy := _open_in(data_set, folder)) is not None:
            return copy
    raise InputError(
        f"{place} holds neither {data_set.zips[0]} nor the files of {data_set.folder!r}; "
        f"{data_set.remedy}"
    )


def _open_in(data_set: DataSet, place: Path) -> SetFiles | None:
    """A copy of the set in this folder, if it has one."""
    zips = [place / name for name in data_set.zips]
    # `fetch` writes the short name, so a fetched set comes before an unpacked one.
    if zips[0].is_file():
        return _open_zip(data_set, zips[0])
    for folder in (place / data_set.folder, place):
        if files := _folder_files(data_set, folder):
            return SetFiles(data_set, folder, files, None)
    for path in zips[1:]:
        if path.is_file():
            return _open_zip(data_set, path)
    return None


def _folder_files(data_set: DataSet, folder: Path) -> dict[str, str]:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob(data_set.layout))
    return {name: name for name in names if data_set.file_of(name) == name}


def _open_zip(data_set: DataSet, path: Path) -> SetFiles:
    try:
        zip_file = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is not a readable zip file ({error}); get a fresh copy") from None
    except OSError as error:
        raise DiskError(f"{path} cannot be read ({error})") from None
    names = zip_file.namelist()
    files = {file: name for name in names if (file := data_set.file_of(name)) is not None}
    if not files:
        zip_file.close()
        rars = [name for name in names if name.lower().endswith(".rar")]
        inside = f"only {rars[0]!r}: unpack that" if rars else f"no files of {data_set.folder!r}"
        raise InputError(f"{path} holds {inside}; or {data_set.remedy}")
    return SetFiles(data_set, path, files, zip_file)


class SetFiles:
    """The data files of one set in one copy; a file is read on demand.

    Attributes
    ----------
    place : Path
        The zip or the folder that holds the set.
    files : mapping
        From a file's path below the set's folder to its name in ``place``.
    """

    def __init__(
        self,
        data_set: DataSet,
        place: Path,
        files: Mapping[str, str],
        zip_file: zipfile.ZipFile | None,
    ) -> None:
        self.data_set = data_set
        self.place = place
        self.files = files
        self._zip = zip_file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def where(self, file: str) -> str:
        """The name of a file in messages."""
        name = self.files.get(file, file)
        return f"{self.place}: {name}" if self._zip is not None else str(self.place / name)

    def read(self, file: str) -> bytes:
        """The content of a file."""
        name = self.files[file]
        try:
            if self._zip is None:
                return (self.place / name).read_bytes()
            return self._zip.read(name)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
            raise InputError(
                f"{self.where(file)} is damaged in the zip ({error}); get a fresh copy"
            ) from None
        except NotImplementedError as error:  # such as a compression that Python lacks
            raise InputError(f"{self.where(file)} cannot be read ({error})") from None
        except OSError as error:
            raise DiskError(f"{self.where(file)} cannot be read ({error})") from None


def variables(data_set: DataSet) -> tuple[str, ...]:
    """The environment variables that say where a set is; the first that is set counts."""
    more = (STREAMS_VARIABLE,) if isinstance(data_set, StreamSet) else ()
    return (*more, DATA_VARIABLE)


def data_folder(data: str | os.PathLike[str] | None, data_set: DataSet) -> Path:
    """Where a set is: the argument, else what the environment says, else the user's cache."""
    if data is not None:
        return Path(data).expanduser()
    for variable in variables(data_set):
        if value := os.environ.get(variable):
            return Path(value).expanduser()
    return cache_folder(data_set.home)


def cache_folder(home: str = UciSet.home) -> Path:
    """Where the sets are without an argument and without a word of the environment."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "mlat" / home
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlat" / home


@contextmanager
def open_people(
    data_set: DataSet, data: str | os.PathLike[str] | None, people: People, *, complete: bool
) -> Iterator[tuple[SetFiles, dict[str, list[str]]]]:
    """A copy of a set, and the data files in it of each requested person.

    Parameters
    ----------
    data_set : DataSet
    data : path, optional
    people : iterable of str or int, optional
        Default everyone; of an incomplete copy, everyone who is in it.
    complete : bool
        Whether a file that UCI has and the copy lacks is an error.
    """
    wanted = data_set.select(people)
    with open_set(data_set, data) as copy:
        yield copy, _files_by_person(copy, wanted, everyone=people is None, complete=complete)


def _files_by_person(
    copy: SetFiles, wanted: tuple[str, ...], *, everyone: bool, complete: bool
) -> dict[str, list[str]]:
    data_set = copy.data_set
    held: dict[str, list[str]] = {person: [] for person in data_set.people}
    for file in sorted(copy.files):
        held.setdefault(data_set.person_of(file), []).append(file)
    if everyone and not complete:
        wanted = tuple(person for person in wanted if held[person])
    for person in wanted:
        if not held[person]:
            raise InputError(
                f"{copy.place} has no files of {data_set.name} person {person}; "
                f"run `mlat-lab data check {data_set.name}` to see what is there"
            )
    if complete:
        for file in manifest(data_set):
            if data_set.person_of(file) in wanted and file not in copy.files:
                raise InputError(
                    f"{copy.place} lacks {file} of {data_set.folder!r}; get a fresh copy, or load "
                    "with complete=False"
                )
    return {person: held[person] for person in wanted}


def read_recording(copy: SetFiles, file: str, n_columns: int, *, complete: bool) -> Floats:
    """The rows of a file.

    With ``complete`` a number of rows other than UCI's is an error: a file cut at the end of a
    line parses well, and the loss would go unnoticed.
    """
    where = copy.where(file)
    values = parse_rows(copy.read(file), n_columns, where)
    known = manifest(copy.data_set).get(file)
    if complete and known is not None and len(values) != known.rows:
        what = "cut short" if len(values) < known.rows else "not UCI's"
        raise InputError(
            f"{where} has {len(values)} rows where UCI's file has {known.rows}: it is {what}; "
            "get a fresh copy, or load an excerpt with complete=False"
        )
    return values


# Rows of numbers from UCI's text files.
#
# UCI's files separate by comma, comma and space, tabs, or one and two spaces in turn, and end lines
# with LF or CRLF. None of that has a meaning.

_SEPARATORS = bytes.maketrans(b",\t\r", b"   ")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def parse_rows(data: bytes, n_columns: int, where: str) -> Floats:
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
        # Arrow counts rows of the tidied text; the message must name the line of the file.
        raise _first_bad_line(data, n_columns, where, str(error)) from None
    values = np.empty((table.num_rows, n_columns))
    for i, column in enumerate(table.columns):
        values[:, i] = column.to_numpy()
    if not np.isfinite(values).all():
        raise _first_bad_line(data, n_columns, where, "a value is not finite")
    return values


def tidy(data: bytes) -> bytes:
    """The same fields, separated by one space, without blank lines or spaces at the ends.

    The parser and the checksums work on this form, so a copy with converted line ends is still
    the same copy.
    """
    text = data.translate(_SEPARATORS)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    return text.strip(b" \n")


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


# The manifest: the rows and the checksum of every file of UCI, and of the sets of streams.
#
# The checksums are of the content and not of archives, because the same files come in UCI's zips
# and rars, in re-packed zips and in plain folders.


@dataclass(frozen=True)
class FileRecord:
    """The number of data rows of a file and the SHA-256 of its tidied content."""

    rows: int
    sha256: str


def describe(data: bytes) -> FileRecord:
    """The record of a file's content; see `tidy` for what counts as the same content."""
    text = tidy(data)
    lines = text.count(b"\n") + 1 if text else 0
    comments = text.count(b"\n#") + text.startswith(b"#")
    return FileRecord(lines - comments, hashlib.sha256(text).hexdigest())


@cache
def _shipped() -> dict[str, dict[str, FileRecord]]:
    text = resources.files(__package__).joinpath("manifest.json").read_text("utf-8")
    return {
        name: {file: FileRecord(rows, sha256) for file, (rows, sha256) in files.items()}
        for name, files in json.loads(text).items()
    }


def manifest(data_set: DataSet) -> dict[str, FileRecord]:
    """The data files of a set by their path below its folder, in the order they are listed."""
    return _shipped()[data_set.name]


def _build(data: str) -> str:
    """The manifest of a complete copy of all sets, as JSON with one file a line."""
    sets = []
    for data_set in (*SETS.values(), *STREAM_SETS.values()):
        with open_set(data_set, data) as copy:
            lines = []
            for file in sorted(copy.files):
                record = describe(copy.read(file))
                lines.append(f"  {json.dumps(file)}: {json.dumps([record.rows, record.sha256])}")
        sets.append(f"{json.dumps(data_set.name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sets) + "\n}\n"


if __name__ == "__main__":
    # python -m mlat_lab.datasets.files DIR > manifest.json
    sys.stdout.write(_build(sys.argv[1]))
