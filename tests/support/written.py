"""The ledgers that older versions wrote: what is in them, and the script that wrote them.

`tests/ledger/written` keeps `sound.sqlite`, written by commit af7a85e, and `refused.sqlite`, written by commit e596eba,
which took priors that were refused later, and `corrected.sqlite`, written by commit 33c274a, which counted some
accounts too low (see `corrected`), and `one_method.sqlite`, written by commit 92035f4, whose accounts kept one
accounting method. Beside each a JSON file says what its accounts told then. They are never written again: whatever the
library becomes, they have to be read. A ledger of a later version is added in the same way,

    git worktree add --detach /tmp/older COMMIT
    PYTHONPATH=/tmp/older:tests/support python tests/support/written.py sound tests/ledger/written

with names of its own, since the script replaces nothing.
"""

import datetime as dt
import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import pufferflow as pf

HOURS = 48
CHAIN, MIXING = [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]
ON, LEVEL = pf.Secret("on", domain=[0, 1]), pf.Secret("level", domain=[0, 1, 2, 3])
POWER = pf.Secret("power", domain=pf.Interval(0, 10))
IN_ORDER = {"order_by": "hour", "within": "meter"}
JOB = {
    "job.toml": """\
name = "meters"
build = "job.py:build"
source = { function = "job.py:rows" }
guarantee = { epsilon = 0.5 }
ledger = { address = "ledger.db", account = "job", dataset = "job", limit = { epsilon = 3.0 } }
sink = { format = "csv", report = false }
retries = { wait = "0s" }
""",
    "job.py": """\
import written


def rows(period):
    return written.rows()


def build(frame, period):
    scenario = written.CASES["job"].scenario
    return written.pf.protect(frame, scenario).group_by("meter").private_sum("on", "load")
""",
}


