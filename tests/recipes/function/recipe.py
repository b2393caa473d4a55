"""A function that expressions may use: arcsinh, which gives a number for every number."""

from recipes import after

ROW = "a function that expressions may use"
CHANGED = {
    "pufferflow/queries/expressions/functions.py": after(
        '"sin cos tan cot arcsin arccos arctan sinh cosh tanh', " arc_sinh"
    ),
    "tests/queries/expressions/test_never_fails.py": after(
        '    c("real").log().sqrt().round_sig_figs(2),\n', '    c("real").arcsinh(),\n'
    ),
}
CONTRACTS = [
    ["tests/queries/expressions/test_never_fails.py", "-k", "arcsinh or ARCSINH or let_through"]
]
