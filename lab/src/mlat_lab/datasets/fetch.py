"""Download the sets from UCI; a set is put in place only when every file is there and correct.

`pooch` frames the download. Three of its parts do not fit and are not used. Its known-hash check is
of archives, and UCI packs the same files anew from time to time: the content of each file is
checked instead. Its `Unzip` writes everything to disk and knows no rar: here files go from the
archive, a zip, a rar or a rar in a zip, through the check into a new zip, which replaces an older
one at the end. Its downloaders start over when a connection breaks: `ResumingDownloader` goes on.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlat.base.errors import (
    DiskError,
    InputError,
    MissingPackageError,
    ServiceError,
    require_package,
)

from .catalog import UciSet, get_set
from .check import check
from .files import data_folder, describe, manifest

UCI = "https://archive.ics.uci.edu"
LAB = "mlat-lab"  # whose extra has what downloading needs
# Bytes of a download that are written at a time. A chunk that breaks off is lost with the
# connection, so a break costs less than this.
CHUNK = 1 << 13

# Called with the bytes received so far and the bytes expected, None if the server does not say.
Progress = Callable[[int, int | None], None]


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
        Called with the bytes received and the bytes expected (None if unknown).
    attempts, wait : int, float
        How often to connect again, and the seconds between.

    Returns
    -------
    Path
        The zip or folder that holds the set.

    Raises
    ------
    InputError
        If ``data`` is no folder, or the archive that came is wrong.
    ServiceError
        If the archive cannot be downloaded.
    DiskError
        If the set cannot be written.
    MissingPackageError
        Without the extra ``data``.
    """
    uci = get_set(name)
    folder = data_folder(data, uci)
    if folder.is_file():
        raise InputError(f"{folder} is a file; give `data` a folder to download to")
    there = check(name, folder)
    if there.all_right and there.place is not None:
        return there.place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archive = _download(uci, folder, base, progress, attempts, wait)
        target = folder / f"{uci.name}.zip"
        _repack(uci, archive, target)
    except OSError as error:
        raise DiskError(f"{uci.name} cannot be written to {folder} ({error})") from None
    archive.unlink()
    return target


