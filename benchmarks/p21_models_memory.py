"""P21: the memory of a process that fits a model to 4·10⁶ rows of 20 features of a file, beside Polars and the table.

Sums of products are added up as rows come; a descent visits rows of a file of its own. What remains, whatever the
number of rows, is what Polars reads ahead of whoever takes the rows; smaller batches of Polars make that less. Beside
them is a process in which Polars adds up the products of the target, and the numbers of the table by themselves.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, report
from processes import peak

ROWS, FEATURES, AT_ONCE = 4_000_000, 20, 1 << 17
NAMES = [f"x{place}" for place in range(FEATURES)]
TABLE = ROWS * (FEATURES + 1) * 8 / 2**20
FITS = {
    "sums": "ridge by noisy sums",
    "descent": "descent, one pass",
    "steps": "descent, settings that are auto",
}


def make(folder: Path) -> Path:
    """Write the rows, some at a time, the same ones every time."""
    rng, path = np.random.default_rng(12), folder / "rows.parquet"
    weights, parts = rng.normal(size=FEATURES) / 8, folder / "parts"
    parts.mkdir()
    for part in range(-(-ROWS // AT_ONCE)):
        features = rng.uniform(-1, 1, (min(AT_ONCE, ROWS - part * AT_ONCE), FEATURES))
        target = np.clip(features @ weights, -1, 1)
        frame = pl.DataFrame({**dict(zip(NAMES, features.T, strict=True)), "y": target})
        frame.write_parquet(parts / f"{part:04}.parquet")
    pl.scan_parquet(parts / "*.parquet").sink_parquet(
        path, row_group_size=AT_ONCE, engine="streaming"
    )
    return path


def plain(path: str) -> None:
    """Add up products in Polars, without privacy."""
    products = [(pl.col(name) * pl.col("y")).sum().alias(name) for name in NAMES]
    pl.scan_parquet(path).select(products).collect(engine="streaming")


def fit(work: str, path: str) -> None:
    """Fit a model."""
    import pufferflow as pf

    scenario = pf.Scenario(
        [pf.Secret(name, pf.Interval(-1, 1)) for name in (*NAMES, "y")], pf.Independent()
    )
    promise = pf.Approx(1.0, 1e-6)
    if work == "sums":
        model = pf.learning.PrivateRidge(scenario, promise, solver="sums")
    else:
        once = {"batch_size": 1000, "passes": 1, "step_size": 0.03} if work == "descent" else {}
        model = pf.learning.PrivateSGDRegressor(scenario, promise, **once)
    model.fit(pl.scan_parquet(path), y="y")


def main() -> None:
    """Measure every fit, with batches as Polars has them, and with small ones."""
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder))
        polars = peak([sys.executable, __file__, "plain", path])
        for work, words in FITS.items():
            found = peak([sys.executable, __file__, work, path])
            small = peak([sys.executable, __file__, work, path, "20000"])
            rows += [
                Row(
                    f"{words}, MiB", "Polars adds up products", found, polars, found / polars, None
                ),
                Row(
                    f"{words}, small batches of Polars, MiB",
                    "the table",
                    small,
                    TABLE,
                    small / TABLE,
                    1.5,
                ),
            ]
    report("p21_models_memory", rows)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        work, path, *batch = sys.argv[1:]
        if batch:
            pl.Config.set_streaming_chunk_size(int(batch[0]))
        plain(path) if work == "plain" else fit(work, path)
