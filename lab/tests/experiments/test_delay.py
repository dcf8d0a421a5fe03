"""How late predicted states are at a switch."""

import numpy as np
import pytest

from mlat import InputError
from mlat_lab.experiments.delay import switch_delay


def test_delays_are_counted_from_the_switch():
    states = np.array([0] * 5 + [1] * 5 + [2] * 5 + [0] * 5 + [-1] * 2 + [1] * 3 + [2] * 3)
    starts = np.arange(len(states)) == 25  # the last run begins a recording
    predicted = states.copy()
    predicted[5:8] = 0  # three late
    predicted[10:15] = [1, 2, 1, 2, 2]  # one late, three until for good
    predicted[15:20] = 2  # never
    delay = switch_delay(states, predicted, starts)
    assert delay.n_switches == 3
    assert (delay.first_median, delay.first_90) == (3.0, np.inf)
    assert (delay.settled_median, delay.settled_90) == (3.0, np.inf)
    assert delay.missed == pytest.approx(1 / 3)
    perfect = switch_delay(states, states, starts)
    assert (perfect.first_90, perfect.settled_90, perfect.missed) == (0.0, 0.0, 0.0)
    none = switch_delay(np.zeros(4, int), np.zeros(4, int), np.zeros(4, bool))
    assert none.n_switches == 0
    assert np.isnan(none.first_median)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="not 4, 3 and 4"):
        switch_delay(np.zeros(4, int), np.zeros(3, int), np.zeros(4, bool))
