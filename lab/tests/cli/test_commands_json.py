"""What the laboratory's commands say, as JSON for programs."""

import json

from typer.testing import CliRunner

from mlat_lab.cli.commands import app


def test_bench():
    few = ["--test", "20", "--no-ldmlt", "--case", "stream", "--peer", "dtaidistance"]
    told = CliRunner().invoke(app, ["bench", "dtw", "--json", *few])
    assert told.exit_code == 0, told.output
    assert {row["case"] for row in json.loads(told.stdout)} == {"stream"}
    assert "stream" in told.stderr
