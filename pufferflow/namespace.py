"""The namespace `.puffer` on frames (and on a Series, for an error that says how to make a frame), set up on import."""

from typing import TYPE_CHECKING, cast

import polars as pl

from pufferflow.core import (
    sandbox as _guarded,
)  # it has to see every fork of a process in which Polars may work

if TYPE_CHECKING:
    from pufferflow.models.scenario import Scenario
    from pufferflow.release.batch import Batch


del _guarded


class Puffer:
    """The namespace `frame.puffer`."""

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


pl.api.register_lazyframe_namespace("puffer")(Puffer)
pl.api.register_dataframe_namespace("puffer")(Puffer)
pl.api.register_series_namespace("puffer")(Puffer)
