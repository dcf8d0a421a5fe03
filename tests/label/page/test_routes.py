"""What the server of the labelling page answers, to pages and to strangers."""

import asyncio
import json
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from label_server import Labelling, states_stream, unlabelled
from mlat.label.label_table import read_spans
from mlat.live.web.page_files import page_files


@pytest.fixture
def served(tmp_path):
    (tmp_path / "film.mp4").write_bytes(bytes(range(256)) * 10)
    with Labelling(tmp_path, [unlabelled(states_stream(1))], media=tmp_path / "film.mp4") as made:
        yield made


def talk(served, *messages):
    """Send messages one after the other; the answers, and the hello."""

    async def talking():
        async with connect(f"ws://127.0.0.1:{served.port}/news", proxy=None) as ws:
            hello, answers = json.loads(await ws.recv()), []
            for message in messages:
                await ws.send(message if isinstance(message, str) else json.dumps(message))
                while True:
                    told = json.loads(await asyncio.wait_for(ws.recv(), 30))
                    if told["kind"] == "answer":
                        answers.append(told)
                        break
            return hello, answers

    return asyncio.run(talking())


def test_the_signal_comes_in_pieces(served):
    hello, _ = talk(served)
    one = hello["recordings"][0]
    values = served.recordings[0].stream.values
    with httpx.Client(base_url=served.url) as client:
        got = client.get(f"/signal/{one['digest']}/0/0")
        assert "immutable" in got.headers["cache-control"]
        found = np.frombuffer(got.content, np.float32).reshape(-1, len(one["channels"]))
        back = found * np.array(one["half"]) + np.array(one["middle"])
        np.testing.assert_allclose(back, values[: len(back)], atol=1e-4)
        for path in (
            f"/signal/{one['digest']}/0/99",
            f"/signal/{one['digest']}/99/0",
            "/signal/0123/0/0",
            "/spans/7",
            "/proposals/7",
            "/page/../server.py",
            "/page/%2e%2e%2fserver.py",
            "/walk.labels.csv",
        ):
            assert client.get(path).status_code == 404, path


def test_a_film_is_served_in_ranges(served):
    with httpx.Client(base_url=served.url) as client:
        part = client.get("/media", headers={"Range": "bytes=256-259"})
        assert part.status_code == 206
        assert part.content == bytes([0, 1, 2, 3])
        assert part.headers["content-type"] == "video/mp4"


def test_other_sites_and_hosts_are_refused(served):
    with httpx.Client(base_url=served.url) as client:
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/spans/0", headers={"Origin": "http://evil.example"}).status_code == 403
        assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(
    "message",
    [
        "no JSON",
        "[]",
        "{}",
        {"id": 1, "do": "no such thing"},
        {"id": 1, "do": "label", "recording": 0, "start": 0},
        {"id": 1, "do": "label", "recording": 9, "start": 0, "end": 5, "state": "a"},
        {"id": 1, "do": "label", "recording": "0", "start": 0, "end": 5, "state": "a"},
        {"id": 1, "do": "label", "recording": 0, "start": 0, "end": 5, "state": ["a"]},
        {"id": 1, "do": "take", "recording": 0, "start": 0, "end": 9, "version": -1},
        {"id": 1, "do": "take", "recording": 0, "start": 0, "end": "9", "version": 1},
        {"id": 1, "do": "take", "recording": 9, "start": 0, "end": 9, "version": 1},
        {"id": 1, "do": "take", "recording": 0, "version": [1]},
        {"id": 1, "do": "take all", "confidence": "NaN", "version": 0},
        {"id": 1, "do": "split", "recording": 0, "at": 10**30},
        {"id": 1, "do": "undo"},
        {"id": 1, "do": "label many", "places": [[0, 10**30]], "version": 0, "state": "a"},
        {"id": 1, "do": "label many", "places": [["0", 1]], "version": 0, "state": "a"},
        {"id": 1, "do": "label many", "places": [0], "version": 0, "state": "a"},
        {"id": 1, "do": "label many", "places": [[0, 1]], "version": 7, "state": "a"},
    ],
)
def test_what_is_no_edit_changes_nothing_and_is_told(served, message):
    good = {"id": 2, "do": "label", "recording": 0, "start": 0, "end": 5, "state": "a"}
    _, (bad, done) = talk(served, message, good)
    assert bad["error"]
    assert done["version"] == 1
    assert [tuple(span[:3]) for span in read_spans(served.session.table)] == [(0, 5, "a")]


def test_the_labelled_stream_can_be_learned_from(served, tmp_path):
    import mlat

    _, answers = talk(
        served,
        {"id": 1, "do": "label", "recording": 0, "start": 10, "end": 50, "state": "a"},
        {"id": 2, "do": "export"},
    )
    stream = mlat.read_stream(answers[1]["file"], label="state")
    assert (np.array(stream.states[10:50]) == "a").all()
    assert stream.labelled.sum() == 40


def test_an_export_overwrites_neither_the_recording_nor_any_file_that_it_did_not_write(
    served, tmp_path
):
    recording = tmp_path / "walk.labelled.parquet"
    recording.write_bytes(b"the recording, with columns that nobody reads")
    label = {"id": 1, "do": "label", "recording": 0, "start": 10, "end": 50, "state": "a"}
    export = {"id": 2, "do": "export"}
    _, answers = talk(served, label, export, export)
    first, again = (Path(answer["file"]) for answer in answers[1:])
    assert first == again == tmp_path / "walk.labelled-2.parquet"  # its own is written anew
    first.write_bytes(b"another program's")
    _, answers = talk(served, export)
    assert answers[0]["file"] == str(tmp_path / "walk.labelled-3.parquet")
    assert first.read_bytes() == b"another program's"
    assert recording.read_bytes().startswith(b"the recording")


def test_no_file_of_the_page_names_another_address():
    for name, file in page_files("mlat.label.page").items():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        text = text.replace("https://github.com/leeoniya/uPlot", "")
        assert "://" not in text.replace("//${location.host}", ""), name


def test_numbers_without_end_are_answered(served):
    view = '{"id": 1, "do": "view", "recording": 0, "step": %s}'
    _, answers = talk(served, view % "Infinity", view % "1e999", view % "NaN", view % "3")
    assert [bool(answer.get("error")) for answer in answers] == [True, True, True, False]


def test_many_saves_do_not_hold_up_an_edit(served, monkeypatch):
    """They wait in threads of their own."""
    ended = threading.Event()
    monkeypatch.setattr(served.server.learner, "save", lambda path: ended.wait(30) and path)

    async def talking():
        async with connect(f"ws://127.0.0.1:{served.port}/news", proxy=None) as ws:
            for i in range(40):
                await ws.send(json.dumps({"id": f"s{i}", "do": "save"}))
            label = {"do": "label", "recording": 0, "start": 1, "end": 9, "state": "walk"}
            await ws.send(json.dumps({"id": "edit", **label}))
            answered = []
            while len(answered) < 41:
                told = json.loads(await asyncio.wait_for(ws.recv(), 10))
                if told["kind"] == "answer":
                    answered.append(told["id"])
                    ended.set()
            return answered[0]

    assert asyncio.run(talking()) == "edit"
