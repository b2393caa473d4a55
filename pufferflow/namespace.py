"""The namespace `.puffer` on frames and expressions, set up on import.

A Series has it too, only to say in an error how to make a frame. Editors and type checkers do not see a namespace that
is registered while a program runs. `pf.protect(frame, scenario)` and `pf.query("level")` are the same, with types.
"""

from typing import TYPE_CHECKING, cast

import polars as pl

from pufferflow.core import (
    sandbox as _guarded,
)  # it has to see every fork of a process in which Polars may work

if TYPE_CHECKING:
    from pufferflow.models.scenario import Scenario
    from pufferflow.queries.query_expressions import ExpressionQueries
    from pufferflow.release.batch import Batch


del _guarded


class Puffer:
    """The namespace `frame.puffer`, which editors do not see: they complete `pf.protect(frame, scenario)`.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    >>> rows = pl.LazyFrame({"day": [1, 1, 2], "level": [0, 3, 2]})
    >>> batch = rows.puffer.protect(scenario).group_by("day").agg(pl.col("level").puffer.sum())
    >>> batch.release(epsilon=1.0).frame.columns
    ['day', 'level_sum']
    """

    def __init__(self, frame: pl.LazyFrame | pl.DataFrame | pl.Series) -> None:
        self._frame = frame

    def protect(self, scenario: "Scenario") -> "Batch":
        """Put the frame under a scenario: `pufferflow.protect(frame, scenario)`."""
        from pufferflow.release.batch import protect

        return protect(cast("pl.DataFrame", self._frame), scenario)

    if not TYPE_CHECKING:  # which knows the one method

        def __getattr__(self, name: str) -> object:
            from pufferflow.core.suggestions import (
                no_attribute,
            )  # the public API loads nothing that is not used

            raise no_attribute(Puffer, name)


def queries_of(expression: pl.Expr) -> "ExpressionQueries":
    """Return the namespace `pl.col("level").puffer`, which is loaded when it is first used."""
    from pufferflow.queries.query_expressions import ExpressionQueries

    return ExpressionQueries(expression)


pl.api.register_lazyframe_namespace("puffer")(Puffer)
pl.api.register_dataframe_namespace("puffer")(Puffer)
pl.api.register_series_namespace("puffer")(Puffer)
pl.api.register_expr_namespace("puffer")(cast("type[ExpressionQueries]", queries_of))
