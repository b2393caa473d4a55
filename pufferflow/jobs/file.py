"""The keys of a `job.toml`, typed: queries, rows, guarantee, account, and the kinds of sources and sinks."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, final, get_args

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Meta

from pufferflow.accounting.ledger.address import check_scheme
from pufferflow.calibration.bound import Bound
from pufferflow.calibration.bound_names import BOUNDS, BoundName
from pufferflow.calibration.distance_bounds import GAWM
from pufferflow.core.entry_points import Group, load, names_in
from pufferflow.core.errors import UsageError
from pufferflow.jobs.period import Every, check_zone
from pufferflow.jobs.sink import FolderTable
from pufferflow.jobs.sources import Call, FileSource
from pufferflow.jobs.toml import TomlTable, decode, named, resolved
from pufferflow.jobs.toml import read_file as read_toml
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.names import NOISES, NoiseName
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.by_name import guarantee_of
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily
from pufferflow.release.planning.options import Within

Noises = Literal["auto", NoiseName]
BoundNames = Literal["auto", BoundName]
_OF_FAMILY = {"cauchy": ("k",), "staircase": ("epsilon", "gamma")}


class NoiseTable(TomlTable, frozen=True):
    """A family with its parameters: k of generalized Cauchy noise, epsilon and gamma of a staircase."""

    family: NoiseName
    k: Annotated[float, Meta(gt=1, description="a number > 1")] | None = None
    epsilon: Annotated[float, Meta(gt=0, description="a number > 0")] | None = None
    gamma: (
        Annotated[float, Meta(ge=0, le=1, description="a number with 0 <= gamma <= 1")] | None
    ) = None

    def __post_init__(self) -> None:
        """Refuse parameters that the family does not have."""
        own = _OF_FAMILY.get(self.family, ())
        for name in ("k", "epsilon", "gamma"):
            if getattr(self, name) is not None and name not in own:
                raise UsageError(
                    f"{self.family.capitalize()} noise has no parameter {name!r}.",
                    allowed=f"{', '.join(own)} for {self.family} noise"
                    if own
                    else "the family alone",
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
    delta: Annotated[float, Meta(gt=0, lt=1, description="a number with 0 < delta < 1")] | None = (
        None
    )

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


@final
@dataclass(frozen=True)
class Kinds:
    """The kinds of one table, such as `[source]`. Its key `kind` chooses; the library's own kind needs none."""

    table: str
    group: Group
    own: tuple[str, type[TomlTable]]
    implied: tuple[tuple[str, str], ...] = ()
    """Keys that say which kind it is, where `kind` is left out."""

    def read(self, values: object) -> type[TomlTable]:
        """Return the keys of a table, given its plain values; `kind`, which chooses them, is taken out."""
        name, own = self.own
        given = cast(dict[str, object], values) if isinstance(values, dict) else {}
        kind = given.pop("kind", next((other for key, other in self.implied if key in given), name))
        if kind == name:
            return own
        if not isinstance(kind, str):
            raise UsageError(
                "The kind is not a text.",
                allowed=", ".join((name, *self._others())),
                instead=f'kind = "{name}"',
            )
        return self._of_package(kind)

    def _of_package(self, kind: str) -> type[TomlTable]:
        table = load(self.group, kind)
        if isinstance(table, type) and issubclass(table, TomlTable):
            return table
        raise UsageError(
            f"The package installed for the {self.table} {kind[:60]!r} has no keys for [{self.table}].",
            allowed="an entry point that names a TomlTable",
            instead="another version of the package that brings it",
        )

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return what a schema says of the table: one of the installed kinds; adds what they are to the definitions.

        Kinds whose packages lack something are left out: they could not run here.
        """
        tables: dict[str, type[TomlTable]] = dict([self.own])
        for kind in self._others():
            try:
                tables[kind] = self._of_package(kind)
            except UsageError:
                continue
        references, described = msgspec.json.schema_components(
            tables.values(), ref_template="#/$defs/{name}"
        )
        for kind, reference in zip(tables, references, strict=True):
            own = described[reference["$ref"].rpartition("/")[2]]
            own["properties"] = {"kind": {"const": kind}, **own["properties"]}
            if kind != self.own[0] and kind not in dict(self.implied).values():
                own["required"] = ["kind", *own.get("required", [])]
        definitions.update(described)
        return {"anyOf": list(references)}

    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in names_in(self.group) if name != self.own[0])


SINKS: Final = Kinds("sink", "pufferflow.sinks", ("folder", FolderTable))
SOURCES: Final = Kinds(
    "source", "pufferflow.sources", ("files", FileSource), (("engine", "table"),)
)


Positive = Annotated[float, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)",
        max_length=80,
        description="letters, digits, '.', '_' and '-'",
    ),
]
Wait = Annotated[
    str, Meta(pattern=r"^[0-9]{1,6}(s|m|h)$(?!\n)", description="how long, such as 30s, 5m or 1h")
]
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Promise(TomlTable, frozen=True):
    """The guarantee: epsilon is pf.Pure, with delta pf.Approx, with alpha pf.Renyi, with both pf.ApproxRenyi.

    With tv, and a delta or none, it is pf.TradeOff; rho alone is pf.Zcdp, mu pf.Gdp, tv pf.Tv.
    """

    epsilon: Positive | None = None
    delta: Probability | None = None
    alpha: Annotated[float, Meta(gt=1)] | None = None
    rho: Positive | None = None
    mu: Positive | None = None
    tv: Probability | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that are not a guarantee."""
        _ = self.guarantee

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee as the library has it."""
        return guarantee_of(
            self.epsilon, self.delta, self.alpha, rho=self.rho, mu=self.mu, tv=self.tv
        )


class Accuracy(TomlTable, frozen=True):
    """The accuracy: the strongest guarantee is found whose errors stay within `error`, with this confidence."""

    error: Positive
    confidence: Probability = 0.95
    delta: Probability | None = None
    alpha: Annotated[float, Meta(gt=1)] | None = None
    tv: Probability | None = None
    measure: Annotated[
        Literal["epsilon", "rho", "mu"],
        Meta(description="which number of the guarantee is to be small"),
    ] = "epsilon"

    def __post_init__(self) -> None:
        """Refuse numbers that are not an accuracy."""
        _ = self.within, self.kind

    @property
    def within(self) -> Within:
        """The accuracy as the library has it."""
        return Within(self.error, self.confidence)

    @property
    def kind(self) -> GuaranteeFamily:
        """The kind of guarantee that is sought."""
        loss = {self.measure: 1.0}
        promise = guarantee_of(**loss, delta=self.delta, alpha=self.alpha, tv=self.tv)
        return cast(GuaranteeFamily, promise.kind)  # it has one loss


class Charged(TomlTable, frozen=True):
    """The ledger and the account that pays."""

    account: Annotated[str, Meta(min_length=1)]
    limit: Promise
    address: Annotated[
        str,
        Meta(min_length=1, description="a file, or postgresql+psycopg://…; ${NAME} is looked up"),
    ] = "ledger.db"
    dataset: Annotated[str, Meta(min_length=1)] | None = None
    reserve: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=100_000,
                description="how many such releases a new account reserves, under a limit with delta",
            ),
        ]
        | None
    ) = None
    keys_delta: (
        Annotated[
            float,
            Meta(
                ge=0,
                lt=1,
                description="the part of the limit's delta for keys that a new account takes from data",
            ),
        ]
        | None
    ) = None

    methods: (
        Annotated[
            tuple[str, ...],
            Meta(
                description="the accounting methods that a new account keeps; all if it is left out"
            ),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Refuse addresses that no ledger has, and reservations under limits whose losses add up anyway."""
        check_scheme(self.address)
        if self.reserve is not None and not self.limit.guarantee.delta:
            raise UsageError(
                "reserve is for a limit with a delta.",
                allowed="a limit such as { epsilon = 3.0, delta = 1e-6 }",
                instead="no reserve: losses add up under other limits",
            )


