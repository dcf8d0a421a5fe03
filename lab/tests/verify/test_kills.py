"""What a killed process has printed is on disk, and is printed once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from live_runs import batches, write_journal
from mlat.live.journal.description import BrokenError
from mlat.live.run.output import json_lines
from mlat_lab.verify.kills import Printed


def test_what_was_printed_is_compared_with_the_disk(tmp_path):
    write_journal(tmp_path, batches()[:2])
    predictions = [p for b in batches() for p in b.predictions]
    out = tmp_path / "out"

    def printed(text: str, before: Printed) -> Printed:
        out.write_text(text)
        before.check(out, tmp_path)
        return before

    shown = printed(json_lines(predictions[:5]), Printed())
    printed(json_lines(predictions[8:12]), shown)  # 5 to 7 were on disk, but never printed
    with pytest.raises(BrokenError, match="step 11 was printed twice"):
        printed(json_lines(predictions[11:13]), shown)
    with pytest.raises(BrokenError, match="step 20 was printed, but is not on disk"):
        printed(json_lines(predictions[19:21]), Printed())
    with pytest.raises(BrokenError, match="step 14 was printed after step 12"):
        printed(json_lines([predictions[12], predictions[14]]), Printed())
    with pytest.raises(BrokenError, match="step 3: why was printed as 'far'"):
        printed(json_lines([replace(predictions[3], why="far")]), Printed())
    with pytest.raises(BrokenError, match="of a step that is not on disk"):
        printed(json_lines(predictions[18:20]) + '{"step": 20, "sta', Printed())
