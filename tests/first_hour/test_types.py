"""Strict type checkers have nothing to say about the README, nor about a file as users write them."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import blocks_of

ROOT = Path(__file__).parents[2]
CHECKER = Path(sys.executable).with_name("pyright")
MYPY = Path(sys.executable).with_name("mypy")
USER = """
from datetime import date
from fractions import Fraction

import polars as pl

import pufferflow as pf

rows = pl.DataFrame({"meter": [1, 1, 2, 2], "hour": [0, 1, 0, 1], "area": ["n", "n", "s", "s"], "on": [0, 1, 1, 0]})
scenario = pf.Scenario(
    secret=pf.Secret("on", domain=[0, 1]),
    prior=pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]]),
    within="meter",
    order_by="hour",
    public=["area"],
)
batch = pf.protect(rows, scenario).filter(pl.col("hour") < 9).group_by("area", half=pl.col("hour") // 12)
batch = batch.private_sum("on", name="load").private_mean("on").private_count(pl.col("on") == 1, name="peaks")
plan = batch.plan(pf.Pure(1.0))
scale: float = plan.noises["load"].scale
table: pl.DataFrame = plan.summary()
words: str = plan.explain()
release = plan.release()
numbers: list[float] = release.frame["load"].to_list()
low: pl.Series = release.intervals["load_low"]
cut: pl.DataFrame = release.clipped().frame
guarantee: pf.Guarantee = release.certificate.guarantee
certificate: pf.Certificate = pf.Certificate.from_json(release.certificate.to_json())
entry: str | None = certificate.entry
spelled = pf.protect(rows.lazy(), scenario).group_by("area").agg(pf.query("on").sum(), share=pf.query("on").mean())
spelled = spelled.agg([pf.query(pl.col("on") == 1).count("peaks"), pf.query("on").quantile(0.9).alias("q")])
quick: pf.Release = spelled.release(epsilon=1.0, noise=pf.Laplace, bound="gwm", row_privacy=True)
published: pl.LazyFrame = pf.scan_release("published", intervals=True)
page = release.report("page.html")
found = pf.suggest(pf.Reference("a study", rows), pf.protect(rows, scenario).private_sum("on"))
better = pf.Scenario(pf.Secret("on", domain=[0, 1]), found.rows[1].prior, within="meter", order_by="hour")
names: list[str] = [row.belief for row in found.rows]
with pf.Ledger("ledger.db") as ledger:
    account = ledger.open("year", scenario, limit=pf.Pure(3.0))
    paid = plan.release(account, id="monday")
    spent: pf.Guarantee = account.spent()
    total: float = account.forecast(plan, every=24, until=240).total
    dated = account.forecast(plan, every="1d", until=date(2026, 12, 31)).releases
    left: float = account.remaining(plan)
    states: list[str] = [entry.state for entry in account.history()]
job = pf.Job.read("job.toml")
for ran in job.catch_up("2026-11-01", until="2026-11-20"):
    print(ran.state, ran.release.frame.height, ran.spent)
distance: float = pf.winf(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 50], [Fraction(1, 2), Fraction(1, 2)]))
calibrated = pf.calibrate([(pf.Law([0], [1]), pf.Law([1], [1]))], pf.Pure(1.0), noise=pf.Laplace)
print(calibrated.noise.scale, calibrated.witness, calibrated.certainty)
model = pf.learning.PrivateRidge(epsilon=1.0, delta=1e-6, bounds=[(0, 1)], target_bounds=(0, 1))
attacked = pf.audit.attack(plan, trials=1000)
print(attacked.lower, attacked.holds)
"""


def complaints(folder, text):
    """Return what the checker says of a text, in its strictest mode."""
    if not CHECKER.exists():
        pytest.skip("pyright is one of the tools of developers: pip install '.[dev]'")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / "user.py").write_text(text)
    command = [CHECKER, "--outputjson", "--pythonpath", sys.executable, "-p", folder]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert told["summary"]["filesAnalyzed"] == 1
    return [
        f"{text.splitlines()[one['range']['start']['line']]}: {one['message']}"
        for one in told["generalDiagnostics"]
    ]


def complaints_of_mypy(folder, text):
    """Return what mypy says of a text with `--strict`; like any installed package, this one is not checked with it."""
    if not MYPY.exists():
        pytest.skip("mypy is one of the tools of developers: pip install '.[dev]'")
    (folder / "user.py").write_text(text)
    (folder / "mypy.ini").write_text(
        "[mypy]\n[mypy-pufferflow.*,pufferflow_connectors.*]\nignore_errors = true\n"
    )
    command = [MYPY, "--strict", "--config-file", "mypy.ini", "--python-executable", sys.executable]
    told = subprocess.run(
        [*command, "--no-error-summary", "user.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": os.pathsep.join((str(ROOT), str(ROOT / "connectors")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not told.stderr, told.stderr
    return told.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None and not CHECKER.exists(), reason="no type checker")
def test_the_readme_has_types(tmp_path):
    """Every block of the README, typed in one file, passes."""
    blocks = blocks_of(ROOT / "README.md")
    text = "".join(block.text for block in blocks if block.language == "python")
    assert "pf.protect(" in text
    assert complaints(tmp_path, text) == []


@pytest.mark.slow
def test_a_file_of_a_user_has_types(tmp_path):
    """Results have the types that people use them with: no value is partly unknown, or may be None by surprise."""
    assert complaints(tmp_path, USER) == []


@pytest.mark.slow
def test_mypy_knows_the_types_of_a_file_of_a_user(tmp_path):
    """The same file passes `mypy --strict`, and a mistake in it is found."""
    assert complaints_of_mypy(tmp_path, USER) == []
    wrong = 'import pufferflow as pf\n\nscale: str = pf.Laplace(1.0).scale\npf.query("x").summ()\n'
    found = complaints_of_mypy(tmp_path, wrong)
    assert [line for line in found if "[assignment]" in line]
    assert [line for line in found if "[attr-defined]" in line]


def test_editors_complete_the_options_of_a_release():
    """A release in one go takes the arguments of `plan` by their names, as the table of their types lists them."""
    import pufferflow as pf
    from pufferflow.release.planning.options import PlanArguments

    own = set(inspect.signature(pf.Batch.release).parameters)
    assert (
        set(PlanArguments.__annotations__) == set(inspect.signature(pf.Batch.plan).parameters) - own
    )


def test_a_suggestion_without_a_prior_is_refused_in_words():
    """A prior is a prior: where none was fitted, asking for it says why, and `fitted` says so without an error."""
    import pufferflow as pf
    from pufferflow.release.suggest import Suggestion

    row = Suggestion("rows follow each other", None, note="the reference has one row.")
    assert row.fitted is None
    with pytest.raises(pf.Refused, match="rows follow each other: the reference has one row"):
        _ = row.prior
    assert Suggestion("rows are independent", pf.Independent()).prior == pf.Independent()
