"""Pictures of releases: numbers with their bars, what decides noise, and which way to go."""

import math

import numpy as np
import polars as pl
from correlation import DEVICE, device, district
from sheet import Axis, Sheet, chart, picture

import pufferflow as pf


@picture
def a_week_with_bars() -> Sheet:
    """Draw a release of the tutorial: a week of daily totals, with what noise can have done."""
    rows = pf.examples.district().filter(pl.col("district") == "north")
    truth = (
        rows.group_by(pl.col("hour").dt.date().alias("day")).agg(pl.col("level").sum()).sort("day")
    )
    scenario = district(pf.examples.district_kernels())
    batch = pf.protect(rows, scenario).group_by(day=pl.col("hour").dt.date()).private_sum("level")
    noise = batch.plan(pf.Pure(1.0)).noises["level_sum"]
    drawn = np.random.default_rng(4).laplace(0, noise.scale, truth.height)
    bar = noise.scale * math.log(20)
    sheet = Sheet(
        "A release: every number stands within its bar",
        620,
        340,
        "Seven daily totals of 200 made-up meters with noise, each with a bar of "
        f"±{bar:.0f}. The true totals stand beside them; they are known here "
        f"because the data are made up.",
    )
    x, y = Axis(-0.5, 6.5, 60, 590), Axis(5000, 6600, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: f"{day:%-d %b}" for n, day in enumerate(truth["day"])},
        up={n: f"{n:,}" for n in (5000, 5400, 5800, 6200, 6600)},
        names=("day", "load of the district"),
    )
    for number, (exact, error) in enumerate(zip(truth["level"], drawn, strict=True)):
        shown = exact + error
        sheet.line([(x(number), y(shown - bar)), (x(number), y(shown + bar))], "first", wide=6)
        sheet.dot(x(number), y(shown), "first", size=6)
        sheet.dot(x(number) + 16, y(exact), "second", size=4)
    sheet.write(590, 60, "published, with its 95 % bar", "first", size=12, at="end")
    sheet.write(590, 44, "truth, never published", "second", size=12, at="end")
    return sheet


@picture
def pairs_of_secrets() -> Sheet:
    """Draw how far the answer moves between every two values of a secret."""
    scenario = district(pf.examples.district_kernels())
    rows = pf.examples.district(meters=1, days=1)
    found = pf.protect(rows, scenario).private_sum("level").plan(pf.Pure(1.0)).sensitivities()
    far = {
        (int(a), int(b)): float(value)
        for a, b, value in found.group_by("first", "second").agg(pl.col("w_inf").max()).iter_rows()
    }
    most = max(far.values())
    sheet = Sheet(
        "Which two values need the most noise?",
        460,
        390,
        "How far a day's sum can move (W∞) between every two levels of one hour; darker is farther. Levels 0 and 3 are "
        f"farthest apart, {most:.0f}.",
    )
    for a in range(4):
        sheet.write(88, 98 + 68 * a, f"level {a}", "quiet", size=12, at="end")
        sheet.write(130 + 72 * a, 352, f"level {a}", "quiet", size=12, at="middle")
        for b in range(4):
            share = far.get((a, b), far.get((b, a), 0.0))
            sheet.box(98 + 72 * a, 62 + 68 * b, 66, 62, "panel")
            if share:
                height = 62 * share / most
                sheet.box(98 + 72 * a, 62 + 68 * b + 62 - height, 66, height, "first")
                over, down = ("paper", 98) if height > 36 else ("ink", 82)
                sheet.write(
                    131 + 72 * a, down + 68 * b, f"{share:.0f}", over, at="middle", bold=True
                )
    sheet.write(
        240, 376, "W∞ of the day's sum, for two levels of one hour", "quiet", size=12, at="middle"
    )
    return sheet


