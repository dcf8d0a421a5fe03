from __future__ import annotations

import numpy as np
import pytest

import mlat
from mlat.plots import plot_confusion
from plot_checks import draws, test, texts


def test_confusions_are_drawn_by_share_and_count(clf, tmp_path):
    true = ["a", "a", "a", "a", "b", "b", "", "c"]
    predicted = ["a", "a", "a", "b", "b", "b", "b", ""]
    ax = plot_confusion(predicted, true).axes[0]
    assert np.array_equal(ax.images[0].get_array(), [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 0]])
    assert texts(ax.texts) == ["75%\n3", "25%\n1", "100%\n2"]
    assert ax.get_title(loc="left") == (
        "Accuracy 83.3%: 5 of 6 steps\nBalanced accuracy 87.5%, guessing 50.0%\n1 were not judged"
    )
    figure = plot_confusion(clf, test)
    assert texts(figure.axes[0].get_xticklabels()) == clf.classes_.tolist()
    assert figure.axes[0].get_title(loc="left").startswith(f"Accuracy {clf.score(test):.1%}: ")
    assert draws(figure, tmp_path)
    named = plot_confusion(["a"], ["a"], known=["z"]).axes[0]
    assert texts(named.get_yticklabels()) == ["a", "z"]


@pytest.mark.parametrize(
    ("n_states", "n_texts", "n_names"), [(15, 15, 15), (30, 0, 30), (50, 0, 25)]
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
