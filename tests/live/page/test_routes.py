"""What the server answers over HTTP and its WebSocket; real connections."""

import asyncio
import json
from importlib.resources import files

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from live_clients import (
    decode_frame,
    ended,
    frames,
    next_steps,
    publish,
    refusals,
    run,
    serving,
    until,
)
from mlat import InputError
from mlat.base.errors import DiskError
from mlat.live import Steps
from mlat.live.page.hub import IN_FLIGHT, QUEUE, Hub
from mlat.live.web.page_files import page_files
from page_server import body_stream, classifier, predict_steps


def test_the_page_is_given_with_a_strict_policy():
    async def test():
        async with serving() as (_, _server, client):
            page = await client.get("/")
            assert page.status_code == 200
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
            icon = await client.get("/favicon.ico")
            assert icon.content == page_files("mlat.live.page")["icon.svg"].content
            for name, file in page_files("mlat.live.page").items():
                answer = await client.get(f"/page/{name}")
                assert answer.content == file.content
                assert answer.headers["x-content-type-options"] == "nosniff"
                again = await client.get(
                    f"/page/{name}", headers={"If-None-Match": answer.headers["etag"]}
                )
                assert again.status_code == 304
            for path in ("/page/../hub.py", "/page/%2e%2e/hub.py", "/page/hub.py", "/other"):
                assert (await client.get(path)).status_code == 404

    run(test())


def test_no_file_of_the_page_names_another_address():
    """But for namespaces and where a licence is from."""
    for name, file in page_files("mlat.live.page").items():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        text = text.replace("https://github.com/leeoniya/uPlot", "")
        assert "://" not in text, name


def test_every_module_of_the_page_is_shipped():
    """All files on disk are in the wheel, as hatchling would build it."""
    from hatchling.builders.wheel import WheelBuilder

    root = files("mlat").joinpath("../..").resolve()
    if not (root / "pyproject.toml").exists():
        pytest.skip("not a checkout: there is no wheel to build")
    builder = WheelBuilder(str(root))
    inside = {file.distribution_path for file in builder.recurse_included_files()}
    assert {path.split("/")[0] for path in inside} == {"mlat"}, "and nothing of the laboratory"
    for package in ("live/page", "label/page", "live/web"):
        folder = files("mlat").joinpath(package, "static")
        shipped = {p for p in inside if p.startswith(f"mlat/{package}/static/")}
        assert shipped == {f"mlat/{package}/static/{entry.name}" for entry in folder.iterdir()}
        assert shipped


def test_health_and_metrics():
    async def test():
        async with serving() as (hub, _server, client):
            assert (await client.get("/healthz")).json()["last_step_age"] is None
            publish(hub, 0, 60)
            answer = await client.get("/healthz")
            assert answer.status_code == 200
            assert answer.json()["ok"]
            assert answer.json()["lag"] == 0.001
            assert answer.json()["last_step_age"] < 5
            hub.notice("lost", "away")
            assert (await client.get("/healthz")).status_code == 503
            metrics = await client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            families = {f.name: f for f in text_string_to_metric_families(metrics.text)}
            assert families["mlat_steps"].samples[0].value == 60
            assert families["mlat_unknown"].samples[0].labels == {"reason": "filling"}
            assert families["mlat_lag_seconds"].type == "histogram"

    run(test())


def test_teaching_calls_and_answers():
    taught = []

    async def teach(state, n):
        if n > 5:
            raise InputError("only 5 windows are there")
        taught.append((state, n))

    async def test():
        async with serving(teach=teach) as (hub, _server, client):
            answer = await client.post("/teach", json={"state": " walking ", "n": 3})
            assert answer.json() == {"state": "walking", "n": 3}
            assert (await client.post("/teach", json={"state": "walking"})).status_code == 200
            assert taught == [("walking", 3), ("walking", 1)]
            assert hub.counts.taught == 4
            answer = await client.post("/teach", json={"state": "walking", "n": 6})
            assert (answer.status_code, answer.json()) == (
                400,
                {"error": "only 5 windows are there"},
            )
            for body in ({}, [], {"state": ""}, {"state": 3}, {"state": "a", "n": 0}, {"n": 1}):
                assert (await client.post("/teach", json=body)).status_code == 400
            for body in ({"state": "a", "n": True}, {"state": "a", "n": 1e9}, {"state": "a" * 101}):
                assert (await client.post("/teach", json=body)).status_code == 400
            plain = await client.post(
                "/teach", content=b"{}", headers={"Content-Type": "text/plain"}
            )
            assert plain.status_code == 415
            headers = {"Content-Type": "application/json"}
            bad = await client.post("/teach", content=b"\xff{", headers=headers)
            assert bad.status_code == 400
            assert (await client.get("/teach")).status_code == 405
            assert len(taught) == 2

    run(test())


