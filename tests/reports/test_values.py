"""What figures are drawn from: panels of a release, shares of noise, curves of the worst pair, compared bounds."""

import math
import re

import msgspec
import numpy as np
import pages
import polars as pl
import published
import pytest

from pufferflow.noise.laplace import Laplace
from pufferflow.reports import pages as report
from pufferflow.reports.evidence import ORDINARY, Atoms, BoundRow, Cell, WorstPair
from pufferflow.reports.figures.bars import (
    bound_name,
    merge_bounds,
    models_figure,
    models_of,
    shares_figure,
)
from pufferflow.reports.figures.estimates import estimates_figure
from pufferflow.reports.figures.over_time import describe_budget, describe_memory, memory_figure
from pufferflow.reports.figures.worst_pair_laws import atoms_of, curves_of, laws_figure
from pufferflow.reports.numbers import fold, total
from pufferflow.reports.outputs import (
    Share,
    outputs_of,
    panels_of,
    planned_shares,
    published_shares,
    table_of,
)
from pufferflow.reports.sections import room_left

PANELS = {
    "days": (2, True, 7),
    "one-day": (2, False, 1),
    "hours": (1, True, 5000),
    "names": (1, False, 7),
    "two-keys": (2, True, 5),
    "single": (1, False, 1),
    "many-outputs": (1, False, 30),
    "broken": (1, True, 3),
}


@pytest.mark.parametrize("name", PANELS)
def test_panels_suit_the_keys(name):
    """Days, times and numbers are a line, names are rows, and one row of many outputs is one picture."""
    number, lined, marks = PANELS[name]
    found = panels_of(*published.FRAMES[name]())
    assert (len(found), found[0].at is not None, len(found[0].marks)) == (number, lined, marks)


def test_line_is_in_order_with_its_own_numbers():
    """Marks are sorted together with their numbers, whatever the order of the rows."""
    frame, intervals = published.days()
    order = [3, 1, 6, 0, 2, 5, 4]
    (panel, _), (mixed, _) = panels_of(frame, intervals), panels_of(frame[order], intervals[order])
    assert panel.marks == mixed.marks
    for part in ("values", "low", "high"):
        assert np.array_equal(getattr(panel.output, part), getattr(mixed.output, part))


def test_table_has_every_number_with_its_bar():
    """A table names the rows by the keys, then has each output beside its interval; long ones are cut, and say so."""
    columns, more = table_of(*published.days())
    assert [column.head for column in columns] == [
        *("day", "load", "95 % interval of load", "peaks", "95 % interval of peaks")
    ]
    assert columns[1].cells[0] == "5,963"
    assert columns[2].cells[0] == "5,650 to 6,276"
    assert not more
    columns, more = table_of(*published.hours())
    assert len(columns[0].cells) == 200
    assert "5,000" in more


def test_bars_without_end_or_number_are_told_so():
    """Infinite ends, missing numbers and NaN stay what they are in the table."""
    columns, _ = table_of(*published.broken())
    assert columns[2].cells[0] == "−∞ to ∞"
    assert columns[1].cells[3] == columns[2].cells[3] == "—"


def test_numbers_outside_their_bars_have_a_word():
    """What is impossible, what noise alone could have made, and what says nothing is said below the number."""
    frame, raw = published.with_bars(pl.DataFrame({"n": [-4.0, 6.0, 40.0, 111.0]}), n=10.0)
    cut = raw.with_columns(pl.all().clip(0, 100))
    columns, _ = table_of(frame, cut, raw)
    assert list(columns[1].remarks) == [
        *("impossible: below 0", "may be 0", "", "impossible: above 100")
    ]
    frame, raw = published.with_bars(pl.DataFrame({"n": [40.0]}), n=1000.0)
    columns, _ = table_of(frame, raw.with_columns(pl.all().clip(0, 100)), raw)
    assert list(columns[1].remarks) == ["may be anything"]
    frame, raw = published.with_bars(pl.DataFrame({"n": [0.0, 7.0]}), n=0.0)
    columns, _ = table_of(frame, raw, raw)
    assert list(columns[1].remarks) == ["", ""], "numbers without noise are what they are"


def test_share_is_half_the_interval_over_the_number():
    """A share is the middle over the cells; its words say how much of what."""
    frame, intervals = published.with_bars(pl.DataFrame({"load": [100.0, -200.0, 400.0]}), load=8.0)
    (share,) = published_shares(outputs_of(frame, intervals))
    assert (share.least, share.middle, share.largest) == pytest.approx((0.02, 0.04, 0.08))
    assert share.sentence().startswith(
        "load: the error bar reaches about 4\xa0% of the number to either side in the middle of 3 groups"
    )


def test_a_line_is_explained_where_there_is_one():
    """The thin line between groups is spoken of only where groups differ."""
    few, one = Share("a", "b", 0.2, 0.1, 0.3, 3, 3), Share("a", "b", 0.2, 0.2, 0.2, 1, 1)
    assert ["thin line" in shares_figure([share]) for share in (few, one)] == [True, False]


