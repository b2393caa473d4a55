"""What is typed by mistake or by habit is answered with something that can be typed instead, and that works.

A case is what is typed, the remedy that the error has to name word for word, and where the remedy then stands. All are
source texts: the remedy is taken from the message and run.
"""

import types
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from remedies import run, typed
from thinned import thinned

import pufferflow as pf
from pufferflow.core import suggestions as habits

BERLIN = "Europe/Berlin"
HOURS = [datetime.fromisoformat(f"2026-01-01T0{hour}:00") for hour in range(4)]
ROWS = pl.DataFrame(
    {
        "meter": [1, 1, 2, 2],
        "hour": [0, 1, 0, 1],
        "region": ["north", "north", "south", "south"],
        "district": ["a", "b", "a", "b"],
        "price": [1.0, 2.0, 3.0, 4.0],
        "day": [1, 1, 2, 2],
        "on": [date(2026, 1, 1)] * 4,
        "at": HOURS,
        "there": pl.Series(HOURS).dt.replace_time_zone(BERLIN),
        "level": [0, 3, 2, 1],
        "level2": [1, 1, 0, 2],
        "kind": ["low", "low", "high", "high"],
    }
)
PUBLIC = ["region", "district", "day", "at", "there", "on", "price"]


def scenario(**options):
    given = {
        "prior": pf.Independent(),
        "order_by": "hour",
        "within": "meter",
        "public": PUBLIC,
    } | options
    secret = given.pop("secret", pf.Secret("level", domain=[0, 1, 2, 3]))
    return pf.Scenario(secret, **given)


def presence(**options):
    secret = pf.Presence("meter", rows=2, **options)
    return pf.protect(ROWS, pf.Scenario(secret, pf.Independent(), public=["region", "at", "there"]))


