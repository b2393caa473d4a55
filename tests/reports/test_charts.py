"""Charts and styled tables: the published numbers and nothing else, with titles, axes in words and a description."""

import builtins
import json
import math
from datetime import UTC, date, datetime, timedelta

import altair as alt
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.reports.bars_in_words import BARS, BEYOND, bars_of
from pufferflow.reports.charts.base import text
from pufferflow.reports.charts.noise import PairDistance, sensitivity_chart
from pufferflow.reports.charts.published import (
    MOST_LINES,
    MOST_MARKS,
    MOST_NAMES,
    MOST_OUTPUTS,
    release_chart,
)
from pufferflow.reports.charts.spending import spending_chart
from pufferflow.reports.evidence import Budget, Charge

HOSTILE = "</script><script>alert(1)</script><!-- \x1b[2J\u202e"


def batch():
    """Return a batch of made-up rows of three days and two districts."""
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day", "district"]
    )
    days = [date(2026, 11, 2) + timedelta(days=row % 3) for row in range(12)]
    rows = pl.DataFrame({"day": days, "district": ["n", "s"] * 6, "on": [0, 1, 1] * 4})
    return pf.protect(rows, scenario)


def parts(spec):
    """Yield every part of a chart that has data of its own."""
    if "data" in spec:
        yield spec
    for inner in spec.get("vconcat", ()):
        yield from parts(inner)


def drawn(chart):
    """Return the values of each panel, and the whole chart, which JSON can write without NaN."""
    spec = chart.to_dict()
    json.dumps(spec, allow_nan=False)
    found = [
        part["data"].get("values") or spec["datasets"][part["data"]["name"]] for part in parts(spec)
    ]
    return spec, found


def axes(spec):
    """Yield the title of every axis that is drawn, and whether it has one."""
    for part in parts(spec):
        for layer in part.get("layer", [part]):
            for channel in ("x", "y"):
                if channel in layer["encoding"]:
                    yield layer["encoding"][channel].get("title")


def test_a_chart_has_the_published_numbers():
    """Each number and both ends of its bar are those of the release, digit by digit; nothing else is there."""
    release = (
        batch().group_by("day").private_sum("on", "load").private_mean("on").release(epsilon=5.0)
    )
    spec, panels = drawn(release.plot())
    assert isinstance(release.plot(), alt.VConcatChart)
    assert isinstance(release.plot("load"), alt.LayerChart)
    order = release.frame.sort("day"), release.intervals.sort("day")
    for name, values in zip(("load", "on_mean"), panels, strict=True):
        assert [row["number"] for row in values] == order[0][name].to_list()
        assert [row["low"] for row in values] == order[1][f"{name}_low"].to_list()
        assert [row["high"] for row in values] == order[1][f"{name}_high"].to_list()
        assert [row["at"] for row in values] == [f"2026-11-0{day}T00:00:00" for day in (2, 3, 4)]
    assert spec["title"]["text"] == "Published: load, on_mean"
    assert BARS in " ".join(spec["title"]["subtitle"])
    assert "epsilon 5" in " ".join(spec["title"]["subtitle"])
    assert "load: 3 numbers from" in spec["description"]
    assert set(axes(spec)) == {"day", "load", "on_mean"}
    assert spec["vconcat"][0]["layer"][0]["encoding"]["x"]["type"] == "temporal"


def test_groups_along_time_have_colours():
    """A second key is a colour; the bars of groups at one time stand beside each other."""
    release = batch().group_by("district", "day").private_sum("on", "load").release(epsilon=5.0)
    spec, ((*values,),) = drawn(release.plot())
    assert {row["group"] for row in values} == {"n", "s"}
    rules = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert len({layer["mark"]["xOffset"] for layer in rules}) == 2
    assert all(layer["encoding"]["color"]["field"] == "group" for layer in rules)


def test_names_are_in_the_order_of_the_release():
    """Groups that are names have a row each; a release of one row has a row for each output of a query."""
    release = batch().group_by("district").private_sum("on", "load").release(epsilon=5.0)
    spec, ((*values,),) = drawn(release.plot())
    assert [row["group"] for row in values] == release.frame["district"].to_list()
    assert spec["layer"][0]["encoding"]["y"]["sort"] is None
    single = batch().private_histogram("on").private_mean("on").release(epsilon=5.0)
    _, (counts, mean) = drawn(single.plot())
    assert [row["group"] for row in counts] == ["on_histogram_0", "on_histogram_1"]
    assert [row["group"] for row in mean] == ["on_mean"]


def frames(**columns):
    """Return made-up numbers with bars of ± 1."""
    frame = pl.DataFrame(columns)
    names = [name for name in columns if name.startswith("n")]
    bars = {
        f"{name}_{end}": frame[name] + step
        for name in names
        for end, step in (("low", -1), ("high", 1))
    }
    return frame, pl.DataFrame(bars)


