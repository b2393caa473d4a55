"""Keys that the data chooses (`keys="discover"`): which appear, what they cost, and what is revealed about others."""

import math
from datetime import date

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

SCENARIO = pf.Scenario(
    pf.Presence("person", "hours", pf.Interval(0, 99), rows=2),
    pf.Independent(),
    public=["town", "at"],
)
PROMISE = pf.Approx(1.0, 1e-6)
LOUD = pf.Approx(1e6, 1e-6)
HIDDEN = "zoe-of-the-data"


def people(*towns, rows=20, dtype=None):
    """So many people in each of some towns, with a row each, and one person alone elsewhere."""
    names = [*towns * rows, HIDDEN]
    return pl.DataFrame(
        {"person": range(len(names)), "town": pl.Series(names, dtype=dtype), "at": 0, "hours": 8.0},
        strict=False,
    )


def batch(frame, *by, scenario=SCENARIO):
    return pf.protect(frame, scenario).group_by(*(by or ["town"]), keys="discover")


def test_keys_with_enough_rows_appear_in_growing_order():
    """Null is a key like others; the number of rows by which keys appear is a column of the answer."""
    plan = batch(people("c", None, "a")).private_sum("hours").plan(LOUD, noise=pf.Gaussian)
    release = plan.release()
    assert (
        release.frame.columns == ["town", "hours_sum", "rows"] == [plan.request.by[0], *plan.noises]
    )
    assert release.frame["town"].to_list() == [None, "a", "c"]
    assert release.frame["rows"].round().to_list() == [20, 20, 20]
    assert plan.guarantee == release.certificate.promise == LOUD
    keys = release.certificate.keys
    assert (keys.delta, keys.surely) == (5e-7, 3)
    assert keys.above == pytest.approx(2, abs=0.02)
    assert pf.Release.from_bytes(release.to_bytes()).certificate == release.certificate
    assert "A key of 3 rows appears with probability 99 %" in plan.explain()
    assert plan.summary()["group"].unique().to_list() == ["each town that appears"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["enum", "categorical", "text"])
def test_nothing_tells_of_keys_that_do_not_appear(kind, tmp_path):
    """Neither their names nor their number, in files, certificate and pages; labels are texts in their order."""
    dtype = {
        "enum": pl.Enum([HIDDEN, "c", "a"]),
        "categorical": pl.Categorical(),
        "text": pl.String(),
    }[kind]
    plan = (
        batch(people("c", "a", dtype=dtype))
        .private_mean("hours")
        .private_count()
        .plan(PROMISE, noise=pf.Gaussian)
    )
    many = batch(people("c", "a", dtype=dtype, rows=200)).private_mean("hours").private_count()
    release = many.release(PROMISE, noise=pf.Gaussian)
    assert release.frame.schema["town"] == release.intervals.schema["town"] == pl.String
    assert release.frame["town"].to_list() == ["a", "c"]
    release.write_parquet(tmp_path / "parquet")
    release.report(tmp_path / "release.html")
    told = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    told += [
        release.to_bytes(),
        str((plan, plan.explain(), plan.summary(), plan.compare(), release)).encode(),
    ]
    assert not any(HIDDEN.encode() in text for text in told)


def test_plans_and_costs_know_nothing_of_the_rows():
    """No row is read before the release: without any, plan and cost are the same, and an empty answer is one."""
    full, empty = (
        batch(frame)
        .private_mean("hours")
        .private_variance("hours")
        .private_median("hours", bins=[0, 50, 99])
        for frame in (people("a", "b"), people("a", "b").clear())
    )
    plans = [one.plan(PROMISE, noise=pf.Gaussian) for one in (full, empty)]
    assert plans[0].certificate == plans[1].certificate
    release = plans[1].release()
    assert release.frame.shape == (0, 4)
    assert release.frame.schema == plans[0].release().frame.schema
    assert release.clipped().frame.is_empty()


def test_keys_of_one_unit_appear_as_rarely_as_promised():
    """Of many keys with a single row a share κ appears, no more and hardly less (to within a tenth)."""
    names = pl.int_range(60_000, eager=True)
    frame = pl.DataFrame({"person": names, "town": names, "at": 0, "hours": 8.0})
    scenario = pf.Scenario(pf.Presence("person", rows=1), pf.Independent(), public=["town", "at"])
    release = batch(frame, scenario=scenario).private_count().release(pf.Approx(0.5, 0.1))
    assert release.certificate.keys.delta == 0.05
    assert abs(release.frame.height - 3000) < 5.5 * math.sqrt(3000)  # a tenth off is 5.6 of these
    assert release.intervals["count_low"].min() == 1


