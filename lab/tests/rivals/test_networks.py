"""What the networks share: the validation windows, PyTorch on use, its threads."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat_lab.rivals.networks import hold_out


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 25), st.integers(0, 2)), min_size=1),
    st.integers(1, 6),
    st.floats(0.05, 0.5),
)
def test_validation_windows_share_no_time_with_windows_learned_from(runs, width, fraction):
    start, run, codes, now = [], [], [], 0
    for number, (length, pause, code) in enumerate(runs):
        start.append(now + np.arange(length))
        run.append(np.full(length, number))
        codes.append(np.full(length, code))
        now += length + width - 1 + pause
    start, run, codes = (np.concatenate(parts) for parts in (start, run, codes))
    split = hold_out(codes, start, run, width, fraction)
    if split is None:
        return
    learn, validation = split
    assert len(np.unique(codes[validation])) >= 2
    assert not set(learn) & set(validation)
    for code in np.unique(codes[validation]):
        own, held_out = (
            start[learn][codes[learn] == code],
            start[validation][codes[validation] == code],
        )
        assert len(own) >= 2
        assert len(held_out) == round(fraction * (codes == code).sum())
        # At least a width of steps lies between the end of one and the beginning of the other.
        assert np.abs(own[:, None] - held_out[None]).min() >= 2 * width


def test_without_pytorch_it_says_how_to_install_it():
    code = """
import sys
import mlat_lab.rivals
assert "torch" not in sys.modules

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from mlat.base.errors import MissingPackageError
from mlat_lab.rivals.decade import DECADE
from mlat_lab.rivals.siamese import SiameseLSTM
for estimator in (DECADE(), SiameseLSTM()):
    try:
        estimator.fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [1.0, 2.0]], [0, 0, 1, 1])
    except MissingPackageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"{name} needs PyTorch; install it: pip install 'mlat[deep]'"
        for name in ("DECADE", "SiameseLSTM")
    ]


@pytest.mark.slow
def test_one_thread_is_no_slower_under_limits_than_without():
    pytest.importorskip("torch")
    # Where PyTorch is first imported under threadpoolctl's limits, as in a worker process, its
    # number of threads and OpenMP's once came apart: a fit took thirty times as long.
    code = """if 1:
        import time
        import numpy as np
        from threadpoolctl import threadpool_limits
        from mlat_lab.rivals.decade import DECADE

        y = np.repeat(np.arange(3), 60)
        X = np.random.default_rng(0).normal(size=(180, 8, 4)) + y[:, None, None]

        def seconds():
            began = time.process_time()
            DECADE(max_iter=5, patience=5, n_jobs=1, random_state=0).fit(X, y)
            return time.process_time() - began

        with threadpool_limits(1):
            seconds()
        with threadpool_limits(1):
            limited = min(seconds(), seconds())
        print(limited / min(seconds(), seconds()))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 5