def rows() -> pl.LazyFrame:
    """Return three meters for two days, the same in every version."""
    steps = [(meter, hour) for meter in range(3) for hour in range(HOURS)]
    return pl.LazyFrame(
        {
            "meter": [f"m{meter}" for meter, _ in steps],
            "hour": [hour for _, hour in steps],
            "at": [
                dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour)
                for _, hour in steps
            ],
            "on": [(meter + hour // 3) % 2 for meter, hour in steps],
            "level": [(2 * meter + hour) % 4 for meter, hour in steps],
            "power": [(meter * 3.7 + hour * 1.3) % 10 for meter, hour in steps],
        }
    )


class Case(NamedTuple):
    """One account: its scenario, the plans of its releases by their ids, and what it is superseded by."""

    scenario: pf.Scenario
    limit: Any
    plans: dict[str, Callable[[pf.Scenario], Any]]
    better: pf.Scenario | None = None


def _day(number: int) -> Any:
    return pl.col("hour").is_between(24 * number, 24 * number + 23)


def _days(
    promise: Any, column: str = "on", **wanted: Any
) -> dict[str, Callable[[pf.Scenario], Any]]:
    """Return the plans of two days and of one that is reserved only; ids that begin with "open" are not committed."""

    def of(number: int, name: str) -> Callable[[pf.Scenario], Any]:
        return lambda known: (
            pf.protect(rows(), known)
            .filter(_day(number))
            .private_sum(column, name)
            .plan(promise, **wanted)
        )

    return {"day 0": of(0, "first"), "day 1": of(1, "second"), "open": of(1, "third")}


def _whole(promise: Any, column: str, **wanted: Any) -> dict[str, Callable[[pf.Scenario], Any]]:
    """Return plans of all rows: two queries with shares, and one that is reserved only."""

    def two(known: pf.Scenario) -> Any:
        batch = pf.protect(rows(), known).private_sum(column, "load").private_mean(column, "mean")
        return batch.plan(promise, shares={"load": 2, "mean": 1}, **wanted)

    return {
        "both": two,
        "open": lambda known: (
            pf.protect(rows(), known).private_mean(column, "mean").plan(promise, **wanted)
        ),
    }


def _absent(known: pf.Scenario) -> Any:
    return (
        pf.protect(rows(), known)
        .private_count(name="rows")
        .private_sum("on", "load")
        .plan(pf.Pure(0.5))
    )


def _quantiles(known: pf.Scenario) -> Any:
    batch = (
        pf.protect(rows(), known)
        .group_by("meter")
        .private_median("level")
        .private_histogram("level", "bars")
    )
    return batch.plan(pf.Pure(0.5), bound=pf.GWM(), noise=pf.Laplace, row_privacy=False)


def _within(known: pf.Scenario) -> Any:
    batch = (
        pf.protect(rows(), known)
        .filter(pl.col("at") < dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
        .private_sum("on")
    )
    return batch.plan(accuracy=pf.Within(40))


def _scenario(secret: Any, prior: Any, **parts: Any) -> pf.Scenario:
    return pf.Scenario(secret, prior, **{**IN_ORDER, **parts})


def _sound() -> dict[str, Case]:
    chain, curve = pf.MarkovChain(CHAIN), pf.Renyi(4, 0.5)
    table = pf.Table(
        {"on": [0, 0, 1, 1], "kind": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]},
        shared="kind",
    )
    classes = pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.3, 0.7]])
    timed = {"order_by": "at", "step": "1h", "start": "2026-01-01", "public": ["hour"]}
    noisy = pf.Approx(0.5, 1e-6)
    return {
        "chain": Case(_scenario(ON, chain), pf.Pure(3.0), _days(pf.Pure(0.5))),
        "periodic": Case(
            _scenario(ON, pf.MarkovChain([CHAIN, MIXING], period=2)),
            pf.Pure(3.0),
            _days(pf.Pure(0.5)),
        ),
        "between": Case(
            _scenario(
                ON, pf.MarkovChain.between([[0.8, 0.1], [0.2, 0.6]], [[0.9, 0.2], [0.4, 0.8]])
            ),
            pf.Pure(3.0),
            _days(pf.Pure(0.5)),
        ),
        "ar1": Case(
            _scenario(POWER, pf.GaussianPrior(pf.AR1(0.6))),
            pf.Pure(3.0),
            _days(pf.Pure(0.5), "power"),
        ),
        "ar1 renyi": Case(
            _scenario(POWER, pf.GaussianPrior(pf.AR1((0.4, 0.6)))),
            pf.Renyi(4, 3.0),
            _days(curve, "power"),
        ),
        "together": Case(
            pf.Scenario(POWER, pf.GaussianPrior(pf.Exchangeable(0.3)), within="meter"),
            pf.Approx(4.0, 1e-5),
            _whole(noisy, "power"),
        ),
        "class": Case(
            pf.Scenario(ON, classes, within="meter"), pf.Pure(6.0), _whole(pf.Pure(0.5), "on")
        ),
        "table": Case(
            pf.Scenario(ON, table, within="meter"), pf.Pure(6.0), _whole(pf.Pure(0.5), "on")
        ),
        "any": Case(
            pf.Scenario(LEVEL, pf.AnyCorrelation()), pf.Approx(4.0, 1e-5), _whole(noisy, "level")
        ),
        "any renyi": Case(
            pf.Scenario(LEVEL, pf.AnyCorrelation()), pf.Renyi(4, 3.0), _whole(curve, "level")
        ),
        "presence": Case(
            pf.Scenario(
                pf.Presence("meter", column="on", domain=[0, 1], rows=HOURS), pf.Independent()
            ),
            pf.Pure(3.0),
            {"rows": _absent, "open": _absent},
        ),
        "initial": Case(
            _scenario(
                pf.Initial("on", domain=[0, 1]), pf.MarkovChain(MIXING, initial="free"), start=0
            ),
            pf.Pure(3.0),
            {name: made for name, made in _days(pf.Pure(0.5)).items() if name != "day 1"},
        ),
        "derived": Case(
            pf.Scenario(
                pf.Derived("kind", [0, 1], column="on", domain=[0, 1]), classes, within="meter"
            ),
            pf.Pure(6.0),
            _whole(pf.Pure(0.5), "on"),
        ),
        "independent": Case(
            pf.Scenario(LEVEL, pf.Independent(), public="meter"),
            pf.Pure(3.0),
            {"classes": _quantiles, "open": _quantiles},
        ),
        "within": Case(
            _scenario(ON, chain, **timed), pf.Pure(3.0), {"error": _within, "open": _within}
        ),
        "superseded": Case(
            _scenario(ON, chain),
            pf.Pure(3.0),
            _days(pf.Pure(0.5)),
            _scenario(ON, pf.MarkovChain(MIXING)),
        ),
        "job": Case(_scenario(ON, chain), pf.Pure(3.0), {}),
    }


