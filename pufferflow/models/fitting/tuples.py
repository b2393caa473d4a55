"""Several columns of a public reference as one: the tuple of values of each row, in the words of their product."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.fitting.sequences import read_states
from pufferflow.models.product import Product


def with_tuples(frame: pl.DataFrame, columns: Sequence[str], domains: object) -> tuple[pl.DataFrame, str, list[str]]:
    """Return a frame with a column of tuples, its name and all its values; null where one of the values is missing.

    Values are read into the domain of their own column, as those of private rows are; None is for those that occur.

    >>> frame, name, _ = with_tuples(pl.DataFrame({"a": [0, 1], "b": [7, None]}), ["a", "b"], [[0, 1], [7, 8]])
    >>> name, frame[name].to_list()
    ('a × b', ['a = 0, b = 7', None])
    """
    given: list[object] = [None] * len(columns)
    if domains is not None:
        given = _domain_of_each(domains, columns)
    read = [read_states(frame[column], domain)[:2] for column, domain in zip(columns, given, strict=True)]
    product = Product(tuple(columns), tuple(domain for _, domain in read), tuple(one.points[0] for _, one in read))
    known = pl.all_horizontal([states.is_not_null() for states, _ in read])
    places = np.ravel_multi_index(
        [states.fill_null(0).to_numpy().astype(np.intp) for states, _ in read],
        [len(domain.points) for _, domain in read],
    )
    words = pl.Series(product.points, dtype=pl.String).gather(places)
    labels = pl.select(pl.when(known).then(words)).to_series().rename(product.name)
    return frame.with_columns(labels), product.name, cast(list[str], list(product.points))


def _domain_of_each(domains: object, columns: Sequence[str]) -> list[object]:
    given: list[object] = list(cast(Any, domains)) if isinstance(domains, list | tuple) else []
    if len(given) != len(columns):
        raise UsageError(
            f"domain is {quoted(cast(object, domains))} for {len(columns)} columns.",
            allowed="a list with the domain of each column, in their order",
            instead=f"domain=[{', '.join('[0, 1, 2]' for _ in columns)}]",
        )
    if all(isinstance(one, int | float | str) for one in given):
        raise UsageError(
            f"domain is one list of {len(given)} values, and there are {len(columns)} columns.",
            allowed="a list with the domain of each column, in their order",
            instead=f"domain=[{', '.join('[0, 1, 2]' for _ in columns)}]",
        )
    return given
