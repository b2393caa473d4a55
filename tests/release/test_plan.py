"""A plan says what a release would be, in tables and in words, and every number in them is true."""

import html.parser
import math

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.reports.numbers import at_most, promise_in_words

STAY = [[0.9, 0.1], [0.2, 0.8]]
HOURS = 48


def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "meter": np.repeat([1, 2, 3], HOURS),
            "hour": np.tile(np.arange(HOURS), 3),
            "day": np.tile(np.arange(HOURS) // 24, 3),
            "on": rng.integers(0, 2, 3 * HOURS),
        }
    )


def scenario(prior=None):
    chosen = pf.MarkovChain(STAY) if prior is None else prior
    return pf.Scenario(
        pf.Secret("on", domain=[0, 1]), chosen, order_by="hour", within="meter", public=["day"]
    )


def batch(prior=None):
    return pf.protect(frame(), scenario(prior))


def test_one_sum_of_a_chain_is_what_calibration_says():
    """The noise of a plan is that of the laws of one meter, whatever the number of meters and days."""
    laws = pf.laws(scenario(), pf.Statistic.total(HOURS))
    expected = pf.calibrate(laws, pf.Pure(1.0), bound=pf.Messages()).noise.scale
    for asked in (batch(), batch().group_by("day"), batch().group_by("day", "meter")):
        found = (
            asked.private_sum("on").plan(pf.Pure(1.0), bound=pf.Messages()).noises["on_sum"].scale
        )
        assert found == pytest.approx(expected, rel=1e-3)
        assert found >= expected * (1 - 1e-6)


def test_rows_that_are_not_asked_about_stay_secret():
    """A filter leaves rows out of the answer, and their neighbours still reveal about them."""
    all_rows = batch().private_sum("on").plan(pf.Pure(1.0)).noises["on_sum"].scale
    half = (
        batch()
        .filter(pl.col("hour") % 2 == 0)
        .private_sum("on")
        .plan(pf.Pure(1.0))
        .noises["on_sum"]
        .scale
    )
    weights = (np.arange(HOURS) % 2 == 0).astype(float)
    laws = pf.laws(scenario(), pf.Statistic(weights))
    assert half == pytest.approx(
        pf.calibrate(laws, pf.Pure(1.0), bound=pf.Messages()).noise.scale, rel=1e-3
    )
    assert half < all_rows


def test_a_summary_has_a_row_for_each_cell():
    """Every output of every group has its noise, expected error and interval, in the unit of the answer."""
    plan = (
        batch()
        .group_by("day")
        .private_sum("on")
        .private_mean("on")
        .private_variance("on")
        .plan(pf.Pure(1.0))
    )
    table = plan.summary()
    columns = [
        "query",
        "group",
        "noise",
        "scale",
        "expected_error",
        "interval_95",
        "bound",
        "certainty",
    ]
    columns += ["same_noise_as", "correlated_with"]
    assert table.columns == columns
    assert table["group"].to_list() == ["day=0", "day=1"] * 3
    sums, means = (table.filter(pl.col("query") == f"on_{what}") for what in ("sum", "mean"))
    assert sums["expected_error"].to_list() == sums["scale"].to_list()
    assert means["expected_error"].to_list() == pytest.approx(
        [scale / (3 * 24) for scale in means["scale"]]
    )
    assert table.filter(pl.col("query") == "on_variance")["expected_error"].null_count() == 2
    quantile = math.log(20) * sums["scale"][0]
    assert sums["interval_95"][0] == pytest.approx(quantile, rel=1e-3)


def test_sums_and_means_share_their_noise():
    """A sum and a mean of one column come from one noisy sum, so they agree."""
    release = batch().group_by("day").private_sum("on").private_mean("on").release(epsilon=1.0)
    assert release.frame["on_mean"].to_list() == pytest.approx(
        (release.frame["on_sum"] / 72).to_list()
    )


def test_shares_divide_the_budget():
    """A query with four times the share has a quarter of the noise, and together they keep the guarantee."""
    asked = (
        batch(pf.Independent()).private_sum("on", name="a").private_sum(pl.col("on") * 2, name="b")
    )
    plan = asked.plan(pf.Pure(1.0), shares={"a": 4, "b": 1})
    first, second = plan.noises["a"].scale, plan.noises["b"].scale
    assert (first, second) == (pytest.approx(1.25, rel=1e-3), pytest.approx(10, rel=1e-3))
    assert 1 / first + 2 / second <= 1 + 1e-9


