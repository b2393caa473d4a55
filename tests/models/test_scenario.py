"""Scenarios: parts that go together, plain words, a fingerprint that does not move, and a way through JSON."""

import ast
import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

CHAIN = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
SECRET = pf.Secret("level", domain=[0, 1])


def _scenario(**changes):
    parts = {
        "secret": SECRET,
        "prior": CHAIN,
        "order_by": "hour",
        "step": "1h",
        "within": "meter",
        "public": ["day"],
    }
    return pf.Scenario(**{**parts, **changes})


def test_public_columns_include_what_orders_and_groups():
    """order_by and within are public; the rest is named."""
    assert _scenario().public == ("meter", "hour", "day")
    assert _scenario(within=["house", "meter"]).within == ("house", "meter")


def test_it_says_in_plain_words_what_is_hidden():
    """describe names secret, prior, independence, order and public columns."""
    text = _scenario(prior=[CHAIN, pf.AnyCorrelation()]).describe()
    for part in (
        "'level'",
        "Markov chain of 2 states",
        "any way",
        "'meter'",
        "1h",
        "independent",
        "'day'",
    ):
        assert part in text
    assert "Presence" not in text
    assert (
        "which rows there are"
        not in pf.Scenario(secret=pf.Presence("person"), prior=pf.Independent()).describe()
    )


def test_equal_scenarios_share_a_fingerprint_and_others_do_not():
    """The fingerprint depends on every part, and not on how a part was written."""
    same = _scenario(step=timedelta(hours=1), prior=[pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])])
    assert same.fingerprint == _scenario().fingerprint
    others = [
        _scenario(step="30m"),
        _scenario(public=[]),
        _scenario(within="house"),
        _scenario(order_by="day"),
        _scenario(secret=pf.Secret("level", domain=[0, 1], missing=1)),
        _scenario(secret=pf.Initial("level", domain=[0, 1])),
        _scenario(prior=pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial="free")),
        _scenario(prior=[CHAIN, pf.AnyCorrelation()]),
    ]
    assert len({scenario.fingerprint for scenario in [same, *others]}) == 1 + len(others)


@pytest.mark.slow
def test_the_fingerprint_is_the_same_in_every_process():
    """A new interpreter with another hash seed gives the text that this version has always given."""
    code = (
        "import pufferflow as pf; print(pf.Scenario(secret=pf.Secret('level', domain=[0, 1]),"
        "prior=pf.MarkovChain([[.9, .1], [.2, .8]]), order_by='hour', step='1h', within='meter',"
        "public=['day']).fingerprint)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found == _scenario().fingerprint == "pf1-492a055795008f3aff531d701ea9c55a"


STORED = [
    _scenario(
        prior=[
            pf.AnyCorrelation(),
            pf.Independent(),
            pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]),
        ]
    ),
    _scenario(prior=pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]])),
    pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 1)), pf.GaussianPrior(pf.AR1(0.5)), order_by="t"
    ),
    pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 1)),
        pf.GaussianPrior(pf.Exchangeable(0.5)),
        within="family",
    ),
    pf.Scenario(
        pf.Derived("ill"),
        pf.Table({"ill": ["no", "yes"], "bmi": [0, 1], "probability": [0.9, 0.1]}),
    ),
    pf.Scenario(pf.Presence("person"), pf.Independent()),
]


@pytest.mark.slow
def test_a_process_that_has_made_nothing_reads_every_kind():
    """Stored scenarios, guarantees and noises are read back, whichever of their modules were loaded before."""
    guarantees = [
        pf.Gdp(0.5),
        pf.Zcdp(0.1),
        pf.TradeOff(0.5, 1e-6, 0.2),
        pf.ApproxRenyi(4, 0.3, 1e-3),
    ]
    code = (
        "import json, sys, pufferflow as pf\nstored = json.load(sys.stdin)\n"
        "print([pf.Scenario.from_json(text).fingerprint for text in stored[0]])\n"
        "print([pf.Guarantee.from_json(text) for text in stored[1]])\n"
        "print([pf.Noise.named(name).__name__ for name in stored[2]])\n"
        "print(sorted(pf.Prior.kinds))"
    )
    noises = ["Laplace", "Gaussian", "GeneralizedCauchy", "Staircase"]
    stored = [[one.to_json() for one in STORED], [one.to_json() for one in guarantees], noises]
    command = [sys.executable, "-c", code]
    out = subprocess.run(
        command, input=json.dumps(stored), capture_output=True, text=True, check=True
    ).stdout
    public = [getattr(pf, name) for name in dir(pf)]
    kinds = {one.kind for one in public if isinstance(one, type) and issubclass(one, pf.Prior)} - {
        ""
    }
    own = [str([one.fingerprint for one in STORED]), str(guarantees), str(noises)]
    assert out.splitlines()[:3] == own
    assert kinds <= set(ast.literal_eval(out.splitlines()[3]))


