"""Settings for every test."""

import os

# Read when SciPy is first imported: without it scikit-learn skips its array-API check.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from hypothesis import settings

# Times belong in benchmarks: a busy machine must not fail a property.
settings.register_profile("mlat", deadline=None)
settings.load_profile("mlat")
