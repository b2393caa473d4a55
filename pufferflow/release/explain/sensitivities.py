"""List the distances between the laws of an answer, pair by pair, and the noise that each bound needs.

A row is a pair of values of the secret at one position of a pattern under one prior. Its laws are those that the plan
was calibrated for: of all sums that the rows of one group can move, each times its weight. Where a prior lists no
laws but movements, a row is the farthest movement of a pattern.

Distances are in the norm of the plan's noise: 1 for Laplace and staircase noise, 2 for Gaussian and Cauchy noise. For a
plan with one sum, distances and scales are in the unit of the answer; for a mean, in that of its sum. For several sums
the unit is such that one row moves all sums by at most 1.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import polars as pl

from pufferflow.calibration.bound import BallLoss, Bound
from pufferflow.calibration.bound_names import named_bound
from pufferflow.calibration.calibrate import calibrate
from pufferflow.calibration.laws import Laws, Pair, Place, Witness
from pufferflow.core.errors import PufferflowError, Refused
from pufferflow.core.progress import working
from pufferflow.core.validate import finite_number
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.distances import near, wasserstein, winf
from pufferflow.distributions.finite_law import Law
from pufferflow.models.priors.base import Prior, belief_in_words
from pufferflow.models.secret import ValueSecret
from pufferflow.release.explain.worst_pair import (
    NAMELESS,
    Origin,
    nameless,
    origin_of,
    origins_of,
)
from pufferflow.release.planning.calibrated_noise import CalibratedNoise

BOUNDS: Final = ("gwm", "gawm", "dagwm", "exact")
"""The bounds whose scales are shown."""
MOST_ROWS: Final = 100_000
"""The largest number of rows; of more pairs the deciding one and evenly spaced others are shown."""
_MOST_VALUES: Final = 12
"""The most values of a secret whose pairs are shown in a square."""
_PER_DIMENSION: Final = 10.0
_MOVEMENT: Final = "the farthest movement: no laws are listed pair by pair"
_SAMPLED: Final = "one of {shown:,} of {pairs:,} pairs, evenly spaced"
_LONG: Final = "{names} for the farthest pairs only, if any: all would take too long"


@final
@dataclass(frozen=True)
class _Effort:
    """Limits: the number of pairs, of values that are listed, and of numbers that a bound compares."""

    rows: int = MOST_ROWS
    listing: float = 1e8
    bound: float = 2e7


_WHOLE: Final = _Effort()
_MOMENT: Final = _Effort(rows=24, listing=1e6, bound=5e5)
"""For reports, which are written at every release: a fraction of a second."""


@final
@dataclass(frozen=True)
class Sensitivity:
    """One row of the table; unknown values are None."""

    first: str
    second: str
    prior: str
    position: float | None
    groups: int | None
    distances: tuple[float | None, ...]
    """W_∞, and W_p for each p."""
    near: float | None = None
    scales: tuple[float | None, ...] = (None,) * len(BOUNDS)
    decides: bool = False
    note: str = ""


def sensitivities(plan: CalibratedNoise, p: float | Sequence[float] = (1, 2)) -> pl.DataFrame:
    """Return a row for each secret pair, position or pattern, and prior; with W_p for each p."""
    allowed, instead = "numbers >= 1, as the p of W_p", "p=(1, 2)"
    read = [
        finite_number(order, "p", allowed=allowed, instead=instead, fits=lambda number: number >= 1)
        for order in ([p] if isinstance(p, int | float) else p)
    ]
    with working("comparing laws pair by pair"):
        rows, _ = _rows(plan, read, _WHOLE)
    names = ["w_inf", *(f"w_{order:g}" for order in read), "near", *BOUNDS]
    numbers = [(*row.distances, row.near, *row.scales) for row in rows]
    texts = {name: [getattr(row, name) for row in rows] for name in ("first", "second", "prior")}
    frame = pl.DataFrame(
        {
            **texts,
            "position": [row.position for row in rows],
            "groups": [row.groups for row in rows],
        },
        schema_overrides={
            "position": pl.Float64,
            "groups": pl.Int64,
            **dict.fromkeys(texts, pl.String),
        },
    )
    return frame.with_columns(
        *(
            pl.Series(name, [own[at] for own in numbers], dtype=pl.Float64)
            for at, name in enumerate(names)
        ),
        pl.Series("decides", [row.decides for row in rows], dtype=pl.Boolean),
        pl.Series("note", [row.note or None for row in rows], dtype=pl.String),
    )


def farthest_pairs(plan: CalibratedNoise, most: int) -> tuple[list[Sensitivity], int]:
    """Return the deciding pair and the farthest others, with W_1 and W_2, and the number of the rest.

    Takes a fraction of a second: of many pairs only a sample is computed.
    """
    rows, pairs = _rows(plan, (1.0, 2.0), _MOMENT)
    ranked = sorted(rows, key=lambda row: (row.decides, row.distances[0] or 0.0), reverse=True)[
        :most
    ]
    return ranked, max(pairs - len(ranked), 0)


def distances_by_value(plan: CalibratedNoise) -> list[Sensitivity]:
    """Return a row for every two values of the secret at the position that decides, under its prior and pattern.

    Empty where secrets are no values with names, have too many of them, or no laws are known.
    """
    if nameless(plan):
        return []
    origin, measured = origin_of(plan), _Measures.of(plan, (), _MOMENT)
    found = {
        frozenset(pair.secrets): pair
        for pair in _at_one_position(plan, origin)
        if pair.secrets is not None
    }
    values = dict.fromkeys(value for secrets in found for value in secrets)
    if not 2 < len(values) <= _MOST_VALUES:
        return []
    return [
        replace(
            measured.named(origin, pair, ""),
            distances=tuple(length * measured.unit for length in measured.distances(pair)),
        )
        for pair in found.values()
    ]


def _at_one_position(plan: CalibratedNoise, origin: Origin) -> list[Pair]:
    """Return the laws under every two values of the secret at the position of the witness, or nearest to it.

    The last of those with the same secrets is the nearest.
    """
    laws, witness, secret = origin.laws, plan.calibration.witness, plan.request.scenario.secret
    row = witness.row or 0
    if isinstance(secret, ValueSecret) and _unless_refused(lambda: laws.at(witness)) is not None:
        secrets = secret.value_pairs() if len(secret.domain.points) <= _MOST_VALUES else ()
        places = [Place(laws.dimension, witness.prior, pair, row) for pair in secrets]
        known = [_unless_refused(lambda place=place: laws.at(place)) for place in places]
        return [pair for pair in known if pair is not None]
    return sorted(_listed(origin, _MOMENT).pairs, key=lambda pair: -abs((pair.row or 0) - row))


def _rows(
    plan: CalibratedNoise, orders: Sequence[float], effort: _Effort
) -> tuple[list[Sensitivity], int]:
    """Return the rows of all patterns and priors, one of which decides, and the number of pairs."""
    measured = _Measures.of(plan, orders, effort)
    listed = [_listed(origin, effort) for origin in origins_of(plan)]
    pairs = sum(len(one.pairs) for one in listed)
    rows = list[Sensitivity]()
    witnesses = list[tuple[Origin, Witness]]()
    for one in listed:
        if not one.pairs:
            reach = one.origin.laws.winf(measured.norm)
            rows.append(measured.movement(one, reach.length, reach.witness))
            witnesses.append((one.origin, reach.witness))
            continue
        places = _shown(one, pairs, plan.calibration.witness, effort.rows)
        note = (
            _SAMPLED.format(shown=min(effort.rows, pairs), pairs=pairs)
            if pairs > effort.rows
            else ""
        )
        some = [one.pairs[place] for place in places]
        rows += measured.of_pairs(one.origin, some, note)
        witnesses += [(one.origin, pair) for pair in some]
    deciding = _deciding(plan, rows, witnesses)
    found = [replace(row, decides=place == deciding) for place, row in enumerate(rows)]
    return found, max(pairs, len(found))


@final
@dataclass(frozen=True, eq=False)
class _Listed:
    """The pairs of laws on one pattern; none, with a note, where they are unknown or too many to list."""

    origin: Origin
    pairs: Sequence[Pair] = ()
    note: str = ""


def _listed(origin: Origin, effort: _Effort) -> _Listed:
    laws = origin.laws
    if laws.movement_only:
        return _Listed(origin, note=_MOVEMENT)
    if laws.size.laws * laws.size.atoms > effort.listing:
        return _Listed(
            origin, note="the farthest pair: listing the laws of all would take too long"
        )
    try:
        if laws.dimension > 1 and not laws.small:
            raise Refused("laws of vectors with too many values")
        return _Listed(origin, laws.pairs)
    except PufferflowError as refusal:
        return _Listed(origin, note=f"the farthest pair: {refusal.problem}")


def _shown(listed: _Listed, every: int, witness: Witness, most: int) -> list[int]:
    """Return the places of the pairs to show: all, or evenly spaced ones and that of the witness."""
    count = len(listed.pairs)
    if every <= most:
        return list(range(count))
    places = set(np.linspace(0, count - 1, max(count * most // every, 1)).astype(np.int64).tolist())
    places |= {place for place, pair in enumerate(listed.pairs) if pair is witness}
    return sorted(places)


def _deciding(
    plan: CalibratedNoise, rows: Sequence[Sensitivity], of: Sequence[tuple[Origin, Witness]]
) -> int:
    """Return the row that needs most noise under the plan's bound; where no column has it, that of the witness."""
    bound = plan.calibration.bound.name
    at = BOUNDS.index(bound) if bound in BOUNDS else None
    if at is not None and all(row.scales[at] is not None for row in rows):
        return max(range(len(rows)), key=lambda place: rows[place].scales[at] or 0.0)
    laws, witness = set(map(id, plan.calibration.deciding)), plan.calibration.witness

    def rank(place: int) -> tuple[bool, bool, bool, bool, float]:
        origin, own = of[place]
        secrets = witness.secrets is not None and own.secrets in (
            witness.secrets,
            witness.secrets[::-1],
        )
        same = (
            origin.tables.prior is witness.prior,
            id(origin.laws) in laws,
            secrets,
            own.row == witness.row,
        )
        return (*same, rows[place].distances[0] or 0.0)

    return max(range(len(rows)), key=rank)


