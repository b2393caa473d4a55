"""Which bounds `auto` tries: enough to be near the best, and no more work than that is worth; never by the clock."""

import itertools
import math
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration import proof_search as search
from pufferflow.calibration.bound import Bound, LossCurve, Worst
from pufferflow.calibration.chain_bounds import Messages, PureLoss
from pufferflow.calibration.exact.exact import Exact
from pufferflow.calibration.laws import Laws, ListedLaws
from pufferflow.calibration.transport_bounds import Kantorovich
from pufferflow.core.parallel import Workers
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.winf_of_sums import farthest, listed
from pufferflow.queries.engine_interface import Pattern
from pufferflow.sensitivity.pattern import window

START = datetime(2026, 1, 1)  # noqa: DTZ001 - the meter's own clock
STAY = [[0.9, 0.1], [0.2, 0.8]]
P8 = [(0.4, 0.6, 0.2), (0.4, 0.6, 1), (0.4, 0.6, 5), (0.3, 0.7, 1), (0.1, 0.9, 0.2), (0.1, 0.9, 5)]
FAMILIES = [[0.05, 0.2, 0.5, 0.2, 0.05], [0.3, 0.4, 0.2, 0.05, 0.05]]


def meter(hours, asked, prior=None, secret=None, **options):
    """Plan one sum of the last rows of one meter."""
    frame = pl.DataFrame(
        {
            "meter": ["a"] * hours,
            "hour": pl.datetime_range(START, START + timedelta(hours=hours - 1), "1h", eager=True),
            "on": np.arange(hours) % 2,
        }
    )
    secret = pf.Secret("on", domain=[0, 1]) if secret is None else secret
    scenario = pf.Scenario(
        secret, prior or pf.MarkovChain(STAY), within="meter", order_by="hour", step="1h"
    )
    since = pl.col("hour") >= START + timedelta(hours=hours - asked)
    return pf.protect(frame, scenario).filter(since).private_sum("on").plan(pf.Pure(1.0), **options)


def families(most=15):
    """A batch about families of 1 to 15 children who share a class."""
    sizes = range(1, most + 1)
    frame = pl.DataFrame(
        {"family": [f for f in sizes for _ in range(f)], "h": [0 for f in sizes for _ in range(f)]}
    )
    scenario = pf.Scenario(
        pf.Secret("h", domain=range(5)), pf.LatentClass([0.5, 0.5], FAMILIES), within="family"
    )
    return pf.protect(frame, scenario).private_sum("h")


@pytest.fixture
def tried(monkeypatch):
    """The bounds that were worked out, with the number of their laws' pairs."""
    found = []
    for kind in (Messages, pf.GWM, pf.DAGWM, pf.GAWM, Kantorovich):
        parts = kind.parts

        def spied(self, pairs, noise, parts=parts):
            if isinstance(pairs, Laws) and not isinstance(pairs, search.ListedLaws):
                found.append((type(self).__name__, pairs))
            return parts(self, pairs, noise)

        monkeypatch.setattr(kind, "parts", spied)
    return found


class Costly(Bound):
    """A bound that proves a given share of a movement of 1, and says how many numbers it compares."""

    def __init__(self, share, count, least=0.0):
        self.share, self._count, self._least = share, count, least

    def parts(self, pairs, _noise):
        return [
            PureLoss(
                self.share,
                lambda noise: (self.share / noise.scale if noise.scale else np.inf, pairs[0]),
            )
        ]

    def count(self, *_):
        return self._count

    def least(self, *_):
        return self._least


@pytest.mark.slow
def test_rows_outside_the_window_are_not_worked_out(monkeypatch):
    """A day in 34,589 hours derives laws of 24 rows, and asks for what the day alone asks for."""
    lengths = []
    for name, real in (("farthest", farthest), ("listed", listed)):

        def spied(sums, *rest, real=real):
            lengths.append(sums.length)
            return real(sums, *rest)

        monkeypatch.setattr(f"pufferflow.sensitivity.markov.{name}", spied)
    for bound in ("messages", "gwm", "auto"):
        scale = meter(34_589, 24, bound=bound).calibration.noise.scale
        assert scale == pytest.approx(meter(24, 24, bound=bound).calibration.noise.scale, rel=1e-9)
    assert set(lengths) == {24}


