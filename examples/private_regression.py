"""One regression under three priors: the same guarantee, and what each prior costs in accuracy.

Meters of 500 households, a day each: consumption explained by temperature and occupancy, all of them private. Hours of
a household resemble each other. Run as `python examples/private_regression.py`.
"""

import numpy as np
import polars as pl

import pufferflow as pf

HOUSEHOLDS, HOURS, PHI = 500, 24, 0.5
COLUMNS = {"temperature": (-10, 30), "occupancy": (0, 6), "load": (0, 10)}


def generated() -> pl.DataFrame:
    """Return the hours of all households."""
    rng = np.random.default_rng(22)
    state = rng.normal(size=(HOUSEHOLDS, HOURS, 3))
    for hour in range(1, HOURS):
        state[:, hour] = PHI * state[:, hour - 1] + np.sqrt(1 - PHI**2) * state[:, hour]
    temperature, occupancy = 10 + 6 * state[..., 0], 3 + state[..., 1]
    load = 4 - 0.1 * temperature + 0.6 * occupancy + 0.5 * state[..., 2]
    columns = zip(COLUMNS, (temperature, occupancy, load), strict=True)
    keys = {
        "household": np.repeat(np.arange(HOUSEHOLDS), HOURS),
        "hour": np.tile(np.arange(HOURS), HOUSEHOLDS),
    }
    return pl.DataFrame(keys | {name: values.ravel() for name, values in columns})


def main() -> None:
    """Fit ridge regression under each prior, and print what comes out."""
    rows = generated()
    secrets = [pf.Secret(name, pf.Interval(low, high)) for name, (low, high) in COLUMNS.items()]
    beliefs = {
        "rows are independent (ordinary differential privacy)": pf.Independent(),
        "hours resemble each other": pf.GaussianPrior(
            pf.AR1(PHI), across=np.diag([36.0, 1.0, 0.97])
        ),
        "any correlation (group privacy)": pf.AnyCorrelation(),
    }
    for words, belief in beliefs.items():
        scenario = pf.Scenario(secrets, belief, within="household", order_by="hour")
        model = pf.learning.PrivateRidge(scenario, pf.Approx(1.0, 1e-6)).fit(rows, y="load")
        slopes = ", ".join(f"{slope:.3f}" for slope in model.coef_)
        expected = model.plan_.expected_error
        print(
            f"{words}: {slopes} (R² {model.score(rows, 'load'):.3f}, expected error by noise {expected:.3f})"
        )
    print(model.certificate_)


if __name__ == "__main__":
    main()
