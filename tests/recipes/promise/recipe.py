"""A promise: χ²-privacy, which bounds the variance of the likelihood ratio; e^D_2 = 1 + χ², so it is one of order 2."""

from pathlib import Path

from recipes import after, at_the_door, each

ROW = "a promise"
CODE = (Path(__file__).parent / "chi_squared.txt").read_text(encoding="utf-8")
CHANGED = {
    **at_the_door("guarantees", "ChiSquared"),
    "pufferflow/guarantees.py": each(
        after(
            '"epsilon": lambda given: finite_number_at_least_zero(given, "epsilon"),\n',
            "    " + '"chi2": lambda given: finite_number_at_least_zero(given, "chi2"),\n',
        ),
        lambda text: text.replace("\nif TYPE_CHECKING:\n    Promise", f"\n{CODE}\n\nif TYPE_CHECKING:\n    Promise"),
        after("RenyiCurve | ApproxRenyi", " | ChiSquared"),
    ),
    "tests/test_every_noise_and_promise.py": after(
        'UNNAMED_NOISES, UNNAMED_PROMISES = {"GeneralizedCauchy", "Staircase"}, {"RenyiCurve"', ', "ChiSquared"'
    ),
    "tests/test_guarantees.py": after("    pf.ApproxRenyi(4, 0.3, 1e-3),\n", "    pf.ChiSquared(0.5),\n"),
}
CONTRACTS = [
    ["pufferflow/guarantees.py", "tests/test_door.py", "tests/test_guarantees.py"],
    ["tests/test_every_noise_and_promise.py", "-k", "ChiSquared"],
]