def joint():
    table = pf.Table({"a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "probability": [0.4, 0.4, 0.1, 0.1]})
    return pf.Scenario(pf.Secret("a", domain=[0, 1]), table)


def names(**more):
    """Return what a person has at hand who types."""
    return {
        "pl": pl,
        "pf": pf,
        "np": np,
        "date": date,
        "datetime": datetime,
        "timedelta": timedelta,
        "UTC": UTC,
        "ZoneInfo": ZoneInfo,
        "frame": ROWS,
        "scenario": scenario(),
        "batch": pf.protect(ROWS, scenario()),
        "asked": pf.protect(ROWS, scenario()).private_sum("level", name="load"),
        "presence": presence,
        "belief": scenario,
        "joint": joint(),
        "pair": pl.DataFrame({"a": [0, 1], "b": [0, 1]}),
        "columns": {"level": [0, 1, 2, 3], "prob": [0.1, 0.2, 0.3, 0.4]},
        "matrix": [[0.9, 0.1], [0.2, 0.8]],
        **more,
    }


def check(typed, remedy, then, known):
    """What is typed is refused with the remedy, word for word, and the remedy works where it then stands."""
    with pytest.raises(pf.PufferflowError) as caught:
        run(typed, known)
    assert remedy in f"{caught.value.problem} {caught.value.instead}"
    assert len(str(caught.value).splitlines()) <= 5
    return run(then.replace("{}", remedy), known)


COLUMNS = {
    "a typo in a query": ('batch.private_sum("levl")', "'level'", "batch.private_sum({})"),
    "a typo in a histogram": (
        'batch.private_histogram("levl")',
        "'level'",
        "batch.private_histogram({})",
    ),
    "a typo in a quantile": (
        'batch.private_quantile("levl", 0.5)',
        "'level'",
        "batch.private_quantile({}, 0.5)",
    ),
    "a typo in an expression": (
        'batch.private_sum(pl.col("lvel") * 2)',
        "'level'",
        "batch.private_sum(pl.col({}) * 2)",
    ),
    "a typo in a group": ('batch.group_by("distrct")', "'district'", "batch.group_by({})"),
    "a typo in a filter": (
        'batch.filter(pl.col("distict") == "a")',
        "'district'",
        'batch.filter(pl.col({}) == "a")',
    ),
    "a typo in a constraint": (
        'batch.filter(distict="a")',
        "'district'",
        'batch.filter(pl.col({}) == "a")',
    ),
    "a typo in a new column": (
        'batch.with_columns(week=pl.col("dya") // 7)',
        "'day'",
        "batch.with_columns(week=pl.col({}) // 7)",
    ),
    "a column that is not declared": (
        'batch.private_sum("level2")',
        "pf.Secret('level2', domain=pf.Interval(0, 100))",
        'pf.protect(frame, belief(secret={})).private_sum("level2")',
    ),
    "a histogram of a column that is not declared": (
        'batch.private_histogram("level2")',
        "pf.Secret('level2', domain=pf.Interval(0, 100))",
        'pf.protect(frame, belief(secret={})).private_histogram("level2", bins=[1, 2])',
    ),
    "a filter by a column that is not declared": (
        'batch.filter(pl.col("level2") > 1)',
        "public=['level2']",
        'pf.protect(frame, belief({})).filter(pl.col("level2") > 1)',
    ),
    "a filter by the secret": (
        'batch.filter(pl.col("level") > 1)',
        ".private_histogram('level')",
        "batch{}",
    ),
    "groups by the secret": ('batch.group_by("level")', ".private_histogram('level')", "batch{}"),
    "a query about a public column": ('batch.private_sum("price")', "frame.select('price')", "{}"),
    "the mean of a secret times a public column": (
        'batch.private_mean(pl.col("level") * pl.col("price"))',
        ".private_sum(pl.col('level') * pl.col('price'))",
        "batch{}",
    ),
    "the weighted mean that may be meant": (
        'batch.private_mean(pl.col("level") * pl.col("price"))',
        ".private_mean('level', weights='price')",
        "batch{}",
    ),
    "a secret times a column that is not declared": (
        'batch.private_sum(pl.col("level") * pl.col("level2"))',
        "frame.with_columns(both=…)",
        (
            'pf.protect(frame.with_columns(both=pl.col("level") * pl.col("level2")), '
            'belief(secret=pf.Secret("both", domain=pf.Interval(0, 9)))).private_sum("both")'
        ),
    ),
    "a text that is not declared": (
        'batch.private_histogram("kind")',
        """pf.Secret('kind', domain=["low", "high"])""",
        'pf.protect(frame, belief(secret={})).private_histogram("kind")',
    ),
    "the beginning of a name": ('batch.private_sum("lev")', "'level'", "batch.private_sum({})"),
    "a filter as in SQL": (
        "batch.filter(\"region = 'north'\")",
        "pl.col(\"region\") == 'north'",
        "batch.filter({})",
    ),
    "a histogram of an interval": (
        'pf.protect(frame, belief(secret=pf.Secret("level", domain=pf.Interval(0, 8)))).private_histogram("level")',
        "bins=[0, 2, 4, 6, 8]",
        'pf.protect(frame, belief(secret=pf.Secret("level", domain=pf.Interval(0, 8)))).private_histogram("level", {})',
    ),
    "a second sensitive column": (
        'pf.protect(pair, joint).private_sum("a").private_sum("b")',
        "pf.protect(frame, scenario).private_sum('b')",
        "(lambda frame, scenario: {})(pair, joint)",
    ),
    "two columns as arguments": (
        'batch.private_sum("level", "price")',
        'name="price_2"',
        'batch.private_sum("level", {})',
    ),
    "a column of the scenario that the frame lacks": (
        'pf.protect(frame, belief(public=["distrct"]))',
        "'district'",
        "pf.protect(frame, belief(public=[{}]))",
    ),
    "a group of the scenario that the frame lacks": (
        'pf.protect(frame, belief(within="metr"))',
        "frame.rename({'meter': 'metr'})",
        'pf.protect({}, belief(within="metr"))',
    ),
    "a secret that the frame lacks": (
        'pf.protect(frame, belief(secret=pf.Secret("levle", domain=[0, 1, 2, 3])))',
        "'level'",
        "pf.protect(frame, belief(secret=pf.Secret({}, domain=[0, 1, 2, 3])))",
    ),
    "keys of a misspelt column": (
        'batch.group_by("region", keys=pl.DataFrame({"regoin": ["north"]}))',
        "keys=frame.rename({'regoin': 'region'})",
        '(lambda frame: batch.group_by("region", {}))(pl.DataFrame({"regoin": ["north"]}))',
    ),
    "one key": (
        'batch.group_by("region", keys="north")',
        "keys=['north']",
        'batch.group_by("region", {})',
    ),
    "presence without a column": (
        'presence().private_sum("level")',
        "pf.Presence('meter', column='level', domain=pf.Interval(0, 100), rows=2)",
        'pf.protect(frame, pf.Scenario({}, pf.Independent())).private_sum("level").plan(pf.Pure(1.0))',
    ),
    "presence, and a property of another column": (
        'presence().private_count(pl.col("level") >= 1)',
        "pf.Presence('meter', column='level', domain=pf.Interval(0, 100), rows=2)",
        'pf.protect(frame, pf.Scenario({}, pf.Independent())).private_count(pl.col("level") >= 1)',
    ),
    "presence, and a property of a public column": (
        'presence().private_count(pl.col("region") == "north")',
        ".group_by('region', keys=[…]).private_count()",
        """presence(){}""".replace("{}", ".group_by('region', keys=['north']).private_count()"),
    ),
    "presence without a domain": (
        'pf.Presence("meter", column="level")',
        "pf.Presence('meter', column='level', domain=pf.Interval(0, 100), rows=10)",
        "{}",
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name):
    """A column that cannot be read where it is named is told from a typo, and how to declare or to ask instead."""
    check(*COLUMNS[name], names())


LITERALS = {
    "text beside a time": ('pl.col("at") >= "2026-01-01"', 'pl.col("at") >= datetime(2026, 1, 1)'),
    "text with an hour": (
        'pl.col("at") < "2026-01-01T02:30"',
        'pl.col("at") < datetime(2026, 1, 1, 2, 30)',
    ),
    "text beside a zoned time": (
        'pl.col("there") >= "2026-01-01"',
        'pl.col("there") >= datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))',
    ),
    "text beside a date": ('pl.col("on") == "2026-01-01"', 'pl.col("on") == date(2026, 1, 1)'),
    "text on the left": (
        'pl.lit("2026-01-01") <= pl.col("on")',
        'date(2026, 1, 1) <= pl.col("on")',
    ),
    "a time without a zone": (
        'pl.col("there") >= datetime(2026, 1, 1)',
        'pl.col("there") >= datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))',
    ),
    "a time with a zone": (
        'pl.col("at") >= datetime(2026, 1, 1, tzinfo=UTC)',
        'pl.col("at") >= datetime(2026, 1, 1)',
    ),
    "a time in another zone": (
        'pl.col("there") >= datetime(2026, 1, 1, tzinfo=UTC)',
        'pl.col("there") >= datetime(2026, 1, 1, 1, 0, tzinfo=ZoneInfo("Europe/Berlin"))',
    ),
    "between times without a zone": (
        'pl.col("there").is_between(datetime(2026, 1, 1), datetime(2026, 1, 2))',
        (
            'pl.col("there").is_between(datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), '
            'datetime(2026, 1, 2, tzinfo=ZoneInfo("Europe/Berlin")))'
        ),
    ),
    "text beside a number": ('pl.col("meter") == "1"', 'pl.col("meter") == 1'),
    "a number beside text": ('pl.col("region") == 1', 'pl.col("region") == "1"'),
    "a list of texts beside a number": (
        'pl.col("meter").is_in(["1"])',
        "pl.col('meter').is_in([1])",
    ),
}


@pytest.mark.parametrize("name", LITERALS)
def test_literals(name):
    """A comparison with a literal of another type or time zone is answered with that of the column's own, and runs."""
    typed, remedy = LITERALS[name]
    found = check(f"batch.filter({typed})", remedy, "batch.filter({})", names())
    assert found.private_sum("level").release(epsilon=1.0).frame.height == 1


def test_moments_of_two_zones():
    """A moment in another zone is also answered with the column in that zone, which serves where it is a variable."""
    known = names(begins=datetime(2026, 1, 1, tzinfo=ZoneInfo("America/New_York")))
    remedy = "pl.col('there').dt.convert_time_zone(\"America/New_York\")"
    check('batch.filter(pl.col("there") >= begins)', remedy, "batch.filter({} >= begins)", known)


@pytest.mark.parametrize("name", [name for name in LITERALS if "there" in LITERALS[name][0]])
def test_literals_where_nothing_may_fail(name):
    """Under pf.Presence the same remedies are named, and are let through."""
    typed, remedy = LITERALS[name]
    check(
        f"presence().filter({typed})",
        remedy,
        "presence().filter({}).private_count().plan(pf.Pure(1.0))",
        names(),
    )


def test_a_text_that_polars_takes_for_a_column():
    """In is_between a text is the name of a column; a date there is answered with a literal."""
    known = names()
    typed = 'batch.filter(pl.col("on").is_between("2026-01-01", date(2026, 1, 2)))'
    check(
        typed,
        "date(2026, 1, 1)",
        'batch.filter(pl.col("on").is_between({}, date(2026, 1, 2)))',
        known,
    )


CALLS = {
    "a guarantee that is a number": ("asked.plan(0.5)", "pf.Pure(0.5)", "asked.plan({})"),
    "a release for a number": ("asked.release(2)", "epsilon=2", "asked.release({})"),
    "a guarantee that is a text": ('asked.plan("1")', "pf.Pure(1)", "asked.plan({})"),
    "a kind of guarantee": ("asked.plan(pf.Pure)", "plan(pf.Pure(1.0))", "asked.{}"),
    "no guarantee": ("asked.release()", "epsilon=1", "asked.release({})"),
    "delta of a plan": (
        "asked.plan(epsilon=1.0, delta=1e-6)",
        "plan(pf.Approx(1.0, 1e-6))",
        "asked.{}",
    ),
    "delta of a release": (
        "asked.release(epsilon=1.0, delta=1e-6)",
        "pf.Approx(1.0, 1e-6)",
        "asked.release({})",
    ),
    "a typo in an argument": (
        'asked.plan(pf.Pure(1.0), nosie="auto")',
        "noise=",
        'asked.plan(pf.Pure(1.0), {}"auto")',
    ),
    "a typo in an argument of release": (
        'asked.release(nosie="auto")',
        "noise=",
        'asked.release(epsilon=1.0, {}"auto")',
    ),
    "two numbers for a guarantee": (
        "asked.release(1.0, 1e-6)",
        "batch.release(epsilon=1.0)",
        "(lambda batch: {})(asked)",
    ),
    "no address": ("pf.Ledger()", 'pf.Ledger("ledger.db")', "True"),
    "Pure without epsilon": ("pf.Pure()", "pf.Pure(1.0)", "{}"),
    "Pure with a delta": ("pf.Pure(1.0, delta=1e-6)", "pf.Approx(1.0, 1e-6)", "{}"),
    "Pure with eps": ("pf.Pure(eps=1.0)", "pf.Pure(epsilon=1.0)", "{}"),
    "a typo in the name of a noise": (
        'asked.plan(pf.Pure(1.0), noise="laplce")',
        'noise="laplace"',
        "asked.plan(pf.Pure(1.0), {})",
    ),
    "a typo in the name of a bound": (
        'asked.plan(pf.Pure(1.0), bound="gmw")',
        'bound="gwm"',
        "asked.plan(pf.Pure(1.0), {})",
    ),
    "a bound that needs a number": (
        'asked.plan(pf.Approx(1.0, 1e-2), bound="gawn")',
        'bound="gawm"',
        "asked.plan(pf.Approx(1.0, 1e-2), {})",
    ),
    "the class of a bound": (
        "asked.plan(pf.Pure(1.0), bound=pf.GWM)",
        "bound=pf.GWM()",
        "asked.plan(pf.Pure(1.0), {})",
    ),
    "shares of a misspelt query": (
        'asked.plan(pf.Pure(1.0), shares={"laod": 1})',
        "Did you mean 'load'?",
        'asked.plan(pf.Pure(1.0), shares={"load": 1})',
    ),
    "shares of one query of two": (
        'asked.private_mean("level").plan(pf.Pure(1.0), shares={"load": 1})',
        "shares={'load': 2, 'level_mean': 1}",
        'asked.private_mean("level").plan(pf.Pure(1.0), {})',
    ),
    "a percent for q": (
        'batch.private_quantile("level", 90)',
        "private_quantile('level', 0.9)",
        "batch.{}",
    ),
    "no q": ('batch.private_quantile("level")', 'private_quantile("level", 0.5)', "batch.{}"),
    "bounds in a query": (
        'batch.private_sum("level", bounds=(0, 10))',
        'pf.Secret("level", domain=pf.Interval(0, 10))',
        'pf.protect(frame, belief(secret={})).private_sum("level")',
    ),
    "epsilon of a query": (
        'batch.private_mean("level", epsilon=1.0)',
        ".plan(pf.Pure(1.0))",
        'batch.private_mean("level"){}',
    ),
    "a noise multiplier": (
        "asked.plan(pf.Pure(1.0), noise_multiplier=1)",
        "plan(accuracy=pf.Within(5))",
        "asked.{}",
    ),
    "contributions": (
        'batch.private_count(pl.col("level") > 1, max_contributions=10)',
        'pf.Presence("meter", rows=10)',
        "pf.protect(frame, pf.Scenario({}, pf.Independent())).private_count()",
    ),
    "order of groups": (
        'batch.group_by("day", maintain_order=True)',
        "groups come in growing order",
        'batch.group_by("day")',
    ),
    "no scenario": ("pf.protect(frame)", "pf.protect(frame, scenario)", "{}"),
    "scenario first": (
        "pf.protect(scenario, frame)",
        "pf.protect(frame, ",
        "pf.protect(frame, scenario)",
    ),
    "a secret for a scenario": (
        'pf.protect(frame, pf.Secret("level", [0, 1]))',
        'pf.protect(frame, pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior=pf.Independent()))',
        "{}",
    ),
    "a text for an account": (
        'asked.release(epsilon=1.0, account="power")',
        "pf.Ledger(\"ledger.db\").open('power', scenario, limit=pf.Pure(3.0))",
        "True",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    """Arguments that are not taken, or not of that kind, are answered with what is."""
    check(*CALLS[name], names())


def test_accounts(tmp_path, monkeypatch):
    """A ledger or a name in the place of an account is answered with how an account is opened."""
    monkeypatch.chdir(tmp_path)
    known = names(ledger=pf.Ledger("ledger.db"))
    opened = 'ledger.open("power", scenario, limit=pf.Pure(3.0))'
    check(
        "asked.release(epsilon=1.0, account=ledger)",
        opened,
        "asked.release(epsilon=1.0, account={})",
        known,
    )


MADE = {
    "pairs": (
        'pf.Secret("level", [0, 1], pairs="adjacant")',
        'pairs="adjacent"',
        'pf.Secret("level", [0, 1], {})',
    ),
    "initial": (
        'pf.MarkovChain(matrix, initial="fre")',
        "initial='free'",
        "pf.MarkovChain(matrix, {})",
    ),
    "argument of a chain": (
        'pf.MarkovChain(matrix, inital="free")',
        "initial=",
        'pf.MarkovChain(matrix, {}"free")',
    ),
    "argument of a secret": (
        'pf.Secret(colum="level", domain=[0, 1])',
        "column=",
        'pf.Secret({}"level", domain=[0, 1])',
    ),
    "argument of a scenario": (
        'pf.Scenario(pf.Secret("level", [0, 1]), pf.Independent(), orderby="hour")',
        "order_by=",
        'pf.Scenario(pf.Secret("level", [0, 1]), pf.Independent(), {}"hour")',
    ),
    "secrets": (
        "pf.Scenario(secrets=[], prior=pf.Independent())",
        'secret=pf.Secret("level", domain=[0, 1, 2, 3])',
        "pf.Scenario({}, prior=pf.Independent())",
    ),
    "a name for a secret": (
        'pf.Scenario("level", pf.Independent())',
        "secret=pf.Secret('level', domain=[0, 1, 2, 3])",
        "pf.Scenario({}, prior=pf.Independent())",
    ),
    "no prior": (
        'pf.Scenario(pf.Secret("level", [0, 1]))',
        'pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior=pf.Independent())',
        "{}",
    ),
    "None for a prior": (
        'pf.Scenario(pf.Secret("level", [0, 1]), None)',
        "prior=pf.Independent()",
        'pf.Scenario(pf.Secret("level", [0, 1]), {})',
    ),
    "a class for a prior": (
        'pf.Scenario(pf.Secret("level", [0, 1]), pf.MarkovChain, order_by="hour")',
        'prior=pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial="stationary")',
        'pf.Scenario(pf.Secret("level", [0, 1]), order_by="hour", {})',
    ),
    "a matrix for a prior": (
        'pf.Scenario(pf.Secret("level", [0, 1]), matrix, order_by="hour")',
        'prior=pf.MarkovChain(matrix, initial="stationary")',
        'pf.Scenario(pf.Secret("level", [0, 1]), order_by="hour", {})',
    ),
    "groups of a scenario": (
        'belief(group_by="meter")',
        'within="meter"',
        "belief({})",
    ),
    "a set of public columns": ('belief(public={"day"})', "public=['day']", "belief({})"),
    "an expression for a column": (
        'belief(order_by=pl.col("day"))',
        'order_by="day"',
        "belief({})",
    ),
    "hours in words": (
        'belief(order_by="at", step="2 hours")',
        'step="2h"',
        'belief(order_by="at", {})',
    ),
    "seconds for times": (
        'pf.protect(frame, belief(order_by="at", step=900))',
        'step="15m"',
        'pf.protect(frame, belief(order_by="at", {}))',
    ),
    "a float for a step": ("belief(step=1.0)", "step=1", "belief({})"),
    "months": ('belief(step="1mo")', "step=1", "belief({})"),
    "no domain": ('pf.Secret("level")', 'pf.Secret("level", domain=[0, 1, 2, 3])', "{}"),
    "a range in words": (
        'pf.Secret("level", domain="0-9")',
        "domain=pf.Interval(0, 9)",
        'pf.Secret("level", {})',
    ),
    "a set of values": (
        'pf.Secret("level", domain={0, 1})',
        "domain=sorted(values)",
        '(lambda values: pf.Secret("level", {}))({0, 1})',
    ),
    "one number": (
        'pf.Secret("level", domain=10)',
        "domain=pf.Interval(0, 10)",
        'pf.Secret("level", {})',
    ),
    "a column of the rows": (
        'pf.Secret("level", domain=frame["level"])',
        "domain=[0, 1, 2, 3]",
        'pf.Secret("level", {})',
    ),
    "None among the values": (
        'pf.Secret("level", [0, 1, None])',
        "missing=",
        'pf.Secret("level", [0, 1], missing=1)',
    ),
    "bounds of a secret": (
        'pf.Secret("level", bounds=(0, 10))',
        "domain=pf.Interval(0, 10)",
        'pf.Secret("level", {})',
    ),
    "one end": ("pf.Interval(9)", "pf.Interval(0, 10)", "{}"),
    "names of ends": ("pf.Interval(lower=0, high=9)", "low=0", "pf.Interval({}, high=9)"),
    "no classes": ("pf.Bins([0, 1, 5])", "pf.Bins([0, 1, 5], values=[0.5, 3])", "{}"),
    "the column of probabilities": (
        "pf.Table(columns)",
        "pf.Table({'level': table['level'], 'probability': table['prob']})",
        "(lambda table: {})(columns)",
    ),
    "the column of probabilities of a frame": (
        "(lambda frame: pf.Table(frame))(pl.DataFrame(columns))",
        'pf.Table(frame.rename({"prob": "probability"}))',
        "(lambda frame: {})(pl.DataFrame(columns))",
    ),
    "a typo in it": (
        '(lambda frame: pf.Table(frame))(pl.DataFrame({"a": [0, 1], "probabilty": [0.5, 0.5]}))',
        'frame.rename({"probabilty": "probability"})',
        '(lambda frame: {})(pl.DataFrame({"a": [0, 1], "probabilty": [0.5, 0.5]}))',
    ),
    "a secret called otherwise than in the table": (
        'pf.Scenario(pf.Secret("levle", [0, 1]), pf.Table({"level": [0, 1], "probability": [0.5, 0.5]}))',
        "'level'",
        'pf.Scenario(pf.Secret({}, [0, 1]), pf.Table({"level": [0, 1], "probability": [0.5, 0.5]}))',
    ),
    "a name in the public API": ("pf.Secrt", "pf.Secret", "{}"),
    "a noise in the public API": ("pf.laplace", "pf.Laplace", "{}"),
    "a query in the public API": (
        'pf.private_sum(frame, "level")',
        'pf.protect(frame, scenario).private_sum("level")',
        "{}",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_parts(name):
    """What is wrong with a scenario or its parts is answered with the part that was probably meant."""
    check(*MADE[name], names())


def foreign(module, name, **methods):
    """Return a value of a class that looks like one of a library that is not installed."""
    kind = types.new_class(
        name, exec_body=lambda body: body.update({"__module__": module, **methods})
    )
    return kind()


TABLES = {
    "Dask": (
        lambda _: foreign("dask.dataframe.core", "DataFrame", compute=lambda _: ROWS.to_arrow()),
        "pf.protect(frame.compute(), scenario)",
    ),
    "Narwhals": (
        lambda _: foreign("narwhals.dataframe", "LazyFrame", to_native=lambda _: ROWS.lazy()),
        "pf.protect(frame.to_native(), scenario)",
    ),
    "a series of pandas": (
        lambda _: foreign("pandas.core.series", "Series", to_frame=lambda _: ROWS),
        "pf.protect(frame.to_frame(), scenario)",
    ),
    "DuckDB": (
        lambda _: foreign("duckdb", "DuckDBPyRelation", pl=lambda _: ROWS),
        "pf.protect(frame.pl(), scenario)",
    ),
    "new DuckDB": (
        lambda _: foreign("_duckdb", "DuckDBPyRelation", pl=lambda _: ROWS),
        "pf.protect(frame.pl(), scenario)",
    ),
    "DataFusion": (
        lambda _: foreign("datafusion.dataframe", "DataFrame", to_polars=lambda _: ROWS),
        "pf.protect(frame.to_polars(), scenario)",
    ),
    "Spark": (
        lambda _: foreign(
            "pyspark.sql.classic.dataframe", "DataFrame", toArrow=lambda _: ROWS.to_arrow()
        ),
        "pf.protect(pl.from_arrow(frame.toArrow()), scenario)",
    ),
    "Arrow dataset": (
        lambda _: pa.dataset.dataset(ROWS.to_arrow()),
        "pf.protect(pl.scan_pyarrow_dataset(frame), scenario)",
    ),
    "list of rows": (lambda _: ROWS.to_dicts(), "pf.protect(pl.DataFrame(frame), scenario)"),
    "columns": (
        lambda _: ROWS.to_dict(as_series=False),
        "pf.protect(pl.DataFrame(frame), scenario)",
    ),
    "groups": (
        lambda _: ROWS.lazy().group_by("day"),
        'pf.protect(frame, scenario).group_by("day")',
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_others(name, monkeypatch):
    """What is no Polars frame is answered with how it becomes one, without importing where it comes from."""
    make, remedy = TABLES[name]
    frame = make(monkeypatch)
    batch = check(
        "pf.protect(frame, scenario)", remedy, "True", names(frame=frame, scenario=scenario())
    )
    assert batch
    given = ROWS if name == "groups" else make(monkeypatch)
    known = names(frame=given, scenario=scenario(public=["region", "day"]))
    assert run(remedy, known).private_sum("level").release(epsilon=1.0).frame.height


@pytest.mark.parametrize(
    ("ending", "write"),
    [("parquet", "write_parquet"), ("csv", "write_csv"), ("ndjson", "write_ndjson")],
)
def test_files(ending, write, tmp_path):
    """A path is answered with the function of Polars that scans such files."""
    path = tmp_path / f"rows.{ending}"
    getattr(ROWS.select("meter", "hour", "region", "level"), write)(path)
    known = names(scenario=scenario(public=["region"]))
    for frame in (path, str(path)):
        remedy = f"pf.protect(pl.scan_{ending}(frame), scenario)"
        check(
            "pf.protect(frame, scenario)",
            remedy,
            '{}.private_sum("level").plan(pf.Pure(1.0))',
            known | {"frame": frame},
        )


def test_a_series_and_a_forgotten_protect():
    """`.puffer` of a Series says how it becomes a frame, and queries of `.puffer` say that protect comes first."""
    secret = pf.Scenario(pf.Secret("level", [0, 1, 2, 3]), pf.Independent())
    known = names(series=ROWS["level"], scenario=secret)
    check(
        "series.puffer.protect(scenario)",
        "frame.to_frame()",
        "(lambda frame: pf.protect({}, scenario))(series)",
        known,
    )
    remedy = 'frame.puffer.protect(scenario).private_sum("level")'
    check('frame.puffer.private_sum("level")', remedy, "{}", known)
    check("frame.puffer.release(epsilon=1.0)", "frame.puffer.protect(scenario)", "{}", known)


def ways(*kinds):
    """Return the ways out of some tables, each once, with a name that leads there."""
    found = {}
    for kind in kinds:
        for name, way in habits.ATTRIBUTES[kind].items():
            found.setdefault(way, (kind, name))
    return [(kind, name, way) for way, (kind, name) in found.items()]


@pytest.mark.parametrize(
    ("kind", "name", "way"), thinned(ways("Batch", "Plan", "Release", "Puffer"), 0.21, unpack=True)
)
def test_every_way_out_can_be_typed(kind, name, way, tmp_path, monkeypatch):
    """Each entry of the tables of attributes is code that runs."""
    monkeypatch.chdir(tmp_path)
    code, known = typed(way), names(others=pl.DataFrame({"meter": [1, 2], "size": [3, 4]}))
    batch, asked = known["batch"], known["batch"].private_sum("level")
    if "covariance" in code:
        both = known["batch"] = of_two_columns()
        known |= {"frame": both.request.frame, "scenario": both.request.scenario}
    known |= {"plan": asked.plan(pf.Pure(1.0)), "release": asked.release(epsilon=1.0)}
    monkeypatch.setattr(
        pl.DataFrame, "to_pandas", pl.DataFrame.to_dicts
    )  # pandas need not be installed
    if code.startswith((".release", ".plan")):
        grouped = (
            known["batch"].group_by("day", "region").private_sum("level")
            if "pivot" in code
            else asked
        )
        code, known = f"batch{code}", known | {"batch": grouped}
    elif not code.startswith(("pf.", "batch.", "plan.", "release.", "frame.", "print(")):
        code = f"batch.{code.removeprefix('.')}"
    if code.startswith("pf.protect(frame.rename"):
        known["frame"] = ROWS.rename({"level2": "old"})
    if kind == "Release" and "pivot" in code:
        known["release"] = batch.group_by("day", "region").private_sum("level").release(epsilon=1.0)
    assert run(code, known) is not None or code.startswith("print(")
    value = {
        "Batch": asked,
        "Plan": known["plan"],
        "Release": known["release"],
        "Puffer": ROWS.puffer,
    }[kind]
    assert way in str(_failure(value, name))


def _failure(value, name):
    with pytest.raises(pf.UsageError) as caught:
        _ = value["x"] if name == "[…]" else len(value) if name == "len()" else getattr(value, name)
    return caught.value


def of_two_columns():
    secret = [pf.Secret("hours", domain=[0, 1]), pf.Secret("wage", domain=[0, 1])]
    return pf.protect(
        pl.DataFrame({"hours": [0, 1], "wage": [1, 0]}), pf.Scenario(secret, pf.Independent())
    )


@pytest.mark.parametrize("example", habits.EXAMPLES.values())
def test_every_example_can_be_typed(example, tmp_path, monkeypatch):
    """The calls that are shown where arguments are missing run."""
    monkeypatch.chdir(tmp_path)
    known = names(ledger=pf.Ledger("other.db"))
    code, known["batch"] = typed(example), known["asked"]
    if "covariance" in code:
        known["batch"] = of_two_columns()
    elif "private_local" in code:  # which stands alone
        known["batch"] = pf.protect(ROWS, scenario())
    assert (
        run(f"batch.{code}" if code.startswith(("private_", "plan(")) else code, known) is not None
    )


def test_no_way_out_repeats_what_is_there():
    """No table speaks of a name that exists: it would never be shown."""
    for kind, value in {"Batch": pf.Batch, "Plan": pf.Plan, "Release": pf.Release}.items():
        assert not [name for name in habits.ATTRIBUTES[kind] if hasattr(value, name)]
        fields = set(getattr(value, "__dataclass_fields__", ()))
        assert not fields & set(habits.ATTRIBUTES[kind])


def test_messages_hold_no_value_of_the_rows():
    """Whatever is typed by mistake, no value of the rows is in the answer."""
    marked = ROWS.with_columns(pl.lit(987654321).alias("level"), pl.lit("XYZZY").alias("region"))
    known = names(
        frame=marked,
        batch=pf.protect(marked, scenario()),
        asked=pf.protect(marked, scenario()).private_sum("level"),
    )
    for wrong, *_ in (*COLUMNS.values(), *CALLS.values()):
        with pytest.raises(pf.PufferflowError) as caught:
            run(wrong, known)
        assert "987654321" not in str(caught.value)
        assert "XYZZY" not in str(caught.value)


def test_nothing_is_read_to_answer(tmp_path):
    """A file that is a path of nothing is not looked for, and a lazy frame is not collected."""
    check(
        "pf.protect(frame, scenario)",
        "pl.scan_parquet(frame)",
        "True",
        names(frame=Path(tmp_path / "none.parquet")),
    )

    def stop(_):
        raise AssertionError

    lazy = ROWS.lazy().map_batches(stop, schema=ROWS.schema)
    with pytest.raises(pf.UsageError, match="'level'"):
        pf.protect(lazy, scenario()).private_sum("levl")
