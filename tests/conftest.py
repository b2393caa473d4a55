"""Shared by all tests: reproducible hypothesis runs, and where the real tables lie if they are there."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture
def tables():
    """The folder of real tables; tests that need it skip without it (their numbers are also checked from counts)."""
    folder = Path(os.environ.get("PUFFERFLOW_TABLES", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the folder of real tables is not here; set PUFFERFLOW_TABLES")
    return folder
