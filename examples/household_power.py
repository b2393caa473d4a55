"""Measure how far one hour of one household moves a published count.

A household's power use goes up and down slowly: if it is high now, it was probably high an hour ago. So the secret
"was the use high at noon?" shows in all the hours around noon, and in every count over the day. This script builds the
two laws of such a count, one for each value of the secret, and measures how far they are apart: the distance that noise
has to hide. Run it as `python examples/household_power.py`.
"""

from fractions import Fraction

from rich.console import Console
from rich.table import Table

import pufferflow as pf

HOURS = 24
NOON = 12


def count_of_high_hours(stay: Fraction, secret: int) -> pf.Law:
    """Return the law of the number of high hours in a day, given whether noon was high.

    Every hour stays as the one before with probability `stay`. Given noon, the hours before and after are independent
    of each other, so both sides are followed step by step and then added.
    """
    sides: list[pf.Law] = []
    for hours in (NOON, HOURS - NOON - 1):
        given = [
            pf.Law.point(0),
            pf.Law.point(0),
        ]  # the law of the count on this side, given the hour next to it
        for _ in range(hours):
            given = [
                pf.Law.mixture(
                    [given[state].shift(state), given[1 - state].shift(1 - state)], [stay, 1 - stay]
                )
                for state in (0, 1)
            ]
        sides.append(given[secret])
    return sides[0].convolve(sides[1]).shift(secret)


def main() -> None:
    """Print the distances for days of growing memory."""
    table = Table(title=f"Count of high hours in a day of {HOURS}; secret: was noon high?")
    for column in ("hour to hour", "W_1", "W_2", "W_∞", "near, δ=5 %", "near, δ=20 %", "whole day"):
        table.add_column(column, justify="right")
    for percent in (50, 60, 70, 80, 90, 95):
        stay = Fraction(percent, 100)
        low, high = count_of_high_hours(stay, 0), count_of_high_hours(stay, 1)
        table.add_row(
            f"{percent} % same",
            f"{pf.wasserstein(low, high, p=1):.2f}",
            f"{pf.wasserstein(low, high, p=2):.2f}",
            f"{pf.winf(low, high):.0f}",
            f"{pf.near(low, high, delta=0.05):.0f}",
            f"{pf.near(low, high, delta=0.2):.0f}",
            f"{HOURS}",
        )
    console = Console()
    console.print(table)
    console.print(
        "Each number says how far the count moves when noon changes from low to high: on average (W_1, W_2), at most "
        "(W_∞), and at most if a share δ of the cases is left out (near). If hours were independent it would move by "
        "1; with memory it moves further, and noise made for independent rows is too small. W_∞ is what noise has to "
        "hide for a pure guarantee. The whole day (group privacy) is what it would have to hide if nothing were known "
        "about how hours depend on each other."
    )


if __name__ == "__main__":
    main()
