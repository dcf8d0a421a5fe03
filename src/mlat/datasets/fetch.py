"""Downloading the sets from UCI, checked file by file before they count as there."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .catalog import UciSet, get_set
from .check import check
from .manifest import describe, manifest
from .source import data_folder
from .unpack import BadArchiveError, data_files

if TYPE_CHECKING:
    from .download import Progress

UCI = "https://archive.ics.uci.edu"


def fetch(
    name: str,
    data: str | os.PathLike[str] | None = None,
    *,
    base: str = UCI,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: float = 1.0,
) -> Path:
    """Download a set from UCI, unless a good copy is there.

    An interrupted download is continued by the next call. The files are compared with the
    checksums shipped with the library, and only a complete and correct set is put in place.

    Parameters
    ----------
    name : str
        The set.
    data : path, optional
        The folder to put it in; default MLAT_DATA, else the cache folder.
    base : str
        Where UCI's addresses start.
    progress : callable, optional
        Called with the bytes that have come and the bytes expected (None if unknown).
    attempts, wait : int, float
        How often to connect again, and the seconds between.

    Returns
    -------
    Path
        The zip or folder that holds the set.
    """
    uci = get_set(name)
    folder = data_folder(data)
    if folder.is_file():
        raise InputError(f"{folder} is a file; give --data a folder to download to")
    there = check(name, folder)
    if there.all_right and there.place is not None:
        return there.place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archive = _download(uci, folder, base, progress, attempts, wait)
        target = folder / f"{uci.name}.zip"
        _repack(uci, archive, target)
    except OSError as error:
        raise InputError(f"{uci.name} cannot be written to {folder} ({error})") from None
    archive.unlink()
    return target


def _download(
    uci: UciSet, folder: Path, base: str, progress: Progress | None, attempts: int, wait: float
) -> Path:
    try:
        import pooch

        from .download import NotThereError, ResumingDownloader
    except ImportError:
        raise InputError(
            "downloading needs the pooch package: `pip install 'mlat[data]'`"
        ) from None
    archive = folder / f"{uci.name}.download"
    downloader = ResumingDownloader(
        folder / f"{uci.name}.part", attempts=attempts, wait=wait, progress=progress
    )
    for address in uci.addresses:
        try:
            with _quiet(pooch.get_logger()):
                # An archive that is there already, whole but not unpacked, is taken as it is. Its
                # content is what is checked: UCI packs the same files anew from time to time.
                pooch.retrieve(
                    url=f"{base.rstrip('/')}/{address}",
                    known_hash=None,
                    fname=archive.name,
                    path=folder,
                    downloader=downloader,
                )
            return archive
        except NotThereError:
            continue
    raise InputError(
        f"{uci.name} is at none of its addresses under {base}; download UCI data set "
        f"{uci.number} by hand, unpack it and give its place with --data"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from advising to write the archive's checksum down."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _repack(uci: UciSet, archive: Path, target: Path) -> None:
    """Write the set's files to one zip in UCI's layout, if they are all there and all right."""
    known = manifest(uci)
    seen: set[str] = set()
    wrong: list[str] = []
    unfinished = target.with_name(f"{target.name}.new")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as zip_file:
            for file, content in data_files(uci, archive):
                if file not in known:
                    continue
                seen.add(file)
                if describe(content) != known[file]:
                    wrong.append(file)
                zip_file.writestr(f"{uci.folder}/{file}", content)
        missing = [file for file in known if file not in seen]
        _refuse(uci, "missing from what came", missing)
        _refuse(uci, "with a wrong checksum", wrong)
        os.replace(unfinished, target)
    except BadArchiveError:
        archive.unlink()  # the next call must not take it again
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _refuse(uci: UciSet, what: str, files: list[str]) -> None:
    if files:
        count = f"{len(files)} {'file' if len(files) == 1 else 'files'}"
        raise BadArchiveError(
            f"{uci.name}: {count} {what} (first: {files[0]}); nothing was kept, try again later"
        )
