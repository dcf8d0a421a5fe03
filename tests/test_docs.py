"""The examples in the documentation and in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import mlat
from doc_examples import DOCS, run_examples

PAGES = [
    *["toeplitz.md", "metrics.md", "lifts.md", "classifier.md", "auto.md", "committee.md"],
    *["confidence.md", "model-file.md", "live-session.md", "live-sources.md", "lmnn-dtw.md"],
    "scikit-learn.md",
]
# Programs and optional parts, which other tests run.
PROGRAMS = ("mlat.lab.bench", "mlat.cli", "mlat.adapters.")
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(mlat.__path__, "mlat.") if not m.name.startswith(PROGRAMS)
)


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    run_examples(DOCS / page)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert not doctest.testmod(importlib.import_module(name)).failed
