"""The examples in the documentation and in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import mlat
from doc_examples import DOCS, run_examples

PAGES = [
    *["guide/toeplitz.md", "guide/metrics.md", "guide/lifts.md", "guide/classifier.md"],
    "guide/committee.md",
    *[
        "guide/confidence.md",
        "guide/model-file.md",
        "live/session.md",
        "live/sources.md",
        "evidence/lmnn-dtw.md",
    ],
    "how-to/scikit-learn.md",
]
# Programs and optional parts, which other tests run.
PROGRAMS = ("mlat_lab.bench", "mlat.cli", "mlat.adapters.", "mlat.metric.torch_problem")
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(mlat.__path__, "mlat.") if not m.name.startswith(PROGRAMS)
)


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    run_examples(DOCS / page)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert not doctest.testmod(importlib.import_module(name)).failed
