"""``mlat live``: lines in, lines out, one line for whatever is wrong, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mlat
from cli_runs import SENSORS, refused, run, write_csv
from journal_description import read_journal
from mlat.cli.live import parse_address
from mlat.live.core.session import LiveSession
from mlat.live.journal.journal import Identity, Journal
from mlat.live.page.hub import MOST_STEPS
from mlat.synthetic import rotating_states

STREAM = rotating_states(**SENSORS, random_state=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("live")
    write_csv(place / "walk.csv", STREAM)
    clf = mlat.StreamClassifier(8, metric="euclidean").fit(rotating_states(**SENSORS))
    clf.save(place / "walk.mlat")
    other = mlat.StreamClassifier(6, metric="euclidean").fit(rotating_states(**SENSORS))
    other.save(place / "other.mlat")
    return place


def play(
    folder: Path, *options: object, model: str = "walk.mlat", source: Path | None = None
) -> tuple[str, str]:
    source = f"replay:{source or folder / 'walk.csv'}@max"
    return run("live", folder / model, "--source", source, "--far", "off", *options)


@contextmanager
def process(
    folder: Path, *options: object, stdout: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process of its own, with its three streams as pipes."""
    program = "from mlat.cli import main; main()"
    given = ["live", folder / "walk.mlat", *options]
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, given)],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        bufsize=0,  # so that select sees what is unread
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for stream in filter(None, (child.stdin, child.stdout, child.stderr)):
            stream.close()


def line_of(values: object) -> bytes:
    return json.dumps([float(v) for v in values]).encode() + b"\n"


def read_line(stream, seconds: float = 60.0) -> str:
    assert select.select([stream], [], [], seconds)[0], "nothing was said"
    return stream.readline().decode()


def read_until(stream, words: str) -> str:
    while True:
        line = read_line(stream)
        assert line, f"it ended without saying {words!r}"
        if words in line:
            return line


# Lines out


def test_every_step_of_a_recording(folder):
    out, error = play(folder)
    told = [json.loads(line) for line in out.splitlines()]
    assert [p["step"] for p in told] == list(range(len(STREAM)))
    expected = mlat.load(folder / "walk.mlat").predict(mlat.Stream(STREAM.values))
    assert [p["state"] for p in told] == expected.tolist()
    assert {"proba", "distance", "why", "neighbours", "seq", "time"} <= set(told[-1])
    assert f"mlat: {len(STREAM)} steps, 7 of them unknown, 0 refused" in error


def test_a_channel_that_is_not_as_in_training_is_said_once(folder, tmp_path):
    moved = STREAM.values.copy()
    moved[20:, 0] += 9 * mlat.load(folder / "walk.mlat").scale_[0]
    write_csv(tmp_path / "moved.csv", STREAM.with_values(moved))
    _, error = play(folder, source=tmp_path / "moved.csv")
    (said,) = [line for line in error.splitlines() if "not as in training" in line]
    assert f"not as in training: {STREAM.channels[0]} is " in said
    assert "deviations higher than in training" in said


