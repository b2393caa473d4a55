"""Expressions of public columns, for filters, groups and new columns: row by row, and of nothing else."""

from collections.abc import Collection
from typing import Final, cast

import polars as pl

from pufferflow.errors import Misuse
from pufferflow.expressions.allowed import PUBLIC, check
from pufferflow.expressions.names import short
from pufferflow.expressions.tree import Node, read_tree
from pufferflow.expressions.words import words
from pufferflow.reading import shown

_MAY_FAIL: Final = frozenset(
    {"replace_strict", "str.json_decode", "str.hex_decode", "str.base64_decode", "dt.replace_time_zone"}
)


def read_public(expression: str | pl.Expr, known: Collection[str], *, never_fails: bool = False) -> pl.Expr:
    """Return an expression that reads one row at a time and only public columns; the name of one stands for itself.

    `never_fails` refuses what stops at a value that it cannot convert: where it is secret which rows there are, that
    would tell of one.

    >>> read_public(pl.col("hour").dt.hour() >= 6, {"hour"}).meta.root_names()
    ['hour']
    """
    given = pl.col(expression) if isinstance(expression, str) else expression
    if not isinstance(cast(object, given), pl.Expr):
        raise Misuse(
            f"The expression is {shown(given)}.",
            allowed="a Polars expression of public columns",
            instead='pl.col("district") == "north"',
        )
    tree = read_tree(given)
    check(tree, PUBLIC)
    for name in tree.columns:
        if name not in known:
            some = ", ".join(short(repr(one), 40) for one in sorted(known)[:6])
            raise Misuse(
                f"The column {short(repr(name), 60)} is not public.",
                allowed=f"only declared public columns can filter and group: {some}{', …' if len(known) > 6 else ''}",
                instead=f"public=[{short(repr(name), 40)}, …] in the scenario, if everybody may know it",
            )
    if never_fails:
        _check_total(tree)
    return given


def public_words(expression: pl.Expr) -> str:
    """Return a public expression as a person would write it."""
    return words(read_tree(expression))


def _check_total(tree: Node) -> None:
    for node in tree.walk():
        strict = node.value == "Strict" or "'strict': True" in str(node.value)
        if node.kind not in {"column", "literal"} and (strict or node.word in _MAY_FAIL):
            raise Misuse(
                f"{node.word} stops at values that it cannot convert, and it is secret which rows there are.",
                allowed="conversions that give null instead",
                instead="strict=False, or replace",
            )
