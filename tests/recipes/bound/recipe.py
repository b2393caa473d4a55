"""A bound: movements rounded up to powers of two, between GWM and group privacy."""

from recipes import after, each, with_public_name

ROW = "a bound"
ADDED = {"coarse.py": "pufferflow/calibration/coarse.py"}
CHANGED = {
    **with_public_name("calibration.coarse", "Coarse", "bounds-and-calibration"),
    "pufferflow/calibration/bound_names.py": each(
        after(
            "from pufferflow.calibration.bound import Bound\n",
            "from pufferflow.calibration.coarse import Coarse\n",
        ),
        after('    "messages", "windows"', ', "coarse"'),
        after("    GWM,\n", "    Coarse,\n"),
    ),
    "pufferflow/reports/templates/meanings.html": after(
        "{% set meanings = {\n",
        '  "Coarse": "Like GWM, but with movements rounded up to powers of two (M3).",\n',
    ),
    "tests/calibration/test_order.py": after("pf.DAGWM(), pf.GWM(), ", "pf.Coarse(), "),
}
CONTRACTS = [
    ["pufferflow/calibration/coarse.py", "tests/test_public_names.py"],
    ["tests/calibration/test_order.py"],
]
