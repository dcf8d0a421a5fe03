"""The journal of results: an append-only file, so that a killed run can go on.

A line is one finished job as JSON. It is on the disk before the job counts as done. A line that
was torn by a crash is not a result and is skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from mlat.base.append_log import AppendLog
from mlat.base.disk import disk_errors


class Job(NamedTuple):
    """One system, trained on one amount of one split."""

    data_set: str
    person: str
    run: int
    protocol: str
    system: str
    size: str


# The fields of a result beside those of its job. A line that lacks one of them is not a result.
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


class Journal(AppendLog):
    """The results in a file, which is locked for this process and takes more of them.

    Parameters
    ----------
    path : path
        Made where it does not exist; its folder must.

    Attributes
    ----------
    results : dict of (Job, fingerprint) to Result

    Raises
    ------
    DiskError
        If the file cannot be opened, or another run has it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.results: Results = {}
        super().__init__(
            Path(path),
            self._read,
            # Two runs that write to one journal would both do the same work.
            in_use=f"{path} is in use by another run; wait for it, or choose another folder",
            then="what it holds already stays, and the same run goes on from there",
        )
        if self._is_torn:
            self.write(b"\n")  # ends the torn line, so that the next begins on its own

    def add(self, result: Result) -> None:
        """Keep a result; when this returns it survives a crash."""
        self.write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
        self.results[job_of(result), result["fingerprint"]] = result

    def _read(self, content: bytes) -> int:
        self.results = _parse_all(content)
        self._is_torn = content[-1:] not in (b"", b"\n")
        return len(content)


def read_results(path: str | os.PathLike[str]) -> Results:
    """What a journal holds, while a run may be adding to it; nothing if it does not exist.

    Raises
    ------
    DiskError
        If it cannot be read.
    """
    path = Path(path)
    if not path.exists():
        return {}
    with disk_errors(path):
        return _parse_all(path.read_bytes())


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
