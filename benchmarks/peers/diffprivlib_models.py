"""Linear and logistic regression by diffprivlib, for rows within [−1, 1] whose target is last (−1 and 1 are classes).

It reads a NumPy archive of `frames` (data sets, rows, columns), and JSON: a list of runs, each with its loss, the ε of
a row, and the penalty `C` of logistic regression. It prints the coefficients of each run on each data set, the
intercept first.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression


def fitted(rows: np.ndarray, run: dict[str, object], seed: int) -> list[float]:
    """Return the coefficients of a model."""
    features, target = rows[:, :-1], rows[:, -1]
    if run["loss"] == "logistic":
        longest = float(np.sqrt(features.shape[1]))
        model = LogisticRegression(
            epsilon=run["epsilon"], data_norm=longest, C=run["C"], random_state=seed
        )
    else:
        model = LinearRegression(
            epsilon=run["epsilon"], bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed
        )
    model.fit(features, target)
    return [float(np.ravel(model.intercept_)[0]), *np.ravel(model.coef_).tolist()]


def main() -> None:
    """Carry out all runs on all data sets."""
    warnings.simplefilter("ignore")
    frames = np.load(sys.argv[1])["frames"]
    for run in json.loads(sys.stdin.read()):
        print(
            json.dumps(
                {"coefficients": [fitted(rows, run, place) for place, rows in enumerate(frames)]}
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