def test_csv(folder):
    out, _ = play(folder, "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == len(STREAM)
    assert (rows[0]["step"], rows[0]["state"], rows[0]["why"]) == ("0", "", "filling")
    assert float(rows[-1]["distance"]) > 0


@pytest.mark.skipif(os.name == "nt", reason="no terminals as files")
@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_a_terminal_is_not_flooded_beside_a_page(folder, options):
    ours, terminal = os.openpty()
    source = ("--source", f"replay:{folder / 'walk.csv'}@max", "--serve", "127.0.0.1:0")
    try:
        with process(folder, *source, *options, stdout=terminal) as child:
            if options:
                assert select.select([ours], [], [], 60)[0]
                assert os.read(ours, 2) == b'{"'
            else:
                read_until(child.stderr, "the source has ended")
                assert not select.select([ours], [], [], 0)[0]
    finally:
        os.close(ours)
        os.close(terminal)


def test_filtered(folder):
    out, _ = play(folder, "--filtered")
    expected = mlat.load(folder / "walk.mlat").predict(mlat.Stream(STREAM.values), filtered=True)
    assert [json.loads(line)["state"] for line in out.splitlines()] == expected.tolist()


# A journal


def test_a_journal_goes_on_and_prints_again_only_when_asked(folder, tmp_path):
    journal = ("--journal", tmp_path / "journal")
    first, _ = play(folder, *journal)
    again, error = play(folder, *journal)
    assert again == ""
    assert f"records, with step {len(STREAM)}\n" in error
    from_there, _ = play(folder, *journal, "--again", 100)
    assert from_there.splitlines() == first.splitlines()[100:]
    assert len(read_journal(tmp_path / "journal").predictions) == len(STREAM)


def test_a_journal_of_something_else_is_refused(folder, tmp_path):
    journal = ("--journal", tmp_path)
    play(folder, *journal)
    source = ("--source", f"replay:{folder / 'walk.csv'}@max")
    line = refused("live", folder / "other.mlat", *source, *journal, "--far", "off")
    assert "is the journal of another model" in line
    line = refused("live", folder / "walk.mlat", *source, *journal, "--far", "off", "--hold", 3)
    assert "was begun with hold=5, now it is 3" in line
    session = LiveSession(mlat.load(folder / "walk.mlat"), far=None, teachable=MOST_STEPS)
    with Journal(tmp_path, Identity.of(session)):
        line = refused("live", folder / "walk.mlat", *source, *journal, "--far", "off")
    assert "is in use by another mlat live" in line
    segment = next(tmp_path.glob("*.journal"))
    content = bytearray(segment.read_bytes())
    content[30] ^= 1
    segment.write_bytes(content)
    line = refused("live", folder / "walk.mlat", *source, *journal, "--far", "off")
    assert f"{segment.name} is damaged at byte 0" in line


# One line for what is wrong


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--source", "fax:1"], "source 'fax' is not known"),
        (["--source", "replay:none.csv"], "none.csv"),
        (["--source", "-", "--far", "near"], "--far must be a number above 0 or off, not 'near'"),
        (["--source", "-", "--serve", "here"], "--serve here: give a host and a port"),
        (["--source", "-", "--token", "12345678"], "add --serve HOST:PORT"),
        (["--source", "-", "--keep", "3"], "--keep is about the journal; add --journal DIR"),
        (["--source", "-", "--fsync", "off"], "add --journal DIR"),
        (["--source", "-", "--again", "0"], "add --journal DIR"),
        (["--source", "-", "--reorder", "4"], "--reorder needs --order-by seq or --order-by time"),
        (["--source", "-", "--missing", "guess"], "'guess'"),
        (["--source", "-", "--rate", "-1"], "--rate must be a number above 0, not -1"),
        (["--source", "-", "--serve", "0.0.0.0:0"], "token"),
        ([], "Missing option '--source'"),
    ],
)
def test_wrong_options(folder, options, words, monkeypatch):
    if words == "token":  # which is missed before anything is compiled
        monkeypatch.setattr(LiveSession, "warm_up", lambda session: 1 / 0)
    assert words in refused("live", folder / "walk.mlat", *options)


def test_a_recording_of_other_sensors(folder, tmp_path):
    few = mlat.Stream(STREAM.values[:, :2], channels=STREAM.channels[:2])
    write_csv(tmp_path / "few.csv", few)
    line = refused("live", folder / "walk.mlat", "--source", f"replay:{tmp_path / 'few.csv'}")
    assert "few.csv, line 1: no column 'sensor 3'" in line


