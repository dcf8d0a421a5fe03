"""Which windows say what an export keeps: none of them is a near-copy of one that chose it."""

import numpy as np

from export_models import SHAPES, TRAIN
from mlat import StreamClassifier
from mlat.export.decisions import Agreement, Judged
from mlat.export.plain_model import PlainModel
from mlat.synthetic import rotating_states


def test_windows_whose_features_look_back_are_divided_by_what_they_look_at():
    clf = StreamClassifier(**SHAPES["forest of steps"]).fit(TRAIN)
    memory = clf.features_.lift.memory
    assert memory > 2 * clf.width_
    block = Judged.of_training(clf).block
    assert (np.bincount(block)[:-1] >= memory).all()  # the last may be shorter
    assert " no part in choosing" in Agreement(clf, PlainModel.of(clf)).where


def test_of_a_single_block_it_does_not_say_that_it_had_no_part():
    few = rotating_states(n_channels=3, run_length=12, runs_per_state=1, random_state=0)
    clf = StreamClassifier(metric="euclidean", width=10).fit(few)
    assert "no part in choosing" not in Agreement(clf, PlainModel.of(clf)).where
