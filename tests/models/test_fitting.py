"""Fitting chains to public references: what is counted, what is refused, and how wide the bounds are."""

import datetime as dt
import itertools

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

from pufferflow.core.errors import UsageError
from pufferflow.distributions.markov.chain import stationary
from pufferflow.models.domain import Bins, Interval
from pufferflow.models.fitting.markov import fit_chain
from pufferflow.models.fitting.sequences import count_steps, read_sequences
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.models.reference import Reference, digest_of
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret


def reference(**columns):
    return Reference("a study", pl.DataFrame(columns))


def messy(seed=0, sequences=5, rows=40):
    """Sequences with gaps and missing values, in no order."""
    rng = np.random.default_rng(seed)
    unit, time = np.repeat(np.arange(sequences), rows), np.tile(np.arange(rows), sequences) - 7
    kept = rng.permutation(len(unit))[: int(0.9 * len(unit))]
    states = [None if rng.random() < 0.1 else int(s) for s in rng.integers(0, 3, len(kept))]
    return {"unit": unit[kept].tolist(), "time": time[kept].tolist(), "state": states}


def counted(columns, period, states):
    """The transitions of sequences, one after the other."""
    found = np.zeros((period, states, states))
    values = {
        (u, t): s
        for u, t, s in zip(columns["unit"], columns["time"], columns["state"], strict=True)
    }
    for (unit, time), state in values.items():
        following = values.get((unit, time + 1))
        if state is not None and following is not None:
            found[time % period, state, following] += 1
    return found


@pytest.mark.parametrize(("period", "smoothing"), [(1, 0.5), (1, 2), (3, 0.5), (7, 1)])
def test_transitions_are_those_counted_one_after_the_other(period, smoothing):
    """Gaps, missing values and other sequences never make a transition, and phases follow the position."""
    columns = messy()
    fitted = fit_chain(
        reference(**columns),
        "state",
        "time",
        "unit",
        domain=[0, 1, 2],
        period=period,
        smoothing=smoothing,
    )
    counts = counted(columns, period, 3) + smoothing
    assert np.allclose(fitted.transitions, counts / counts.sum(axis=2, keepdims=True), rtol=1e-14)
    assert fitted.points == (0, 1, 2)
    assert fitted.provenance.rows == len(columns["unit"])


def test_what_is_left_out_is_said():
    """Notes count the rows without order or value, the gaps, and the values outside the domain."""
    table = {
        "unit": ["a", "a", "a", "a", "a", "b", "b", None, "b"],
        "time": [0, 1, 2, 3, 5, 0, 1, 2, None],
        "state": [0, 1, None, 9, 1, 0, 1, 0, 0],
    }
    fitted = fit_chain(reference(**table), "state", "time", "unit", domain=[0, 1])
    assert fitted.provenance.rows == 7
    assert set(fitted.provenance.notes) >= {
        "2 rows without order_by or within were left out",
        "1 rows without a value break their sequences",
        "1 gaps between rows were left out",
        "1 values outside the domain were read as the nearest",
        "less than 30 transitions reveal about 1 of 2 states",
        "there is no transition from 1 of 2 states: any state may follow, equally likely",
    }
    assert np.allclose(fitted.transitions, [[[0.5 / 3, 2.5 / 3], [0.5, 0.5]]])


HOURS = {
    "whole numbers": (lambda t: t, 1),
    "small numbers": (lambda t: pl.Series(t, dtype=pl.Int16), 1),
    "numbers by tens": (lambda t: [10 * x + 3 for x in t], 10),
    "fractions": (lambda t: [0.1 * x + 0.7 * x + 0.2 * x for x in t], 1),
    "datetimes": (lambda t: [dt.datetime(1970, 1, 1) + dt.timedelta(hours=x) for x in t], "1h"),  # noqa: DTZ001
    "late in the hour": (
        lambda t: [dt.datetime(1970, 1, 1, 0, 59) + dt.timedelta(hours=x) for x in t],  # noqa: DTZ001
        "60m",
    ),
    "with a time zone": (
        lambda t: pl.Series(
            [dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=x) for x in t]
        ).dt.convert_time_zone("Asia/Kolkata"),
        dt.timedelta(hours=1),
    ),
    "dates": (lambda t: [dt.date(1970, 1, 1) + dt.timedelta(days=x) for x in t], "1d"),
    "nanoseconds": (lambda t: pl.Series(t).cast(pl.Int64).cast(pl.Datetime("ns")), "1ns"),
}