def test_a_port_in_use(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(
            "live", folder / "walk.mlat", "--source", "-", "--serve", f"127.0.0.1:{port}"
        )
    assert f"cannot serve on 127.0.0.1:{port}: address already in use" in line


def test_addresses_and_factors():
    assert parse_address("8765") == ("127.0.0.1", 8765)
    assert parse_address("0.0.0.0:80") == ("0.0.0.0", 80)
    assert parse_address("[::1]:0") == ("::1", 0)


# In a process of its own


def test_lines_in_while_they_come_and_an_end_by_ctrl_c(folder):
    with process(folder, "--source", "-") as child:
        child.stdin.write(b"".join(line_of(values) for values in STREAM.values[:9]))
        told = [json.loads(read_line(child.stdout)) for _ in range(9)]
        assert told[-1]["state"]
        # What is no step is counted and said, and the session goes on.
        child.stdin.write(b"[1, 2]\nnonsense\n" + line_of(STREAM.values[9]))
        assert json.loads(read_line(child.stdout))["step"] == 9
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        said = child.stderr.read().decode()
    assert "Traceback" not in said
    assert len(re.findall("^mlat: refused", said, re.MULTILINE)) in (1, 2)
    assert re.search(r"^mlat: 10 steps, 7 of them unknown, 2 refused", said, re.MULTILINE)


def test_an_end_by_sigterm_is_one(folder, tmp_path):
    source = f"replay:{folder / 'walk.csv'}@50"
    with process(folder, "--source", source, "--journal", tmp_path) as child:
        told = [json.loads(read_line(child.stdout))["step"] for _ in range(5)]
        child.terminate()
        assert child.wait(30) == 0
        told += [json.loads(line)["step"] for line in child.stdout.read().splitlines()]
        assert "steps" in child.stderr.read().decode().splitlines()[-1]
    assert told == [one["step"] for _, one in read_journal(tmp_path).predictions]
    assert list(tmp_path.glob("*.snapshot"))


def test_a_broken_pipe_ends_it_quietly(folder, tmp_path):
    source = f"replay:{folder / 'walk.csv'}@2000"
    with process(folder, "--source", source, "--journal", tmp_path) as child:
        read_line(child.stdout)
        child.stdout.close()
        assert child.wait(30) == 1
        said = child.stderr.read().decode()
    assert "Traceback" not in said
    assert "Broken" not in said
    assert read_journal(tmp_path).unfinished == 0


def test_a_reader_who_does_not_read_cannot_hold_it_up(folder, tmp_path):
    long = mlat.Stream(STREAM.values.repeat(40, axis=0), channels=STREAM.channels)
    write_csv(tmp_path / "long.csv", long)
    source = f"replay:{tmp_path / 'long.csv'}@max"
    with process(folder, "--source", source) as child:
        read_until(child.stderr, "from row 0")
        deadline = time.monotonic() + 30
        size = -1
        while (unread := _unread(child.stdout)) != size and time.monotonic() < deadline:
            size = unread  # until the pipe is full
            time.sleep(0.3)
        child.terminate()
        assert child.wait(30) == 0


def _unread(stream) -> int:
    import array
    import fcntl
    import termios

    size = array.array("i", [0])
    fcntl.ioctl(stream, termios.FIONREAD, size)
    return size[0]


def test_a_page_to_watch_and_to_teach(folder, tmp_path):
    options = ("--source", "-", "--serve", "127.0.0.1:0", "--journal", tmp_path)
    with process(folder, *options) as child:
        url = read_until(child.stderr, "page at").split()[-1]
        child.stdin.write(b"".join(line_of(values) for values in STREAM.values[:20]))
        while json.loads(read_line(child.stdout))["step"] < 19:
            pass
        health = json.loads(_get(url + "healthz"))
        assert health["ok"]
        assert health["steps"] == 20
        example = {"state": "dance", "n": 2}
        assert json.loads(_get(_post(url + "teach", example))) == example
        assert read_journal(tmp_path).inputs[-1][1:] == ("teach", {"state": "dance", "n": 2})
        span = {"state": "spin", "begin": 5, "end": 20}
        assert json.loads(_get(_post(url + "teach", span)))["state"] == "spin"
        assert json.loads(_get(_post(url + "undo", {})))["state"] == "spin"
        assert [kind for _, kind, _ in read_journal(tmp_path).inputs[-2:]] == ["teach span", "undo"]
        model = folder / "walk.mlat"
        before = model.read_bytes()
        name = json.loads(_get(_post(url + "save", {})))["file"]
        assert "dance" in mlat.load(model.with_name(name)).classes_
        assert json.loads(_get(_post(url + "save", {})))["file"] == name  # nothing new was taught
        assert model.read_bytes() == before
        model.with_name(name).unlink()
        child.stdin.close()  # the source ends, the page stays
        read_until(child.stderr, "the page stays until Ctrl-C")
        assert json.loads(_get(url + "healthz"))["steps"] == 20
        child.terminate()
        assert child.wait(30) == 0


def _post(url: str, body: dict[str, object]) -> urllib.request.Request:
    content = {"Content-Type": "application/json"}
    return urllib.request.Request(url, json.dumps(body).encode(), content)


def _get(what: str | urllib.request.Request) -> bytes:
    with urllib.request.urlopen(what, timeout=20) as answer:
        return answer.read()


def test_a_broker_that_is_not_there_is_said(folder):
    pytest.importorskip("aiomqtt")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with process(folder, "--source", f"mqtt://127.0.0.1:{port}/walk") as child:
        assert "try 2 in" in read_until(child.stderr, "refused")
        child.terminate()
        assert child.wait(30) == 0


def test_refused_web_sockets_are_said_in_a_line(folder):
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with process(folder, "--source", "-", "--serve", "127.0.0.1:0") as child:
        port = int(read_until(child.stderr, "page at").rpartition(":")[2].strip("/\n"))
        for headers in ("", key, f"{key}Origin: http://elsewhere\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                request = f"GET /none HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{upgrade}{headers}\r\n"
                connection.sendall(request.encode())
                assert connection.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 403")
        child.send_signal(signal.SIGTERM)
        said = child.stderr.read().decode().splitlines()
    assert child.wait(60) == 0
    assert said
    assert all(line.startswith("mlat: ") for line in said)


@pytest.mark.slow
def test_compiling_is_said_before_the_source_is_opened(folder, tmp_path):
    code = (
        "import sys\n"
        "from mlat.base.compiled import say_compiling\n"
        "from mlat.live.core.session import LiveSession\n"
        "sys.argv = ['mlat', *sys.argv[1:]]\n"
        "warm_up = LiveSession.warm_up\n"
        "def then_listen(session):\n"
        "    warm_up(session)\n"
        "    push = session.push\n"
        "    def listened(*given):\n"
        "        with say_compiling(lambda text: print('LATE', text, file=sys.stderr)):\n"
        "            return push(*given)\n"
        "    session.push = listened\n"
        "LiveSession.warm_up = then_listen\n"
        "from mlat.cli import main; main()\n"
    )
    command = ["live", folder / "walk.mlat", "--source", f"replay:{folder / 'walk.csv'}@max"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, command)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, third, *rest = done.stderr.splitlines()
    assert first == "mlat: compiling, once; this takes up to a minute or two"
    assert re.fullmatch(r"mlat: compiled in \d+ s", second)
    assert third.endswith("from row 0")
    assert not any(line.startswith("LATE") for line in rest)


@pytest.mark.slow
def test_a_example_and_a_missing_value_compile_nothing_either(folder, tmp_path):
    code = (
        "import sys, numpy as np, mlat\n"
        "from mlat.base.compiled import say_compiling\n"
        "clf = mlat.load(sys.argv[1])\n"
        "live = clf.live()\n"
        "with say_compiling(lambda text: print('FIRST', text)):\n"
        "    live.warm_up()\n"
        "steps = clf.windows_.values[:60].astype(float)\n"
        "with say_compiling(lambda text: print('LATE', text)):\n"
        "    live.push(steps)\n"
        "    live.teach('another', n=2)\n"
        "    live.push(steps)\n"
        "    steps[:2, 0] = np.nan\n"
        "    [live.push(step[None]) for step in steps]\n"
        "    live.restore(live.snapshot())\n"
        "    live.push(steps)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "walk.mlat")],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "FIRST" in done.stdout
    assert "LATE" not in done.stdout


def test_a_replay_with_gaps_in_time_is_as_predict(tmp_path):
    """Nobody says the rate: the model has it from the recording that it was fitted on."""
    for name, seed in (("train.csv", 0), ("new.csv", 1)):
        stream = rotating_states(**SENSORS, random_state=seed)
        times, now = [], 0.0
        for step in range(len(stream)):
            now += 30.0 if step % 97 == 50 else 0.02
            times.append(round(now, 3))
        write_csv(tmp_path / name, stream, time=times)
    model = tmp_path / "m.mlat"
    fit = ["--label", "state", "--time", "time", "--metric", "euclidean", "--width", 8]
    run("fit", tmp_path / "train.csv", *fit, "-o", model)
    out, _ = run("predict", model, tmp_path / "new.csv", "--time", "time")
    expected = [row["predicted"] for row in csv.DictReader(out.splitlines())]
    source = f"replay:{tmp_path / 'new.csv'}@max"
    options = ["--far", "off", "--dead", "off", "--format", "csv"]
    out, said = run("live", model, "--source", source, *options)
    assert [row["state"] for row in csv.DictReader(out.splitlines())] == expected
    assert f"{(len(stream) - 51) // 97 + 1} gaps" in said
    assert "apart" not in said
    # At another rate it says so, once.
    text = (tmp_path / "new.csv").read_text().splitlines()
    slower = [
        text[0],
        *(f"{float(t) * 5:.3f},{rest}" for t, rest in (r.split(",", 1) for r in text[1:])),
    ]
    (tmp_path / "new.csv").write_text("\n".join(slower) + "\n")
    _, said = run("live", model, "--source", source, *options)
    assert said.count("0.1 s apart, those that the model was learned from were 0.02 s apart") == 1
