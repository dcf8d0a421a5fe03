"""The picture of a committee's decision."""

from __future__ import annotations

import numpy as np
import pytest

import mlat
from explain_models import COMMITTEE_WIDTH, committee, split_vote, test
from mlat.explain import explain
from mlat.plots import explain_prediction, plot_committee, plot_usage
from mlat.plots.explain import MAX_MARGINS
from mlat.plots.figure import state_colours
from plot_checks import axes_titled, draws, texts


@pytest.fixture(scope="module")
def step():
    return int(split_vote(committee(), test)[0])


def test_bars_add_up_to_the_decision(step, tmp_path):
    clf = committee()
    found = explain(clf, test, step)
    figure = plot_committee(found)
    bars = axes_titled(figure, "what each adds").patches
    ends, colours = 0.0, state_colours(len(clf.classes_))
    for bar, one in zip(bars, found.opinions, strict=False):
        assert bar.get_x() == pytest.approx(ends)
        assert bar.get_width() == pytest.approx(one.log_odds)
        ends += one.log_odds
        favoured = found.own.state if one.log_odds >= 0 else found.other.state
        code = clf.classes_.tolist().index(favoured)
        assert np.allclose(bar.get_facecolor()[:3], colours[code])
    assert len(bars) == len(found.opinions) + 1
    assert bars[-1].get_width() == pytest.approx(found.log_odds)
    named = texts(figure.axes[0].get_yticklabels())
    assert named[-1] == "all together"
    for text, one in zip(named, found.opinions, strict=False):
        assert text == f"{one.name}\nweight {one.weight:.0%}"
    assert figure.get_suptitle() == found.headline
    assert figure.get_supxlabel().replace("\n", " ") == found.in_words
    assert draws(figure, tmp_path)


def test_cells_say_which_state_is_nearest_to_whom(step):
    clf = committee()
    found = explain(clf, test, step)
    ax = axes_titled(plot_committee(found), "how far each state is")
    cells = np.array(texts(ax.texts)).reshape(len(found.opinions) + 1, len(clf.classes_))
    for row, distances in zip(
        cells, [*(o.nearest for o in found.opinions), found.nearest], strict=True
    ):
        assert np.flatnonzero(row == "nearest").tolist() == [int(distances.argmin())]
        times = [float(text.removeprefix("× ")) for text in row if text != "nearest"]
        expected = np.delete(distances, distances.argmin()) / distances.min()
        assert np.allclose(times, expected, rtol=1e-2)
    assert texts(ax.get_xticklabels()) == clf.classes_.tolist()


def test_each_expert_has_the_features_that_speak_most(step):
    found = explain(committee(), test, step)
    figure = plot_committee(found)
    for one in found.opinions:
        ax = axes_titled(figure, f"{one.name}:\nsays {one.state}")
        order = np.argsort(-np.abs(one.margin.by_feature), kind="stable")[:MAX_MARGINS]
        widths = [bar.get_width() for bar in ax.patches]
        assert np.allclose(widths, one.margin.by_feature[order])


def test_a_committee_is_drawn_by_default_and_an_expert_when_named(step, tmp_path):
    clf = committee()
    assert axes_titled(explain_prediction(clf, test, step), "what each adds")
    figure = explain_prediction(clf, test, step, expert="forest")
    assert figure.get_suptitle().endswith("; forest")
    window = figure.axes[0].lines[-1]
    assert len(window.get_xdata()) == 1  # of the expert, not of the widest
    assert window.get_xdata()[-1] == step
    channel = clf.channels_.index(figure.axes[0].get_ylabel())
    assert np.array_equal(window.get_ydata(), test.values[step : step + 1, channel])
    found = explain(clf, test, step)
    (one,) = [one for one in found.opinions if one.name == "forest"]
    begin = clf.windows_.start[one.own.rows[0]] + COMMITTEE_WIDTH - 1
    nearest = figure.axes[0].lines[-2].get_ydata()
    assert np.array_equal(nearest, clf.windows_.values[begin : begin + 1, channel])
    assert draws(figure, tmp_path)


def test_many_states_are_cut_down_to_the_nearest(tmp_path):
    rng = np.random.default_rng(0)
    states = np.repeat([f"s{i:02d}" for i in range(11)] * 2, 30)
    level = np.array([int(s[1:]) for s in states])
    stream = mlat.Stream(level[:, None] + 0.8 * rng.normal(size=(660, 2)), states)
    clf = mlat.StreamClassifier(4, held_out=False).fit(stream)
    found = explain(clf, stream, 500)
    figure = plot_committee(found)
    ax = axes_titled(figure, "how far each state is")
    shown = texts(ax.get_xticklabels())
    assert len(shown) == 8
    assert {found.own.state, found.other.state} <= set(shown)
    assert ax.get_xlabel() == "3 states that are farther away are not shown"
    assert draws(figure, tmp_path)


def test_usage_of_an_expert(tmp_path):
    figure = plot_usage(committee(), expert="forest")
    assert figure.get_suptitle().startswith("What tells the states apart to forest,")
    with pytest.raises(mlat.InputError, match="name one"):
        plot_usage(committee())
    assert draws(figure, tmp_path)
