"""The same past: at the same steps as windows, as far back as the default, in one stretch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imitations import imitate, recorded_twice
from mlat import StreamClassifier
from mlat.synthetic import rotating_states
from mlat_lab.experiments.past import learned_default, look_back, see_features, see_past
from mlat_lab.experiments.protocol import split
from mlat_lab.experiments.runner import streams_of
from mlat_lab.experiments.stream_protocol import split_stream

WIDTH = 4


def with_holes(person):
    stream = imitate(person)
    values = stream.values.copy()
    values[::37, 1] = np.nan
    return stream.with_values(values)


def with_gaps(person):
    stream = imitate(person)
    return stream.with_order(time=np.arange(len(stream)) + 5 * (np.arange(len(stream)) // 23))


SPLITS = {
    "with gaps in time": lambda: split(
        with_gaps("p0"), "holdout", 0, width=WIDTH, given=60, n_few=5
    ),
    "holdout": lambda: split(imitate("p0"), "holdout", 0, width=WIDTH, given=40, n_few=5),
    "with missing values": lambda: split(
        with_holes("p1"), "holdout", 1, width=WIDTH, given=50, n_few=5
    ),
    "stream": lambda: split_stream(imitate("p2"), "stream", width=WIDTH, given=40, n_test=30),
    "with holes": lambda: split_stream(with_holes("p3"), "stream", width=WIDTH, given=60),
    "second": lambda: split_stream(recorded_twice("s01"), "second", width=WIDTH),
}


@pytest.fixture(scope="module", params=SPLITS)
def parts(request):
    return SPLITS[request.param]()


@pytest.fixture(scope="module")
def streams(parts):
    return streams_of(parts)


@pytest.fixture(scope="module")
def default(streams):
    return learned_default(streams.train, WIDTH)


@given(st.data())
def test_looking_back_step_by_step(data):
    n = data.draw(st.integers(1, 30))
    begin = data.draw(st.integers(0, n - 1))
    end = data.draw(st.integers(begin, n - 1))
    past = data.draw(st.integers(1, 40))
    values = np.arange(2.0 * n).reshape(n, 2)
    found = look_back(values, np.array([begin]), np.array([end]), past)[0]
    at, step, wanted = end, -1, []  # to and fro between the first step and the last
    for _ in range(past):
        wanted.append(values[at].tolist())
        if at == begin:
            step = 1
        elif at == end:
            step = -1
        at = min(max(at + step, begin), end)
    assert found.tolist() == wanted[::-1]


def sorted_windows(X, y):
    return sorted(zip(X.reshape(len(X), -1).tolist(), y.tolist(), strict=True))


def test_everyone_learns_and_is_judged_at_the_same_steps(parts, streams, default):
    seen = see_past(streams, WIDTH, default)
    assert seen.past == WIDTH + default.features_.lift.reach
    assert seen.X.shape[1] == seen.test.shape[1] == seen.past
    inside = [stop - start - seen.past + 1 for start, stop, _ in streams.train.runs]
    assert seen.padded == pytest.approx(1 - np.maximum(inside, 0).sum() / len(seen.X))
    assert sorted_windows(seen.X[:, -WIDTH:], seen.y) == sorted_windows(
        parts.train.X, parts.train.y
    )
    np.testing.assert_array_equal(seen.test[:, -WIDTH:], parts.test.X)
    features = see_features(streams, WIDTH, default)
    np.testing.assert_array_equal(features.y, seen.y)
    assert features.past == seen.past
    assert len(features.X) == len(seen.X)
    assert len(features.test) == len(parts.test)
    for one in (*seen[:1], seen.test, features.X, features.test):
        assert np.isfinite(one).all(), "nobody lacks a step"


def test_nothing_reaches_across_a_switch_that_is_given_or_across_a_gap(streams, default):
    """Each stretch holds a number of its own; so does all that is seen of it."""

    def numbered(stream, stretches):
        values = np.full((len(stream), 1), np.nan)
        for number, (start, stop, _) in enumerate(stretches):
            values[start:stop] = number
        return values

    train, test = streams.train, streams.test
    marked = streams._replace(
        train=train.with_values(np.repeat(numbered(train, train.runs), train.n_channels, 1)),
        test=test.with_values(np.repeat(numbered(test, test.segments), test.n_channels, 1)),
    )
    seen = see_past(marked, WIDTH, default)
    for windows in (seen.X, seen.test):
        assert (windows == windows[:, -1:]).all()


def test_features_are_those_that_the_default_compares(streams, default):
    seen = see_features(streams, WIDTH, default)
    runs = streams.train.runs
    learned = [
        default.features_(streams.train[start:stop])[WIDTH - 1 :]
        for start, stop, _ in runs
        if stop - start >= WIDTH
    ]
    learned = np.concatenate(learned)
    mean, deviation = learned.mean(axis=0), learned.std(axis=0)
    np.testing.assert_allclose(seen.X, (learned - mean) / deviation, atol=1e-7)
    judged = default.features_(streams.test)[streams.ends]
    np.testing.assert_allclose(seen.test, (judged - mean) / deviation, atol=1e-7)


def test_a_state_of_the_default_depends_on_no_step_before_the_past():
    stream = rotating_states(random_state=0)
    default = StreamClassifier(width=8).fit(stream)
    past = 8 + learned_default(stream, 8).features_.lift.memory
    test = rotating_states(random_state=1)
    whole = default.predict_proba(test)
    for end in (past + 3, len(test) - 5):
        alone = default.predict_proba(test.values[end - past + 1 : end + 1])
        np.testing.assert_allclose(alone[-1], whole[end], atol=1e-6)
