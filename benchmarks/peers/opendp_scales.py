"""The noise of ordinary differential privacy by OpenDP: the scales of counts, sums and means, as JSON.

Units come and go with up to `rows` rows each; groups are known, their sizes are not. Or with up to `rows` rows in each
of four groups, under zero-concentrated differential privacy with Gaussian noise.
"""

import json
import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
BOUNDS = (0, 100)
ASKED = {
    "count": [dp.len().alias("count")],
    "sum": [pl.col("amount").fill_null(0).dp.sum(BOUNDS).alias("sum")],
    "mean": [pl.col("amount").fill_null(0).dp.mean(BOUNDS).alias("mean")],
    "sum and count": [
        pl.col("amount").fill_null(0).dp.sum(BOUNDS).alias("sum"),
        dp.len().alias("count"),
    ],
}


GROUPS = 4


def scales(asked: str, rows: int, groups: int | None = None) -> list[float]:
    """Return the scale of each noise of a query, in its order; with `groups` units have rows in so many of them."""
    each = [dp.polars.Bound(by=["group"], per_group=rows, num_groups=groups)]
    frame = pl.LazyFrame(
        {"group": [0, 1], "amount": [1, 2]}, schema={"group": pl.Int32, "amount": pl.Int32}
    )
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=rows if groups is None else each),
        privacy_loss=dp.loss_of(epsilon=1.0) if groups is None else dp.loss_of(rho=0.5),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["group"], max_length=10_000, max_groups=9, invariant="keys")],
    )
    noise = context.query().group_by("group").agg(ASKED[asked]).summarize()
    return noise["scale"].to_list()


if __name__ == "__main__":
    found = {f"{asked}, {rows}": scales(asked, rows) for asked in ASKED for rows in (1, 10)}
    for asked in ("count", "sum"):
        found |= {f"{asked} by group, {rows}": scales(asked, rows, GROUPS) for rows in (1, 10)}
    json.dump(found, sys.stdout)
