"""Connections that are too many, silent, slow or never read: the session and its page go on."""

import asyncio
import contextlib
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from websockets.sync.client import connect as connect_sync

import brokers
import mlat
from cli_runs import write_csv
from journal_description import read_journal
from live_clients import (
    TOKEN,
    decode_frame,
    frames,
    next_steps,
    publish,
    push,
    refusals,
    run,
    serving,
    until,
)
from mlat.live.page.server import MAX_CLIENTS
from mlat.live.web import connections, server
from mlat.live.web.connections import FEWEST_CONNECTIONS, MAX_CONNECTIONS, MAX_PER_ADDRESS
from mlat.synthetic import rotating_states

BODY = b"POST /teach HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n"
SHAKE = (
    b"GET /frames HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_WAIT", 0.5)
    monkeypatch.setattr(connections, "SWEEP", 0.1)
    monkeypatch.setattr(server, "PING_EVERY", 0.5)


@contextlib.contextmanager
def live(folder, *options, descriptors=1024):
    """``mlat live`` with a page and a journal of many small files; its port and process."""
    made = {"n_channels": 4, "noise": 0.3}
    clf = mlat.StreamClassifier(8, metric="euclidean").fit(rotating_states(**made))
    clf.save(folder / "walk.mlat")
    stream = rotating_states(**made, random_state=1, runs_per_state=100)
    write_csv(folder / "walk.csv", mlat.Stream(stream.values, channels=stream.channels))
    port = brokers.free_port()
    command = [
        *[sys.executable, "-c", "from mlat.cli import main; main()"],
        *["live", "walk.mlat", "--source", "replay:walk.csv@200", "--serve", f"127.0.0.1:{port}"],
        *["--journal", "journal", "--snapshot-every", "100", "--segment-size", "20000"],
    ]
    with (folder / "out").open("wb") as out, (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, *options],
            stdout=out,
            stderr=said,
            cwd=folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors,) * 2),
        )
        try:
            while not n_lines(folder):
                assert process.poll() is None, (folder / "said").read_text()
                time.sleep(0.05)
            yield port, process
        finally:
            process.kill()
            process.wait()


def n_lines(folder):
    return (folder / "out").read_bytes().count(b"\n")


def status_of(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        answer.read()
        return answer.status


def open_sockets(stack, port, n, sends=b"", at="127.0.0.1", to="127.0.0.1"):
    opened = []
    for _ in range(n):
        one = socket.create_connection((to, port), timeout=30, source_address=(at, 0))
        opened.append(stack.enter_context(one))
        with contextlib.suppress(ConnectionError):  # it may have been closed for the next
            one.sendall(sends)
    return opened


def open_deaf_socket(stack, port, sends):
    one = stack.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", port))
    one.sendall(sends)


def is_closed(one):
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "sends", "descriptors"),
    [(1100, b"", 1024), (300, HALF, 1024), (1100, HALF, 1024), (300, b"", 200)],
)
def test_a_session_goes_on_whatever_connects_to_its_page(tmp_path, n, sends, descriptors):
    with contextlib.ExitStack() as stack:
        port, process = stack.enter_context(live(tmp_path, descriptors=descriptors))
        watching = stack.enter_context(connect_sync(f"ws://127.0.0.1:{port}/frames", proxy=None))
        watching.recv()
        open_sockets(stack, port, n, sends)
        before = n_lines(tmp_path)
        for path in ("/", "/healthz", "/metrics", "/page/app.js") * 5:
            assert status_of(port, path) == 200
        shown = 0
        while shown < 400:  # two seconds of steps, over many files of the journal
            header, _ = decode_frame(watching.recv(timeout=30))
            if header["kind"] == "steps":
                watching.send('{"ack": 1}')
                shown += header["n"]
        assert n_lines(tmp_path) > before
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said
    assert len(said) < 3000
    told = [one["step"] for _, one in read_journal(tmp_path / "journal").predictions]
    assert told == list(range(len(told)))
    assert len(told) >= n_lines(tmp_path) > before


def test_it_says_how_many_connections_it_closed(tmp_path):
    with contextlib.ExitStack() as stack:
        port, _ = stack.enter_context(live(tmp_path))
        open_sockets(stack, port, 600)
        said, deadline = "", time.monotonic() + 60
        while "were closed" not in said and time.monotonic() < deadline:
            time.sleep(0.1)
            said = (tmp_path / "said").read_text()
    lines = [line for line in said.splitlines() if "were closed" in line]
    assert len(lines) == 1  # not one for each
    assert 1 <= int(lines[0].split()[3]) <= 600 - MAX_CONNECTIONS


