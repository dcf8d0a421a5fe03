"""What has been computed, kept line by line so that a killed run can go on.

A line is one finished job as JSON. It is on the disk before the next job is counted as done; a
line that was torn by a crash is not a result and is passed over.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ...disk import lock
from ...errors import DiskError, InputError


class Job(NamedTuple):
    """One system, trained on one amount of one split."""

    data_set: str
    person: str
    run: int
    protocol: str
    system: str
    size: str


# What a result says beside its job. A line that lacks one of these is not a result.
FIELDS = (
    "fingerprint",
    "accuracy",
    "right",
    "total",
    "n_train",
    "n_test",
    "left_out",
    "fit_seconds",
    "predict_seconds",
)
Result = dict[str, Any]
Results = dict[tuple[Job, str], Result]  # by job and fingerprint


def job_of(result: Result) -> Job:
    return Job(*(result[field] for field in Job._fields))


class Journal:
    """The results in a file, and a place to add more.

    Parameters
    ----------
    path : path
        Made where it does not exist; its folder must.

    Attributes
    ----------
    results : dict of (Job, fingerprint) to Result
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            # Read and append: what is there is never rewritten.
            self._file = open(self.path, "a+b")  # noqa: SIM115
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}); choose another --out"
            ) from None
        self._lock()
        self._file.seek(0)
        content = self._file.read()
        self.results = _parse_all(content)
        if content and not content.endswith(b"\n"):
            self._write(b"\n")  # ends the torn line, so that the next begins on its own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, result: Result) -> None:
        """Keep a result; when this returns it survives a crash."""
        self._write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
        self.results[job_of(result), result["fingerprint"]] = result

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}); what it holds already stays, "
                "and the same command goes on from there"
            ) from None

    def _lock(self) -> None:
        """Two runs that write to one folder would both do the same work."""
        try:
            lock(
                self._file.fileno(),
                f"{self.path} is in use by another run; wait for it, or choose another folder",
            )
        except DiskError:
            self._file.close()
            raise


def read_results(path: str | os.PathLike[str]) -> Results:
    """What a journal holds, without writing to it: a run may be adding to it.

    A journal that does not exist holds nothing.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    return _parse_all(content)


def _parse_all(content: bytes) -> Results:
    results: Results = {}
    for line in content.split(b"\n"):
        result = _parse(line)
        if result is not None:
            results[job_of(result), result["fingerprint"]] = result
    return results


def _parse(line: bytes) -> Result | None:
    try:
        result = json.loads(line)
    except ValueError:
        return None
    if not isinstance(result, dict) or not all(f in result for f in (*Job._fields, *FIELDS)):
        return None
    return result