def test_share_of_a_plan_is_over_the_largest_answer():
    """A plan compares the interval with the largest possible answer; of outputs without one nobody can tell."""
    cells = [
        Cell("load", "all rows", "Laplace", 1.0, 1.0, 3.0, 60.0),
        Cell("middle", "all rows", "L", 1.0, None, None),
    ]
    load, middle = planned_shares(cells)
    assert (
        load.sentence()
        == "load: the error bar reaches about 5\xa0% of the largest possible answer to either side."
    )
    assert middle.middle is None
    assert "is not known" in middle.sentence()


@pytest.mark.parametrize("noise", ["Laplace", "GeneralizedCauchy", "Staircase"])
def test_curves_stay_in_the_promised_band(noise):
    """Noise of a scale that keeps the guarantee keeps the ratio of both noisy densities within it, everywhere drawn."""
    shape = 4.0 if noise == "GeneralizedCauchy" else 0.0
    scale = {"Laplace": 3.0, "GeneralizedCauchy": 3 / (2 * math.sinh(0.25)), "Staircase": 3.0}[
        noise
    ]
    point = [Atoms((float(value),), (1.0,)) for value in (0, 3)]
    curves = curves_of(WorstPair("load", "0", "3", *point, noise, scale, shape, 1.0))
    assert np.abs(curves.ratio).max() <= 1 + 1e-9
    assert np.abs(curves.ratio).max() > 0.9


def test_curves_are_densities_of_answer_and_noise():
    """A noisy law is the mixture of the noise around its values."""
    pair = pages.pair(scale=2.0)
    curves = curves_of(pair)
    mixed = sum(
        w * np.exp(Laplace(2.0).logpdf(curves.at - v))
        for v, w in zip(pair.mu.values, pair.mu.weights, strict=True)
    )
    assert np.allclose(np.exp(curves.first), mixed)
    assert np.trapezoid(mixed, curves.at) == pytest.approx(0.98, abs=0.03)


@pytest.mark.parametrize("scale", [0.0, math.inf, math.nan, -1.0])
def test_nothing_is_drawn_without_a_noise(scale):
    """No noise, or a noise that is none, gives no curves."""
    assert curves_of(pages.pair(scale=scale)) is None
    assert curves_of(pages.pair("Unheard", 1.0)) is None


def test_many_atoms_are_gathered():
    """A law of very many values keeps its mass and its mean when it is gathered for a picture."""
    values = np.sort(np.random.default_rng(3).normal(size=5000))
    kept, weights = atoms_of(Atoms(tuple(values.tolist()), (1 / 5000,) * 5000))
    assert len(kept) <= 400
    assert weights.sum() == pytest.approx(1.0)
    assert kept @ weights == pytest.approx(values.mean(), abs=0.01)


def test_bounds_are_compared_once_each():
    """Each bound comes once, the least noise first, those that refuse last with their reason."""
    found = merge_bounds(pages.bounds())
    assert [one.bound for one in found] == [
        "Messages()",
        "Quilt(approximate=False)",
        "group privacy",
        "GAWM(delta=1e-06)",
    ]
    assert [one.chosen for one in found] == [True, False, False, False]
    assert found[-1].times is None
    assert "too many" in found[-1].note
    assert merge_bounds([BoundRow("B", "q", "Laplace", times=None)])[0].note == ""


def test_models_are_differential_privacy_this_plan_and_group_privacy():
    """The noise on the plan's first output under each; what is not there is left out; the plan alone is no figure."""
    found = models_of(pages.evidence().bounds)
    assert [(model.name, model.output) for model in found] == [
        *((name, "load") for name in (ORDINARY, "this plan", "group privacy"))
    ]
    assert [model.scale for model in found] == pytest.approx([11.6, 104.4, 104.4 * 9.65])
    assert "would keep epsilon 5.3" in found[0].note
    assert [model.name for model in models_of(pages.bounds())] == ["this plan", "group privacy"]
    own = [row for row in pages.bounds() if row.chosen]
    assert models_figure(models_of(own)) == ""
    assert models_of([]) == []


def test_memory_is_told_in_hours():
    """What is left is said in the unit of a step, after one of them and where it is 1 %, or that it never is."""
    assert describe_memory([pages.memory()]) == (
        "Under the prior, what one hour reveals about a later one is 80\xa0% after 1 hour, and no more than "
        "1\xa0% after 21 hours."
    )
    assert "no more than 1\xa0% after 21 days" in describe_memory([pages.memory("1d")])
    assert "0.4\xa0% after 25 steps of 7m" in describe_memory([pages.memory("7m", None)])
    two = describe_memory([pages.memory(), pages.memory(prior="another")])
    assert two.endswith("after 21 hours if another.")
    assert memory_figure([]) == ""


