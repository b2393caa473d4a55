"""Shared by all tests: reproducible hypothesis runs, few garbage collections, and the folder of real tables."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

os.environ.setdefault("PUFFERFLOW_WORKERS", "1")
"""Tests run side by side already."""
gc.set_threshold(100_000, 50, 100)
"""Thousands of collected tests make every search for garbage long: a fifth of the time of a run with the usual 700."""


def pytest_collection_finish():
    """Leave what was imported and collected out of every later search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def tables():
    """The folder of real tables; tests that need it skip without it (their numbers are also checked from counts)."""
    folder = Path(os.environ.get("PUFFERFLOW_TABLES", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the folder of real tables is not here; set PUFFERFLOW_TABLES")
    return folder
