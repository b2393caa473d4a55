"""A guarantee: χ²-privacy, which bounds the variance of the likelihood ratio.

E^D_2 = 1 + χ², so it is one of order 2.
"""

from recipes import after, at_the_door, each

ROW = "a guarantee"
ADDED = {"chi_squared.py": "pufferflow/guarantees/chi_squared.py"}
CHANGED = {
    **at_the_door("guarantees", "ChiSquared"),
    "pufferflow/guarantees/__init__.py": each(
        after("from typing import TYPE_CHECKING\n\n", "from pufferflow.guarantees.chi_squared import ChiSquared\n"),
        after('    "ApproxRenyi",\n', '    "ChiSquared",\n'),
    ),
    "tests/test_every_noise_and_promise.py": after('UNNAMED_PROMISES = {"RenyiCurve"', ', "ChiSquared"'),
    "tests/test_guarantees.py": after("    pf.ApproxRenyi(4, 0.3, 1e-3),\n", "    pf.ChiSquared(0.5),\n"),
}
CONTRACTS = [
    ["pufferflow/guarantees", "tests/test_door.py", "tests/test_guarantees.py"],
    ["tests/test_every_noise_and_promise.py", "-k", "ChiSquared"],
]