@final
@dataclass(frozen=True, eq=False)
class _Measures:
    """The norm, unit, guarantee and family of noise with which pairs are measured."""

    plan: CalibratedNoise
    orders: Sequence[float]
    norm: float
    unit: float
    """One unit of the weighted sums, in the unit of the table."""
    bounds: tuple[Bound | None, ...]
    effort: _Effort

    @classmethod
    def of(cls, plan: CalibratedNoise, orders: Sequence[float], effort: _Effort) -> "_Measures":
        guarantee, example = plan.calibration.guarantee, plan.family(1.0)
        bounds = tuple(
            _unless_refused(lambda name=name: named_bound(name, guarantee, example))
            for name in BOUNDS
        )
        return cls(plan, orders, example.norm, plan.sensitivity_unit[0], bounds, effort)

    def movement(self, listed: _Listed, length: float, witness: Witness) -> Sensitivity:
        """Return the row of a pattern that has no laws but a movement."""
        scale = self._of_ball(length, witness.dimension, 0.0)
        unknown = (None,) * len(self.orders)
        row = self.named(listed.origin, witness, listed.note)
        return replace(
            row, distances=(length * self.unit, *unknown), scales=(scale, None, None, None)
        )

    def of_pairs(self, origin: Origin, pairs: Sequence[Pair], note: str) -> Iterator[Sensitivity]:
        """Return the rows of some pairs on one pattern, each bound for as many pairs as take seconds."""
        distances = [self.distances(pair) for pair in pairs]
        farthest = sorted(range(len(pairs)), key=lambda place: distances[place], reverse=True)
        worked_out, long = list[tuple[Bound | None, set[int]]](), list[str]()
        for name, bound in zip(BOUNDS[2:], self.bounds[2:], strict=True):
            most = self._most(bound, origin.laws)
            worked_out.append((bound, set(farthest[:most])))
            long += [name] if most < len(pairs) else []
        notes = "; ".join(
            filter(None, [note, _LONG.format(names=" and ".join(long)) if long else ""])
        )
        for place, (pair, lengths) in enumerate(zip(pairs, distances, strict=True)):
            row = self._by_distance(origin, pair, lengths, notes)
            others = [
                self._of_laws(origin.laws, pair, bound, row.scales[0]) if place in some else None
                for bound, some in worked_out
            ]
            yield replace(row, scales=(*row.scales, *others))

    def _most(self, bound: Bound | None, laws: Laws) -> int:
        """Return for how many pairs a bound is computed in seconds; integrals over vectors take longer."""
        if bound is None or self._as_gwm(bound, laws):
            return MOST_ROWS + 1
        one = bound.count(laws, self.plan.calibration.guarantee) / laws.size.pairs
        return int(self.effort.bound / max(one * _PER_DIMENSION ** (laws.dimension - 1), 1.0))

    def _as_gwm(self, bound: Bound, laws: Laws) -> bool:
        """Return whether a bound needs the same noise as GWM: between constants on a line, or where it saves none."""
        noise = self.plan.family(1.0)
        plain = laws.constant and laws.dimension == 1 and noise.monotone
        return plain or not bound.automatic(self.plan.calibration.guarantee, noise)

    def _by_distance(
        self, origin: Origin, pair: Pair, lengths: Sequence[float], note: str
    ) -> Sensitivity:
        """Return the row of a pair with the scales of the bounds that need a distance alone."""
        delta, left_out = (
            self.plan.calibration.guarantee.delta,
            getattr(self.bounds[1], "delta", 0.0),
        )
        close = self._near(pair, delta) if delta else None
        rest = self._near(pair, left_out) if left_out else None
        return replace(
            self.named(origin, pair, note),
            distances=tuple(self._in_unit(length) for length in lengths),
            near=self._in_unit(close),
            scales=(
                self._of_ball(lengths[0], pair.dimension, 0.0),
                None if rest is None else self._of_ball(rest, pair.dimension, left_out),
            ),
        )

    def distances(self, pair: Pair) -> list[float]:
        """Return W_∞ and W_p; all the same between constants."""
        mu, nu = pair
        farthest = float(winf(mu, nu, self.norm))
        if _constant(pair):
            return [farthest] * (1 + len(self.orders))
        return [farthest, *(float(wasserstein(mu, nu, order, self.norm)) for order in self.orders)]

    def _near(self, pair: Pair, delta: float) -> float:
        return float(
            winf(pair.mu, pair.nu, self.norm)
            if _constant(pair)
            else near(pair.mu, pair.nu, delta, self.norm)
        )

    def _of_ball(self, length: float, dimension: int, left_out: float) -> float | None:
        """Return the scale for movements of a length, which is proportional to it."""
        guarantee, where = self.plan.calibration.guarantee, Place(dimension, None, (None, None), 0)
        ball = BallLoss(1.0, Certainty.EXACT, where, left_out)
        scale = _unless_refused(lambda: ball.least_scale(self.plan.family, guarantee))
        return None if scale is None or not math.isfinite(length) else self._in_unit(length * scale)

    def _of_laws(
        self, laws: Laws, pair: Pair, bound: Bound | None, of_gwm: float | None
    ) -> float | None:
        """Return the scale that a bound needs for one pair; None where it refuses."""
        if bound is None or self._as_gwm(bound, laws):
            return None if bound is None else of_gwm
        guarantee, family = self.plan.calibration.guarantee, self.plan.family
        return self._in_unit(
            _unless_refused(lambda: calibrate([pair], guarantee, family, bound).noise.scale)
        )

    def _in_unit(self, length: float | None) -> float | None:
        return None if length is None else length * self.unit

    def _words(self, prior: Prior) -> str:
        """Describe a prior, with its place in the list where others have the same description."""
        words, priors = belief_in_words(prior), self.plan.request.scenario.priors
        alike = [
            place for place, other in enumerate(priors, start=1) if belief_in_words(other) == words
        ]
        own = next((place for place in alike if priors[place - 1] is prior), 0)
        return f"{words} (prior {own} of {len(priors)})" if own and len(alike) > 1 else words

    def named(self, origin: Origin, witness: Witness, note: str) -> Sensitivity:
        """Return a row with the names of its secrets, prior and position, and nothing measured yet."""
        secrets = (
            NAMELESS
            if nameless(self.plan) or witness.secrets is None
            else tuple(map(str, witness.secrets))
        )
        prior, pattern = origin.tables.prior, origin.pattern
        alone = prior.independent_rows
        positions = (
            None if alone or pattern.positions is None or witness.row is None else pattern.positions
        )
        return Sensitivity(
            first=secrets[0],
            second=secrets[1],
            prior=self._words(prior),
            position=None if positions is None else float(positions[witness.row]),
            groups=None if alone else pattern.groups,
            distances=(),
            note=note,
        )


def _constant(pair: Pair) -> bool:
    return all(isinstance(law, Law) and len(law) == 1 for law in pair)


def _unless_refused(found: Callable[[], Any]) -> Any:
    """Return the result of a function; None where it refuses."""
    try:
        return found()
    except PufferflowError:
        return None
