import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_models import sizes
from live_oracles import BruteForce, push_all, states
from mlat import InputError, Stream, StreamClassifier
from state_streams import clusters

PLACES = clusters(0, [30, 30, 30], n_channels=2)
PLAIN = StreamClassifier(4, metric="euclidean").fit(PLACES)
LEVELLED = StreamClassifier(
    4, metric=mlat.LMNN(max_iter=2), lift=mlat.Lift(["identity", "low_pass"], reach=5)
).fit(PLACES)
VOTING = StreamClassifier(4, metric="euclidean", n_neighbors=3).fit(PLACES)
FILTER = StreamClassifier(4, metric=mlat.MLAT(max_iter=2)).fit(PLACES)
COMMITTEE = StreamClassifier(12, reach=5).fit(PLACES)


def elsewhere(seed, n=40):
    """A walk from the first state's place to where no state is."""
    rng = np.random.default_rng(seed)
    return np.linspace([3.0, 1.0], [9.0, 9.0], n) + 0.2 * rng.normal(size=(n, 2))


def test_a_new_state_is_predicted_at_once():
    live = PLAIN.live(search="exact")
    values = elsewhere(0)
    strange = live.push(values)
    assert strange[-1].why == "far"
    live.teach("elsewhere")
    assert live.classes == ["a", "b", "c", "elsewhere"]
    told = live.push(values[-1:] + 0.01)[0]
    assert (told.state, told.why) == ("elsewhere", "")
    assert told.neighbours == (len(PLAIN.windows_),)
    assert len(told.probabilities) == 4
    assert told.probabilities[3] == told.proba == max(told.probabilities)


@pytest.mark.parametrize(
    ("clf", "search"),
    [
        (PLAIN, "exact"),
        (LEVELLED, "exact"),
        (COMMITTEE, "exact"),
        (PLAIN, "incremental"),
        (FILTER, "incremental"),
        (COMMITTEE, "incremental"),
    ],
    ids=["plain", "lifted", "committee", *[f"{n} incremental" for n in ("plain", "filter", "all")]],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    examples=st.lists(
        st.tuples(
            st.integers(14, 39), st.sampled_from(["a", "c", "new", "newer"]), st.integers(1, 3)
        ),
        max_size=6,
    ),
    room=st.integers(3, 8),
    sizes=sizes,
)
@settings(max_examples=20)
def test_taught_windows_are_references_like_the_others(clf, search, seed, examples, room, sizes):
    values = elsewhere(seed)
    live = clf.live(search=search, far=None, dead="off", max_taught=room)
    brute = BruteForce(clf)
    windows = brute.windows(Stream(values))
    names, taught, predictions, done = clf.classes_.tolist(), [], [], 0
    for step, name, n in [*sorted(examples), (40, None, 0)]:
        for p in push_all(live, values[done:step], sizes):
            if windows[p.step] is None:
                continue
            nearest = brute.nearest(windows[p.step], taught)
            # Of squares, whose terms are about 100; those of a committee are products.
            loose = (1e-3 if clf is COMMITTEE else 1e-4) if search == "incremental" else 1e-12
            np.testing.assert_allclose(p.distance**2, nearest.min() ** 2, rtol=1e-9, atol=loose)
            if (np.sort(nearest)[1] - np.sort(nearest)[0]) > 1e-9:
                assert p.state == names[nearest.argmin()]
            predictions.append(p)
        done = step
        if name is not None:
            live.teach(name, n)
            names += [] if name in names else [name]
            code = names.index(name)
            taught += [(code, windows[step - n + i]) for i in range(n)]
            taught = taught[-room:]
    assert live.classes == names
    assert live.counters["taught"] == sum(n for _, _, n in examples)


def test_votes_count_taught_windows():
    live = VOTING.live(search="exact", far=None)
    values = elsewhere(3)
    live.push(values)
    live.teach("elsewhere", 2)
    told = live.push(values[-2:])[-1]
    assert told.state == "elsewhere"
    assert told.proba == 2 / 3
    n = len(VOTING.windows_)
    assert set(told.neighbours[:2]) == {n, n + 1}
    assert told.neighbours[2] < n


def test_a_filtered_session_learns_a_new_state():
    live = PLAIN.live(search="exact", filtered=True)
    values = elsewhere(1)
    live.push(values)
    live.teach("elsewhere", 3)
    rng = np.random.default_rng(5)
    more = live.push(values[-1] + 0.2 * rng.normal(size=(30, 2)))
    assert states(more)[-10:] == ["elsewhere"] * 10
    for p in more:
        assert sum(p.probabilities) == pytest.approx(1.0)


def test_what_cannot_be_taught():
    live = PLAIN.live(max_taught=5, search="exact")
    live.push(elsewhere(0)[:6])
    before = live.snapshot()
    for arguments, message in [
        (("walk", 4), "4 windows are to be taught, but there are 3"),
        (("walk", 0), "n must be a whole number of windows"),
        (("walk", True), "n must be a whole number of windows"),
        ((3, 1), "states of this model are texts"),
        (("", 1), "states of this model are texts"),
        (("\ud800", 1), "cannot be written as UTF-8"),
    ]:
        with pytest.raises(InputError, match=message):
            live.teach(*arguments)
    live.push(elsewhere(0)[6:])
    with pytest.raises(InputError, match="only 5 are kept"):
        live.teach("walk", 6)
    live.push([[np.nan, 1.0]])
    with pytest.raises(InputError, match="there are 0: they reach back to where"):
        live.teach("walk")
    assert live.counters["taught"] == 0
    live.restore(before)


def test_numbered_states_are_taught_by_number():
    clf = StreamClassifier(4, metric="euclidean").fit(PLACES.values, PLACES.codes)
    live = clf.live(search="exact")
    live.push(elsewhere(0))
    for wrong in ("walk", -1, 1.5, True):
        with pytest.raises(InputError, match="whole numbers; teach one other than -1"):
            live.teach(wrong)
    live.teach(np.int64(7))
    assert live.classes == [0, 1, 2, 7]
    assert live.push(elsewhere(0)[-1:])[0].state == 7


def test_new_names_have_a_bound():
    live = PLAIN.live(max_taught=2, search="exact")
    live.push(elsewhere(0))
    live.teach("d")
    live.teach("e")
    live.teach("d")
    with pytest.raises(InputError, match="2 new states are taught already"):
        live.teach("f")
    # A state whose windows have all made room is known, and never the nearest.
    live.teach("a", 2)
    told = live.push(elsewhere(0)[-1:])[0]
    assert told.state == "a"
    assert told.probabilities[3:] == (0.0, 0.0)
