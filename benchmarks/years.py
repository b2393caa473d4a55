"""A year of daily releases in an account: the time of each stays the same, and the total is what was forecast.

One case for each prior, with a limit of the kind for which a schedule may never end. Every day is planned and released
as a job would do it, through `pf.Ledger` and `plan.release(account, id=...)`. A row of the table compares the releases
of the last thirty days with those of the first thirty after a week: the ratio of medians is at most 2. Beside it stand
the total after a year, what the first day forecast for ever, and what `remaining` and `forecast` take at the end. The
number of days is the first argument, if there is one, and the names of cases follow.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from measure import Row, report

import pufferflow as pf

HOURS = 24
WEEK = 7
MONTH = 30


@dataclass(frozen=True)
class Case:
    """A prior, what a day guarantees, the limit of the account, and the noise if it is not the default."""

    scenario: pf.Scenario
    promise: pf.Guarantee
    limit: pf.Guarantee
    values: tuple[float, float] = (0, 1)
    options: Any = None

    def plan(self, day: int) -> pf.Plan:
        """Return the plan of a day's sum, over the rows of that day."""
        hours = range(HOURS * day, HOURS * (day + 1))
        frame = pl.DataFrame(
            {"house": ["a"] * HOURS, "hour": hours, "x": list(self.values) * (HOURS // 2)}
        )
        return (
            pf.protect(frame, self.scenario)
            .private_sum("x")
            .plan(self.promise, **(self.options or {}))
        )


def of(prior: pf.Prior, domain: Any = (0, 1)) -> pf.Scenario:
    """Return the scenario of one column along the hours of each house."""
    return pf.Scenario(
        pf.Secret("x", list(domain) if isinstance(domain, tuple) else domain), prior, **ALONG
    )


ALONG = {"order_by": "hour", "within": "house"}
WATTS, AUTOREGRESSIVE = pf.Interval(0, 1), pf.GaussianPrior(pf.AR1(0.9))
CASES: dict[str, Callable[[], Case]] = {
    "AR(1), pure": lambda: Case(of(AUTOREGRESSIVE, WATTS), pf.Pure(0.1), pf.Pure(2.0)),
    "AR(1), (ε, δ)": lambda: Case(of(AUTOREGRESSIVE, WATTS), pf.Pure(0.1), pf.Approx(2.0, 1e-6)),
    "AR(1), Gaussian noise": lambda: Case(
        of(AUTOREGRESSIVE, WATTS),
        pf.Approx(0.5, 1e-6),
        pf.Approx(2.0, 1e-6),
        options={"noise": pf.Gaussian},
    ),
    "Markov chain": lambda: Case(
        of(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])), pf.Pure(0.5), pf.Pure(2.0)
    ),
    "class of chains": lambda: Case(
        of(pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])),
        pf.Pure(0.5),
        pf.Pure(2.0),
    ),
    "hidden class": lambda: Case(
        of(pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]])), pf.Pure(0.01), pf.Pure(9.0)
    ),
}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call gives, and how many seconds it takes."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def year(name: str, case: Case, days: int) -> Row:
    """Release every day; print time and loss of the year, and return the last month beside the first."""
    releases = list[float]()
    with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        account = ledger.open("year", case.scenario, limit=case.limit)
        plan = case.plan(0)
        ever = account.forecast(plan, every=HOURS)
        for day in range(days):
            plan = case.plan(day)
            releases.append(
                timed(lambda plan=plan, day=day: plan.release(account, id=f"day-{day}"))[1]
            )
        spent, total_took = timed(account.spent)
        left, left_took = timed(lambda: account.remaining(plan))
        ahead, ahead_took = timed(lambda: account.forecast(plan, every=HOURS))
    print(
        f"{name}: {spent!r} after {days} days, {ever.total:.10g} forecast at first and {ahead.total:.10g} now, "
        f"{ahead.fits} fit, the last day's {left} times again; total {1e3 * total_took:.1f} ms, remaining "
        f"{1e3 * left_took:.1f} ms, forecast {1e3 * ahead_took:.1f} ms"
    )
    if not spent.epsilon <= ever.total:
        raise SystemExit(f"{name}: {spent!r} is spent, and {ever.total!r} was forecast")
    first, last = (
        statistics.median(some) for some in (releases[WEEK : WEEK + MONTH], releases[-MONTH:])
    )
    return Row(
        f"{name}, a day at the end", "a day at the beginning", last, first, last / first, 2.0
    )


if __name__ == "__main__":
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 365
    chosen = sys.argv[2:] or CASES
    report("years", [year(name, CASES[name](), days) for name in chosen])
