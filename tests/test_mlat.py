"""The package itself: what it shows, and what importing it costs."""

import subprocess
import sys

import pytest

import mlat


def test_names_are_there_and_found():
    for name in mlat.__all__:
        assert getattr(mlat, name) is not None
    assert dir(mlat) == sorted(mlat.__all__)


def test_rooms_are_attributes():
    code = "import mlat; print(mlat.live.Steps, mlat.explain.explain, mlat.plots.plot_blocks)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'mlat' has no attribute 'lives'"):
        _ = mlat.lives


def test_importing_it_imports_nothing_heavy():
    heavy = ("numpy", "numba", "sklearn", "scipy", "pyarrow", "matplotlib", "pandas", "typer")
    code = f"import sys, mlat; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


USES_A_MODEL = """
import sys
sys.modules |= dict.fromkeys(["pyarrow", "matplotlib"])  # as if they were not installed
import mlat
from mlat.cli import main
from mlat.synthetic import rotating_states

stream = rotating_states({"on": 0.2, "off": -0.2}, n_channels=2, run_length=60, random_state=0)
mlat.StreamClassifier(8, metric="mlat").fit(stream).save(sys.argv[1])
clf = mlat.load(sys.argv[1])
live = clf.live()
states = [p.state for p in live.push(stream.values)]
assert states == clf.predict(stream.values).tolist()
for use in (lambda: mlat.read_stream("a.csv"), lambda: mlat.plots.plot_stream(stream)):
    try:
        use()
    except mlat.base.errors.MissingPackageError as error:
        print(error)
sys.argv[1:] = ["live", sys.argv[1], "--source", "-"]
main()
"""


def test_a_model_is_used_without_arrow_and_matplotlib(tmp_path):
    lines = "".join(f"{i},{i}\n" for i in range(9))
    run = subprocess.run(
        [sys.executable, "-c", USES_A_MODEL, str(tmp_path / "a.mlat")],
        input=lines, check=True, capture_output=True, text=True,
    )  # fmt: skip
    said = run.stdout.splitlines()
    assert said[0].startswith("a file or data frame needs pyarrow; install it: pip install 'mlat[")
    assert said[1] == "a picture needs matplotlib; install it: pip install 'mlat[plots]'"
    assert len(said) > 9, "a line for each step"