EVENING = datetime(2026, 1, 1, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("step", "start", "kept", "position"),
    [
        ("1h", "2026-01-01T18:30", EVENING, 490914.5),
        ("1h", "2026-01-01T20:30+02:00", EVENING, 490914.5),
        ("1h", EVENING.replace(tzinfo=None), EVENING, 490914.5),
        ("1h", EVENING.astimezone(timezone(timedelta(hours=-5))), EVENING, 490914.5),
        ("1d", date(1970, 1, 3), datetime(1970, 1, 3, tzinfo=UTC), 2.0),
        ("1d", "1969-12-31", datetime(1969, 12, 31, tzinfo=UTC), -1.0),
        (
            "1ns",
            "2026-01-01T18:30:00.000001",
            EVENING.replace(microsecond=1),
            1767292200000001000.0,
        ),
        (1, 5, 5, 5.0),
        (2, 5.0, 5, 2.5),
        (1, -0.5, -0.5, -0.5),
        (4, Fraction(1, 2), 0.5, 0.125),
        (1, Decimal(7), 7, 7.0),
        (1, np.int64(7), 7, 7.0),
        (3600 * 10**9, 1767292200000000001, 1767292200000000001, 490914.5),
        (1, None, 0, 0.0),
        (1, -0.0, 0, 0.0),
    ],
    ids=str,
)
def test_sequences_begin_where_it_is_said(step, start, kept, position):
    """A start is kept as a number or a time in UTC, counted in steps, and comes back from JSON."""
    scenario = _scenario(step=step, start=start)
    assert (scenario.start, scenario.start_position, scenario.start_known) == (kept, position, True)
    assert type(scenario.start) is type(kept)
    again = pf.Scenario.from_json(scenario.to_json())
    assert (again, again.fingerprint) == (scenario, scenario.fingerprint)


def test_a_start_that_nobody_named():
    """Times begin nowhere in particular, and say so; neither fingerprint, JSON nor words mention a start."""
    scenario = _scenario()
    assert (scenario.start, scenario.start_position, scenario.start_known) == (None, 0.0, False)
    for silent in (scenario, _scenario(step=1), _scenario(step=1, start=0)):
        assert '"start"' not in silent.to_json()
        assert "began" not in silent.describe()
    assert _scenario(step=1, start=0).fingerprint == _scenario(step=1).fingerprint
    starts = ["2026-01-01", "2026-01-02", "1970-01-01", None]
    assert len({_scenario(start=start).fingerprint for start in starts}) == 4
    assert (
        "began where 'hour' is 2026-01-01 00:00:00 UTC." in _scenario(start="2026-01-01").describe()
    )
    assert "began where 'hour' is 5." in _scenario(step=1, start=5).describe()


def test_a_date_begins_columns_of_dates_only():
    """A time of day or a duration has no date to begin at."""
    for dtype in (pl.Date, pl.Datetime("ns"), pl.Datetime("ms", "Europe/Berlin")):
        _scenario(start="2026-01-01").check_schema(pl.Schema({**SCHEMA, "hour": dtype}))
    for dtype in (pl.Time, pl.Duration("us")):
        _scenario().check_schema(pl.Schema({**SCHEMA, "hour": dtype}))
        with pytest.raises(pf.UsageError, match="begin at a date"):
            _scenario(start="2026-01-01").check_schema(pl.Schema({**SCHEMA, "hour": dtype}))


def test_json_gives_the_scenario_back():
    """to_json and from_json are inverse, and keep the fingerprint."""
    for scenario in (
        _scenario(),
        _scenario(prior=[pf.Independent(), pf.AnyCorrelation()], order_by=None, step=1),
        pf.Scenario(secret=pf.Presence("person"), prior=pf.Independent()),
        _scenario(
            prior=pf.MarkovChain([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.4, 0.6]]], period=2)
        ),
        _scenario(prior=pf.MarkovChain([[[0.9, 0.1], [0.2, 0.8]]] * 2, initial="free")),
    ):
        again = pf.Scenario.from_json(scenario.to_json())
        assert again == scenario
        assert again.fingerprint == scenario.fingerprint


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"version": 1}', '{"version": 99}', "null", '{"version": 1, "secret": 3}'],
)
def test_other_json_is_a_misuse(text):
    """Text that no scenario wrote is named as such."""
    with pytest.raises(pf.UsageError):
        pf.Scenario.from_json(text)


