"""A session predicts what ``predict`` does, whatever happens to it in whatever order."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import mlat
from live_models import STREAM, fitted
from live_oracles import (
    BruteForce,
    assert_as_batch,
    comparable,
    cut,
    dead_naively,
    hold_naively,
    push_all,
    recordings,
)
from mlat import InputError, Stream, StreamClassifier
from state_streams import clusters

PLACES = clusters(0, [30, 30, 30], n_channels=2)
MODELS = {
    "plain": StreamClassifier(3, metric="euclidean").fit(PLACES),
    "filter": StreamClassifier(4, metric=mlat.MLAT(max_iter=2)).fit(PLACES),
    "lifted": StreamClassifier(
        3,
        metric=mlat.LMNN(max_iter=2),
        lift=mlat.Lift(["identity", "difference", "running_deviation"], reach=4),
        whiten=True,
    ).fit(PLACES),
    "votes": StreamClassifier(3, metric="euclidean", n_neighbors=3).fit(PLACES),
}
FLUSH = "flush"
PLAIN = {"order_by": "none", "reorder": 0, "dead": "off"}


def test_the_window_and_the_last_predictions():
    live = fitted("lifted").live()
    assert live.window.shape == (0, 3)
    predictions = push_all(live, STREAM.values[:30], [7])
    np.testing.assert_array_equal(live.window, STREAM.values[24:30])
    assert comparable(live.recent) == comparable(predictions)


def put_in_order(arrivals, reorder):
    """The steps let through, by the plain definition: (number, row) in their order."""
    waiting, last, through = {}, None, []
    for arrival in arrivals:
        if arrival is not FLUSH:
            seq, row = arrival
            if seq in waiting or (last is not None and seq <= last):
                continue
            waiting[seq] = row
        room = 0 if arrival is FLUSH else reorder
        while waiting and (len(waiting) > room or last in (None, min(waiting) - 1)):
            last = min(waiting)
            through.append((last, waiting.pop(last)))
    return through


def equivalent(through, options, dead_after):
    """The accepted steps as one stream, with NaN and recordings where the policies say so."""
    kept, gaps, last, refused = [], [], None, False
    for seq, row in through:
        jump = refused or (last is not None and seq != last + 1)
        last = seq
        refused = bool(np.isinf(row).any()) or (
            options["missing"] == "reject" and bool(np.isnan(row).any())
        )
        if refused:
            continue
        kept.append(row)
        gaps.append(jump)
    # A step after one that was refused follows a gap, whatever its number.
    values, gaps = np.array(kept).reshape(-1, 2), np.array(gaps, dtype=bool)
    if options["missing"] == "hold":
        values = hold_naively(values, options["hold"], gaps)
    dead = dead_naively(values, dead_after).any(axis=1)
    return Stream(np.where(dead[:, None], np.nan, values), recordings=recordings(gaps))


class SessionMachine(RuleBasedStateMachine):
    @initialize(
        name=st.sampled_from(sorted(MODELS)),
        missing=st.sampled_from(["abstain", "hold", "reject"]),
        reorder=st.integers(0, 3),
        filtered=st.booleans(),
        search=st.sampled_from(["exact", "auto"]),
        seed=st.integers(0, 2**32 - 1),
    )
    def begin(self, name, missing, reorder, filtered, search, seed):
        self.clf = MODELS[name]
        self.options = {
            "missing": missing,
            "hold": 2,
            "reorder": reorder,
            "order_by": "seq",
            "filtered": filtered,
            "search": search,
            "max_taught": 8,
            "teachable": 40,
            "far": None,
        }
        self.live = self.clf.live(**self.options)
        self.rng = np.random.default_rng(seed)
        self.done, self.arrivals, self.told, self.taught = [], [], [], []
        self.next = 0
        self.saved = self.live.snapshot(), 0, 0

    def _do(self, live, what, chunks=()):
        """One thing that happens to a session, and what is told of it."""
        kind, *with_what = what
        if kind == "push":
            values, seq = with_what
            return [
                p for part in cut(seq, list(chunks)) for p in live.push(values[part], seq[part])
            ]
        if kind == "flush":
            return live.flush()
        getattr(live, kind)(*with_what)
        return []

    def _happens(self, what, chunks=()):
        self.told += self._do(self.live, what, chunks)
        self.done.append(what)

    @rule(
        n=st.integers(1, 16),
        values=st.sampled_from(["whole", "whole", "holes", "still", "infinite"]),
        arrival=st.sampled_from(["in order", "in order", "late", "lost", "again"]),
        chunks=st.lists(st.integers(1, 6), max_size=3),
    )
    def push(self, n, values, arrival, chunks):
        rng, kind = self.rng, values
        values = rng.normal(size=(n, 2)) + 3 * rng.normal(size=2)
        if kind == "still":
            values[:, 0] = 1.5
        elif kind == "holes":
            values[rng.integers(n, size=3), rng.integers(2, size=3)] = np.nan
        elif kind == "infinite":
            values[rng.integers(n), 1] = np.inf
        seq = self.next + np.arange(n)
        self.next += n
        order = np.arange(n)
        if arrival == "late":  # mostly not too late
            order = np.argsort(order + rng.integers(0, self.options["reorder"] + 2, size=n))
        elif arrival == "lost":
            order = order[rng.random(n) < 0.8]
        elif arrival == "again":
            order = np.append(order, rng.integers(n, size=2))
        values, seq = values[order], seq[order]
        self.arrivals += list(zip(seq.tolist(), values, strict=True))
        self._happens(("push", values, seq), chunks)

    @rule(n=st.integers(4, 12))
    def push_plainly(self, n):
        self.push(n, "whole", "in order", [])

    @rule(n=st.integers(8, 20), chunks=st.lists(st.integers(1, 6), max_size=3))
    def push_something(self, n, chunks):
        kind = self.rng.choice(["whole", "holes", "still", "infinite"])
        self.push(n, kind, self.rng.choice(["late", "lost", "again"]), chunks)

    @rule()
    def flush(self):
        self.arrivals.append(FLUSH)
        self._happens(("flush",))

    @precondition(lambda self: self.told)
    @rule(state=st.sampled_from(["a", "b", "new", "newer"]), n=st.integers(1, 3))
    def teach(self, state, n):
        # How many complete windows there are is told by what was last told.
        complete = 0
        while complete < len(self.told) and self.told[-1 - complete].probabilities:
            complete += 1
        before = self.live.snapshot()
        try:
            self._happens(("teach", state, n))
        except InputError:
            assert complete < n
            assert self.live.snapshot() == before
        else:
            self.taught.append((len(self.told), state, range(len(self.told) - n, len(self.told))))

    @precondition(lambda self: self.told)
    @rule(
        state=st.sampled_from(["a", "new", "newer"]), back=st.integers(1, 45), n=st.integers(1, 30)
    )
    def teach_span(self, state, back, n):
        begin = max(0, len(self.told) - back)
        end, w = min(begin + n, len(self.told)), self.clf.width_
        complete = [t for t in range(begin, end) if self.told[t].probabilities]
        before = self.live.snapshot()
        try:
            self._happens(("teach_span", state, begin, end))
        except InputError:
            assert not complete or back > self.options["teachable"]
            assert self.live.snapshot() == before
            return
        ends = [t for t in complete if t - w + 1 >= begin] or complete[-1:]
        every = -(-len(ends) // (self.options["max_taught"] // 4))
        self.taught.append((len(self.told), state, ends[::-1][::every][::-1]))

    @rule()
    def undo(self):
        if self.live.examples:
            self._happens(("undo",))
            self.taught.append((len(self.told), None, ()))
        else:
            with pytest.raises(InputError, match="no example"):
                self.live.undo()

    @precondition(lambda self: self.live.examples)
    @rule(begin=st.integers(0, 30))
    def save(self, begin):
        """A model with what was taught decides as the session, from a new beginning on."""
        values = STREAM.values[begin : begin + 25, :2]
        options = self.options | {"filtered": False, "search": "exact", **PLAIN}
        session, model = self.clf.live(**options), self.live.taught_model()
        state = session.state.copy()
        state.examples, state.taught = self.live.state.examples, self.live.state.taught
        state.belief = self.live.state.belief
        session.state = state
        ours, theirs = session.push(values), model.live(**options).push(values)
        assert [p.why for p in ours] == [p.why for p in theirs]
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.distance, other.distance, rtol=1e-6, atol=1e-6)
            if self.clf.n_neighbors_ == 1 and one.probabilities:
                shares = dict(zip(session.classes, one.probabilities, strict=True))
                again = dict(zip(model.classes_.tolist(), other.probabilities, strict=True))
                for name, share in shares.items():
                    assert again.get(name, 0.0) == pytest.approx(share, abs=1e-6)

    @rule()
    def snapshot(self):
        self.saved = self.live.snapshot(), len(self.done), len(self.told)

    @precondition(lambda self: len(self.done) > self.saved[1])
    @rule(chunks=st.lists(st.integers(1, 6), max_size=4))
    def crash(self, chunks):
        """Back to the last snapshot, in another session; what came since comes again."""
        snapshot, n_done, n_told = self.saved
        end = self.live.snapshot()
        self.live = self.clf.live(**self.options)
        self.live.restore(snapshot)
        again = [p for what in self.done[n_done:] for p in self._do(self.live, what, chunks)]
        assert comparable(again) == comparable(self.told[n_told:])
        assert self.live.snapshot() == end

    def teardown(self):
        if not hasattr(self, "clf"):
            return
        self.flush()
        through = put_in_order(self.arrivals, self.options["reorder"])
        stream = equivalent(through, self.options, self.live.model.dead_after)
        assert len(self.told) == len(stream) == self.live.counters["accepted"]
        untaught = self.taught[0][0] if self.taught else len(stream)
        incremental = self.live.model.search == "incremental"
        if len(stream) and not incremental:
            filtered = self.options["filtered"]
            assert_as_batch(self.clf, self.told[:untaught], stream[:untaught], filtered=filtered)
        elif len(stream) and not self.options["filtered"]:
            expected = self.clf.predict(stream[:untaught]).tolist()
            assert [p.state for p in self.told[:untaught]] == expected
        self._check_taught(stream, 1e-4 if incremental else 1e-12)

    def _check_taught(self, stream, loose):
        """After an example: as a brute force over the references and what was taught by then."""
        brute, names = BruteForce(self.clf), self.clf.classes_.tolist()
        windows = brute.windows(stream) if len(stream) else []
        examples, given, known, taught = [*self.taught], [], names, []
        for p in self.told:
            while examples and examples[0][0] == p.step:
                _, state, ends = examples.pop(0)
                if state is None:  # as if it had never been given
                    given.pop()
                else:
                    given.append((state, ends))
                names = known + [s for s in dict.fromkeys(s for s, _ in given) if s not in known]
                taught = [(names.index(s), windows[t]) for s, ends in given for t in ends]
                taught = taught[-self.options["max_taught"] :]
            if not taught or windows[p.step] is None:
                assert windows[p.step] is not None or not p.probabilities
                continue
            assert len(p.probabilities) == len(names)
            nearest = brute.nearest(windows[p.step], taught)
            np.testing.assert_allclose(p.distance**2, nearest.min() ** 2, rtol=1e-9, atol=loose)
            told_apart = np.diff(np.sort(nearest)[:2])[0] > 1e-9
            if self.clf.n_neighbors_ == 1 and not self.options["filtered"] and told_apart:
                assert p.state == names[nearest.argmin()]
            if self.clf.n_neighbors_ > 1:
                self._check_votes(brute, p, windows[p.step], taught, names)

    def _check_votes(self, brute, p, window, taught, names):
        distances, codes = brute.distances(window, taught)
        order = np.argsort(distances, kind="stable")[: self.clf.n_neighbors_ + 1]
        if np.diff(distances[order]).min() > 1e-9:  # no near ties
            assert p.neighbours == tuple(order[:-1])
            if not self.options["filtered"]:
                counts = np.bincount(codes[order[:-1]], minlength=len(names))
                np.testing.assert_allclose(p.probabilities, counts / counts.sum())


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=120, stateful_step_count=20, deadline=None)


def test_the_naive_order_is_an_order():
    steps = [(s, None) for s in (0, 2, 1, 5, 4, 4, 7, 3)]
    assert [s for s, _ in put_in_order(steps, 2)] == [0, 1, 2, 4, 5]
    assert [s for s, _ in put_in_order([*steps, FLUSH], 2)] == [0, 1, 2, 4, 5, 7]
    with pytest.raises(TypeError):
        put_in_order([None], 2)