@pytest.mark.slow
def test_an_accuracy_finds_its_promise():
    """Errors that are asked for are kept, and hardly more privacy would fit into them."""
    asked = batch().group_by("day").private_sum("on").private_count(pl.col("on") == 1, name="c")
    plan = asked.plan(accuracy=pf.Within(40, confidence=0.9))
    assert plan.noises["on_sum"].interval(0.9)[1] <= 40
    assert plan.noises["on_sum"].interval(0.9)[1] == pytest.approx(40, rel=1e-2)
    tighter = asked.plan(pf.Pure(plan.guarantee.epsilon * 0.98))
    assert tighter.noises["on_sum"].interval(0.9)[1] > 40
    renyi = asked.plan(pf.Renyi.of(alpha=4), accuracy=pf.Within(40))
    assert isinstance(renyi.guarantee, pf.Renyi)


@pytest.mark.slow
def test_auto_takes_the_noise_that_errs_least():
    """For one sum Laplace noise errs less; for many answers at once Gaussian noise does."""
    promise = pf.Approx(1.0, 1e-6)
    few = batch(pf.Independent()).private_sum("on").plan(promise)
    rng = np.random.default_rng(1)
    wide = pl.DataFrame({"x": rng.integers(0, 60, 500)})
    many = pf.protect(wide, pf.Scenario(pf.Secret("x", list(range(60))), pf.Independent()))
    assert isinstance(few.calibration.noise, pf.Laplace)
    sums = many
    for power in range(40):
        sums = sums.private_sum(pl.col("x") * ((-1) ** power) + power, name=f"q{power}")
    assert isinstance(sums.plan(promise).calibration.noise, pf.Gaussian)


@pytest.mark.slow
def test_group_privacy_is_that_of_whole_groups():
    """What knowing nothing would cost is the movement of all rows of a meter, whatever the prior."""
    for prior in (pf.Independent(), pf.MarkovChain(STAY), pf.AnyCorrelation()):
        table = batch(prior).private_sum("on").plan(pf.Pure(1.0)).compare()
        assert table.filter(pl.col("bound") == "group privacy")["scale"][0] == pytest.approx(HOURS)


@pytest.mark.slow
def test_comparisons_name_every_bound():
    """Each bound has a row for each output, with its noise or the reason for none."""
    table = batch().private_sum("on").private_count(pl.col("on") == 1).plan(pf.Pure(1.0)).compare()
    assert {"Messages()", "Quilt(approximate=False)", "Exact()", "group privacy"} <= set(
        table["bound"]
    )
    assert table.filter(pl.col("scale").is_null() & (pl.col("note") == "")).height == 0
    ordinary = pl.col("bound") == "differential privacy (rows independent)"
    assert table.filter(pl.col("times").is_not_null() & ~ordinary)["times"].min() >= 0.5
    assert table.filter(ordinary)["times"].max() < 0.5


def test_the_sentence_to_sign():
    """It says what is hidden, from whom, how well, on what it rests, and what is left if that is wrong."""
    plan = (
        batch()
        .filter(pl.col("day") == 0)
        .group_by("day")
        .private_sum("on", name="load")
        .plan(pf.Pure(1.0))
    )
    text = plan.explain()
    scale = plan.noises["load"].scale
    group = at_most(24 / scale)
    for part in (
        "where day == 0",
        "the value of 'on' in every row",
        "Markov chain of 2 states",
        "at most 2.72-fold",
        f"{scale:.4g} for load",
        "Messages",
        "rows that differ in meter are independent",
        f"if the rows of one meter depend on each other in any way, the same noise still keeps epsilon {group}",
        "epsilon 1.2 is left",
    ):
        assert part in text, part