class Schedule(TomlTable, frozen=True):
    """What a period is, and when `pufferflow schedule` runs."""

    period: Every = "day"
    timezone: str = "UTC"
    cron: Annotated[str, Meta(description="minute hour day month weekday")] | None = None
    catch_up: Annotated[int, Meta(ge=1, le=10_000)] = 31

    def __post_init__(self) -> None:
        """Refuse unknown zones, and lines that cron would not understand."""
        check_zone(self.timezone)
        if self.cron is not None:
            check_cron(self.cron)


class Retries(TomlTable, frozen=True):
    """How often a failure that may pass is retried: of a source, a ledger or a sink."""

    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    wait: Wait = "30s"

    @property
    def seconds(self) -> int:
        """How long to wait between attempts."""
        return int(self.wait[:-1]) * _SECONDS[self.wait[-1]]


class JobFile(TomlTable, frozen=True):
    """A scheduled batch: its queries and rows, its guarantee, the account that pays, and the sink."""

    name: Name
    build: Call
    source: FileSource  # as the sink below
    ledger: Charged
    guarantee: Promise | None = None
    accuracy: Accuracy | None = None
    noise: Annotated[
        Noises | NoiseTable,
        Meta(description='a family of noises, or a table such as { family = "cauchy", k = 4 }'),
    ] = "auto"
    bound: Annotated[
        BoundNames | BoundTable,
        Meta(
            description='how noise is proven to be enough, or a table such as { name = "gawm", delta = 1e-3 }'
        ),
    ] = "auto"
    shares: (
        Annotated[
            dict[str, Positive], Meta(description="how the guarantee is divided among outputs")
        ]
        | None
    ) = None
    row_privacy: Annotated[
        bool,
        Meta(
            description="whether noise is at least enough for one row alone, or only for what the prior says"
        ),
    ] = True
    per_group: Annotated[
        bool,
        Meta(
            description="whether groups of the answer have the noise that their own rows need, or all have the same"
        ),
    ] = False
    estimates: Annotated[
        bool, Meta(description="whether noise that rests on an estimate is good enough")
    ] = False
    sink: FolderTable = FolderTable()  # of a file with another kind, the table of that kind
    schedule: Schedule = Schedule()
    retries: Retries = Retries()

    def __post_init__(self) -> None:
        """Refuse a file without a guarantee, or with two."""
        if (self.guarantee is None) == (self.accuracy is None):
            raise UsageError(
                "The file has a guarantee and an accuracy, or neither.",
                allowed="one of them",
                instead="[guarantee] with epsilon = 0.5",
            )

    @property
    def plan_arguments(self) -> dict[str, Any]:
        """The arguments of `batch.plan`."""
        others: dict[str, Any] = {
            "noise": meant(self.noise),
            "bound": meant(self.bound),
            "shares": self.shares,
        }
        others |= {"row_privacy": self.row_privacy, "per_group": self.per_group}
        if self.accuracy is None:
            return {"guarantee": self.guarantee and self.guarantee.guarantee, **others}
        return {"guarantee": self.accuracy.kind, "accuracy": self.accuracy.within, **others}


