"""The noise of ordinary differential privacy that OpenDP asks for: the scales behind counts, sums and means, as JSON.

Units come and go with up to `rows` rows each; groups are known, their sizes are not.
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
    "sum and count": [pl.col("amount").fill_null(0).dp.sum(BOUNDS).alias("sum"), dp.len().alias("count")],
}


def scales(asked: str, rows: int) -> list[float]:
    """Return the scale of each noise of a query, in its order."""
    frame = pl.LazyFrame({"group": [0, 1], "amount": [1, 2]}, schema={"group": pl.Int32, "amount": pl.Int32})
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=rows),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["group"], max_length=10_000, max_groups=2, invariant="keys")],
    )
    noise = context.query().group_by("group").agg(ASKED[asked]).summarize()
    return noise["scale"].to_list()


if __name__ == "__main__":
    found = {f"{asked}, {rows}": scales(asked, rows) for asked in ASKED for rows in (1, 10)}
    json.dump(found, sys.stdout)
