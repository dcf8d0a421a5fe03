"""A damaged or incomplete journal is not read."""

from __future__ import annotations

import pytest

from live_runs import batches, write_journal
from mlat.live.journal.description import BrokenError, read_journal


def test_faults_on_disk_are_found(tmp_path):
    write_journal(tmp_path, batches())
    first, second, *_ = sorted(tmp_path.glob("*.journal"))
    content = first.read_bytes()
    first.write_bytes(content[:-3] + b"xyz")
    with pytest.raises(BrokenError, match="bad record at byte"):
        read_journal(tmp_path)
    first.write_bytes(content)
    second.rename(tmp_path / "second")
    with pytest.raises(BrokenError, match="are missing"):
        read_journal(tmp_path)
