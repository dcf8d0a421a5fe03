"""Lines of text, in blocks as they arrive, to steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from ..steps import Steps
from .csv_rows import CsvRows, is_comment
from .payloads import MOST_BYTES, json_rows
from .rows import MalformedError, Row, as_steps, merge_refusals
from .source import Refusal

_BOM = b"\xef\xbb\xbf"


class LineParser:
    """Takes blocks of bytes cut anywhere and gives the steps of the lines they complete.

    The first line that is neither empty nor a comment decides: JSON if it begins with ``{`` or
    ``[``, else CSV. A line longer than ``max_line`` bytes is refused; no more than that is ever
    kept of it.

    Parameters
    ----------
    channels : names of the model's channels, in its order
    name : str
        What to call the source in a refusal.

    Examples
    --------
    >>> parser = LineParser(("ax", "ay"))
    >>> parser.feed(b"ay,ax,note\\n1,2,a\\n3,fa")
    [Steps(values=array([[2., 1.]]), seq=None, time=None)]
    >>> parser.feed(b"st,b\\n")[0].reason
    "lines, line 3: channel 'ax' is 'fast', which is not a number; leave a missing value empty"
    """

    def __init__(
        self, channels: tuple[str, ...], name: str = "lines", max_line: int = MOST_BYTES
    ) -> None:
        self._channels = channels
        self._name = name
        self._max_line = max_line
        self._kept: list[bytes] = []  # the begin of a line, in the pieces it came in
        self._n_kept = 0
        self._too_long = False
        self._line = 0
        self._read: Callable[[bytes], list[Row]] | None = None

    def feed(self, block: bytes) -> list[Steps | Refusal]:
        """The steps and refusals of the lines that this block completes, in their order."""
        return _gather(self._outcomes(block))

    def finish(self) -> list[Steps | Refusal]:
        """Those of a last line that no newline ended."""
        return self.feed(b"\n") if self._kept or self._too_long else []

    def _outcomes(self, block: bytes) -> Iterator[tuple[str, str] | Row]:
        *ended, rest = block.split(b"\n")
        for line in ended:
            self._line += 1
            whole = self._end_line(line)
            place = f"{self._name}, line {self._line}"
            if whole is None:
                yield place, f"longer than {self._max_line} bytes; break it into lines"
                continue
            try:
                yield from self._rows(whole)
            except MalformedError as error:
                yield place, str(error)
        self._keep(rest)

    def _rows(self, line: bytes) -> list[Row]:
        if self._line == 1:
            line = line.removeprefix(_BOM)
        line = line.removesuffix(b"\r")
        if self._read is None:
            begin = line.lstrip()
            if not begin or is_comment(begin):
                return []
            self._read = self._read_json if begin[:1] in (b"{", b"[") else self._csv_reader(line)
        return self._read(line)

    def _read_json(self, line: bytes) -> list[Row]:
        return json_rows(line, self._channels) if line.strip() else []

    def _csv_reader(self, first: bytes) -> Callable[[bytes], list[Row]]:
        read = CsvRows(self._channels, first).read

        def rows(line: bytes) -> list[Row]:
            row = read(line)
            return [] if row is None else [row]

        return rows

    def _end_line(self, end: bytes) -> bytes | None:
        """The whole line, None if it is too long."""
        if not self._kept and not self._too_long:
            return end if len(end) <= self._max_line else None
        self._keep(end)
        whole = None if self._too_long else b"".join(self._kept)
        self._kept, self._n_kept, self._too_long = [], 0, False
        return whole

    def _keep(self, piece: bytes) -> None:
        if not piece or self._too_long:
            return
        self._n_kept += len(piece)
        if self._n_kept > self._max_line:
            self._kept, self._too_long = [], True
        else:
            self._kept.append(piece)


def _gather(outcomes: Iterator[tuple[str, str] | Row]) -> list[Steps | Refusal]:
    """Rows that follow each other as one batch, refusals that follow each other as one."""
    gathered: list[Steps | Refusal] = []
    for is_step, group in groupby(outcomes, lambda outcome: isinstance(outcome, Row)):
        if is_step:
            gathered += as_steps(row for row in group if isinstance(row, Row))
        else:
            gathered.append(merge_refusals([o for o in group if not isinstance(o, Row)]))
    return gathered