@pytest.mark.parametrize("kind", HOURS)
def test_any_kind_of_order_gives_the_same_chain(kind):
    """Positions are moments in steps, from 0 or from 1970, for numbers and times of every type, before 0 too."""
    columns = messy(1)
    convert, step = HOURS[kind]
    other = {**columns, "time": convert(columns["time"])}
    plain, same = (
        fit_chain(
            Reference("r", pl.DataFrame(table, strict=False)),
            "state",
            "time",
            "unit",
            period=4,
            step=size,
        )
        for table, size in ((columns, 1), (other, step))
    )
    assert np.array_equal(plain.transitions, same.transitions)
    assert np.array_equal(plain.initial, same.initial)


@pytest.mark.parametrize(
    ("moments", "step", "positions"),
    [
        ([dt.datetime(1970, 1, 2, 3, 30), dt.datetime(1969, 12, 31, 23)], "1h", [27, -1]),  # noqa: DTZ001
        ([dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)], "1d", [2932896, -719162]),  # noqa: DTZ001
        ([dt.timedelta(days=3, hours=1), dt.timedelta(hours=-1)], "1d", [3, -1]),
        ([dt.time(3, 30), dt.time(0)], "30m", [7, 0]),
        ([7, -1], 5, [1, -1]),
        ([0.1 + 0.7 + 0.2, -0.5], 1, [1, -1]),
        ([2.999999, 3.000001], 1, [3, 3]),
    ],
)
def test_steps_are_counted_as_said(moments, step, positions):
    """A clock counts whole steps from 0 or from the start of 1970, rounding down."""
    counted_moments, clock = count_steps(pl.Series(moments), step)
    found = pl.DataFrame({"moment": counted_moments}).select(clock.positions(pl.col("moment")))
    assert found.to_series().to_list() == positions


def test_the_state_before_is_known_only_without_a_gap():
    """Transitions are told apart by the state before, and −1 stands where a gap or a missing value hides it."""
    frame = pl.DataFrame({"time": [0, 1, 2, 4, 5, 6, 7], "state": [0, 1, 0, 1, 1, 0, None]})
    counts = read_sequences(frame, "state", "time", []).counts
    found = zip(
        counts.before.tolist(), counts.here.tolist(), counts.following.tolist(), strict=True
    )
    assert sorted(found) == [(-1, 0, 1), (-1, 1, 1), (0, 1, 0), (1, 1, 0)]
    assert counts.times.tolist() == [1] * 4


@pytest.mark.parametrize(
    ("values", "domain", "places"),
    [
        (
            [0.0, 0.9, 1.0, 4.9, 5.0, -3, 99],
            Bins([0, 1, 5], values=[0.5, 3]),
            [0, 0, 1, 1, 1, 0, 1],
        ),
        (
            [0.0, 0.9, 1.0, 4.9, 5.0, -3, 99],
            Bins([1, 5], values=["low", "mid", "top"]),
            [0, 0, 1, 1, 2, 0, 2],
        ),
        ([0, 4, 5, 6, 11, -2, 10], [10, 0], [1, 1, 1, 0, 0, 1, 0]),
        (["b", "a", "x", None, "b", "b", "a"], ["b", "a"], [0, 1, None, None, 0, 0, 1]),
        ([3.5, 1.5, float("nan"), 2.5, 3.5, 1.5, 1.5], None, [2, 0, None, 1, 2, 0, 0]),
        ([True, False, None, True, True, False, True], None, [1, 0, None, 1, 1, 0, 1]),
        ([1, 0, 1, 1, 0, None, 1], [False, True], [1, 0, 1, 1, 0, None, 1]),
    ],
)
def test_values_are_read_as_the_domain_says(values, domain, places):
    """Classes begin at their lower edge, numbers take the nearest value, and labels that are unknown take none."""
    rows = {"time": range(7), "value": values}
    fitted = fit_chain(reference(**rows), "value", "time", domain=domain, smoothing=1)
    counts = np.ones((len(fitted.points),) * 2)
    for here, following in itertools.pairwise(places):
        if here is not None and following is not None:
            counts[here, following] += 1
    assert np.allclose(fitted.transitions[0], counts / counts.sum(axis=1, keepdims=True))


def test_categories_are_labels():
    """Categories and enumerations are read as their texts."""
    values = ["b", "a", "a", "b", "a"]
    for kind in (pl.String, pl.Categorical, pl.Enum(["b", "a"])):
        fitted = fit_chain(
            reference(time=range(5), value=pl.Series(values, dtype=kind)), "value", "time"
        )
        assert fitted.points == ("a", "b")
        assert np.allclose(fitted.transitions, [[[0.5, 0.5], [5 / 6, 1 / 6]]])


