"""Publish the daily load of a district, although every hour of a meter depends on the hours around it.

The data is made up: meters whose power level (0 to 3) follows a Markov chain with a daily cycle. What must stay hidden
is the level of any meter in any hour. The chain that is the adversary's prior is public; so are the meters, hours
and districts. The release is charged to an account in a ledger, a SQLite file: a second run of the example returns
the same release, draws no noise and charges nothing.

Run it as `python examples/district_of_meters.py [report.html [ledger.db]]`: it prints the story and writes a report.
"""

import math
import sys

import polars as pl

import pufferflow as pf

METERS, DAYS, LEVELS, START = 300, 7, [0, 1, 2, 3], "2026-11-02"

SCENARIO = pf.Scenario(
    secret=pf.Secret("level", domain=LEVELS, missing=0),
    prior=pf.MarkovChain(pf.examples.district_kernels(), period=24),
    order_by="hour",
    step="1h",
    within="meter",
    public=["district"],
)


def say(text: str) -> None:
    """Print a text of the story, in lines that fit a terminal of 80 columns."""
    sys.stdout.write(f"{text.strip(chr(10))}\n\n")


def guess(epsilon: float) -> str:
    """Return how sure somebody can become who was 50 % sure before, rounded up."""
    share = 100 / (1 + math.exp(-epsilon))
    return "more than 99 %" if share > 99 else f"{math.ceil(10 * share) / 10:g} %"


def fold(epsilon: float) -> str:
    """Return by which factor odds can change, rounded up."""
    factor = math.exp(epsilon)
    return f"{math.ceil(factor):,}" if factor > 100 else f"{math.ceil(100 * factor) / 100:g}"


def spent(epsilon: float) -> str:
    """Return what is spent, rounded up."""
    return f"{math.ceil(1000 * epsilon - 1e-9) / 1000:.3f}"


def ordinary() -> None:
    """Say what the noise of ordinary differential privacy keeps on one day of a meter."""
    day = pf.laws(SCENARIO, pf.Statistic.total(24))
    kept = pf.loss(day, pf.Laplace(3.0), pf.Pure)
    say(f"""
1. Why ordinary differential privacy is not enough
   It hides one hour as if the other hours said nothing about it. For epsilon 1
   it adds noise of scale 3 to a day's sum. But a meter at level 3 at noon was
   probably there at 11, too. On such hours this noise only keeps epsilon {kept:.1f}:
     unrelated hours    odds change at most {fold(1.0)}-fold, 50 % becomes {guess(1.0)}
     hours of a meter   odds change {fold(kept)}-fold, 50 % becomes {guess(kept)}""")


def published(release: pf.Release) -> None:
    """Print the numbers, each with its error bar, and a bar chart of the load."""
    lines = ["   day          load            peaks"]
    rows = zip(
        release.frame.iter_rows(named=True), release.intervals.iter_rows(named=True), strict=True
    )
    largest = max(release.frame["load"].to_list())
    for row, bars in rows:
        load, peaks = (
            f"{row[name]:,.0f} ± {(bars[f'{name}_high'] - bars[f'{name}_low']) / 2:.0f}"
            for name in ("load", "peaks")
        )
        chart = "#" * max(round(30 * row["load"] / largest), 0)
        lines.append(f"   {row['day']}   {load:<13}   {peaks:<11}   {chart}".rstrip())
    say(
        "\n".join(["3. The published numbers, noise included", *lines])
        + """
   The number without noise lies within ± in 19 of 20 cases. # shows the load;
   peaks counts hours at level 3."""
    )


def main() -> None:
    """Print the story: the data, the protection, the noise, the numbers, the account, and the report."""
    rows = pf.examples.district(METERS, DAYS)
    say(f"""
A DISTRICT OF METERS: publish its daily load, protect each hour of each meter

   Data        {METERS} made-up meters, a level of 0 to 3 every hour for {DAYS} days.
               We publish load and peaks of the 200 in the north, by day.
   Protected   The level of any meter in any hour,
               from anybody who sees the numbers and knows how levels move.
   Not hidden  Which meters, hours and districts there are.""")
    ordinary()
    batch = (
        pf.protect(rows, SCENARIO)
        .filter(pl.col("district") == "north")
        .group_by(pl.col("hour").dt.date().alias("day"))
        .private_sum("level", name="load")
        .private_count(pl.col("level") >= 3, name="peaks")
    )
    plan = batch.plan(pf.Pure(1.0))
    scales = {name: noise.scale for name, noise in plan.noises.items()}
    ledger = pf.Ledger(sys.argv[2] if len(sys.argv) > 2 else "pufferflow-demo.db")
    account = ledger.open("district-north-2026", SCENARIO, limit=pf.Pure(2.0), dataset="meters")
    before = len(account.history())
    release = plan.release(account, id=f"week-{START}")
    limit, total = account.limit.epsilon, account.spent().epsilon
    evidence = plan.evidence(account, every="7d")
    left = next(case.epsilon for case in evidence.what_if if case.epsilon is not None)
    say(f"""
2. Noise for correlated hours
   We follow what an hour reveals about the hours around it, through all numbers
   of the week together. Laplace noise of scale {scales["load"]:.0f} on each load and {scales["peaks"]:.0f} on
   each count of peaks keeps epsilon 1: odds change at most {fold(1.0)}-fold.
   If the hours of a meter depend on each other in another way, little is left:
   epsilon {left:.2f}, and 50 % becomes {guess(left)}.""")
    published(release)
    year = spent(account.forecast(plan, every="7d", until="364d").total)
    endless = spent(account.forecast(plan, every="7d").total)
    again = "A second run returns the same numbers, draws no noise and charges nothing."
    if len(account.history()) == before:
        again = "This run returned the numbers of the first: no new noise, nothing charged."
    say(f"""
4. The account
   Epsilon {total:g} of {limit:g} is spent. A year of such weeks spends {year}, all weeks for
   ever {endless}: an hour reveals almost nothing about hours a week later.
   {again}""")
    place = sys.argv[1] if len(sys.argv) > 1 else "pufferflow-report.html"
    page = release.report(place, evidence=evidence)
    say(f"""
5. The report
   Open {page} in a browser.
   Its first screen is for the person who signs; charts and proofs follow.
   The ledger is whole. Keep its head elsewhere, to notice an older copy:
   {ledger.verify().head}""")


if __name__ == "__main__":
    main()
