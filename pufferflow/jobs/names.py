"""Noises and bounds as a job file names them: by a name alone, or by a table of the name and its numbers."""

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.bound_names import BOUNDS, BoundName
from pufferflow.calibration.distance_bounds import GAWM
from pufferflow.core.errors import UsageError
from pufferflow.jobs.toml import TomlTable
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.names import NOISES, NoiseName
from pufferflow.noise.staircase import Staircase

Noises = Literal["auto", NoiseName]
BoundNames = Literal["auto", BoundName]
_OF_FAMILY = {"cauchy": ("k",), "staircase": ("epsilon", "gamma")}


class NoiseTable(TomlTable, frozen=True):
    """A family with its parameters: k of generalized Cauchy noise, epsilon and gamma of a staircase."""

    family: NoiseName
    k: Annotated[float, Meta(gt=1, description="a number > 1")] | None = None
    epsilon: Annotated[float, Meta(gt=0, description="a number > 0")] | None = None
    gamma: Annotated[float, Meta(ge=0, le=1, description="a number with 0 <= gamma <= 1")] | None = None

    def __post_init__(self) -> None:
        """Refuse parameters that the family does not have."""
        own = _OF_FAMILY.get(self.family, ())
        for name in ("k", "epsilon", "gamma"):
            if getattr(self, name) is not None and name not in own:
                raise UsageError(
                    f"{self.family.capitalize()} noise has no parameter {name!r}.",
                    allowed=f"{', '.join(own)} for {self.family} noise" if own else "the family alone",
                    instead=f'noise = "{self.family}"',
                )

    @property
    def meant(self) -> Any:
        """The family as `plan` takes it."""
        if self.family == "staircase":
            return Staircase.of(self.epsilon, self.gamma)
        return NOISES[self.family] if self.k is None else GeneralizedCauchy.of(self.k)


class BoundTable(TomlTable, frozen=True):
    """A bound with its numbers: delta is the share of the probability that gawm leaves out."""

    name: BoundName
    delta: Annotated[float, Meta(gt=0, lt=1, description="a number with 0 < delta < 1")] | None = None

    def __post_init__(self) -> None:
        """Refuse a number that the bound does not have."""
        if self.delta is not None and not BOUNDS[self.name].takes_delta:
            takes = [f'"{name}"' for name in get_args(BoundName) if BOUNDS[name].takes_delta]
            raise UsageError(
                f'The bound "{self.name}" has no delta.',
                allowed=f"a delta for {', '.join(takes)}",
                instead=f'bound = "{self.name}"',
            )

    @property
    def meant(self) -> Bound | str:
        """The bound as `plan` takes it."""
        return self.name if self.delta is None else GAWM(self.delta)


def meant(given: "str | NoiseTable | BoundTable") -> Any:
    """Return a noise or a bound as `plan` takes it."""
    return given if isinstance(given, str) else given.meant
