"""The server's WebSocket: every step once, and slow, odd and too many clients held back."""

import asyncio
import json

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from live_clients import ended, frames, next_steps, publish, refusals, run, serving, until
from mlat.live import Steps
from mlat.live.page.hub import IN_FLIGHT, QUEUE, Hub, decode
from page_server import body_stream, classifier, told


def test_a_page_is_greeted_and_follows():
    async def test():
        async with serving() as (hub, server, _client):
            publish(hub, 0, 60)
            async with frames(server) as ws:
                hello, _ = decode(await ws.recv())
                assert hello["kind"] == "hello"
                assert hello["channels"][0] == "chest x"
                assert hello["states"] == ["cycling", "running", "standing", "walking"]
                assert not hello["teach"]
                header, numbers = await next_steps(ws)
                assert (header["first"], header["n"]) == (0, 60)
                values = body_stream(random_state=1).values[:60]
                np.testing.assert_array_equal(
                    numbers[: 60 * 27].reshape(60, 27), values.astype(np.float32)
                )
                publish(hub, 60, 64)
                header, _ = await next_steps(ws)
                assert (header["first"], header["n"]) == (60, 4)

    run(test())


def test_frames_come_at_most_25_a_second_and_hold_all_steps():
    async def test():
        async with serving() as (hub, server, _client), frames(server) as ws:
            await ws.recv()
            loop = asyncio.get_running_loop()
            begun, first, sizes = loop.time(), 0, []
            values = body_stream(random_state=1).values[:100]
            predictions = told(classifier(), values)

            async def play():
                for i in range(100):
                    hub.publish(Steps(values[i : i + 1]), predictions[i : i + 1], None, 0.0)
                    await asyncio.sleep(0.005)

            playing = asyncio.create_task(play())
            while first < 100:
                header, _ = await next_steps(ws)
                assert header["first"] == first
                first += header["n"]
                sizes.append(header["n"])
            await playing
            assert len(sizes) <= 25 * (loop.time() - begun) + 2
            assert max(sizes) > 1

    run(test())


def test_a_page_comes_back_to_where_it_was():
    async def test():
        hub = Hub()
        async with serving(hub) as (_, server, _client):
            publish(hub, 0, 50)
            async with frames(server) as ws:
                hello, _ = decode(await ws.recv())
                await next_steps(ws)
            port = server.port
        publish(hub, 50, 70)  # while nothing is served
        async with serving(hub, port=port) as (_, server, _client):
            url = f"ws://127.0.0.1:{port}/frames?stream={hello['stream']}&since=50"
            async with connect(url, proxy=None) as ws:
                await ws.recv()
                header, _ = await next_steps(ws)
                assert (header["first"], header["n"]) == (50, 20)
            for odd in ("since=x&stream=y", "since=-5", "since=99999999999999999999"):
                async with connect(f"ws://127.0.0.1:{port}/frames?{odd}", proxy=None) as ws:
                    await ws.recv()
                    header, _ = await next_steps(ws)
                    assert header["first"] == 0

    run(test())


def test_a_client_that_never_acknowledges_is_held_back_and_told():
    async def test():
        async with serving() as (hub, server, client), frames(server) as ws:
            await ws.recv()  # hello, and that somebody is watching
            await ws.recv()
            await ws.send('{"ack": 1}')
            for step in range(200):
                publish_one(hub, step)
                hub.emit()
            got, missed = [], 0
            while len(got) < QUEUE:  # what was not dropped
                header, _ = decode(await ws.recv())
                if header["kind"] == "dropped":
                    missed = header["frames"]
                    continue
                got.append(header["first"])
                if len(got) == IN_FLIGHT:
                    with pytest.raises(TimeoutError):  # nothing more before it is acknowledged
                        await asyncio.wait_for(ws.recv(), 0.1)
                if len(got) >= IN_FLIGHT:
                    await ws.send(json.dumps({"ack": IN_FLIGHT if len(got) == IN_FLIGHT else 1}))
            assert missed == hub.counts.dropped == 200 - QUEUE
            assert got == list(range(200 - QUEUE, 200))
            metrics = (await client.get("/metrics")).text
            assert f"mlat_frames_dropped_total {hub.counts.dropped}" in metrics

    values = body_stream(random_state=1).values[:200]
    predictions = told(classifier(), values)

    def publish_one(hub, step):
        hub.publish(Steps(values[step : step + 1]), predictions[step : step + 1], None, 0.0)

    run(test())


@pytest.mark.parametrize(
    "message", ["", "x", "[]", "null", '{"ack": -1}', '{"ack": 1.5}', "[" * 3000]
)
def test_bad_messages_end_a_connection_and_are_counted(message):
    async def test():
        async with serving() as (hub, server, _client), frames(server) as ws:
            await ws.recv()
            await ws.send(message)
            assert await ended(ws) == 1008
            assert refusals(hub) == {"bad message": 1}
            await until(lambda: hub.clients == 0)

    run(test())


def test_huge_messages_end_a_connection_and_are_counted():
    async def test():
        async with serving() as (hub, server, _client), frames(server) as ws:
            await ws.recv()
            await ws.send("x" * 4097)
            assert await ended(ws) == 1009
            await until(lambda: hub.clients == 0)
            assert refusals(hub) == {"too long": 1}

    run(test())


def test_too_many_pages_are_refused_until_one_leaves():
    async def test():
        async with serving(max_clients=2) as (hub, server, client):
            async with frames(server) as first, frames(server) as second:
                await first.recv(), await second.recv()
                with pytest.raises(InvalidStatus) as refused:
                    async with frames(server):
                        pass
                assert refused.value.response.status_code == 503
                health = (await client.get("/healthz")).json()
                assert health["clients"] == health["max_clients"] == 2
            await until(lambda: hub.clients == 0)
            async with frames(server) as third:
                await third.recv()
            assert refusals(hub) == {"too many clients": 1}

    run(test())
