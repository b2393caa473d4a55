"""How well private models predict where rows depend on each other, over 20 seeds: mean squared errors above the best.

600 people with 24 hours each, five features and a target that follow an autoregressive sequence within each person; the
promise is (1, 10⁻⁶) about every value of every hour, of people believed to be independent. Beside no privacy: the same
descent with group privacy (all hours of a person may change), ridge from sums with either belief, and diffprivlib's
regression with the ε that group privacy leaves it for each row, 1/24 (it keeps its own δ = 0). Then hourly
consumption of one household (`PUFFERFLOW_TABLES` names the folder), an autoregressive sequence, likewise.
"""

import json
import os
import statistics
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, report
from processes import python_with

import pufferflow as pf

PEOPLE, HOURS, FEATURES, SEEDS, PHI = 600, 24, 5, 20, 0.5
PEER = "diffprivlib==0.6.6"
PROMISE = pf.Approx(1.0, 1e-6)
NAMES = [f"x{place}" for place in range(FEATURES)]
_PEER_CODE = """
import json, sys, numpy as np, warnings
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
rows = np.load(sys.argv[1]); epsilon = float(sys.argv[2]); width = rows.shape[1] - 1
model = LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1)).fit(rows[:, :-1], rows[:, -1])
print(json.dumps([float(model.intercept_), *map(float, model.coef_)]))
"""


def generated(seed: int) -> pl.DataFrame:
    """Return hours of people, whose columns are autoregressive."""
    rng = np.random.default_rng(seed)
    shocks = rng.normal(size=(PEOPLE, HOURS, FEATURES + 1))
    for hour in range(1, HOURS):
        shocks[:, hour] = PHI * shocks[:, hour - 1] + np.sqrt(1 - PHI**2) * shocks[:, hour]
    features = np.clip(0.4 * shocks[..., :-1], -1, 1).reshape(-1, FEATURES)
    target = np.clip(features @ [0.4, -0.3, 0.2, 0.1, 0.0] + 0.1 * shocks[..., -1].reshape(-1), -1, 1)
    columns = dict(zip(NAMES, features.T, strict=True))
    return pl.DataFrame(
        {
            **columns,
            "y": target,
            "person": np.repeat(np.arange(PEOPLE), HOURS),
            "hour": np.tile(np.arange(HOURS), PEOPLE),
        }
    )


def excess(rows: pl.DataFrame, coefficients: np.ndarray, names: list[str]) -> float:
    """Return the mean squared error above that of the best linear model."""
    values = np.column_stack([np.ones(rows.height), rows.select(names).to_numpy()])
    target = rows["y"].to_numpy()
    best = np.linalg.lstsq(values, target, rcond=None)[0]
    return float(np.mean((values @ coefficients - target) ** 2) - np.mean((values @ best - target) ** 2))