def test_nothing_assumed_is_nothing_wrong():
    """Without any prior there is none that could be wrong; groups are believed to be independent all the same."""
    text = batch(pf.AnyCorrelation()).private_sum("on").plan(pf.Pure(1.0)).explain()
    assert "nothing was assumed" not in text
    assert (
        "if the rows of one meter depend on each other in any way, the guarantee holds as it is"
        in text
    )
    assert (
        "if rows of different meter depend on each other, nothing is guaranteed about that" in text
    )
    whole = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation())
    text = pf.protect(frame(), whole).private_sum("on").plan(pf.Pure(1.0)).explain()
    assert (
        "nothing was assumed of how rows depend on each other, so that no such assumption can be wrong"
        in text
    )
    assert "rows of different" not in text
    presence = pf.Scenario(pf.Presence("meter", rows=3), pf.Independent(), public=["day"])
    words = pf.protect(frame(), presence).private_count().plan(pf.Pure(1.0)).explain()
    assert "at most 3 rows of each meter are read" in words
    assert "Not hidden: 'meter'" not in words
    assert "the column 'meter' says in every row whose row it is" in words
    assert (
        "if rows of different meter depend on each other, nothing is guaranteed about that" in words
    )


def test_numbers_of_a_promise_are_rounded_up():
    """No sentence guarantees less of a change than there may be: not of odds, nor of what is left."""
    assert "at most 1.29-fold" in batch().private_sum("on").plan(pf.Pure(0.25)).explain()
    assert "at most 1.29-fold" in promise_in_words(pf.Approx(0.25, 1e-6))
    assert promise_in_words(pf.Renyi(4, 0.30000001)).endswith("0.300001")
    assert "e^800" in promise_in_words(pf.Approx(800.0, 1e-6))


def test_numbers_of_an_interval_have_no_names():
    """On an interval the worst pair are places in a table, so that the sentence and the certificate name no numbers."""
    on = pf.Scenario(pf.Secret("on", domain=pf.Interval(0, 5)), pf.Independent(), within="meter")
    plan = pf.protect(frame(), on).private_sum("on").plan(pf.Pure(1.0))
    assert "one value against another needs the most noise." in plan.explain()
    assert plan.release().certificate.witness.startswith("one value against another")


def test_robustness_of_a_plan():
    """A wrong prior costs a plan what it costs its calibration, in the unit of the answer."""
    plan = batch(pf.Independent()).private_sum("on").plan(pf.Pure(1.0))
    assert pf.robustness(plan, 0.5).epsilon == pytest.approx(2.0, rel=1e-3)
    assert pf.robustness(plan, ratio=0.25).epsilon == pytest.approx(1.5)


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"}]


@pytest.mark.slow
def test_pages_need_nothing_else(tmp_path):
    """A page has its tables, no script, and no link out of it; names are escaped; other places are refused."""
    plan = batch().group_by("day").private_sum("on", name="<b>load</b>").plan(pf.Pure(1.0))
    release = plan.release()
    for path in (plan.report(tmp_path / "plan.html"), release.report(tmp_path / "release.html")):
        text = path.read_text(encoding="utf-8")
        page = Page()
        page.feed(text)
        assert all(link.startswith(("#", "data:")) for link in page.links)
        assert "script" not in page.tags
        assert page.tags.count("table") >= 1
        assert "<b>load" not in text
    for block in (plan._repr_html_(), release._repr_html_()):
        assert "<table>" in block
    with pytest.raises(pf.UsageError, match="written"):
        plan.report(tmp_path / "nowhere" / "plan.html")


def test_a_source_that_changes_is_not_released(tmp_path):
    """Noise is made for the groups of the plan; a file with other rows is refused."""
    path = tmp_path / "rows.csv"
    path.write_text("meter,on\n1,0\n2,1\n")
    free = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), within="meter")
    plan = pf.protect(pl.scan_csv(path), free).private_sum("on").plan(pf.Pure(1.0))
    path.write_text("meter,on\n" + "1,1\n" * 50)
    with pytest.raises(pf.SourceError, match="other rows"):
        plan.release()


def test_rows_that_are_filtered_out_have_secrets():
    """Where somebody began shows in where they are afterwards, though the beginning is not asked about."""
    moves = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]]
    prior = pf.MarkovChain(moves, initial=[0.5, 0.5, 0, 0])
    begun = pf.Scenario(pf.Secret("place", [0, 1, 2, 3], pairs=[(0, 1)]), prior, order_by="hour")
    rows = pl.DataFrame({"hour": range(6), "place": [0, 2, 2, 2, 2, 2]})
    later = pf.protect(rows, begun).filter(pl.col("hour") > 0)
    plan = later.private_count(pl.col("place") == 2).plan(pf.Pure(1.0))
    assert plan.noises["place_count"].scale > 2
