"""A plugin of pytest: it writes the name of the first test that fails, and how long each test takes, into files."""

import json
import os
from pathlib import Path


def pytest_runtest_logreport(report):
    _write(report)
    if "SECONDS" in os.environ:
        with Path(os.environ["SECONDS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.duration]) + "\n")


def pytest_collectreport(report):
    _write(report)


def _write(report):
    path = Path(os.environ["FIRST_FAILURE"])
    if report.failed and not path.exists():
        path.write_text(report.nodeid, encoding="utf-8")
