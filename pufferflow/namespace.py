"""Sugar: `.puffer` on lazy and eager frames, registered when pufferflow is imported."""

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pufferflow.frame import Batch
    from pufferflow.scenario import Scenario


class Puffer:
    """What `frame.puffer` offers."""

    def __init__(self, frame: pl.LazyFrame | pl.DataFrame) -> None:
        self._frame = frame

    def protect(self, scenario: "Scenario") -> "Batch":
        """Put the frame under a scenario: `pufferflow.protect(frame, scenario)`."""
        from pufferflow.frame import protect

        return protect(self._frame, scenario)


pl.api.register_lazyframe_namespace("puffer")(Puffer)
pl.api.register_dataframe_namespace("puffer")(Puffer)
