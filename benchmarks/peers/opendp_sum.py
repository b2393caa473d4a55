"""The grouped sum with OpenDP, in two ways; both know which rows there are, as the product does (`lengths`).

- `documented`: its Context, which searches for the noise, and `collect`, which takes Polars' engine in memory.
- `quickest`: the measurement made by hand with the noise that the search finds, and collected by the streaming engine,
  which OpenDP allows to those who guarantee to collect only once (`honest-but-curious`).
"""

import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib", "honest-but-curious")
MARGIN = dp.polars.Margin(by=["key"], max_length=2**20, max_groups=1000, invariant="lengths")
BOUNDS = (0, 3)
EPSILON = 1.0


def documented(path: str) -> pl.DataFrame:
    """Release the sum as the documentation does."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(changes=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON),
        split_evenly_over=1,
        margins=[MARGIN],
    )
    return (
        context.query()
        .group_by("key")
        .agg(pl.col("level").fill_null(0).dp.sum(BOUNDS))
        .release()
        .collect()
    )


def quickest(path: str) -> pl.DataFrame:
    """Release the sum with everything known beforehand."""
    rows = pl.scan_parquet(path)
    columns = [
        dp.series_domain(name, dp.option_domain(dp.atom_domain(T="i32")))
        for name in ("key", "level")
    ]
    domain = dp.with_margin(dp.lazyframe_domain(columns), MARGIN)
    scale = (BOUNDS[1] - BOUNDS[0]) / EPSILON
    asked = pl.LazyFrame(schema=rows.collect_schema()).group_by("key")
    plan = asked.agg(pl.col("level").fill_null(0).dp.sum(BOUNDS, scale=scale))
    made = dp.m.make_private_lazyframe(
        domain, dp.symmetric_distance(), dp.max_divergence(), plan, global_scale=1.0
    )
    if made.map(2) > EPSILON:  # a change is a row less and a row more
        raise ValueError(made.map(2))
    return made(rows).lazy().collect(engine="streaming")


WORKS = {work.__name__: work for work in (documented, quickest)}

if __name__ == "__main__":
    *served, name, source = sys.argv[1:]
    if served:
        for _ in sys.stdin:
            WORKS[name](source)
            print("done", flush=True)
    else:
        WORKS[name](source)
