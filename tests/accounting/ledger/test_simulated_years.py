"""Simulated years: what a forecast says fits goes through, for every kind of prior, guarantee and secret."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast, later, read_every

CLOSELY = 1 + 1e-9
WINDOW = 4
"""So many steps are a day."""
ON, LEVEL = [0, 1], pf.Interval(0, 1)
STAY, MOVE = [[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.3, 0.7]]
BETWEEN = pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])
CLASSES = pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]])
TABLE = {"ill": [0, 0, 1, 1], "on": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]}
SEEN = pf.Reference("others", {"ill": [0, 0, 0, 1, 1], "on": [0, 0, 1, 0, 1]})
ILL = pf.Derived("ill", column="on", domain=ON)


@dataclass(frozen=True)
class Case:
    """A prior, with the secrets that it speaks of."""

    prior: Any
    domain: Any = field(default_factory=lambda: ON)
    secrets: tuple[str, ...] = ("secret",)
    derived: Any = None

    def scenario(self, secret: str) -> pf.Scenario:
        """Return the scenario of one secret."""
        chosen = {
            "secret": lambda: pf.Secret("on", self.domain),
            "initial": lambda: pf.Initial("on", self.domain),
            "presence": lambda: pf.Presence("house", "on", self.domain, rows=WINDOW),
            "derived": lambda: self.derived,
        }[secret]()
        start = 0 if isinstance(chosen, pf.Initial) else None
        return pf.Scenario(chosen, self.prior, order_by="hour", within="house", start=start)


BOTH = "secret", "initial"
CASES = {
    "independent": Case(pf.Independent(), secrets=("secret", "initial", "presence")),
    "chain": Case(pf.MarkovChain(STAY), secrets=BOTH),
    "chain with a start": Case(pf.MarkovChain(STAY, initial=[0.5, 0.5]), secrets=("initial",)),
    "chain with a period": Case(pf.MarkovChain([STAY, MOVE], period=2), secrets=BOTH),
    "chain that starts anywhere": Case(pf.MarkovChain(MOVE, initial="free"), secrets=BOTH),
    "chains between": Case(BETWEEN, secrets=BOTH),
    "autoregressive": Case(pf.GaussianPrior(pf.AR1(0.5)), LEVEL, BOTH),
    "exchangeable": Case(pf.GaussianPrior(pf.Exchangeable(0.3)), LEVEL, BOTH),
    "kernel": Case(pf.GaussianPrior(pf.Kernel([0.5**lag for lag in range(40)])), LEVEL, BOTH),
    "latent class": Case(CLASSES),
    "table": Case(pf.Table(TABLE), secrets=("derived",), derived=ILL),
    "empirical": Case(
        pf.Empirical(SEEN, secret="ill", released="on"), secrets=("derived",), derived=ILL
    ),
    "weakly dependent": Case(pf.WeaklyDependent(0.5), LEVEL),
    "diffusion": Case(pf.Diffusion(0.5), LEVEL, ("initial",)),
    "any correlation": Case(pf.AnyCorrelation(), secrets=("secret", "initial", "presence")),
}
PROMISES = {
    "pure": (pf.Pure(0.5), pf.Pure(4.0), {}),
    "approx, Gaussian": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {"noise": pf.Gaussian}),
    "approx, Laplace": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {"noise": pf.Laplace}),
    "approx": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {}),
    "Rényi": (pf.Renyi(4, 0.5), pf.Renyi(4, 4.0), {}),
}


def plan_of(scenario, promise, day, **options):
    """Return the plan of one day, made of a frame that has this day only."""
    first = WINDOW * day
    frame = pl.DataFrame(
        {"hour": range(first, first + WINDOW), "on": [0] * WINDOW, "house": ["a"] * WINDOW}
    )
    batch = pf.protect(frame, scenario).filter(pl.col("hour").is_between(first, first + WINDOW - 1))
    return batch.private_sum("on").plan(promise, **options)


MOMENTS = {0, 1, 2, 3, 5, 9, 20, 60, 150, 250, 364}
"""Days on which forecasts are compared with what happens."""


def days_of(scenario, promise, days, **options):
    """Yield what every day hands to an account; once plans repeat but for their place, they are not made anew."""
    known: list[Any] = []
    gap = read_every(WINDOW, scenario)
    for day in range(days):
        if len(known) > 3 and len({plan.cost.shape.digest for plan in known[-3:]}) == 1:
            cost = later(known[-1].cost, gap, day - len(known) + 1, scenario)
            cost = msgspec.structs.replace(
                cost,
                steps_seen=cost.steps_seen
                and (cost.steps_seen[1] - WINDOW + 1, cost.steps_seen[1]),
            )
        else:
            known.append(plan_of(scenario, promise, day, **options))
            cost = known[-1].cost
        certificate = msgspec.structs.replace(known[-1].certificate, cost=cost)
        name = f"day {day}"
        yield SimpleNamespace(
            cost=cost, certificate=certificate, request=known[-1].request, name=name
        )


def one_more(account, day):
    """Return the forecast of one more release."""
    return account.forecast(day, every=WINDOW, until=WINDOW)


def check_year(name, secret, kind, days, folder):
    """Make a release a day, and compare every step with what was forecast."""
    promise, limit, options = PROMISES[kind]
    scenario = CASES[name].scenario(secret)
    with pf.Ledger(folder / "ledger.db") as ledger:
        account = ledger.open("days", scenario, limit=limit)
        made, totals, shapes, ahead, ever = 0, [0.0], set(), None, None
        for at, day in enumerate(days_of(scenario, promise, days, **options)):
            if ahead is None:
                ahead = account.forecast(day, every=WINDOW, until=WINDOW * days)
                ever = account.forecast(day, every=WINDOW)
            foreseen = one_more(account, day) if at in MOMENTS else None
            refused = None
            try:
                account.reserve(day, f"day {at}")
            except (pf.LimitReached, pf.Refused) as error:
                refused = error
            if refused is not None:
                assert refused.allowed
                assert refused.instead
                assert one_more(account, day).fits == account.remaining(day) == 0
                assert len(account.history()) == made
                break
            made += 1
            shapes.add(day.cost.shape.digest)
            if at in MOMENTS or at < 12:
                totals.append(account.spent().epsilon)
                assert totals[-1] <= limit.epsilon
            if foreseen is not None:
                assert foreseen.fits == 1
                assert totals[-1] <= foreseen.total * CLOSELY
        totals.append(account.spent().epsilon)
        if len(shapes) == 1:  # every day has the noise of the first, which is what was forecast
            assert made == min(days, ahead.fits)
            assert made >= min(days, ever.fits)
            assert totals[-1] <= (
                ever.total if made < days else min(ahead.total * CLOSELY, ever.total)
            )
            steps = np.diff(totals[1:12])
            assert (
                name == "kernel" or (steps <= 2 * totals[1] * CLOSELY).all()
            )  # a kernel's first row is no inner one
        else:
            assert "this plan's noise" in ahead.note
        if (
            isinstance(scenario.secret, pf.Initial)
            and name.startswith("chain")
            and kind != "approx, Gaussian"
        ):
            assert made == days  # what is forgotten can be told for ever


@pytest.mark.slow
def test_first_values_under_a_kernel_do_not_jump(tmp_path):
    """There is one row whose value is hidden: rows that only later days have do not make the first day cost more."""
    promise, limit, options = PROMISES["pure"]
    scenario = CASES["kernel"].scenario("initial")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("days", scenario, limit=limit)
        for day in days_of(scenario, promise, 8, **options):
            before = account.spent().epsilon
            account.reserve(day, None)
            assert account.spent().epsilon <= before + 0.5 * CLOSELY


@pytest.mark.slow
def test_a_forecast_ends_where_counting_does():
    """Hundreds of windows over one forgotten row with hardly any noise: the forecast knows when no more are added."""
    scenario, limit = CASES["chain"].scenario("initial"), pf.Pure(4.0)
    frame = pl.DataFrame({"hour": range(300, 600), "on": [0] * 300, "house": ["a"] * 300})
    cost = (
        pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.5), bound=pf.Messages()).cost
    )
    spent = AccountCosts([scenario], limit)
    fits = forecast(spent, cost, every=1, limit=limit).fits
    assert 100 < fits < 300
    costs = [later(cost, read_every(1, scenario), turn, scenario) for turn in range(int(fits) + 1)]
    assert spent.total(costs[:-1]).total <= limit.epsilon
    assert spent.total(costs).total > limit.epsilon


@pytest.mark.slow
def test_other_noise_than_the_account_counts_is_told(tmp_path):
    """An account of pure losses alone says so when Gaussian noise comes, and which noise it can add."""
    scenario = CASES["chain"].scenario("secret")
    promise, limit, _ = PROMISES["approx"]
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("days", scenario, limit=limit, methods=["pure"])
        account.reserve(plan_of(scenario, promise, 0, noise=pf.Laplace), None)
        other = plan_of(scenario, promise, 1, noise=pf.Gaussian)
        assert account.forecast(other, every=WINDOW).fits == account.remaining(other) == 0
        with pytest.raises(pf.Refused, match="by pure losses") as refusal:
            account.reserve(other, None)
        assert "noise=pf.Laplace" in refusal.value.instead


ALL = [
    (name, secret, kind)
    for name, case in CASES.items()
    for secret in case.secrets
    for kind in PROMISES
]
LONG = [(*one, 365 if place % 24 == 0 else 40) for place, one in enumerate(ALL)]
TURNS = {
    place * len(PROMISES) + place % len(PROMISES) for place in range(len(ALL) // len(PROMISES))
}
"""The slow run has each prior and secret with one kind of guarantee, in turn: a year of the first, weeks of others."""
SHORT = [(*one, 365 if place == 0 else 24) for place, one in enumerate(ALL) if place in TURNS]


@pytest.mark.parametrize(("name", "secret", "kind"), thinned(ALL[::20], 0.1, unpack=True), ids=str)
def test_some_days_go_as_they_were_forecast(name, secret, kind, tmp_path):
    """What a forecast says fits is accepted, totals stay below it, and what does not fit is refused with a way out."""
    check_year(name, secret, kind, 6, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "secret", "kind", "days"),
    [*SHORT, *nightly([one for one in LONG if one not in SHORT], unpack=True)],
    ids=str,
)
def test_years_go_as_they_were_forecast(name, secret, kind, days, tmp_path):
    """The same for years, or parts of them, under every prior, kind of guarantee and secret."""
    check_year(name, secret, kind, days, tmp_path)
