"""What a `job.toml` may say, typed; reading it is `reading.py`'s work.

Reading a `job.toml`: what is wrong with it is told with its line, and what was probably meant.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Meta

from pufferflow.addresses import local_path, scheme_of
from pufferflow.bounds import BoundName
from pufferflow.errors import Misuse, PufferflowError
from pufferflow.guarantees import Guarantee, Kind, promise_of
from pufferflow.jobs.period import Every, check_zone
from pufferflow.ledger import check_scheme
from pufferflow.noise import NoiseName
from pufferflow.planning import Within
from pufferflow.suggestions import nearest

Positive = Annotated[float, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Name = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)", max_length=80, description="letters, digits, '.', '_' and '-'"),
]
Call = Annotated[
    str, Meta(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)", description="file.py:function or module:function")
]
Wait = Annotated[str, Meta(pattern=r"^[0-9]{1,6}(s|m|h)$(?!\n)", description="how long, such as 30s, 5m or 1h")]
Noises = Literal["auto", NoiseName]
Types = Literal["integer", "float", "text", "boolean", "date", "datetime"]
_READ = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "hf", "file")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class Source(Part, frozen=True):
    """Where the private rows are: files, or a function that gives a lazy frame for a period."""

    path: Annotated[str, Meta(description="files; * matches several, {period} is the period's name")] | None = None
    function: Call | None = None
    columns: Annotated[dict[str, Types], Meta(description="types of the columns of CSV and NDJSON files")] | None = None

    def __post_init__(self) -> None:
        """Refuse none and both, and addresses that nothing reads."""
        if (self.path is None) == (self.function is None):
            raise Misuse(
                "The source has a path and a function, or neither.",
                allowed="one of them",
                instead='path = "data/*.parquet"',
            )
        check_source(self.path or "")
        for name in re.findall(r"(?<!\$)\{([^}]*)\}", self.path or ""):
            if name != "period":
                raise Misuse(
                    f"The path has {{{name[:60]}}}.",
                    allowed="{period}, and ${NAME} of the environment",
                    instead='path = "data/{period}.parquet"',
                )


class Promise(Part, frozen=True):
    """How well: epsilon alone is pf.Pure, with delta pf.Approx, with alpha pf.Renyi, with both pf.ApproxRenyi."""

    epsilon: Positive
    delta: Probability | None = None
    alpha: Annotated[float, Meta(gt=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no promise."""
        _ = self.guarantee

    @property
    def guarantee(self) -> Guarantee:
        """The promise as the library has it."""
        return promise_of(self.epsilon, self.delta, self.alpha)


