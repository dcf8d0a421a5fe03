"""Downloading from a real HTTP server on loopback, whole, broken, resumed and wrong."""

from __future__ import annotations

import io
import re
import struct
import sys
import threading
import zipfile
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import numpy as np
import pytest
from typer.testing import CliRunner

from mlat import InputError
from mlat.base.errors import MissingPackageError, MlatError, ServiceError
from mlat_lab.cli.data import app
from mlat_lab.datasets import SETS, load
from mlat_lab.datasets import files as files_module
from mlat_lab.datasets.fetch import CHUNK, ResumingDownloader, fetch
from mlat_lab.datasets.files import describe

# ---------------------------------------------------------------- the server


class Server(ThreadingHTTPServer):
    """Serves bytes by path, and misbehaves on request.

    Attributes
    ----------
    files : dict of path to bytes
    drop_after : list of int
        How many bytes to send before closing the connection, one entry per answer; after the
        last entry answers are whole.
    statuses : list of int
        Statuses to answer instead, one per request, before all else.
    ranges : bool
        Whether to know the Range header.
    asked : list of (path, Range header)
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.drop_after: list[int] = []
        self.statuses: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        body = self.server.files.get(unquote(self.path))
        if self.server.statuses:
            self.send_error(self.server.statuses.pop(0))
            return
        if body is None:
            self.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and self.server.ranges else 0
        if start and start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if self.server.drop_after:
            rest = rest[: self.server.drop_after.pop(0)]
        self.wfile.write(rest)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


# ---------------------------------------------------------------- archives


def zip_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def rar_of(files: dict[str, bytes]) -> bytes:
    """A RAR 4 archive whose members are stored and not compressed."""

    def block(kind: int, flags: int, body: bytes, data: bytes = b"") -> bytes:
        head = struct.pack("<BHH", kind, flags, 7 + len(body)) + body
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + data

    archive = b"Rar!\x1a\x07\x00" + block(0x73, 0, bytes(6))
    for name, content in files.items():
        path = name.replace("/", "\\").encode()
        sizes = struct.pack("<II", len(content), len(content))
        #                   system, checksum,     time, version, "store", name,      attributes
        about = struct.pack(
            "<BIIBBHI", 2, zlib.crc32(content), 0x3EFC0000, 20, 0x30, len(path), 0x20
        )
        archive += block(0x74, 0x8000, sizes + about + path, content)
    return archive + block(0x7B, 0x4000, b"")


def data_files(name: str) -> dict[str, bytes]:
    """A tiny imitation of a whole set, by path below its folder."""
    uci = SETS[name]
    if name == "scma":
        return {
            f"{p}.csv": f"0,1,2,3,{1 + i % 7}\n".encode() * 900 for i, p in enumerate(uci.people)
        }
    rows = " ".join(str(i) for i in range(8)).encode() + b"\r\n"
    if name == "emg":
        return {f"{p}/Normal/txt/Bowing.txt": rows * 40 for p in uci.people}
    rows = " ".join(str(i + 1) for i in range(28)).encode() + b"\n"
    return {f"{p}/normal/Bowing.txt": rows * 5 for p in uci.people}


@pytest.fixture(autouse=True)
def tiny_manifest(monkeypatch):
    known = {
        name: {file: describe(content) for file, content in data_files(name).items()}
        for name in ("scma", "emg", "vicon")
    }
    monkeypatch.setattr(files_module, "_shipped", lambda: known)
    monkeypatch.delenv("MLAT_DATA", raising=False)


def in_folder(name: str, files: dict[str, bytes] | None = None) -> dict[str, bytes]:
    files = data_files(name) if files is None else files
    return {f"{SETS[name].folder}/{file}": content for file, content in files.items()}


def address(name: str, which: int = 0) -> str:
    return "/" + unquote(SETS[name].addresses[which])


def one_line(error: pytest.ExceptionInfo[MlatError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------- whole downloads


def test_a_zip_is_fetched_checked_and_loads(server, tmp_path):
    extra = {"__MACOSX/._1.csv": b"?", "../evil.csv": b"?", f"{SETS['scma'].folder}/README": b"r"}
    server.files[address("scma")] = zip_of(in_folder("scma") | extra)
    seen = []
    place = fetch("scma", tmp_path, base=server.base, progress=lambda *p: seen.append(p))
    assert place == tmp_path / "scma.zip"
    assert names(tmp_path) == ["scma.zip"]
    size = len(server.files[address("scma")])
    assert seen[-1] == (size, size)
    assert zipfile.ZipFile(place).namelist() == list(in_folder("scma"))
    assert len(load("scma", tmp_path)) == 15


def test_a_good_copy_is_not_fetched_again(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    fetch("scma", tmp_path, base=server.base)
    fetch("scma", tmp_path, base=server.base)
    assert len(server.asked) == 1
    (tmp_path / "scma.zip").write_bytes(b"broken")
    fetch("scma", tmp_path, base=server.base)
    assert len(server.asked) == 2
    assert len(load("scma", tmp_path)) == 15


def test_the_default_place_is_where_the_loaders_look(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MLAT_DATA", str(tmp_path / "new" / "folder"))
    server.files[address("scma")] = zip_of(in_folder("scma"))
    fetch("scma", base=server.base + "/")
    assert len(load("scma")) == 15


def test_a_rar_in_a_zip(server, tmp_path):
    rar = rar_of(in_folder("emg") | {f"{SETS['emg'].folder}/sub1/Normal/log/Bowing.log": b"x"})
    server.files[address("emg")] = zip_of({"EMG Physical Action Data Set.rar": rar})
    fetch("emg", tmp_path, base=server.base)
    assert names(tmp_path) == ["emg.zip"]
    stream = load("emg", tmp_path)["sub4"]
    np.testing.assert_array_equal(stream.values, np.tile(np.arange(8.0), (40, 1)))


def test_a_rar_at_the_older_address(server, tmp_path):
    server.files[address("vicon", 1)] = rar_of(in_folder("vicon"))
    fetch("vicon", tmp_path, base=server.base)
    assert [path for path, _ in server.asked] == [f"/{a}" for a in SETS["vicon"].addresses]
    assert len(load("vicon", tmp_path)) == 10


# ---------------------------------------------------------------- broken and resumed


def test_a_dropped_connection_is_resumed_from_where_it_broke(server, tmp_path):
    server.files[address("scma")] = body = zip_of(in_folder("scma"))
    server.drop_after = [5 * CHUNK + 1, 3 * CHUNK + 1]
    fetch("scma", tmp_path, base=server.base, wait=0)
    ranges = [None, f"bytes={5 * CHUNK}-", f"bytes={8 * CHUNK}-"]
    assert [asked for _, asked in server.asked] == ranges
    assert len(body) > 10 * CHUNK
    assert len(load("scma", tmp_path)) == 15


def test_a_later_run_goes_on_where_an_earlier_one_gave_up(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    server.drop_after = [5 * CHUNK, 0, 0]
    with pytest.raises(ServiceError) as error:
        fetch("scma", tmp_path, base=server.base, attempts=3, wait=0)
    assert "cannot be downloaded" in one_line(error)
    assert f"{5 * CHUNK:,} bytes are kept, run the command again to go on" in one_line(error)
    assert names(tmp_path) == ["scma.part"]
    fetch("scma", tmp_path, base=server.base)
    assert server.asked[-1][1] == f"bytes={5 * CHUNK}-"
    assert names(tmp_path) == ["scma.zip"]


def test_a_server_without_ranges_starts_over(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    server.ranges = False
    server.drop_after = [5 * CHUNK]
    fetch("scma", tmp_path, base=server.base, wait=0)
    assert len(load("scma", tmp_path)) == 15


def test_a_part_that_is_whole_or_stale(server, tmp_path):
    server.files["/f"] = b"0123456789"
    part = tmp_path / "f.part"
    for held in (b"0123456789", b"something longer, of another file"):
        part.write_bytes(held)
        ResumingDownloader(part, wait=0)(f"{server.base}/f", str(tmp_path / "f"))
        assert (tmp_path / "f").read_bytes() == b"0123456789"
        assert not part.exists()


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    server.statuses = [503, 429]
    fetch("scma", tmp_path, base=server.base, wait=0)
    assert len(server.asked) == 3


def test_no_server(tmp_path):
    with pytest.raises(ServiceError) as error:
        fetch("scma", tmp_path, base="http://127.0.0.1:9", attempts=2, wait=0)
    assert "cannot be downloaded: no connection" in one_line(error)


# ---------------------------------------------------------------- wrong


def changed(files: dict[str, bytes]) -> dict[str, bytes]:
    first = next(iter(files))
    return files | {first: files[first].replace(b"1", b"2", 1)}


def html_page() -> bytes:
    return b"<!doctype html><title>UCI</title>"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda: zip_of(changed(in_folder("emg"))), "1 file with a wrong checksum (first: sub1/"),
        (lambda: zip_of(dict(list(in_folder("emg").items())[1:])), "1 file missing from what came"),
        (lambda: zip_of({"else.txt": b"x"}), "4 files missing from what came"),
        (lambda: rar_of(in_folder("emg")).replace(b"2 3 4", b"2 3 5", 1), "the rar that came is"),
        (lambda: rar_of(in_folder("emg"))[:900], "emg: "),
        (lambda: zip_of(in_folder("emg")).replace(b"2 3 4", b"2 3 5", 1), "the zip that came is"),
        (lambda: zip_of(in_folder("emg"))[:-30], "neither a zip nor a rar"),
        (html_page, "neither a zip nor a rar (it starts with b'<!doct')"),
    ],
)
def test_a_wrong_archive_is_refused_and_nothing_is_kept(server, tmp_path, body, says):
    server.files[address("emg")] = body()
    with pytest.raises(InputError) as error:
        fetch("emg", tmp_path, base=server.base)
    assert says in one_line(error)
    assert names(tmp_path) == []
    server.files[address("emg")] = zip_of(in_folder("emg"))
    fetch("emg", tmp_path, base=server.base)
    assert len(load("emg", tmp_path)) == 4


def test_no_address_has_it(server, tmp_path):
    with pytest.raises(ServiceError) as error:
        fetch("scma", tmp_path, base=server.base)
    assert "scma is at none of its addresses" in one_line(error)
    assert "UCI data set 287" in one_line(error)


def test_a_refusal_is_not_retried(server, tmp_path):
    server.statuses = [403]
    with pytest.raises(ServiceError, match="cannot be downloaded: 403"):
        fetch("scma", tmp_path, base=server.base)


def test_without_the_rar_package_the_download_is_kept_for_later(server, tmp_path, monkeypatch):
    server.files[address("emg")] = zip_of({"x.rar": rar_of(in_folder("emg"))})
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "unrar.cffi.unrarlib", None)
        with pytest.raises(MissingPackageError) as error:
            fetch("emg", tmp_path, base=server.base)
    assert "pip install 'mlat-lab[data]'" in one_line(error)
    assert names(tmp_path) == ["emg.download"]
    fetch("emg", tmp_path, base=server.base)
    assert len(server.asked) == 1
    assert names(tmp_path) == ["emg.zip"]


def test_without_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingPackageError, match="downloading needs the pooch package"):
        fetch("scma", tmp_path)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"")
    with pytest.raises(InputError, match="is a file; give `data` a folder"):
        fetch("scma", tmp_path / "x.zip")


# ---------------------------------------------------------------- the command


def test_the_command(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    done = CliRunner().invoke(
        app, ["fetch", "SCMA", "--data", str(tmp_path), "--base", server.base]
    )
    assert done.exit_code == 0
    assert done.stdout.replace("\n", "") == f"scma: {tmp_path / 'scma.zip'}"
    assert CliRunner().invoke(app, ["check", "scma", "--data", str(tmp_path)]).exit_code == 0


def test_the_command_with_an_unknown_set(server, tmp_path):
    server.files[address("scma")] = zip_of(in_folder("scma"))
    done = CliRunner().invoke(app, ["fetch", "scma", "mnist", "--data", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr == "mlat: unknown data set 'mnist'; there are scma, arem, emg, vicon\n"
    assert server.asked == []
