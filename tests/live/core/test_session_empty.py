"""Sessions that start without references, labels that come late, and what is forgotten."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat.base.errors import InputError
from mlat.live import LiveSession
from mlat.live.core.teaching import kept_windows
from mlat.synthetic import rotating_states

stream = rotating_states(random_state=3)
WIDTH = 4


def nearest_by_hand(values, examples, width, k):
    """The states of the k windows nearest to the last one, nearest first."""
    last = values[-width:]
    distances = [np.sqrt(((values[end - width : end] - last) ** 2).sum()) for end, _ in examples]
    order = np.argsort(distances, kind="stable")[:k]
    return [examples[i][1] for i in order], [distances[i] for i in order]


@pytest.mark.parametrize("k", [1, 3])
def test_it_knows_what_it_was_taught_and_nothing_else(k):
    live = LiveSession.empty(stream.channels, WIDTH, n_neighbors=k, far=None, dead="off")
    examples = []
    for t in range(80):
        [p] = live.push(stream.values[t])
        if t < WIDTH - 1:
            assert (p.state, p.why) == ("", "filling")
        elif not examples:
            assert (p.state, p.why, p.probabilities) == ("", "untaught", ())
        else:
            states, distances = nearest_by_hand(stream.values[: t + 1], examples, WIDTH, k)
            assert p.distance == pytest.approx(distances[0])
            if k == 1:
                assert p.state == states[0]
                assert p.probabilities[live.classes.index(p.state)] == max(p.probabilities)
            shares = {s: states.count(s) / len(states) for s in states}
            assert shares[p.state] == max(shares.values())
            assert sum(p.probabilities) == pytest.approx(1)
        if t > 20 and t % 3 == 0:
            live.teach(stream.states[t])
            examples.append((t + 1, stream.states[t]))
    assert set(live.classes) == {state for _, state in examples}


def test_scaling_and_a_learned_metric_are_used():
    clf = mlat.StreamClassifier(WIDTH, metric="mlat").fit(rotating_states())
    live = LiveSession.empty(
        clf.channels_, WIDTH, metric=clf.metric_, mean=clf.mean_, scale=clf.scale_, dead="off"
    )
    live.push(stream.values[:30])
    live.teach("then")
    p = live.push(stream.values[30:50])[-1]
    of_both = clf.features_(clf.as_stream(stream.values[:50]))
    a, b = clf.references_.embed(np.stack([of_both[30 - WIDTH : 30], of_both[50 - WIDTH : 50]]))
    assert p.distance == pytest.approx(np.linalg.norm(a - b))


@pytest.mark.parametrize(
    "make",
    [copy.deepcopy, lambda live: pickle.loads(pickle.dumps(live))],
    ids=["deepcopy", "pickle"],
)
@pytest.mark.parametrize("n_taught", [0, 1, 5])
def test_copies_of_an_empty_session_go_on_alike(make, n_taught):
    live = LiveSession.empty(stream.n_channels, WIDTH, named=False)
    live.warm_up()
    live.push(stream.values[:20])
    for state in range(n_taught):
        live.teach(state)
        live.push(stream.values[20 + state])
    other = make(live)
    more = stream.values[30:40]
    assert repr(other.push(more)) == repr(live.push(more))  # NaN equals NaN here
    assert other.snapshot() == live.snapshot()


@pytest.mark.parametrize("search", ["exact", "incremental"])
def test_a_late_label_teaches_what_it_would_have_then(search):
    clf = mlat.StreamClassifier(8, metric="euclidean").fit(rotating_states())
    then, late = (clf.live(search=search, teachable=30, dead="off", far=None) for _ in range(2))
    then.push(stream.values[:40])
    then.teach("new", 3)
    then.push(stream.values[40:60])
    late.push(stream.values[:60])
    late.teach("new", 3, ago=20)
    more = stream.values[60:90]
    assert [(p.state, p.distance) for p in then.push(more)] == [
        (p.state, p.distance) for p in late.push(more)
    ]
    with pytest.raises(InputError, match="3 windows are to be taught, but there are 2 28 steps"):
        late.teach("new", 3, ago=28)
    with pytest.raises(InputError, match="ago must be a whole number of steps"):
        late.teach("new", ago=-1)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(4, 12))
def test_the_balanced_rule_keeps_the_newest_of_each_state(codes, most):
    kept = np.zeros(0, np.int64)
    numbers = np.zeros(0, np.int64)
    for number, code in enumerate(codes):
        kept, numbers = np.append(kept, code), np.append(numbers, number)
        rows = kept_windows(kept, most, "balanced")
        kept, numbers = kept[rows], numbers[rows]
    assert len(kept) <= most
    assert set(kept) == set(codes)
    assert (np.diff(numbers) > 0).all()
    share = most // len(set(codes))
    for code in set(codes):
        every = [number for number, other in enumerate(codes) if other == code]
        own = numbers[kept == code].tolist()
        assert own == every[len(every) - len(own) :]  # no newer one was dropped
        assert len(own) == min(share, len(every))


def test_a_frequent_state_does_not_push_out_a_rare_one():
    lives = {
        rule: LiveSession.empty(1, 2, max_taught=4, forget=rule) for rule in ("oldest", "balanced")
    }
    for live in lives.values():
        live.push([[0.0], [0.0]])
        live.teach("rare")
        for _ in range(9):
            live.push([[9.0], [9.0]])
            live.teach("frequent")
    said = {rule: live.push([[0.0], [0.0]])[-1].state for rule, live in lives.items()}
    assert said == {"oldest": "frequent", "balanced": "rare"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"channels": "ax"}, "a number or a list of names"),
        ({"channels": ["a", "a"]}, "all different"),
        ({"channels": 2, "scale": [1.0, 0.0]}, "scale must be above 0"),
        ({"channels": 2, "mean": [1.0]}, "mean must be a finite number for each of 2"),
        ({"channels": 2, "filtered": True}, "knows no switches to filter by"),
        ({"channels": 2, "search": "incremental"}, "leave filtered and search"),
        ({"channels": 2, "forget": "all"}, 'forget must be "oldest" or "balanced"'),
    ],
)
def test_what_an_empty_session_refuses(given, message):
    with pytest.raises(InputError, match=message):
        LiveSession.empty(**given)


def test_taught_states_must_fit_the_session():
    live = LiveSession.empty(1, 2)
    with pytest.raises(InputError, match="there are 0"):
        live.teach("early")
    live.push([[0.0], [1.0]])
    with pytest.raises(InputError, match="teach a text"):
        live.teach(3)
