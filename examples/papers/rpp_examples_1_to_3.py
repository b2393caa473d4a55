"""Examples 1, 2 and 3 of "Rényi Pufferfish Privacy": data sets of two rows, on which the paper compares its mechanisms.

Example 1 counts two correlated rows, Example 2 averages two salaries of which one may be rare, Example 3 sums two
values with ranges of their own. Run it as `python examples/papers/rpp_examples_1_to_3.py [FILE.svg]`; without
matplotlib (`pip install ".[report]"`) it prints the tables alone.
"""

import math
from typing import Any

import numpy as np
import polars as pl
from side_by_side import SAME, Row, number, save_picture, show

import pufferflow as pf

ORDER_2 = pf.Renyi.of(alpha=2)
CAUCHY = pf.GeneralizedCauchy(1.0, k=2)
CORRELATIONS = (0.6, 0.25, 0.0, -0.4)
SALARIES = {1: 0.5, 2: 0.499, 100: 0.001}
OUTLIER = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
FALLS = "printed for ρ in [−1, 1]; it is 1 − |ρ| where ρ < 0"
ONE_CLOSER = "it is 2 for ρ > 0 alone, and 1 for −1 < ρ ≤ 0"


def two_rows(correlation: float, share: float = 0.5) -> pf.Laws:
    """Return the laws of X₁ + X₂, where P(X = 1) is the share and the two rows have a correlation."""
    after_0, after_1 = share * (1 - correlation), share + correlation * (1 - share)
    chain = pf.MarkovChain([[1 - after_0, after_0], [1 - after_1, after_1]])
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), chain, order_by="t")
    return pf.laws(scenario, pf.Statistic.total(2))


def loss(correlation: float, bound: pf.Bound) -> float:
    """Return the Rényi loss of order 2 of the count with Cauchy noise of scale 1."""
    return pf.loss(two_rows(correlation), CAUCHY, ORDER_2, bound=bound)


def example_1() -> list[Row]:
    """Return the distances and losses of the count of two rows."""
    rows = []
    for rho in CORRELATIONS:
        laws = two_rows(rho)
        squared = max(pf.wasserstein(*pair, 2) ** 2 for pair in laws)
        moved = laws.winf(1).length
        rows += [
            Row(
                f"ρ = {rho:g}: W₂²", number(1 + 3 * rho), number(squared), FALLS * (rho < 0) or SAME
            ),
            Row(f"ρ = {rho:g}: Δ_G", "2", f"{moved:g}", SAME if moved == 2 else ONE_CLOSER),
        ]
    printed = math.log(1 + 1 + 3 * 0.25)
    argument = "printed with 1 + z²/λ²; Cauchy noise has 1 + z²/(2λ²)"
    rows += [
        Row(
            "ρ = 0.25: loss by DAGWM, λ = 1",
            number(printed),
            number(loss(0.25, pf.DAGWM())),
            argument,
        ),
        Row(
            "ρ = 0.25: loss by GWM, λ = 1",
            number(math.log(5)),
            number(loss(0.25, pf.GWM())),
            argument,
        ),
        Row(
            "ρ = 0.25: true loss, λ = 1",
            "not given",
            number(loss(0.25, pf.Exact())),
            "for comparison",
        ),
    ]
    return rows


def example_2() -> list[Row]:
    """Return the distances between the laws of the mean salary, and a pair of laws that shows what was meant."""
    table = {"salary": list(SALARIES), "probability": list(SALARIES.values())}
    secret = pf.Secret("salary", domain=list(SALARIES), missing=1)
    laws = pf.laws(pf.Scenario(secret, pf.Table(table)), pf.Statistic.mean(2))
    far = max(pf.winf(*pair) for pair in laws)
    near = max(pf.near(*pair, 0.003) for pair in laws)
    return [
        Row("Δ_G", "98", f"{far:g}", "a mean of two moves by (100 − 1)/2"),
        Row(
            "Δ_G,δ at δ = 0.003",
            "1",
            f"{near:g}",
            "given that a salary is 100, it is not rare: nothing can be left out",
        ),
        Row("outlier: Δ_G", "–", f"{pf.winf(*OUTLIER):g}", "laws that do show the gain (ours)"),
        Row("outlier: Δ_G,δ at δ = 0.003", "–", f"{pf.near(*OUTLIER, 0.003):g}", "the same laws"),
    ]


def example_3() -> list[Row]:
    """Return how far the sum of two values with ranges 3 and 5 moves, whatever the correlation."""
    rows = pl.DataFrame({"share": [0.3, 0.5], "range": [3.0, 5.0]})
    secret = pf.Secret("share", domain=pf.Interval(0, 1), missing=0)
    batch = pf.protect(rows, pf.Scenario(secret, pf.AnyCorrelation(), public=["range"]))
    total = batch.private_sum(pl.col("share") * pl.col("range"), name="total")
    compared = total.plan(pf.Pure(1.0)).compare()
    scales = dict(compared.select("bound", "scale").iter_rows())
    value = pf.Secret("value", domain=pf.Interval(0, 5), missing=0)
    scenario = pf.Scenario(value, pf.AnyCorrelation(), order_by="t")
    one_range = pf.laws(scenario, pf.Statistic.total(2))
    return [
        Row(
            "ranges 3 and 5: Δ_G",
            "≤ r₁ + r₂ = 8",
            number(scales["GWM(norm=None)"]),
            "same; rounded up by the grid of the answer",
        ),
        Row(
            "one range 5 for both: Δ_group",
            "2r = 10",
            number(one_range.span(1).length),
            "same; with ranges that are public, group privacy needs 8 as well",
        ),
    ]


def draw(figure: Any) -> None:
    """Draw Example 1's losses against the correlation, and Example 2's distance against δ."""
    left, right = figure.subplots(1, 2)
    correlations = np.sort([*np.linspace(-0.95, 0.95, 39), 1e-3])
    for label, bound in (("GWM", pf.GWM()), ("DAGWM", pf.DAGWM()), ("true loss", pf.Exact())):
        left.plot(correlations, [loss(rho, bound) for rho in correlations], label=label)
    positive = correlations[correlations > -1 / 3]
    left.plot(
        positive, np.log(2 + 3 * positive), color="gray", linestyle="--", label="DAGWM as printed"
    )
    left.set(
        title="Example 1, Cauchy noise, λ = 1", xlabel="correlation ρ", ylabel="Rényi loss, α = 2"
    )
    left.legend()
    shares = np.geomspace(1e-4, 0.5, 200)
    right.step(shares, [pf.near(*OUTLIER, float(share)) for share in shares], where="post")
    right.set(
        title="Example 2's idea: distance but for a share δ",
        xlabel="δ",
        ylabel="Δ_G,δ",
        xscale="log",
        yscale="symlog",
        ylim=(-0.1, 100),
    )


def main() -> None:
    """Print the three examples beside what the paper says, and draw two of them."""
    show("Example 1: a count of two correlated rows", example_1())
    show("Example 2: the mean of two salaries", example_2())
    show("Example 3: a sum with a range for each user", example_3())
    save_picture(draw, "rpp_examples_1_to_3.svg")


if __name__ == "__main__":
    main()
