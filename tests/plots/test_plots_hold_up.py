"""Pictures of long names, many states and many channels: nothing is cut, squeezed or covered."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import mlat
from mlat.plots import (
    explain_prediction,
    plot_blocks,
    plot_confusion,
    plot_overview,
    plot_stream,
    plot_timeline,
    plot_usage,
)
from mlat.plots.figure import state_colours, state_pattern
from plot_checks import faults

# How many states and channels, and how they are named: those of SCMA are as long.
CASES = {
    "long names": (7, 3, "walking and talking with someone {}", "chest {}"),
    "many states": (20, 4, "Frontkicking {}", "left_hamstring {}"),
    "few": (2, 1, "{}", "x{}"),
    "long everything": (
        12,
        20,
        "standing up, walking and going up or down the stairs {}",
        "turning rate of the sensor at the lower back, axis {}",
    ),
}
WIDTH = 3


@cache
def stream_of(case, seed=0):
    n_states, n_channels, state, channel = CASES[case]
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.tile(np.arange(n_states), 2), 9)
    values = rng.normal(size=(len(codes), n_channels)) + codes[:, None] % (
        2 + np.arange(n_channels)
    )
    return mlat.Stream(
        values,
        [state.format(code) for code in codes],
        channels=[channel.format(i) for i in range(n_channels)],
    )


@cache
def model(case, kind):
    if kind == "committee":
        return mlat.StreamClassifier(WIDTH, held_out=False, stride=2).fit(stream_of(case))
    metric = mlat.MLAT(max_iter=1) if kind == "mlat" else kind
    return mlat.StreamClassifier(WIDTH, metric=metric, stride=2).fit(stream_of(case))


def pictures(case):
    stream = stream_of(case, seed=1)
    euclidean, mahalanobis = model(case, "euclidean"), model(case, "mlat")
    predicted = euclidean.predict(stream)
    confidence = np.full(len(stream), 0.5)
    yield "timeline", plot_timeline(stream, predicted, confidence=confidence)
    yield "stream", plot_stream(stream, predicted={"Euclidean": predicted})
    yield "confusion", plot_confusion(predicted, stream)
    yield "usage", plot_usage(euclidean)
    yield "usage by lag", plot_usage(mahalanobis)
    blocks = mahalanobis.metric_
    yield "blocks", plot_blocks(blocks, channels=mahalanobis.feature_names_)
    yield "explanation", explain_prediction(mahalanobis, stream, 20)
    accuracies = {"Euclidean": 0.4, "MLAT": 0.9}
    yield "overview", plot_overview(stream, {"MLAT": predicted}, accuracies, blocks)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_squeezed_or_covered(case):
    wrong = {name: found for name, figure in pictures(case) if (found := faults(figure))}
    assert not wrong, "\n".join(f"{name}: {one}" for name, each in wrong.items() for one in each)


@pytest.mark.parametrize("case", ["long names", "few", "long everything"])
def test_nothing_of_a_committee_is_cut(case):
    figure = explain_prediction(model(case, "committee"), stream_of(case, seed=1), 20)
    assert not faults(figure)


def test_the_checks_see_what_is_wrong():
    figure = plot_timeline(["a", "b"], ["a", "a"])
    figure.text(0.9, 0.5, "a long name that is cut at the edge of the figure")
    assert any("outside" in fault for fault in faults(figure))
    ax = plot_timeline(["a", "b"], ["a", "a"]).axes[0]
    ax.set_title("over the legend", loc="left", pad=2)
    assert any("over" in fault for fault in faults(ax.figure))


def test_every_feature_of_blocks_is_named():
    names = [f"feature {i}" for i in range(24)]
    ax = plot_blocks(np.zeros((2, 24, 24)), channels=names).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    many = plot_blocks(np.zeros((1, 150, 150)), channels=[f"f{i}" for i in range(150)])
    assert [t.get_text() for t in many.axes[0].get_yticklabels()][:3] == ["f0", "f3", "f6"]
    assert many.axes[0].get_ylabel() == "one of 3 features is named"
    assert not faults(many)


# What people with a colour blindness see, in linear RGB (Machado, Oliveira & Fernandes, 2009, for a
# severity of 1).
SIGHT = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colours):
    """CIE L*a*b* of sRGB colours (n, 3), by which equal distances look about equally different."""
    white = np.array([0.95047, 1.0, 1.08883])
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.maximum(colours @ np.transpose(to_xyz) / white, 1e-6)).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("sight", SIGHT)
def test_states_differ_for_all_sights(sight):
    colours = state_colours(40)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = lab(np.clip(linear @ np.transpose(SIGHT[sight]), 0, 1))
    for i, j in combinations(range(40), 2):
        if state_pattern(i) == state_pattern(j) == "":
            assert np.linalg.norm(seen[i] - seen[j]) > 15, (i, j)
    assert len({state_pattern(i) for i in range(0, 40, 8)}) == 5
