"""The data files of a set out of an archive as UCI serves it: a zip, a rar, or a rar in a zip."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from .catalog import UciSet


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
