"""Rows of a group that share a hidden class, and nothing else (M21): one such prior, or all near a counted one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import set_fields
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Domain, Label
from pufferflow.models.priors.base import DECLARED, Prior, stored_provenance, wrong_secret
from pufferflow.models.priors.near import Around, slack_in_words
from pufferflow.models.probabilities import (
    Probability,
    as_array,
    as_list,
    least_of_law,
    read_law,
    restored_law,
    stored_law,
)
from pufferflow.models.reference import Provenance, Reference
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.models.stored import ADDED


@final
@suggests_arguments
@dataclass(frozen=True)
class LatentClass(Prior, kind="latent class"):
    """A group has class c with probability `weights[c]`; given it, its rows are independent with the law `rows[c]`.

    `rows[c]` has a probability for each point of the domain of the column that the secret names. The secret is that
    column, `pf.Secret(column, domain)`, or the class itself, `pf.Derived(name, values, column=column, domain=domain)`.
    Its values name the classes (0, 1, … by default). If all probabilities are Fractions the laws are exact; with floats
    they are floats.

    >>> LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]]).describe()
    'the rows of a group share one of 2 hidden classes, and are independent given it'
    """

    weights: tuple[Probability, ...]
    rows: tuple[tuple[Probability, ...], ...]
    provenance: Provenance = field(default=DECLARED, metadata=ADDED, repr=False)
    shared_class = True
    allows_tuples = True
    allows_missing = True
    joint_laws = True
    allows_weights = True

    def __init__(self, weights: Any, rows: Any, provenance: Provenance = DECLARED) -> None:
        shares = read_law(weights, "weights")
        laws = tuple(read_law(law, f"rows[{c}]") for c, law in enumerate(as_list(rows, "rows")))
        lengths = {len(law) for law in laws}
        if len(laws) != len(shares) or len(lengths) != 1 or min(lengths) < 2:
            raise UsageError(
                f"{len(shares)} weights and {len(laws)} rows, of lengths {sorted(lengths)}.",
                allowed="a row for each class, with a probability for each of the two or more values of a domain",
                instead="pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]])",
            )
        set_fields(self, weights=shares, rows=laws, provenance=provenance)

    @classmethod
    @suggests_arguments
    def fit(  # noqa: PLR0913 - what to read of the reference, and how
        cls,
        reference: Reference,
        column: str,
        group_class: str | None,
        within: str | Sequence[str],
        *,
        domain: object = None,
        classes: Sequence[Label] | int | None = None,
        slack: float | Literal["confidence"] | None = None,
        confidence: float = 0.95,
    ) -> "LatentClass | LatentClassesNear":
        """Return the classes of the groups in a named public reference, where the class of every group is a column.

        Groups are rows with equal `within`; each has one value of `group_class`. Classes are in the order of `classes`,
        sorted by default. In the private data the class may be hidden. State i of a row is the i-th value of `domain`,
        by default the sorted values of the column. Half a draw is added to every count.

        `slack` makes a class of priors. With slack="confidence" these are all whose laws lie in certain regions. The
        regions hold the true laws of class and rows together with that confidence. This assumes independent groups, and
        rows that are independent given the class. A number allows every probability that much more or less.

        If the class is hidden in the reference too, group_class=None with classes=2 estimates the two likeliest. No
        bound on their error is known, so slack="confidence" is not available; you may declare a number.

        >>> import polars as pl, pufferflow as pf
        >>> rows = pl.DataFrame({"house": [1, 1, 2, 2], "tariff": ["day"] * 2 + ["night"] * 2, "on": [0, 0, 0, 1]})
        >>> LatentClass.fit(pf.Reference("a study", rows), "on", "tariff", "house").rows[0]
        (0.8333333333333334, 0.16666666666666666)
        """
        from pufferflow.models.fitting.latent_class import fit_classes
        from pufferflow.models.fitting.table import ESTIMATED, read_slacks

        width, level = read_slacks(slack, confidence)
        fitted = fit_classes(reference, column, group_class, within, domain=domain, classes=classes)
        if width is None:
            source = (
                fitted.provenance if group_class is None else fitted.provenance.noted(ESTIMATED)
            )
            return cls(*fitted.laws, source)
        exact = None if width == "confidence" else width
        weights, rows = map(Around.of, fitted.regions(exact, level))
        return LatentClassesNear(
            weights, rows, exact, level if exact is None else None, fitted.provenance
        )

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The weights of the classes and the laws of their rows: Fractions if all of them are, floats otherwise."""
        both = as_array([*self.weights, *(mass for law in self.rows for mass in law)])
        return both[: len(self.weights)], both[len(self.weights) :].reshape(len(self.weights), -1)

    def classes(self, secret: Derived) -> dict[Label, int]:
        """Return the classes that can occur, by the names that a secret gives them."""
        return {
            name: c
            for name, c in named_classes(secret, len(self.weights)).items()
            if self.weights[c] > 0
        }

    def check(self, secret: AnySecret) -> None:
        domain = check_secret(secret, len(self.rows[0]))
        if isinstance(secret, Derived):
            secret.value_pairs(list(self.classes(secret)))
            return
        weights, rows = self.arrays
        never = [
            point
            for point, masses in zip(domain.points, rows.T, strict=True)
            if not (weights * masses).sum() > 0
        ]
        if never and isinstance(secret, Secret):
            raise UsageError(
                f"The prior never produces {secret.column} = {never[0]!r}.",
                allowed="a domain whose points have a probability above 0 in some class",
                instead="a domain without it, and rows without its column",
            )

    def least_probability(self, secret: AnySecret) -> float:
        weights, rows = self.arrays
        return least_of_law(weights @ rows)

    def describe(self) -> str:
        classes = f"one of {len(self.weights)} hidden classes"
        return f"the rows of a group share {classes}, and are independent given it{self.source_in_words}"

    def stored(self) -> dict[str, Any]:
        rows = [stored_law(law) for law in self.rows]
        return {**super().stored(), "weights": stored_law(self.weights), "rows": rows}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "LatentClass":
        rows = [restored_law(law) for law in stored["rows"]]
        return cls(restored_law(stored["weights"]), rows, stored_provenance(stored))


