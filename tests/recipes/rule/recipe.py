"""A rule of composition: as many times the costliest release, which holds for every prior."""

from recipes import after, each

ROW = "a rule of composition"
ADDED = {
    "k_fold.py": "pufferflow/accounting/rules/k_fold.py",
    "test_k_fold.py": "tests/accounting/test_k_fold.py",
}
CHANGED = {
    "pufferflow/accounting/rules/choice.py": each(
        after(
            "from pufferflow.accounting.rules.markov import MessagesRule\n",
            "from pufferflow.accounting.rules.k_fold import KFoldRule\n",
        ),
        after("ConditionalRule(), JointRule()", ", KFoldRule()"),
    ),
    "docs/reference/accounts.md": each(
        after(
            "| one release alone | a single release about a unit: its guarantee | – |\n",
            "| as many times the costliest release (M7) | every prior, whatever rows have to do with each other | "
            "yes |\n",
        ),
        after(
            "| what | adaptive | why |\n| --- | --- | --- |\n",
            "| as many times the costliest release, over the movement of a group (M7) | yes | no release loses more "
            "than the costliest between any two data sets of a group, so no path does (M1, M7) |\n",
        ),
    ),
}
CONTRACTS = [
    ["tests/accounting/test_k_fold.py"],
    ["tests/accounting/test_totals.py", "tests/accounting/test_adaptive.py"],
]