def test_very_many_marks_are_thinned_and_said():
    """A long line keeps evenly spaced numbers; of many groups, lines and outputs the first are drawn, with a word."""
    rows = 4 * MOST_MARKS
    long, (values,) = drawn(release_chart(*frames(hour=range(rows), n=[1.0] * rows), "g"))
    assert len(values) == MOST_MARKS
    assert "One of 4 values of hour is drawn" in " ".join(long["title"]["subtitle"])
    names = [f"g{row}" for row in range(500)]
    many, (values,) = drawn(release_chart(*frames(key=names, n=[1.0] * 500), "g"))
    assert [row["group"] for row in values] == names[:MOST_NAMES]
    assert f"The first {MOST_NAMES} of 500 groups" in " ".join(many["title"]["subtitle"])
    lines, (values,) = drawn(release_chart(*frames(key=names, hour=range(500), n=[1.0] * 500), "g"))
    assert len({row["group"] for row in values}) == MOST_LINES
    assert f"The first {MOST_LINES} of 500" in " ".join(lines["title"]["subtitle"])
    outputs = {f"n{place}": [1.0, 2.0] for place in range(30)}
    wide, panels = drawn(release_chart(*frames(key=["a", "b"], **outputs), "g"))
    assert len(panels) == MOST_OUTPUTS
    assert f"The first {MOST_OUTPUTS} of 30 outputs" in " ".join(wide["title"]["subtitle"])


def test_numbers_without_an_end_or_a_value_are_said():
    """Infinite bars and missing numbers are left out of the drawing, with a word."""
    frame = pl.DataFrame({"key": ["a", "b", "c"], "n": [1.0, math.nan, 3.0]})
    bars = pl.DataFrame({"n_low": [0.0, math.nan, -math.inf], "n_high": [2.0, math.nan, math.inf]})
    spec, (values,) = drawn(release_chart(frame, bars, "g"))
    assert [row["number"] for row in values] == [1.0, None, 3.0]
    said = " ".join(spec["title"]["subtitle"])
    assert "1 error bar has no end" in said
    assert "1 number is missing" in said
    empty, (values,) = drawn(release_chart(frame.clear(), bars.clear(), "g"))
    assert values == []
    assert "no number" in empty["description"]


def test_moments_keep_their_clock():
    """A moment with a zone is drawn at what its clock shows, and the axis names the zone; null has no place."""
    moments = [datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 7, 1, 13, tzinfo=UTC), None]
    at = pl.Series(moments).dt.convert_time_zone("Europe/Berlin")
    spec, (values,) = drawn(release_chart(*frames(at=at, n=[1.0, 2.0, 3.0]), "g"))
    assert [row["at"] for row in values] == ["2026-07-01T14:00:00", "2026-07-01T15:00:00"]
    assert spec["layer"][0]["encoding"]["x"]["title"] == "at (Europe/Berlin)"


def test_an_unknown_output_or_kind_is_named():
    """Errors say what there is."""
    release = batch().private_sum("on", "load").release(epsilon=5.0)
    with pytest.raises(pf.UsageError, match=r"Did you mean 'load'"):
        release.plot("laod")
    with pytest.raises(pf.UsageError, match="no output"):
        release.plot([])
    with pytest.raises(pf.UsageError, match="'sensitivities'"):
        batch().private_sum("on").plan(pf.Pure(1.0)).plot("sensitivity")


def test_hostile_names_end_no_script():
    """Altair writes names into a script of a page as they are, so none may hold its end."""
    scenario = pf.Scenario(
        pf.Secret(HOSTILE, domain=[0, 1]), pf.Independent(), public=[f"{HOSTILE}d"]
    )
    rows = pl.DataFrame({HOSTILE: [0, 1], f"{HOSTILE}d": [HOSTILE, "x"]})
    plan = pf.protect(rows, scenario).group_by(f"{HOSTILE}d").private_sum(HOSTILE).plan(epsilon=1.0)
    release = plan.release()
    for chart in (release.plot(), plan.plot(), plan.plot("sensitivities")):
        own = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert "<" not in own
        assert own.isprintable()
    assert text("a < b") == "a ‹ b"


def test_a_plan_shows_its_checks_and_its_bounds():
    """Bars are half the intervals of plan.check(), in the colour of the verdict; scales are those of plan.compare()."""
    plan = batch().group_by("district").private_sum("on", "load").plan(pf.Pure(0.05))
    spec, (bars, scales) = drawn(plan.plot())
    check, compare = plan.check(), plan.compare()
    assert [row["half"] for row in bars] == check["interval_95"].to_list()
    assert [row["signal"] for row in bars] == check["signal"].to_list()
    assert {row["verdict"] for row in bars} == {"useless"} == set(check["verdict"])
    assert [row["scale"] for row in scales] == compare["scale"].drop_nulls().to_list()
    assert [row["kind"] for row in scales].count("the noise of this plan") == 1
    assert "2 useless" in spec["description"]
    colours = spec["vconcat"][0]["layer"][0]["encoding"]["color"]["scale"]
    assert colours["domain"] == ["useless"]
    _, (useful,) = drawn(plan.plot("error_bars", signal=1e6))
    assert {row["verdict"] for row in useful} == {"useful"}
    _, (only,) = drawn(plan.plot("bounds"))
    assert only == scales