def check_cron(line: str) -> None:
    """Refuse a line that is not a cron line of five fields."""
    problem = ""
    try:
        if len(line.split()) != 5:
            problem = "it has not five fields"
        else:
            CronSim(line, datetime.now(UTC))
    except CronSimError as error:
        problem = str(error)
    if problem:
        raise UsageError(
            f"The cron line is {line[:60]!r}: {problem}.",
            allowed="minute hour day month weekday",
            instead='cron = "0 3 * * *", for three in the morning',
        )


def read_file(path: Path) -> JobFile:
    """Return the job of a file."""
    return read_text(read_toml(path), named(path))


def read_text(text: str, name: str) -> JobFile:
    """Return the job of the text of a file; `name` is what errors call it."""
    return decode(text, name, _type_of)


def _type_of(values: dict[str, Any]) -> type[JobFile]:
    """Return the type of a file, whose source and sink have the keys of their kinds; `kind` itself is taken out."""
    source, sink = SOURCES.read(values.get("source")), SINKS.read(values.get("sink"))
    if (source, sink) == (FileSource, FolderTable):
        return JobFile
    tables = [("source", source), ("sink", sink)]
    return cast(type[JobFile], msgspec.defstruct("JobFile", tables, bases=(JobFile,), kw_only=True))


def check_addresses(file: JobFile) -> None:
    """Refuse unusable addresses, with their variables; those with variables that the environment lacks pass."""
    file.sink.check_address()
    check_scheme(resolved(file.ledger.address))
    file.source.check_address()


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file, by which editors check and complete it."""
    content = msgspec.json.schema(JobFile)
    tables = content["$defs"]["JobFile"]["properties"]
    tables["source"] = SOURCES.schema(content["$defs"])
    tables["sink"] = {**SINKS.schema(content["$defs"]), "default": {}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pufferflow job",
        **content,
    }