def of_peer(python: Path, rows: pl.DataFrame, epsilon: float) -> np.ndarray | None:
    """Return diffprivlib's coefficients; None, and a word, where it does not run."""
    file = Path(python).parent / "rows.npy"
    np.save(file, rows.select(*NAMES, "y").to_numpy())
    done = subprocess.run([python, "-c", _PEER_CODE, file, str(epsilon)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{PEER} is left out: {done.stderr.strip().splitlines()[-1][:120]}")
        return None
    return np.array(json.loads(done.stdout))


def of_peers(python: Path, frames: list[pl.DataFrame]) -> list[float]:
    """Return diffprivlib's mean excess, as a list; empty where it does not run."""
    losses: list[float] = []
    for rows in frames:
        coefficients = of_peer(python, rows, 1.0 / HOURS)
        if coefficients is None:
            return []
        losses.append(excess(rows, coefficients, NAMES))
    return [statistics.mean(losses)]


def models(scenario: pf.Scenario, group: pf.Scenario) -> dict[str, object]:
    """Return the models by name; each is made for its own belief."""
    learning = pf.learning
    return {
        "descent (squares)": learning.PrivateSGDRegressor(scenario, PROMISE),
        "descent (squares), group": learning.PrivateSGDRegressor(group, PROMISE),
        "descent (Huber)": learning.PrivateSGDRegressor(scenario, PROMISE, loss="huber", width=0.3),
        "descent (Huber), group": learning.PrivateSGDRegressor(group, PROMISE, loss="huber", width=0.3),
        "sums": learning.PrivateRidge(scenario, PROMISE, solver="sums"),
        "sums, group": learning.PrivateRidge(group, PROMISE, solver="sums"),
    }


def measured(frames: list[pl.DataFrame], chosen: dict[str, object], names: list[str]) -> dict[str, float]:
    """Return the mean excess of each model over the frames."""
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for rows in frames:
        for name, model in chosen.items():
            model.fit(rows, y="y")
            coefficients = np.append(model.intercept_, model.coef_)
            found[name].append(excess(rows, coefficients, names))
    return {name: statistics.mean(values) for name, values in found.items()}


def household() -> tuple[pl.DataFrame, list[str]] | None:
    """Return a household's hours: consumption explained by that of the hour before and by the time of day."""
    folder = Path(os.environ.get("PUFFERFLOW_TABLES", "../shared/data"))
    file = folder / "household_power_hourly.parquet"
    if not file.is_file():
        print("The household is left out: PUFFERFLOW_TABLES names no folder with it.")
        return None
    table = pl.read_parquet(file)
    value = next(name for name, kind in table.schema.items() if kind.is_float())
    rows = table.select(pl.col(value).fill_null(strategy="forward").fill_null(0).alias("load")).with_row_index("hour")
    angle = 2 * np.pi * pl.col("hour") / 24
    most = 6.0
    rows = rows.with_columns(y=(pl.col("load").clip(0, most) / most * 2 - 1), sine=angle.sin(), cosine=angle.cos())
    return rows.select("hour", "y", "sine", "cosine"), ["sine", "cosine"]


def rows_of(found: dict[str, float], where: str) -> list[Row]:
    """Return each model beside the one with group privacy."""
    return [
        Row(
            f"{where}: {name}",
            "with group privacy",
            value,
            found[f"{name}, group"],
            value / found[f"{name}, group"],
            0.5,
        )
        for name, value in found.items()
        if f"{name}, group" in found
    ]


def main() -> None:
    """Measure excess losses, which stand where seconds do in other benchmarks."""
    secrets = [pf.Secret(name, pf.Interval(-1, 1)) for name in (*NAMES, "y")]
    belief = pf.GaussianPrior(pf.AR1(PHI), across=np.eye(FEATURES + 1))
    scenario = pf.Scenario(secrets, belief, within="person", order_by="hour")
    group = pf.Scenario(secrets, pf.AnyCorrelation(), within="person", order_by="hour")
    frames = [generated(seed) for seed in range(SEEDS)]
    rows = rows_of(measured(frames, models(scenario, group), NAMES), "generated")
    python = python_with("diffprivlib", PEER)
    found = [] if python is None else of_peers(python, frames)
    if found:
        own = rows[2].seconds
        rows.append(Row("generated: sums", f"{PEER}, 1/24 a row", own, found[0], own / found[0], None))
    real = household()
    if real is not None:
        table, names = real
        value, public = pf.Secret("y", pf.Interval(-1, 1)), ["sine", "cosine"]
        sequence = pf.Scenario(value, pf.GaussianPrior(pf.AR1(0.7)), order_by="hour", public=public)
        whole = pf.Scenario(value, pf.AnyCorrelation(), order_by="hour", public=public)
        chosen = models(sequence, whole)
        for model in chosen.values():
            model.set_params(features=names, bounds=(-1, 1))
        rows += rows_of(measured([table] * 3, chosen, names), "household")
    report("accuracy_of_models", rows)


if __name__ == "__main__":
    main()
