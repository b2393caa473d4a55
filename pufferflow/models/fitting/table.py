"""Fitting tables to public references, and the regions of laws around what independent draws counted.

A region bounds each cell by itself, and the whole law in total variation. For laws each counted from n draws the
regions hold all of them with a joint confidence. One half of the chance to be wrong goes to the cells, in equal shares:
two-sided intervals of Clopper and Pearson, which are exact. The other half goes to the laws, in equal shares.

There are two bounds on P(TV(counted, true) ≥ τ), from which the size τ of a ball follows. It is at most (2^k −
2)·e^{−2nτ²} over the sets of k cells (Hoeffding). It is at most e^{−2n(τ − e)²} for τ ≥ e = ½√((k − 1)/n), which bounds
the mean distance (McDiarmid). n and k decide which of the two balls is taken.

With slack the laws of every column given each value of every other, and of all others together, lie in regions with a
joint confidence. The chance to be wrong is split equally among these families of laws, and within each as `law_counts`
says. Given the values of one column the draws of the others are independent, so counts are exactly multinomial.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number, quoted, read_name
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Interval, Label, read_domain
from pufferflow.models.fitting.sequences import MOVED, noted, read_states
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

Slack = float | Literal["confidence"] | None
HALF = 0.5
"""Added to each count (Krichevsky and Trofimov): a value that was never seen is not impossible."""
CONFIDENCE = 0.95


def read_slack(slack: object) -> Slack:
    """Return the slack of a fit: None, "confidence", or a width from 0 to 1."""
    if slack is None or (isinstance(slack, str) and slack == "confidence"):
        return slack
    allowed, instead = 'a number from 0 to 1, or "confidence"', "slack=0.05"
    width = (
        np.inf
        if isinstance(slack, str)
        else finite_number(slack, "slack", allowed=allowed, instead=instead)
    )
    if not 0 <= width <= 1:
        raise UsageError(f"slack is {slack!r}.", allowed=allowed, instead=instead)
    return width


def read_confidence(confidence: object) -> float:
    """Return a level of confidence."""
    allowed, instead = "a number between 0 and 1", "confidence=0.95"
    if (
        not 0
        < (level := finite_number(confidence, "confidence", allowed=allowed, instead=instead))
        < 1
    ):
        raise UsageError(f"confidence is {level:g}.", allowed=allowed, instead=instead)
    return level


def clopper_pearson(times: Floats, others: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return intervals of shares that `times` draws had and `others` had not; each side fails with chance `tail`."""
    from scipy.special import betaincinv  # takes longer to load than all else here

    least = np.asarray(betaincinv(np.maximum(times, 1), others + 1, tail), dtype=np.float64)
    # the largest share of one state leaves the least share of the others, whose small digits are kept
    rest = np.asarray(betaincinv(np.maximum(others, 1), times + 1, tail), dtype=np.float64)
    return np.where(times > 0, least, 0.0), np.where(others > 0, 1 - rest, 1.0)


def outwards(low: Floats, high: Floats, estimates: Floats) -> tuple[Floats, Floats]:
    """Return bounds that hold the estimates: a wider class of priors is the private side."""
    low, high = (
        np.nextafter(np.minimum(low, estimates), -1),
        np.nextafter(np.maximum(high, estimates), 2),
    )
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def smoothed(counts: Indices | Floats) -> Floats:
    """Return the estimated laws, along the last axis.

    >>> smoothed(np.array([[3, 0]])).tolist()
    [[0.875, 0.125]]
    """
    shares = (counts + HALF) / (counts.sum(axis=-1, keepdims=True) + HALF * counts.shape[-1])
    return shares / shares.sum(axis=-1, keepdims=True)


def regions_around(
    counts: Indices | Floats, slack: float | None, chance: float, cells: int, laws: int
) -> LawRegions:
    """Return regions of laws counted along the last axis; with slack None those of confidence.

    `chance` is the probability that any of all cells and laws lies outside, including those of other counts.
    """
    centre, times = smoothed(counts), counts.astype(np.float64)
    if slack is not None:
        return LawRegions.of(centre, *outwards(centre - slack, centre + slack, centre))
    drawn = times.sum(axis=1, keepdims=True)
    low, high = clopper_pearson(times, drawn - times, chance / (4 * cells))
    balls = np.array([_ball(int(n), counts.shape[1], chance / (2 * laws)) for n in drawn[:, 0]])
    moved = (
        np.abs(times / np.maximum(drawn, 1) - centre).sum(axis=1) / 2
    )  # from what was counted to the centre
    return LawRegions.of(
        centre, *outwards(low, high, centre), np.minimum((balls + moved) * (1 + 2.0**-40), 1.0)
    )


def _ball(drawn: int, cells: int, chance: float) -> float:
    """Return how far in total variation a counted law may be from the true one, except with a small chance."""
    if cells == 1:
        return 0.0
    if drawn == 0:
        return 1.0
    by_sets = math.sqrt(
        (cells * math.log(2) + math.log1p(-(2.0 ** (1 - cells))) - math.log(chance)) / (2 * drawn)
    )
    by_mean = math.sqrt((cells - 1) / drawn) / 2 + math.sqrt(-math.log(chance) / (2 * drawn))
    return min(by_sets, by_mean, 1.0)


ESTIMATED = "estimated, with no allowance for chance"
_MOST_CELLS = 4000
_MOST_COLUMNS = 6
_INSTEAD = 'pf.Table.fit(reference, ["ill", "score"], slack="confidence")'


