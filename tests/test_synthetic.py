"""The synthetic stream of the examples."""

import subprocess
import sys

import numpy as np

from mlat.synthetic import DEMO_STATES, rotating_states

HEAVY = {"numba", "pandas", "pyarrow", "scipy", "sklearn"}


def test_it_is_light_to_import():
    code = "import sys, mlat.synthetic; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(loaded.stdout.split())


def test_runs_of_each_state_in_turn_and_the_same_for_the_same_seed():
    stream = rotating_states(run_length=30, runs_per_state=2, n_channels=5, random_state=3)
    assert stream.values.shape == (30 * 2 * len(DEMO_STATES), 5)
    assert [str(stream.classes[code]) for _, _, code in stream.runs] == 2 * list(DEMO_STATES)
    again = rotating_states(run_length=30, runs_per_state=2, n_channels=5, random_state=3)
    np.testing.assert_array_equal(stream.values, again.values)