GOOD = {"unit": [1, 1, 1, 2], "time": [0, 1, 2, 0], "state": [0, 1, 0, 1]}
WRONG = {
    "no rows": ({"unit": [], "time": [], "state": []}, {}, "has no rows"),
    "no transition": ({**GOOD, "time": [0, 2, 4, 0]}, {}, "one step apart"),
    "the same moment twice": ({**GOOD, "time": [0, 1, 1, 0]}, {}, "the same order_by"),
    "a missing column": (GOOD, {"column": "level"}, "no column"),
    "one column twice": (GOOD, {"within": "time"}, "same column"),
    "no name": (GOOD, {"column": ""}, "column is ''"),
    "an interval": (GOOD, {"domain": Interval(0, 1)}, "A chain of states"),
    "labels for numbers": (GOOD, {"domain": ["a", "b"]}, "the domain has labels"),
    "numbers for labels": (
        {**GOOD, "state": list("abab")},
        {"domain": [0, 1]},
        "the domain has numbers",
    ),
    "one value": ({**GOOD, "state": [1, 1, 1, 1]}, {}, "1 different values"),
    "many values": (
        {"unit": [1] * 60, "time": range(60), "state": range(60)},
        {},
        "60 different values",
    ),
    "never left": (
        GOOD,
        {"domain": [0, 1, 2], "smoothing": 0},
        "nothing is known about 1 of 3 states",
    ),
    "half known": (GOOD, {"period": 2, "smoothing": 0}, "nothing is known about 2 of 4 pairs"),
    "negative smoothing": (GOOD, {"smoothing": -1}, "smoothing"),
    "endless smoothing": (GOOD, {"smoothing": float("inf")}, "smoothing"),
    "no period": (GOOD, {"period": 0}, "period is 0"),
    "half a period": (GOOD, {"period": 1.5}, "period is 1.5"),
    "far too long a period": (GOOD, {"period": 10**7}, "the reference has 4 rows"),
    "a duration for numbers": (GOOD, {"step": "1h"}, "order_by is a column of type"),
    "a number for times": (
        {**GOOD, "time": [dt.date(2020, 1, d) for d in (1, 2, 3, 1)]},
        {},
        "order_by is a column",
    ),
    "texts for times": ({**GOOD, "time": list("abca")}, {}, "order_by is a column"),
    "a month": (GOOD, {"step": "1mo"}, "step is '1mo'"),
    "no step": (GOOD, {"step": 0}, "step is 0"),
    "too much slack": (GOOD, {"slack": 1.5}, "slack is 1.5"),
    "unknown slack": (GOOD, {"slack": "some"}, "slack is 'some'"),
    "slack that is none": (GOOD, {"slack": float("nan")}, "slack is nan"),
    "too confident": (GOOD, {"slack": "confidence", "confidence": 1}, "confidence is 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_fitted_is_refused(case):
    """Each mistake is named, with what is allowed."""
    table, options, says = WRONG[case]
    asked = {"column": "state", "order_by": "time", "within": "unit", **options}
    with pytest.raises(UsageError, match=says) as caught:
        fit_chain(reference(**table), **asked)
    assert caught.value.allowed


def test_a_bare_frame_is_no_reference():
    """Nobody declared that a bare frame is public."""
    with pytest.raises(UsageError, match=r"pf\.Reference"):
        fit_chain(pl.DataFrame(GOOD), "state", "time", "unit")


def test_nothing_is_estimated_as_impossible():
    """By default a transition that was never seen keeps half a count, and without smoothing it has none."""
    table = {"time": range(100), "state": [0, 1] * 50}
    assert fit_chain(reference(**table), "state", "time").transitions.min() == pytest.approx(
        0.5 / 51
    )
    assert fit_chain(reference(**table), "state", "time", smoothing=0).transitions.min() == 0


def test_slack_widens_to_both_sides():
    """Bounds hold the estimate and that much to either side, within 0 and 1, rounded outwards."""
    fitted = fit_chain(reference(**messy()), "state", "time", "unit", period=2, slack=0.4)
    assert (fitted.low <= np.maximum(fitted.transitions - 0.4, 0)).all()
    assert (fitted.high >= np.minimum(fitted.transitions + 0.4, 1)).all()
    assert fitted.low.min() == 0
    assert np.allclose(fitted.high - fitted.low, np.minimum(fitted.transitions, 0.4) + 0.4)
    assert fit_chain(reference(**messy()), "state", "time", "unit").low is None


def test_confident_bounds_are_clopper_and_pearsons():
    """Each cell has the exact binomial interval, at a level divided by the number of cells, and holds the estimate."""
    columns = messy(2)
    fitted = fit_chain(
        reference(**columns), "state", "time", "unit", period=2, slack="confidence", confidence=0.9
    )
    counts, tail = counted(columns, 2, 3), 0.1 / 18 / 2
    others = counts.sum(axis=2, keepdims=True) - counts
    low, high = beta.ppf(tail, counts, others + 1), beta.ppf(1 - tail, counts + 1, others)
    assert np.allclose(fitted.low, np.where(counts > 0, low, 0), rtol=1e-9)
    assert np.allclose(fitted.high, np.where(others > 0, high, 1), rtol=1e-9)
    never = fit_chain(
        reference(**GOOD), "state", "time", "unit", domain=[0, 1, 2], slack="confidence"
    )
    assert never.low[0, 2].max() == 0
    assert never.high[0, 2].min() == 1
    assert ((never.low <= never.transitions) & (never.transitions <= never.high)).all()


def test_confident_bounds_hold_an_estimate_that_smoothing_moved():
    """A state that always stays is smoothed below its interval among many states: the bounds reach down to it."""
    table = reference(time=range(1001), state=[0] * 1001)
    fitted = fit_chain(table, "state", "time", domain=list(range(50)), slack="confidence")
    assert 0.97 < fitted.low[0, 0, 0] < fitted.transitions[0, 0, 0] < 0.98


@pytest.mark.slow
def test_confident_bounds_hold_the_truth_as_often_as_promised():
    """Of 100 references from one chain, about 5 at most have a transition outside; half the width loses many."""
    rng = np.random.default_rng(3)
    truth = np.array([[0.7, 0.3], [0.1, 0.9]])
    missed = narrow = 0
    for _ in range(100):
        states = [0]
        for uniform in rng.random(300):
            states.append(int(uniform < truth[states[-1], 1]))
        fitted = fit_chain(
            reference(time=range(301), state=states), "state", "time", slack="confidence"
        )
        missed += not ((fitted.low <= truth) & (truth <= fitted.high)).all()
        middle, half = (fitted.low + fitted.high) / 2, (fitted.high - fitted.low) / 2
        narrow += not (np.abs(middle - truth) <= half / 2).all()
    assert missed <= 10
    assert narrow > 20


def test_the_initial_law_is_stationary():
    """It is the law that the fitted kernels leave as they are, at phase 0; without one the states seen there."""
    fitted = fit_chain(reference(**messy()), "state", "time", "unit", period=3)
    assert np.array_equal(fitted.initial, stationary(fitted.transitions))
    parted = reference(unit=[1] * 4 + [2] * 8, time=[*range(4), *range(8)], state=[0] * 4 + [1] * 8)
    fitted = fit_chain(parted, "state", "time", "unit", smoothing=0)
    assert fitted.initial == pytest.approx([1 / 3, 2 / 3])
    assert "the chain has more than one stationary law" in fitted.provenance.notes


def test_states_out_of_proportion_are_noted():
    """Short sequences that all begin in one state are not in the chain's stationary proportions, and that is said."""
    rows = {
        "unit": np.repeat(np.arange(500), 3),
        "time": np.tile(np.arange(3), 500),
        "state": np.tile([0, 0, 1], 500),
    }
    notes = fit_chain(reference(**rows), "state", "time", "unit").provenance.notes
    assert any(
        note.startswith("states are not seen in the chain's stationary proportions")
        for note in notes
    )


def test_provenance_names_the_reference_and_what_was_read():
    """Name, rows and notes are kept, and the fingerprint is that of the columns read, no others."""
    columns = messy()
    fitted = fit_chain(reference(**columns, other=columns["time"]), "state", "time", "unit")
    provenance = fitted.provenance
    assert (provenance.reference, provenance.rows, provenance.notes) == (
        "a study",
        fitted.provenance.rows,
        fitted.provenance.notes,
    )
    assert provenance.digest == digest_of(pl.DataFrame(columns).select("unit", "time", "state"))
    assert provenance.describe().startswith(
        "fitted on 180 rows of the public reference 'a study'; "
    )


def test_a_period_is_used_on_the_clock_that_it_was_fitted_on():
    """Hours of a day count from 1970 in UTC where times have a zone: at other hours than those written without one."""
    hours = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2024, 3, 1), "1h", closed="left", eager=True
    )
    meters = pl.DataFrame(
        {"hour": hours, "on": [int(n * 7919 % 11 > 5) for n in range(len(hours))]}
    )
    zoned = meters.with_columns(pl.col("hour").dt.replace_time_zone("UTC"))
    for source, other in ((meters, zoned), (zoned, meters)):
        periodic, plain = (
            Scenario(
                Secret("on", domain=[0, 1]),
                MarkovChain.fit(
                    Reference("a study", source),
                    "on",
                    "hour",
                    domain=[0, 1],
                    step="1h",
                    period=period,
                ),
                order_by="hour",
                step="1h",
            )
            for period in (24, 1)
        )
        periodic.check_frame(source.clone())
        plain.check_frame(other)
        with pytest.raises(UsageError, match="time zone"):
            periodic.check_frame(other)
