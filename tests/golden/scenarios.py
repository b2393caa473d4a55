"""Some sixty scenarios, one for every kind of prior and secret and its variants, over one small table of rows."""

import datetime as dt
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import pufferflow as pf

HOURS = 4
ON, LEVEL = [0, 1], [0, 1, 2, 3]
SWITCHED, MIXING = [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]
STEADY = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
CLIMBING = [[0.8, 0.2, 0.0, 0.0], [0.1, 0.7, 0.2, 0.0], [0.0, 0.2, 0.7, 0.1], [0.0, 0.0, 0.3, 0.7]]
THREE = [[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]]
KINDS = {"on": [0, 0, 1, 1], "kind": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]}
LEVELS = {
    "level": [0, 1, 2, 3, 0, 1, 2, 3],
    "season": ["cold"] * 4 + ["warm"] * 4,
    "probability": [0.05, 0.1, 0.15, 0.2, 0.2, 0.15, 0.1, 0.05],
}
BINS = pf.Bins([0, 2, 5, 10], values=[1, 3, 7.5])
PLACES = {"order_by": "hour", "within": "meter", "public": ["day", "district"]}
TIMES = {"order_by": "at", "step": "1h", "within": "meter", "public": ["hour", "day", "district"]}
LOOSE = {"within": "meter", "public": ["hour", "day", "district"]}


