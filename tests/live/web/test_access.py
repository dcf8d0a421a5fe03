"""Who may send requests: hosts, origins, tokens, the length of bodies."""

import socket

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from live_clients import TOKEN, frames, refusals, run, serving
from mlat import InputError
from mlat.live.page.hub import Hub
from mlat.live.page.server import serve
from mlat.live.web.access import is_loopback
from page_server import classifier


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]
)
def test_these_are_this_machine_alone(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.evil.org", ""]
)
def test_these_are_not(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8000", "", "localhost@evil"]
)
def test_another_host_name_is_refused(host):
    """A name of a stranger's that is made to point here: DNS rebinding."""

    async def test():
        async with serving() as (hub, _server, client):
            answer = await client.get("/", headers={"Host": host})
            assert answer.status_code in (400, 403)
            assert "script" not in answer.text
            for path in ("/healthz", "/metrics", "/references/0"):
                assert (await client.get(path, headers={"Host": host})).status_code in (400, 403)
            if host:
                assert refusals(hub) == {"host": 4}

    run(test())


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:80"])
def test_other_ports_of_this_machine_are_allowed(host):
    """As a tunnel would have it: ``ssh -L 9000:localhost:8765``."""

    async def test():
        async with serving() as (_, _server, client):
            assert (await client.get("/", headers={"Host": host})).status_code == 200

    run(test())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_pages_of_others_may_neither_watch_nor_teach(origin):
    async def test():
        taught = []
        async with serving(teach=lambda *example: taught.append(example)) as (hub, server, client):
            with pytest.raises(InvalidStatus) as refused:
                async with frames(server, additional_headers={"Origin": origin}):
                    pass
            assert refused.value.response.status_code == 403
            answer = await client.post("/teach", json={"state": "a"}, headers={"Origin": origin})
            assert answer.status_code == 403
            headers = {"Sec-Fetch-Site": "cross-site"}
            answer = await client.post("/teach", json={"state": "a"}, headers=headers)
            assert answer.status_code == 403
            assert refusals(hub) == {"origin": 3}
            assert not taught
            own = f"http://127.0.0.1:{server.port}"
            answer = await client.post("/teach", json={"state": "a"}, headers={"Origin": own})
            assert answer.status_code == 200
            async with frames(server, additional_headers={"Origin": own}) as ws:
                await ws.recv()

    run(test())


def test_other_hosts_than_loopback_need_a_token(monkeypatch):
    monkeypatch.delenv("MLAT_TOKEN", raising=False)

    async def test():
        with pytest.raises(InputError, match="token or MLAT_TOKEN"):
            await serve(Hub(), classifier(), "0.0.0.0", 0)
        with pytest.raises(InputError, match="at least 8"):
            await serve(Hub(), classifier(), "0.0.0.0", 0, "short")

    run(test())


@pytest.mark.parametrize("by_environment", [True, False])
def test_a_token_opens(monkeypatch, by_environment):
    if by_environment:
        monkeypatch.setenv("MLAT_TOKEN", TOKEN)
    given = {} if by_environment else {"token": TOKEN}

    async def test():
        async with serving(host="0.0.0.0", **given) as (hub, server, client):
            for path in ("/", "/healthz", "/metrics", "/references/0", "/page/app.js", "/?token=x"):
                answer = await client.get(path)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
            for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"):
                headers = {"Authorization": wrong.encode("latin-1")}
                assert (await client.get("/", headers=headers)).status_code == 401
            with pytest.raises(InvalidStatus) as refused:
                async with frames(server):
                    pass
            assert refused.value.response.status_code == 401
            assert refusals(hub) == {"token": 12}
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.get("/healthz", headers=bearer)).status_code == 200
            async with frames(server, additional_headers=bearer) as ws:
                await ws.recv()

    run(test())


def test_a_token_in_the_address_becomes_a_cookie():
    async def test():
        async with serving(host="0.0.0.0", token=TOKEN) as (_, server, client):
            answer = await client.get(f"/?token={TOKEN}")
            cookie = answer.headers["set-cookie"]
            assert "; HttpOnly; SameSite=Strict" in cookie
            assert TOKEN not in cookie + answer.text
            assert "url=/" in answer.text  # and on to the address without it
            page = await client.get("/")
            assert page.status_code == 200
            assert "app.js" in page.text
            name, _, value = cookie.partition(";")[0].partition("=")
            async with frames(server, additional_headers={"Cookie": f"{name}={value}"}) as ws:
                await ws.recv()
            other = httpx.AsyncClient(base_url=client.base_url, cookies={name: value[::-1]})
            async with other:
                assert (await other.get("/")).status_code == 401

    run(test())


def test_a_cookie_still_opens_after_a_restart():
    async def test():
        async with serving(host="0.0.0.0", token=TOKEN) as (_, server, client):
            await client.get(f"/?token={TOKEN}")
            cookies, port = client.cookies, server.port
        async with serving(host="0.0.0.0", token=TOKEN, port=port) as (_, server, client):
            client.cookies = cookies
            assert (await client.get("/")).status_code == 200

    run(test())


def test_a_request_that_is_none_is_refused_and_the_server_goes_on():
    async def test():
        async with serving() as (_, server, client):
            for raw in (
                b"\x00\xff\r\n\r\n",
                b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000,
                b"GET /\r\n\r\n",
            ):
                with socket.create_connection(("127.0.0.1", server.port)) as odd:
                    odd.sendall(raw)
            assert (await client.get("/healthz")).status_code == 200

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


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "//", "\xff"])
def test_an_origin_that_is_none_is_refused(origin):
    async def test():
        async with serving() as (_hub, _server, client):
            answer = await client.get("/", headers={"Origin": origin.encode("latin-1")})
            assert answer.status_code == 403
            assert (await client.get("/")).status_code == 200

    run(test())


def test_a_token_of_any_letters_opens():
    token = "wörter-und-zeichen-✓-genug"

    async def test():
        async with serving(token=token) as (_hub, _server, client):
            bearer = {"Authorization": f"Bearer {token}".encode()}
            assert (await client.get("/healthz", headers=bearer)).status_code == 200
            wrong = {"Authorization": f"Bearer {token}x".encode()}
            assert (await client.get("/healthz", headers=wrong)).status_code == 401
            assert (await client.get("/", params={"token": token})).status_code == 200

    run(test())


def test_a_request_that_breaks_off_teaches_nothing():
    """What came of it may be a whole request by itself."""
    taught = []

    async def test():
        async with serving(teach=lambda state, n: taught.append(state)) as (hub, server, client):
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.sendall(
                    b"POST /teach HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    b'Content-Length: 99\r\n\r\n{"state": "walking"}'
                )
                await client.get("/healthz")  # it has been read
            for _ in range(3):
                await client.get("/healthz")
            assert not taught
            assert not refusals(hub)

    run(test())
