"""Rows of a group that share a hidden class, and nothing else (M21)."""

from dataclasses import dataclass
from typing import Any, final

from pufferflow.arguments import set_fields
from pufferflow.arrays import Array
from pufferflow.errors import Misuse
from pufferflow.scenario.domain import Domain, Label
from pufferflow.scenario.priors.prior import (
    Prior,
    Probability,
    as_array,
    as_list,
    read_law,
    restored_law,
    stored_law,
    wrong_secret,
)
from pufferflow.scenario.secret import AnySecret, Derived, Secret
from pufferflow.suggestions import suggests_arguments


@final
@suggests_arguments
@dataclass(frozen=True)
class LatentClass(Prior, kind="latent class"):
    """A group has class c with probability `weights[c]`; given it, its rows are independent with the law `rows[c]`.

    `rows[c]` has a probability for each point of the domain of the column that the secret names. The secret is that
    column, `pf.Secret(column, domain)`, or the class itself: `pf.Derived(name, values, column=column, domain=domain)`,
    whose values name the classes (0, 1, … if left out). All Fractions make exact laws; with floats they are floats.

    >>> LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]]).describe()
    'the rows of a group share one of 2 hidden classes, and are independent given it'
    """

    weights: tuple[Probability, ...]
    rows: tuple[tuple[Probability, ...], ...]
    shared_class = True
    joint_laws = True

    def __init__(self, weights: Any, rows: Any) -> None:
        shares = read_law(weights, "weights")
        laws = tuple(read_law(law, f"rows[{c}]") for c, law in enumerate(as_list(rows, "rows")))
        lengths = {len(law) for law in laws}
        if len(laws) != len(shares) or len(lengths) != 1 or min(lengths) < 2:
            raise Misuse(
                f"{len(shares)} weights and {len(laws)} rows, of lengths {sorted(lengths)}.",
                allowed="a row for each class, with a probability for each of the two or more values of a domain",
                instead="pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]])",
            )
        set_fields(self, weights=shares, rows=laws)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The weights of the classes and the laws of their rows: Fractions if all of them are, floats otherwise."""
        both = as_array([*self.weights, *(mass for law in self.rows for mass in law)])
        return both[: len(self.weights)], both[len(self.weights) :].reshape(len(self.weights), -1)

    def classes(self, secret: Derived) -> dict[Label, int]:
        """Return the classes that can occur, by the names that a secret gives them."""
        names = secret.values if secret.values is not None else tuple(range(len(self.weights)))
        if len(names) != len(self.weights):
            raise Misuse(
                f"The secret {secret.name!r} has {len(names)} values, and the prior {len(self.weights)} classes.",
                allowed="a name for each class, in their order",
                instead=f"pf.Derived({secret.name!r}, values={list(range(len(self.weights)))}, …)",
            )
        return {name: c for c, name in enumerate(names) if self.weights[c] > 0}

    def check(self, secret: AnySecret) -> None:
        if not isinstance(secret, Secret | Derived):
            allowed = (
                "pf.Secret(column, domain), or pf.Derived for the class: rows have no first one, and all are there"
            )
            raise wrong_secret("LatentClass", secret, allowed=allowed, instead="pf.Secret, or another prior")
        if secret.reads is None:
            raise Misuse(
                "The prior LatentClass, with a secret that names no column.",
                allowed="a secret with the column that is asked about, and its domain",
                instead='pf.Derived("class", column="level", domain=[0, 1])',
            )
        self._check_domain(secret.reads[1])
        if isinstance(secret, Derived):
            secret.value_pairs(list(self.classes(secret)))
            return
        weights, rows = self.arrays
        never = [
            point
            for point, masses in zip(secret.domain.points, rows.T, strict=True)
            if not (weights * masses).sum() > 0
        ]
        if never:
            raise Misuse(
                f"The prior never produces {secret.column} = {never[0]!r}.",
                allowed="a domain whose points have a probability above 0 in some class",
                instead="a domain without it, and rows without its column",
            )

    def _check_domain(self, domain: Domain) -> None:
        if not domain.finite or len(domain.points) != len(self.rows[0]):
            points = f"{len(domain.points)} points" if domain.finite else "all points of an interval"
            raise Misuse(
                f"The rows of the prior LatentClass have {len(self.rows[0])} entries, and the domain {points}.",
                allowed="a list of values or pf.Bins, with one entry for each point, in their order",
                instead=f"domain={list(range(len(self.rows[0])))}",
            )

    def describe(self) -> str:
        return f"the rows of a group share one of {len(self.weights)} hidden classes, and are independent given it"

    def stored(self) -> dict[str, Any]:
        rows = [stored_law(law) for law in self.rows]
        return {"kind": self.kind, "weights": stored_law(self.weights), "rows": rows}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "LatentClass":
        return cls(restored_law(stored["weights"]), [restored_law(law) for law in stored["rows"]])