def rows() -> pl.LazyFrame:
    """Return three meters for four hours; one misses an hour."""
    steps = [(meter, hour) for meter in range(3) for hour in range(HOURS) if _is_there(meter, hour)]
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return pl.LazyFrame(
        {
            "meter": [f"m{meter}" for meter, _ in steps],
            "hour": [hour for _, hour in steps],
            "at": [begin + dt.timedelta(hours=hour) for _, hour in steps],
            "day": [hour // 2 for _, hour in steps],
            "district": ["north" if meter < 2 else "south" for meter, _ in steps],
            "on": [(meter + hour // 2) % 2 for meter, hour in steps],
            "level": [(2 * meter + hour) % 4 for meter, hour in steps],
            "power": [
                None if hour == 3 else (meter * 3.7 + hour * 1.3) % 11 - 0.5
                for meter, hour in steps
            ],
            "label": ["abc"[(meter + hour // 2) % 3] for meter, hour in steps],
        }
    )


def _is_there(meter: int, hour: int) -> bool:
    return meter < 2 or hour != 2


class Question(NamedTuple):
    """What can be asked of a column: a property, a function that is cut off, and where classes end if it needs some."""

    column: str
    property: pl.Expr
    cut: pl.Expr
    bins: list[float] | None = None


QUESTIONS = {
    "on": Question("on", pl.col("on") == 1, pl.col("on").clip(0, 1) * 2),
    "level": Question("level", pl.col("level") >= 2, pl.col("level").clip(0, 2) * 10),
    "power": Question(
        "power", pl.col("power") > 4, pl.col("power").clip(1, 6) + 0.25, [0, 2, 5, 10]
    ),
    "bins": Question("power", pl.col("power") > 4, pl.col("power").clip(1, 6) + 0.25),
    "label": Question(
        "label", pl.col("label") == "b", pl.when(pl.col("label") == "b").then(5).otherwise(0)
    ),
}


class ScenarioCase(NamedTuple):
    """A scenario, the question for it by name, and which of the rows there are."""

    make: Callable[[], pf.Scenario]
    question: str
    rows_there: pl.Expr | None = None

    @property
    def rows(self) -> pl.LazyFrame:
        """The private rows."""
        return rows() if self.rows_there is None else rows().filter(self.rows_there)


def draws(value: Any, row: Any, statistic: Any, count: int, rng: np.random.Generator) -> Any:
    """Return answers as a simulation would give them."""
    del row
    return rng.normal(0.4 * float(value), 1.0, (count, len(statistic.weights)))


def _fitted(**options: Any) -> Any:
    survey = pl.DataFrame(
        {"house": [0] * 60 + [1] * 60, "t": [*range(60)] * 2, "on": [0, 0, 1, 0, 1, 1] * 20}
    )
    return pf.MarkovChain.fit(
        pf.Reference("a survey", survey), "on", "t", "house", domain=ON, **options
    )


def _graded() -> pf.Prior:
    survey = pl.DataFrame({"level": [0, 1, 2, 3] * 8, "on": [0, 0, 1, 1, 0, 1, 1, 1] * 4})
    return pf.Empirical(pf.Reference("houses of 2020", survey), secret="level", released="on")


def _daily() -> list[list[list[float]]]:
    """Return a matrix for each hour of the day."""
    turns = [0.05 + 0.01 * abs(hour - 12) for hour in range(24)]
    return [[[1 - turn, turn], [2 * turn, 1 - 2 * turn]] for turn in turns]


def _falling(apart: Any) -> Any:
    return 1 / (1 + apart) ** 2


def _covariance(size: int) -> list[list[float]]:
    return [[2.0 if a == b else 1.0 / (1 + abs(a - b)) for b in range(size)] for a in range(size)]


ONE, FEW = pl.col("meter") == "m0", pl.col("hour") < 2
_on, _level = pf.Secret("on", domain=ON), pf.Secret("level", domain=LEVEL)
_power, _label = (
    pf.Secret("power", domain=pf.Interval(0, 10)),
    pf.Secret("label", domain=["a", "b", "c"]),
)
_chain = pf.MarkovChain(SWITCHED)


def _of(
    secret: Any, prior: Any, question: str, rows_there: pl.Expr | None = None, **parts: Any
) -> ScenarioCase:
    """Return a scenario that is made when it is used: refusals are recorded too."""

    def make() -> pf.Scenario:
        made = [one() if callable(one) else one for one in (secret, prior)]
        return pf.Scenario(made[0], made[1], **parts)

    return ScenarioCase(make, question, rows_there)


def _chains() -> dict[str, ScenarioCase]:
    return {
        "chain": _of(_on, _chain, "on", **PLACES),
        "chain, free": _of(_on, pf.MarkovChain(SWITCHED, initial="free"), "on", **PLACES),
        "chain, vector": _of(_on, pf.MarkovChain(MIXING, initial=[0.25, 0.75]), "on", **PLACES),
        "chain, vector, start": _of(
            _on, pf.MarkovChain(MIXING, initial=[0.25, 0.75]), "on", **PLACES, start=-2
        ),
        "chain of four": _of(_level, pf.MarkovChain(STEADY), "level", **PLACES),
        "chain, climbing": _of(_level, pf.MarkovChain(CLIMBING), "level", **PLACES),
        "chain of labels": _of(_label, pf.MarkovChain(THREE), "label", **PLACES),
        "chain of classes": _of(
            pf.Secret("power", domain=BINS), pf.MarkovChain(THREE), "bins", **PLACES
        ),
        "chain, two turns": _of(_on, pf.MarkovChain([SWITCHED, MIXING], period=2), "on", **PLACES),
        "chain, daily": _of(_on, lambda: pf.MarkovChain(_daily(), period=24), "on", **TIMES),
        "chain, every step": _of(
            _on, lambda: pf.MarkovChain(_daily(), initial="free"), "on", **PLACES, start=0
        ),
        "chain, times": _of(_on, _chain, "on", **TIMES),
        "chain, times, start": _of(
            _on, pf.MarkovChain(MIXING, initial=[0.5, 0.5]), "on", **TIMES, start="2023-12-31T20:00"
        ),
        "chain, half steps": _of(_on, _chain, "on", **{**TIMES, "step": "30m"}),
        "chain, two steps": _of(
            _on, _chain, "on", pl.col("hour") % 2 == 0, **{**PLACES, "step": 2}
        ),
        "chain, one sequence": _of(
            _on, _chain, "on", ONE, order_by="hour", public=["day", "district"]
        ),
        "chain, within two": _of(_on, _chain, "on", **{**PLACES, "within": ["district", "meter"]}),
        "chain, round": _of(_on, pf.MarkovChain([[0.0, 1.0], [1.0, 0.0]]), "on", **PLACES),
        "chain, adjacent": _of(
            pf.Secret("level", domain=LEVEL, pairs="adjacent"),
            pf.MarkovChain(STEADY),
            "level",
            **PLACES,
        ),
        "chain, pairs": _of(
            pf.Secret("level", domain=LEVEL, pairs=[(0, 3), (1, 2)]),
            pf.MarkovChain(CLIMBING),
            "level",
            **PLACES,
        ),
        "chain, closer, missing": _of(
            pf.Secret("level", domain=LEVEL, pairs=pf.WithinDistance(2), missing=1),
            pf.MarkovChain(STEADY),
            "level",
            **PLACES,
        ),
        "chains between": _of(
            _on,
            pf.MarkovChain.between([[0.8, 0.1], [0.2, 0.6]], [[0.9, 0.2], [0.4, 0.8]]),
            "on",
            **PLACES,
        ),
        "chains between, four": _of(
            _level,
            lambda: pf.MarkovChain.between(*(np.array(STEADY) + by for by in (-0.03, 0.03))),
            "level",
            **PLACES,
        ),
        "chain, fitted": _of(_on, _fitted, "on", **PLACES),
        "chains, fitted": _of(_on, lambda: _fitted(slack="confidence"), "on", **PLACES),
        "first of a chain": _of(
            pf.Initial("on", ON), pf.MarkovChain(MIXING, initial="free"), "on", **PLACES, start=0
        ),
        "first of a chain, vector": _of(
            pf.Initial("level", LEVEL),
            pf.MarkovChain(STEADY, initial=[0.4, 0.3, 0.2, 0.1]),
            "level",
            **PLACES,
            start=0,
        ),
    }


def _gaussians() -> dict[str, ScenarioCase]:
    def gaussian(covariance: Any, **options: Any) -> Callable[[], pf.Prior]:
        return lambda: pf.GaussianPrior(
            covariance() if callable(covariance) else covariance, **options
        )

    return {
        "gaussian, exchangeable": _of(_power, gaussian(pf.Exchangeable(0.3)), "power", **LOOSE),
        "gaussian, exchangeables": _of(
            _power, gaussian(pf.Exchangeable((0.1, 0.4))), "power", **LOOSE
        ),
        "gaussian, ar1": _of(
            _power, gaussian(pf.AR1(0.6), variance=4.0, mean=5.0), "power", **PLACES
        ),
        "gaussian, ar1 back": _of(_power, gaussian(pf.AR1(-0.5)), "power", **PLACES),
        "gaussian, ar1s": _of(_power, gaussian(pf.AR1((0.4, 0.6))), "power", **TIMES),
        "gaussian, kernel": _of(
            _power, gaussian(pf.Kernel([1.0, 0.5, 0.2, 0.1])), "power", **PLACES
        ),
        "gaussian, function": _of(_power, gaussian(lambda: pf.Kernel(_falling)), "power", **PLACES),
        "gaussian, matrix": _of(_power, gaussian(lambda: _covariance(2)), "power", FEW, **PLACES),
        "gaussian, classes": _of(
            pf.Secret("power", domain=BINS), gaussian(pf.AR1(0.5), variance=4.0), "bins", **PLACES
        ),
        "gaussian, list": _of(_level, gaussian(pf.Exchangeable(0.2)), "level", **LOOSE),
        "gaussian, first": _of(
            pf.Initial("power", pf.Interval(0, 10)), gaussian(pf.AR1(0.6)), "power", **PLACES
        ),
    }


def _hidden() -> dict[str, ScenarioCase]:
    two, four = [[0.9, 0.1], [0.3, 0.7]], [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]
    return {
        "class": _of(_on, pf.LatentClass([0.5, 0.5], two), "on", **LOOSE),
        "class of four": _of(_level, pf.LatentClass([0.3, 0.7], four), "level", **LOOSE),
        "class, derived": _of(
            pf.Derived("kind", ON, column="on", domain=ON),
            pf.LatentClass([0.4, 0.6], two),
            "on",
            **LOOSE,
        ),
        "table": _of(_on, lambda: pf.Table(KINDS), "on", **LOOSE),
        "table, shared": _of(_on, lambda: pf.Table(KINDS, shared="kind"), "on", **LOOSE),
        "table, derived": _of(pf.Derived("kind", ON), lambda: pf.Table(KINDS), "on", **LOOSE),
        "table, derived, shared": _of(
            pf.Derived("season", ["cold", "warm"]),
            lambda: pf.Table(LEVELS, shared="season"),
            "level",
            **LOOSE,
        ),
        "empirical": _of(_level, _graded, "on", **LOOSE),
        "empirical, derived": _of(pf.Derived("level", LEVEL), _graded, "on", **LOOSE),
        "simulator": _of(
            _on, pf.Simulator(draws, draws=4000, seed=1, exchangeable=True), "on", **LOOSE
        ),
        "simulator, derived": _of(
            pf.Derived("kind", ON, column="on", domain=ON),
            pf.Simulator(draws, draws=4000, seed=2),
            "on",
            **LOOSE,
        ),
    }


def _simple() -> dict[str, ScenarioCase]:
    free, public = pf.Independent(), ["meter", "hour", "day", "district"]
    return {
        "independent": _of(_level, free, "level", public=public),
        "independent, interval": _of(_power, free, "power", public=public),
        "independent, closer": _of(
            pf.Secret("power", domain=pf.Interval(0, 10), pairs=pf.WithinDistance(2.5), missing=3),
            free,
            "power",
            **LOOSE,
        ),
        "independent, classes": _of(pf.Secret("power", domain=BINS), free, "bins", **LOOSE),
        "independent, labels": _of(_label, free, "label", **LOOSE),
        "any": _of(_level, pf.AnyCorrelation(), "level", public=public),
        "any, within": _of(_level, pf.AnyCorrelation(), "level", **LOOSE),
        "any, interval": _of(_power, pf.AnyCorrelation(), "power", **LOOSE),
        "any, ordered": _of(_on, pf.AnyCorrelation(), "on", **TIMES),
        "diffusion": _of(
            pf.Initial("power", pf.Interval(0, 10)), pf.Diffusion(0.3), "power", **PLACES
        ),
        "diffusion, times": _of(
            pf.Initial("power", pf.Interval(0, 10)),
            pf.Diffusion(0.1),
            "power",
            **TIMES,
            start="2024-01-01",
        ),
        "weak": _of(_power, pf.WeaklyDependent(0.5), "power", **LOOSE),
        "weak, first": _of(pf.Initial("level", LEVEL), pf.WeaklyDependent(0.25), "level", **PLACES),
        "presence": _of(
            pf.Presence("meter", "on", ON, rows=HOURS),
            free,
            "on",
            public=["day", "hour", "district"],
        ),
        "presence, few": _of(
            pf.Presence("meter", "level", LEVEL, rows=5), free, "level", public=["day", "hour"]
        ),
        "presence, any": _of(
            pf.Presence("meter", "power", pf.Interval(0, 10)), pf.AnyCorrelation(), "power"
        ),
        "several chains": _of(
            _on, [_chain, pf.MarkovChain(MIXING, initial="free")], "on", **PLACES
        ),
        "several kinds": _of(
            _level,
            [pf.Independent(), pf.MarkovChain(STEADY), pf.LatentClass([0.5, 0.5], STEADY[:2])],
            "level",
            **PLACES,
        ),
        "several, any": _of(
            _power,
            [pf.GaussianPrior(pf.Exchangeable(0.2)), pf.AnyCorrelation(), pf.WeaklyDependent(1.0)],
            "power",
            **LOOSE,
        ),
    }


SCENARIOS: dict[str, ScenarioCase] = {**_chains(), **_gaussians(), **_hidden(), **_simple()}
NAMES = list(itertools.chain(SCENARIOS))
