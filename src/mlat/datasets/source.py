"""Finding a copy of a set, in a folder or a zip, and reading single files out of it."""

from __future__ import annotations

import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import InputError
from .catalog import UciSet

DATA_VARIABLE = "MLAT_DATA"


def cache_folder() -> Path:
    """Where `fetch` puts the sets when neither an argument nor MLAT_DATA says otherwise."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "mlat" / "uci"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlat" / "uci"


def data_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """The place of the data: the argument, else MLAT_DATA, else the user's cache folder."""
    if data is not None:
        return Path(data).expanduser()
    variable = os.environ.get(DATA_VARIABLE)
    return Path(variable).expanduser() if variable else cache_folder()


class Source:
    """The data files of one set, in one place; nothing is read before it is asked for.

    Attributes
    ----------
    place : Path
        The zip or the folder that holds the set.
    files : mapping
        From a file's path below the set's folder to its name in ``place``.
    """

    def __init__(
        self, uci: UciSet, place: Path, files: Mapping[str, str], zip_file: zipfile.ZipFile | None
    ) -> None:
        self.uci = uci
        self.place = place
        self.files = files
        self._zip = zip_file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._zip is not None:
            self._zip.close()

    def where(self, file: str) -> str:
        """How to name a file to a person."""
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
        except (OSError, NotImplementedError) as error:
            raise InputError(f"{self.where(file)} cannot be read ({error})") from None


def open_set(uci: UciSet, data: str | os.PathLike[str] | None = None) -> Source:
    """Open a copy of a set.

    Parameters
    ----------
    uci : UciSet
    data : path, optional
        A zip of the set, the set's folder, or a folder with either in it. Default: the value of
        MLAT_DATA, else the cache folder that `fetch` fills.

    Raises
    ------
    InputError
        If the set is not there, or the zip is not a zip.
    """
    place = data_folder(data)
    if place.is_file():
        return _open_zip(uci, place)
    if not place.is_dir():
        other = "" if data is not None else f" (set {DATA_VARIABLE} for another place)"
        raise InputError(
            f"no data at {place}{other}; run `mlat data fetch {uci.name}` to download it"
        )
    zips = [place / name for name in _zip_names(uci)]
    # The short name is what `fetch` writes, so a fetched set counts before an unpacked one.
    if zips[0].is_file():
        return _open_zip(uci, zips[0])
    for folder in (place / uci.folder, place):
        if files := _folder_files(uci, folder):
            return Source(uci, folder, files, None)
    for path in zips[1:]:
        if path.is_file():
            return _open_zip(uci, path)
    raise InputError(
        f"{place} holds neither {zips[0].name} nor the files of {uci.folder!r}; "
        f"run `mlat data fetch {uci.name}` to download it"
    )


def _zip_names(uci: UciSet) -> list[str]:
    """The short name, then the names a browser gives UCI's archives."""
    ours = f"{uci.name}.zip"
    theirs = [a.rsplit("/", 1)[1].replace("%20", " ") for a in uci.addresses]
    return [ours, *(name for name in theirs if name.endswith(".zip") and name.lower() != ours)]


def _folder_files(uci: UciSet, folder: Path) -> dict[str, str]:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob(uci.layout))
    return {name: name for name in names if uci.file_of(name) == name}


def _open_zip(uci: UciSet, path: Path) -> Source:
    try:
        zip_file = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path} is not a readable zip file ({error}); get a fresh copy") from None
    names = zip_file.namelist()
    files = {file: name for name in names if (file := uci.file_of(name)) is not None}
    if not files:
        zip_file.close()
        rars = [name for name in names if name.lower().endswith(".rar")]
        inside = f"only {rars[0]!r}: unpack that" if rars else f"no files of {uci.folder!r}"
        raise InputError(f"{path} holds {inside}; or run `mlat data fetch {uci.name}`")
    return Source(uci, path, files, zip_file)
