"""What a page shows of the model, over HTTP."""

import json

import numpy as np
import pytest

from explain_models import committee, test
from live_clients import run, serving
from mlat.live import Steps
from mlat.live.page.hub import Hub
from mlat.live.page.model_view import describe, reference
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


def test_the_experts_of_a_committee_are_listed_with_their_weights():
    assert describe(classifier())["experts"] == []
    clf = committee()
    told = describe(clf)["experts"]
    assert [one["name"] for one in told] == [m.name for m in clf.committee_.deciding]
    assert sum(one["weight"] for one in told) == pytest.approx(1)
    json.dumps(told)


def test_a_window_taught_to_a_committee_has_its_channels():
    clf = committee()
    session = clf.live(search="exact", far=None)
    values = test.values[:60]
    session.push(values)
    session.teach("new", n=1)
    window = reference(clf, session, len(clf.windows_))
    assert (window["state"], window["taught"]) == ("new", True)
    np.testing.assert_allclose(
        np.array(window["values"]).T, values[-clf.width_ :], rtol=1e-3, atol=1e-5
    )