def test_a_map_of_sensitivities_has_the_farthest_distance_of_each_pair():
    """Over rows and priors the largest counts; the pair that decides has a frame."""
    chain = pf.MarkovChain([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1, 2]), chain, order_by="h")
    rows = pl.DataFrame({"h": range(4), "on": [0, 1, 0, 1]})
    plan = pf.protect(rows, scenario).private_sum("on").plan(pf.Pure(1.0))
    spec, (cells,) = drawn(plan.plot("sensitivities"))
    table = plan.sensitivities(())
    farthest = table.group_by("first", "second").agg(pl.col("w_inf").max(), pl.col("decides").any())
    expected = {(one, other): (far, decides) for one, other, far, decides in farthest.iter_rows()}
    assert {(c["first"], c["second"]): (c["distance"], c["decides"]) for c in cells} == expected
    assert "0 against 2: 8" in spec["description"]
    unknown = sensitivity_chart([PairDistance("a", "b", None, decides=False, note="why")], "g", "u")
    spec, (cells,) = drawn(unknown)
    assert cells == []
    assert "Note: why." in " ".join(spec["title"]["subtitle"])


def budget(**changes):
    """Return a made-up budget."""
    at = "2026-11-02T00:00:00+00:00"
    charges = tuple(Charge(n, f"day-{n}", "committed", at, "Pure", 0.5 * n, "") for n in (1, 2))
    fields = {"account": "power", "dataset": "d", "limit": "Pure(2.0)", "limit_epsilon": 2.0}
    return Budget(**fields, spent=1.0, charges=charges, releases=2, **changes)


def test_spending_is_drawn_against_the_limit():
    """A step for each release, a line at the limit, and a forecast as far as the limit allows it."""
    _, (rows,) = drawn(spending_chart(budget(ahead=(1.5, 2.0, 2.5), endless=math.inf), "epsilon"))
    of = {
        kind: [(row["release"], row["total"]) for row in rows if row["kind"] == kind]
        for kind in ("spent", "forecast", "limit")
    }
    assert of["spent"] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert of["forecast"] == [(2, 1.0), (3, 1.5), (4, 2.0)]
    assert of["limit"] == [(0, 2.0)]
    assert len(rows) == 7
    spec, _ = drawn(spending_chart(budget(endless=1.75), "rho"))
    assert spec["title"]["text"] == "Account power: rho spent"
    assert "the limit is 2" in spec["description"]


def test_an_account_draws_its_own_budget(tmp_path):
    """Totals and limit are those of account.budget()."""
    plan = batch().private_sum("on").plan(pf.Pure(0.5))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("power", plan.request.scenario, limit=pf.Pure(2.0))
        plan.release(account, id="monday")
        spec, (rows,) = drawn(account.plot())
        charge = account.budget().charges[0]
    assert [row["total"] for row in rows if row["kind"] == "spent"] == [0.0, charge.total]
    assert any(row["said"].startswith("monday, committed") for row in rows)
    assert spec["layer"][0]["encoding"]["y"]["title"] == "epsilon of all releases together"


def test_numbers_stand_with_their_bars():
    """Every number of a table has its bar; one outside the possible range has a mark, and the mark a word."""
    frame = pl.DataFrame({"day": [1, 2], "n": [6042.6, -3.0]})
    bars = pl.DataFrame({"n_low": [6030.0, -15.6], "n_high": [6055.2, 9.6]})
    limits = pl.DataFrame({"day": [1, 2], "n_least": [0, 0], "n_most": [9000, 9000]})
    made = bars_of(frame, bars, limits)
    assert made.rows == [("1", "6,043 ± 13"), ("2", "−3 ± 13 *")]
    assert made.notes == [BARS, BEYOND]
    assert bars_of(frame.head(1), bars.head(1), limits.head(1)).notes == [BARS]
    release = batch().group_by("day").private_sum("on", "load").release(epsilon=0.01)
    html = release.style.as_raw_html()
    for row in bars_of(release.frame, release.intervals, release.limits).rows:
        assert row[1] in html
    assert "epsilon 0.01" in html
    assert "No account counts this release." in html


def test_a_styled_plan_has_its_verdicts():
    """The table of a plan has a row for each number, with its bar, its verdict, and the guarantee below."""
    plan = batch().group_by("day").private_sum("on", "load").plan(pf.Pure(0.05))
    html = plan.style.as_raw_html()
    assert html.count("useless") == 3
    assert "epsilon 0.05" in html


def test_a_missing_extra_is_named(monkeypatch):
    """Without the libraries the error names the extra that brings them; the rest works."""
    release = batch().private_sum("on").release(epsilon=5.0)
    real = builtins.__import__

    def without(name, *rest):
        if name in {"altair", "great_tables"}:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(pf.UsageError, match=r"Charts need altair(.|\n)*\.\[notebook\]"):
        release.plot()
    with pytest.raises(pf.UsageError, match=r"great_tables(.|\n)*\.\[notebook\]"):
        _ = release.style
    assert "±" in release._repr_html_()
