"""The certificate of a release: the guarantee, the noise that keeps it, and the assumptions it rests on."""

import hashlib
import itertools
from typing import Any, Protocol, final

import msgspec

from pufferflow.core.errors import UsageError, escape_controls
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.rounding import agree
from pufferflow.core.tables import SourceVersion
from pufferflow.privacy.by_name import StoredGuarantee
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.cost import Answered, Cost
from pufferflow.reports.numbers import at_most, counted, promise_in_words

VERSION = 1
_ADDED_LATER = (
    "readings",
    "ordinary",
    "sources",
    "engine",
    "quieter",
    "keys",
    "correlations",
    "answered",
    "period",
)
"""Fields that are left out while they are empty, so that older certificates are written, and hashed, as they were."""
NOBODY_COUNTS = "no account: nobody is counting what all releases together reveal"

ERROR_BARS = "they cover the added noise only, not clipping or missing values"


@final
class NoisySum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One noisy sum behind the answers: what is summed, the noise's scale, and the width of the grid it is on."""

    sum: str
    noise: str
    scale: float
    grid: str


@final
class QuieterGroups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many groups of the answer have less noise than `sums` say: on all sums it is so small a `share` of that."""

    groups: int
    share: float


@final
class AskedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query of the batch, the columns of its answer, and which of the noisy sums it uses."""

    query: str
    outputs: tuple[str, ...]
    sums: tuple[int, ...]


@final
class ChosenKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys that the data chose: those with a noisy number of rows `above` this one.

    A key of `surely` or more rows appears with 99 % probability. With probability `delta` or less a key appears that
    only one unit has.
    """

    above: float
    surely: int
    delta: float

    @property
    def words(self) -> str:
        """When a key appears, for people."""
        return (
            f"those whose noisy number of rows is above {at_most(self.above)}. A key of {self.surely} rows appears "
            "with probability 99 %, one of few rows rarely; how many do not appear is not published. Of delta, "
            f"{at_most(self.delta, 6)} is for keys that only one unit has"
        )


@final
class CoveredPeriod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The period that a scheduled release is about: its name, its kind ("day"), and the time zone that it is read in.

    >>> CoveredPeriod("2026-11-20", "day", "Europe/Berlin").words
    '2026-11-20, a day in Europe/Berlin'
    """

    name: str
    every: str
    zone: str

    @property
    def words(self) -> str:
        """The period, for people."""
        return f"{self.name}, a{'n' * (self.every == 'hour')} {self.every} in {self.zone}"


