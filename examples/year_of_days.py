"""A year of daily releases of hourly states on one account, and their cost by three ways of counting.

The data is made up: 40 houses that are occupied or not, hour by hour. A house that is occupied tends to stay so, which
everybody knows; what must stay hidden is the state of any house in any hour. Every day the number of occupied hours
is published, and an account totals the loss of all days. Adding up the losses of single days, as differential
privacy would, is no proof here and still charges more and more; group privacy is a proof and charges 24 hours a day;
messages along the chain (M20) are a proof, and their total converges.

Run it as `python examples/year_of_days.py [days] [picture.png]`. It needs matplotlib: pip install '.[report]'.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl

import pufferflow as pf

HOUSES, STAY, SCALE = 40, 0.9, 10.0


def days_of_states(days: int, rng: np.random.Generator) -> list[pl.DataFrame]:
    """Return what a job finds every morning: the hours of the day before, of every house."""
    leaves = rng.random((HOUSES, days * 24)) > STAY
    states = (rng.integers(0, 2, (HOUSES, 1)) + leaves.cumsum(axis=1)) % 2
    return [
        pl.DataFrame(
            {
                "house": np.repeat(np.arange(HOUSES), 24),
                "hour": np.tile(np.arange(day * 24, day * 24 + 24), HOUSES),
                "occupied": states[:, day * 24 : day * 24 + 24].ravel(),
            }
        )
        for day in range(days)
    ]


def main() -> None:
    """Publish every day of the year on one account, then print and draw what it cost."""
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 365
    picture = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("year-of-days.png")
    scenario = pf.Scenario(
        secret=pf.Secret("occupied", domain=[0, 1], missing=0),
        prior=pf.MarkovChain([[STAY, 1 - STAY], [1 - STAY, STAY]]),
        order_by="hour",
        within="house",
    )
    frames = days_of_states(days, np.random.default_rng(5))
    first = (
        pf.protect(frames[0], scenario)
        .private_sum("occupied")
        .plan(accuracy=pf.Within(30, confidence=0.95))
    )
    alone, group = first.guarantee.epsilon, 24 / first.noises["occupied_sum"].scale
    spent = list[float]()
    with tempfile.TemporaryDirectory() as folder, pf.Ledger(Path(folder) / "ledger.db") as ledger:
        account = ledger.open("occupancy", scenario, limit=pf.Pure(1.0))
        forecast = account.forecast(first, every=24)
        for day, frame in enumerate(frames):
            plan = pf.protect(frame, scenario).private_sum("occupied").plan(first.guarantee)
            plan.release(account, id=f"day-{day}")
            spent.append(account.spent().epsilon)
        entries = ledger.verify().entries
    print(
        f"{days} daily releases, each within 30 of the truth with probability 95 %, {entries} entries in the ledger"
    )
    print(f"one day alone                          {alone:.4f}")
    print(f"all days, losses added up (no proof)   {alone * days:.1f}")
    print(f"all days, group privacy                {group * days:.1f}")
    print(f"all days, messages along the chain     {spent[-1]:.4f}")
    print(f"for ever                               {forecast.total:.4f} by {forecast.rule}")
    draw(np.array(spent), alone, group, forecast.total, picture)
    print(f"The picture: {picture}")


def draw(spent: np.ndarray, alone: float, group: float, forever: float, picture: Path) -> None:
    """Draw what is spent after every day."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    days = np.arange(1, len(spent) + 1)
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    lines = [
        (group * days, "group privacy", "#b35900", "-", 14),
        (alone * days, "losses added up (no proof)", "#6a6a6a", "--", -18),
        (spent, f"messages along the chain ({forever:.3f} for ever)", "#00629b", "-", 8),
    ]
    for totals, label, colour, style, height in lines:
        axes.plot(days, totals, color=colour, linestyle=style, linewidth=2)
        axes.annotate(
            f"{totals[-1]:.3g}",
            (days[-1], totals[-1]),
            (5, 0),
            textcoords="offset points",
            va="center",
        )
        middle = len(days) // 2
        axes.annotate(
            label,
            (days[middle], totals[middle]),
            (0, height),
            textcoords="offset points",
            color=colour,
        )
    axes.set(
        xlabel="days",
        ylabel="total ε",
        yscale="log",
        title=f"What {len(days)} daily releases reveal about one hour",
    )
    axes.set_ylim(top=float(group * days[-1]) * 3)
    axes.set_xlim(right=len(days) * 1.12)
    figure.savefig(picture, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