BOTH = pf.Scenario(
    [pf.Secret("a", [0, 1], missing=1), pf.Secret("b", pf.Interval(2, 5))], pf.Independent()
)
DAMAGED = {
    "another name": lambda secret: secret.update(column="level"),
    "another missing tuple": lambda secret: secret.update(missing="a = 0, b = 5.0"),
    "no tuple for missing ones": lambda secret: secret.update(missing="zoe"),
    "missing outside a list": lambda secret: secret["domain"].update(missing=[7, 2.0]),
    "missing outside an interval": lambda secret: secret["domain"].update(missing=[1, 9.0]),
    "missing of one column": lambda secret: secret["domain"].update(missing=[1]),
    "missing of no kind": lambda secret: secret["domain"].update(missing=[[], {}]),
    "one column twice": lambda secret: secret["domain"].update(columns=["a", "a"]),
    "a column that is a number": lambda secret: secret["domain"].update(columns=["a", 3]),
    "a column that is a list": lambda secret: secret["domain"].update(columns=["a", []]),
    "three columns": lambda secret: secret["domain"].update(columns=["a", "b", "c"]),
    "a domain of tuples in it": lambda secret: secret["domain"]["domains"].__setitem__(
        0, json.loads(json.dumps(secret["domain"]))
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_tuples_of_columns_come_back_as_they_were_written_or_not_at_all(name):
    """A text that was changed by hand names no other columns, and reads null as no value outside a domain."""
    stored = json.loads(BOTH.to_json())
    assert pf.Scenario.from_json(json.dumps(stored)) == BOTH
    DAMAGED[name](stored["secret"])
    with pytest.raises(pf.UsageError):
        pf.Scenario.from_json(json.dumps(stored))


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": "level"},
        {"prior": []},
        {"prior": None},
        {"prior": "markov"},
        {"prior": [CHAIN, 3]},
        {"order_by": None},
        {"order_by": 3},
        {"step": 0},
        {"step": "hourly"},
        {"step": -1},
        {"step": 1.5},
        {"step": "0h"},
        {"within": 3},
        {"start": 3},
        {"start": True},
        {"start": "monday"},
        {"start": ""},
        {"start": "2026-13-01"},
        {"start": "2026-01-01T00:00:00.0000001"},
        {"start": "0001-01-01T00:00+14:00"},
        {"start": timedelta(hours=1)},
        {"start": float("nan")},
        {"start": float("nan"), "step": 1},
        {"start": 10**400, "step": 1},
        {"start": False, "step": 1},
        {"start": "0", "step": 1},
        {"start": date(2026, 1, 1), "step": 1},
        {"start": 0, "step": 1, "order_by": None, "prior": pf.Independent()},
        {"start": "2026-01-01", "order_by": None, "prior": pf.Independent()},
        {"public": ["level"]},
        {"within": "level"},
        {"secret": pf.Secret("level", domain=[0, 1, 2])},
        {"secret": pf.Secret("level", domain=pf.Interval(0, 1))},
        {"secret": pf.Presence("meter")},
        {"secret": pf.Derived("class")},
    ],
    ids=str,
)
def test_parts_that_do_not_go_together(changes):
    """A scenario that makes no sense is refused when it is made, in at most five lines."""
    with pytest.raises(pf.UsageError) as caught:
        _scenario(**changes)
    assert len(str(caught.value).splitlines()) <= 5


SCHEMA = {"meter": pl.Int64, "hour": pl.Datetime("us"), "day": pl.Date, "level": pl.Int8}


def test_a_frame_is_checked_by_its_schema_alone():
    """Any numeric type is taken; a missing column or a wrong type is named."""
    for dtype in (pl.Int8, pl.UInt64, pl.Float32, pl.Boolean, pl.Decimal(10, 2)):
        _scenario().check_schema(pl.Schema({**SCHEMA, "level": dtype}))
    for column in SCHEMA:
        with pytest.raises(pf.UsageError, match=column):
            _scenario().check_schema(pl.Schema({k: v for k, v in SCHEMA.items() if k != column}))
    for changed in (
        {"level": pl.String},
        {"hour": pl.Int64},
        {"level": pl.List(pl.Int64)},
        {"hour": pl.String},
    ):
        with pytest.raises(pf.UsageError):
            _scenario().check_schema(pl.Schema({**SCHEMA, **changed}))
    labels = _scenario(secret=pf.Secret("level", domain=["a", "b"]))
    labels.check_schema(pl.Schema({**SCHEMA, "level": pl.Categorical()}))
    labels.check_schema(pl.Schema({**SCHEMA, "level": pl.Enum(["a", "b"])}))
    with pytest.raises(pf.UsageError):
        labels.check_schema(pl.Schema(SCHEMA))