@final
class Certificate(InNotebooks, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a release, none of which depends on a private value; `print` shows them as text.

    `promise` is the guarantee for all answers of the release together. `loss` is the ε proven for the noise.
    `sensitivity` is how far the sums move together, each measured in `sensitivity_unit`. `cost` is the input of
    composition. `where` describes the selected rows, and `questions` is a digest of the queries, with all values of
    filters. `readings` describe how null, values outside the domain and classes are read; they do not say whether there
    are any. `ordinary` is the differential privacy of a single row under the same noise, over the pairs of the secret.
    `sources` are the versions of the tables that were read, if they have versions. `engine` is what read them, if it is
    not Polars. `quieter` are groups of the answer that need less noise than others for the same guarantee. If the data
    chooses keys, `keys` says when a key appears. `correlations` are those of the noise of `sums`, in their order; there
    are none if it is independent. `answered` has the noisy sums of rows that are draws from a table; an account
    computes their joint law. `period` is the period of a scheduled release.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
    >>> release.certificate.promise, release.certificate.sums[0].scale
    (Pure(epsilon=1.0), 3.0...)
    >>> Certificate.from_json(release.certificate.to_json()) == release.certificate
    True
    """

    scenario: str
    hidden: str
    promise: StoredGuarantee
    loss: float
    queries: tuple[AskedQuery, ...]
    sums: tuple[NoisySum, ...]
    groups: tuple[str, ...]
    bound: str
    sensitivity: float
    sensitivity_unit: str
    witness: str
    certainty: str
    composition: str
    assumptions: tuple[str, ...]
    cost: Cost
    where: tuple[str, ...] = ()
    questions: str = ""
    notes: tuple[str, ...] = ()
    ordinary: StoredGuarantee | None = None
    entry: str | None = None
    library: str = ""
    version: int = VERSION
    readings: tuple[str, ...] = ()
    sources: tuple[SourceVersion, ...] = ()
    engine: str = ""
    quieter: tuple[QuieterGroups, ...] = ()
    keys: ChosenKeys | None = None
    correlations: tuple[tuple[float, ...], ...] = ()
    answered: Answered | None = None
    period: CoveredPeriod | None = None

    def to_json(self) -> str:
        """Return the certificate as JSON text, which `from_json` reads back unchanged."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        for name in _ADDED_LATER:
            if not fields[name]:
                del fields[name]
        return msgspec.json.encode(fields).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """Return the certificate that `to_json` wrote."""
        problem = "The text is no stored certificate."
        try:
            certificate = msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError, RecursionError):
            certificate = None
        if certificate is not None and certificate.version > VERSION:
            problem = f"The certificate was written in version {certificate.version}, by a newer pufferflow."
            certificate = None
        if certificate is None:
            raise UsageError(
                problem, allowed="what to_json wrote", instead="release.certificate.to_json()"
            )
        return certificate

    @property
    def facts(self) -> "Certificate":
        """The certificate without prose, period, entry and versions: the same for all releases of one plan."""
        words = {
            "hidden": "",
            "where": (),
            "witness": "",
            "assumptions": (),
            "notes": (),
            "readings": (),
        }
        return msgspec.structs.replace(
            self,
            entry=None,
            library="",
            ordinary=None,
            sources=(),
            engine="",
            answered=None,
            period=None,
            **words,
        )

    @property
    def digest(self) -> str:
        """A hash that releases of one plan share, also those of versions that stored fewer facts."""
        return hashlib.sha256(self.facts.to_json().encode()).hexdigest()

    def asks_as(self, other: "Certificate") -> bool:
        """Return whether another certificate has the same queries and the same guarantee, up to rounding.

        Older versions made noise for every name of a sum: then queries are compared by their words.
        """
        if len(self.sums) > len(other.sums):
            return agree(_in_words(self), _in_words(other))
        return agree(_queries_and_noise(self), _queries_and_noise(other))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all answers together."""
        return self.promise

    def __str__(self) -> str:
        """Return the certificate as text for people."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            f"{name:<{width}}  {escape_controls(text, one_line=True)}" for name, text in rows
        )

    def _card(self) -> Card:
        return Card("Certificate: facts about a release", facts=self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return the certificate as names and texts for people; a text of several lines has a name in the first only.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
        >>> release.certificate.rows()[0]
        ('promise', 'epsilon 1 for all answers together: whoever sees the answers changes the odds ... 2.72-fold')
        """
        hidden = [("scenario", self.scenario), *(("", line) for line in self.hidden.split("\n"))]
        queries = [
            ("asked", f"{', '.join(query.outputs)}: {query.query}") for query in self.queries
        ]
        noise = [
            ("noise", f"{own.noise} of scale {own.scale:.6g} on {own.sum}, grid {own.grid}")
            for own in self.sums
        ]
        return [
            ("promise", promise_in_words(self.promise)),
            ("", repr(self.promise)),
            *hidden,
            *queries,
            *[("period", own.words) for own in [self.period] if own is not None],
            *(("where", line) for line in self.where),
            *(("read", line) for line in self.readings),
            *[("bars", ERROR_BARS)] * bool(self.readings),
            *(("source", str(version)) for version in self.sources),
            *[("engine", self.engine)] * bool(self.engine),
            ("groups", ", ".join(self.groups) or "none: one answer for all rows"),
            *[("keys", own.words) for own in [self.keys] if own is not None],
            *noise,
            *(("noise", line) for line in _quieter_in_words(self.quieter)),
            *(("noise", line) for line in _correlations_in_words(self.correlations)),
            ("proof", f"{self.bound} ({self.certainty}), loss {self.loss:.6g}, {self.composition}"),
            ("movement", f"{self.sensitivity:.6g} {self.sensitivity_unit}"),
            ("worst", self.witness),
            *(
                [("one row", f"differential privacy too: {self.ordinary!r}")]
                if self.ordinary is not None
                else []
            ),
            *(("assumed", line) for line in self.assumptions),
            *(("note", line) for line in self.notes),
            ("ledger", self.entry or NOBODY_COUNTS),
        ]


def _quieter_in_words(quieter: tuple[QuieterGroups, ...]) -> list[str]:
    """Say in how many groups there is less noise, and how much less."""
    if not quieter:
        return []
    shares, groups = [own.share for own in quieter], sum(own.groups for own in quieter)
    ends = f"{min(shares):.4g}" if len(shares) == 1 else f"{min(shares):.4g} to {max(shares):.4g}"
    return [f"{ends} of that in {counted(groups, 'group')}, whose rows need less"]


def _correlations_in_words(correlations: tuple[tuple[float, ...], ...]) -> list[str]:
    """Say between which sums, by their place in the list, noise is how correlated."""
    pairs = itertools.combinations(range(len(correlations)), 2)
    known = [
        f"{correlations[a][b]:.3g} of sums {a + 1} and {b + 1}"
        for a, b in pairs
        if correlations[a][b]
    ]
    return [f"correlated (M28): {', '.join(known)}"] if known else []


def _queries_and_noise(certificate: Certificate) -> tuple[Any, ...]:
    noise = tuple((noisy.noise, noisy.sum) for noisy in certificate.sums)
    return (
        *(certificate.scenario, certificate.questions, certificate.promise, certificate.queries),
        *(certificate.groups, noise),
    )


def _in_words(certificate: Certificate) -> tuple[Any, ...]:
    queries = tuple((query.query, query.outputs) for query in certificate.queries)
    return certificate.scenario, certificate.promise, queries, certificate.groups, certificate.where


class Reservable(Protocol):
    """A decision, as far as an account reads it."""

    @property
    def cost(self) -> Cost:
        """The cost, for composition."""
        ...

    @property
    def certificate(self) -> Certificate:
        """The certificate of the answers."""
        ...

    @property
    def name(self) -> str:
        """A name that is the same on every machine for the same queries, terms and public facts."""
        ...
