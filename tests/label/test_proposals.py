"""Proposals: what is clear is found, labels have their effect, and nothing breaks on odd input."""

import numpy as np
import pytest

from label_server import RUN, STATES, states_stream
from mlat import Stream
from mlat.label.proposals import (
    Cells,
    CellStates,
    merged_opinions,
    opinion_of_steps,
    proposals,
    quick_opinion,
    without_short_runs,
)
from mlat.label.span_list import Stretch

STREAM = states_stream()
SPANS = [Stretch(k * RUN + 60, k * RUN + 240, STATES[k]) for k in range(3)]


def accuracy(found):
    return sum((STREAM.states[p.start : p.end] == p.state).sum() for p in found) / len(STREAM)


def test_states_that_differ_are_proposed_at_once():
    cells = Cells([STREAM], 25)
    found = proposals(cells, quick_opinion(cells, [SPANS]), 0)
    assert accuracy(found) > 0.9
    assert all(0 < p.confidence <= 1 for p in found)
    assert [p.start for p in found[1:]] == [p.end for p in found[:-1]]
    assert (found[0].start, found[-1].end) == (0, len(STREAM))


@pytest.mark.parametrize(
    "spans", [[], [Stretch(0, 50, "a")], [Stretch(0, 50, "a"), Stretch(99, 120, "a")]]
)
def test_fewer_than_two_states_propose_nothing(spans):
    cells = Cells([STREAM], 25)
    assert proposals(cells, quick_opinion(cells, [spans]), 0) == []


def test_spans_of_one_recording_speak_of_the_others():
    again = states_stream(seed=1)
    cells = Cells([STREAM, again], 25)
    found = proposals(cells, quick_opinion(cells, [SPANS, []]), 1)
    assert accuracy(found) > 0.9


def test_constant_missing_and_short_recordings():
    values = np.full((40, 2), np.nan)
    values[:, 1] = 3.0
    cells = Cells([Stream(values, channels=["a", "b"])], 25)
    found = proposals(cells, quick_opinion(cells, [[Stretch(0, 1, "a"), Stretch(39, 40, "b")]]), 0)
    assert found[-1].end == 40
    tiny = Cells([Stream([[1.0]], channels=["a"])], 25)
    assert len(tiny) == 1


def test_more_spans_than_can_be_compared():
    cells = Cells([STREAM], 25)
    spans = [Stretch(t, t + 1, f"s{t % 5}") for t in range(0, len(STREAM), 2)]
    assert proposals(cells, quick_opinion(cells, [spans]), 0)


def test_the_learned_opinion_counts_where_its_classifier_has_seen_the_nearest_span():
    quick = CellStates(
        ["a", "b"], np.array([0, 1, 0]), np.full(3, 0.6, np.float32), np.array([0, 1, 0])
    )
    learned = CellStates(
        ["b", "c"], np.array([0, 0, 1]), np.full(3, 0.9, np.float32), np.full(3, -1)
    )
    both = merged_opinions(quick, learned, [True, False])
    # The second cell is nearest to a span that was not seen; no span has the state of the third.
    assert [both.states[c] for c in both.codes] == ["b", "b", "a"]
    assert both.confidence.tolist() == pytest.approx([0.9, 0.6, 0.6])
    # Of a model from elsewhere the more confident one counts.
    given = merged_opinions(quick, learned, None)
    assert [given.states[c] for c in given.codes] == ["b", "b", "c"]
    assert merged_opinions(quick, None, [True, True]) is quick


def test_short_runs_join_the_longer_neighbour():
    codes = np.array([0, 0, 0, 1, 0, 2, 2, 2, 2, 1, 1])
    assert without_short_runs(codes, 3).tolist() == [0] * 4 + [2] * 7
    assert without_short_runs(codes, 1).tolist() == codes.tolist()


def test_predictions_of_steps_become_cells():
    cells = Cells([STREAM], 25)
    codes = np.repeat([0, 1, -1], RUN * 3)
    confidence = np.where(codes >= 0, 0.8, np.nan)
    made = opinion_of_steps(cells, ["x", "y"], [codes], [confidence])
    found = proposals(cells, made, 0)
    assert [(p.start, p.end, p.state) for p in found] == [(0, 900, "x"), (900, 1800, "y")]
    assert found[0].confidence == pytest.approx(0.8)