class Accuracy(Part, frozen=True):
    """How accurate: the strongest promise is sought whose errors stay within `error`, with this confidence."""

    error: Positive
    confidence: Probability = 0.95
    delta: Probability | None = None
    alpha: Annotated[float, Meta(gt=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no accuracy."""
        _ = self.within

    @property
    def within(self) -> Within:
        """The accuracy as the library has it."""
        return Within(self.error, self.confidence)

    @property
    def kind(self) -> Kind:
        """The kind of promise that is sought."""
        return Kind(promise_of(0.0, self.delta, self.alpha))


class Charged(Part, frozen=True):
    """Which account of which ledger pays."""

    account: Annotated[str, Meta(min_length=1)]
    limit: Promise
    address: Annotated[
        str, Meta(min_length=1, description="a file, or postgresql+psycopg://…; ${NAME} is looked up")
    ] = "ledger.db"
    dataset: Annotated[str, Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse addresses that no ledger has."""
        check_scheme(self.address)


class Sink(Part, frozen=True):
    """Where releases go: a folder with one folder for each period."""

    path: Annotated[str, Meta(min_length=1)] = "published"
    format: Literal["parquet", "csv", "ndjson"] = "parquet"
    report: Annotated[bool, Meta(description="whether a page for people is written beside the numbers")] = True

    def __post_init__(self) -> None:
        """Refuse addresses, for which a folder of that name would be made."""
        _ = self.at(self.path)

    @staticmethod
    def at(path: str) -> Path:
        """Return a path that a sink may have."""
        return local_path(path, "The sink")


class Schedule(Part, frozen=True):
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


class Retries(Part, frozen=True):
    """How often is tried again what may go well later: a source, a ledger or a sink that fails."""

    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    wait: Wait = "30s"

    @property
    def seconds(self) -> int:
        """How long to wait between attempts."""
        return int(self.wait[:-1]) * _SECONDS[self.wait[-1]]


class JobFile(Part, frozen=True):
    """A scheduled batch: what is asked of which rows, how well it is hidden, who pays, and where it goes."""

    name: Name
    build: Call
    source: Source
    ledger: Charged
    guarantee: Promise | None = None
    accuracy: Accuracy | None = None
    noise: Noises = "auto"
    bound: Annotated[
        Literal["auto", BoundName], Meta(description="how noise is proven to be enough; auto finds the least noise")
    ] = "auto"
    shares: Annotated[dict[str, Positive], Meta(description="how the promise is divided among outputs")] | None = None
    floor: Annotated[
        Literal["row", "none"],
        Meta(description="noise is at least enough for one row alone, or only for what the prior says"),
    ] = "row"
    estimates: Annotated[bool, Meta(description="whether noise that rests on an estimate is good enough")] = False
    sink: Sink = Sink()
    schedule: Schedule = Schedule()
    retries: Retries = Retries()

    def __post_init__(self) -> None:
        """Refuse a file without a promise, or with two."""
        if (self.guarantee is None) == (self.accuracy is None):
            raise Misuse(
                "The file has a guarantee and an accuracy, or neither.",
                allowed="one of them",
                instead="[guarantee] with epsilon = 0.5",
            )

    @property
    def wanted(self) -> dict[str, Any]:
        """What `batch.plan` is asked for."""
        floor = None if self.floor == "none" else self.floor
        asked: dict[str, Any] = {"noise": self.noise, "bound": self.bound, "shares": self.shares, "floor": floor}
        if self.accuracy is None:
            return {"guarantee": self.guarantee and self.guarantee.guarantee, **asked}
        return {"guarantee": self.accuracy.kind, "accuracy": self.accuracy.within, **asked}


def check_source(path: str) -> None:
    """Refuse a source with a scheme that Polars does not read."""
    scheme = scheme_of(path)
    if scheme is not None and not (scheme in _READ and "://" in path):
        raise Misuse(
            f"The source is an address with '{scheme}:', which Polars does not read.",
            allowed=f"files, or addresses with {', '.join(f'{one}://' for one in _READ)}",
            instead='[source] function = "job.py:rows", which can read anything',
        )


def check_cron(line: str) -> None:
    """Refuse a line that is no cron line of five fields."""
    problem = ""
    try:
        if len(line.split()) != 5:
            problem = "it has not five fields"
        else:
            CronSim(line, datetime.now(UTC))
    except CronSimError as error:
        problem = str(error)
    if problem:
        raise Misuse(
            f"The cron line is {line[:60]!r}: {problem}.",
            allowed="minute hour day month weekday",
            instead='cron = "0 3 * * *", for three in the morning',
        )


_STARTER = "the one that `pufferflow job init` writes, which runs"
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_SYNTAX = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_TABLE = re.compile(r"^\s*\[(?P<name>[^\]]+)\]")
_MOST_BYTES, _DEEPEST, _MOST_DOTS, _MOST_DIGITS = 256_000, 32, 200, 400
_DIGITS = re.compile(rf"(?<![0-9_])[0-9_]{{{_MOST_DIGITS + 1}}}")
_BRACKETS = re.compile(r"[\[\]{}]")
_KEY = re.compile(r"""^\s*["']?(?P<key>[A-Za-z0-9_-]+)["']?\s*=""")
_VARIABLE = re.compile(r"\$\{(?P<name>[^}]*)\}")


def read_file(path: Path) -> JobFile:
    """Return what a file says."""
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
        text = None if len(body) > _MOST_BYTES else body.decode("utf-8-sig")
    except FileNotFoundError:
        raise Misuse(f"There is no file {_named(path)}.", allowed="the path of a job file", instead=_STARTER) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"{_named(path)} cannot be read: {type(error).__name__}.", allowed="a text file in UTF-8", instead=_STARTER
        ) from None
    if text is None:
        raise Misuse(
            f"{_named(path)} has more than {_MOST_BYTES:,} bytes.",
            allowed=f"a job file of up to {_MOST_BYTES:,} bytes",
            instead=f"{_STARTER}; rows are read from [source]",
        )
    return read_text(text, _named(path))


def read_text(text: str, name: str) -> JobFile:
    """Return what the text of a file says; `name` is what errors call it."""
    found: JobFile | Misuse
    _check_depth(text, name)
    try:
        found = msgspec.toml.decode(text, type=JobFile)
    except msgspec.ValidationError as error:
        found = _not_valid(error, text, name)
    except msgspec.DecodeError as error:
        found = _not_toml(str(error), text, name)
    except (ValueError, RecursionError):  # as of numbers of thousands of digits, which Python does not read
        found = _not_toml("a value that cannot be read (at end of document)", text, name)
    if isinstance(found, Misuse):
        raise found
    return found


def _check_depth(text: str, name: str) -> None:
    """Refuse what would take a reader of TOML very long, or too deep: no job has keys of so many parts, or such lists.

    It is looked for in strings and comments as well, where it is as strange.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS:
            raise _too_much(f"{name}, line {number}: more than {_MOST_DOTS} dots")
        if digits := _DIGITS.search(line):
            raise _too_much(f"{name}, line {number}, column {digits.start() + 1}: more than {_MOST_DIGITS} digits")
    depth = 0
    for sign in _BRACKETS.finditer(text):
        depth = depth + 1 if sign[0] in "[{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            number = text.count("\n", 0, sign.start()) + 1
            raise _too_much(f"{name}, line {number}: more than {_DEEPEST} brackets are open")


def _too_much(problem: str) -> Misuse:
    return Misuse(
        f"{problem}.", allowed=f"keys of up to four parts, and lists of up to {_DEEPEST} levels", instead=_STARTER
    )


def with_variables(text: str) -> str:
    """Return a text in which each ${NAME} is what the environment says; passwords need not stand in files."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if not os.environ.get(name):
            raise Misuse(
                f"The environment has no variable {name[:60]!r}, or an empty one, and the job file asks for it.",
                allowed="variables that are set where the job runs",
                instead=f"export {name[:60]}=…",
            )
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def check_addresses(file: JobFile) -> None:
    """Refuse addresses that lead nowhere once their variables are known; what the environment lacks is left open."""
    checks = (
        (file.sink.path, file.sink.at),
        (file.ledger.address, check_scheme),
        (file.source.path or "", check_source),
    )
    for text, check in checks:
        known = ""
        with suppress(Misuse):
            known = with_variables(text)
        check(known)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file, by which editors check and complete it."""
    found = msgspec.json.schema(JobFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pufferflow job", **found}


def _not_toml(problem: str, text: str, name: str) -> Misuse:
    where = _SYNTAX.search(problem)
    what = problem[: where.start()] if where else problem
    lines = text.splitlines() or [""]
    line = int(where["line"]) if where and where["line"] else len(lines)
    column = int(where["column"]) if where and where["column"] else len(lines[-1]) + 1
    return Misuse(
        f"{name}, line {line}, column {column}: {what[:1].lower()}{what[1:]}.",
        allowed="TOML",
        instead=f"a look at that line: {_cut(lines[min(line, len(lines)) - 1])}",
    )


def _not_valid(error: msgspec.ValidationError, text: str, name: str) -> Misuse:
    """Return the error with the line of the key that it is about, or of the table that should have had it."""
    found = _PLACE.search(str(error))
    path = [part for part in (found["path"] if found else "").split(".") if part]
    problem = str(error)[: found.start()] if found else str(error)
    unknown = _UNKNOWN.search(problem)
    if unknown:
        return _unknown_key(unknown["key"], path, text, name)
    where = f"{name}{_line_of(text, path)}"
    key = ".".join(path) or "the file"
    cause = error.__cause__
    if isinstance(cause, PufferflowError):
        return Misuse(f"{where}: {cause.problem}", allowed=cause.allowed, instead=cause.instead)
    problem = problem.replace("Object missing required field", "missing")
    return Misuse(f"{where}: {key}: {problem}.", allowed=_kind_of(path), instead=_STARTER)


def _unknown_key(key: str, path: Sequence[str], text: str, name: str) -> Misuse:
    known = _keys(path)
    near = nearest(key, known, cutoff=0.5)
    table = f" in [{'.'.join(path)}]" if path else ""
    return Misuse(
        f"{name}{_line_of(text, [*path, key])}: unknown key {key[:60]!r}{table}.",
        allowed=", ".join(known),
        instead=near[0] if near else "pufferflow job schema, which lists all keys",
    )


def _line_of(text: str, path: Sequence[str]) -> str:
    """Return ", line 3, column 1" for the key of a path, or for the longest part of the path that is there."""
    best, depth = "", 0
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _TABLE.match(line), _KEY.match(line)
        if header:
            table = [part.strip().strip("\"'") for part in header["name"].split(".")]
        here = [*table, key["key"]] if key else table
        if (header or key) and len(here) > depth and here == list(path[: len(here)]):
            best, depth = f", line {number}, column {line.index(line.strip()) + 1}", len(here)
    return best


def _keys(path: Sequence[str]) -> list[str]:
    part = _part(path)
    return [] if part is None else [field.name for field in msgspec.structs.fields(part)]


def _part(path: Sequence[str]) -> Any:
    """Return the struct that stands at a path of the file."""
    part: Any = JobFile
    for name in path:
        hint = get_type_hints(part).get(name)
        hints = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        part = next((one for one in hints if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
        if part is None:
            return None
    return part


def _kind_of(path: Sequence[str]) -> str:
    """Say what may stand at a path, as far as the schema has words for it."""
    for field in msgspec.structs.fields(_part(path[:-1]) or JobFile) if path else ():
        if field.name == path[-1]:
            told = msgspec.json.schema(field.type)
            whole: dict[str, Any] = {key: value for one in told.get("anyOf", [told]) for key, value in one.items()}
            kinds = ", ".join(map(str, whole.get("enum", ())))
            return kinds or str(whole.get("description", whole.get("type", "")))
    return ", ".join(_keys(path))


def _cut(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:60]}…"


def _named(path: Path) -> str:
    return str(path)[-200:]