@final
@dataclass(frozen=True)
class LatentClassesNear(Prior, kind="latent classes"):
    """The rows of a group share a class; the weights and the laws of rows lie near those that were counted.

    Made by `pf.LatentClass.fit` with a slack: `weights` holds one law, that of the class, `rows` one for each class. A
    guarantee holds for all members at once.
    """

    weights: Around
    rows: Around
    slack: float | None = None
    confidence: float | None = None
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)
    shared_class = True
    joint_laws = True
    allows_weights = True

    def __post_init__(self) -> None:
        weights, rows = self.regions
        if len(weights) != 1 or weights.states != len(rows) or rows.states <= 1:
            raise UsageError(
                "The stored weights and rows of latent classes do not fit each other.",
                allowed="what pf.LatentClass.fit gave",
                instead="pf.LatentClass.fit(reference, column, group_class, within, slack='confidence')",
            )

    @property
    def regions(self) -> tuple[LawRegions, LawRegions]:
        """The region of the weights, one law, and those of the rows, one for each class."""
        return self.weights.regions, self.rows.regions

    def classes(self, secret: Derived) -> dict[Label, int]:
        """Return the classes by the names that a secret gives them."""
        return named_classes(secret, len(self.rows.centre))

    def check(self, secret: AnySecret) -> None:
        domain = check_secret(secret, len(self.rows.centre[0]))
        if isinstance(secret, Derived):
            secret.value_pairs(list(self.classes(secret)))
            return
        never = np.flatnonzero(np.array(self.rows.high).max(axis=0) == 0).tolist()
        if never:
            raise UsageError(
                f"The prior never produces {domain.points[never[0]]!r}.",
                allowed="a domain whose points have a probability above 0 in some class",
                instead="a domain without it, and a reference read with that domain",
            )

    def describe(self) -> str:
        where = slack_in_words(self.slack, self.confidence, "groups")
        return (
            f"the rows of a group share one of {len(self.rows.centre)} hidden classes, and are independent given it; "
            f"the laws of class and rows are {where}{self.source_in_words}"
        )

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "LatentClassesNear":
        weights, rows = (Around.restored(stored[name]) for name in ("weights", "rows"))
        return cls(weights, rows, stored["slack"], stored["confidence"], stored_provenance(stored))


def named_classes(secret: Derived, count: int) -> dict[Label, int]:
    """Return the classes by the names that a secret gives them."""
    names = secret.values if secret.values is not None else tuple(range(count))
    if len(names) != count:
        raise UsageError(
            f"The secret {secret.name!r} has {len(names)} values, and the prior {count} classes.",
            allowed="a name for each class, in their order",
            instead=f"pf.Derived({secret.name!r}, values={list(range(count))}, …)",
        )
    return {name: c for c, name in enumerate(names)}


def check_secret(secret: AnySecret, points: int) -> Domain:
    """Return the domain of a secret whose column has that many points; refuse any other secret."""
    if not isinstance(secret, Secret | Derived):
        allowed = "pf.Secret(column, domain), or pf.Derived for the class: rows have no first one, and all are there"
        raise wrong_secret(
            "LatentClass", secret, allowed=allowed, instead="pf.Secret, or another prior"
        )
    if secret.reads is None:
        raise UsageError(
            "The prior LatentClass needs a column, and the secret names none.",
            allowed="a secret with the queried column, and its domain",
            instead='pf.Derived("class", column="level", domain=[0, 1])',
        )
    domain = secret.reads[1]
    if not domain.finite or len(domain.points) != points:
        found = f"{len(domain.points)} points" if domain.finite else "all points of an interval"
        raise UsageError(
            f"The rows of the prior LatentClass have {points} entries, and the domain {found}.",
            allowed="a list of values or pf.Bins, with one entry for each point, in their order",
            instead=f"domain={list(range(points))}",
        )
    return domain