@pytest.mark.parametrize("seed", thinned(range(4), 0.25))
@pytest.mark.parametrize("start", ["stationary", "given", "free"])
def test_no_row_outside_the_window_costs_more(seed, start):
    """Against brute force: the exact loss of every row of a chain is no more than that of the window's own rows."""
    rng = np.random.default_rng(seed)
    states, length = int(rng.integers(2, 4)), 7
    matrix = rng.dirichlet(np.full(states, 0.7), states)
    initial = {"given": rng.dirichlet(np.ones(states)).tolist()}.get(start, start)
    prior, secret = (
        pf.MarkovChain(matrix.tolist(), initial),
        pf.Secret("x", domain=list(range(states))),
    )
    cells = np.array([-1, -1, 0, -1, 0, -1, -1])
    whole = Pattern(cells, np.ones(length, dtype=int), np.arange(float(length)))
    short = window(prior, secret, whole)
    assert short.positions.tolist() == [2, 3, 4]
    noise, values = pf.Laplace(1.3), rng.integers(0, 4, states)
    losses = exact_losses(prior, values, cells, noise)
    within, outside = losses[2:5], [*losses[:2], *losses[5:]]
    assert max(outside) <= max(within) + 1e-9
    laws = pf.laws(
        pf.Scenario(secret, prior, order_by="t"),
        pf.Statistic((short.cells == 0).astype(float), values, short.positions),
    )
    assert pf.loss(laws, noise, pf.Pure) >= max(outside) - 1e-9


def exact_losses(prior, values, cells, noise):
    """The largest exact pure loss between two states of each row, over all paths and all laws of the first row."""
    matrix, worst = np.array(prior.transition[0]), [0.0] * len(cells)
    paths = np.array(list(itertools.product(range(len(matrix)), repeat=len(cells))))
    totals = values[paths][:, cells == 0].sum(axis=1)
    steps = matrix[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    for initial in prior.initial_laws:
        masses = initial[paths[:, 0]] * steps
        for row, state in enumerate(paths.T):
            sums = [np.bincount(totals, masses * (state == one)) for one in range(len(matrix))]
            laws = [
                pf.Law(np.flatnonzero(one), one[one > 0] / one.sum()) for one in sums if one.any()
            ]
            found = [
                pf.loss([pair], noise, pf.Pure, bound=Exact())
                for pair in itertools.combinations(laws, 2)
            ]
            worst[row] = max([worst[row], *found])
    return worst


@pytest.mark.parametrize("pairs", ["adjacent", pf.WithinDistance(1)])
def test_rows_stay_where_not_every_pair_is_hidden(pairs):
    """With neighbours alone a row outside may mix states that are no pair inside: it is looked at."""
    prior = pf.MarkovChain(np.full((3, 3), 1 / 3).tolist())
    whole = Pattern(np.array([-1, 0, -1]), np.ones(3, dtype=int), np.arange(3.0))
    assert len(window(prior, pf.Secret("x", domain=[0, 1, 2], pairs=pairs), whole).cells) == 3
    assert len(window(prior, pf.Secret("x", domain=[0, 1], pairs="adjacent"), whole).cells) == 3 - 2
    assert len(window(prior, pf.Initial("x", domain=[0, 1, 2]), whole).cells) == 2


def test_a_long_total_is_proven_by_its_quickest_bound(tried):
    """A year of one meter: what cannot win much is left out by prediction, and compare says so.

    What the noise keeps of one row alone, of which the certificate tells, is no work.
    """
    plan = meter(3000, 2900, row_privacy=False)
    assert {name for name, laws in tried if not laws.constant} == {"Messages"}
    rows = {row["bound"]: row for row in plan.compare().iter_rows(named=True)}
    assert rows["GWM(norm=None)"]["note"].startswith("not tried: ")
    assert rows["GWM(norm=None)"]["scale"] is None
    assert rows["Messages()"]["times"] == pytest.approx(1.0)


@pytest.mark.parametrize(("q", "p", "epsilon"), thinned(P8, 0.2, unpack=True))
def test_auto_is_the_exact_minimum_where_messages_are(q, p, epsilon):
    """The reference table: what is left out never costs more than the tolerance."""
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.MarkovChain([[1 - q, q], [1 - p, p]]), order_by="hour"
    )
    laws = pf.laws(scenario, pf.Statistic.total(100))
    least = pf.calibrate(laws, pf.Pure(epsilon), bound=Exact()).noise.scale
    assert pf.calibrate(laws, pf.Pure(epsilon)).noise.scale == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize(
    "promise", thinned([pf.Pure(1.0), pf.Approx(1.0, 1e-6), pf.Renyi(4, 1.0)], 0.33), ids=repr
)
def test_auto_is_near_every_cheap_bound(promise):
    """Whatever was left out: no bound of the list asks for less than 95 % of what `auto` found."""
    batch = families(6)
    scale = batch.plan(promise, noise=pf.Laplace).calibration.noise.scale
    for bound in ("messages", "gwm", "dagwm", "group"):
        assert (
            scale
            <= batch.plan(promise, noise=pf.Laplace, bound=bound).calibration.noise.scale * 1.05
        )