def test_spans_undo_and_saving_are_called_and_answered():
    done = []

    def teach_span(*example):
        done.append(example)
        return example[0], 7

    async def undo():
        if len(done) > 1:
            raise InputError("there is no example that could be undone")
        done.append("undo")
        return "walking", 7

    def save():
        raise DiskError("the disk is full; free some space")

    async def test():
        offered = {"teach_span": teach_span, "undo": undo, "save": save}
        async with serving(teach=lambda state, n: None, **offered) as (hub, _server, client):
            span = {"state": "walking", "begin": 3, "end": 90}
            assert (await client.post("/teach", json=span)).json() == {"state": "walking", "n": 7}
            assert hub.counts.taught == 7
            assert (await client.post("/undo", json={})).json() == {"state": "walking", "n": 7}
            assert done == [("walking", 3, 90), "undo"]
            answer = await client.post("/undo", json={})
            assert answer.status_code == 400
            assert "no example" in answer.text
            assert (await client.post("/save", json={})).status_code == 503
            wrong = [{"begin": -1}, {"begin": 1.5}, {"end": True}, {"end": "9"}, {"n": 3}]
            for change in wrong:
                assert (await client.post("/teach", json=span | change)).status_code == 400
            for path in ("/undo", "/save"):
                assert (await client.post(path, json=[])).status_code == 400
                assert (await client.post(path, content=b"{}")).status_code == 415
                assert (await client.get(path)).status_code == 405
            foreign = {"Origin": "http://example.org"}
            assert (await client.post("/undo", json={}, headers=foreign)).status_code == 403

    run(test())


def test_trouble_that_is_not_the_input_is_said_and_not_a_server_error():
    def teach(state, n):
        raise DiskError("the disk is full; free some space")

    async def test():
        async with serving(teach=teach) as (_hub, _server, client):
            answer = await client.post("/teach", json={"state": "walking"})
            assert answer.status_code == 503
            assert "the disk is full" in answer.text

    run(test())


def test_without_a_teacher_there_is_nothing_to_teach():
    async def test():
        async with serving() as (_, _server, client):
            assert (await client.post("/teach", json={"state": "a"})).status_code == 404
            assert (await client.post("/undo", json={})).status_code == 404
            assert (await client.post("/save", json={})).status_code == 404

    run(test())


# --- the WebSocket: every step once; slow, faulty and too many clients


def test_a_page_is_greeted_and_follows():
    async def test():
        async with serving() as (hub, server, _client):
            publish(hub, 0, 60)
            async with frames(server) as ws:
                hello, _ = decode_frame(await ws.recv())
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


def test_a_page_comes_back_to_where_it_was():
    async def test():
        hub = Hub()
        async with serving(hub) as (_, server, _client):
            publish(hub, 0, 50)
            async with frames(server) as ws:
                hello, _ = decode_frame(await ws.recv())
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


def test_a_client_that_never_acknowledges_is_held_back_and_informed():
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
                header, _ = decode_frame(await ws.recv())
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
    predictions = predict_steps(classifier(), values)

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


def test_requests_that_once_were_server_errors():
    taught = []

    async def test():
        headers = {"Content-Type": "application/json"}
        async with serving(teach=lambda state, n: taught.append(state)) as (_hub, _server, client):
            for row in ("9" * 4400, "-1", "0x1", "1.5", "%EF%BC%91"):
                assert (await client.get(f"/references/{row}")).status_code == 404
            for body in (b"[" * 60_000, b'{"state": "\\ud800"}', b'{"state": 1e999}', b"\xff"):
                answer = await client.post("/teach", content=body, headers=headers)
                assert answer.status_code in (400, 413), body[:20]
            assert (await client.get("/healthz")).status_code in (200, 503)
        assert not taught

    run(test())