def _small(column: str) -> dict[str, Callable[[pf.Scenario], Any]]:
    """Return plans about few rows, as covariance matrices need them."""

    def one(known: pf.Scenario) -> Any:
        few = rows().filter(pl.col("hour") < 3)
        return pf.protect(few, known).private_sum(column, "load").plan(pf.Pure(0.5))

    return {"first": one, "open": one}


def _refused() -> dict[str, Case]:
    """Return accounts whose priors were refused later; older versions alone can make them."""
    covariances: dict[str, Any] = {
        "correlation 1": pf.Exchangeable(1.0),
        "variance 0": [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]],
        "equal rows": [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]],
        "kernel": pf.Kernel([1.0, 0.5, 1.0, *[0.0] * HOURS]),
        "minus 0": [[1.0, -0.0, 0.5], [-0.0, 1.0, 0.0], [0.5, 0.0, 1.0]],
    }
    leads = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.3, 0.4]]
    low = [[0.8, 0.1, 0.0], [0.2, 0.6, 0.0], [0.3, 0.3, 0.3]]
    high = [[0.9, 0.2, 0.0], [0.4, 0.8, 0.0], [0.4, 0.4, 0.4]]
    chains: dict[str, Any] = {
        "impossible value": pf.MarkovChain(leads),
        "impossible between": pf.MarkovChain.between(low, high),
    }
    starts = _scenario(FIRST, pf.MarkovChain(CHAIN, initial=[1.0, 0.0]), start=0)
    known = {name: _scenario(POWER, pf.GaussianPrior(one)) for name, one in covariances.items()}
    known |= {name: _scenario(THREE, prior) for name, prior in chains.items()}
    known["impossible start"] = starts
    cases = {name: Case(one, pf.Pure(9.0), _small(column_of(one))) for name, one in known.items()}
    for name in (*chains, "impossible start"):
        del cases[name].plans["open"]  # of which no version tells a total soon
    return cases


def _one_method() -> dict[str, Case]:
    """Return accounts under limits that are not pure, each counted by what suited its first release."""
    chain, noisy, curve = pf.MarkovChain(CHAIN), pf.Approx(0.5, 1e-6), pf.Renyi(4, 0.5)
    gaussian, laplace = {"noise": pf.Gaussian}, {"noise": pf.Laplace}
    two_noises = _days(noisy, **gaussian) | {"laplace": _days(noisy, **laplace)["day 1"]}
    return {
        "rows": Case(_scenario(ON, chain), pf.Approx(9.0, 1e-5), _days(noisy, **gaussian)),
        "messages": Case(_scenario(ON, chain), pf.Approx(9.0, 1e-5), _days(noisy, **laplace)),
        "moments": Case(_scenario(ON, chain), pf.Renyi(4, 99.0), _days(curve, **gaussian)),
        "coupled": Case(_scenario(ON, pf.AnyCorrelation()), pf.Approx(9.0, 1e-5), two_noises),
        "concentrated": Case(
            _scenario(POWER, pf.AnyCorrelation()), pf.Zcdp(9.0), _days(pf.Zcdp(0.1), "power")
        ),
    }


def column_of(scenario: pf.Scenario) -> str:
    """Return the column that can be asked about."""
    return scenario.sensitive[0]


