"""A release that one machine reserved is completed on another, whose last digits differ; and nothing else is."""

import dataclasses
import json
import math
from types import SimpleNamespace

import jobs
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
import pufferflow.release.planning.choose_noise as planning
from pufferflow.core.rounding import UNIT
from pufferflow.release.mechanisms.base import PrivateReader
from pufferflow.release.publish import draw_release

LEVEL, POWER = (
    pf.Secret("level", domain=[0, 1, 2, 3]),
    pf.Secret("power", domain=pf.Interval(0, 10)),
)
ROWS = pl.DataFrame(
    {
        "hour": range(24),
        "meter": ["a", "b"] * 12,
        "level": [0, 3, 2, 1] * 6,
        "power": [0.3 * hour for hour in range(24)],
    }
)
CHAIN = pf.MarkovChain(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
)
SCENARIOS = {
    "chain": pf.Scenario(LEVEL, CHAIN, order_by="hour"),
    "any": pf.Scenario(LEVEL, pf.AnyCorrelation()),
    "ar1": pf.Scenario(POWER, pf.GaussianPrior(pf.AR1(0.6)), order_by="hour"),
    "presence": pf.Scenario(
        pf.Presence("meter", column="level", domain=[0, 1, 2, 3], rows=12), pf.Independent()
    ),
    "independent": pf.Scenario(LEVEL, pf.Independent(), public="meter"),
}
NOISY = pf.Approx(0.5, 1e-6)
ASKED = {
    "chain": {"epsilon": 0.7},
    "any": {"guarantee": NOISY, "noise": "gaussian"},
    "ar1": {"guarantee": pf.Renyi(4, 0.3)},
    "presence": {"epsilon": 0.3, "shares": {"first": 1, "second": 3}},
    "independent": {"accuracy": pf.Within(40)},
}
LIMITS = {"any": pf.Approx(8.0, 1e-4), "ar1": pf.Renyi(4, 8.0)}
ULPS = (-2, 1)
EACH = [
    pytest.param(name, marks=pytest.mark.slow if name in {"any", "ar1"} else ()) for name in ASKED
]


def batch(name, rows=ROWS):
    """Return two questions."""
    scenario = SCENARIOS[name]
    column = scenario.sensitive[0]
    return (
        pf.protect(rows, scenario)
        .private_sum(column, "first")
        .private_sum(pl.col(column) * 2, "second")
    )


def plan(name, rows=ROWS, **changes):
    return batch(name, rows).plan(**{**ASKED[name], **changes})


@pytest.fixture
def machine(monkeypatch):
    """A function that lets calibrations end at other digits, as those of another machine do."""
    calibrate_each = planning.calibrate_each

    def use(digits):
        def other(demands, promise, family, *end):
            return [_moved(one, digits) for one in calibrate_each(demands, promise, family, *end)]

        monkeypatch.setattr(planning, "calibrate_each", other)

    return use


def _moved(found, digits):
    factor = 1 + digits
    noise = found.noise.at(found.noise.scale * factor)
    return dataclasses.replace(
        found, noise=noise, loss=found.loss / factor, sensitivity=found.sensitivity * factor
    )


