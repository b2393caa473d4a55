"""A plugin of pytest: it writes the name of the first test that fails into the file that `FIRST_FAILURE` names."""

import os
from pathlib import Path


def pytest_runtest_logreport(report):
    _write(report)


def pytest_collectreport(report):
    _write(report)


def _write(report):
    path = Path(os.environ["FIRST_FAILURE"])
    if report.failed and not path.exists():
        path.write_text(report.nodeid, encoding="utf-8")
