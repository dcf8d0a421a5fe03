"""aeon in another Python: what goes there and back, and what is said when it fails."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from imitations import easy_windows
from mlat import InputError
from mlat.base.errors import MlatError
from mlat_lab.experiments.aeon_peer import AeonPeer, aeon_versions
from mlat_lab.experiments.aeon_worker import METHODS

# Stands in for aeon where that is not installed: the nearest mean, and a note of each call.
STUB = """
import os, sys, time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

class MiniRocketClassifier:
    def __init__(self, random_state, n_jobs):
        assert (random_state, n_jobs) == (0, 1)

    def note(self, X, what):
        with open(Path(__file__).with_name("calls"), "a") as calls:
            calls.write(f"{what} {os.getpid()} {X.shape[1]} {X.shape[2]}\\n")

    def fit(self, X, y):
        print("noise that is not an answer")
        assert find_spec("journal") is None, "our modules are in the way of others"
        assert y.dtype == np.int64
        self.note(X, "fit")
        if X[0, 0, 0] == 111:
            raise ValueError("no sense\\nin this")
        if X[0, 0, 0] == 222:
            print("first word\\nlast word", file=sys.stderr, flush=True)
            os._exit(3)
        if X[0, 0, 0] == 333:
            time.sleep(600)
        self.classes = np.unique(y)
        self.means = np.stack([X[y == c].mean(axis=0) for c in self.classes])
        return self

    def predict(self, X):
        self.note(X, "predict")
        far = ((X[:, None] - self.means) ** 2).sum(axis=(2, 3))
        return self.classes[far.argmin(axis=1)]
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def stub(tmp_path):
    """A Python with an aeon of our own, and the calls that this one had."""
    package = tmp_path / "aeon" / "classification"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '0.0'")
    (package / "convolution_based.py").write_text(STUB)
    python = script(
        tmp_path / "python", f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n'
    )

    def calls():
        return [line.split() for line in (package / "calls").read_text().splitlines()]

    return python, calls


def error_of(peer, first=0.0):
    X, y = easy_windows()
    X[0, 0, 0] = first
    with pytest.raises(MlatError) as caught:
        peer.fit(X, y)
    text = str(caught.value)
    assert "\n" not in text
    return text


# ---------------------------------------------------------------- the process of aeon


def test_windows_go_there_and_labels_come_back(stub):
    python, calls = stub
    X, y = easy_windows()
    test, right = easy_windows(seed=1)
    peer = AeonPeer("MiniRocket", python).fit(X, y)
    assert (peer.predict(test) == right).all()
    assert peer.versions_ == aeon_versions(python)
    assert peer.versions_["aeon"] == "0.0"
    assert [call[2:] for call in calls()] == [["3", "12"]] * 2


def test_one_process_serves_all_and_an_earlier_model_is_learned_again(stub):
    python, calls = stub
    X, y = easy_windows()
    numbers = np.where(y == "sit", 7, np.where(y == "run", 5, -2))
    first = AeonPeer("MiniRocket", python).fit(X, y)
    second = AeonPeer("MiniRocket", python).fit(X, numbers)
    assert (second.predict(X) == numbers).all()
    for _ in range(2):
        assert (first.predict(X) == y).all()
    whats = [call[0] for call in calls()]
    assert whats == ["fit", "fit", "predict", "fit", "predict", "predict"]
    assert len({call[1] for call in calls()}) == 1
    os.kill(int(calls()[0][1]), signal.SIGKILL)
    time.sleep(0.1)
    assert (first.predict(X) == y).all(), "a process that was killed is started again"
    assert len({call[1] for call in calls()}) == 2


def test_short_windows_repeat_their_last_step(stub):
    python, calls = stub
    X, y = easy_windows(w=4, d=6)
    assert (AeonPeer("MiniRocket", python).fit(X, y).predict(X) == y).all()
    assert {call[3] for call in calls()} == {"9"}


def test_errors_of_a_job_are_one_line_and_the_process_lives_on(stub):
    python, calls = stub
    X, y = easy_windows()
    peer = AeonPeer("MiniRocket", python)
    assert error_of(peer, 111) == f"MiniRocket failed in {python}: ValueError: no sense in this"
    assert (peer.fit(X, y).predict(X) == y).all()
    assert len({call[1] for call in calls()}) == 1


def test_a_death_is_told_by_its_last_words(stub):
    python, _ = stub
    X, y = easy_windows()
    peer = AeonPeer("MiniRocket", python)
    assert error_of(peer, 222) == f"MiniRocket died in {python}: last word"
    assert (peer.fit(X, y).predict(X) == y).all()