@pytest.mark.slow
def test_families_that_do_not_decide_are_proven_once(tried):
    """Fifteen sizes of family: a search for one of them; of the others one bound each, which is seen to be enough."""
    batch = families()
    batch.plan(pf.Approx(1.0, 1e-6), noise=pf.Laplace, row_privacy=False)
    assert len(tried) < 15 + 8


def test_counts_decide_and_no_clock(monkeypatch):
    """Bounds that compare few numbers are tried as given; of others those that may win much, up to a limit."""
    monkeypatch.setattr(
        "time.monotonic", lambda: pytest.fail("a clock was looked at"), raising=True
    )
    pair = [(pf.Law.point(0), pf.Law.point(1))]
    laws = search.ListedLaws([pf.Pair(*pair[0])])
    aim = search.Scales(pf.Pure(1.0), pf.Laplace)

    def found(*bounds, beat=math.inf):
        with Workers() as workers:
            proofs, untried = search.search(
                [laws], bounds, aim, workers, thrifty=True, end=None, beat=beat
            )
        return proofs[0].value, [one.bound for one in untried]

    quick, much = Costly(1.0, 1e3), Costly(0.5, search.LARGE)
    endless = Costly(0.5, search.LARGE + 1)
    little, trifle = (
        Costly(0.96, 2 * search.SMALL, least=0.96),
        Costly(0.96, search.SMALL, least=0.96),
    )
    assert found(quick, much) == (pytest.approx(0.5, rel=1e-5), [])
    assert found(quick, endless) == (pytest.approx(1.0, rel=1e-5), [endless])
    assert found(endless, much) == (pytest.approx(0.5, rel=1e-5), [endless])
    assert found(endless) == (pytest.approx(0.5, rel=1e-5), [])
    assert found(quick, Costly(0.9, search.LARGE, least=0.9)) == (pytest.approx(0.9, rel=1e-5), [])
    assert found(quick, little) == (pytest.approx(1.0, rel=1e-5), [little])
    assert found(little, quick) == (pytest.approx(1.0, rel=1e-5), [little])
    assert found(quick, trifle) == (pytest.approx(0.96, rel=1e-5), [])
    half, always = Costly(0.5, search.LARGE, least=0.5), pf.Group()
    assert found(half, always, beat=0.6) == (pytest.approx(0.5, rel=1e-5), [])
    assert found(half, always, beat=0.4) == (
        pytest.approx(1.0, rel=1e-5),
        [half],
    )  # no less than other noise
    assert found(half, beat=0.4)[0] == pytest.approx(0.5, rel=1e-5)  # something is always found