@pytest.mark.slow
@pytest.mark.parametrize("by", [["town", "at"], ["town"]])
def test_units_with_rows_in_several_groups_have_keys_of_their_own_as_rarely(by):
    """All their rows count: a row in each of three days may be three keys, or all may be in one, which is seldomer."""
    people = pl.int_range(20_000, eager=True)
    frame = pl.DataFrame({"person": people, "hours": 8.0}).join(
        pl.DataFrame({"at": [0, 1, 2]}), how="cross"
    )
    frame = frame.with_columns(town="person")
    secret = pf.Presence("person", rows=1, groups=3, by="at")
    scenario = pf.Scenario(secret, pf.Independent(), public=["town", "at"])
    release = (
        batch(frame, *by, scenario=scenario)
        .private_count()
        .release(pf.Approx(0.5, 0.1), noise=pf.Laplace)
    )
    expected = 1000 if "at" in by else 1000 * math.exp(2 / 6) / 3
    assert abs(release.frame["town"].n_unique() - expected) < 5.5 * math.sqrt(expected)


def test_keys_of_other_types_are_keys_as_they_are():
    floats = pl.Series([0.5, -0.0, 0.0, float("nan"), None] * 8)
    days = pl.Series([date(2026, 1, day) for day in (3, 1, 1, 2, 2)] * 8)
    frame = pl.DataFrame({"person": range(40), "town": floats, "at": days, "hours": 1.0})
    found = batch(frame, "town", "at").private_count().release(LOUD, noise=pf.Gaussian).frame
    assert found.schema == {"town": pl.Float64, "at": pl.Date, "count": pl.Float64}
    assert str(found["town"].to_list()) == "[None, 0.0, 0.5, nan]"
    assert found["at"].to_list() == [date(2026, 1, day) for day in (2, 1, 3, 2)]
    assert found["count"].round().to_list() == [8, 16, 8, 8]
    derived = pf.protect(frame, SCENARIO).group_by(
        late=pl.col("at") > date(2026, 1, 1), keys="discover"
    )
    assert derived.private_count().release(LOUD, noise=pf.Gaussian).frame["late"].to_list() == [
        False,
        True,
    ]


@pytest.mark.slow
def test_more_rows_of_a_unit_or_less_delta_raise_the_threshold_and_renyi_promises_have_one():
    found = {}
    for rows, promise in [
        (2, PROMISE),
        (3, PROMISE),
        (2, pf.Approx(1.0, 1e-9)),
        (2, pf.ApproxRenyi(4, 1.0, 1e-6)),
    ]:
        scenario = pf.Scenario(
            pf.Presence("person", rows=rows), pf.AnyCorrelation(), within="person", public=["town"]
        )
        certificate = (
            batch(people("a"), scenario=scenario)
            .private_count()
            .plan(promise, noise=pf.Laplace)
            .certificate
        )
        found[rows, promise] = certificate.keys.above
        assert certificate.promise == promise
    least, *others = found.values()
    assert least == pytest.approx(2 * (1 + math.log(1e6)), rel=0.05)
    assert min(others[:2]) > least


BAD = {
    "a pure guarantee": (lambda one: one.plan(pf.Pure(1.0)), pf.Refused, r"pf\.Approx\(1, 1e-6\)"),
    "a guarantee of total variation": (
        lambda one: one.plan(pf.TradeOff(1.0, 1e-6, tv=0.3)),
        pf.Refused,
        "with a delta",
    ),
    "all orders": (lambda one: one.plan(pf.Zcdp(1.0)), pf.Refused, "with a delta"),
    "hardly a delta": (lambda one: one.plan(pf.Approx(1.0, 1e-300)), pf.UsageError, "delta 1e-300"),
    "other noise": (
        lambda one: one.plan(PROMISE, noise=pf.Staircase),
        pf.Refused,
        r"noise=pf\.Laplace",
    ),
}


@pytest.mark.parametrize("name", thinned(BAD, 0.8))
def test_what_cannot_be_promised_is_refused(name):
    plan, error, words = BAD[name]
    with pytest.raises(error, match=words):
        plan(batch(people("a")).private_sum("hours"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": "discover", "other": "elsewhere"}, "lists none"),
        ({"keys": "Discover"}, 'keys="discover"'),
        ({"keys": "discover", "by": "places"}, "List"),
        ({}, 'or keys="discover"'),
    ],
)
def test_keys_that_are_not_understood_are_refused(options, words):
    scenario = pf.Scenario(SCENARIO.secret, pf.Independent(), public=["town", "places"])
    frame = people("a").with_columns(places=pl.concat_list("town"))
    with pytest.raises(pf.UsageError, match=words):
        pf.protect(frame, scenario).group_by(options.pop("by", "town"), **options)