THREE, FIRST = pf.Secret("on", domain=[0, 1, 2]), pf.Initial("on", domain=[0, 1])
_SETTLED = _scenario(THREE, pf.MarkovChain([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]))
BETTER = {
    **dict.fromkeys(
        ("correlation 1", "variance 0", "equal rows", "kernel", "minus 0"),
        _scenario(POWER, pf.AnyCorrelation()),
    ),
    "impossible value": _SETTLED,
    "impossible between": _SETTLED,
}
"""Sound priors for the accounts whose own are refused."""
CASES = _sound()
ONE_METHOD = _one_method()


def _write(account: Any, case: Case, scenario: pf.Scenario) -> dict[str, Any]:
    """Release and reserve what a case asks for; return what was given out."""
    given = dict[str, Any]()
    for name, made in case.plans.items():
        plan = made(scenario)
        if name.startswith("open"):
            account.reserve(plan, name)
        else:
            given[name] = _numbers(plan.release(account, id=name))
    return given


def _numbers(release: pf.Release) -> dict[str, Any]:
    return {
        "frame": release.frame.to_dict(as_series=False),
        "bars": release.intervals.to_dict(as_series=False),
        "entry": release.certificate.entry,
    }


def write(kind: str, folder: Path) -> None:
    """Write a ledger, and what its accounts tell."""
    kinds = {"sound": _sound, "refused": _refused, "one_method": _one_method}
    cases, place = kinds[kind](), folder / f"{kind}.sqlite"
    if place.exists():
        sys.exit(f"{place} is there")
    told = dict[str, Any]()
    ledger = pf.Ledger(place)
    for name, case in cases.items():
        account = ledger.open(name, case.scenario, limit=case.limit, dataset=name)
        given = _write(account, case, case.scenario)
        if kind == "sound" and case.better is not None:
            account = ledger.replace_prior(name, case.better, regardless_of_answers=True)
            plan = case.plans["day 0"](case.better)
            given["later"] = _numbers(plan.release(account, id="later"))
        told[name] = {"releases": given}
    if kind == "sound":
        told["job"]["releases"] = _of_job(place)
    for name, one in told.items():
        account = ledger.account(name)
        one |= {
            "spent": account.spent().loss,
            "states": {entry.release_id: entry.state for entry in account.history()},
            "charged": [
                getattr(entry, "at_most", getattr(entry, "total", None))
                for entry in account.history()
            ],
            "scenario": account.scenario.fingerprint,
        }
    found = {
        "head": ledger.head(),
        "entries": int(ledger.head().partition(":")[0]),
        "accounts": told,
    }
    ledger.close()
    _settle(place)
    place.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def corrected() -> dict[str, tuple[pf.Scenario, pf.Guarantee, Any, list[Any]]]:
    """Return accounts that were counted too low: their scenario, limit, profiles reserved, and plans in order."""
    table = {"s": [0, 0, 0, 0, 1, 1, 1, 1], "x": [0, 0, 1, 1] * 2, "z": [0, 1] * 4}
    chances = [0.28, 0.07, 0.12, 0.03, 0.03, 0.12, 0.07, 0.28]
    free = pf.Scenario(pf.Derived("s"), pf.Table({**table, "probability": chances}))
    one = pf.protect(pl.DataFrame({"x": [0], "z": [0]}), free)
    other = one.private_sum("x").plan(pf.Renyi(2.0, 0.05), noise=pf.Gaussian)
    again = one.private_sum("z").plan(pf.Renyi(2.0, 0.2), noise=pf.Laplace)
    classes = pf.GaussianMixture([0.5, 0.5], [0.0, 1.0], [pf.AR1(0.8), pf.AR1(0.2)])
    mixed = pf.Scenario(
        pf.Secret("x", pf.Interval(0, 1), pairs=[(0.4, 0.6)]), classes, order_by="t"
    )
    rows = pf.protect(pl.DataFrame({"t": range(3), "x": [0.0] * 3}), mixed)
    mean = rows.private_sum("x").plan(pf.Renyi(2.0, 0.5), noise=pf.Gaussian)
    there = pf.Scenario(
        pf.Presence("unit", "x", domain=[0, 1], rows=1), pf.Independent(), public=["town"]
    )
    towns = pf.protect(pl.DataFrame({"unit": [0, 1], "town": ["a", "b"], "x": [0, 1]}), there)
    keys = (
        towns.group_by("town", keys="discover")
        .private_count()
        .plan(pf.Approx(0.2, 1.6e-5), noise=pf.Gaussian)
    )
    count = towns.private_count().plan(pf.Approx(0.2, 1e-6), noise=pf.Gaussian)
    first = pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 1.02), pairs=[(0, 1)]),
        pf.GaussianPrior(pf.AR1(0.5)),
        order_by="t",
    )

    def of(length: int, promise: pf.Guarantee, steepness: float, column: pl.Expr) -> Any:
        frame = pl.DataFrame({"t": range(length), "x": [0.0] * length})
        batch = pf.protect(frame, first).filter(pl.col("t") == 0).private_sum(column, name="x")
        return batch.plan(promise, noise=pf.Staircase.of(steepness, 0.5), row_privacy=False)

    quarter = [Fraction(1, 4)] * 4
    parity = pf.Table(
        {"s": [0, 1, 1, 0], "x": [0, 0, 1, 1], "y": [0, 1, 0, 1], "probability": quarter}
    )
    coins = pf.Scenario(pf.Secret("s", domain=[0, 1]), parity, public=["w"])
    drawn = pf.protect(
        pl.DataFrame({"s": [0, 1], "x": [0, 1], "y": [0, 0], "w": [1.0, 2.0]}), coins
    )
    weighted = [
        drawn.private_sum(pl.col(name) * pl.col("w"), name=name).plan(pf.Pure(0.005))
        for name in "xy"
    ]
    longer = [
        of(1, pf.Pure(1.05), 1.05, pl.col("x")),
        of(2, pf.Pure(2.0), 2.0, pl.col("x").clip(0, 1)),
    ]
    reserve = [(pf.Pure(2.0), 1), (pf.Approx(0.0, 0.49), 1)]
    return {
        "a column again": (free, pf.Renyi(2.0, 30.0), None, [other, again, again, again]),
        "classes": (mixed, pf.Renyi(2.0, 30.0), None, [mean, mean]),
        "keys": (there, pf.Approx(1.0, 1e-5), None, [keys, count]),
        "weights": (coins, pf.Pure(0.01), None, weighted),
        "profiles": (first, pf.Approx(2.0, 0.4901), reserve, longer),
    }