def test_the_order_is_fixed():
    """Few numbers: the order given; more: the fewest first; supports alone: last, whatever they compare."""
    laws, order = search.ListedLaws([pf.Pair(pf.Law.point(0), pf.Law.point(1))]), []

    class Noted(Costly):
        def parts(self, pairs, noise):
            order.append(self)
            return super().parts(pairs, noise)

    class Supports(Noted):
        supports_only = True

    bounds = [
        Supports(1.0, 0.0),
        Noted(1.0, 3e6),
        Noted(1.0, 5.0),
        Noted(1.0, 2e6),
        Noted(1.0, 1.0),
    ]
    with Workers() as workers:
        search.search(
            [laws], bounds, search.Scales(pf.Pure(1.0), pf.Laplace), workers, thrifty=False
        )
    assert list(dict.fromkeys(order)) == [bounds[place] for place in (2, 4, 3, 1, 0)]


def test_messages_come_first_where_they_are_few(tried):
    """Of chains and classes of few states; where states are many, movements are compared before them."""
    families(6).plan(pf.Approx(1.0, 1e-6), noise=pf.Laplace, row_privacy=False)
    assert [name for name, _ in tried][:6] == ["Messages"] * 6
    tried.clear()
    kernel = np.exp(-np.abs(np.subtract.outer(range(8), range(8))))
    kernel /= kernel.sum(axis=1, keepdims=True)
    chain, secret = pf.MarkovChain(kernel.tolist()), pf.Secret("on", domain=range(8))
    meter(40, 30, chain, secret, row_privacy=False)
    assert tried[0][0] == "GWM"


def test_a_slow_machine_finds_the_same_plan(monkeypatch):
    """Clocks that run a thousand times faster start processes, and change neither noise nor what was tried."""
    plain = families(6).plan(pf.Renyi(4, 1.0), noise=pf.Laplace)
    clock = itertools.count(step=1000.0)
    monkeypatch.setenv("PUFFERFLOW_WORKERS", "2")
    monkeypatch.setattr(search.time, "thread_time", lambda: next(clock))
    slow = families(6).plan(pf.Renyi(4, 1.0), noise=pf.Laplace)
    assert repr(slow.calibration) == repr(plain.calibration)
    assert slow.calibration.untried == plain.calibration.untried
    assert next(clock) > 0


def test_what_bounds_may_win_is_no_more_than_said():
    """The lower limits by tails and by expectations are below what exact and movement bounds ask for."""
    chain = pf.Scenario(
        pf.Secret("x", domain=range(3)),
        pf.MarkovChain([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.1, 0.4, 0.5]]),
        order_by="t",
    )
    star = pf.Scenario(
        pf.Secret("x", domain=range(5)), pf.LatentClass([0.5, 0.5], FAMILIES), within="g"
    )
    for scenario, size in ((chain, 9), (star, 9)):
        (laws,) = pf.laws(scenario, pf.Statistic.total(size)).pieces
        for scale in (0.5, 3.0, 20.0):
            tail = laws.least_loss(1 / scale, laws[0])
            assert 0 < tail <= pf.loss(laws, pf.Laplace(scale), pf.Pure, bound=Exact()) * (1 + 1e-6)
        assert 0 < laws.least(0, 1) <= laws.winf(1).length
        assert laws.least(1e-3, 1) <= laws.near(1e-3, 1).length
        one = laws.at(laws[0])
        assert one is not None
        assert pf.winf(one.mu, one.nu) == pf.winf(*laws[0])


@pytest.mark.slow
def test_seconds_leave_the_quickest_proof():
    """However little time there is, one bound is worked out; plan and certificate say which were not begun."""
    plan = families(6).plan(pf.Renyi(4, 1.0), noise=pf.Laplace, seconds=1e-9)
    note = next(line for line in plan.certificate.notes if "1e-09 s" in line)
    assert "not tried" in note
    assert note in plan.explain()
    assert (
        plan.calibration.noise.scale
        >= families(6).plan(pf.Renyi(4, 1.0), noise=pf.Laplace).calibration.noise.scale
    )
    for wrong in (0, -1, float("nan"), float("inf"), "soon", True):
        with pytest.raises(pf.UsageError, match="seconds"):
            families(2).plan(pf.Pure(1.0), seconds=wrong)


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


