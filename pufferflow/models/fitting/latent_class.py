"""Fitting latent classes to public references in which the class of every group is known, or hidden there too.

Groups are independent draws of a class, and rows independent draws given it. With slack the law of the class and those
of rows lie in regions with a joint confidence: all their cells and laws together are one family for `law_counts`. Given
the classes of all groups their rows are independent, as the prior itself says, so that counts are multinomial exactly.
If rows of one group are more similar than that, a note says so.

If classes are hidden the likeliest ones are estimated by expectation and maximisation, from several starts. No bound on
their distance to the true ones is known, so there is no region.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Indices, log_sum
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Domain, Interval, Label, read_domain
from pufferflow.models.fitting.markov import LEAST_EFFECT
from pufferflow.models.fitting.sequences import MOVED, noted, read_states, read_units
from pufferflow.models.fitting.table import HALF, regions_around, smoothed
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

_SURE = 3.3
_STARTS, _ROUNDS, _SETTLED = 20, 2000, 1e-10
_MOST_CLASSES = 20
HIDDEN = "classes are hidden in the reference too: the likeliest ones, with no allowance for chance"
_FEW = 30
_INSTEAD = 'pf.LatentClass.fit(reference, "level", "tariff", within="house", slack="confidence")'


@final
@dataclass(frozen=True, eq=False)
class FittedClasses:
    """How many groups are of each class, and how often their rows have each point of the column's domain."""

    names: tuple[Label, ...]
    points: tuple[Label, ...]
    groups: Indices | Floats
    """Numbers of groups, expected ones where classes are hidden."""
    rows: Indices | Floats
    provenance: Provenance

    @property
    def laws(self) -> tuple[Floats, Floats]:
        """The estimated weights and laws of rows; half a draw is added to each count."""
        return smoothed(self.groups), smoothed(self.rows)

    def regions(self, slack: float | None, confidence: float) -> tuple[LawRegions, LawRegions]:
        """Return the regions of the weights and of the laws of rows."""
        if slack is None and HIDDEN in self.provenance.notes:
            raise UsageError(
                'slack="confidence" for classes that are hidden in the reference: no bound on their error is known.',
                allowed="slack as a number, or a reference with the class of every group as a column",
                instead="slack=0.05",
            )
        family = 1 - confidence, self.groups.size + self.rows.size, 1 + len(self.rows)
        return regions_around(self.groups[None], slack, *family), regions_around(
            self.rows, slack, *family
        )


def fit_classes(  # noqa: PLR0913 - a reference, its columns, and how they are read
    reference: Reference,
    column: str,
    group_class: str | None,
    within: str | Sequence[str],
    *,
    domain: object = None,
    classes: Sequence[Label] | int | None = None,
) -> FittedClasses:
    """Return the counted classes of a public reference, in the order of `classes`, or sorted.

    Rows without a value, a class or a group are left out. Without `group_class` the number of hidden `classes` is
    given; their likeliest laws are estimated, and the class with most groups comes first.
    """
    if group_class is None:
        return _fit_hidden(reference, column, within, domain, classes)
    if isinstance(classes, int):
        raise UsageError(
            f"classes is {classes}, and group_class names a column.",
            allowed="a list of its values",
            instead=_INSTEAD,
        )
    read = _read_groups(reference, column, group_class, within, _domain(domain), _domain(classes))
    counts = np.zeros((len(read.classes), len(read.domain.points)), dtype=np.intp)
    np.add.at(counts, read.class_of, read.table)
    numbers = np.bincount(read.class_of, minlength=len(read.classes)).astype(np.intp)
    notes = *_seldom(numbers), *_alike(read.table, read.class_of, counts, read.domain)
    return FittedClasses(
        read.classes, tuple(read.domain.points), numbers, counts, read.provenance.noted(*notes)
    )


def _fit_hidden(
    reference: Reference, column: str, within: str | Sequence[str], domain: object, classes: object
) -> FittedClasses:
    if (
        isinstance(classes, bool)
        or not isinstance(classes, int)
        or not 2 <= classes <= _MOST_CLASSES
    ):
        raise UsageError(
            f"classes is {quoted(classes)}, and no column names the class of a group.",
            allowed=f"how many hidden classes there are, 2 to {_MOST_CLASSES}, or group_class",
            instead='pf.LatentClass.fit(reference, "level", None, within="house", classes=2)',
        )
    read = _read_groups(reference, column, None, within, _domain(domain), None)
    table = read.table.astype(np.float64)
    shares = _likeliest(table, classes)
    shares = shares[:, np.argsort(-shares.sum(axis=0), kind="stable")]
    groups, names = shares.sum(axis=0), tuple(range(classes))
    provenance = read.provenance.noted(*_seldom(groups), HIDDEN)
    return FittedClasses(names, tuple(read.domain.points), groups, shares.T @ table, provenance)


class _Groups(NamedTuple):
    """How often the rows of each group have each point of a domain, and the class of each group."""

    table: Indices
    class_of: Indices
    classes: tuple[Label, ...]
    domain: Domain
    provenance: Provenance