@picture
def keys_that_the_data_chooses() -> Sheet:
    """Draw the threshold of keys."""
    people = pl.DataFrame(
        {"person": range(300), "town": ["Ulm"] * 99 + ["Bonn"] * 200 + ["Au"], "hours": 8.0}
    )
    there = pf.Scenario(
        pf.Presence("person", "hours", pf.Interval(0, 24), rows=1),
        pf.Independent(),
        public=["town"],
    )
    batch = pf.protect(people, there).group_by("town", keys="discover").private_sum("hours")
    above = float(batch.release(pf.Approx(1.0, 1e-6)).certificate.keys.above)
    counts = {"Bonn": 200, "Ulm": 99, "Au": 1}
    sheet = Sheet(
        "A group of one person must not appear",
        620,
        230,
        "Three towns with 200, 99 and 1 people. Only a town whose noisy number of people "
        f"is above {above:.0f} appears, so the "
        f"town with one person does not give this person away.",
    )
    x = Axis(0, 210, 80, 580)
    for number, (town, count) in enumerate(counts.items()):
        top = 56 + 44 * number
        sheet.write(70, top + 21, town, at="end")
        sheet.box(x(0), top, x(count) - x(0), 30, "first" if count > above else "warn")
        words = f"{count}: {'appears' if count > above else 'does not appear'}"
        inside = count > 190
        at = x(count) - 8 if inside else max(x(count), x(above)) + 8
        colour, end = ("paper", "end") if inside else ("ink", "start")
        sheet.write(at, top + 20, words, colour, size=12, at=end)
    sheet.line([(x(above), 48), (x(above), 190)], "ink", dashed=True)
    sheet.write(x(above) + 6, 208, f"threshold: {above:.0f}", "quiet", size=12)
    return sheet


@picture
def levers_of_noise() -> Sheet:
    """Draw what each lever does to the noise of one batch."""
    noises = levers()
    first = next(iter(noises.values()))
    sheet = Sheet(
        "What makes the noise smaller? One batch, one lever at a time",
        700,
        80 + 40 * len(noises),
        "The error bar of a total, in percent of it, after each lever: "
        + ", ".join(f"{name} {value:.1f} %" for name, value in noises.items())
        + ".",
    )
    for number, (name, value) in enumerate(noises.items()):
        top = 52 + 40 * number
        sheet.write(300, top + 18, name, at="end", bold=not number)
        sheet.box(310, top, 300 * value / first, 26, "first" if number else "rule")
        sheet.write(318 + 300 * value / first, top + 18, f"± {value:.2f} %", size=12, bold=True)
    sheet.write(310, 66 + 40 * len(noises), "error bar, in percent of the number", "quiet", size=12)
    return sheet


def levers() -> dict[str, float]:
    """Return the relative error bar of a day's total, as it is and after each lever."""
    total = 40 * 24 * 0.25
    base = device(DEVICE, within="house")

    def bar(days: int = 1, epsilon: float = 1.0) -> float:
        laws = pf.laws(base, pf.Statistic.total(24 * days))
        noise = pf.calibrate(laws, pf.Pure(epsilon)).noise
        return 100 * noise.scale * math.log(20) / (total * days)

    return {
        "any correlation (group privacy)": 100 * 24 * math.log(20) / total,
        "a prior that can be defended": bar(),
        "… and ε = 2 in place of 1": bar(epsilon=2.0),
        "… and a week in place of a day": bar(days=7),
        "… and 400 houses in place of 40": bar() / 10,
    }


@picture
def way_to_a_prior() -> Sheet:
    """Draw how a prior is chosen."""
    sheet = Sheet(
        "Which prior?",
        760,
        330,
        "A way to a prior: rows in an order with a public reference lead to a fitted "
        "Markov chain; groups without an order "
        "to a Gaussian prior or latent classes; unrelated rows to independence; where nothing can be defended, any "
        "correlation.",
    )
    sheet.labelled_box(20, 120, 170, 64, ["Are rows related?", "one unit, several rows"])
    ways = [
        ("no: a sample of strangers", ["pf.Independent()", "noise of differential privacy"]),
        (
            "yes, in an order: meters, steps",
            ["pf.MarkovChain.fit(reference)", "noise stops growing with time"],
        ),
        (
            "yes, in groups: households",
            ["pf.GaussianPrior.fit, pf.LatentClass.fit", "noise of a part of the group"],
        ),
        ("yes, and nothing is known", ["pf.AnyCorrelation()", "noise of the whole group"]),
    ]
    sheet.line([(190, 152), (205, 152)], "quiet")
    sheet.line([(205, 78), (205, 282)], "quiet")
    for number, (words, target) in enumerate(ways):
        middle = 78 + 68 * number
        sheet.arrow((205, middle), (452, middle), "quiet")
        sheet.labelled_box(456, middle - 26, 290, 52, target)
        sheet.write(218, middle - 7, words, "quiet", size=12)
    return sheet