def test_of_too_many_the_oldest_that_waits_makes_room():
    async def test():
        async with serving() as (hub, server, client), frames(server) as ws:
            await ws.recv()
            with contextlib.ExitStack() as stack:
                opened = await asyncio.to_thread(open_sockets, stack, server.port, 400)
                await until(lambda: refusals(hub).get("too many connections", 0) >= 145)
                assert (await client.get("/")).status_code == 200
                closed = [is_closed(one) for one in opened]
                n = refusals(hub)["too many connections"]
                assert closed == [True] * n + [False] * (400 - n)
                # The page, its client and the sockets.
                assert 400 - n + 2 == MAX_CONNECTIONS
            publish(hub, 0, 100)
            assert (await next_steps(ws))[0]["n"] == 100

    run(test())


def test_one_address_cannot_take_the_places_of_others():
    async def test():
        options = {"host": "0.0.0.0", "token": TOKEN}
        async with serving(**options) as (hub, server, client):
            with contextlib.ExitStack() as stack:
                here = await asyncio.to_thread(open_sockets, stack, server.port, 3, HALF)
                there = await asyncio.to_thread(
                    open_sockets, stack, server.port, 300, HALF, "127.0.0.2"
                )
                known = {"Authorization": f"Bearer {TOKEN}"}
                assert (await client.get("/", headers=known)).status_code == 200
                await until(lambda: sum(map(is_closed, there)) == 300 - MAX_PER_ADDRESS)
                assert not any(map(is_closed, here))
                assert refusals(hub) == {"too many connections": 300 - MAX_PER_ADDRESS}

    run(test())


@pytest.mark.parametrize(
    ("sends", "then"),
    [(b"", b""), (HALF, b""), (HALF, b"a"), (HALF, b"a\r\nX-B: "), (BODY, b""), (BODY, b"a")],
    ids=["silent", "half", "slow letters", "slow headers", "no body", "slow body"],
)
def test_a_request_that_does_not_end_is_not_waited_for(impatient, sends, then):
    async def test():
        async with serving(teach=lambda state, n: None) as (hub, server, client):
            with contextlib.ExitStack() as stack:
                left = await asyncio.to_thread(open_sockets, stack, server.port, 50, sends)
                while left:
                    for one in left:
                        with contextlib.suppress(OSError):
                            one.send(then)
                    assert (await client.get("/healthz")).status_code == 200
                    await asyncio.sleep(0.05)
                    left = [one for one in left if not is_closed(one)]
            assert refusals(hub) == {"too slow": 50}

    run(test())


def test_an_answer_that_is_not_read_is_not_kept(impatient):
    async def test():
        async with serving() as (hub, server, client):
            with contextlib.ExitStack() as stack:
                request = b"GET /page/uplot.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                for _ in range(20):
                    open_deaf_socket(stack, server.port, request * 300)
                await until(lambda: refusals(hub).get("too slow", 0) == 20)
                assert (await client.get("/")).status_code == 200

    run(test())


def test_a_page_that_never_reads_does_not_stay(impatient):
    async def test():
        async with serving() as (hub, server, _client):
            with contextlib.ExitStack() as stack:
                for _ in range(MAX_CLIENTS):
                    open_deaf_socket(stack, server.port, SHAKE)
                await until(lambda: hub.clients == MAX_CLIENTS)
                await until(lambda: hub.clients == 0)  # they do not answer pings
                assert not refusals(hub)
                # More than the buffers of a system take, so that no ping can be sent.
                push(hub, 0, 12_000, d=400)
                for _ in range(8):
                    open_deaf_socket(stack, server.port, SHAKE)
                await until(lambda: refusals(hub).get("too slow", 0) == 8)
                async with frames(server) as ws:
                    assert decode_frame(await ws.recv())[0]["kind"] == "hello"

    run(test())


def test_little_room_is_shared_and_the_limit_raised_where_allowed():
    """In a process of its own, for its limits."""
    code = (
        "from resource import RLIMIT_NOFILE, getrlimit, setrlimit\n"
        "from mlat.live.web.connections import spare_descriptors\n"
        "for limits in ((128, 4096), (4096, 4096), (200, 200), (64, 64)):\n"
        "    setrlimit(RLIMIT_NOFILE, limits)\n"
        "    print(spare_descriptors(256), getrlimit(RLIMIT_NOFILE)[0])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    raised, enough, little, least = (tuple(map(int, n.split())) for n in found.stdout.splitlines())
    assert raised[0] == 256
    assert 256 + connections.RESERVED < raised[1] < 4096
    assert enough == (256, 4096)
    assert FEWEST_CONNECTIONS < little[0] < 200 - connections.RESERVED
    assert little[1] == 200
    assert least == (FEWEST_CONNECTIONS, 64)
