"""An aggregate: Σ φ(x)², a noisy sum of another function, so that only its words and its method are new."""

from recipes import after, each, instead

ROW = "an aggregate"
CLASS = '''
@final
@dataclass(frozen=True)
class SumOfSquares(Query):
    """Σ φ(x)²."""

    @classmethod
    def of(cls, name: str, values: Values) -> "SumOfSquares":
        return cls(name, (values.squared(Fraction(0)),), f"the sum of squares of {values.words}")


'''
METHOD = '''
    def private_sum_of_squares(self, column: ColumnOrExpr, name: str | None = None) -> "Batch":
        """Ask for the sum of squares of a column, or of a function of it.

        >>> _example().private_sum_of_squares("level").request.outputs
        ('level_squares',)
        """
        values = self._read(column)
        return self._asking(SumOfSquares.of(answer_name(name, values, "squares"), values))

'''
CHANGED = {
    "pufferflow/queries/aggregates.py": each(
        after(
            "from dataclasses import dataclass, field, replace\n",
            "from fractions import Fraction\n",
        ),
        instead(
            "\n@final\n@dataclass(frozen=True)\nclass Mean(Query)",
            f"{CLASS}@final\n@dataclass(frozen=True)\nclass Mean(Query)",
        ),
    ),
    "pufferflow/release/batch.py": each(
        after("    Quantile,\n    Sum,\n", "    SumOfSquares,\n"),
        instead("\n    def private_mean(", f"{METHOD}    def private_mean("),
    ),
    "docs/reference/queries.md": after(
        "| `private_sum(column)` | Σ φ(x); [`bounds`](#bounds-of-groups) by group | on the sum |\n",
        "| `private_sum_of_squares(column)` | Σ φ(x)² | on the sum of squares |\n",
    ),
    "tests/release/test_release.py": each(
        after(
            '        .private_quantile("level", 0.5)\n        .private_histogram("level")\n',
            '        .private_sum_of_squares("level")\n',
        ),
        after(
            '*[(x == v).sum().alias(f"level_histogram_{v}") for v in range(4)],\n',
            '            (x**2).sum().alias("level_squares"),\n',
        ),
    ),
}
CONTRACTS = [
    ["pufferflow/release/batch.py"],
    ["tests/release/test_release.py", "-k", "every_query"],
]
