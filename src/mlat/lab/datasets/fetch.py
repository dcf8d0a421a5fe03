"""Downloading the sets from UCI, checked file by file before they count as there."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from ...errors import InputError
from .catalog import UciSet, get_set
from .check import check
from .files import data_folder, describe, manifest

# -------------------------------------------------------------------- unpack
# The data files of a set out of an archive as UCI serves it: a zip, a rar, or a rar in a zip.


class BadArchiveError(InputError):
    """The archive is at fault, so that it is of no use to keep it."""


_RAR_START = b"Rar!\x1a\x07"


def data_files(uci: UciSet, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Each data file of the set in the archive: its path below the set's folder and its content.

    Everything else in the archive is passed over, and nothing is written, so no member can land
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
                        inner = Path(folder) / "inner.rar"
                        with members.open(member) as source, inner.open("wb") as target:
                            shutil.copyfileobj(source, target)
                        yield from _rar_files(uci, inner)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadArchiveError(
            f"{uci.name}: the zip that came is damaged ({error}); try again"
        ) from None


def _rar_files(uci: UciSet, archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        # The package carries the unrar library, so no program has to be installed beside it.
        from unrar.cffi.unrarlib import BadRarFile, RarArchive
    except ImportError:
        raise InputError(
            f"{uci.name} comes as a rar: `pip install 'mlat[data]'` for the unrar2-cffi package, "
            f"or unpack UCI's archive yourself and give its place with --data"
        ) from None
    try:
        # One pass from the front: in a solid rar, to read a member is to unpack all before it.
        with RarArchive.open_for_processing(str(archive)) as members:
            for member in members.iterate_headers():
                file = uci.file_of(member.FileNameW)
                if file is None:
                    member.skip()
                    continue
                chunks: list[bytes] = []
                member.test(chunks.append)
                yield file, b"".join(chunks)
    except BadRarFile as error:
        raise BadArchiveError(
            f"{uci.name}: the rar that came is damaged ({error.message}); try again"
        ) from None


# -------------------------------------------------------------------- download
# A download that can be interrupted: what has come is kept, and only the rest is asked for.

# A chunk that breaks off is lost with the connection, so a break costs less than this.
CHUNK = 1 << 13

# Called with the bytes that have come and the bytes expected, if the server says.
Progress = Callable[[int, int | None], None]


class NotThereError(InputError):
    """The server answered, and has no such file."""


class ResumingDownloader:
    """A downloader for `pooch` that continues a broken download with an HTTP Range request.

    Parameters
    ----------
    part : Path
        The file that grows; it stays after a failure, so that the next call or the next run of
        the program goes on from its end.
    attempts : int
        How often to connect without getting a single new byte before giving up.
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
                raise InputError(f"{url} cannot be downloaded: {error}") from None
            failures = 1 if self._size() > before else failures + 1
            if failures >= self.attempts:
                kept = f"; {self._size():,} bytes are kept" if self._size() else ""
                raise InputError(
                    f"{url} cannot be downloaded: {reason}{kept}, run the command again to go on"
                )
            time.sleep(self.wait * failures)
        os.replace(self.part, output_file)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _continue(self, url: str) -> None:
        have = self._size()
        # Compression on the way would make the byte ranges those of something else.
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
            # A server that does not know ranges answers 200 with the whole file.
            resumed = answer.status_code == 206 and _start(answer) == have
            if not resumed:
                if answer.status_code == 206:
                    self.part.unlink()
                    raise _BrokenError("the server sent another part than asked for")
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


def _start(answer: requests.Response) -> int | None:
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _total(answer: requests.Response) -> int | None:
    match = re.search(r"/(\d+)$", answer.headers.get("Content-Range", ""))
    if match:
        return int(match[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() and answer.status_code == 200 else None


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