def _read_groups(  # noqa: PLR0913, PLR0917 - a reference, its columns, and how they are read
    reference: Reference,
    column: str,
    group_class: str | None,
    within: object,
    domain: object,
    classes: object,
) -> _Groups:
    """Return the groups of a reference; without a column for the class all are of the class 0."""
    others = [] if group_class is None else [("group_class", group_class)]
    units = read_units(within, [*others, ("column", column)], _INSTEAD, needed=True)
    source = read_reference(reference)
    frame = source.read([*units, *(name for _, name in others), column])
    states, read, moved = read_states(frame[column], domain)
    kinds, points = pl.lit(0), tuple[Label, ...]()
    if group_class is not None:
        kinds, known, _ = read_states(frame[group_class], classes)
        points = tuple(known.points)
    groups = {f"within {place}": frame[unit] for place, unit in enumerate(units)}
    rows = pl.DataFrame({**groups, "state": states}).with_columns(kinds.alias("class")).drop_nulls()
    _check_groups(rows, list(groups), source.name, group_class or "")
    unit = (
        rows.select(pl.struct(list(groups)).rank("dense") - 1)
        .to_series()
        .to_numpy()
        .astype(np.intp)
    )
    table = np.zeros((int(unit.max()) + 1, len(read.points)), dtype=np.intp)
    np.add.at(table, (unit, rows["state"].to_numpy().astype(np.intp)), 1)
    class_of = np.zeros(len(table), dtype=np.intp)
    class_of[unit] = rows["class"].to_numpy()
    what = "a value or a group" if group_class is None else "a value, a class or a group"
    notes = (
        *noted(frame.height - rows.height, f"{{}} rows without {what} were left out"),
        *noted(moved, MOVED),
    )
    provenance = Provenance(source.name, rows.height, digest_of(frame), notes, source.origin)
    return _Groups(table, class_of, points, read, provenance)


def _likeliest(table: Floats, classes: int) -> Floats:
    """Return the shares of classes in every group, for the likeliest classes found: of shape (groups, classes).

    Half a draw is added to each expected count, as to counts, so that no law has a zero.
    """
    rng = np.random.default_rng(0)
    tried = [_improved(table, rng.dirichlet(np.ones(classes), len(table))) for _ in range(_STARTS)]
    return max(tried, key=lambda one: one[0])[1]


def _improved(table: Floats, shares: Floats) -> tuple[float, Floats]:
    """Return a log likelihood that no step improves, and the shares of classes that have it."""
    likelihood = -np.inf
    for _ in range(_ROUNDS):
        weights, rows = smoothed(shares.sum(axis=0)), smoothed(shares.T @ table)
        logs = np.log(weights) + table @ np.log(rows).T
        whole, before = log_sum(logs), likelihood
        shares = np.exp(logs - whole[:, None])
        likelihood = float(whole.sum() + HALF * (np.log(weights).sum() + np.log(rows).sum()))
        if likelihood - before <= _SETTLED * abs(likelihood):
            break
    return likelihood, shares


def _domain(given: object) -> object:
    if given is None:
        return None
    read = read_domain(given)
    if isinstance(read, Interval):
        raise UsageError(
            f"The domain is {read.describe()}, and rows of a class have single values.",
            allowed="a list of values, or classes of a continuous column",
            instead="domain=pf.Bins(edges, values)",
        )
    return read


def _check_groups(rows: pl.DataFrame, groups: list[str], name: str, group_class: str) -> None:
    if rows.height == 0:
        raise UsageError(
            f"The reference {name!r} has no row with a value, a class and a group.",
            allowed="a reference with rows",
            instead="another reference, or other columns",
        )
    classes = rows.group_by(groups).agg(pl.col("class").n_unique())["class"]
    if (classes > 1).any():
        raise UsageError(
            f"Rows of one group of the reference {name!r} have different values of {group_class!r}.",
            allowed="a class that all rows of a group share",
            instead="adding to within the columns that separate groups, or a class of the whole group",
        )


def _seldom(groups: Indices | Floats) -> list[str]:
    few = int((groups < _FEW).sum())
    return [f"less than {_FEW} groups reveal about {few} of {len(groups)} classes"] if few else []


def _alike(table: Indices, of_unit: Indices, counts: Indices, domain: Domain) -> list[str]:
    """Note the correlation of two rows of a group beyond that of their class, if it is certain and large enough.

    The correlation is that of numbers, or of indicators of labels, given the class.
    """
    features = domain.numbers[:, None] if domain.numeric else np.eye(len(domain.points))
    sizes = counts.sum(axis=1, keepdims=True)
    centred = features[None] - (counts @ features / np.maximum(sizes, 1))[:, None]
    given, times = centred[of_unit], table.astype(np.float64)
    squares = (times[:, :, None] * given**2).sum(axis=(1, 2))
    pairs = (((times[:, :, None] * given).sum(axis=1) ** 2).sum(axis=1) - squares) / 2
    rows = times.sum(axis=1)
    number, spread = float((rows * (rows - 1) / 2).sum()), float(squares.sum() / rows.sum())
    error = float(np.sqrt((pairs**2).sum()))
    if number == 0 or spread == 0 or error == 0:
        return []
    effect = float(pairs.sum()) / number / spread
    if abs(effect) < LEAST_EFFECT or abs(pairs.sum()) < _SURE * error:
        return []
    return [f"rows of one group have the correlation {effect:.2f} beyond what their class explains"]
