"""Kill -9 at any moment: no step lost, none classified twice, none out of order."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import brokers
import mlat
from cli_runs import write_csv
from live_runs import batches, write_journal
from mlat.live.core.session import LiveSession
from mlat.live.core.steps import Predictions
from mlat.live.journal.journal import read_journal
from mlat.live.journal.verify import BrokenError, main
from mlat.live.run.output import json_lines
from mlat.synthetic import rotating_states
from mlat_lab.verify.kills import SMALL, Forked, Printed

N_STEPS = 8000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of one expert and of several, and a recording with some missing values."""
    place = tmp_path_factory.mktemp("kill")
    made = {"n_channels": 4, "noise": 0.3}
    mlat.StreamClassifier(8, metric="euclidean").fit(rotating_states(**made)).save(
        place / "walk.mlat"
    )
    mlat.StreamClassifier(8, reach=10).fit(rotating_states(**made)).save(place / "experts.mlat")
    stream = rotating_states(**made, random_state=1, runs_per_state=40)
    values = stream.values[:N_STEPS].copy()
    values[np.random.default_rng(0).integers(0, N_STEPS, 20), 1] = np.nan
    write_csv(place / "walk.csv", mlat.Stream(values, channels=stream.channels))
    return place


def verify(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mlat_lab.verify", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.parametrize(("model", "n"), [("walk.mlat", 50), ("experts.mlat", 20)])
def test_killed_again_and_again(folder, tmp_path, model, n):
    """A separate program kills it, and checks by the description of the files."""
    found = verify(
        "run", folder / model, folder / "walk.csv", "--kills", n, "--fork",
        "--journal", tmp_path, "--seed", 4,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert re.search(rf"verify: {n} kills in \d+ rounds", found.stdout)
    for moment in ("starting", "running", "new .snapshot", "new .journal"):
        assert f"at {moment}" in found.stdout, "no kill met this moment"
    assert f"{N_STEPS} of {N_STEPS} steps of the recording" in found.stdout
    assert "all equal predict on the whole stream" in found.stdout
    # The same journal at rest.
    journal = tmp_path / "round-0" / "journal"
    assert main([str(journal), str(folder / model), str(folder / "walk.csv")]) == 0


@pytest.mark.slow
def test_killed_from_the_interpreter_up(folder):
    """Without the shortcut of forking from a process that has imported everything."""
    found = verify("run", folder / "walk.mlat", folder / "walk.csv", "--kills", 3, "--pace", "8000")
    assert found.returncode == 0, found.stderr
    assert "verify: 3 kills" in found.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_minute_of_chaos():
    """Kills, a slow and a full disk, jumping clocks, two pages of each, a broker that restarts."""
    brokers.need("mosquitto")
    pytest.importorskip("paho.mqtt.client")
    found = verify("chaos", "--seconds", 60, "--seed", 2)
    assert found.returncode == 0, found.stderr
    assert re.search(r"verify: \d+ kills .* \d+ restarts of the broker, \d+ examples", found.stdout)
    assert "at full disk" in found.stdout
    assert re.search(r"(\d+) of \1 steps of the recording", found.stdout)
    assert "that were answered, each once" in found.stdout
    assert re.search(r"labels of two tabs: \d+ edits, .*nothing acknowledged is lost", found.stdout)


@pytest.mark.slow
def test_killed_while_a_broker_sends(folder, tmp_path):
    """What was not on disk was not acknowledged, so the broker sends it again.

    It also sends again what was acknowledged, if it had not yet read that: here it is a slow one,
    which writes every change to disk. The steps have no numbers to tell which they are.
    """
    brokers.need("mosquitto")
    paho = pytest.importorskip("paho.mqtt.client")
    values = np.random.default_rng(1).normal(size=(1200, 4))
    chance = random.Random(5)
    Forked.prepare(folder / "walk.mlat")
    with brokers.Broker("mosquitto", tmp_path) as broker:
        source = f"mqtt://127.0.0.1:{broker.port}/walk?client=desk"
        journal = tmp_path / "journal"
        printed = Printed()

        def begin(i: int) -> tuple[Forked, Path]:
            out, said = tmp_path / f"out-{i}", tmp_path / f"said-{i}"
            arguments = ["live", folder / "walk.mlat", "--source", source, "--journal", journal]
            life = Forked([*map(str, arguments), *SMALL], out, said)
            wait_for(lambda: said.exists() and source.partition("?")[0] in said.read_text())
            return life, out

        life, out = begin(0)
        publisher = paho.Client(paho.CallbackAPIVersion.VERSION2)
        publisher.max_inflight_messages_set(1)  # so that they reach the broker in their order
        publisher.connect("127.0.0.1", broker.port)
        publisher.loop_start()
        sent = [publisher.publish("walk", json.dumps(row.tolist()), qos=1) for row in values]
        for i in range(1, 6):
            time.sleep(chance.uniform(0.0, 0.3))
            life.kill()
            printed.check(out, journal)
            life, out = begin(i)
        for message in sent:
            message.wait_for_publish(60)
        wait_for(lambda: len(read_journal(journal).records.predictions) >= len(values))
        life.kill()
        publisher.loop_stop()
        printed.check(out, journal)
    kept = read_journal(journal).records
    arrived = [one.steps.values for one in kept.whole.arrivals]
    np.testing.assert_array_equal(np.concatenate(arrived), values)
    assert [one.step for one in kept.predictions] == list(range(len(values)))
    expected = LiveSession(mlat.load(folder / "walk.mlat")).push(values)
    assert [one.state for one in kept.predictions] == [p.state for p in expected]


def wait_for(happens: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_what_was_printed_is_compared_with_the_disk(tmp_path):
    write_journal(tmp_path, batches()[:2])
    predictions = Predictions.joined(b.predictions for b in batches())
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
        printed(json_lines(predictions[12:13]) + json_lines(predictions[14:15]), Printed())
    with pytest.raises(BrokenError, match="step 3: why was printed as 'far'"):
        printed(
            json_lines(replace(predictions[3:4], reasons=["far"], why=np.array([0]))), Printed()
        )
    with pytest.raises(BrokenError, match="of a step that is not on disk"):
        printed(json_lines(predictions[18:20]) + '{"step": 20, "sta', Printed())
