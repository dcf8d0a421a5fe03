"""Sessions that are copied and pickled go on alike, and on their own."""

import copy
import pickle

import pytest

import mlat
from mlat.synthetic import rotating_states

again = rotating_states(random_state=1)


@pytest.mark.parametrize(
    "make",
    [copy.copy, copy.deepcopy, lambda live: pickle.loads(pickle.dumps(live))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("metric", ["euclidean", "mlat"])
def test_a_copy_goes_on_alike_and_alone(make, metric):
    clf = mlat.StreamClassifier(8, metric=metric).fit(rotating_states())
    live = clf.live()
    live.push(again.values[:40])
    live.teach("new", 3)
    other = make(live)
    assert [p.step for p in other.recent] == [p.step for p in live.recent]
    moved = other.push(again.values[40:90])
    other.push(again.values[:25])  # which the first does not know of
    stayed = live.push(again.values[40:90])
    assert [(p.step, p.state, p.distance) for p in moved] == [
        (p.step, p.state, p.distance) for p in stayed
    ]
    assert other.classes == live.classes
