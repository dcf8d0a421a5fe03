"""The server: its port, its packages, and how often it sends frames."""

import asyncio
import socket
import subprocess
import sys

import pytest

from live_clients import TOKEN, frames, next_steps, run, serving
from mlat import InputError
from mlat.base.errors import ServiceError
from mlat.live import Steps
from mlat.live.page.hub import Hub
from mlat.live.page.server import serve
from page_server import body_stream, classifier, predict_steps


def test_frames_come_at_most_25_a_second_and_hold_all_steps():
    async def test():
        async with serving() as (hub, server, _client), frames(server) as ws:
            await ws.recv()
            loop = asyncio.get_running_loop()
            begun, first, sizes = loop.time(), 0, []
            values = body_stream(random_state=1).values[:100]
            predictions = predict_steps(classifier(), values)

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


def test_a_port_in_use_is_one_line():
    async def test():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(
                ServiceError, match=rf"127\.0\.0\.1:{port}: address already in use; "
            ):
                await serve(Hub(), classifier(), port=port)
        with pytest.raises(ServiceError, match=r"cannot serve on no-such-host\.invalid:80"):
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
        "MissingPackageError: the page needs uvicorn; install it: pip install 'mlat[live]'"
        in ended.stderr
    )
