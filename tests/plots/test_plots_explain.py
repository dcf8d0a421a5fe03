"""Pictures of predictions and of what a model goes by: what is drawn where."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import mlat
from doc_examples import DOCS, run_examples
from mlat.explain.explanation import explain
from mlat.explain.usage import measure_usage
from mlat.plots import explain_prediction, plot_confusion, plot_timeline, plot_usage, save_figure
from mlat.plots.figure import FAINT, in_figures, shorten, state_colours, used_lags
from mlat.synthetic import rotating_states

WIDTH = 6
SENSORS = {"n_channels": 3, "drift": 0.3, "noise": 0.3}
train = rotating_states(**SENSORS)
test = rotating_states(**SENSORS, random_state=1)


@pytest.fixture(scope="module")
def clf():
    return mlat.StreamClassifier(WIDTH, metric=mlat.MLAT(max_iter=5)).fit(train)


def axes_titled(figure, words):
    (found,) = [
        ax for ax in figure.axes if words in ax.get_title() or words in ax.get_title(loc="left")
    ]
    return found


def texts(labels):
    return [label.get_text() for label in labels]


def draws(figure, tmp_path):
    """Whether it can be written, which is when a layout fails."""
    save_figure(figure, tmp_path / "drawn.png")
    return (tmp_path / "drawn.png").stat().st_size > 1000


# One prediction


def test_the_nearest_windows_are_drawn_over_the_window(clf, tmp_path):
    found = explain(clf, test, 100, n_neighbors=2)
    figure = explain_prediction(clf, test, 100, 2)
    assert figure.get_suptitle() == found.headline
    first = axes_titled(figure, f"nearest {found.own.state} (predicted): distance ")
    channel = clf.channels_.index(first.get_ylabel())
    second, nearest, window = (line.get_ydata() for line in first.lines)
    assert np.array_equal(window, test.values[95:101, channel])
    for line, row in ((nearest, found.own.rows[0]), (second, found.own.rows[1])):
        start = clf.windows_.start[row]
        assert np.array_equal(line, train.values[start : start + WIDTH, channel])
    colour = state_colours(4)[clf.classes_.tolist().index(found.own.state)]
    assert np.allclose(first.lines[1].get_color(), colour)
    assert draws(figure, tmp_path)


def test_bars_are_the_parts_of_the_distance(clf):
    found = explain(clf, test, 100)
    figure = explain_prediction(clf, test, 100)
    bars = axes_titled(figure, "which features").patches
    order = [clf.feature_names_.index(t) for t in texts(figure.axes[-2].get_yticklabels())]
    drawn = np.array([bar.get_width() for bar in bars]).reshape(2, 3)
    assert np.allclose(drawn[0], found.own.parts.by_feature[order])
    assert np.allclose(drawn[1], found.other.parts.by_feature[order])
    lags = axes_titled(figure, "which lags")
    drawn = np.array([bar.get_height() for bar in lags.patches]).reshape(2, WIDTH)
    assert np.allclose(drawn, [found.own.parts.by_lag, found.other.parts.by_lag])
    assert np.allclose(drawn.sum(axis=1), [found.own.distances[0] ** 2, found.other.parts.total])
    assert "in all" in lags.get_legend().get_texts()[0].get_text()


def many_channels(seed):
    rng = np.random.default_rng(seed)
    states = np.repeat([1, 2] * 2, 90)
    values = rng.normal(size=(360, 60))
    values[:, 7] += 5 * (states == 1)
    names = [f"accelerometer of the left upper leg, axis {i}" for i in range(60)]
    return mlat.Stream(values, states, channels=names)


def test_of_many_channels_the_most_telling_are_drawn(tmp_path):
    clf = mlat.StreamClassifier(45, metric="euclidean").fit(many_channels(0))
    figure = explain_prediction(clf, many_channels(1), 80)
    named = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()]
    assert len(named) == 5
    assert named[0].endswith("axis 7")
    assert figure.get_supxlabel().startswith("5 of 60 channels are drawn")
    assert "55 are not" in figure.get_supxlabel()
    bars = axes_titled(figure, "which features")
    assert len(bars.patches) == 20
    assert "50 others" in bars.get_xlabel()
    assert draws(figure, tmp_path)


def test_wide_windows_have_lines_for_lags():
    stream = rotating_states(n_channels=2, run_length=80)
    clf = mlat.StreamClassifier(50, metric=mlat.MLAT(max_iter=1), step=5).fit(stream)
    lags = axes_titled(explain_prediction(clf, stream, 60), "which lags")
    assert len(lags.lines[0].get_ydata()) == 50
    assert not lags.patches


def test_a_single_step_lifted_features_and_a_switch(tmp_path):
    lift = ["identity", "running_deviation"]
    one = mlat.StreamClassifier(1, metric="euclidean", lift=lift).fit(train)
    figure = explain_prediction(one, test, 0)
    assert {line.get_marker() for line in figure.axes[0].lines[:4]} == {"o"}
    assert "log deviation of sensor 1" in texts(figure.axes[-2].get_yticklabels())
    assert len([ax for ax in figure.axes if ax.get_ylabel().startswith("sensor")]) == 3
    assert draws(figure, tmp_path)
    wide = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(train)
    lines = explain_prediction(wide, test, 61).axes[0].lines
    assert lines[-1].get_xdata()[0] == 59.5  # where the state changes


def test_a_step_without_a_window_is_refused(clf):
    with pytest.raises(mlat.InputError, match="step 2 ends no complete window"):
        explain_prediction(clf, test, 2)


# A model


def test_usage_is_drawn_by_feature_and_lag(clf, tmp_path):
    shares = measure_usage(clf).fractions
    figure = plot_usage(clf)
    heat = figure.axes[0]
    order = [clf.feature_names_.index(t) for t in texts(heat.get_yticklabels())]
    assert np.array_equal(heat.images[0].get_array(), shares.by_lag_and_feature.T[order])
    bars = axes_titled(figure, "all lags together").patches
    assert np.allclose([bar.get_width() for bar in bars], shares.by_feature[order])
    bars = axes_titled(figure, "all features together").patches
    assert np.allclose([bar.get_height() for bar in bars], shares.by_lag)
    assert draws(figure, tmp_path)


def test_usage_of_many_channels_and_of_no_metric(tmp_path):
    clf = mlat.StreamClassifier(45, metric="euclidean").fit(many_channels(0))
    figure = plot_usage(clf)
    assert figure.axes[0].images[0].get_array().shape == (20, 8)  # lag 0 alone counts
    assert any("40 less used features" in t.get_text() for ax in figure.axes for t in ax.texts)
    assert draws(figure, tmp_path)


# A stream


def test_confusions_are_drawn_by_share_and_count(clf, tmp_path):
    true = ["a", "a", "a", "a", "b", "b", "", "c"]
    told = ["a", "a", "a", "b", "b", "b", "b", ""]
    ax = plot_confusion(told, true).axes[0]
    assert np.array_equal(ax.images[0].get_array(), [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 0]])
    assert texts(ax.texts) == ["75%\n3", "25%\n1", "100%\n2"]
    assert ax.get_title(loc="left") == "83.3% right: 5 of 6 steps\n1 were given no state"
    figure = plot_confusion(clf, test)
    assert texts(figure.axes[0].get_xticklabels()) == clf.classes_.tolist()
    assert figure.axes[0].get_title(loc="left").startswith(f"{clf.score(test):.1%} right")
    assert draws(figure, tmp_path)
    named = plot_confusion(["a"], ["a"], known=["z"]).axes[0]
    assert texts(named.get_yticklabels()) == ["a", "z"]


@pytest.mark.parametrize(
    ("n_states", "n_texts", "n_names"), [(15, 15, 15), (30, 0, 30), (50, 0, 0)]
)
def test_confusions_of_many_states(n_states, n_texts, n_names, tmp_path):
    states = [f"state of a long name {i}" for i in range(n_states)]
    figure = plot_confusion(states, states)
    assert (len(figure.axes[0].texts), len(figure.axes[0].get_xticklabels())) == (n_texts, n_names)
    assert draws(figure, tmp_path)


def test_without_states_there_is_nothing_to_confuse(clf):
    with pytest.raises(mlat.InputError, match="the stream has no states to compare") as error:
        plot_confusion(clf, mlat.Stream(test.values, channels=test.channels))
    assert "\n" not in str(error.value)
    assert "None of 2 steps" in plot_confusion(["", ""], ["a", "b"]).axes[0].get_title(loc="left")


def spans(ax):
    """The stretches of a ribbon as (bottom, first step, last step, colour), in order."""
    found = []
    for ribbon in ax.collections:
        for path in ribbon.get_paths():
            (x0, y0), (x1, _) = path.get_extents().get_points()
            found.append((y0, x0, x1, tuple(ribbon.get_facecolor()[0][:3])))
    return sorted(found, key=lambda span: (-span[0], span[1]))


def test_a_timeline_has_ribbons_of_runs_and_marks_mistakes(tmp_path):
    true = ["a"] * 4 + ["b"] * 4
    told = ["", "a", "a", "a", "a", "b", "b", ""]
    figure = plot_timeline(true, told, confidence=[np.nan, 1, 1, 0.5, 0.5, 1, 1, np.nan])
    ax = figure.axes[0]
    assert texts(ax.get_yticklabels()) == ["true", "predicted", "mistakes", "confidence"]
    a, b = (tuple(colour) for colour in state_colours(2))
    drawn = spans(ax)
    assert [span[1:] for span in drawn[:2]] == [(0, 4, a), (4, 8, b)]
    none = to_rgb(FAINT)
    assert [span[1:] for span in drawn[2:]] == [
        (0, 1, none),
        (1, 5, a),
        (5, 7, b),
        (7, 8, none),
    ]
    mistakes, confidence, _ = ax.patches
    values, _, baseline = mistakes.get_data()
    assert (values - baseline).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    values, _, baseline = confidence.get_data()
    assert np.allclose(values - baseline, [np.nan, 1, 1, 0.5, 0.5, 1, 1, np.nan], equal_nan=True)
    assert ax.get_title(loc="right") == "1 of 6 judged steps are wrong"
    assert texts(ax.get_legend().get_texts()) == ["a", "b"]
    assert draws(figure, tmp_path)


@pytest.mark.parametrize("true", [None, ["", "", ""], mlat.Stream(np.zeros((3, 1)))])
def test_a_timeline_without_states_shows_predictions_alone(true, tmp_path):
    figure = plot_timeline(true, ["a", "b", "b"])
    assert texts(figure.axes[0].get_yticklabels()) == ["predicted"]
    assert figure.axes[0].get_title(loc="right") == ""
    assert draws(figure, tmp_path)


def test_a_timeline_of_nothing_and_of_unknown_states(tmp_path):
    assert draws(plot_timeline(None, np.array([], dtype=str)), tmp_path)
    figure = plot_timeline([1, 1], [-1, -1])
    assert figure.axes[0].get_title(loc="right") == "0 of 0 judged steps are wrong"
    assert draws(figure, tmp_path)
    assert draws(plot_timeline(None, ["", ""], confidence=[np.nan, np.nan]), tmp_path)


def test_a_long_timeline_is_drawn_by_runs_and_loses_no_mistake(tmp_path):
    n = 2_000_000
    true = np.repeat(np.arange(20) % 3, n // 20)
    told = true.copy()
    told[1_234_567] = (told[1_234_567] + 1) % 3  # one step in two million
    stream = mlat.Stream(np.zeros((n, 1)), true, recordings=np.arange(n) // 500_000)
    figure = plot_timeline(stream, told, confidence=np.ones(n))
    ax = figure.axes[0]
    assert len(spans(ax)) == 20 + 22
    values, edges, baseline = ax.patches[0].get_data()
    (seen,) = np.flatnonzero(values > baseline + 0.1)
    assert edges[seen] <= 1_234_567 < edges[seen + 1]
    begins = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert begins == [500_000, 1_000_000, 1_500_000]
    assert draws(figure, tmp_path)


def test_a_restless_timeline_shows_what_prevails():
    told = np.zeros(100_000, int)
    told[::3] = 1
    told[50_000:] = 1 - told[50_000:]
    drawn = spans(plot_timeline(None, told).axes[0])
    assert len(drawn) < 2000
    a, b = (tuple(colour) for colour in state_colours(2))
    assert {colour for _, start, stop, colour in drawn if stop < 49_000} == {a}
    assert {colour for _, start, stop, colour in drawn if start > 51_000} == {b}


def test_timelines_of_what_does_not_fit_are_refused():
    with pytest.raises(mlat.InputError, match="names and others numbers"):
        plot_timeline(["a"], [1])
    with pytest.raises(mlat.InputError, match="one entry per step"):
        plot_timeline(["a", "b"], ["a"])
    with pytest.raises(mlat.InputError, match=r"confidence must be of shape \(1,\)"):
        plot_timeline(["a"], ["a"], confidence=[1, 1])
    with pytest.raises(mlat.InputError, match="confidence must be from 0 to 1"):
        plot_timeline(["a"], ["a"], confidence=[2])


def test_long_names_lose_their_middle():
    assert shorten("short") == "short"
    assert shorten("accelerometer 17", 10) == "accel…r 17"
    assert len(shorten("x" * 99)) == 26


def test_figures_and_lags():
    said = [in_figures(x) for x in (0.12345, 0.83, 999.4, 3241.7, 1.5e7)]
    assert said == ["0.123", "0.830", "999", "3242", "1.50e+07"]
    assert used_lags(np.array([1.0, 0, 0])) == 3
    assert used_lags(np.r_[1.0, np.zeros(20)]) == 8
    assert used_lags(np.r_[np.ones(12), np.zeros(20)]) == 12
    assert used_lags(np.zeros(20)) == 8


def test_the_page_of_explanations_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(DOCS / "explanations.md")
