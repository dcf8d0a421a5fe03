import numpy as np
import pytest

from live_models import EXACT, STREAM, fitted
from live_oracles import states
from mlat import InputError
from mlat.live import LiveSession, Steps
from mlat.live.core.steps import Predictions


def test_a_chunk_may_be_changed_afterwards():
    clf = fitted("euclidean")
    live, chunk = clf.live(**EXACT), STREAM.values[:10].copy()
    live.push(chunk)
    chunk[:] = 1e6
    expected = clf.predict(STREAM.values[:30])[10:].tolist()
    assert states(live.push(STREAM.values[10:30])) == expected


def test_a_step_comes_in_many_forms():
    clf = fitted("euclidean")
    pd = pytest.importorskip("pandas")
    row = STREAM.values[0]
    for chunk in (row, row[None], row.tolist(), [row.tolist()], pd.DataFrame([row])):
        assert len(clf.live().push(chunk)) == 1
    assert clf.live().push([]) == clf.live().push(np.empty((0, 3))) == []
    one = clf.live().push(row, seq=4, time=0.5)[0]
    assert (one.seq, one.time, one.step, one.why) == (4, 0.5, 0, "filling")


@pytest.mark.parametrize(
    ("chunk", "more", "message"),
    [
        (np.zeros((2, 4)), {}, "have 4 channels, the model was learned on 3"),
        ([[1.0, "walk", 2.0]], {}, "'walk'"),
        (np.array([["a", "b", "c"]]), {}, "must be numbers"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], {}, "2 channels at step 1"),
        (np.zeros((2, 3)), {"seq": [1]}, "one entry per step"),
        (np.zeros((2, 3)), {"seq": [1.5, 2.5]}, "whole numbers"),
        (np.zeros((2, 3)), {"time": [0.0, np.nan]}, "time is nan at step 1"),
        (np.zeros((2, 3)), {"time": ["now", "then"]}, "seconds as numbers"),
        (Steps(np.zeros((1, 3))), {"seq": [1]}, "of their own"),
    ],
)
def test_a_wrong_chunk_changes_nothing(chunk, more, message):
    live = fitted("euclidean").live(order_by="none")
    live.push(STREAM.values[:8])
    before = live.snapshot()
    with pytest.raises(InputError, match=message):
        live.push(chunk, **more)
    assert live.snapshot() == before


def test_a_long_chunk_is_told_as_its_steps_one_by_one():
    """Longer than what is classified at a time; with fewer taught windows than neighbours."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1200, 2))
    values[20:620] = np.nan

    def taught():
        live = LiveSession.empty(2, width=2, n_neighbors=5, far=None)
        live.push(values[:4])
        live.teach("still", 2)
        return live

    together = taught().push(values)
    assert isinstance(together, Predictions)
    alone = taught()
    assert repr([*together]) == repr([one for row in values for one in alone.push(row)])
    assert len(together[-1].neighbours) == 2


def test_a_long_chunk_may_release_a_step_that_lacks_what_the_chunk_has():
    live = fitted("euclidean").live(order_by="seq", reorder=4)
    values, seq = np.resize(STREAM.values, (1300, 3)), np.arange(1300)
    live.push(values[:1], seq[:1], [0.0])
    live.push(values[3:4], seq[3:4])  # has no time, and waits
    rest = np.delete(seq[1:], 2)
    told = live.push(values[rest], rest, rest / 100.0)
    assert [p.seq for p in told] == [*range(1, 1300)]
    times = [p.time for p in told]
    assert times[2] is None
    assert times[-1] == 12.99
    assert [p.step for p in live.recent] == [*range(1300 - 256, 1300)]