def _download(
    uci: UciSet, folder: Path, base: str, progress: Progress | None, attempts: int, wait: float
) -> Path:
    pooch = require_package("pooch", "data", "downloading", title="the pooch package", of=LAB)
    archive = folder / f"{uci.name}.download"
    downloader = ResumingDownloader(
        folder / f"{uci.name}.part", attempts=attempts, wait=wait, progress=progress
    )
    for address in uci.addresses:
        try:
            with _quiet(pooch.get_logger()):
                # An archive that is there already, whole but not unpacked, is used as it is.
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
    raise ServiceError(
        f"{uci.name} is at none of its addresses under {base}; download UCI data set "
        f"{uci.number} by hand, unpack it and give its place as `data`"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from its advice to note the archive's checksum."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class NotThereError(ServiceError):
    """The server answered, and has no such file."""


class ResumingDownloader:
    """A downloader for `pooch` that continues a broken download with an HTTP Range request.

    Parameters
    ----------
    part : Path
        The file that grows. It stays after a failure, so that the next call or the next run of
        the program continues at its end.
    attempts : int
        How often to connect without a single new byte before giving up.
    wait : float
        Seconds to wait before connecting again, growing with every failure in a row.
    timeout : float
        Seconds without a byte after which a connection counts as broken.
    progress : callable, optional
    """

    def __init__(
        self,
        part: Path,
        *,
        attempts: int = 5,
        wait: float = 1.0,
        timeout: float = 30.0,
        progress: Progress | None = None,
    ) -> None:
        self.part = part
        self.attempts = attempts
        self.wait = wait
        self.timeout = timeout
        self.progress = progress

    def __call__(self, url: str, output_file: Any, pooch: Any = None) -> None:
        """Download ``url``; ``output_file`` appears only when every byte has come."""
        import requests  # pooch needs it too

        failures = 0
        while True:
            before = self._size()
            try:
                self._continue(url)
                break
            except _BrokenError as error:
                reason = str(error)
            except requests.Timeout:
                reason = "no answer in time"
            except requests.ConnectionError as error:
                reason = f"no connection ({type(error).__name__})"
            except requests.exceptions.ChunkedEncodingError:
                reason = "the connection broke"
            except requests.RequestException as error:
                raise ServiceError(f"{url} cannot be downloaded: {error}") from None
            failures = 1 if self._size() > before else failures + 1
            if failures >= self.attempts:
                kept = f"; {self._size():,} bytes are kept" if self._size() else ""
                raise ServiceError(
                    f"{url} cannot be downloaded: {reason}{kept}, run the command again to go on"
                )
            time.sleep(self.wait * failures)
        os.replace(self.part, output_file)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _continue(self, url: str) -> None:
        import requests

        have = self._size()
        # With compression on the way, byte ranges would be those of the compressed file.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as answer:
            if answer.status_code == 416:  # nothing after `have`: complete already, or stale
                if _total(answer) != have:
                    self.part.unlink()
                    raise _BrokenError("the file on the server has changed")
                return
            if answer.status_code in (404, 410):
                raise NotThereError(f"{url} is not there (HTTP {answer.status_code})")
            if answer.status_code >= 500 or answer.status_code == 429:
                raise _BrokenError(f"the server answered HTTP {answer.status_code}")
            answer.raise_for_status()
            # A server without ranges answers 200 with the whole file.
            resumed = answer.status_code == 206 and _start(answer) == have
            if not resumed:
                if answer.status_code == 206:
                    self.part.unlink()
                    raise _BrokenError("the server sent another part than requested")
                have = 0
            total = _total(answer)
            with self.part.open("ab" if resumed else "wb") as file:
                for chunk in answer.iter_content(CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    if self.progress is not None:
                        self.progress(have, total)
            if total is not None and have != total:
                raise _BrokenError(f"the connection ended after {have:,} of {total:,} bytes")


class _BrokenError(Exception):
    """Worth another attempt."""


def _start(answer: Any) -> int | None:
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _total(answer: Any) -> int | None:
    match = re.search(r"/(\d+)$", answer.headers.get("Content-Range", ""))
    if match:
        return int(match[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() and answer.status_code == 200 else None


# From the archive that came to the set's zip.


class BadArchiveError(InputError):
    """The archive is wrong, so there is no use in keeping it."""


def _repack(uci: UciSet, archive: Path, target: Path) -> None:
    """Write the set's files to one zip in UCI's layout, if all are there and correct."""
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
        archive.unlink()  # the next call must not use it again
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _refuse(uci: UciSet, what: str, files: list[str]) -> None:
    if files:
        count = f"{len(files)} {'file' if len(files) == 1 else 'files'}"
        raise BadArchiveError(
            f"{uci.name}: {count} {what} (first: {files[0]}); nothing was kept, try again later"
        )


_RAR_START = b"Rar!\x1a\x07"


def data_files(uci: UciSet, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Each data file of the set in the archive: its path below the set's folder and its content.

    Everything else in the archive is skipped, and no data file is written, so none can land
    outside a folder.
    """
    with archive.open("rb") as file:
        start = file.read(len(_RAR_START))
    if start == _RAR_START:
        yield from _rar_files(uci, archive)
    elif zipfile.is_zipfile(archive):
        yield from _zip_files(uci, archive)
    else:
        raise BadArchiveError(
            f"{uci.name}: what came is neither a zip nor a rar (it starts with {start!r}); "
            "try again later"
        )


def _zip_files(uci: UciSet, archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(archive) as members:
            for member in members.infolist():
                file = uci.file_of(member.filename)
                if file is not None:
                    yield file, members.read(member)
                elif member.filename.lower().endswith(".rar"):
                    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
                        yield from _rar_files(uci, Path(members.extract(member, folder)))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadArchiveError(
            f"{uci.name}: the zip that came is damaged ({error}); try again"
        ) from None


def _rar_files(uci: UciSet, archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        # The package contains the unrar library, so no other program has to be installed.
        unrarlib = require_package(
            "unrar.cffi.unrarlib",
            "data",
            f"{uci.name} comes as a rar, which",
            title="the unrar2-cffi package",
            of=LAB,
        )
    except MissingPackageError as error:
        raise MissingPackageError(
            f"{error}, or unpack UCI's archive yourself and give its place as `data`"
        ) from None
    try:
        # One pass from the front: in a solid rar, to read a member is to unpack all before it.
        with unrarlib.RarArchive.open_for_processing(str(archive)) as members:
            for member in members.iterate_headers():
                file = uci.file_of(member.FileNameW)
                if file is None:
                    member.skip()
                    continue
                chunks: list[bytes] = []
                member.test(chunks.append)
                yield file, b"".join(chunks)
    except unrarlib.BadRarFile as error:
        raise BadArchiveError(
            f"{uci.name}: the rar that came is damaged ({error.message}); try again"
        ) from None
