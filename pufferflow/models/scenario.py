"""The scenario: the secret, the priors, the order and groups of rows, and the public columns."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import Any, cast, final

import polars as pl

from pufferflow.core.errors import UsageError, escape_controls
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.suggestions import EXAMPLES, suggests_arguments, way_to_protect
from pufferflow.core.tables import Use, arrow_table, type_name
from pufferflow.core.validate import (
    belief_refused,
    instance,
    quoted,
    read_name,
    set_fields,
    stored_belief,
)
from pufferflow.models.declared_columns import listed, no_column, no_unit
from pufferflow.models.population import Population
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.secret import ROW, AnySecret, Derived, Presence, Secret
from pufferflow.models.time_steps import read_start, read_step, start_in_words, step_in_words

VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@final
@suggests_arguments
@dataclass(frozen=True, repr=False)
class Scenario(InNotebooks):
    """What must stay hidden (`secret`), what an adversary may assume (`prior`), and how rows depend on each other.

    `prior` is one prior or a list of them, the class Θ. With a list the guarantee holds for the worst one. Rows with
    the same value of `within` (one column or several) may depend on each other; other rows are independent. Without
    `within`, all rows may depend on each other.

    `order_by` names the column that puts rows in order. Its value is a row's position, counted in `step`: a duration
    such as "1h", or a number. `start` is where every sequence began, whether or not the table has a row there. The
    prior's initial law holds at `start`, and `pf.Initial` hides the value there. `start` is a number (0 by default), or
    a date or time if `step` is a duration.

    `public` names the columns that everybody may know, row by row. Only these can filter and group; `order_by` and
    `within` are among them. Under `pf.Presence` everybody may know only which values they can have: the values of a row
    are hidden with the row.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(
    ...     secret=pf.Secret("level", domain=[0, 1]),
    ...     prior=pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
    ...     order_by="hour",
    ...     step="1h",
    ...     within="meter",
    ... )
    >>> scenario.public
    ('meter', 'hour')
    >>> pf.Scenario.from_json(scenario.to_json()) == scenario
    True
    """

    secret: AnySecret
    priors: tuple[Prior, ...]
    order_by: str | None
    step: int
    start: int | float | datetime | None
    within: tuple[str, ...]
    public: tuple[str, ...]
    timed: bool
    refusal: str = field(compare=False)
    """Why priors of a scenario that an older version stored are refused now; empty for all others."""

    def __init__(  # noqa: PLR0913 - the parts of a scenario, each by its name
        self,
        secret: AnySecret | Sequence[Secret],
        prior: Prior | Sequence[Prior],
        *,
        order_by: str | None = None,
        step: object = 1,
        start: object = None,
        within: str | Sequence[str] = (),
        public: str | Sequence[str] = (),
    ) -> None:
        secret = _one_secret(secret)
        together = _names(within, "within")
        if isinstance(secret, Presence) and not together:
            together = (secret.within,)
        unit, timed = read_step(step)
        order = None if order_by is None else read_name(order_by, "order_by")
        by = secret.by if isinstance(secret, Presence) else ()
        known = [*together, *([order] if order else []), *by, *_names(public, "public")]
        set_fields(
            self,
            secret=secret,
            priors=_priors(prior, secret),
            order_by=order,
            step=unit,
            timed=timed,
            start=read_start(start, timed=timed),
            within=together,
            public=tuple(dict.fromkeys(known)),
            refusal="",
        )
        if start is not None and order is None:
            raise UsageError(
                "start is given, and order_by is missing.",
                allowed="start together with the column that puts the rows in order",
                instead='order_by="hour", step="1h", start="2026-01-01"',
            )
        self._check_parts()

    def _check_parts(self) -> None:
        """Refuse parts that do not go together."""
        if isinstance(self.secret, Population):
            self.secret.check_within(self.within)
        if self.order_by is None and any(prior.ordered for prior in self.priors):
            raise UsageError(
                "The prior depends on the order of rows, and order_by is missing.",
                allowed="the column that puts the rows in order",
                instead='order_by="hour", step="1h"',
            )
        known = dict(self.secret.columns)
        own = {*known, *self.secret.made}
        for prior in self.priors:
            for column, domain in prior.columns.items():
                same = known.setdefault(column, domain).points == domain.points
                if not same and column not in own:  # a sum would mean different things to them
                    raise UsageError(
                        f"Two priors have different values of the column {column!r}.",
                        allowed="priors with the same values of each column; a probability may be 0 or nearly so",
                        instead=f"a secret or priors that list all values of {column!r}",
                    )
        hidden = [self.secret.name] if isinstance(self.secret, Derived) else []
        for column in (*self.sensitive, *hidden):
            if column in self.public:
                raise UsageError(
                    f"The column {column!r} is both secret and public.",
                    allowed="public columns that are not hidden",
                    instead=f"public without {column!r}",
                )

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns that only queries with noise may read."""
        known = [
            column
            for prior in self.priors
            for column in prior.columns
            if column not in self.secret.made
        ]
        return tuple(dict.fromkeys([*known, *self.secret.columns]))

    @property
    def start_known(self) -> bool:
        """Whether the start of sequences is known: for numbers it is, for times if `start` is given."""
        return self.start is not None

    @property
    def start_position(self) -> float:
        """The start of sequences, in steps (times since 1970-01-01 UTC); 0.0 if unknown."""
        if isinstance(self.start, datetime):
            return (self.start - _EPOCH) // timedelta(microseconds=1) * 1000 / self.step
        return float(Fraction(self.start or 0) / self.step)

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for equal scenarios, in every process and every version of this library.

        The fingerprint of a scenario with a Python function (`pf.Simulator`, `pf.Kernel`) is valid in its own process
        only.
        """
        plain = {**self._without_priors(), "priors": [prior.fingerprint() for prior in self.priors]}
        text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return f"pf{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    @property
    def setting(self) -> str:
        """A short text that identifies the scenario without its priors."""
        text = json.dumps(self._without_priors(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def describe(self) -> str:
        """Describe in plain words the secret, the adversary, and the assumptions."""
        lines = [f"Hidden: {self.secret.describe()}."]
        if len(self.priors) == 1:
            lines.append(f"Against: an adversary whose prior is that {self.priors[0].describe()}.")
        else:
            lines.append("Against: an adversary who has one of these priors.")
            lines += [f"  - {prior.describe()}" for prior in self.priors]
        if self.numbers_rows and self.within == (ROW,):
            lines.append("All rows are assumed to be independent of each other.")
        elif self.within:
            lines.append(
                f"Rows that differ in {listed(self.within)} are assumed to be independent of each other."
            )
        else:
            assumed = self.secret.of_all_rows or "none is assumed to be independent of the others"
            if all(prior.independent_rows for prior in self.priors):
                assumed = "what one reveals about others follows from the prior"
            lines.append(f"All rows are one group; {assumed}.")
        if self.order_by is not None:
            lines.append(
                f"Rows are in the order of {self.order_by!r}, counted in steps of {self.step_in_words}."
            )
        if self.start:
            lines.append(
                f"Every sequence began where {self.order_by!r} is {start_in_words(self.start)}."
            )
        others = [
            name
            for name in self.public
            if not isinstance(self.secret, Presence) or name != self.secret.within
        ]
        if isinstance(self.secret, Presence):
            known = f"Not hidden: which values {listed(others)} can have. " if others else ""
            lines.append(f"{known}Hidden: how many rows there are, and whose.")
        elif others:
            lines.append(f"Not hidden: {listed(others)}, and that a row exists.")
        lines += self.secret.left_open
        return "\n".join(lines)

    @property
    def step_in_words(self) -> str:
        """The step as it could be typed."""
        return step_in_words(self.step) if self.timed else str(self.step)

    def check_frame(self, frame: Any) -> None:
        """Check a private frame before any row of it is read: columns, types, and that no prior was fitted on it.

        A prior that was fitted in this process on the same frame, or on a file that the frame scans, is refused.
        """
        table = arrow_table(frame)
        if table is None and not isinstance(frame, pl.LazyFrame | pl.DataFrame):
            raise UsageError(
                f"The frame is of type {type(frame).__name__}.",
                allowed="a Polars frame, lazy or not, or a table with an Arrow stream, such as pandas",
                instead=way_to_protect(frame),
            )
        for prior in self.priors:
            origin = prior.provenance.origin
            if origin is not None:
                origin.check_public(
                    f"The prior was fitted on {prior.provenance.reference!r}, which", frame
                )
        if table is not None:
            table.check_types(self._uses)
            table.check_index(self._needed)
        self.check_schema(frame.collect_schema() if table is None else table.schema)

    @property
    def _needed(self) -> tuple[str, ...]:
        """The columns that a frame must have."""
        unit = [self.secret.within] if isinstance(self.secret, Presence) else []
        return tuple(
            name
            for name in dict.fromkeys([*self.secret.columns, *unit, *self.public])
            if name != ROW
        )

    @property
    def group_in_words(self) -> str:
        """What the rows of one group share, for sentences; empty where all rows depend on each other."""
        return ", ".join("unit" if name == ROW else name for name in self.within)

    @property
    def numbers_rows(self) -> bool:
        """Whether a frame gets a column that numbers its rows, since each is a unit."""
        return isinstance(self.secret, Presence) and self.secret.each_row

    @property
    def _uses(self) -> Iterator[tuple[str, Use]]:
        """The columns that are needed, and what for."""
        for column, domain in self.secret.columns.items():
            yield column, "number" if domain.numeric else "label"
        for column in (name for name in self.public if name != ROW):
            ordered = "moment" if self.timed else "number"
            yield column, ordered if column == self.order_by else "other"

    def check_schema(
        self, schema: Mapping[str, Any], unreadable: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Check a frame's columns and types against the scenario; no row is read.

        `unreadable` are further columns, with the names of types that have no meaning here.
        """
        instead = "scenario.check_frame(frame), or frame.collect_schema()"
        instance(schema, Mapping, "The schema", allowed="a pl.Schema", instead=instead)
        if ROW in schema and self.numbers_rows:
            raise UsageError(
                f"The frame has a column {ROW!r}, which would be made: each row is a unit of its own.",
                allowed="another name for that column",
                instead=f'frame.rename({{{ROW!r}: "number"}})',
            )
        needed, unit = (
            self._needed,
            [self.secret.within] if isinstance(self.secret, Presence) else [],
        )
        for column in needed:
            if column in unreadable:
                raise UsageError(
                    f"The column {column!r} is {unreadable[column][:60]}, which has no meaning here.",
                    allowed="text, Boolean, dates, times, and numbers, decimals of up to 38 digits too",
                    instead=f'a view with CAST("{column}" AS …), such as TEXT or DOUBLE PRECISION',
                )
            if column not in schema:
                raise (no_unit if [column] == unit else no_column)(column, schema, needed)
        for column, domain in self.secret.columns.items():
            _check_type(column, schema[column], numeric=domain.numeric)
        if self.order_by is not None:
            self._check_order(schema[self.order_by])

    def _check_order(self, dtype: Any) -> None:
        for prior in self.priors:
            if prior.provenance.origin is not None:
                prior.provenance.origin.check_clock(self.order_by or "", dtype)
        fits = (
            dtype.is_temporal()
            if self.timed
            else dtype.is_integer() or dtype.is_float() or dtype.is_decimal()
        )
        if fits and isinstance(self.start, datetime) and dtype not in (pl.Date, pl.Datetime):
            raise UsageError(
                f"The column {self.order_by!r} of type {type_name(dtype)} for sequences that begin at a date.",
                allowed="a column of dates, or of dates with a time",
                instead="casting the column, or leaving start out",
            )
        if not fits:
            duration = (
                "1h" if self.step == 1 else step_in_words(self.step * 10**9)
            )  # a number may count seconds
            instead = f'step="{duration}"' if dtype.is_temporal() else "step=1"
            if dtype == pl.String:
                read = "str.to_datetime()" if self.timed else "cast(pl.Int64)"
                instead = f'frame.with_columns(pl.col("{self.order_by}").{read})'
            raise UsageError(
                f"The column {self.order_by!r} of type {type_name(dtype)} has no steps of {self.step_in_words}.",
                allowed="a date or time with a step such as '1h', or a number with a step such as 1",
                instead=instead,
            )

    def _without_priors(self) -> dict[str, Any]:
        """Return all but the priors as plain values; a start at 0 is left out."""
        start = self.start.isoformat() if isinstance(self.start, datetime) else self.start
        return {
            **({"start": start} if start else {}),
            "version": VERSION,
            "secret": self.secret.stored(),
            "order_by": self.order_by,
            "step": self.step_in_words if self.timed else self.step,
            "within": list(self.within),
            "public": list(self.public),
        }

    def to_json(self) -> str:
        """Return the scenario as JSON text for `from_json`; a prior with a Python function is refused."""
        return json.dumps(
            {**self._without_priors(), "priors": [one.stored() for one in self.priors]},
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "Scenario":
        """Return the scenario that `to_json` wrote."""
        try:
            stored = json.loads(text)
            if stored["version"] != VERSION:
                raise UsageError(
                    f"The scenario was stored in version {stored['version']!r}.",
                    allowed=f"version {VERSION}",
                    instead="a newer pufferflow",
                )
            return cls(
                AnySecret.from_stored(stored["secret"]),
                [Prior.from_stored(prior) for prior in stored["priors"]],
                start=stored.get("start"),
                **{name: stored[name] for name in ("order_by", "step", "within", "public")},
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, UsageError):
                raise
            problem = "The text is not a stored scenario."
            raise UsageError(
                problem, allowed="what to_json wrote", instead="scenario.to_json()"
            ) from error

    @classmethod
    def from_ledger(cls, text: str) -> "Scenario":
        """Return a scenario that any version stored; if its priors are refused today, it cannot serve new plans."""
        with stored_belief() as refusals:
            scenario = cls.from_json(text)
        set_fields(scenario, refusal=" ".join(dict.fromkeys(refusals)))
        return scenario

    def check_sound(self) -> None:
        """Refuse a scenario of an older ledger whose priors are refused now."""
        if self.refusal:
            raise belief_refused(self.refusal)

    def _card(self) -> Card:
        return Card(
            "Scenario", lines=self.describe().split("\n"), facts=[("fingerprint", self.fingerprint)]
        )

    def __repr__(self) -> str:
        priors = ", ".join(type(prior).__name__ for prior in self.priors)
        return escape_controls(
            f"<Scenario {self.fingerprint[:12]}: {self.secret.describe()}; prior {priors}>",
            one_line=True,
        )


def _one_secret(given: object) -> AnySecret:
    """Return a secret; that of tuples for a list of several."""
    listed: Sequence[object] = cast(Any, given) if isinstance(given, list | tuple) else []
    if listed and all(isinstance(one, AnySecret) for one in listed):
        several = cast(Sequence[Secret], listed)
        return Secret.together(*several) if len(several) > 1 else several[0]
    if not isinstance(given, AnySecret):
        raise _no_secret(cast(object, given))
    return given


def _no_secret(given: object) -> UsageError:
    instead = EXAMPLES["Scenario"]
    if isinstance(given, str):
        instead = f"secret=pf.Secret({quoted(given)}, domain=[0, 1, 2, 3])"
    elif isinstance(given, type) and issubclass(given, AnySecret):
        instead = f"secret={EXAMPLES[given.__name__]}"
    elif isinstance(given, list | tuple) and cast(Sequence[object], given):
        instead = (
            'secret=[pf.Secret("hours", domain=[0, 1, 2]), pf.Secret("wage", domain=[10, 20])]'
        )
    elif isinstance(given, Prior):
        instead = "pf.Scenario(secret, prior): the secret comes first"
    return UsageError(
        f"secret is {_kind(cast(object, given))}.",
        allowed="pf.Secret, a list of them, pf.Initial, pf.Presence, pf.Derived or pf.Population",
        instead=instead,
    )


def _kind(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else quoted(given)


def _names(given: object, what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        return (read_name(given, what),)
    if given is None:
        return ()
    if not isinstance(given, Sequence):
        problem = f"{what} is of type {type(given).__name__}."
        some = sorted(map(str, cast("set[object]", given))) if isinstance(given, set) else []
        raise UsageError(
            problem, allowed="names of columns", instead=f"{what}={some[:8] or ['day']}"
        )
    return tuple(dict.fromkeys(read_name(name, what) for name in cast(Sequence[object], given)))


def _no_prior(given: object) -> UsageError:
    problem = f"prior is {_kind(given)}."
    instead = "prior=pf.Independent(), or pf.AnyCorrelation() for the worst case"
    if isinstance(given, type) and issubclass(given, Prior):
        instead = f"prior={EXAMPLES.get(given.__name__, f'pf.{given.__name__}(…)')}"
    elif isinstance(given, list | tuple) and any(
        isinstance(one, Prior) for one in cast(Sequence[object], given)
    ):
        problem = "prior is a list that has something else than priors in it."
        instead = "prior=[pf.Independent(), pf.AnyCorrelation()]"
    elif isinstance(given, list | tuple) or hasattr(cast(object, given), "__array__"):
        instead = (
            'prior=pf.MarkovChain(matrix, initial="stationary"), if that is the matrix of a chain'
        )
    return UsageError(
        problem, allowed="one prior, or a list of them: the worst one counts", instead=instead
    )


def _priors(given: object, secret: AnySecret) -> tuple[Prior, ...]:
    listed = [given] if isinstance(given, Prior) else given
    if (
        not isinstance(listed, list | tuple)
        or not listed
        or not all(isinstance(one, Prior) for one in cast(Sequence[object], listed))
    ):
        raise _no_prior(given)
    priors = tuple(dict.fromkeys(cast(Sequence[Prior], listed)))
    if isinstance(secret, Population):
        priors = tuple(dict.fromkeys(prior.of_population() for prior in priors))
    tuples = secret.tuples
    if tuples is not None:
        priors = tuple(prior.about_tuples(tuples) for prior in priors)
    skipping = [domain for domain in secret.columns.values() if domain.skips]
    for prior in priors:
        for domain in skipping:
            prior.check_missing(domain)
        if isinstance(secret, Presence) and not prior.allows_presence:
            raise wrong_secret(
                f"pf.{type(prior).__name__}",
                secret,
                allowed="pf.Independent() or pf.AnyCorrelation() with pf.Presence",
                instead="prior=pf.Independent()",
            )
        if isinstance(secret, Derived) and secret.of and not prior.allows_functions:
            raise wrong_secret(
                f"pf.{type(prior).__name__}",
                secret,
                allowed="pf.GaussianPrior or pf.AnyCorrelation() for a linear function of columns (of=)",
                instead="pf.GaussianPrior(pf.AR1(0.8), across=[[4, 1], [1, 9]])",
            )
        prior.check(secret)
    return priors


def _check_type(column: str, dtype: Any, *, numeric: bool) -> None:
    number = dtype.is_numeric() or dtype == pl.Boolean
    label = dtype in (pl.String, pl.Categorical, pl.Enum) or isinstance(
        dtype, pl.Categorical | pl.Enum
    )
    if (numeric and not number) or (not numeric and not (label or dtype == pl.Boolean)):
        raise UsageError(
            f"The column {column!r} of type {type_name(dtype)} for a domain of {'numbers' if numeric else 'labels'}.",
            allowed="a column of numbers" if numeric else "a column of texts or categories",
            instead="labels as domain, such as ['low', 'high'], or frame.cast before protect"
            if numeric
            else "numbers as domain, such as [0, 1, 2, 3], without quotes",
        )
