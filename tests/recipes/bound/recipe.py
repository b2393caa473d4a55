"""A bound: movements rounded up to powers of two, between GWM and group privacy."""

from recipes import after, at_the_door, each

ROW = "a bound"
ADDED = {"coarse.py": "pufferflow/bounds/coarse.py"}
CHANGED = {
    **at_the_door("bounds", "Coarse"),
    "pufferflow/bounds/__init__.py": each(
        after("from pufferflow.bounds.dagwm import DAGWM\n", "from pufferflow.bounds.coarse import Coarse\n"),
        after('    "Calibration",\n', '    "Coarse",\n'),
        after('Literal["messages", "gwm"', ', "coarse"'),
        after("Kantorovich, GWM", ", Coarse"),
    ),
    "tests/bounds/test_order.py": after("pf.DAGWM(), pf.GWM(), ", "pf.Coarse(), "),
}
CONTRACTS = [["pufferflow/bounds/coarse.py", "tests/test_door.py"], ["tests/bounds/test_order.py"]]