@pytest.mark.slow
@pytest.mark.parametrize("given", [3, 40, 400])
def test_a_bound_that_takes_too_long_is_stopped(monkeypatch, given):
    """Inner loops look at the clock; what was proven before stays, and it is said which bound was not worked out."""
    kernels = [[[0.9 - place / 50, 0.1 + place / 50], [0.3, 0.7]] for place in range(6)]
    chain = pf.MarkovChain(kernels, period=6)
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), chain, order_by="hour")
    rows = pl.DataFrame({"hour": range(240), "on": [0, 1] * 120})
    batch = pf.protect(rows, scenario).private_sum("on")
    whole = batch.plan(pf.Approx(1.0, 1e-6))
    clock = Clock()
    monkeypatch.setattr("pufferflow.core.progress.time.monotonic", clock.monotonic)
    plan = batch.plan(pf.Approx(1.0, 1e-6), seconds=given)
    looked = clock.now
    assert looked <= given + 40, "every loop that was begun ends at its next look"
    assert plan.calibration.noise.scale >= whole.calibration.noise.scale * (1 - 1e-9)
    assert any("might need less noise, not tried" in line for line in plan.certificate.notes)
    monkeypatch.undo()
    assert batch.plan(pf.Approx(1.0, 1e-6), seconds=600).noises == whole.noises


def test_pairs_of_a_long_domain_are_listed_once(monkeypatch):
    """A thousand values and many groups: pairs are no work of every group."""
    from pufferflow.models import secret as room

    calls = []
    real = room.value_pairs
    monkeypatch.setattr(room, "value_pairs", lambda *rest: calls.append(1) or real(*rest))
    frame = pl.DataFrame({"unit": [u for u in range(20) for _ in range(u + 1)], "kw": [1.0] * 210})
    scenario = pf.Scenario(
        pf.Secret("kw", domain=[i / 30 for i in range(300)]), pf.AnyCorrelation(), within="unit"
    )
    pf.protect(frame, scenario).private_sum(pl.col("kw").sqrt()).plan(pf.Pure(1.0))
    assert len(calls) <= 6


@pytest.mark.slow
def test_a_month_of_a_chain_ends_for_limits_with_a_delta():
    """What a bound may win is not known there; one that takes too long is left out, and said to be."""
    kernel = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]
    scenario = pf.Scenario(pf.Secret("x", [0, 1, 7]), pf.MarkovChain(kernel), order_by="hour")
    batch = pf.protect(pl.DataFrame({"hour": range(744), "x": [0, 1] * 372}), scenario).private_sum(
        "x"
    )
    plan = batch.plan(pf.Approx(1.0, 1e-6), noise=pf.Laplace)
    assert {type(one.bound) for one in plan.calibration.untried} >= {pf.DAGWM}


@dataclass(frozen=True, eq=False)
class Uneven(LossCurve):
    """A loss that falls as noise grows but for one step up, as plans of transport short of the best may have it."""

    sensitivity: float
    step_up: float = math.inf
    certainty = Certainty.EXACT

    def renyi(self, noise, alpha):
        return self.pure(noise)

    def pure(self, noise):
        risen = 1.2 if self.step_up <= noise.scale else 1.0
        return Worst(risen * self.sensitivity / noise.scale if noise.scale else math.inf, None)


def test_a_loss_that_rises_with_noise_does_not_hold_up_the_search():
    """The search goes up in growing steps to where every curve keeps the guarantee; in equal ones it would not end."""
    curves = [Uneven(1.05), Uneven(0.9, step_up=1.01)]
    applied = search.AppliedBound(pf.GWM(), ListedLaws([]), curves)
    scale = applied.least_scale(pf.Laplace, pf.Pure(1.0))
    assert all(curve.pure(pf.Laplace(scale)).value <= 1 for curve in curves)
    assert 1.08 <= scale < 1.2
