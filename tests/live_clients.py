"""Clients of a server that runs in the same loop, on loopback."""

import asyncio
import json
import math
from contextlib import asynccontextmanager

import httpx
import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from live_oracles import columns
from mlat.live import Prediction, Steps
from mlat.live.page.hub import Hub
from mlat.live.page.server import serve
from page_server import body_stream, classifier, predict_steps

TOKEN = "a-token-that-is-long-enough"


def run(test):
    asyncio.run(asyncio.wait_for(test, 120))  # a busy machine takes its time


@asynccontextmanager
async def serving(hub=None, **options):
    hub = hub or Hub()
    server = await serve(hub, classifier(), port=options.pop("port", 0), **options)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            yield hub, server, client
    finally:
        await server.close()


def publish(hub, begin, end):
    values = body_stream(random_state=1).values[: end + 1]
    predictions = predict_steps(classifier(), values)[begin:end]
    hub.publish(Steps(values[begin:end]), predictions, None, 0.001)


def frames(server, **options):
    return connect(f"ws://127.0.0.1:{server.port}/frames", proxy=None, **options)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


def decode_frame(frame):
    """The header and all numbers of a frame of the page, as one flat array."""
    begin = 4 + int.from_bytes(frame[:4], "little")
    return json.loads(frame[4:begin]), np.frombuffer(frame, "<f4", offset=begin)


async def next_steps(ws):
    """The next frame with steps in it; every frame is acknowledged."""
    while True:
        header, numbers = decode_frame(await ws.recv())
        if header["kind"] == "steps":
            await ws.send('{"ack": 1}')
            if header["n"]:
                return header, numbers


def refusals(hub):
    return dict(hub.counts.refused)


async def ended(ws):
    """Read to the end of a connection; the code it was closed with."""
    try:
        while True:
            await ws.recv()
    except ConnectionClosed as closed:
        return closed.rcvd.code


def predicted(step, why="", state="walk", seq=None, time=None):
    known = not why
    proba = 0.75 if known else math.nan
    return Prediction(
        step,
        state if known else "",
        proba,
        1.5 if known else math.nan,
        (3,) if known else (),
        why,
        seq,
        time,
        (0.75, 0.25) if known else (),
    )


def push(hub, first, n, d=2, lag=0.002, **options):
    values = np.arange(first, first + n)[:, None] + np.arange(d) / 10
    predictions = [predicted(first + i, **options) for i in range(n)]
    hub.publish(Steps(values), columns(predictions), None, lag)
