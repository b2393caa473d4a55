"""The built distribution: both packages, their types marks and the licence, and nothing else at the top."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_wheel_holds_both_packages_and_nothing_else(tmp_path):
    """A wheel built from this tree has the product, the connectors, `py.typed` of both, and no tests."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        tmp_path,
        ROOT,
    ]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("pufferflow-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "pufferflow",
        "pufferflow_connectors",
    }
    for package in ("pufferflow", "pufferflow_connectors"):
        assert f"{package}/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"pufferflow/__init__.pyi", "pufferflow/distributions/wasserstein_1d.py"} <= set(names)
    assert {f"pufferflow/jobs/starter/{name}" for name in ("job.toml", "job.py.txt")} <= set(names)
    templates = {
        str(path.relative_to(ROOT)) for path in (ROOT / "pufferflow/reports/templates").rglob("*.*")
    }
    some = {
        f"pufferflow/reports/templates/{name}"
        for name in ("page.css", "page.html", "texts/explanation.txt")
    }
    assert some <= templates <= set(names)
    assert {f"pufferflow/core/templates/notebook.{end}" for end in ("css", "html")} <= set(names)