@pytest.mark.parametrize("prior", [pf.Independent(), pf.AnyCorrelation()], ids=repr)
def test_where_rows_are_public_their_keys_cost_nothing(prior):
    scenario = pf.Scenario(pf.Secret("hours", pf.Interval(0, 99)), prior, public=["town"])
    with pytest.raises(pf.UsageError, match=r"try: \.group_by\('town'\)"):
        pf.protect(people("a"), scenario).group_by("town", keys="discover")


@pytest.mark.slow
def test_accounts_charge_the_delta_of_keys(tmp_path):
    """Each release takes κ of the account's part; limits without δ refuse, as do profiles and endless schedules."""
    plan = batch(people("a")).private_count().plan(PROMISE, noise=pf.Laplace)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("towns", SCENARIO, limit=pf.Approx(5.0, 1.5e-6), keys_delta=1.5e-6)
        assert account.remaining(plan) == 3  # by δ: 3κ; by ε it would be 5
        for place in range(3):
            plan.release(account, id=str(place))
        assert account.spent().delta == 1.5e-6
        assert account.spent().epsilon == pytest.approx(3.0)
        with pytest.raises(pf.LimitReached, match="take delta 2e-06"):
            plan.release(account)
        assert account.remaining(plan) == account.forecast(plan, every=1, until=5).fits == 0
        assert "take delta 4e-06" in account.forecast(plan, every=1, until=5).note
        assert account.forecast(plan, every=1).total == math.inf
        pure = ledger.open("pure", SCENARIO, limit=pf.Pure(5.0), dataset="other")
        with pytest.raises(pf.LimitReached, match=r"limit=pf\.Approx"):
            plan.release(pure)
        with pytest.raises(pf.Refused, match="reserved"):
            ledger.open(
                "reserved",
                SCENARIO,
                limit=pf.Approx(5.0, 1e-5),
                dataset="third",
                reserve=[(plan, 3)],
            )


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 3])
def test_totals_are_those_of_listed_keys_with_what_is_left_of_delta(times):
    """Of each release κ is for its keys; the rest of δ is for the noise of all. Beyond δ there is no total."""
    discovered = (
        batch(people("a"))
        .private_count()
        .plan(pf.Approx(0.5, 2**-10), noise=pf.Laplace, bound=pf.GWM())
    )
    listed = pf.protect(people("a"), SCENARIO).group_by("town", keys=["a", "b"]).private_count()
    listed = listed.plan(pf.Approx(0.5, 2**-11), noise=pf.Laplace, bound=pf.GWM())
    assert discovered.noises == listed.noises
    for kind in (pf.Approx.of, lambda delta: pf.ApproxRenyi.of(4, delta)):
        for delta in (2**-10, 0.1):
            if times * 2**-11 > delta:
                with pytest.raises(pf.Refused, match="take delta"):
                    pf.compose([discovered] * times, SCENARIO, kind(delta))
                continue
            found = pf.compose([discovered] * times, SCENARIO, kind(delta))
            alike = pf.compose([listed] * times, SCENARIO, kind(delta - times * 2**-11))
            assert found.total == pytest.approx(
                alike.total, rel=1e-6 if times > 1 else 1e-3
            )  # one is its own guarantee
    with pytest.raises(pf.Refused, match="keys_delta 0"):
        pf.compose([discovered] * 2, SCENARIO, pf.Zcdp)


def test_what_is_left_if_beliefs_are_off_has_the_delta_of_keys():
    plan = batch(people("a")).private_count().plan(PROMISE, noise=pf.Gaussian)
    assert pf.robustness(plan).delta == 1e-6
    assert pf.robustness(plan, 1.0).delta == 1e-6
    assert pf.robustness(plan, ratio=0.1).delta == pytest.approx(1e-6 * math.exp(0.1))


def test_the_number_of_rows_has_noise_of_its_own():
    """Sums of which noise could be correlated (M28) have independent noise where keys rest on that of the rows."""
    scenario = pf.Scenario(
        pf.Presence("person", "hours", [0, 8], rows=1), pf.Independent(), public=["town"]
    )
    asked = batch(people("a"), scenario=scenario).private_sum("hours")
    plans = [asked.plan(PROMISE, noise=noise, bound=pf.GWM()) for noise in (pf.Gaussian, "joint")]
    assert plans[0].noises == plans[1].noises
    assert plans[0].certificate.keys == plans[1].certificate.keys


@pytest.mark.slow
def test_an_accuracy_finds_the_strongest_promise_with_keys():
    plan = batch(people("a")).private_count().plan(pf.Approx.of(1e-6), accuracy=pf.Within(20))
    assert plan.guarantee.delta == 1e-6
    assert plan.key_delta == plan.certificate.keys.delta == 5e-7