@final
@dataclass(frozen=True, eq=False)
class FittedTable:
    """How often every combination of the points of some columns was drawn: an axis of `counts` for each column."""

    names: tuple[str, ...]
    points: tuple[tuple[Label, ...], ...]
    counts: Indices
    provenance: Provenance

    @property
    def law(self) -> tuple[list[tuple[Label, ...]], list[Fraction]]:
        """All combinations, and their estimated probabilities: half a draw is added to each count."""
        total = 2 * int(self.counts.sum()) + self.counts.size
        return list(product(*self.points)), [
            Fraction(2 * int(n) + 1, total) for n in self.counts.ravel()
        ]

    def laws(
        self, slack: float | None, confidence: float
    ) -> list[tuple[str, tuple[str, ...], LawRegions]]:
        """Return for each family of laws the given column, the columns of the joint law, and the regions."""
        questions = [
            (hidden, (name,)) for hidden in self.names for name in self.names if name != hidden
        ]
        if len(self.names) > 2:  # of two columns the other one is all others
            questions += [
                (hidden, tuple(name for name in self.names if name != hidden))
                for hidden in self.names
            ]
        chance = (1 - confidence) / len(questions)
        return [
            (hidden, asked, self._regions(hidden, asked, slack, chance))
            for hidden, asked in questions
        ]

    def _regions(
        self, hidden: str, asked: tuple[str, ...], slack: float | None, chance: float
    ) -> LawRegions:
        kept = [self.names.index(name) for name in (hidden, *asked)]
        dropped = tuple(axis for axis in range(len(self.names)) if axis not in kept)
        joint = self.counts.sum(axis=dropped)
        order = np.argsort(
            np.argsort(kept)
        )  # the place of each kept axis among those that are left
        counts = np.transpose(joint, [int(place) for place in order]).reshape(
            joint.shape[int(order[0])], -1
        )
        return regions_around(counts, slack, chance, counts.size, len(counts))


def fit_table(
    reference: Reference, columns: Sequence[str], domains: Mapping[str, Any] | None = None
) -> FittedTable:
    """Return the counted combinations of some columns of a public reference.

    Values are those that occur, or those of a column's domain: a list, or pf.Bins for a continuous column. Rows without
    a value in some column are left out.
    """
    names, source = _names(columns), read_reference(reference)
    known = _domains(domains, names)
    frame = source.read(names)
    read = {name: read_states(frame[name], known.get(name)) for name in names}
    points = tuple(tuple(domain.points) for _, domain, _ in read.values())
    sizes = tuple(map(len, points))
    if np.prod(sizes, dtype=float) > _MOST_CELLS:
        raise UsageError(
            f"{len(names)} columns with {' × '.join(map(str, sizes))} combinations of values.",
            allowed=f"at most {_MOST_CELLS} combinations",
            instead='domains={"hours": pf.Bins(edges, values)}, or fewer columns',
        )
    rows = pl.DataFrame(
        {str(at): states for at, (states, *_) in enumerate(read.values())}
    ).drop_nulls()
    if rows.height == 0:
        raise UsageError(
            f"The reference {source.name!r} has no row with a value in each of these columns.",
            allowed="a reference with rows",
            instead="another reference, or other columns",
        )
    places = np.ravel_multi_index(tuple(rows.to_numpy().T), sizes)
    counts = np.bincount(places, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.intp)
    left_out, moved = frame.height - rows.height, sum(moved for *_, moved in read.values())
    notes = (
        *noted(left_out, "{} rows without a value in some column were left out"),
        *noted(moved, MOVED),
    )
    provenance = Provenance(source.name, rows.height, digest_of(frame), notes, source.origin)
    return FittedTable(tuple(names), points, counts, provenance)


def read_slacks(slack: object, confidence: object) -> tuple[Slack, float]:
    """Return the slack of a fit, and the confidence of its regions."""
    return read_slack(slack), read_confidence(confidence)


def _names(columns: object) -> list[str]:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise UsageError(
            f"columns is {quoted(columns)}.",
            allowed="names of two or more columns",
            instead=_INSTEAD,
        )
    names = [read_name(name, "columns") for name in cast(Sequence[Any], columns)]
    if (
        not 2 <= len(names) <= _MOST_COLUMNS
        or len(set(names)) < len(names)
        or "probability" in names
    ):
        raise UsageError(
            f"columns names {len(names)} columns{', one of them twice' if len(set(names)) < len(names) else ''}.",
            allowed=f"2 to {_MOST_COLUMNS} different columns, none of them named 'probability'",
            instead=_INSTEAD,
        )
    return names


def _domains(domains: object, names: Sequence[str]) -> dict[str, Any]:
    """Return the given domains, each of which is of one of the columns."""
    allowed, instead = (
        "the domains of some of the columns",
        'domains={"hours": pf.Bins(edges, values)}',
    )
    if domains is None:
        return {}
    if not isinstance(domains, Mapping):
        raise UsageError(f"domains is {quoted(domains)}.", allowed=allowed, instead=instead)
    given = dict(cast(Mapping[str, Any], domains))
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(
            f"domains has {quoted(unknown[0])}, which is not among columns.",
            allowed=allowed,
            instead=instead,
        )
    read = {name: read_domain(domain) for name, domain in given.items()}
    for name, domain in read.items():
        if isinstance(domain, Interval):
            raise UsageError(
                f"The domain of {name!r} is {domain.describe()}, and a table has single values.",
                allowed="a list of values, or classes of a continuous column",
                instead=f'domains={{"{name}": pf.Bins(edges, values)}}',
            )
    return read
