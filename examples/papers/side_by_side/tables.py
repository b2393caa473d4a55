"""The tables of RPP's Table 1: how often each value occurs beside each value of the secret.

Counts are embedded, so that scripts need no files. They are counts of columns of three public tables, all CC BY 4.0:

- student: final grade in mathematics by extra paid classes. P. Cortez and A. Silva, Student Performance, UCI Machine
  Learning Repository, doi:10.24432/C5TG7T, `student-mat.csv`.
- heart: age by diagnosis in Cleveland. A. Janosi, W. Steinbrunn, M. Pfisterer and R. Detrano, Heart Disease, UCI
  Machine Learning Repository, doi:10.24432/C52P4X, `processed.cleveland.data`.
- adult: income above 50,000 dollars by race. B. Becker and R. Kohavi, Adult, UCI Machine Learning Repository,
  doi:10.24432/C5XW20, `adult.data`.

With the folder of the tables as second argument, or in PUFFERFLOW_TABLES, they are counted anew from its files.
"""

import os
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

import pufferflow as pf

Counts = dict[Any, dict[int, int]]
TITLES = {
    "student": "Student: grade by paid classes",
    "heart": "Heart: age by diagnosis",
    "adult": "Adult: income above 50K by race",
}
SECRETS = {"student": "paid", "heart": "num", "adult": "race"}
VALUES = {"student": "g3", "heart": "age", "adult": "income_gt_50k"}
FILES = {
    "student": "student_mat.parquet",
    "heart": "heart_disease.parquet",
    "adult": "adult_train.parquet",
}


def counts_of(name: str) -> Counts:
    """Return how often each value occurs beside each secret, from the files if their folder is known."""
    folder = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("PUFFERFLOW_TABLES")
    return COUNTS[name] if folder is None else counted(Path(folder), name)


def counted(folder: Path, name: str) -> Counts:
    """Return the counts of a table's file."""
    rows = pl.scan_parquet(folder / FILES[name])
    if name == "heart":
        rows = rows.filter(pl.col("site") == "cleveland")
    keys = [SECRETS[name], VALUES[name]]
    found: Counts = {}
    for secret, value, count in rows.group_by(keys).len().sort(keys).collect().iter_rows():
        found.setdefault(secret, {})[int(value)] = count
    return found


def laws_of(name: str) -> dict[Any, pf.Law]:
    """Return the law of the value given each secret, as RPP takes it: the counts themselves."""
    return {
        secret: pf.Law.empirical(list(values), counts=list(values.values()))
        for secret, values in counts_of(name).items()
    }


def pairs_of(name: str) -> list[pf.Pair]:
    """Return the laws under any two secrets."""
    return [
        pf.Pair(mu, nu, secrets=(first, second))
        for (first, mu), (second, nu) in combinations(laws_of(name).items(), 2)
    ]


def prior_of(name: str) -> pf.Table:
    """Return the joint law of secret and value, as a prior about a row."""
    cells = [
        (secret, value, count)
        for secret, values in counts_of(name).items()
        for value, count in values.items()
    ]
    secrets, values, counts = zip(*cells, strict=True)
    masses = [count / sum(counts) for count in counts]
    return pf.Table(
        {SECRETS[name]: list(secrets), VALUES[name]: list(values), "probability": masses}
    )


COUNTS: dict[str, Counts] = {
    "student": {
        "no": {
            0: 30,
            5: 5,
            6: 9,
            7: 7,
            8: 12,
            9: 16,
            10: 26,
            11: 21,
            12: 19,
            13: 14,
            14: 14,
            15: 14,
            16: 12,
            17: 5,
            18: 6,
            19: 3,
            20: 1,
        },
        "yes": {
            0: 8,
            4: 1,
            5: 2,
            6: 6,
            7: 2,
            8: 20,
            9: 12,
            10: 30,
            11: 26,
            12: 12,
            13: 17,
            14: 13,
            15: 19,
            16: 4,
            17: 1,
            18: 6,
            19: 2,
        },
    },
    "heart": {
        0: {
            29: 1,
            34: 2,
            35: 2,
            37: 2,
            38: 1,
            39: 3,
            40: 1,
            41: 9,
            42: 7,
            43: 5,
            44: 8,
            45: 6,
            46: 4,
            47: 3,
            48: 4,
            49: 3,
            50: 4,
            51: 9,
            52: 9,
            53: 6,
            54: 10,
            55: 3,
            56: 5,
            57: 7,
            58: 7,
            59: 5,
            60: 3,
            61: 1,
            62: 4,
            63: 3,
            64: 6,
            65: 4,
            66: 4,
            67: 3,
            68: 2,
            69: 2,
            70: 1,
            71: 3,
            74: 1,
            76: 1,
        },
        1: {
            35: 2,
            40: 1,
            41: 1,
            43: 1,
            44: 1,
            45: 1,
            46: 2,
            47: 2,
            48: 1,
            49: 1,
            50: 1,
            51: 1,
            52: 2,
            53: 1,
            54: 2,
            56: 2,
            57: 7,
            58: 4,
            59: 4,
            60: 4,
            61: 3,
            62: 2,
            63: 2,
            64: 2,
            65: 2,
            67: 2,
            70: 1,
        },
        2: {
            42: 1,
            43: 1,
            44: 2,
            46: 1,
            51: 1,
            52: 1,
            54: 1,
            55: 1,
            56: 3,
            57: 1,
            58: 2,
            59: 4,
            60: 3,
            61: 3,
            62: 2,
            63: 2,
            65: 1,
            66: 2,
            67: 2,
            68: 1,
            69: 1,
        },
        3: {
            39: 1,
            40: 1,
            43: 1,
            45: 1,
            48: 2,
            49: 1,
            50: 1,
            51: 1,
            52: 1,
            53: 1,
            54: 3,
            55: 3,
            56: 1,
            57: 1,
            58: 4,
            59: 1,
            60: 1,
            62: 3,
            63: 1,
            64: 1,
            66: 1,
            67: 2,
            68: 1,
            70: 1,
        },
        4: {38: 1, 50: 1, 55: 1, 57: 1, 58: 2, 60: 1, 61: 1, 63: 1, 64: 1, 65: 1, 70: 1, 77: 1},
    },
    "adult": {
        "Amer-Indian-Eskimo": {0: 275, 1: 36},
        "Asian-Pac-Islander": {0: 763, 1: 276},
        "Black": {0: 2737, 1: 387},
        "Other": {0: 246, 1: 25},
        "White": {0: 20699, 1: 7117},
    },
}
