"""Fixtures for the tests of streams."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to be in, so that errors name files as short as their names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