def marks(html):
    """Return the numbers that stand at axes."""
    texts = re.findall(r">([^<>]+)</text>", html)
    return [
        float(text.replace("\N{MINUS SIGN}", "-"))
        for text in texts
        if re.fullmatch("[\N{MINUS SIGN}]?[0-9.]+", text)
    ]


@pytest.mark.slow
def test_axes_of_counts_have_whole_numbers():
    """Counts, ranks, and places that are whole numbers are marked at whole numbers only."""
    frame, intervals = published.with_bars(
        pl.DataFrame({"hour": [0, 1, 2], "high": [1.0, 1.2, 1.4]}), high=0.1
    )
    counted = marks(estimates_figure(panels_of(frame, intervals, ["high"])))
    assert all(mark.is_integer() for mark in counted)
    assert not all(
        mark.is_integer() for mark in marks(estimates_figure(panels_of(frame, intervals)))
    )
    hours = marks(
        estimates_figure(panels_of(frame.with_columns(high=pl.col("high") * 100), intervals))
    )
    assert all(mark.is_integer() for mark in hours)
    ends = [Atoms((float(value),), (1.0,)) for value in (0, 1)]
    laws = WorstPair("rows", "0", "1", *ends, "Laplace", 0.1)
    assert all(mark.is_integer() for mark in marks(laws_figure(laws, curves_of(laws))))
    halves = msgspec.structs.replace(laws, mu=Atoms((0.0, 0.5), (0.5, 0.5)))
    assert not all(mark.is_integer() for mark in marks(laws_figure(halves, curves_of(halves))))


def test_budget_is_told_in_numbers():
    """An account says what is spent, what will be, and how much room there is."""
    told = describe_budget(pages.budget())
    for words in (
        "After 9 releases",
        "0.846446 of its limit of 3",
        "26 further releases (one every 7d)",
        "The limit allows 31 further releases",
    ):
        assert words in told
    assert "does not allow another" in describe_budget(pages.budget(fits=0))
    assert "limit is not reached" in describe_budget(pages.budget(fits=None, endless=2.9))
    assert "limit is not reached" not in describe_budget(pages.budget(fits=None, endless=3.1))
    assert "After 20,000 releases" in describe_budget(pages.budget(releases=20_000))


def test_room_that_is_left_is_told():
    """How many more releases fit is a number, any number, or unknown."""
    found = [
        pages.budget(fits=31),
        pages.budget(fits=None, endless=2.9),
        pages.budget(fits=None, endless=3.1),
    ]
    assert list(map(room_left, [*found, pages.budget(fits=None, endless=None)])) == [
        *("31", "any number", "unknown", "unknown")
    ]


@pytest.mark.parametrize("epsilon", [0.1, 0.25, 1.5, 9.3, 12.0])
def test_odds_are_never_told_too_small(epsilon):
    """A factor is not below what it is."""
    text = fold(epsilon).replace(",", "").replace("×10⁵", "e5").replace("×10⁴", "e4")
    assert math.exp(epsilon) * (1 - 1e-11) <= float(text)


@pytest.mark.slow
def test_figures_of_many_panels_fit_on_paper():
    """Tall pictures are several figures, with one caption, which names the outputs whose bars are rough."""
    panels = [panels_of(*published.days())[0]] * 7
    html = estimates_figure(panels, ["load", "peaks"])
    heights = [float(one) for one in re.findall(r'viewBox="0 0 380 ([0-9.]+)"', html)]
    assert len(heights) == html.count("<figure") == 4
    assert max(heights) <= 450
    assert html.count("<figcaption") == 1
    assert "without noise (in 95 or more for load)." in html


def test_bounds_are_named_without_what_is_usual():
    """Arguments that are as usual are left out of names of bounds; what is no bound stays."""
    names = [
        "GWM(norm=None)",
        "Quilt(approximate=False)",
        "Quilt(approximate=True)",
        "group privacy",
        "A(b=(1, 2))",
    ]
    assert list(map(bound_name, names)) == [
        "GWM",
        "Quilt",
        "Quilt (approximate)",
        "group privacy",
        "A(b=(1, 2))",
    ]


@pytest.mark.parametrize("value", [0.1, 0.50012, 1 / 3, 2.99999, 123.4561, 1e-9, 7.0])
def test_what_is_spent_is_never_told_too_small(value):
    """A total is shown with six digits, not below what it is, and not above it by more than the last of them."""
    text = total(value)
    mantissa, _, power = text.partition(" × 10")
    shown = float(mantissa) * 10.0 ** int(
        power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0
    )
    assert value * (1 - 1e-11) <= shown <= value * 1.00001


def test_broken_ledger_says_what_is_broken():
    """A ledger whose records do not fit says so at the top of its page."""
    facts = msgspec.structs.replace(
        pages.ledger(), sound=False, fault="entry 3 does not fit <entry 2>"
    )
    assert "NOT whole: entry 3 does not fit &lt;entry 2&gt;" in report.ledger_page(facts)