def write_corrected(folder: Path) -> None:
    """Write a ledger of accounts that were counted too low, and what they told."""
    place, told = folder / "corrected.sqlite", dict[str, Any]()
    ledger = pf.Ledger(place)
    for name, (scenario, limit, reserve, plans) in corrected().items():
        account = ledger.open(name, scenario, limit=limit, reserve=reserve)
        spent = list[float]()
        for number, plan in enumerate(plans):
            account.reserve(plan, f"{number}")
            spent.append(account.spent().loss)
        told[name] = {"spent": spent, "charged": [entry.at_most for entry in account.history()]}
    found = {
        "head": ledger.head(),
        "entries": int(ledger.head().partition(":")[0]),
        "accounts": told,
    }
    ledger.close()
    _settle(place)
    place.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _of_job(place: Path) -> dict[str, Any]:
    """Run a job that pays from the ledger, and return its release."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, text in JOB.items():
            (Path(folder) / name).write_text(
                text.replace("ledger.db", str(place.absolute())), encoding="utf-8"
            )
        ran = pf.Job.read(f"{folder}/job.toml").run("2026-01-01")
        return {ran.id: _numbers(ran.release)}


def _settle(place: Path) -> None:
    """Leave one small file, with nothing beside it."""
    import sqlite3

    with sqlite3.connect(place) as line:
        line.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        line.execute("VACUUM")
        line.execute("PRAGMA journal_mode=DELETE")
    line.close()


if __name__ == "__main__":
    if sys.argv[1] == "corrected":
        write_corrected(Path(sys.argv[2]))
    else:
        write(sys.argv[1], Path(sys.argv[2]))
