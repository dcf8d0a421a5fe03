"""What a page shows of the model, over HTTP."""

import numpy as np

from live_clients import run, serving
from mlat.live import Steps
from mlat.live.page.hub import Hub
from page_server import body_stream, classifier


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