def test_a_prior_fitted_on_the_private_frame_is_refused(tmp_path):
    """The same frame, or a scan of the same file, is noticed before any row is read; another frame is not."""
    rows = pl.DataFrame({"meter": [1] * 50, "hour": range(50), "level": [0, 0, 1, 1, 0] * 10})
    rows.write_parquet(tmp_path / "private.parquet")
    rows.write_parquet(tmp_path / "public.parquet")

    def fitted(frame):
        prior = pf.MarkovChain.fit(pf.Reference("a meter", frame), "level", "hour", domain=[0, 1])
        return pf.Scenario(secret=SECRET, prior=prior, order_by="hour", within="meter")

    private = pl.scan_parquet(tmp_path / "private.parquet")
    for reference, frame in (
        (rows, rows),
        (private, private),
        (private, private.filter(pl.col("hour") > 3)),
    ):
        with pytest.raises(pf.UsageError, match="private frame"):
            fitted(reference).check_frame(frame)
    fitted(pl.scan_parquet(tmp_path / "public.parquet")).check_frame(private)
    with pytest.raises(pf.UsageError):
        fitted(rows).check_frame("private.parquet")


@pytest.mark.parametrize(
    "make",
    [
        lambda: pf.MarkovChain([[0.9, 0.2], [0.2, 0.8]]),
        lambda: pf.MarkovChain([[1.1, -0.1], [0.2, 0.8]]),
        lambda: pf.MarkovChain([[0.5, 0.5]]),
        lambda: pf.MarkovChain([0.5, 0.5]),
        lambda: pf.MarkovChain([]),
        lambda: pf.MarkovChain([["a", "b"], ["c", "d"]]),
        lambda: pf.MarkovChain([[float("nan"), 0.5], [0.2, 0.8]]),
        lambda: pf.MarkovChain([[1.0, 0.0], [0.0, 1.0]]),
        lambda: pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial="random"),
        lambda: pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial=[0.5, 0.6]),
        lambda: pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial=[1.0]),
        lambda: pf.MarkovChain([[[0.9, 0.1], [0.2, 0.8]]] * 3, period=2),
    ],
)
def test_matrices_that_are_no_chain(make):
    """Rows that do not add up, wrong shapes, and starts that say nothing are named when the chain is declared."""
    with pytest.raises(pf.UsageError):
        make()


def test_zero_transitions_are_priced_or_refused():
    """An impossible step back makes the past certain: where the loss stays finite it is given, never NaN."""
    one_way = pf.MarkovChain([[0.9, 0.1], [0.0, 1.0]], initial=[1.0, 0.0])
    scenario = pf.Scenario(secret=SECRET, prior=one_way, order_by="hour")
    found = pf.calibrate(pf.laws(scenario, pf.Statistic.total(6)), pf.Pure(1.0))
    assert 0 < found.noise.scale <= 6
    with pytest.raises(pf.Refused):
        pf.calibrate(
            pf.laws(
                _scenario(prior=pf.MarkovChain([[1.0, 0.0], [0.0, 1.0]], initial=[0.5, 0.5])),
                pf.Statistic.total(10**6),
            ),
            pf.Pure(1.0),
            bound=pf.Quilt(approximate=True),
        )


def test_errors_name_the_type_and_not_the_data():
    """What was given by mistake, a column of private rows say, does not appear in the message."""
    private = pl.Series("patient", ["Ann", "Bob"])
    for make in (
        lambda: pf.Secret(private, domain=[0, 1]),
        lambda: pf.Presence(private),
        lambda: pf.Statistic([1], column=private),
        lambda: pf.Statistic.total(private),
        lambda: pf.Scenario(secret=SECRET, prior=CHAIN, order_by=private),
        lambda: pf.Scenario(secret=SECRET, prior=CHAIN, order_by="hour", public=[private]),
        lambda: pf.Secret("x", domain=[0, 1], missing=private),
        lambda: pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], period=private),
    ):
        with pytest.raises(pf.UsageError) as caught:
            make()
        assert "Ann" not in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 5


def test_equal_numbers_are_one_domain():
    """Whole numbers as ints or floats, and both zeros, give one fingerprint."""
    prints = {
        _scenario(secret=pf.Secret("level", domain=domain)).fingerprint
        for domain in ([0, 1], [0.0, 1.0])
    }
    assert len(prints) == 1
    assert pf.Interval(0.0, 1).stored() == pf.Interval(-0.0, 1).stored()


def test_a_period_is_the_number_of_matrices():
    """Two matrices have the period 2; anything else is a misuse, and what is kept survives JSON."""
    two = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.4, 0.6]]]
    for period in (1, True, 3, 2.0, "2"):
        with pytest.raises(pf.UsageError):
            pf.MarkovChain(two, period=period)
    with pytest.raises(pf.UsageError):
        pf.MarkovChain([[10**400, 0.0], [0.0, 1.0]])
