"""The interface of a mechanism: public facts for plan, ledger and certificate, and one draw from private rows."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeVar, final

import polars as pl

from pufferflow.core.errors import InternalError, UsageError
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import AskedQuery, ChosenKeys, NoisySum, QuieterGroups
from pufferflow.published.cost import Answered, Cost
from pufferflow.queries.engine_interface import changed_source
from pufferflow.queries.request import Request
from pufferflow.release.explain.sentences import (
    assumptions,
    notes,
    value_handling,
    value_handling_together,
    witness_in_words,
)
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.cost import cost_of

T = TypeVar("T")


class Source(Protocol):
    """The public facts of a source, as they were when it was planned with."""

    @property
    def selected(self) -> int | None:
        """How many rows were selected; None if that is not known."""
        ...

    def verify_unchanged(self) -> "Source":
        """Return the facts as of now; refuse a source whose facts have changed."""
        ...


@final
@dataclass(eq=False)
class PrivateReader:
    """The one reading of private rows behind a release; the source is compared again while its version is held."""

    request: Request
    source: Source
    _begun: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin to read; refused a second time, since the noise of a second reading would be charged to nobody."""
        if self._begun:
            raise InternalError(
                "A release reads private rows twice.", instead="reporting it to the maintainers"
            )
        self._begun = True

    def read(self, work: Callable[[bool], T], rows: Callable[[T], int]) -> T:
        """Return the result of `work`, which learns whether the engine holds one version; refuse other rows."""
        self.begin()
        with (
            self.request.engine.one_version() as one_version
        ):  # where that can be had, all is read of the same rows
            found = work(one_version)
            selected = {self.source.selected, self.source.verify_unchanged().selected}
        if None not in selected and rows(found) not in selected:
            raise changed_source()  # neither those of before nor those of afterwards
        return found


@final
@dataclass(frozen=True, eq=False)
class DrawnAnswers:
    """What was drawn: the answers, their error bars and limits, each with the keys in front; and public notes."""

    frame: pl.DataFrame
    intervals: pl.DataFrame = field(default_factory=pl.DataFrame)
    limits: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()
    answered: Answered | None = None
    """The noisy sums themselves, of rows that are draws from a table."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """What a certificate says of a mechanism, as plain values."""

    queries: tuple[AskedQuery, ...]
    sums: tuple[NoisySum, ...] = ()
    loss: float
    bound: str
    sensitivity: float
    sensitivity_unit: str
    witness: str
    certainty: str
    composition: str
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    ordinary: Any
    readings: tuple[str, ...]
    groups: tuple[str, ...] = ()
    quieter: tuple[QuieterGroups, ...] = ()
    keys: ChosenKeys | None = None
    correlations: tuple[tuple[float, ...], ...] = ()


@final
@dataclass(frozen=True, eq=False)
class Explanation:
    """What an explanation says of a mechanism beside its certificate."""

    template: str
    """The template of its words, which fills in blocks of `explanation.txt`."""
    values: Mapping[str, Any]
    """What that template prints."""
    notes: tuple[str, ...] = ()
    """Further notes."""


class Mechanism(abc.ABC):
    """What draws the answers of a request; all but `draw` follows from public facts."""

    compares_rows_while_reading: ClassVar[bool] = False
    """Whether drawing compares each row with the plan's as it comes, so that nothing has to be compared before."""

    @property
    @abc.abstractmethod
    def request(self) -> Request:
        """The queries."""

    @property
    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee about all answers together."""

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """The number of rows that are queried; 0 where that is private."""

    @cached_property
    def cost(self) -> Cost:
        """The cost of a release, in numbers, for composition."""
        return self.compute_cost()

    @abc.abstractmethod
    def compute_cost(self) -> Cost:
        """Return the cost of a release."""

    @cached_property
    def joint_cost(self) -> Cost:
        """The cost with the exact sums behind it, where there are such: for accounts with designed releases."""
        return self.cost

    @cached_property
    def name(self) -> str:
        """A name that is the same on every machine for the same queries, options and public facts."""
        return self.compute_name()

    @abc.abstractmethod
    def compute_name(self) -> str:
        """Return the name."""

    @property
    @abc.abstractmethod
    def source(self) -> Source:
        """The public facts that the cost rests on, to be compared with the source at a release."""

    def value_handling(self) -> tuple[str, ...]:
        """Return a line for every query: what values that are not in the domain are read as."""
        return value_handling(self.request)

    @abc.abstractmethod
    def describe(self) -> Description:
        """Return what the certificate says of it."""

    @abc.abstractmethod
    def explain(self) -> Explanation:
        """Return what an explanation says of it."""

    def check_drawable(self) -> None:  # noqa: B027 - most have nothing to check
        """Refuse what cannot be drawn exactly, before anything is spent."""

    @abc.abstractmethod
    def with_cost(self, reserved: Cost) -> Self:
        """Return the mechanism with the cost that a ledger has reserved; refuse a cost that is not its own."""

    @abc.abstractmethod
    def draw(self, reading: PrivateReader) -> DrawnAnswers:
        """Read the private rows, once, and return random answers."""


@dataclass(frozen=True, eq=False)
class SumsMechanism(Mechanism, abc.ABC):
    """Base of mechanisms for sums of rows, whose source and cost follow from noise: drawn, or standing in for them."""

    noise: CalibratedNoise
    """The noise that is drawn, or noise that exposes a row at least as much as a channel does."""

    @property
    def request(self) -> Request:
        return self.noise.request

    @property
    def guarantee(self) -> Guarantee:
        return self.noise.guarantee

    @property
    def rows(self) -> int:
        return int(self.noise.public.cells.rows.sum())

    def compute_name(self) -> str:
        return self.noise.name()

    @property
    def source(self) -> Source:
        return self.noise.source

    def compute_cost(self) -> Cost:
        return cost_of(self.noise)

    def described(self, **own: Any) -> Description:
        """Return the description that follows from the noise, with facts of its own."""
        noise, calibration = self.noise, self.noise.calibration
        known: dict[str, Any] = {
            "queries": tuple(
                AskedQuery(one.words, one.outputs, places) for one, places in self.request.reads
            ),
            "loss": calibration.loss,
            "bound": repr(calibration.bound),
            "witness": witness_in_words(noise),
            "certainty": calibration.certainty.value,
            "assumptions": assumptions(noise),
            "notes": notes(noise),
            "readings": value_handling_together(self.request),
        }
        return Description(**known | own)


def reservation_mismatch(
    why: str = "its cost differs from that of this plan by more than rounding",
) -> UsageError:
    """Return the error for a reserved cost that a plan cannot be drawn with."""
    return UsageError(
        f"The release was reserved with noise that cannot be used here: {why}. Nothing was drawn or charged.",
        allowed="the reserved plan, or the same plan on a machine whose noise differs by at most 1e-9",
        instead="releasing on the machine that reserved it; or another id (a job has --revision 2), which costs again",
    )
