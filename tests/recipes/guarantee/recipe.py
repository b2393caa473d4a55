"""A guarantee: χ²-privacy, which bounds the variance of the likelihood ratio.

E^D_2 = 1 + χ², so it is one of order 2.
"""

from recipes import after, with_public_name

ROW = "a guarantee"
ADDED = {"chi_squared.py": "pufferflow/privacy/chi_squared.py"}
CHANGED = {
    **with_public_name("privacy.chi_squared", "ChiSquared", "guarantees"),
    "pufferflow/privacy/__init__.py": after(
        "from pufferflow.privacy import renyi as renyi\n",
        "from pufferflow.privacy import chi_squared as chi_squared\n",
    ),
    "tests/test_every_noise_and_guarantee.py": after(
        'UNNAMED_PROMISES = {"RenyiCurve"', ', "ChiSquared"'
    ),
    "tests/privacy/test_guarantees.py": after(
        "    pf.ApproxRenyi(4, 0.3, 1e-3),\n", "    pf.ChiSquared(0.5),\n"
    ),
}
CONTRACTS = [
    ["pufferflow/privacy", "tests/test_public_names.py", "tests/privacy/test_guarantees.py"],
    ["tests/test_every_noise_and_guarantee.py", "-k", "ChiSquared"],
]
