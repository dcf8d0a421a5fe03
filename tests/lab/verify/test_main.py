"""The program: its output and its exit status."""

from __future__ import annotations

from live_runs import CLF, batches, run, write_journal
from mlat.lab.verify.__main__ import main


def test_the_program(tmp_path, capsys):
    CLF.save(tmp_path / "walk.mlat")
    run([], tmp_path / "journal")
    asked = ["check", str(tmp_path / "journal"), str(tmp_path / "walk.mlat")]
    assert main(asked) == 0
    assert "verify: 0 records in 1 segments" in capsys.readouterr().out
    write_journal(tmp_path / "wrong", batches()[1:])
    assert main(["check", str(tmp_path / "wrong"), str(tmp_path / "walk.mlat")]) == 1
    assert capsys.readouterr().err.startswith("verify: WRONG: record 0: step 10 where 0")
    assert main(["check", str(tmp_path / "none"), str(tmp_path / "walk.mlat")]) == 1
    assert main(["check", str(tmp_path / "journal"), str(tmp_path / "none.mlat")]) == 2