def test_a_silent_death_is_told_too(tmp_path):
    hello = """echo '{"aeon": "1", "torch": "1"}'; read job"""
    mute = script(tmp_path / "mute", f"#!/bin/sh\n{hello}; exit 5\n")
    assert "ended with status 5 and no word" in error_of(AeonPeer("QUANT", mute))
    killed = script(tmp_path / "killed", f"#!/bin/sh\n{hello}; kill -9 $$\n")
    assert "perhaps for want of memory" in error_of(AeonPeer("QUANT", killed))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_process_dies_with_its_parent_even_in_a_job(stub):
    python, calls = stub
    code = f"""
import numpy as np
from mlat_lab.experiments.aeon_peer import AeonPeer
AeonPeer("MiniRocket", {python!r}).fit(np.full((4, 9, 1), 333.0), [0, 0, 1, 1])
"""
    temporary = Path(python).with_name("temporary")
    temporary.mkdir()
    here = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", code], env=here) as parent:
        log = Path(python).with_name("aeon") / "classification" / "calls"
        until(lambda: log.exists() and log.read_text().endswith("\n"))
        worker = calls()[0][1]
        assert is_running(worker)
        parent.kill()
    until(lambda: not is_running(worker))
    assert not is_running(worker)
    assert not any(temporary.iterdir()), "the windows do not stay behind"


def test_a_python_that_is_missing_or_has_no_aeon(tmp_path):
    remedy = "install lab/benchmarks/peers-beyond.txt"
    missing = str(tmp_path / "nowhere")
    text = error_of(AeonPeer("QUANT", missing))
    assert text.startswith(f"there is no Python at {missing}; {remedy}")
    bare = script(tmp_path / "bare", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    text = error_of(AeonPeer("QUANT", bare))
    assert text.startswith(f"{bare} has no aeon (ModuleNotFoundError: No module named")
    assert remedy in text
    other = script(tmp_path / "other", "#!/bin/sh\nexec echo hello\n")
    assert "has no aeon" in error_of(AeonPeer("QUANT", other))
    broken = script(tmp_path / "broken", "#!/does/not/exist\n")
    assert "does not run" in error_of(AeonPeer("QUANT", broken))


def test_torch_is_missed_by_those_that_need_it(stub, tmp_path):
    # A Python that begins by forgetting that it has one.
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "known = metadata.version\n"
        "metadata.version = lambda name: known('no-such-thing' if name == 'torch' else name)\n"
    )
    text = error_of(AeonPeer("QUANT", stub[0]))
    assert text.startswith(f"{stub[0]} has no torch, which QUANT needs; install lab/benchmarks/")


def test_bad_input_is_told_before_any_work():
    X, y = easy_windows()
    with pytest.raises(InputError, match="there are MiniRocket, QUANT, MultiRocket-Hydra"):
        AeonPeer("Rocket").fit(X, y)
    with pytest.raises(InputError, match="90 windows need as many labels"):
        AeonPeer("QUANT").fit(X, y[1:])
    with pytest.raises(InputError, match=r"shape \(n, w, d\)"):
        AeonPeer("QUANT").fit(X[0], y)
    X[3, 2, 1] = np.nan
    with pytest.raises(InputError, match="NaN in window 3, step 2, channel 1"):
        AeonPeer("QUANT").fit(X, y)
    with pytest.raises(NotFittedError):
        AeonPeer("QUANT").predict(X)


def test_windows_of_another_shape_are_told(stub):
    X, y = easy_windows()
    peer = AeonPeer("MiniRocket", stub[0]).fit(X, y)
    with pytest.raises(InputError, match=r"shape \(11, 3\) but MiniRocket was fitted on .*12, 3"):
        peer.predict(X[:, 1:])


# ---------------------------------------------------------------- aeon itself


PEER_PYTHON = os.environ.get("MLAT_PEER_PYTHON")


@pytest.mark.skipif(
    PEER_PYTHON is None and find_spec("aeon") is None,
    reason="set MLAT_PEER_PYTHON to a Python that has aeon (lab/benchmarks/peers-beyond.txt)",
)
@pytest.mark.parametrize("shape", [(12, 3), (4, 6), (2, 2)])
@pytest.mark.parametrize("name", METHODS)
def test_aeon_learns(name, shape):
    w, d = shape
    X, y = easy_windows(w=w, d=d)
    test, right = easy_windows(w=w, d=d, seed=1)
    peer = AeonPeer(name, PEER_PYTHON).fit(X, y)
    predicted = peer.predict(test)
    assert (predicted == right).mean() > 0.9
    again = AeonPeer(name, PEER_PYTHON).fit(X, y)
    assert (again.predict(test) == predicted).all(), "nothing is left to chance"
    assert peer.versions_["aeon"] is not None
