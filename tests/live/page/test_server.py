"""The server over HTTP: the page, references, teaching, health and metrics; real connections."""

import socket
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from live_clients import TOKEN, publish, refusals, run, serving
from mlat import InputError
from mlat.live import Steps
from mlat.live.page.hub import Hub
from mlat.live.page.server import page_files, serve
from page_server import body_stream, classifier


def test_the_page_is_given_with_a_strict_policy():
    async def test():
        async with serving() as (_, _server, client):
            page = await client.get("/")
            assert page.status_code == 200
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
            icon = await client.get("/favicon.ico")
            assert icon.content == page_files()["icon.svg"].content
            for name, file in page_files().items():
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
    for name, file in page_files().items():
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
    shipped = {p.rpartition("/")[2] for p in inside if p.startswith("mlat/live/page/static/")}
    assert shipped >= {"index.html", "app.js", "style.css", "uplot.js", "uplot-licence.txt"}
    assert shipped == {entry.name for entry in files("mlat.live.page").joinpath("static").iterdir()}


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


def test_references_are_the_windows_that_were_learned():
    async def test():
        clf = classifier()
        async with serving() as (_, _server, client):
            for row in (0, 7, len(clf.windows_) - 1):
                window = (await client.get(f"/references/{row}")).json()
                expected = clf.windows_.values[clf.windows_.start[row] :][: clf.width_]
                np.testing.assert_allclose(np.array(window["values"]).T, expected, rtol=1e-4)
                assert window["state"] == clf.windows_.y[row]
            for row in (len(clf.windows_), 10**30, -1, "x"):
                assert (await client.get(f"/references/{row}")).status_code == 404

    run(test())


def test_taught_windows_are_references_too():
    async def test():
        clf = classifier()
        session = clf.live(search="exact")
        values = body_stream(random_state=2).values[:80]
        hub = Hub()
        hub.publish(Steps(values), session.push(values), session, 0.001)
        async with serving(hub, teach=session.teach) as (_, _server, client):
            answer = await client.post("/teach", json={"state": "hopping", "n": 2})
            assert answer.json() == {"state": "hopping", "n": 2}
            row = len(clf.windows_) + 1
            window = (await client.get(f"/references/{row}")).json()
            assert (window["state"], window["taught"]) == ("hopping", True)
            np.testing.assert_allclose(
                np.array(window["values"]).T, values[-clf.width_ :], rtol=1e-3, atol=1e-5
            )
            assert (await client.get(f"/references/{row + 1}")).status_code == 404

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


def test_without_a_teacher_there_is_nothing_to_teach():
    async def test():
        async with serving() as (_, _server, client):
            assert (await client.post("/teach", json={"state": "a"})).status_code == 404

    run(test())


def test_long_bodies_are_refused():
    async def test():
        async with serving(teach=lambda state, n: None) as (hub, _server, client):
            headers = {"Content-Type": "application/json"}
            answer = await client.post("/teach", content=b" " * 4097, headers=headers)
            assert answer.status_code == 413

            async def parts():
                for _ in range(100):
                    yield b" " * 100

            answer = await client.post("/teach", content=parts(), headers=headers)
            assert answer.status_code == 413
            assert refusals(hub) == {"too long": 2}

    run(test())


def test_a_port_in_use_is_one_line():
    async def test():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}: address already in use; "):
                await serve(Hub(), classifier(), port=port)
        with pytest.raises(InputError, match=r"cannot serve on no-such-host\.invalid:80"):
            await serve(Hub(), classifier(), "no-such-host.invalid", 80, TOKEN)
        with pytest.raises(InputError, match="port 99999"):
            await serve(Hub(), classifier(), port=99999)

    run(test())


def test_without_its_packages_it_says_what_to_install():
    code = (
        "import sys, asyncio; sys.modules['uvicorn'] = None\n"
        "from mlat.live.page.hub import Hub; from mlat.live.page.server import serve\n"
        "asyncio.run(serve(Hub(), None))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (
        "InputError: the page needs uvicorn; install it: pip install 'mlat[live]'" in ended.stderr
    )
