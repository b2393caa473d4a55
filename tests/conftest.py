"""Shared by all tests: reproducible runs of hypothesis, time budgets, few garbage collections, and real tables."""

import collections
import gc
import os
from pathlib import Path

import pytest
import within_time
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "seeded", settings.get_profile("default"), derandomize=False, print_blob=True
)
settings.load_profile("default")

os.environ.setdefault("PUFFERFLOW_WORKERS", "1")
"""Tests run side by side already."""
gc.set_threshold(100_000, 50, 100)
"""Thousands of collected tests make every search for garbage long: a fifth of the time of a run with the usual 700."""
LONG = {"nightly": 120, "slow": 60}
"""Tests of more seconds than this are listed at the end of a run, by their mark."""
LONG_WITHOUT_MARK = 2
ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs", ROOT / "pufferflow" / "jobs"
"""Where examples plan or run jobs for seconds; those of the README and of all other files are tried by default."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the examples that take long as slow."""
    for item in items:
        if not {*EXAMPLES}.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Leave what was imported and collected out of every later search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Give every property of Hypothesis its time, and keep what a test has left out for want of time."""
    within_time.cut.clear()
    try:
        if hasattr(getattr(item, "obj", None), "hypothesis"):  # which machines of states have not
            marks = (
                seconds
                for mark, seconds in within_time.SECONDS.items()
                if item.get_closest_marker(mark)
            )
            with within_time.examples_within_time(item.obj, next(marks, within_time.OTHERWISE)):
                return (yield)
        return (yield)
    finally:
        item.user_properties += [("cut", what) for what in within_time.cut]


def pytest_terminal_summary(terminalreporter):
    """List the tests that took long and those that left cases out: a slow hour is told, and fails nothing."""
    took, limits, cut = collections.Counter(), {}, []
    for report in (one for some in terminalreporter.stats.values() for one in some):
        if isinstance(report, pytest.TestReport):
            took[report.nodeid] += report.duration
            limits[report.nodeid] = next(
                (LONG[mark] for mark in LONG if mark in report.keywords), LONG_WITHOUT_MARK
            )
            if report.when == "call":
                cut += [
                    f"{report.nodeid}: {what}"
                    for name, what in report.user_properties
                    if name == "cut"
                ]
    long = [
        f"{seconds:7.1f} s  {name}"
        for name, seconds in took.most_common()
        if seconds > limits[name]
    ]
    for title, lines in (
        ("tests that took long", long),
        ("cases left out for want of time", sorted(cut)),
    ):
        if lines:
            terminalreporter.section(title)
            terminalreporter.write_line("\n".join(lines))


@pytest.fixture(scope="session")
def seed_of_run(pytestconfig):
    """The seed of this run, for tests that play as long as there is time; 0 unless `make nightly` gives another."""
    return int(pytestconfig.getoption("--hypothesis-seed", default=None) or 0)


@pytest.fixture
def tables():
    """The folder of real tables; tests that need it skip without it (their numbers are also checked from counts)."""
    folder = Path(
        os.environ.get("PUFFERFLOW_TABLES", Path(__file__).parents[2] / "shared" / "data")
    )
    if not folder.is_dir():
        pytest.skip("the folder of real tables is not here; set PUFFERFLOW_TABLES")
    return folder