@pytest.fixture
def account(tmp_path):
    """A function that opens an account."""
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        yield lambda name: ledger.open(name, SCENARIOS[name], limit=LIMITS.get(name, pf.Pure(8.0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_what_was_reserved_elsewhere_is_completed_with_the_noise_that_was_paid_for(
    name, account, machine
):
    """Whether this machine's own noise is a little more or less; the charge stays, and covers what is drawn."""
    paid, own = account(name), plan(name)
    for ulps in ULPS:
        machine(ulps * UNIT)
        elsewhere = plan(name)
        assert elsewhere.cost != own.cost
        paid.reserve(elsewhere, str(ulps))
        machine(0.0)
        spent = paid.spent()
        done = plan(name).release(paid, id=str(ulps))
        assert paid.spent() == spent
        assert done.certificate.cost == elsewhere.cost
        assert own.name == elsewhere.name
        drawn, charged = (
            own.with_cost(elsewhere.cost).mechanism.noise.noises,
            elsewhere.cost.shape.noise.scale,
        )
        weights = own.mechanism.noise.weights.tolist()
        assert all(
            one.scale * weight >= charged for one, weight in zip(drawn, weights, strict=True)
        )
        assert all(
            math.isclose(one.scale, other.scale, rel_tol=1e-14)
            for one, other in zip(drawn, elsewhere.mechanism.noise.noises, strict=True)
        )
    assert {entry.state for entry in paid.history()} == {"committed"}


@pytest.mark.parametrize("name", thinned(EACH, 0.33))
@pytest.mark.parametrize("digits", [UNIT, -1e-6])
def test_what_was_committed_is_given_back_whatever_the_digits(name, digits, account, machine):
    paid = account(name)
    done = plan(name).release(paid, id="x")
    machine(digits)
    assert plan(name).release(paid, id="x").frame.equals(done.frame)
    assert len(paid.history()) == 1


@pytest.mark.parametrize(
    ("name", "digits"),
    thinned(
        [
            ("chain", -1e-6),
            ("chain", 1e-6),
            ("presence", 1e-6),
            ("presence", -5e-10),
            ("ar1", -5e-10),
        ],
        0.4,
        unpack=True,
    ),
)
def test_noise_that_is_not_this_machines_is_refused(name, digits, account, machine):
    """More or less by a millionth, or less than this machine's proof asks for: nothing is drawn, nothing charged."""
    paid = account(name)
    machine(digits)
    paid.reserve(plan(name), "x")
    machine(0.0)
    spent = paid.spent()
    with pytest.raises(pf.UsageError, match="cannot be used here") as caught:
        plan(name).release(paid, id="x")
    assert ("requires more noise" in str(caught.value)) == (digits == -5e-10)
    assert "revision" in caught.value.instead
    assert [entry.state for entry in paid.history()] == ["reserved"]
    assert paid.spent() == spent


@pytest.mark.slow
def test_a_little_more_noise_than_this_machine_needs_is_used(account, machine):
    paid = account("chain")
    machine(5e-10)
    elsewhere = plan("chain")
    paid.reserve(elsewhere, "x")
    machine(0.0)
    assert plan("chain").release(paid, id="x").certificate.cost == elsewhere.cost


CHANGES = {
    "promise": {"epsilon": 0.7000000001},
    "kind of guarantee": {"epsilon": None, "guarantee": pf.Renyi(4, 0.7), "noise": "laplace"},
    "noise": {"noise": pf.GeneralizedCauchy.of(k=4)},
    "bound": {"bound": pf.Group()},
    "floor": {"row_privacy": False},
    "shares": {"shares": {"first": 2, "second": 1}},
    "rows": {"rows": ROWS.head(23)},
}


@pytest.mark.parametrize("change", thinned(CHANGES.values(), 0.1), ids=CHANGES)
def test_another_plan_has_another_name(change, account):
    paid, own, other = account("chain"), plan("chain"), plan("chain", **change)
    paid.reserve(own, "x")
    own.release(paid, id="y")
    for taken in ("x", "y"):
        with pytest.raises(pf.UsageError, match="belongs to another plan"):
            other.release(paid, id=taken)


@pytest.mark.slow
def test_one_wish_has_one_name():
    """Shares in lowest terms, bounds by name or by class, a floor that is left out."""
    own = plan("chain").name
    same = (
        {"shares": {"second": 4, "first": 4}},
        {"bound": "auto"},
        {"noise": pf.Laplace},
        {"row_privacy": True},
    )
    assert {plan("chain", **one).name for one in same} == {own}
    assert plan("chain", bound="gwm").name == plan("chain", bound=pf.GWM()).name != own


def test_a_name_has_no_digits_of_an_accuracy(machine):
    own = plan("independent")
    machine(3 * UNIT)
    other = plan("independent")
    assert other.name == own.name
    assert plan("independent", accuracy=pf.Within(40.000001)).name != own.name


def older(made):
    """Return what an older version reserved: named by all digits of its certificate."""
    return SimpleNamespace(
        cost=made.cost, certificate=made.certificate, name=made.certificate.digest
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_names_of_older_versions_are_known_whatever_the_digits(name, account, machine):
    paid = account(name)
    machine(2 * UNIT)
    elsewhere = plan(name)
    paid.reserve(older(elsewhere), "open")
    kept = paid.reserve(older(elsewhere), "done")
    done = kept.commit(_released(elsewhere, kept))
    machine(0.0)
    assert plan(name).release(paid, id="open").certificate.cost == elsewhere.cost
    assert plan(name).release(paid, id="done").frame.equals(done.frame)
    asked = batch(name).private_sum(SCENARIOS[name].sensitive[0], "third")
    other = asked.plan(**{**ASKED[name], "shares": None})
    for taken in ("open", "done"):
        with pytest.raises(pf.UsageError, match="belongs to another plan"):
            other.release(paid, id=taken)


def _released(made, reservation):
    reading = PrivateReader(made.request, made.mechanism.source)
    return draw_release(made.mechanism, reading, reservation.certified(made.certificate))


@pytest.mark.slow
def test_a_job_that_crashed_elsewhere_is_finished_here_with_its_page(tmp_path, machine):
    """Its page has the evidence of this machine's plan."""
    job = jobs.made(tmp_path, ("report = false", "report = true"))
    machine(2 * UNIT)
    elsewhere, period = job.plan("2026-11-01"), job.id_of("2026-11-01")
    job._payer.ledger().open(
        "meters-2026", elsewhere.request.scenario, limit=pf.Pure(9.0), dataset="meters"
    ).reserve(elsewhere, period)
    machine(0.0)
    ran = job.run("2026-11-01")
    assert ran.release.certificate.cost == elsewhere.cost
    assert ran.notes == ()
    assert json.loads((ran.folder / "evidence.json").read_text())["promise"] == repr(
        ran.release.certificate.promise
    )
    (ran.folder / "report.html").unlink()
    assert job.run("2026-11-01").notes == ()
