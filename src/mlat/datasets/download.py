"""A download that can be interrupted: what has come is kept, and only the rest is asked for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from ..errors import InputError

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
